# Instances that follow others: by a number, by the step, from time to time; one of them follows a follower. The words are names
# elsewhere. Averages of what a loss trains.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim layers = 3, hidden = 8, batch = 4, seq = 5, vocab = 16
const follows = 2, by = 8, every = 0.5
block mix(x[hidden]) {
    dim t = hidden
    w : param[hidden, t] ~ normal(0.3) as "weight" [t, hidden]
    return tanh(x @ w over hidden)[t -> hidden]
}
block encoder(x[hidden]) {
    repeat layers as "layers.{}" {
        x = mix(x) as "mix"
    }
    return x
}
model m(tokens[batch, seq] : token(vocab)) {
    embed  : param[vocab, hidden] ~ normal(0.02)
    online : block encoder as "online"
    slow   : block encoder as "slow" follows online by min(1 - every / by, (1 + step()) / (10 + step()))
    hard   : block encoder as "hard" follows slow every follows
    x = embed[tokens]
    loss = mean(online(x) * slow(x) * hard(x))
}
train { optimizer sgd()  lr 0.1  average 0.99 }
# CLEAN-NOT: MG
# CHECK: average "0.98999999999999999 "
# CHECK: tensor "online.layers.mix.w"
# CHECK: tensor "slow.layers.mix.w" {{.*}} init const 0 0 {{.*}} follows 1 every 1 beta "0.9375 1 step add 10 step add div min " frozen
# CHECK: tensor "hard.layers.mix.w" {{.*}} follows 2 every 2 beta "0" frozen
