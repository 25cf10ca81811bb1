# Parts of one tensor of files have one A; their B are parts of one tensor; what is dropped is drawn once.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
dim batch = 2, seq = 4, vocab = 16, hidden = 6, up = 4, layers = 3
block mix(x[hidden]) {
    gate : param[hidden, up] ~ normal(0.02) as "gate_up.weight" [up at 0, hidden]
    rise : param[hidden, up] ~ normal(0.02) as "gate_up.weight" [up at up, hidden]
    down : param[up, hidden] ~ normal(0.02) as "down.weight" [hidden, up]
    return (tanh(x @ gate over hidden) * (x @ rise over hidden)) @ down over up
}
model m(tokens[batch, seq] : token(vocab)) {
    table   : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    unembed : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    x = table[tokens]
    repeat layers as "layers.{}" {
        x = x + mix(x) as "mix"
    }
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}
train {
    optimizer adamw()
    lr        0.1
    adapter   dora(rank = 2, alpha = 6, dropout = 0.5) on "*.gate_up.weight"
}
# CLEAN-NOT: MG
# CHECK: tensor "layers.mix.gate.lora_A" f32[layers=3, hidden=6, rank=2] external "base_model.model.layers.{}.mix.gate_up.lora_A.weight"
# CHECK: tensor "layers.mix.gate.lora_B" {{.*}}gate_up.lora_B.weight"{{.*}} part 0 at 0 of 8
# CHECK: tensor "layers.mix.gate.lora_magnitude_vector" {{.*}} part 0 at 0 of 8
# CHECK-NOT: lora_A
# CHECK: tensor "layers.mix.rise.lora_B" {{.*}}gate_up.lora_B.weight"{{.*}} part 0 at 4 of 8
# CHECK: fn @train
# CHECK-COUNT-1: = random
# CHECK-NOT: = random
# CHECK: fn @eval
