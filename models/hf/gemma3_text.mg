%# Gemma 3 (Google, 2025): five layers of six look at the nearest positions, which turn faster there; norms of queries and keys.
%include "parts/any.mg"
%let default_hidden = 2304, default_layers = 26, default_heads = 8, default_kv_heads = 4, default_vocab = 262208, default_positions = 131072
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
%key every : whole = 6 from sliding_window_pattern, _sliding_window_pattern
%key layer_types : list = [(l + 1) % every != 0 ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
%key theta : positive = 1000000 from rope_scaling.rope_theta, rope_parameters.full_attention.rope_theta, rope_theta as theta
%key near_theta : positive = 10000 from rope_parameters.sliding_attention.rope_theta, rope_local_base_freq as near_theta
%key near_type : word = "default" only "default" from rope_parameters.sliding_attention.rope_type, rope_parameters.sliding_attention.type
%key far_type : word = "default" only "default", "linear" from rope_scaling.rope_type, rope_scaling.type, rope_parameters.full_attention.rope_type, rope_parameters.full_attention.type
%key factor : positive = 1 from rope_scaling.factor, rope_parameters.full_attention.factor
%let factor = far_type == "linear" ? factor : 1
%require head % 2 == 0, "head_dim", "is odd: rotary positions turn pairs"
%ignore cache_implementation
%let turns_near = where(layer_types, "sliding_attention"), mixed = not (turns_near in ["0", "1"])
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, near_theta = $near_theta, std = $std, width = hidden, scaled = $scaled$near_const

%let ones = 0, plus = "1 + ", takes = takes + ", base =", given = given + ", base = " + (turns_near == "1" ? "near_theta" : turns_near == "0" ? "theta" : "select(" + turns_near + ", near_theta, theta)")
%let at = mixed ? " at l" : "", rope_ = "rope(", _rope = starts + ", along seq, over head, theta = base)"
%include "parts/norm.mg"
%if factor != 1
# Positions are divided by the factor.
block rope_linear(x$starts, along pos, over d, base =, factor =) {
    k = index(d)
    i = k - select(k < d / 2, 0, d / 2)
    angle = $position * (exp(i * (-2 * log(base) / d)) / factor)
    return x * cos(angle) + rotate(x, over d) * sin(angle)
}

%let takes = takes + ", factor =", given = given + ", factor = " + (turns_near == "1" ? "1" : turns_near == "0" ? text(factor) : "select(" + turns_near + ", 1, " + factor + ")")
%let rope_ = "rope_linear(", _rope = starts + ", along seq, over head, base = base, factor = factor)"
%end
%let qkv_bias = attention_bias, out_bias = attention_bias, qk_norm = "head", scale_expr = "1 / sqrt(scaled)"
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind gemma3_text($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens] * sqrt(width)
    repeat layers$at as "model.layers.{}" {
        y = attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
        x = x + norm(y) as "post_attention_layernorm"
        y = swiglu(norm(x) as "pre_feedforward_layernorm") as "mlp"
        x = x + norm(y) as "post_feedforward_layernorm"
    }
%include "parts/head.mg"
%include "parts/train.mg"
