%# OLMo 2 (Ai2, 2024): norms behind each half of a layer, and of all queries and all keys of a position together.
%include "parts/any.mg"
%let default_vocab = 50304, default_positions = 2048
%include "parts/sizes.mg"
%key ffn : whole = 11008 from intermediate_size as ffn
%key eps : positive = 1e-5 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias, qk_norm = "all"
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind olmo2($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        y = attend(x$starts) as "self_attn"
        x = x + norm(y) as "post_attention_layernorm"
        y = swiglu(x) as "mlp"
        x = x + norm(y) as "post_feedforward_layernorm"
    }
%include "parts/head.mg"
%include "parts/train.mg"
