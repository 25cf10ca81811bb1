%# Attention with grouped queries. Before it: qkv_bias, out_bias, out_name (of the last product), qk_norm ("head": queries and keys are normed,
%# head by head; "all": all heads together; "centered" and "tensors": head by head, also centered, with the gains of all heads in one tensor
%# or each in its own; "biased": likewise with one gain and bias), sinks (a score beside those of a head's keys), roped (not empty: the number `roped` says whether positions turn), takes
%# (what the block is given beside x), window_name, cap_name, scale_expr (of scores), drop_attention (of what the softmax gives).
%if drop_attention > 0
const drop_attention = $drop_attention  # of training

%end
block attend(x[hidden]$starts$takes) {
%if drop_attention > 0
    dim t = seq
%end
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "q_proj.weight" [(kv_heads group head), hidden]
%if qkv_bias
    bq : param[kv_heads, group, head] = 0 as "q_proj.bias" [(kv_heads group head)]
%end
    wk : param[hidden, kv_heads, head] ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
%if qkv_bias
    bk : param[kv_heads, head] = 0 as "k_proj.bias" [(kv_heads head)]
%end
    wv : param[hidden, kv_heads, head] ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
%if qkv_bias
    bv : param[kv_heads, head] = 0 as "v_proj.bias" [(kv_heads head)]
%end
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "$out_name.weight" [hidden, (kv_heads group head)]
%if out_bias
    bo : param[hidden] = 0 as "$out_name.bias"
%end
%if sinks
    sink : param[kv_heads, group] ~ normal(std) as "sinks" [(kv_heads group)]
%end
%let q = qkv_bias ? "x @ wq over hidden + bq" : "x @ wq over hidden"
%let k = qkv_bias ? "x @ wk over hidden + bk" : "x @ wk over hidden"
%if qk_norm == "head"
    nq : param[head] = $ones as "q_norm.weight"
    nk : param[head] = $ones as "k_norm.weight"
%let q = "rmsnorm(" + q + ", " + plus + "nq, over head, eps = eps)"
%let k = "rmsnorm(" + k + ", " + plus + "nk, over head, eps = eps)"
%elif qk_norm == "all"
    nq : param[kv_heads, group, head] = $ones as "q_norm.weight" [(kv_heads group head)]
    nk : param[kv_heads, head] = $ones as "k_norm.weight" [(kv_heads head)]
%let q = "rmsnorm(" + q + ", nq, over (kv_heads, group, head), eps = eps)"
%let k = "rmsnorm(" + k + ", nk, over (kv_heads, head), eps = eps)"
%elif qk_norm == "centered"
    nq : param[kv_heads, group, head] = 1 as "q_norm.weight" [(kv_heads group), head]
    nk : param[kv_heads, head] = 1 as "k_norm.weight"
%let q = "centered(" + q + ", nq, over head)"
%let k = "centered(" + k + ", nk, over head)"
%elif qk_norm == "biased"
    nq : param[head] = 1 as "q_layernorm.weight"
    nqb : param[head] = 0 as "q_layernorm.bias"
    nk : param[head] = 1 as "k_layernorm.weight"
    nkb : param[head] = 0 as "k_layernorm.bias"
%let q = "layernorm(" + q + ", nq, nqb, over head, eps = eps)"
%let k = "layernorm(" + k + ", nk, nkb, over head, eps = eps)"
%elif qk_norm == "tensors"
    nq : param[q_heads, head] = 1 as "q_layernorm.norms.{}.weight"
    nk : param[kv_heads, head] = 1 as "k_layernorm.norms.{}.weight"
%let q = "centered(" + q + ", nq[q_heads -> (kv_heads, group)], over head)"
%let k = "centered(" + k + ", nk, over head)"
%end
%if roped == ""
    q = $(rope_)$(q)$(_rope)
    k = $(rope_)$(k)$(_rope)
%else
    q = $q
    k = $k
    q = select(roped, $(rope_)q$(_rope), q)
    k = select(roped, $(rope_)k$(_rope), k)
%end
    v = x @ wv over hidden$(qkv_bias ? " + bv" : "")
%if drop_attention > 0
%let scores = "q @ k[seq -> t] over head" + (scale_expr == "" ? " / sqrt(head)" : " * (" + scale_expr + ")")
    scores = $(cap_name == "" ? scores : cap_name + " * tanh(" + scores + " / " + cap_name + ")")
    scores = select(index(t) <= index(seq), scores, -1e30)
%if packed
    scores = select(index(t) >= start, scores, -1e30)
%end
%if window_name != ""
    scores = select(index(seq) - index(t) < $window_name, scores, -1e30)
%end
    y = dropout(softmax(scores, over t), p = drop_attention) @ v[seq -> t] over t
    return y @ wo over (kv_heads, group, head)$(out_bias ? " + bo" : "")
%else
%let with = (window_name == "" ? "" : ", window = " + window_name) + (cap_name == "" ? "" : ", cap = " + cap_name) + (scale_expr == "" ? "" : ", scale = " + scale_expr) + (sinks ? ", sink = sink" : "")
    return attention(q, k, v$starts, along seq, over head, causal$with) @ wo over (kv_heads, group, head)$(out_bias ? " + bo" : "")
%end
}

