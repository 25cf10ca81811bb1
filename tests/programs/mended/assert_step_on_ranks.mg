# A step that is longer than asserted (MG0552): its batch is one microbatch on each of two ranks, without a loop of microbatches.
dim features = 2, batch = 2

model m(x[batch, features]) {
    w : param[features] = 0.5
    loss = mean(pow(x * w - 1, 2))
}

train {
    optimizer adamw
    lr        1e-2
}

layout {
    mesh dp = 2
    batch -> dp
    assert step < 1 us
}
