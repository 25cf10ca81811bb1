%# Qwen3-Next (Alibaba, 2025): three layers of four have a state that the gated delta rule updates, the fourth attends and has a gate behind
%# attention; experts beside one that all go through; norms whose gain is counted from 1.
%include "parts/any.mg"
%let default_hidden = 2048, default_layers = 48, default_heads = 16, default_kv_heads = 2, default_vocab = 151936, default_positions = 32768
%let default_head = 256
%let drops_attention = false
%include "parts/sizes.mg"
%let default_experts = 512, default_best = 10, default_wide = 512, default_ffn = 5632, default_norm_topk = true
%include "parts/sparse_keys.mg"
%key shared_size : whole = 512 from shared_expert_intermediate_size as shared
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key every : whole = 4 from full_attention_interval
%key layer_types : list = [(l + 1) % every != 0 ? "linear_attention" : "full_attention" for l < layers]
%require len(layer_types) == layers and count(layer_types, "linear_attention") + count(layer_types, "full_attention") == layers, "layer_types", "does not say of each layer 'linear_attention' or 'full_attention'"
%let attends = where(layer_types, "full_attention")
%require not packed or attends == "1", "model_type", "has layers that carry a state from position to position: documents cannot be kept apart in a window, as --packed and mgc tune do; import-hf without it writes the model, and an adapter is a line of its train block"
%key tap : whole = 4 from linear_conv_kernel_dim
%key key_size : whole = 128 from linear_key_head_dim
%key value_size : whole = 128 from linear_value_head_dim
%key key_heads : whole = 16 from linear_num_key_heads
%key value_heads : whole = 32 from linear_num_value_heads
%if attends != "1"
%key tap : whole = 4 from linear_conv_kernel_dim as tap
%key key_size : whole = 128 from linear_key_head_dim as key
%key value_size : whole = 128 from linear_value_head_dim as value
%key key_heads : whole = 16 from linear_num_key_heads as states
%key value_heads : whole = 32 from linear_num_value_heads as states * member
%end
%require value_heads % key_heads == 0, "linear_num_key_heads", "does not divide linear_num_value_heads"
%let default_partial = 0.25
%include "parts/rope_keys.mg"
%extra "mtp.*"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head$(sparse == "1" ? "" : ", ffn = " + ffn), two = 2
%if attends != "0"
%include "parts/turn_dims.mg"
%end
%if attends != "1"
dim states = $key_heads, member = $(value_heads // key_heads), key = $key_size, value = $value_size, tap = $tap
dim wide_value = member * value, places = 2 * key + 2 * wide_value
%end
# Each choice has a row, sorted by expert: nothing is dropped.
dim experts = $experts, choice = experts, best = $best, rows = best * seq, wide = $wide
dim shared = $shared_size, one = 1
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$balancing_const

%let ones = 0, plus = "1 + "
%include "parts/norm.mg"
%if attends != "0"
%include "parts/rope.mg"
# Of each head of queries the first half asks, the second is a gate.
block attend(x[hidden]$starts) {
    wq : param[hidden, kv_heads, group, two, head] ~ normal(std) as "q_proj.weight" [(kv_heads group two head), hidden]
    wk : param[hidden, kv_heads, head] ~ normal(std) as "k_proj.weight" [(kv_heads head), hidden]
    wv : param[hidden, kv_heads, head] ~ normal(std) as "v_proj.weight" [(kv_heads head), hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
%if attention_bias
    bq : param[kv_heads, group, two, head] = 0 as "q_proj.bias" [(kv_heads group two head)]
    bk : param[kv_heads, head] = 0 as "k_proj.bias" [(kv_heads head)]
    bv : param[kv_heads, head] = 0 as "v_proj.bias" [(kv_heads head)]
    bo : param[hidden] = 0 as "o_proj.bias"
%end
    nq : param[head] = 0 as "q_norm.weight"
    nk : param[head] = 0 as "k_norm.weight"
    y = x @ wq over hidden$(attention_bias ? " + bq" : "")
    q = $(rope_)rmsnorm(y[two = 0], 1 + nq, over head, eps = eps)$_rope
    k = $(rope_)rmsnorm(x @ wk over hidden$(attention_bias ? " + bk" : ""), 1 + nk, over head, eps = eps)$_rope
    v = x @ wv over hidden$(attention_bias ? " + bv" : "")
    z = attention(q, k, v$starts, along seq, over head, causal) * sigmoid(y[two = 1])
    return z @ wo over (kv_heads, group, head)$(attention_bias ? " + bo" : "")
}

%end
%include "parts/activation.mg"
%if attends != "1"
# The kernel of a file begins with the oldest position.
block conv(x[seq], w[tap]) {
    return $act(sum(x[seq = seq + tap - $(tap - 1)] * w, over tap))
}

# The gated delta rule (Yang and others, 2024): a state fades, forgets what a key reads in part, and takes in the value instead.
block delta(x[hidden]) {
    win : param[hidden, states, places] ~ normal(std) as "in_proj_qkvz.weight" [(states places), hidden]
    wba : param[hidden, states, two, member] ~ normal(std) as "in_proj_ba.weight" [(states two member), hidden]
    cq : param[states, key, one, tap] ~ normal(std) as "conv1d.weight" [(states key) at 0, one, tap]
    ck : param[states, key, one, tap] ~ normal(std) as "conv1d.weight" [(states key) at states * key, one, tap]
    cv : param[states, member, value, one, tap] ~ normal(std) as "conv1d.weight" [(states member value) at 2 * states * key, one, tap]
    bd : param[states, member] = 1 as "dt_bias" [(states member)]
    rate : param[states, member] = log(uniform(0.01, 16)) as "A_log" [(states member)]
    gain : param[value] = 1 as "norm.weight"
    wo : param[states, member, value, hidden] ~ normal(std / sqrt(2 * layers)) as "out_proj.weight" [hidden, (states member value)]
    p = x @ win over hidden
    ba = x @ wba over hidden
    q = conv(p[places = 0 .. key], cq[one = 0])
    k = conv(p[places = key .. 2 * key -> key], ck[one = 0])
    v = conv(p[places = 2 * key .. 2 * key + wide_value -> wide_value][wide_value -> (member, value)], cv[one = 0])
    z = p[places = 2 * key + wide_value .. places -> wide_value][wide_value -> (member, value)]
    q = q * rsqrt(sum(q * q, over key) + 1e-6) / sqrt(key)
    k = k * rsqrt(sum(k * k, over key) + 1e-6)
    r = ba[two = 1] + bd
    decay = exp(-exp(rate) * (log(1 + exp(-abs(r))) + max(r, 0)))
    part = sigmoid(ba[two = 0])
    h = expand(0, over (batch$also, states, member, key, value))
    scan seq {
        h = decay * h
        h = h + part * (v - k @ h over key) * k
        read = q @ h over key
    }
    return (rmsnorm(read, gain, over value, eps = eps) * silu(z)) @ wo over (states, member, value)
}

%end
%let shared = true
%include "parts/sparse_blocks.mg"
%let mixed = not (attends in ["0", "1"])
%if mixed or sparse != "1"
%let at = " at l"
%end
$kind qwen3_next($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
%include "parts/balanced_begin.mg"
    repeat layers$at as "model.layers.{}" {
%if mixed
        h = norm(x) as "input_layernorm"
        x = x + select($attends, attend(h$starts) as "self_attn", delta(h) as "linear_attn")
%else
        x = x + $(attends == "1" ? "attend" : "delta")(norm(x) as "input_layernorm"$(attends == "1" ? starts : "")) as "$(attends == "1" ? "self_attn" : "linear_attn")"
%end
%include "parts/sparse_layer.mg"
    }
%include "parts/head.mg"
%let over_tp = (attends == "0" ? "" : "kv_heads, ") + (sparse == "1" ? "" : "ffn, ") + "shared, wide, vocab", experts_split = true, splits_seq = false
%include "parts/train.mg"
