%# The end of a model: the last norm, the head, the loss.
%let can_be_headless = true
%if returns_hidden
    return norm(x) as "model.norm"
%else
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
%if balanced
    $(loss_)(norm(x) as "model.norm") @ $(tied ? "embed" : "unembed") over hidden$_loss
    # How unevenly experts are used, in each sequence, over all layers that have them.
    uneven = choice * mean(sum(used * asked, over choice), over batch) / ($sparse_layers * $sparse_layers)
    loss = loss + balancing * uneven
%else
    $(loss_)(norm(x) as "model.norm") @ $(tied ? "embed" : "unembed") over hidden$_loss
%end
%end
}

