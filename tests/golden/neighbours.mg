# RUN: %mgc %s --device h100 --emit=cuda -o - | FileCheck %s
# Eight of a warp's threads are neighbours along what is read turned, the other four along what is written, with a vector each. Neighbours
# three positions back are a vector, too, and whether they are there is computed once.
# CHECK: k_exp(const
# CHECK: const int [[WHO:i[0-9]+]] = at % 32;
# CHECK: const int [[HIDDEN:i[0-9]+]] = ({{.*}} * 4 + [[WHO]] / 8) * 4;
# CHECK: const int [[SEQ:i[0-9]+]] = {{.*}} * 8 + [[WHO]] % 8;
# CHECK: const int [[AT:v[0-9]+]] = [[SEQ]] - 3;
# CHECK: const bool [[THERE:v[0-9]+]] = [[AT]] >= 0 && [[AT]] < 64;
# CHECK: const int [[FROM:v[0-9]+]] = [[THERE]] ? [[AT]] : 0;
# CHECK: const mg_vec<float, 4> [[BACK:q[0-9]+]] = *(const mg_vec<float, 4> *)&p0[{{.*}} + [[FROM]] * 32 + [[HIDDEN]]];
# CHECK: = p2[[[HIDDEN]] * 64 + [[SEQ]]];
# CHECK-NOT: [[SEQ]] - 3
# CHECK: [[BACK]].x[3]
dim hidden = 32, wide = 64, vocab = 256, seq = 64, batch = 4

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.1)
    turn  : param[hidden, seq]   ~ normal(0.1)
    tap   : param[hidden]        ~ normal(0.1)
    x = table[tokens]
    y = x + x[seq - 3] * tap
    loss = cross_entropy(exp(y * turn) @ table over hidden, next(tokens))
}

train {
    optimizer adamw()
    lr        1e-3
    precision f32
}
