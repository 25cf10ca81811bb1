# dqn.mg - a deep Q-network (Mnih and others, 2015): what an action is worth, learned from steps of a game. The value of the next state is
# that of a target network, which becomes a copy of the online one in every second step.
dim layers = 2, seen = 9, hidden = 14, action = 4, batch = 8
const discount = 0.9

block residual(x[hidden]) {
    w : param[hidden, wide] ~ normal(0.3) as "weight" [wide, hidden]
    b : param[wide]         = 0 as "bias"
    return x + tanh(x @ w over hidden + b)[wide -> hidden]
}

block values(x[seen]) {
    w1 : param[seen, hidden]   ~ normal(0.3) as "fc1.weight" [hidden, seen]
    b1 : param[hidden]         = 0 as "fc1.bias"
    w2 : param[hidden, action] ~ normal(0.3) as "fc2.weight" [action, hidden]
    b2 : param[action]         = 0 as "fc2.bias"
    h = tanh(x @ w1 over seen + b1)
    repeat layers as "layers.{}" {
        h = residual(h)
    }
    return h @ w2 over hidden + b2
}

model dqn(before[batch, seen], after[batch, seen], reward[batch], done[batch], taken[batch] : token(action)) {
    online : block values as "online"
    target : block values as "target" follows online every 2
    aim = reward + discount * (1 - done) * max(target(after), over action)
    worth = online(before)
    off = worth[taken] - aim
    size = abs(off)
    loss = mean(select(size < 1, 0.5 * off * off, size - 0.5))
}

dim wide = hidden

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
