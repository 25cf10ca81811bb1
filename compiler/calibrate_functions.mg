# calibrate_functions.mg - what `mgc calibrate` runs to measure what this machine's generated kernels compute: functions of numbers that
# are in a cache, eight of each, which do not wait for each other.
dim vocab = 256, seq = 64, batch = 4
dim wide = 1024, wider = 1040, widest = 1056  # not of one size: they would be one kernel

block exps(x, over d) {
    return mean(exp(x) + exp(0.9 * x) + exp(0.8 * x) + exp(0.7 * x) + exp(0.6 * x) + exp(0.5 * x) + exp(0.4 * x) + exp(0.3 * x), over d)
}

block sigmoids(x, over d) {
    return mean(sigmoid(x) + sigmoid(0.9 * x) + sigmoid(0.8 * x) + sigmoid(0.7 * x) + sigmoid(0.6 * x) + sigmoid(0.5 * x) + sigmoid(0.4 * x) + sigmoid(0.3 * x), over d)
}

block tanhs(x, over d) {
    return mean(tanh(x) + tanh(0.9 * x) + tanh(0.8 * x) + tanh(0.7 * x) + tanh(0.6 * x) + tanh(0.5 * x) + tanh(0.4 * x) + tanh(0.3 * x), over d)
}

model calibrate_functions(tokens[batch, seq] : token(vocab)) {
    first  : param[vocab, wide]   ~ normal(1)
    second : param[vocab, wider]  ~ normal(1)
    third  : param[vocab, widest] ~ normal(1)
    weight : param[vocab]         ~ normal(0.1)
    y = exps(first[tokens], over wide) + sigmoids(second[tokens], over wider) + tanhs(third[tokens], over widest)
    loss = mean(weight[tokens] * y)
}

train {
    optimizer sgd()
    frozen    where rank >= 2
    lr        constant(1e-4)
}

layout {
    device cpu
}
