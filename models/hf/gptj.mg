%# GPT-J 6B (EleutherAI, 2021): attention and MLP side by side behind one norm; neighbours turn; the head has a bias.
%include "parts/any.mg"
%key hidden : whole = 4096 from n_embd as hidden
%key layers : whole = 28 from n_layer as layers
%key heads : whole = 16 from n_head as heads
%key ffn : whole = 4 * hidden from n_inner as ffn
%key vocab : whole = 50400 from vocab_size as vocab
%key positions : whole = 2048 from n_positions
%key eps : positive = 1e-5 from layer_norm_epsilon as eps
%key std : positive = 0.02 from initializer_range as std
%key act_word : word = "gelu_new" from activation_function
%key tied : flag = false from tie_word_embeddings
%key turn : whole = 64 from rotary_dim as turn
%key attn_pdrop : number = 0 only 0
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
%ignore n_ctx, rotary, scale_attn_weights, summary_type, summary_use_proj, summary_activation, summary_proj_to_labels, summary_first_dropout
%require hidden % heads == 0, "n_head", "does not divide the hidden size"
%let head = hidden // heads, seq = positions < 4096 ? positions : 4096
%require turn <= head and turn % 2 == 0, "rotary_dim", "is no even number of a head's elements"
%extra "*.attn.bias"
%extra "*.attn.masked_bias"
%if tied
%extra "lm_head.weight"
%end
%let rope_type = "default", neighbours = true, turned_dim = turn < head ? "turn" : "head"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, heads = $heads, head = $head, ffn = $ffn
%if turn < head
dim turn = $turn, still = head - turn, half = turn / 2, two = 2
%else
dim turn = head, half = head / 2, two = 2
%end
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = 10000, std = $std$(drop > 0 ? ", drop = " + drop : "")$(drop_embed > 0 ? ", drop_embed = " + drop_embed : "")

%let layer_norm = true, norm_bias = true
%include "parts/norm.mg"
%include "parts/rope.mg"
block attend(x[hidden]$starts) {
    wq : param[hidden, heads, head] ~ normal(std) as "q_proj.weight" [(heads head), hidden]
    wk : param[hidden, heads, head] ~ normal(std) as "k_proj.weight" [(heads head), hidden]
    wv : param[hidden, heads, head] ~ normal(std) as "v_proj.weight" [(heads head), hidden]
    wo : param[heads, head, hidden] ~ normal(std / sqrt(2 * layers)) as "out_proj.weight" [hidden, (heads head)]
    q = $(rope_)x @ wq over hidden$_rope
    k = $(rope_)x @ wk over hidden$_rope
    return attention(q, k, x @ wv over hidden$starts, along seq, over head, causal) @ wo over (heads, head)
}

%let act_key = "activation_function"
%include "parts/activation.mg"
block mlp(x[hidden]) {
    w : param[hidden, ffn] ~ normal(std) as "fc_in.weight" [ffn, hidden]
    b : param[ffn] = 0 as "fc_in.bias"
    wo : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "fc_out.weight" [hidden, ffn]
    bo : param[hidden] = 0 as "fc_out.bias"
    return $act(x @ w over hidden + b) @ wo over ffn + bo
}

%let drop_ = drop > 0 ? "dropout(" : "", _drop = drop > 0 ? ", p = drop)" : ""
$kind gptj($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "transformer.wte.weight"
    x = $(drop_embed > 0 ? "dropout(embed[tokens], p = drop_embed)" : "embed[tokens]")
    repeat layers as "transformer.h.{}" {
        h = norm(x) as "ln_1"
        x = x + $(drop_)attend(h$starts) as "attn"$_drop + $(drop_)mlp(h) as "mlp"$_drop
    }
%if not tied
    unembed : param[vocab, hidden] ~ normal(std) as "lm_head.weight"
%end
    likely : param[vocab] = 0 as "lm_head.bias"
    z = (norm(x) as "transformer.ln_f") @ $(tied ? "embed" : "unembed") over hidden
    $(loss_)z + likely$_loss
}

%let over_tp = "heads, ffn, vocab"
%include "parts/train.mg"
