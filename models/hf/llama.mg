%# Llama 1 to 3.x (Meta, 2023), and all that took its form.
%include "parts/any.mg"
%let default_vocab = 32000, default_positions = 2048
%include "parts/sizes.mg"
%key ffn : whole = 11008 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key mlp_bias : flag = false
%key layer_types : list? = ["full_attention" for l < layers]
%require layer_types == null or count(layer_types, "full_attention") == len(layer_types), "layer_types", "has other layers than 'full_attention'"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind llama($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
%include "parts/head.mg"
%include "parts/train.mg"
