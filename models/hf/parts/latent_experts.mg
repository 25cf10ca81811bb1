%# Experts as DeepSeek's: beside those that are chosen one that all go through. Before it: v3 (scores by sigmoid, and a bias that only the choice
%# reads), grouped_choice (experts only of the best groups), norm_topk_prob.
%if grouped_choice
# The experts of each position: of the groups $(v3 ? "whose two best sum up to most" : "of which the best is largest").
block choose(score[choice]) {
    g = score[choice -> (groups, member)]
%if v3
    most = sum(scores_of(g, top(g, member -> two)), over two)
%else
    most = max(g, over member)
%end
    ranked = top(most, groups -> kept)
    open = max(select(ranked == index(groups), 1, 0), over kept)
    return top(select(open == 1, g, $(v3 ? "-1e30" : "0"))[(groups, member) -> choice], choice -> best)
}

%end
block moe(x[hidden]) {
    route : param[hidden, choice] ~ normal(std) as "gate.weight" [choice, hidden]
%if v3
    bias : param[choice] = 0 as "gate.e_score_correction_bias"
%end
    gate : param[experts, hidden, wide] ~ normal(std) as "experts.{}.gate_proj.weight" [wide, hidden]
    up : param[experts, hidden, wide] ~ normal(std) as "experts.{}.up_proj.weight" [wide, hidden]
    down : param[experts, wide, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.down_proj.weight" [hidden, wide]
    score = $(v3 ? "sigmoid(x @ route over hidden)" : "softmax(x @ route over hidden, over choice)")
%let judged = v3 ? "score + bias" : "score"
    chosen = $(grouped_choice ? "choose(" + judged + ")" : "top(" + judged + ", choice -> best)")
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> rows)
    u = grouped(z, gate, chosen, experts -> rows, over hidden)
    u = $act(u) * grouped(z, up, chosen, experts -> rows, over hidden)
    y = grouped(u, down, chosen, experts -> rows, over wide)
    y = combine(y, chosen, scaling * share$(norm_topk_prob and v3 ? " / (sum(share, over best) + 1e-20)" : ""), rows -> seq)
    return y + swiglu(x, over shared) as "shared_experts"
}

