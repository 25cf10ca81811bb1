# What is trained whole beside an adapter has PEFT's names and is not frozen; adapter_config.json has its modules.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
# RUN: %front ir %s | FileCheck %s
# RUN: %front roundtrip %s
dim batch = 2, seq = 4, vocab = 16, hidden = 6, ffn = 8, layers = 4
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    unembed : param[hidden, vocab] ~ normal(0.02) as "head.weight" [vocab, hidden]
    x = table[tokens]
    repeat layers as "layers.{}" {
        up   : param[hidden, ffn] ~ normal(0.02) as "up.weight" [ffn, hidden]
        down : param[ffn, hidden] ~ normal(0.02) as "down.weight" [hidden, ffn]
        x = x + tanh(x @ up over hidden) @ down over ffn
    }
    loss = cross_entropy(x @ unembed over hidden, next(tokens))
}
train {
    optimizer sgd()
    lr 0.1
    adapter lora(rank = 2) on "*.up.weight"
    adapter whole() on "head.weight", "*.down.weight"
}
# CLEAN-NOT: MG
# CHECK-DAG: modules_to_save\x22: {{.}}\x0a    \x22head\x22,\x0a    \x22layers.0.down\x22,
# CHECK-DAG: "base_model.model.head.weight"{{.*}} adapter 4
# CHECK-NOT: "base_model.model.head.weight"{{.*}} frozen
# CHECK-NOT: "base_model.model.layers.{}.down.weight"{{.*}} frozen
