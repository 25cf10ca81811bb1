%# Phi-1, 1.5 and 2 (Microsoft, 2023): attention and MLP side by side behind one norm; the head has a bias.
%include "parts/any.mg"
%let default_hidden = 2048, default_layers = 24, default_vocab = 51200, default_positions = 2048
%include "parts/sizes.mg"
%require head * all_heads == hidden, "head_dim", "is not the hidden size over the heads"
%key ffn : whole = 8192 from intermediate_size as ffn
%key eps : positive = 1e-5 from layer_norm_eps as eps
%key act_word : word = "gelu_new" from hidden_act
%key qk_layernorm : flag = false
%key drop : number = 0 from resid_pdrop
%let drop_key = drop, drop_name = "resid_pdrop"
%include "parts/drop.mg"
%if drop > 0
%key drop : number = 0 from resid_pdrop as drop
%end
%key drop_embed : number = 0 from embd_pdrop
%let drop_key = drop_embed, drop_name = "embd_pdrop"
%include "parts/drop.mg"
%if drop_embed > 0
%key drop_embed : number = 0 from embd_pdrop as drop_embed
%end
%let default_partial = 0.5
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std$(drop > 0 ? ", drop = " + drop : "")$(drop_embed > 0 ? ", drop_embed = " + drop_embed : "")

%let layer_norm = true, norm_bias = true
%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = true, out_bias = true, out_name = "dense", qk_norm = qk_layernorm ? "biased" : ""
%include "parts/attention.mg"
%include "parts/activation.mg"
block mlp(x[hidden]) {
    w : param[hidden, ffn] ~ normal(std) as "fc1.weight" [ffn, hidden]
    b : param[ffn] = 0 as "fc1.bias"
    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "fc2.weight" [hidden, ffn]
    bo : param[hidden] = 0 as "fc2.bias"
    return $act(x @ w over hidden + b) @ wo over ffn + bo
}

%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind phi($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = $(drop_embed > 0 ? "dropout(embed[tokens], p = drop_embed)" : "embed[tokens]")
    repeat layers as "model.layers.{}" {
        h = norm(x) as "input_layernorm"
        x = x + $(drop_)attend(h$starts) as "self_attn"$_drop + $(drop_)mlp(h) as "mlp"$_drop
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    likely : param[vocab] = 0 as "lm_head.bias"
    z = (norm(x) as "model.final_layernorm") @ $(tied ? "embed" : "unembed") over hidden
    $(loss_)z + likely$_loss
}

%include "parts/train.mg"
