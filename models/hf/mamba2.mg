%# Mamba 2 (Dao, Gu, 2024).
%include "parts/any.mg"
%require not packed, "model_type", "has layers that carry a state from position to position: documents cannot be kept apart in a window, as --packed and mgc tune do; import-hf without it writes the model, and an adapter is a line of its train block"
%key hidden : whole = 4096 from hidden_size as hidden
%key layers : whole = 64 from num_hidden_layers as layers
%key lanes : whole = 128 from num_heads as lanes
%key lane : whole = 64 from head_dim as lane
%key state : whole = 128 from state_size as state
%key tap : whole = 4 from conv_kernel as tap
%key groups : whole = 8 from n_groups
%if groups > 1
%key groups : whole = 8 from n_groups as groups
%end
%key wide : whole = 2 from expand
%key vocab : whole = 32768 from vocab_size as vocab
%key eps : positive = 1e-5 from layer_norm_epsilon as eps
%key std : positive = 0.1 from initializer_range as std
%key act_word : word = "silu" from hidden_act
%key use_bias : flag = false
%key conv_bias : flag = true from use_conv_bias
%key rms_norm : flag = true only true
%key tied : flag = false from tie_word_embeddings
%key limit : list = [0, null] from time_step_limit
%key inner_given : whole = lanes * lane only lanes * lane from intermediate_size as inner
%# transformers does not use the first.
%ignore norm_before_gate, time_step_init_scheme, time_step_scale, residual_in_fp32, time_step_rank, time_step_min, time_step_max, time_step_floor, rescale_prenorm_residual, chunk_size
%require len(limit) == 2, "time_step_limit", "is no pair of numbers"
%let limit_low = limit[0], limit_high = limit[1]
%require wide * hidden == lanes * lane, "expand", "times the hidden size is not the number of the mixer's heads times theirs"
%require lanes % groups == 0, "n_groups", "does not divide the mixer's heads"
%if tied
%extra "lm_head.weight"
%end
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden
%include "parts/mixer_dims.mg"
dim vocab = $vocab, seq = 4096, batch = 8
const eps = $eps, std = $std

%include "parts/norm.mg"
%include "parts/activation.mg"
%include "parts/mixer.mg"
$kind mamba2($input) {
    embed : param[vocab, hidden] ~ normal(std) as "backbone.embeddings.weight"
    x = embed[tokens]
    repeat layers as "backbone.layers.{}" {
        x = x + mixer(norm(x) as "norm") as "mixer"
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    $(loss_)(norm(x) as "backbone.norm_f") @ $(tied ? "embed" : "unembed") over hidden$_loss
}

%let over_tp = "", splits_seq = false
%include "parts/train.mg"
