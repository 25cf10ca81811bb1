# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy(table[tokens] @ table over hidden, next(tokens))
}
train { optimizer adamw()  lr 0.1  }
layout { offload state -> moon }
layout b { offload states -> host }
layout c { offload all }
layout d { offload state -> host, disk }
layout f { microbatch 2 -> dp }
# CHECK: 0346-offload.mg:8:27: error[MG0346]: there is no level of memory 'moon'
# CHECK: help: there is: host, disk
# CHECK: 0346-offload.mg:9:20: error[MG0346]: there is no class of what can be offloaded 'states'
# CHECK: 0346-offload.mg:10:20: error[MG0346]: there is no way to offload 'all'
# CHECK: 0346-offload.mg:11:35: error[MG0346]: a class lies on one level, which has no settings
# CHECK: 0346-offload.mg:12:28: error[MG0302]: 'microbatch' takes no '->'
# CHECK-NOT: {{error|warning}}[MG
