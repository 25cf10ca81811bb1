%# Gemma 2 (Google, 2024): every second layer looks at the nearest positions alone; scores and logits end softly at a cap; a norm before and
%# one after each half of a layer.
%include "parts/any.mg"
%let default_hidden = 2304, default_layers = 26, default_heads = 8, default_kv_heads = 4, default_vocab = 256000, default_positions = 8192
%let default_tied = true, default_head = 256
%include "parts/sizes.mg"
%key ffn : whole = 9216 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "gelu_pytorch_tanh" from hidden_activation
%key hidden_act : word? = null only act_word
%key attention_bias : flag = false
%key use_bidirectional_attention : flag? = null only false
%key scaled : positive = 256 from query_pre_attn_scalar as scaled
%key window : whole? = 4096 from sliding_window
%key sliding_window_size : whole? = null only window
%key layer_types : list = [l % 2 == 0 ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
%include "parts/caps.mg"
%include "parts/rope_keys.mg"
%ignore cache_implementation
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std, width = hidden, scaled = $scaled$near_const$caps_const

%let ones = 0, plus = "1 + "
%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias, cap_name = score_cap == null ? "" : "score_cap", scale_expr = "1 / sqrt(scaled)"
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind gemma2($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens] * sqrt(width)
    repeat layers$at as "model.layers.{}" {
        y = attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
        x = x + norm(y) as "post_attention_layernorm"
        y = swiglu(norm(x) as "pre_feedforward_layernorm") as "mlp"
        x = x + norm(y) as "post_feedforward_layernorm"
    }
%include "parts/capped_head.mg"
%include "parts/train.mg"
