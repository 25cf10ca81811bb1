%# GPT-2 (OpenAI, 2019).
%include "parts/any.mg"
%key hidden : whole = 768 from n_embd as hidden
%key layers : whole = 12 from n_layer as layers
%key heads : whole = 12 from n_head as heads
%key ffn : whole = 4 * hidden from n_inner as ffn
%key vocab : whole = 50257 from vocab_size as vocab
%key seq : whole = 1024 from n_positions as seq
%key eps : positive = 1e-5 from layer_norm_epsilon as eps
%key std : positive = 0.02 from initializer_range as std
%key act_word : word = "gelu_new" from activation_function
%key tied : flag = true from tie_word_embeddings
%key scaled : flag = true from scale_attn_weights
%key scale_attn_by_inverse_layer_idx : flag = false only false
%key drop_embed : number = 0.1 from embd_pdrop as drop_embed
%key drop_attention : number = 0.1 from attn_pdrop as drop_attention
%key drop : number = 0.1 from resid_pdrop as drop
%ignore n_ctx, reorder_and_upcast_attn, summary_type, summary_use_proj, summary_activation, summary_proj_to_labels, summary_first_dropout
%require hidden % heads == 0, "n_head", "does not divide the hidden size"
%require drop_embed >= 0 and drop_embed < 1, "embd_pdrop", "is no probability below 1"
%require drop_attention >= 0 and drop_attention < 1, "attn_pdrop", "is no probability below 1"
%require drop >= 0 and drop < 1, "resid_pdrop", "is no probability below 1"
%extra "*.attn.bias"
%extra "*.attn.masked_bias"
%if tied
%extra "lm_head.weight"
%end
%# Published files have bare names, those that save_pretrained writes begin with this.
%let base = stored("wte.weight") ? "" : "transformer."
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, heads = $heads, head = $(hidden // heads), ffn = $ffn, qkv = 3
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, std = $std
%if drop_embed + drop_attention + drop > 0
const drop_embed = $drop_embed, drop_attention = $drop_attention, drop = $drop  # of training
%else
%key drop_embed : number = 0 from embd_pdrop
%key drop_attention : number = 0 from attn_pdrop
%key drop : number = 0 from resid_pdrop
%end

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = eps)
}

block attend(x[hidden]$starts) {
    w : param[hidden, qkv, heads, head] ~ normal(std) as "c_attn.weight" [hidden, (qkv heads head)]
    b : param[qkv, heads, head] = 0 as "c_attn.bias" [(qkv heads head)]
    wo : param[heads, head, hidden] ~ normal(std / sqrt(2 * layers)) as "c_proj.weight" [(heads head), hidden]
    bo : param[hidden] = 0 as "c_proj.bias"
%if drop_attention > 0
    dim t = seq
%end
    y = x @ w over hidden + b
    q = pick(y, along qkv, at = 0)
    k = pick(y, along qkv, at = 1)
    v = pick(y, along qkv, at = 2)
%if drop_attention > 0
    scores = q @ k[seq -> t] over head$(scaled ? " / sqrt(head)" : "")
%if packed
    scores = select(index(t) >= start, scores, -1e30)
%end
    share = softmax(select(index(t) <= index(seq), scores, -1e30), over t)
    return dropout(share, p = drop_attention) @ v[seq -> t] over t @ wo over (heads, head) + bo
%else
    return attention(q, k, v$starts, along seq, over head, causal$(scaled ? "" : ", scale = 1")) @ wo over (heads, head) + bo
%end
}

%if packed
# The row of each token's position in its document.
block placed(table[seq, hidden], start) {
    dim t = seq
    return select(index(t) == index(seq) - start, 1, 0) @ table[seq -> t] over t
}

%end
%let act_key = "activation_function"
%include "parts/activation.mg"
block mlp(x[hidden]) {
    w : param[hidden, ffn] ~ normal(std) as "c_fc.weight"
    b : param[ffn] = 0 as "c_fc.bias"
    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "c_proj.weight"
    bo : param[hidden] = 0 as "c_proj.bias"
    return $act(x @ w over hidden + b) @ wo over ffn + bo
}

%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind gpt2($input$weights) {
%include "parts/start.mg"
    wte : param[vocab, hidden] ~ normal(std) as "$(base)wte.weight"
    wpe : param[seq, hidden] ~ normal(std / 2) as "$(base)wpe.weight"
%let placed = packed ? "wte[tokens] + placed(wpe, start)" : "wte[tokens] + wpe"
    x = $(drop_embed > 0 ? "dropout(" + placed + ", p = drop_embed)" : placed)
    repeat layers as "$(base)h.{}" {
        x = x + $(drop_)attend(norm(x) as "ln_1"$starts) as "attn"$_drop
        x = x + $(drop_)mlp(norm(x) as "ln_2") as "mlp"$_drop
    }
%if tied
    $(loss_)(norm(x) as "$(base)ln_f") @ wte over hidden$_loss
%else
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
    $(loss_)(norm(x) as "$(base)ln_f") @ unembed over hidden$_loss
%end
}

%let over_tp = "heads, ffn, vocab"
%include "parts/train.mg"
