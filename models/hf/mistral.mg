%# Mistral 7B (2023).
%include "parts/any.mg"
%let default_kv_heads = 8, default_vocab = 32000, default_positions = 131072
%include "parts/sizes.mg"
%key ffn : whole = 14336 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key window : whole? = 4096 from sliding_window
%let layer_types = [window == null ? "full_attention" : "sliding_attention" for l < layers]
%include "parts/windows.mg"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const

%include "parts/norm.mg"
%include "parts/rope.mg"
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind mistral($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
%include "parts/head.mg"
%include "parts/train.mg"
