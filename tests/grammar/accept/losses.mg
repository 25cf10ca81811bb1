# Two losses: which parameters follow which, and what their train blocks say of them alone.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    head  : param[hidden, vocab] ~ normal(0.02)
    bias  : param[vocab]         = 0
    x = table[tokens]
    other = mean(x @ head over hidden + bias)
    loss = cross_entropy(x @ head over hidden + stop(bias), next(tokens))
}
train other where "head", "bi*" { # in any order
    optimizer adamw(decay = 0.1 where rank >= 2)
    lr        linear(peak = 0.2, steps = 7)
    clip      0.5
    rate      2 where vocab
}
train {
    optimizer sgd(decay = 0.2)
    lr        0.1
}
# CLEAN-NOT: MG
# CHECK: goal "other" adamw {{.*}} clip 0.5 peak 0.2 floor 0 lr linear warmup 0 steps 7 last 0 linear
# CHECK: metric "other"
# CHECK: tensor "table" {{.*}} decay 0.2 rate 1
# CHECK-NOT: goal
# CHECK: tensor "head" {{.*}} decay 0.1 rate 2 goal 1
# CHECK: tensor "bias" {{.*}} decay 0 rate 2 goal 1
# CHECK: fn @train
# CHECK: result loss{{$}}
# CHECK-NEXT: result loss 1
# CHECK: fn @eval
# CHECK: result loss{{$}}
# CHECK-NEXT: result metric 0
