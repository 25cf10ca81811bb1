# A pattern of some layers selects the parameters of their kind, and no others; a range may go beyond the last layer.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 16, hidden = 6, ffn = 8, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    unembed : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    x = table[tokens]
    repeat layers at l as "layers.{}" {
        x = select(l < 2, x, x)
        up   : param[hidden, ffn] ~ normal(0.02) as "up.weight" [ffn, hidden]
        down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
        x = x + tanh(x @ up over hidden) @ down over ffn
    }
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    frozen where "layers.{0-1}.*", "layers.{2-7}.down.weight"
}
# CLEAN-NOT: MG
# CHECK-DAG: "layers.{}.up.weight"{{.*}} frozen
# CHECK-DAG: "layers.{}.down.weight"{{.*}} frozen
# CHECK-DAG: "layers.{2+1i}.down.weight"{{.*}} frozen
# CHECK-NOT: "layers.{2+1i}.up.weight"{{.*}} frozen
