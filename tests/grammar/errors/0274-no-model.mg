# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 3
train { optimizer sgd()  lr 0.1 }
# CHECK: 0274-no-model.mg:1:1: error[MG0274]: there is no model
# CHECK: help: model name(tokens[batch, seq] : token(vocab)) { ... loss = ... }
# CHECK-NOT: {{error|warning}}[MG
