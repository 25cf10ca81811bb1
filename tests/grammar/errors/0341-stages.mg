# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout { mesh pp = 2, dp = 2  layers -> pp (stages = [layers + 1, -1]) }
layout half { mesh pp = 2, dp = 2  layers -> pp (stages = [3.5, 0.5]) }
layout other { mesh pp = 2, dp = 2  hidden -> pp (stages = [2, 1]) }
# CHECK: 0341-stages.mg:10:67: error[MG0341]: this is -1; an integer of at least 0 is wanted
# CHECK: 0341-stages.mg:11:60: error[MG0341]: this is 3.5; an integer of at least 0 is wanted
# CHECK: 0341-stages.mg:11:65: error[MG0341]: this is 0.5; an integer of at least 0 is wanted
# CHECK-NOT: {{error|warning}}[MG
