# RUN: %mgc %s --plan | FileCheck %s
# RUN: %mgc explain %s table | FileCheck %s --check-prefix=ONE
# RUN: %mgc %s --precision f32 --plan | FileCheck %s --check-prefix=STATE
# The types of what lasts from step to step are said where one is not that of sums.
# CHECK: precision    bf16: the train block says so
# CHECK-NEXT: kept         parameters in bf16, sums of gradients in bf16, state in bf16
# ONE: stored      bf16[vocab=16, hidden=8]
# STATE: kept         parameters in f32, sums of gradients in f32, state in bf16
dim hidden = 8, vocab = 16, seq = 4, batch = 2

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.1)
    loss = cross_entropy(table[tokens] @ table over hidden, next(tokens))
}

train {
    optimizer adamw(state = bf16)
    lr        1e-3
    precision bf16(master = bf16, reduce = bf16)
}
