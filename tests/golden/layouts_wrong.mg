# RUN: not %mgc %s --layout few_heads --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=FEW-HEADS
# RUN: not %mgc %s --layout ffn_by_5 --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=FFN-BY-5
# RUN: not %mgc %s --layout ffn_by_two_axes --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=FFN-BY-TWO-AXES
# RUN: not %mgc %s --layout seq_by_8 --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=SEQ-BY-8
# RUN: not %mgc %s --layout vocab_by_3 --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=VOCAB-BY-3
# RUN: not %mgc %s --layout groups_by_2 --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=GROUPS-BY-2
# RUN: not %mgc %s --layout heads_by_two_axes --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=HEADS-BY-TWO-AXES
# RUN: not %mgc %s --layout hidden_by_7 --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=HIDDEN-BY-7
# RUN: not %mgc %s --layout two_uneven --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=TWO-UNEVEN
# RUN: not %mgc %s --layout unused --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=UNUSED
# RUN: not %mgc %s --layout two_unused --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=TWO-UNUSED
# RUN: not %mgc %s --layout too_small --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=TOO-SMALL
# RUN: not %mgc %s --layout nothing --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=NOTHING
# RUN: %mgc %s --layout masked --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=MASKED
# RUN: not %mgc %s --layout zigzag --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=ZIGZAG
# RUN: not %mgc %s --layout exposed --device cpu2t --check 2>&1 | FileCheck %s --check-prefix=EXPOSED
# FEW-HEADS: error[MG0332]: 'kv_heads' of 2 is not split evenly on tp, which is 4 ranks
# FEW-HEADS: help: -D tp=2
# FEW-HEADS: help: -D kv_heads=4
# FEW-HEADS: help: `pad kv_heads to 4` in the layout: 100% more of all that has 'kv_heads'
# FFN-BY-5: error[MG0332]: 'ffn' of 48 is not split evenly on tp, which is 5 ranks
# FFN-BY-5: help: -D tp=4
# FFN-BY-5: help: -D tp=6
# FFN-BY-5: help: -D ffn=50
# FFN-BY-TWO-AXES: error[MG0332]: 'ffn' of 48 is not split evenly on cp, tp, which is 32 ranks
# FFN-BY-TWO-AXES: help: -D cp=3
# FFN-BY-TWO-AXES: help: -D cp=6
# FFN-BY-TWO-AXES: help: -D tp=6
# FFN-BY-TWO-AXES: help: -D tp=12
# FFN-BY-TWO-AXES: help: -D ffn=64
# FFN-BY-TWO-AXES: help: `pad ffn to 64` in the layout: 33% more of all that has 'ffn'
# SEQ-BY-8: error[MG0332]: 'seq' of 12 is not split evenly on cp, which is 8 ranks
# SEQ-BY-8: help: -D cp=6
# SEQ-BY-8: help: -D cp=12
# SEQ-BY-8: help: -D seq=16
# VOCAB-BY-3: error[MG0332]: 'vocab' of 64 is not split evenly on tp, which is 3 ranks
# VOCAB-BY-3: help: -D tp=2
# VOCAB-BY-3: help: -D tp=4
# VOCAB-BY-3: help: -D vocab=66
# GROUPS-BY-2: error[MG0332]: 'group' of 3 is not split evenly on tp, which is 2 ranks
# GROUPS-BY-2: help: -D tp=1
# GROUPS-BY-2: help: -D tp=3
# GROUPS-BY-2: help: -D group=4
# GROUPS-BY-2: help: `pad group to 4` in the layout: 33% more of all that has 'group'
# HEADS-BY-TWO-AXES: error[MG0332]: 'kv_heads' of 2 is not split evenly on cp, tp, which is 4 ranks
# HEADS-BY-TWO-AXES: help: -D cp=1
# HEADS-BY-TWO-AXES: help: -D tp=1
# HEADS-BY-TWO-AXES: help: -D kv_heads=4
# HIDDEN-BY-7: error[MG0332]: 'hidden' of 32 is not split evenly on tp, which is 7 ranks
# HIDDEN-BY-7: help: -D tp=4
# HIDDEN-BY-7: help: -D tp=8
# HIDDEN-BY-7: help: -D hidden=35
# TWO-UNEVEN: error[MG0332]: 'ffn' of 48 is not split evenly on tp, which is 7 ranks
# TWO-UNEVEN: help: -D tp=6
# TWO-UNEVEN: help: -D tp=8
# TWO-UNEVEN: help: -D ffn=49
# TWO-UNEVEN: error[MG0332]: 'kv_heads' of 2 is not split evenly on tp, which is 7 ranks
# TWO-UNEVEN: help: -D tp=2
# TWO-UNEVEN: help: -D kv_heads=7
# UNUSED: error[MG0333]: no rule splits anything on axis 'ep', of 2 ranks
# UNUSED: help: a rule, such as batch -> ep
# UNUSED: help: -D ep=1
# TWO-UNUSED: error[MG0333]: no rule splits anything on axis 'ep', of 2 ranks
# TWO-UNUSED: help: a rule, such as batch -> ep
# TWO-UNUSED: help: -D ep=1
# TWO-UNUSED: error[MG0333]: no rule splits anything on axis 'pp', of 2 ranks
# TWO-UNUSED: help: a rule, such as batch -> pp
# TWO-UNUSED: help: -D pp=1
# TOO-SMALL: error[MG0333]: no rule splits anything on axis 'dp', of 32 ranks
# TOO-SMALL: help: -D dp=1
# NOTHING: error[MG0337]: a rule for 'spare', which nothing in the program has
# NOTHING: help: parameters have vocab, hidden, ffn, kv_heads, group, head
# MASKED: warning[MG0338]: this rule splits nothing: wherever 'batch' is, dp is in use by rules before
# ZIGZAG: error[MG0332]: 'seq' of 12 is not split evenly on cp, which is 4 ranks, each with two parts in zigzag order
# ZIGZAG: help: -D cp=3
# ZIGZAG: help: -D cp=6
# ZIGZAG: help: -D seq=16
# EXPOSED: error[MG0553]: {{.*}}% of a step are predicted to wait for communication where the layout asserts less than 1%
# EXPOSED: help: fewer ranks on that axis, a larger microbatch, or assert more
dim hidden = 32, kv_heads = 2, group = 3, head = 8, ffn = 48, layers = 2, spare = 8
dim vocab = 64, seq = 12, batch = 12

