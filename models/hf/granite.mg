%# Granite 3 (IBM, 2024): a llama with four multipliers.
%include "parts/any.mg"
%let default_vocab = 32000, default_positions = 2048
%include "parts/sizes.mg"
%key ffn : whole = 11008 from intermediate_size as ffn
%key eps : positive = 1e-6 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key mlp_bias : flag = false
%key times_embed : number = 1 from embedding_multiplier as times_embed
%key times_score : number = 1 from attention_multiplier as times_score
%key times_layer : number = 1 from residual_multiplier as times_layer
%key over_logits : positive = 1 from logits_scaling as over_logits
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std
const times_embed = $times_embed, times_score = $times_score, times_layer = $times_layer, over_logits = $over_logits

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias, scale_expr = "times_score"
%include "parts/attention.mg"
%include "parts/activation.mg"
%include "parts/swiglu.mg"
$kind granite($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = times_embed * embed[tokens]
    repeat layers as "model.layers.{}" {
        y = attend(norm(x) as "input_layernorm"$starts) as "self_attn"
        x = x + times_layer * y
        y = swiglu(norm(x) as "post_attention_layernorm") as "mlp"
        x = x + times_layer * y
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    z = (norm(x) as "model.norm") @ $(tied ? "embed" : "unembed") over hidden
    $(loss_)z / over_logits$_loss
}

%include "parts/train.mg"
