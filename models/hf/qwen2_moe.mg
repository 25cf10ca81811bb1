%# Qwen1.5-MoE and Qwen2-57B-A14B (Alibaba, 2024): experts, and beside them one that all go through, times a gate.
%include "parts/any.mg"
%let default_hidden = 2048, default_layers = 24, default_heads = 16, default_kv_heads = 16, default_vocab = 151936, default_positions = 32768
%include "parts/sizes.mg"
%let default_experts = 60, default_best = 4, default_wide = 1408, default_ffn = 5632, default_norm_topk = false
%include "parts/sparse_keys.mg"
%key shared_size : whole = 5632 from shared_expert_intermediate_size as shared
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key qkv_bias_given : flag = true from qkv_bias
%key use_window : flag = false from use_sliding_window
%key window_given : count? = 4096 from sliding_window
%key until_layer : count = 28 from max_window_layers
%let window = use_window ? window_given : null
%key layer_types : list = [use_window and l % 2 == 0 and l < until_layer ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head$(sparse == "1" ? "" : ", ffn = " + ffn)
# Each choice has a row, sorted by expert: nothing is dropped.
dim experts = $experts, choice = experts, best = $best, rows = best * seq, wide = $wide
dim shared = $shared_size, one = 1
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const$balancing_const

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = qkv_bias_given
%include "parts/attention.mg"
%include "parts/activation.mg"
%let shared = true
%include "parts/sparse_blocks.mg"
%if per_layer or sparse != "1"
%let at = " at l"
%end
$kind qwen2_moe($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
%include "parts/balanced_begin.mg"
    repeat layers$at as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
%include "parts/sparse_layer.mg"
    }
%include "parts/head.mg"
%let over_tp = "kv_heads, " + (sparse == "1" ? "" : "ffn, ") + "shared, wide, vocab", experts_split = true
%include "parts/train.mg"