block attend(x[hidden]) {
    wq : param[hidden, kv_heads, group, head] ~ normal(0.02)
    wk : param[hidden, kv_heads, head]        ~ normal(0.02)
    wv : param[hidden, kv_heads, head]        ~ normal(0.02)
    wo : param[kv_heads, group, head, hidden] ~ normal(0.02)
    return attention(x @ wq over hidden, x @ wk over hidden, x @ wv over hidden, along seq, over head, causal) @ wo over (kv_heads, group, head)
}

model bad(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    x = embed[tokens]
    repeat layers as "l.{}" {
        up   : param[hidden, ffn] ~ normal(0.02)
        down : param[ffn, hidden] ~ normal(0.02)
        x = x + attend(x)
        x = x + tanh(x @ up over hidden) @ down over ffn
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}

train {
    optimizer adamw
    lr        1e-2
}

layout few_heads {
    mesh tp = 4
    kv_heads -> tp
}

layout ffn_by_5 {
    mesh tp = 5
    ffn -> tp
    pad none
}

layout ffn_by_two_axes {
    mesh dp = 2, cp = 4, tp = 8
    batch -> dp
    ffn   -> cp, tp
}

layout seq_by_8 {
    mesh cp = 8
    seq -> cp
}

layout vocab_by_3 {
    mesh tp = 3
    vocab -> tp
    pad none
}

layout groups_by_2 {
    mesh tp = 2
    group -> tp
}

layout heads_by_two_axes {
    mesh cp = 2, tp = 2
    kv_heads -> cp, tp
}

layout hidden_by_7 {
    mesh tp = 7
    hidden -> tp
    pad none
}

layout two_uneven {
    mesh tp = 7
    kv_heads, ffn -> tp
    pad none
}

layout unused {
    mesh dp = 2, ep = 2
    batch -> dp
}

layout two_unused {
    mesh dp = 2, ep = 2, pp = 2
    batch -> dp
}

layout too_small {
    mesh tp = 2, dp = 32
    ffn   -> tp
    state -> dp
}

layout nothing {
    mesh dp = 2, tp = 2
    batch      -> dp
    ffn, spare -> tp
}

layout masked {
    mesh dp = 2
    batch        -> dp
    batch, vocab -> dp
}

layout zigzag {
    mesh cp = 4
    seq -> cp (zigzag)
}

layout exposed {
    mesh dp = 2
    batch -> dp
    assert exposed_comm < 1%
}
