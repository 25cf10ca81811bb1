%# Phi-3 (Microsoft, 2024): queries, keys and values are one tensor, gate and up another.
%include "parts/any.mg"
%let default_hidden = 3072, default_vocab = 32064, default_positions = 4096
%let drops_attention = false
%include "parts/sizes.mg"
%key ffn : whole = 8192 from intermediate_size as ffn
%key eps : positive = 1e-5 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false only false
%key embd_pdrop : number = 0 only 0
%key drop : number = 0 from resid_pdrop
%require drop >= 0 and drop < 1, "resid_pdrop", "is no probability below 1"
%if drop > 0
%key drop : number = 0 from resid_pdrop as drop
%end
%key window : whole? = null from sliding_window
%let layer_types = [window == null ? "full_attention" : "sliding_attention" for l < layers]
%include "parts/windows.mg"
%let default_partial = 1, default_original = 4096
%include "parts/rope_keys.mg"
%require rope_word in ["default", "longrope", "su", "yarn"], "rope_type", "is neither 'default' nor 'longrope'"
%let rope_type = rope_word == "default" ? "default" : "longrope"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const$(drop > 0 ? ", drop = " + drop : "")

%include "parts/norm.mg"
%include "parts/rope.mg"
block attend(x[hidden]$starts) {
    wq : param[hidden, kv_heads, group, head] ~ normal(std) as "qkv_proj.weight" [(kv_heads group head) at 0, hidden]
    wk : param[hidden, kv_heads, head] ~ normal(std) as "qkv_proj.weight" [(kv_heads head) at kv_heads * group * head, hidden]
    wv : param[hidden, kv_heads, head] ~ normal(std) as "qkv_proj.weight" [(kv_heads head) at kv_heads * (group + 1) * head, hidden]
    wo : param[kv_heads, group, head, hidden] ~ normal(std / sqrt(2 * layers)) as "o_proj.weight" [hidden, (kv_heads group head)]
    q = $(rope_)x @ wq over hidden$_rope
    k = $(rope_)x @ wk over hidden$_rope
    v = x @ wv over hidden
    return attention(q, k, v$starts, along seq, over head, causal$(window_name == "" ? "" : ", window = " + window_name)) @ wo over (kv_heads, group, head)
}

%include "parts/activation.mg"
%include "parts/joined_swiglu.mg"
%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind phi3($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers as "model.layers.{}" {
        x = x + $(drop_)attend(norm(x) as "input_layernorm"$starts) as "self_attn"$_drop
        x = x + $(drop_)swiglu(norm(x) as "post_attention_layernorm") as "mlp"$_drop
    }
%include "parts/head.mg"
%include "parts/train.mg"
