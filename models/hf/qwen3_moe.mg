%# Qwen3-30B-A3B and 235B-A22B (Alibaba, 2025): experts, and norms of queries and keys.
%include "parts/any.mg"
%let default_hidden = 2048, default_layers = 24, default_kv_heads = 4, default_vocab = 151936, default_positions = 32768
%include "parts/sizes.mg"
%let default_experts = 128, default_best = 8, default_wide = 768, default_ffn = 6144, default_norm_topk = false
%include "parts/sparse_keys.mg"
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key use_window : flag = false from use_sliding_window
%key window_given : whole? = 4096 from sliding_window
%ignore max_window_layers
%let window = use_window ? window_given : null
%let layer_types = [window != null ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head$(sparse == "1" ? "" : ", ffn = " + ffn)
# Each choice has a row, sorted by expert: nothing is dropped.
dim experts = $experts, choice = experts, best = $best, rows = best * seq, wide = $wide
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const$balancing_const

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias, qk_norm = "head"
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/sparse_blocks.mg"
%if sparse != "1"
%let at = " at l"
%end
$kind qwen3_moe($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
%include "parts/balanced_begin.mg"
    repeat layers$at as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
%include "parts/sparse_layer.mg"
    }
%include "parts/head.mg"
%let over_tp = "kv_heads, " + (sparse == "1" ? "" : "ffn, ") + "wide, vocab", experts_split = true
%include "parts/train.mg"
