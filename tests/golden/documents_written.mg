# Attention written out, with the documents of the data as its mask, is the operation: it sees the positions that the program reads.
# RUN: %mgc %s --check
# RUN: %mgc %s --emit=c | FileCheck %s
# CHECK: mg_attention_part(r
# CHECK: .documents = X_train_documents
# CHECK: .sample = {{.*}} .documents = -1
dim batch = 2, seq = 16, vocab = 8, hidden = 8

block attend(x[hidden], start) {
    dim t = seq
    s = (x @ x[seq -> t] over hidden) / sqrt(hidden)
    m = select(index(t) >= start, select(index(t) <= index(seq), s, -1e30), -1e30)
    return softmax(m, over t) @ x[seq -> t] over t
}

model m(tokens[batch, seq] : token(vocab), weight[batch, seq]) {
    table : param[vocab, hidden] ~ normal(0.02)
    y = attend(table[tokens], document_start(tokens, along seq))
    loss = cross_entropy(y @ table over hidden, next(tokens), weight)
}

train {
    optimizer sgd()
    lr        0.1
}

layout {
    microbatch 2
}
