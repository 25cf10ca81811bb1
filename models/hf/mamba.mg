%# Mamba (Gu, Dao, 2023).
%include "parts/any.mg"
%require not packed, "model_type", "has layers that carry a state from position to position: documents cannot be kept apart in a window, as --packed and mgc tune do; import-hf without it writes the model, and an adapter is a line of its train block"
%key hidden : whole = 768 from hidden_size as hidden
%key layers : whole = 32 from num_hidden_layers as layers
%key state : whole = 16 from state_size as state
%key tap : whole = 4 from conv_kernel as tap
%key times : whole = 2 from expand
%key inner_given : whole = times * hidden only times * hidden from intermediate_size as inner
%key few_given : any = "auto" from time_step_rank
%key vocab : whole = 50280 from vocab_size as vocab
%key eps : positive = 1e-5 from layer_norm_epsilon as eps
%key std : positive = 0.1 from initializer_range as std
%key act_word : word = "silu" from hidden_act
%key use_bias : flag = false
%key conv_bias : flag = true from use_conv_bias
%key tied : flag = true from tie_word_embeddings
%ignore residual_in_fp32, time_step_min, time_step_max, time_step_floor, time_step_scale, time_step_init_scheme, rescale_prenorm_residual
%# transformers does not use these.
%key d_inner : whole = inner_given only inner_given as inner
%key d_model : whole = hidden only hidden as hidden
%key n_layer : whole = layers only layers as layers
%key rms_norm : flag = true only true
%key ssm_cfg : any = {} only {}
%ignore use_mambapy, use_associative_scan, fused_add_norm, pad_vocab_size_multiple
%let few = few_given == "auto" ? -(-hidden // 16) : few_given
%require few == int(few) and few >= 1, "time_step_rank", "is not a whole number of at least 1"
%if tied
%extra "lm_head.weight"
%end
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, inner = $inner_given, state = $state, few = $few, tap = $tap, one = 1, two = 2
dim short = few + 2 * state
dim vocab = $vocab, seq = 4096, batch = 8
const eps = $eps, std = $std

%include "parts/norm.mg"
%include "parts/activation.mg"
# The kernel of a file begins with the oldest position.
block conv(x[inner]) {
    w : param[inner, one, tap] ~ uniform(-1 / sqrt(tap), 1 / sqrt(tap)) as "weight"
%if conv_bias
    b : param[inner] = 0 as "bias"
%end
    return $act(sum(x[seq = seq + tap - $(tap - 1)] * w[one = 0], over tap)$(conv_bias ? " + b" : ""))
}

block mixer(x[hidden]) {
    win : param[hidden, two, inner] ~ normal(std) as "in_proj.weight" [(two inner), hidden]
%if use_bias
    bin : param[two, inner] = 0 as "in_proj.bias" [(two inner)]
%end
    wx : param[inner, short] ~ normal(std) as "x_proj.weight" [short, inner]
    wd : param[few, inner] ~ uniform(-1 / sqrt(few), 1 / sqrt(few)) as "dt_proj.weight" [inner, few]
    bd : param[inner] = log(exp(exp(uniform(log(0.001), log(0.1)))) - 1) as "dt_proj.bias"
    rate : param[inner, state] = log(1 + index(state)) as "A_log"
    skip : param[inner] = 1 as "D"
    wo : param[inner, hidden] ~ normal(std / sqrt(2 * layers)) as "out_proj.weight" [hidden, inner]
%if use_bias
    bo : param[hidden] = 0 as "out_proj.bias"
%end
    p = x @ win over hidden$(use_bias ? " + bin" : "")
    u = conv(p[two = 0]) as "conv1d"
    c = u @ wx over inner
    r = c[short = 0 .. few] @ wd over few + bd
    dt = log(1 + exp(-abs(r))) + max(r, 0)
    k = c[short = few .. few + state -> state]
    q = c[short = few + state .. short -> state]
    h = expand(0, over (batch$also, inner, state))
    scan seq {
        h = exp(-exp(rate) * dt) * h + dt * u * k
        read = sum(q * h, over state)
    }
    return ((read + u * skip) * silu(p[two = 1])) @ wo over inner$(use_bias ? " + bo" : "")
}

$kind mamba($input) {
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
