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
    adapter whole() on "head.weight"
}
# CHECK: 0318-whole.mg:17:5: error[MG0318]: an adapter of whole parameters alone
# CHECK: help: `whole()` stands beside lora(...) or dora(...)
# CHECK-NOT: {{error|warning}}[MG
