# RUN: %mgc %s --device cpu2t --plan | FileCheck %s --check-prefixes=CPU
# RUN: %mgc %s --device h200 --plan | FileCheck %s --check-prefixes=GPU
# RUN: %mgc %s --layout gpu --plan | FileCheck %s --check-prefixes=GPU
# RUN: %mgc %s --device %S/Inputs/fast.json --plan | FileCheck %s --check-prefixes=GPU
# RUN: %mgc %s --device h200 --precision f32 --plan | FileCheck %s --check-prefixes=SAID
# RUN: sed 's/clip 1.0/precision tf32/' %s > %t.mg
# RUN: %mgc %t.mg --device h200 --plan | FileCheck %s --check-prefixes=WRITTEN
# RUN: %mgc %s --device h200 --print-after=precision | FileCheck %s --check-prefixes=IR
# RUN: %mgc %s --device h200 --print-after=lower > %t.mgir
# RUN: %mgc --from=%t.mgir --plan | FileCheck %s --check-prefixes=FROM
# RUN: %mgc %s --device h200 --plan=json | FileCheck %s --check-prefixes=JSON
# RUN: %mgc %s --device h200 --check | FileCheck %s --check-prefixes=LINE
#
# A source that says no precision: bf16 on a GPU, with parameters and state in f32, and f32 on a processor. The plan says
# which, and who decided it.
# CPU: precision f32: the default of a processor; `precision bf16` in the train block changes it
# GPU: precision bf16: the default of a GPU; `precision f32` in the train block changes it
# SAID: precision f32: --precision says so
# WRITTEN: precision tf32: the train block says so
# FROM: precision bf16: the text of the program says so
# JSON: "precision": "bf16"
# JSON: "precision_reason": "the default of a GPU;
# LINE: layout default on h200 in bf16; peak
# IR: train {{.*}} half bf16
# IR: tensor "embed" f32[
# IR: bf16[batch=4, seq=8, vocab=64] = dot
dim seq = 8, hidden = 16, vocab = 64, batch = 4

model line(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    head  : param[hidden, vocab] ~ normal(0.1) as "head"
    loss = cross_entropy(tanh(embed[tokens]) @ head over hidden, next(tokens))
}

train {
    optimizer adamw()
    lr        1e-3
    clip 1.0
}

layout gpu {
    device h100
}
