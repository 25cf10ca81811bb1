%# Mixtral 8x7B (Mistral, 2023): experts.
%include "parts/any.mg"
%let default_kv_heads = 8, default_vocab = 32000, default_positions = 131072
%include "parts/sizes.mg"
%key ffn : whole = 14336 from intermediate_size as ffn
%key eps : positive = 1e-5 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key experts : whole = 8 from num_local_experts as experts
%key best : whole = 2 from num_experts_per_tok as best
%require best <= experts, "num_experts_per_tok", "is more than there are experts"
%key router_jitter_noise : number = 0 only 0
%let default_balancing = 0.001
%include "parts/balance.mg"
%key window : whole? = null from sliding_window
%let layer_types = [window == null ? "full_attention" : "sliding_attention" for l < layers]
%include "parts/windows.mg"
%let default_theta = 1000000
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
# Each choice has a row, sorted by expert: nothing is dropped.
dim experts = $experts, choice = experts, best = $best, rows = best * seq
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const$balancing_const

%include "parts/norm.mg"
%include "parts/rope.mg"
%include "parts/attention.mg"
%include "parts/activation.mg"
%let sparse_layers = "layers", wide = "ffn", name_gate = "w1", name_up = "w3", name_down = "w2", share = "share / sum(share, over best)"
%include "parts/experts.mg"
$kind mixtral($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
%include "parts/balanced_begin.mg"
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
%if balanced
        y, more_used, more_asked = moe(norm(x) as "post_attention_layernorm") as "block_sparse_moe"
        x = x + y
        used = used + more_used
        asked = asked + more_asked
%else
        x = x + moe(norm(x) as "post_attention_layernorm") as "block_sparse_moe"
%end
    }
%include "parts/head.mg"
%let experts_split = true
%include "parts/train.mg"
