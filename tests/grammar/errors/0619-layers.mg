# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 16, hidden = 6, ffn = 8, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    unembed : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    x = table[tokens]
    repeat layers as "layers.{}" {
        up   : param[hidden, ffn] ~ normal(0.02) as "up.weight" [ffn, hidden]
        down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
        x = x + tanh(x @ up over hidden) @ down over ffn
    }
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    frozen where "layers.{0-1}.*", "layers.{2-9}.up.weight"
}
# CHECK: 0619-layers.mg:17:18: error[MG0619]: 2 of the 4 layers that 'layers.{}.up.weight' stands for: they are stored as one
# CHECK: 0619-layers.mg:8:9: note: declared here
# CHECK: help: layers of two kinds are stored apart: `repeat layers at l`, and in its body `x = select(l < 2, x, x)`
# CHECK: 0619-layers.mg:17:36: error[MG0619]: 2 of the 4 layers that 'layers.{}.up.weight' stands for: they are stored as one
# CHECK-NOT: {{error|warning}}[MG
