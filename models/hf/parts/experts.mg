%# A mixture of experts that drops nothing. Before it: wide (the dim between an expert's matrices), name_gate, name_up, name_down (their names),
%# share (what a chosen expert counts, of its score `share`), shared (true: beside them one that all go through, times a gate), act, balanced
%# (true: the block gives how much each expert is used and asked for, too).
block moe(x[hidden]) {
    route : param[hidden, choice] ~ normal(std) as "gate.weight" [choice, hidden]
    gate : param[experts, hidden, $wide] ~ normal(std) as "experts.{}.$name_gate.weight" [$wide, hidden]
    up : param[experts, hidden, $wide] ~ normal(std) as "experts.{}.$name_up.weight" [$wide, hidden]
    down : param[experts, $wide, hidden] ~ normal(std / sqrt(2 * layers)) as "experts.{}.$name_down.weight" [hidden, $wide]
%if shared
    open : param[hidden, one] ~ normal(std) as "shared_expert_gate.weight" [one, hidden]
%end
    score = softmax(x @ route over hidden, over choice)
    chosen = top(score, choice -> best)
    share = scores_of(score, chosen)
    z = dispatch(x, chosen, seq -> rows)
    u = grouped(z, gate, chosen, experts -> rows, over hidden)
    u = $act(u) * grouped(z, up, chosen, experts -> rows, over hidden)
    y = grouped(u, down, chosen, experts -> rows, over $wide)
%if shared
    y = combine(y, chosen, $share, rows -> seq)
    y = y + sigmoid(x @ open over hidden)[one = 0] * swiglu(x, over shared) as "shared_expert"
%if balanced
    return y, mean(sum(select(index(choice) == chosen, 1, 0), over best), over seq), mean(score, over seq)
%else
    return y
%end
%elif balanced
    y = combine(y, chosen, $share, rows -> seq)
    return y, mean(sum(select(index(choice) == chosen, 1, 0), over best), over seq), mean(score, over seq)
%else
    return combine(y, chosen, $share, rows -> seq)
%end
}

