%# A mixture of experts that drops nothing. Before it: name_gate, name_up, name_down (of an expert's matrices), wide (the dim between them),
%# share (what a chosen expert counts, of its score `share`), act.
block router(x[hidden]) {
    gate : param[hidden, choice] ~ normal(std) as "gate.weight" [choice, hidden]
    return softmax(x @ gate over hidden, over choice)
}

block moe(x[hidden], score[choice]) {
    w1 : param[experts, hidden, $wide] ~ normal(std) as "experts.{}.$name_gate.weight" [$wide, hidden]
    w3 : param[experts, hidden, $wide] ~ normal(std) as "experts.{}.$name_up.weight" [$wide, hidden]
    w2 : param[experts, $wide, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.$name_down.weight" [hidden, $wide]
    chosen = top(score, choice -> best)
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> rows)
    u = grouped(z, w1, chosen, experts -> rows, over hidden)
    u = $act(u) * grouped(z, w3, chosen, experts -> rows, over hidden)
    y = grouped(u, w2, chosen, experts -> rows, over $wide)
    return combine(y, chosen, $share, rows -> seq)
}

