%# Bamba (IBM, Princeton, CMU and UIUC, 2024): attention among layers of Mamba 2, each followed by an MLP.
%include "parts/any.mg"
%let default_kv_heads = 8, default_vocab = 128000, default_positions = 262144
%include "parts/sizes.mg"
%key ffn : whole = 14336 from intermediate_size as ffn
%key eps : positive = 1e-5 from rms_norm_eps as eps
%key act_word : word = "silu" from hidden_act
%key attention_bias : flag = false
%key mlp_bias : flag = false
%key z_loss : number? = 0 only 0 from z_loss_coefficient
%key num_logits_to_keep : any? = 1
%key lanes : whole = 128 from mamba_n_heads as lanes
%key wide : whole = 2 from mamba_expand
%key lane_given : any = "auto" from mamba_d_head as lane
%key state : whole = 256 from mamba_d_state as state
%key tap : whole = 4 from mamba_d_conv as tap
%key groups : whole = 1 from mamba_n_groups
%if groups > 1
%key groups : whole = 1 from mamba_n_groups as groups
%end
%key conv_bias : flag = true from mamba_conv_bias
%key use_bias : flag = false from mamba_proj_bias
%key limit : list? = [0, null] from time_step_limit
%key attending : list? = null from attn_layer_indices
%ignore mamba_chunk_size
%require limit == null or len(limit) == 2, "time_step_limit", "is no pair of numbers"
%let limit_low = limit == null ? 0 : limit[0], limit_high = limit == null ? null : limit[1]
%let lane = lane_given == "auto" ? wide * hidden // lanes : lane_given
%require wide * hidden == lanes * lane, "mamba_expand", "times the hidden size is not the number of the mixer's heads times theirs"
%require lanes % groups == 0, "mamba_n_groups", "does not divide the mixer's heads"
%let kinds = [attending != null and l in attending for l < layers], attends = where(kinds, true)
%require not packed or attends == "1", "model_type", "has layers that carry a state from position to position: documents cannot be kept apart in a window, as --packed and mgc tune do; import-hf without it writes the model, and an adapter is a line of its train block"
%require attending == null or count(kinds, true) == len(attending), "attn_layer_indices", "has what is no number of a layer"
%let default_partial = 0.5
%include "parts/rope_keys.mg"
%key attn_rotary_emb : whole? = null only turn
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
%include "parts/mixer_dims.mg"
%include "parts/turn_dims.mg"
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std

%include "parts/norm.mg"
%if attends != "0"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias
%include "parts/attention.mg"
%end
%include "parts/activation.mg"
%include "parts/mixer.mg"
%include "parts/swiglu.mg"
$kind bamba($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
%if attends in ["0", "1"]
    repeat layers as "model.layers.{}" {
%if attends == "1"
        x = x + attend(norm(x) as "input_layernorm"$starts) as "self_attn"
%else
        x = x + mixer(norm(x) as "input_layernorm") as "mamba"
%end
%else
    repeat layers at l as "model.layers.{}" {
        h = norm(x) as "input_layernorm"
        x = x + select($attends, attend(h$starts) as "self_attn", mixer(h) as "mamba")
%end
        x = x + swiglu(norm(x) as "pre_ff_layernorm") as "feed_forward"
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    $(loss_)(norm(x) as "model.final_layernorm") @ $(tied ? "embed" : "unembed") over hidden$_loss
}

%let splits_seq = false
%include "parts/train.mg"
