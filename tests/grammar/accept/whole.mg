# Parameters that are parts of one external tensor: along any external dim, in any order, in repeats and kinds, with the
# {} of experts, of one declaration in several calls.
# RUN: %front ir %s | FileCheck %s
dim layers = 5, experts = 2
dim batch = 2, seq = 4, vocab = 8, hidden = 2, wide = 3, kv_heads = 2, group = 2, head = 2

block attend(x[hidden]) {
    wk : param[hidden, kv_heads, head]        ~ normal(0.02) as "qk" [(kv_heads head) at kv_heads * group * head, hidden]
    wq : param[hidden, kv_heads, group, head] ~ normal(0.04) as "qk" [(kv_heads group head) at (kv_heads - 2), hidden]
    return sum((x @ wq over hidden) * (x @ wk over hidden), over (kv_heads, group, head))
}

block gated(x[hidden], at) {
    up   : param[experts, hidden, wide] ~ normal(0.02) as "{}.gate_up" [hidden, wide at 1 * wide]
    gate : param[experts, hidden, wide] ~ normal(0.02) as "{}.gate_up" [hidden, wide at 0]
    return sum((x @ up over hidden) * (x @ gate over hidden) * at, over (experts, wide))
}

block piece(x[hidden], number =) {
    gain : param[hidden] = 1 as "gains" [hidden at number * hidden]
    return x * gain
}

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = piece(piece(piece(table[tokens], number = 2), number = 0), number = 1)
    repeat layers at l as "h.{}" {
        x = x + select(l % 2 == 1, attend(x) as "odd", gated(x, 2) as "even")
    }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  rate 0.5 where "*.qk" }
# CHECK: tensor "piece.gain" f32[hidden=2] external "gains" {{.*}} part 0 at 4 of 6 init
# CHECK: tensor "piece.gain_2" f32[hidden=2] external "gains" {{.*}} part 0 at 0 of 6 init
# CHECK: tensor {{.*}} external "h.{1+2i}.odd.qk" slot "" of {{[0-9]+}} stacked 1 valid [2, 2, 2, 2] order [2, 3, 1] merge [2, 1] part 0 at 8 of 12 init normal 0 0.02 decay 0 rate 0.5
# CHECK: tensor {{.*}} external "h.{1+2i}.odd.qk" slot "" of {{[0-9]+}} stacked 1 valid [2, 2, 2, 2, 2] order [2, 3, 4, 1] merge [3, 1] part 0 at 0 of 12 init normal 0 0.04 decay 0 rate 0.5
