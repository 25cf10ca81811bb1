%# Command R (Cohere, 2024): attention and MLP side by side behind one norm, which is centered and has no bias.
%include "parts/any.mg"
%let default_hidden = 8192, default_layers = 40, default_heads = 64, default_vocab = 256000, default_positions = 8192, default_tied = true
%include "parts/sizes.mg"
%key ffn : whole = 22528 from intermediate_size as ffn
%key eps : positive = 1e-5 from layer_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key use_qk_norm : flag = false
%key logit_scale : number = 0.0625 from logit_scale as logit_scale
%let default_theta = 500000, neighbours = true
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std, logit_scale = $(real(logit_scale))

%let layer_norm = true
%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias, qk_norm = use_qk_norm ? "centered" : ""
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind cohere($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        h = norm(x) as "input_layernorm"
        x = x + attend(h$starts) as "self_attn" + swiglu(h) as "mlp"
    }
%include "parts/scaled_head.mg"
%include "parts/train.mg"
