# The parameters of an instance whose body has a repeat of several kinds, or a dim of its own: of each call the same.
dim batch = 4, hidden = 4, rounds = 5

block kinds(x[hidden]) {
    y = x * 0.5
    repeat rounds at n as "r.{}" {
        w : param[hidden] ~ normal(0.5)
        y = y * w + select(n % 2 == 0, sin(y), tanh(y))
    }
    return y
}

block local(x[hidden]) {
    dim t = hidden
    w : param[hidden, t] ~ normal(0.5)
    return (x @ w over hidden)[t -> hidden]
}

block around(x[hidden]) {
    i : block kinds as "inner"
    y = i(x)
    repeat rounds at n as "r.{}" {
        w : param[hidden] ~ normal(0.5)
        y = y * w + select(n % 2 == 0, sin(y), tanh(y))
    }
    late : block kinds as "late" follows i by 0.5
    return i(y) + late(y)
}

block twice(x[hidden]) {
    i : block local as "local"
    y = i(x)
    dim t = hidden
    return y + sum(i(y) * x[hidden -> t], over t)
}

model it(x[batch, hidden]) {
    i : block kinds as "kinds"
    y = i(x)
    repeat rounds at n as "r.{}" {
        w : param[hidden] ~ normal(0.5)
        y = y * w + select(n < 3, sin(y), tanh(y))
    }
    j : block around as "around"
    loss = mean(twice(i(y)) + j(j(y)))
}

train {
    optimizer sgd()
    lr        0.1
    precision f64
}
