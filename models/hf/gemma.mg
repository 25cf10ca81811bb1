%# Gemma (Google, 2024): norms whose gain is counted from 1, a table that is scaled.
%include "parts/any.mg"
%let default_hidden = 3072, default_layers = 28, default_heads = 16, default_kv_heads = 16, default_vocab = 256000, default_positions = 8192
%let default_tied = true, default_head = 256
%include "parts/sizes.mg"
%key ffn : whole = 24576 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_given : word = "gelu_pytorch_tanh" from hidden_act
%let act_word = act_given == "gelu" ? "gelu_pytorch_tanh" : act_given
%key hidden_activation : word? = null only "gelu_pytorch_tanh"
%key attention_bias : flag = false
%key use_bidirectional_attention : flag? = null only false
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std, width = hidden

%let ones = 0, plus = "1 + "
%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind gemma($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens] * sqrt(width)
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
%include "parts/head.mg"
%include "parts/train.mg"
