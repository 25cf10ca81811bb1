# Adapters: what is frozen, the parameters beside the matrices, their names, rates and decay; several products of one
# matrix share them.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 16, hidden = 6, heads = 2, head = 4, layers = 3
block mix(x[hidden]) {
    q : param[hidden, heads, head] ~ normal(0.02) as "q_proj.weight" [(heads head), hidden]
    o : param[heads, head, hidden] ~ normal(0.02) as "o_proj.weight" [(heads head), hidden]
    y = x @ q over hidden + tanh(x) @ q over hidden
    return y @ o over (heads, head)
}
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    unembed : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    x = table[tokens]
    repeat layers as "layers.{}" {
        x = x + mix(x) as "mix"
    }
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}
train {
    optimizer adamw(decay = 0.1 where rank >= 2)
    lr        0.1
    rate      2 where "*.lora_A.*"
    adapter   dora(rank = 3, alpha = 6, dropout = 0.5, ratio = 16) on "*.q_proj.weight"
    adapter   dora(rank = 2, alpha = 6, dropout = 0.5) on "*.o_proj.weight"
}
# CLEAN-NOT: MG
# CHECK: adapter "{{.*}}rank_pattern{{.*}}layers.0.mix.o_proj
# CHECK: tensor "table" {{.*}}frozen
# CHECK: tensor "unembed" {{.*}}frozen
# CHECK: tensor "layers.mix.q" {{.*}}frozen
# CHECK: tensor "layers.mix.o" {{.*}}frozen
# CHECK: tensor "layers.mix.q.lora_A" {{.*}}"base_model.model.layers.{}.mix.q_proj.lora_A.weight"{{.*}} decay 0.1 rate 2 {{.*}}adapter 1 0 2
# CHECK: tensor "layers.mix.q.lora_B" {{.*}}"base_model.model.layers.{}.mix.q_proj.lora_B.weight"{{.*}} decay 0.1 rate 16 {{.*}}adapter 2 0 2
# CHECK: tensor "layers.mix.q.lora_magnitude_vector" {{.*}} decay 0 rate 1 {{.*}}adapter 3 0 2
# CHECK: tensor "layers.mix.o.lora_A" {{.*}}adapter 1 1 3
# CHECK: fn @train
# CHECK-COUNT-3: random
# CHECK: fn @eval
# CHECK-NOT: random
