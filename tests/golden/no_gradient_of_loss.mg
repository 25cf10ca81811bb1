# A loss beside the first whose own parameters it does not depend on; the first may depend on all.
# RUN: not %mgc --check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    x = table[tokens]
    other = mean(x * stop(sum(head, over vocab)))
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
train other where "head" { optimizer sgd()  lr 0.1 }
# CHECK: no_gradient_of_loss.mg:12:7: error[MG0527]: 'other' depends on none of the parameters that follow it
# CHECK: help: each loss changes its own parameters
