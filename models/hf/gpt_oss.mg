%# gpt-oss (OpenAI, 2025): a sink in each head's softmax, every second layer looks at the nearest positions, experts with biases.
%include "parts/any.mg"
%let default_hidden = 2880, default_layers = 36, default_heads = 64, default_kv_heads = 8, default_vocab = 201088, default_positions = 131072
%let default_head = 64
%let drops_attention = false
%include "parts/sizes.mg"
%key ffn : whole = 2880 from intermediate_size as ffn
%key eps : positive = 1e-5 from rms_norm_eps as eps
%key hidden_act : word = "silu" only "silu"
%key attention_bias : flag = true
%key experts : whole = 128 from num_local_experts, num_experts as experts
%key best : whole = 4 from num_experts_per_tok, experts_per_token as best
%require best <= experts, "num_experts_per_tok", "is more than there are experts"
%key alpha : number = 1.702 from swiglu_alpha as alpha
%key limit : positive = 7 from swiglu_limit as limit
%include "parts/balance.mg"
%key window : whole? = 128 from sliding_window
%key layer_types : list = [l % 2 == 0 ? "sliding_attention" : "full_attention" for l < layers]
%include "parts/windows.mg"
%ignore initial_context_length
%let default_theta = 150000
%require has("rope_scaling.rope_type") or has("rope_parameters.rope_type"), "rope_scaling", "is missing"
%include "parts/rope_keys.mg"
%include "parts/title.mg"
dim layers = $layers, hidden = $hidden, kv_heads = $kv_heads, group = $(all_heads // kv_heads), head = $head, ffn = $ffn
# Each choice has a row, sorted by expert: nothing is dropped.
dim experts = $experts, choice = experts, best = $best, rows = best * seq, one = 1, two = 2
dim vocab = $vocab, seq = $seq, batch = 8
const eps = $eps, theta = $theta, std = $std, alpha = $(real(alpha)), limit = $(real(limit))$near_const$balancing_const

%include "parts/norm.mg"
%include "parts/rope.mg"
%let qkv_bias = attention_bias, out_bias = attention_bias, sinks = true
%include "parts/attention.mg"
# Gate and up of an element are neighbours. A bias of each row's expert is a product with 1.
block moe(x[hidden]) {
    route : param[hidden, choice] ~ normal(std) as "router.weight" [choice, hidden]
    route_bias : param[choice] = 0 as "router.bias"
    w : param[experts, hidden, ffn, two] ~ normal(std) as "experts.gate_up_proj" [experts, hidden, (ffn two)]
    b : param[experts, one, ffn, two] = 0 as "experts.gate_up_proj_bias" [experts, (one ffn two)]
    wo : param[experts, ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.down_proj" [experts, ffn, hidden]
    bo : param[experts, one, hidden] = 0 as "experts.down_proj_bias" [experts, (one hidden)]
    score = x @ route over hidden + route_bias
    chosen = top(score, choice -> best)
    share = softmax(scores_of(score, chosen), over best)
    z = dispatch(x, chosen, seq -> rows)
    row = dispatch(expand(1, over (batch$also, seq, one)), chosen, seq -> rows)
    u = grouped(z, w, chosen, experts -> rows, over hidden) + grouped(row, b, chosen, experts -> rows, over one)
    gate = min(u[two = 0], limit)
    up = max(min(u[two = 1], limit), -limit)
    u = (up + 1) * gate * sigmoid(alpha * gate)
    y = grouped(u, wo, chosen, experts -> rows, over ffn) + grouped(row, bo, chosen, experts -> rows, over one)
%if balanced
    y = combine(y, chosen, share, rows -> seq)
    return y, mean(sum(select(index(choice) == chosen, 1, 0), over best), over seq), mean(softmax(score, over choice), over seq)
%else
    return combine(y, chosen, share, rows -> seq)
%end
}

$kind gpt_oss($input$weights) {
%include "parts/start.mg"
    embed : param[vocab, hidden] ~ normal(std) as "model.embed_tokens.weight"
    x = embed[tokens]
%include "parts/balanced_begin.mg"
    repeat layers$at as "model.layers.{}" {
        x = x + attend(norm(x) as "input_layernorm"$starts$given) as "self_attn"
%if balanced
        y, more_used, more_asked = moe(norm(x) as "post_attention_layernorm") as "mlp"
        x = x + y
        used = used + more_used
        asked = asked + more_asked
%else
        x = x + moe(norm(x) as "post_attention_layernorm") as "mlp"
%end
    }
%let sparse_layers = "layers"
%include "parts/head.mg"
%let experts_split = true
%include "parts/train.mg"
