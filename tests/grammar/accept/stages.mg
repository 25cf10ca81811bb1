# The layers of each stage, said: numbers, and what a dim is.
# RUN: %front ir %s | FileCheck %s
# RUN: %front ir %s --layout chunks | FileCheck --check-prefix=CHUNKS %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    repeat layers { w : param[hidden] = 1  x = x + x * w }
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1  }
layout        { mesh pp = 2  layers -> pp (schedule = zb-h1, stages = [3, 1]) }
layout chunks { mesh pp = 2  layers -> pp (schedule = interleaved, stages = [0, layers - 1, 1, 0], group = 2) }
# CHECK: pipeline layers on pp schedule "zb-h1" chunks 1 group 0 stages [3, 1]
# CHUNKS: pipeline layers on pp schedule "interleaved" chunks 2 group 2 stages [0, 3, 1, 0]
