# Metrics: of the targets, of one another and of the loss, before it and after it; with parameters of
# their own. @eval has them in order, @train does not; what is sampled are the logits of the loss.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
block guess(x) {
    other : param[hidden, vocab] ~ normal(0.02)
    return x @ other over hidden
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    metric guessed = cross_entropy(guess(x), next(tokens))
    z = x @ table over hidden
    right = in_top(z, next(tokens))
    loss = cross_entropy(z, next(tokens))
    metric accuracy = mean(right)
    metric wrong = 1 - accuracy
    metric perplexity = exp(loss)
    z = 0 * z
    metric of_three = mean(in_top(z, next(tokens), best = 3))
}
train { optimizer sgd()  lr 0.1 }
# CLEAN-NOT: MG
# CHECK: metric "guessed"
# CHECK-NEXT: metric "accuracy"
# CHECK-NEXT: metric "wrong"
# CHECK-NEXT: metric "perplexity"
# CHECK-NEXT: metric "of_three"
# CHECK: tensor "guess.other"
# CHECK: fn @train
# CHECK-NOT: select
# CHECK: give %loss
# CHECK-NEXT: result loss
# CHECK: fn @eval
# CHECK: f64[batch=2, seq=4] = cast %right
# CHECK: result loss
# CHECK-NEXT: result metric 0
# CHECK-NEXT: result metric 1
# CHECK-NEXT: result metric 2
# CHECK-NEXT: result metric 3
# CHECK-NEXT: result metric 4
# CHECK: fn @sample
# CHECK-NOT: other
# CHECK-NOT: metric
# CHECK: result logits
