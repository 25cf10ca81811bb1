%# Falcon (TII, 2023): queries, keys and values of each group of heads behind each other; without alibi.
%include "parts/any.mg"
%key hidden : whole = 4544 from hidden_size as hidden
%key layers : whole = 32 from num_hidden_layers as layers
%key all_heads : whole = 71 from num_attention_heads as kv_heads * group
%key grouped_heads : flag = false from new_decoder_architecture
%key multi_query : flag = true
%key kv_given : whole = all_heads from num_kv_heads
%if grouped_heads
%key kv_given : whole = all_heads from num_kv_heads as kv_heads
%end
%let kv_heads = grouped_heads ? kv_given : multi_query ? 1 : all_heads
%key ffn : whole = 4 * hidden from ffn_hidden_size as ffn
%key vocab : whole = 65024 from vocab_size as vocab
%key positions : whole = 2048 from max_position_embeddings
%key eps : positive = 1e-5 from layer_norm_epsilon as eps
%key std : positive = 0.02 from initializer_range as std
%key act_word : word = "gelu" from activation
%key tied : flag = true from tie_word_embeddings
%key alibi : flag = false only false
%key bias : flag = false
%key parallel : flag = true from parallel_attn
%require parallel or not grouped_heads, "parallel_attn", "is false, which is not built with new_decoder_architecture"
%key norms_given : whole? = null from num_ln_in_parallel_attn
%let norms = norms_given == null ? (grouped_heads ? 2 : 1) : norms_given
%require norms == 1 or (norms == 2 and grouped_heads), "num_ln_in_parallel_attn", "is not built with this architecture"
%key drop : number = 0 from hidden_dropout
%let drop_key = drop, drop_name = "hidden_dropout"
%include "parts/drop.mg"
%if drop > 0
%key drop : number = 0 from hidden_dropout as drop
%end
%# Where attention and MLP are side by side, transformers does not use it.
%key drop_attention : number = 0 from attention_dropout
%require parallel or drop_attention == 0, "attention_dropout", "is not 0, which is what is built where attention is before the MLP"
%ignore apply_residual_connection_post_layernorm
%require hidden % all_heads == 0, "num_attention_heads", "does not divide the hidden size"
%require all_heads % kv_heads == 0, "num_kv_heads", "does not divide num_attention_heads"
%let head = hidden // all_heads, seq = positions < 4096 ? positions : 4096
%include "parts/rope_keys.mg"
%if tied
%extra "lm_head.weight"
%end
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), places = group + 2, head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$(drop > 0 ? ", drop = " + drop : "")
const key_place = group, value_place = group + 1

%let layer_norm = true, norm_bias = true
%include "parts/norm.mg"
%include "parts/rope.mg"
# In each group the places are those of its queries, of the key and of the value.
block attend(x[hidden]$starts) {
    w : param[hidden, kv_heads, places, head] ~ normal(std) as "query_key_value.weight" [(kv_heads places head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "dense.weight" [hidden, (kv_heads group head)]
%if bias
    b : param[kv_heads, places, head] = 0 as "query_key_value.bias" [(kv_heads places head)]
    bo : param[hidden] = 0 as "dense.bias"
%end
    y = x @ w over hidden$(bias ? " + b" : "")
    q = $(rope_)y[places = 0 .. group]$_rope
    k = $(rope_)y[places = key_place]$_rope
    v = y[places = value_place]
    return attention(q, k, v$starts, along seq, over head, causal) @ wo over (kv_heads, group, head)$(bias ? " + bo" : "")
}

%let act_key = "activation"
%include "parts/activation.mg"
block mlp(x[hidden]) {
    w : param[hidden, ffn] ~ normal(std) as "dense_h_to_4h.weight" [ffn, hidden]
    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "dense_4h_to_h.weight" [hidden, ffn]
%if bias
    b : param[ffn] = 0 as "dense_h_to_4h.bias"
    bo : param[hidden] = 0 as "dense_4h_to_h.bias"
    return $act(x @ w over hidden + b) @ wo over ffn + bo
%else
    return $act(x @ w over hidden) @ wo over ffn
%end
}

%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind falcon($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "transformer.word_embeddings.weight"
    x = embed[tokens]
    repeat layers as "transformer.h.{}" {
%if not parallel
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attention"
        x = x + $(drop_)mlp(norm(x) as "post_attention_layernorm") as "mlp"$_drop
%else
%if norms == 2
        y = attend(norm(x) as "ln_attn"$starts) as "self_attention"
        y = y + mlp(norm(x) as "ln_mlp") as "mlp"
%else
        h = norm(x) as "input_layernorm"
        y = attend(h$starts) as "self_attention" + mlp(h) as "mlp"
%end
        x = x + $(drop_)y$_drop
%end
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    $(loss_)(norm(x) as "transformer.ln_f") @ $(tied ? "embed" : "unembed") over hidden$_loss
}

%let over_tp = "ffn, vocab"
%include "parts/train.mg"
