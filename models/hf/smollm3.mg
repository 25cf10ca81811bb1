%# SmolLM3 (Hugging Face, 2025): in every fourth layer positions turn nothing.
%include "parts/any.mg"
%let default_hidden = 2048, default_layers = 36, default_heads = 16, default_kv_heads = 4, default_vocab = 128256, default_positions = 32768
%let default_tied = true
%include "parts/sizes.mg"
%key ffn : whole = 11008 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key mlp_bias : flag = false
%key use_window : flag = false from use_sliding_window
%key window_given : whole? = null from sliding_window
%let window = use_window ? window_given : null
%key every : whole = 4 from no_rope_layer_interval
%key no_rope_layers : list = [(l + 1) % every != 0 ? 1 : 0 for l < layers]
%require len(no_rope_layers) == layers and count(no_rope_layers, 0) + count(no_rope_layers, 1) == layers, "no_rope_layers", "does not say of each layer 1 or 0"
%key layer_types : list = [window != null and no_rope_layers[l] == 0 ? "sliding_attention" : "full_attention" for l < layers]
%ignore max_window_layers
%include "parts/windows.mg"
%let default_theta = 2000000
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const

%include "parts/norm.mg"
%let turning = where(no_rope_layers, 1)
%if turning != "0"
%include "parts/rope.mg"
%end
%if turning != "0" and turning != "1"
%let roped = "roped", takes = takes + ", roped =", given = given + ", roped = " + turning, at = " at l"
%end
%let qkv_bias = attention_bias, out_bias = attention_bias
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind smollm3($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers$at as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
        x = x + swiglu(norm(x) as "post_attention_layernorm") as "mlp"
    }
%include "parts/head.mg"
%include "parts/train.mg"
