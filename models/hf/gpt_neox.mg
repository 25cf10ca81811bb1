%# GPT-NeoX and Pythia (EleutherAI, 2022): attention and MLP side by side, each behind a norm of its own.
%include "parts/any.mg"
%key hidden : whole = 6144 from hidden_size as hidden
%key layers : whole = 44 from num_hidden_layers as layers
%key heads : whole = 64 from num_attention_heads as heads
%key ffn : whole = 24576 from intermediate_size as ffn
%key vocab : whole = 50432 from vocab_size as vocab
%key positions : whole = 2048 from max_position_embeddings
%key eps : positive = 1e-5 from layer_norm_eps as eps
%key std : positive = 0.02 from initializer_range as std
%key act_word : word = "gelu" from hidden_act
%key tied : flag = false from tie_word_embeddings
%key parallel : flag = true from use_parallel_residual
%key attention_bias : flag = true
%key attention_dropout : number = 0 only 0
%key drop : number = 0 from hidden_dropout
%let drop_key = drop, drop_name = "hidden_dropout"
%include "parts/drop.mg"
%if drop > 0
%key drop : number = 0 from hidden_dropout as drop
%end
%ignore classifier_dropout
%require hidden % heads == 0, "num_attention_heads", "does not divide the hidden size"
%let head = hidden // heads, seq = positions < 4096 ? positions : 4096
%key rotary_pct : positive = 0.25
%key rotary_emb_base : positive = 10000 from rotary_emb_base as theta
%let default_theta = rotary_emb_base, default_partial = rotary_pct
%include "parts/rope_keys.mg"
%extra "*.attention.bias"
%extra "*.attention.masked_bias"
%let head_name = stored("embed_out.weight") ? "embed_out.weight" : "lm_head.weight"
%if tied
%extra head_name
%end
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, heads = $heads, qkv = 3, head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$(drop > 0 ? ", drop = " + drop : "")

%let layer_norm = true, norm_bias = true
%include "parts/norm.mg"
%include "parts/rope.mg"
block attend(x[hidden]$starts) {
    w : param[hidden, heads, qkv, head] ~ normal(std) as "query_key_value.weight" [(heads qkv head), hidden]
    wo : param[heads, head, hidden] ~ normal(std / sqrt(2 * layers)) as "dense.weight" [hidden, (heads head)]
%if attention_bias
    b : param[heads, qkv, head] = 0 as "query_key_value.bias" [(heads qkv head)]
    bo : param[hidden] = 0 as "dense.bias"
%end
    y = x @ w over hidden$(attention_bias ? " + b" : "")
    q = $(rope_)y[qkv = 0]$_rope
    k = $(rope_)y[qkv = 1]$_rope
    return attention(q, k, y[qkv = 2]$starts, along seq, over head, causal) @ wo over (heads, head)$(attention_bias ? " + bo" : "")
}

%include "parts/activation.mg"
block mlp(x[hidden]) {
    w : param[hidden, ffn] ~ normal(std) as "dense_h_to_4h.weight" [ffn, hidden]
    b : param[ffn] = 0 as "dense_h_to_4h.bias"
    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "dense_4h_to_h.weight" [hidden, ffn]
    bo : param[hidden] = 0 as "dense_4h_to_h.bias"
    return $act(x @ w over hidden + b) @ wo over ffn + bo
}

%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind gpt_neox($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "gpt_neox.embed_in.weight"
    x = embed[tokens]
    repeat layers as "gpt_neox.layers.{}" {
%if parallel
        y = $(drop_)attend(norm(x) as "input_layernorm"$starts) as "attention"$_drop
        x = x + y + $(drop_)mlp(norm(x) as "post_attention_layernorm") as "mlp"$_drop
%else
        x = x + $(drop_)attend(norm(x) as "input_layernorm"$starts) as "attention"$_drop
        x = x + $(drop_)mlp(norm(x) as "post_attention_layernorm") as "mlp"$_drop
%end
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "$head_name"
%end
    $(loss_)(norm(x) as "gpt_neox.final_layer_norm") @ $(tied ? "embed" : "unembed") over hidden$_loss
}

%let over_tp = "heads, ffn, vocab"
%include "parts/train.mg"
