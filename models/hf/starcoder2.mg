%# StarCoder 2 (BigCode, 2024).
%include "parts/any.mg"
%let default_hidden = 3072, default_layers = 30, default_heads = 24, default_kv_heads = 2, default_vocab = 49152, default_positions = 4096
%let default_tied = true, default_std = 0.018042
%include "parts/sizes.mg"
%key ffn : whole = 12288 from intermediate_size as ffn
%key eps : positive = 1e-5 from norm_epsilon as eps
%key act_word : word = "gelu_pytorch_tanh" from hidden_act
%key use_bias : flag = true
%# transformers does not use this.
%ignore activation_function
%key norm_type : word = "layer_norm" only "layer_norm"
%key mlp_type : word = "default" only "default"
%key drop : number = 0 from residual_dropout
%let drop_key = drop, drop_name = "residual_dropout"
%include "parts/drop.mg"
%if drop > 0
%key drop : number = 0 from residual_dropout as drop
%end
%key drop_embed : number = 0 from embedding_dropout
%let drop_key = drop_embed, drop_name = "embedding_dropout"
%include "parts/drop.mg"
%if drop_embed > 0
%key drop_embed : number = 0 from embedding_dropout as drop_embed
%end
%key window : whole? = null from sliding_window
%let layer_types = [window == null ? "full_attention" : "sliding_attention" for l < layers]
%include "parts/windows.mg"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$near_const$(drop > 0 ? ", drop = " + drop : "")$(drop_embed > 0 ? ", drop_embed = " + drop_embed : "")

%let layer_norm = true, norm_bias = true
%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = use_bias, out_bias = use_bias
%include "parts/attention.mg"
%include "parts/activation.mg"
block mlp(x[hidden]) {
    w : param[hidden, ffn] ~ normal(std) as "c_fc.weight" [ffn, hidden]
    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "c_proj.weight" [hidden, ffn]
%if use_bias
    b : param[ffn] = 0 as "c_fc.bias"
    bo : param[hidden] = 0 as "c_proj.bias"
    return $act(x @ w over hidden + b) @ wo over ffn + bo
%else
    return $act(x @ w over hidden) @ wo over ffn
%end
}

%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind starcoder2($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = $(drop_embed > 0 ? "dropout(embed[tokens], p = drop_embed)" : "embed[tokens]")
    repeat layers as "model.layers.{}" {
        x = x + $(drop_)attend(norm(x) as "input_layernorm"$starts) as "self_attn"$_drop
        x = x + $(drop_)mlp(norm(x) as "post_attention_layernorm") as "mlp"$_drop
    }
%include "parts/head.mg"
%include "parts/train.mg"
