# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
optimizer a() {
    rest muon
    p = p - lr * g
}
optimizer b(momentum = 0.9) {
    rest adamw
    p = p - lr * g
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer a()  lr 0.1 }
# CHECK: 0109-rest.mg:3:11: error[MG0109]: 'muon' is an optimizer of hidden matrices: it has no rule for the rest of 'a'
# CHECK: 0109-rest.mg:7:13: error[MG0109]: no rule of 'b' reads its setting 'momentum'
# CHECK: 0109-rest.mg:7:11: error[MG0109]: 'b' has no setting 'beta1', which the rule of its rest reads
# CHECK: 0109-rest.mg:7:11: error[MG0109]: 'b' has no setting 'beta2', which the rule of its rest reads
# CHECK: 0109-rest.mg:7:11: error[MG0109]: 'b' has no setting 'eps', which the rule of its rest reads
# CHECK: 0109-rest.mg:7:11: error[MG0109]: 'b' has no setting 'decay', which the rule of its rest reads
# CHECK-NOT: {{error|warning}}[MG
