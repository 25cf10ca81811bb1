# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    w     : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    taken : param[hidden] = 0 as "base_model.model.head.lora_A.weight"
    loss = cross_entropy((table[tokens] + taken) @ w over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    adapter lora(rank = 2) on "head.weight"
}
# CHECK: 0264-adapter.mg:12:5: error[MG0264]: external name 'base_model.model.head.lora_A.weight' is used twice
# CHECK: 0264-adapter.mg:6:5: note: by this parameter too
# CHECK-NOT: {{error|warning}}[MG
