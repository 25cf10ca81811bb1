# RUN: %mgc %s --print-after=update > %t.ir
# RUN: FileCheck %s --check-prefix=TEXT < %t.ir
# RUN: %mgc --from=%t.ir --check | FileCheck %s --check-prefix=FINE
# RUN: %mgc explain %s ab | FileCheck %s --check-prefix=EXPLAIN
# RUN: %mgc %s --layout two --plan | FileCheck %s --check-prefix=PLAN
# RUN: sed '/^tensor "b"/s/part 1 at 5/part 1 at 4/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=OVER
# RUN: sed '/^tensor "b"/s/part 1 at 5 of 8/part 1 at 6 of 9/;/^tensor "a"/s/of 8/of 9/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=GAP
# RUN: sed '/^tensor "b"/s/part 1 at 5 of 8/part 1 at 5 of 9/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=OVER
# RUN: sed '/^tensor "b"/s/part 1 at 5 of 8 //' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=OVER
#
# Parts of an external tensor in a text; the means of rows and columns that Adafactor keeps of parts of columns: those of
# the rows are a row of their own for each part.
# TEXT: tensor "b" f32[width=8, few=3] external "ab" {{.*}} order [0, 1] merge [1, 1] part 1 at 5 of 8 init
# TEXT: tensor "exp_avg_sq_row.a" f32[width=8] external "ab" {{.*}} order [0] merge [0, 1] part 0 at 0 of 2 init
# TEXT: tensor "exp_avg_sq_col.a" f32[many=5] external "ab" {{.*}} order [0] merge [1] part 0 at 0 of 8 init
# TEXT: tensor "exp_avg_sq_row.b" f32[width=8] external "ab" {{.*}} order [0] merge [0, 1] part 0 at 1 of 2 init
# TEXT: tensor "exp_avg_sq_col.b" f32[few=3] external "ab" {{.*}} order [0] merge [1] part 0 at 5 of 8 init
# EXPLAIN: external ab [8, 8], of which it is 0 to 4 along dim 2{{$}}
# EXPLAIN: external ab [8, 8], of which it is 5 to 7 along dim 2{{$}}
# PLAN: ab at 0 {{.*}} [width=8, many=5] whole
# PLAN: ab at 5 {{.*}} [width=8, few=3] whole
# FINE: 1 rank
# OVER: error[MG0276]: '{{a|b}}' and '{{a|b}}' share the external name 'ab'
# GAP: error[MG0276]: the parts of 'ab' have 8 of its 9 elements
dim batch = 4, width = 8, many = 5, few = 3

model m(x[batch, width], y[batch]) {
    a : param[width, many] ~ normal(0.1) as "ab" [width, many at 0]
    b : param[width, few]  ~ normal(0.1) as "ab" [width, few at many]
    z = sum(x @ a over width, over many) + sum(x @ b over width, over few)
    loss = mean((z - y) * (z - y))
}

train {
    optimizer adafactor()
    lr        0.1
}

layout {
    device cpu
}

layout two : default {
    mesh dp = 2
    batch -> dp
}
