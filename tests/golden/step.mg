# RUN: not %mgc %s --device=%S/Inputs/small.json --check 2>&1 | FileCheck %s
# RUN: not %mgc %s --device=%S/Inputs/small.json -o %t.out; test ! -e %t.out
# RUN: %mgc %s --device=%S/Inputs/small.json -D batch=11 --check | FileCheck %s --check-prefix=HOLDS
# RUN: sed s/1048576/8388608/ %S/Inputs/small.json > %t.json
# RUN: not %mgc %s --device=%t.json -D hidden=64 -D vocab=500 -D seq=200 --check 2>&1 | FileCheck %s --check-prefix=LONG
# RUN: %mgc %s --device=%S/Inputs/small.json -D batch=11 --print-after=lower > %t.ir
# RUN: %mgc --from=%t.ir --device=%S/Inputs/small.json --check | FileCheck %s --check-prefix=HOLDS
#
# A step that takes longer than the layout asserts does not compile; who takes the time is said.
# CHECK: step.mg:32:16: error[MG0552]: a step is predicted to take {{.*}} ms where the layout asserts less than 0.15 ms
# CHECK: step.mg:{{[0-9]+}}:{{[0-9]+}}: note: {{.*}} ms, {{.*}}% of the step: '{{.*}}', 32 times
# CHECK: help: -D batch=11{{$}}
# HOLDS: step 142 us predicted
# LONG: help: even one microbatch of 1 takes {{.*}} ms: assert more, or name a faster device
dim hidden = 4, vocab = 8, seq = 3, batch = 32

model line(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed"
    loss = cross_entropy(embed[tokens] @ embed over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2)
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 1
    assert     step < 0.15 ms
}
