# Documents of the data: positions that the runtime gives, as the op takes them; each weight is 0 where what it weighs begins behind
# the position that predicts it.
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 2
model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    y = attend(x, document_start(tokens, along seq))
    z = y @ table over hidden
    loss = cross_entropy(z, next(tokens), weight) + cross_entropy(z, next(tokens, by = 2), next(weight))
}
block attend(x[hidden], start) {
    return attention(rope(x, start, along seq, over hidden), x, x, start, along seq, over hidden, causal)
}
train { optimizer sgd()  lr 0.1 }
# CHECK: role documents
# CHECK: arg %documents: i32[batch=2, seq=6]
# CHECK: %document: i32[batch=2, seq=4] = window %documents {along=seq=4, at=0}
# CHECK: %next_document: i32[batch=2, seq=4] = window %documents {along=seq=4, at=1}
# CHECK: %next_document_2: i32[batch=2, seq=4] = window %documents {along=seq=4, at=2}
# CHECK: [[near:%le[.0-9]*]]: bool[batch=2, seq=4] = le %next_document, %iota
# CHECK: %counted{{.*}} = select [[near]], %weight
# CHECK: [[far:%le[.0-9]*]]: bool[batch=2, seq=4] = le %next_document_2, %iota
# CHECK: %counted{{.*}} = select [[far]], %next_weight
# CHECK: = attention {{.*}}, %document {{{.*}}within}
# CHECK-NOT: = mul %weight
