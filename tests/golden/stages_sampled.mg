# RUN: not %mgc %s --check 2>&1 | FileCheck %s
# RUN: sed '/layers -> pp/d; s/mesh *pp = 2//' %s > %t.mg
# RUN: %mgc %t.mg --check
# CHECK: stages_sampled.mg:[[#]]:5: error[MG0343]: no layer hands anything on to the next in what is computed to sample: 'layers' are no stages
# CHECK: help: what is sampled from, the first operand of cross_entropy, needs no layer; a layout without this rule samples it
dim batch = 4, seq = 8, vocab = 256, layers = 2, hidden = 8

model m(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    logits = x @ embed over hidden
    repeat layers {
        w : param[hidden] ~ normal(0.02)
        x = x + x * w
    }
    loss = mean(x) + cross_entropy(logits, next(tokens))
}

train {
    optimizer sgd()
    lr        1e-3
}

layout {
    device cpu
    mesh   pp = 2
    layers -> pp (schedule = gpipe)
    microbatch 2
}
