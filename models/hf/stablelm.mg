%# StableLM (Stability AI, 2023).
%include "parts/any.mg"
%let default_hidden = 2560, default_kv_heads = 32, default_vocab = 50304, default_positions = 4096
%include "parts/sizes.mg"
%require head * all_heads == hidden, "head_dim", "is not the hidden size over the heads"
%key ffn : whole = 6912 from intermediate_size as ffn
%key eps : positive = 1e-5 from layer_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key use_qkv_bias : flag = false
%key qk_layernorm : flag = false
%key parallel : flag = false from use_parallel_residual
%key drop : number = 0 from hidden_dropout
%let drop_key = drop, drop_name = "hidden_dropout"
%include "parts/drop.mg"
%if drop > 0
%key drop : number = 0 from hidden_dropout as drop
%end
%let default_partial = 0.25
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
%if qk_layernorm
dim q_heads = kv_heads * group
%end
const eps = $eps, theta = $theta, std = $std$(drop > 0 ? ", drop = " + drop : "")

%let layer_norm = true, norm_bias = true
%include "parts/norm.mg"
%if qk_layernorm
block centered(x, gain, over d) {
    c = x - mean(x, over d)
    return c * rsqrt(mean(c * c, over d) + eps) * gain
}

%end
%include "parts/rope.mg"
%let qkv_bias = use_qkv_bias, qk_norm = qk_layernorm ? "tensors" : ""
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind stablelm($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
%if parallel
        h = norm(x) as "input_layernorm"
        x = x + attend(h$starts) as "self_attn" + $(drop_)swiglu(h) as "mlp"$_drop
%else
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
        x = x + $(drop_)swiglu(norm(x) as "post_attention_layernorm") as "mlp"$_drop
%end
    }
%include "parts/head.mg"
%include "parts/train.mg"
