%# GLM-4 and GLM-Edge (Zhipu AI, 2024): neighbours of the first half of a head turn.
%include "parts/any.mg"
%let default_layers = 40, default_kv_heads = 2, default_vocab = 151552, default_positions = 131072, default_head = 128
%include "parts/sizes.mg"
%key ffn : whole = 13696 from intermediate_size as ffn
%key eps : positive = 1.5625e-7 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = true
%let default_partial = 0.5, neighbours = true
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/joined_swiglu.mg"
$kind glm($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
%include "parts/head.mg"
%include "parts/train.mg"
