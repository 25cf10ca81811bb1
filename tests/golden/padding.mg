# The vocabulary that a program for a GPU stores larger, and who says that it does not.
# RUN: %mgc %s --device h200 --plan | FileCheck %s --check-prefixes=CHOSEN
# RUN: sed '/^layout own/,$d' %s > %t.few.mg
# RUN: %mgc %t.few.mg --device h200 -D vocab=1000 --plan | FileCheck %s --check-prefixes=NONE
# RUN: %mgc %t.few.mg --device h200 -D vocab=1001 --precision f64 --plan | FileCheck %s --check-prefixes=TILE
# RUN: %mgc %s --plan | FileCheck %s --check-prefixes=NONE
# RUN: %mgc %s --device h200 -D tp=2 --print-after=lower | FileCheck %s --check-prefixes=SPLIT
# RUN: %mgc %s --device h200 --layout plain --plan | FileCheck %s --check-prefixes=NONE
# RUN: %mgc %s --device h200 --layout own --print-after=lower | FileCheck %s --check-prefixes=OWN
# RUN: %mgc %s --device h200 --layout same --print-after=lower | FileCheck %s --check-prefixes=SAME
# RUN: not %mgc %s -D tp=3 --layout same --check 2>&1 | FileCheck %s --check-prefixes=OBEYED
# RUN: %mgc %s --device h200 --layout back --print-after=lower | FileCheck %s --check-prefixes=SAME
# RUN: sed 's/next(tokens))/next(tokens)) + mean(dropout(table, p = 0.1))/' %s > %t.mg
# RUN: %mgc %t.mg --device h200 --print-after=lower 2>&1 | FileCheck %s --check-prefixes=SAME
# CHOSEN: padding      vocab of 11 is stored as 16: rows of whole words of 16 bytes, for a GPU
# CHOSEN-NEXT: `pad none` in the layout changes it
# NONE: parameters
# NONE-NOT: padding
# NONE: predicted
# TILE: vocab of 1001 is stored as 1024:
# SPLIT: tensor "table" f32[vocab=16, hidden=8]
# OWN: tensor "table" f32[vocab=32, hidden=8]
# OBEYED: error[MG0332]: 'vocab' of 11 is not split evenly on tp, which is 3 ranks
# SAME-NOT: {{error|warning}}
# SAME: tensor "table" f32[vocab=11, hidden=8]
dim batch = 2, seq = 4, vocab = 11, hidden = 8

model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    loss = cross_entropy(table[tokens] @ table over hidden, next(tokens))
}

train {
    optimizer sgd()
    lr        0.1
}

layout {
    mesh tp = 1
    vocab -> tp
}

layout plain : default {
    pad none
}

layout own : default {
    pad vocab to 32
}

layout same : own {
    pad vocab to 11
}

layout back : own {
    pad none
}
