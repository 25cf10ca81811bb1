%# Qwen2 and 2.5 (Alibaba, 2024): biases of queries, keys and values.
%include "parts/any.mg"
%let default_kv_heads = 32, default_vocab = 151936, default_positions = 32768
%include "parts/sizes.mg"
%key ffn : whole = 22016 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key use_mrope : flag = false only false
%include "parts/windows_from.mg"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = true
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind qwen2($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers$at as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
%include "parts/head.mg"
%include "parts/train.mg"
