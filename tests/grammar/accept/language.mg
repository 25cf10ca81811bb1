# The program that docs/language.md is written around, and the same with its spare blocks called.
# RUN: awk '/^```/ { on = $0 == "```mg"; next } on' %models/../docs/language.md > %t.mg
# RUN: %front check %t.mg 2>&1 | FileCheck %s
# RUN: %front roundtrip %t.mg
# RUN: sed 's/^    loss = .*/& + mean(alibi(x, embed, tokens, along seq, over kv_heads, symmetric)) + mean(rescaled(x, over hidden)) + mean(gru(x) as "rnn")/' %t.mg > %t.2.mg
# RUN: %front check %t.2.mg 2>&1 | FileCheck --allow-empty --check-prefix=CALLED %s
# CHECK: warning[MG0290]: block 'alibi' is not called
# CHECK: warning[MG0290]: block 'rescaled' is not called
# CHECK: warning[MG0290]: block 'gru' is not called
# CHECK-NOT: {{error|warning}}[MG
# CALLED-NOT: MG
