# RUN: not %mgc %s -D dp=2 --device cpu2t --check 2>&1 | FileCheck %s
# RUN: %mgc %s -D dp=1 --device cpu2t --check | FileCheck %s --check-prefix=ONE
# CHECK: exposed.mg:{{[0-9]+}}:12: error[MG0553]: {{.*}}% of a step are predicted to wait for communication where the layout asserts less than 0.1%
# CHECK: note: all_reduce over 'dp': {{[0-9]+}} times, {{.*}} a rank, {{.*}} ms
# CHECK: help: fewer ranks on that axis
# ONE: 1 rank, {{.*}} no communication
dim hidden = 32, vocab = 8, seq = 8, batch = 8

model exposed(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        constant(peak = 1e-2)
}

layout {
    device     cpu
    mesh       dp = 1
    batch      -> dp
    microbatch 2
    assert exposed_comm < 0.1%
}
