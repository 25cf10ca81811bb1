block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return rmsnorm(x, gain, over hidden, eps = eps)
}

# Of short vectors.
block short_norm(x, over d) {
    gain : param[d] = 1 as "weight"
    return rmsnorm(x, gain, over d, eps = 1e-6)
}

%include "parts/rope.mg"
%if pairs
# Neighbours turn; both sides of a score may be ordered in another way.
block turned(x[turn]$starts) {
    return $(rope_)x[turn -> (half, two)][(two, half) -> turn]$_rope
}

%let rope_ = "turned(", _rope = starts + ")"
%end
block attend(x[hidden]$starts) {
%if narrow == null
    wq : param[hidden, heads, key] ~ normal(std) as "q_proj.weight" [(heads key), hidden]
%else
    wa : param[hidden, narrow] ~ normal(std) as "q_a_proj.weight" [narrow, hidden]
%if attention_bias
    ba : param[narrow] = 0 as "q_a_proj.bias"
%end
    wq : param[narrow, heads, key] ~ normal(std) as "q_b_proj.weight" [(heads key), narrow]
%end
    wkv : param[hidden, short] ~ normal(std) as "kv_a_proj_with_mqa.weight" [short, hidden]
%if attention_bias
    bkv : param[short] = 0 as "kv_a_proj_with_mqa.bias"
%end
    up : param[latent, heads, kv] ~ normal(std) as "kv_b_proj.weight" [(heads kv), latent]
    wo : param[heads, value, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (heads value)]
%if attention_bias
    bo : param[hidden] = 0 as "o_proj.bias"
%end
%if narrow == null
    q = x @ wq over hidden
%else
    q = (short_norm(x @ wa over hidden$(attention_bias ? " + ba" : ""), over narrow) as "q_a_layernorm") @ wq over narrow
%end
    c = x @ wkv over hidden$(attention_bias ? " + bkv" : "")
    both = (short_norm(c[short = 0 .. latent], over latent) as "kv_a_layernorm") @ up over latent
    q = join(q[key = 0 .. still], $(rope_)q[key = still .. key -> turn]$_rope, (still, turn) -> key)
    k = join(both[kv = 0 .. still], $(rope_)c[short = latent .. short -> turn]$_rope, (still, turn) -> key)
    v = both[kv = still .. kv -> value]
    return attention(q, k, v$starts, along seq, over key, causal$score_scale) @ wo over (heads, value)$(attention_bias ? " + bo" : "")
}

