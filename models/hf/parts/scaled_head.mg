%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    z = (norm(x) as "model.norm") @ $(tied ? "embed" : "unembed") over hidden
    $(loss_)logit_scale * z$_loss
}

