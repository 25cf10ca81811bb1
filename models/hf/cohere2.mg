%# Command R7B (Cohere, 2024): as cohere; layers look at the nearest positions and turn them, every fourth looks at all and turns none.
%include "parts/any.mg"
%let default_hidden = 8192, default_layers = 40, default_heads = 64, default_vocab = 256000, default_positions = 8192, default_tied = true
%include "parts/sizes.mg"
%require head * all_heads == hidden, "head_dim", "is not the hidden size over the heads"
%key ffn : whole = 22528 from intermediate_size as ffn
%key eps : positive = 1e-5 from layer_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key use_qk_norm : flag = false only false
%key logit_scale : number = 0.0625 from logit_scale as logit_scale
%key window : whole? = 4096 from sliding_window
%key every : whole = 4 from sliding_window_pattern
%key layer_types : list = [(l + 1) % every != 0 ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
%key use_parallel_block : flag = true only true
%key use_gated_activation : flag = true only true
%key use_embedding_sharing : flag = true only true
%key position_embedding_type : word = "rope_gptj" only "rope_gptj"
%key rotary_pct : number = 1 only 1
%ignore use_parallel_embedding, order_of_interleaved_layers, layer_switch, cache_implementation
%let neighbours = true
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std, logit_scale = $(real(logit_scale))$near_const

%let layer_norm = true
%include "parts/norm.mg"
%let turning = window == null ? "0" : where(layer_types, "sliding_attention")
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
$kind cohere2($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
    repeat layers$at as "model.layers.{}" {
        h = norm(x) as "input_layernorm"
        x = x + attend(h$starts$given) as "self_attn" + swiglu(h) as "mlp"
    }
%include "parts/scaled_head.mg"
%include "parts/train.mg"
