# RUN: %mgc %s --print-after=lower > %t.ir
# RUN: %mgc --from=%t.ir --check | FileCheck %s --check-prefix=FINE
# RUN: sed 's/"one"/"two"/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=TWICE
# RUN: sed 's/"one"/"h.2.w"/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=ROUND
# RUN: sed 's/"one"/"h.3.w"/' %t.ir > %t.mgir
# RUN: %mgc --from=%t.mgir --check | FileCheck %s --check-prefix=FINE
# RUN: sed 's/"one"/"__metadata__"/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=KEY
# RUN: sed 's/"one"/""/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=EMPTY
# RUN: sed 's/"one"/"a..b"/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=EMPTY
# RUN: sed 's/"one"/"one.{}"/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=HOLES
# RUN: sed 's/"one"/"\\xff"/' %t.ir > %t.mgir
# RUN: not %mgc --from=%t.mgir --check 2>&1 | FileCheck %s --check-prefix=BYTES
#
# External names of a text keep the rules of those of a source.
# FINE: 1 rank
# TWICE: from_names.mg:{{[0-9]+}}:5: error[MG0276]: '{{a|b}}' and '{{a|b}}' share the external name 'two'
# ROUND: error[MG0276]: '{{.*}}' and '{{.*}}' share the external name 'h.2.w'
# KEY: error[MG0276]: external name '__metadata__' of 'a' is the key of something else in safetensors files
# EMPTY: error[MG0276]: external name '{{.*}}' of 'a' has an empty part
# HOLES: error[MG0276]: external name 'one.{}' of 'a' has not one {} for each stacked dim
# BYTES: error[MG0276]: external name '\xff' of 'a' is not printable ASCII
dim batch = 4, width = 8, deep = 3

model m(x[batch, width], y[batch, width]) {
    a : param[width] = 1 as "one"
    b : param[width] = 1 as "two"
    z = x * a * b
    repeat deep as "h.{}" {
        w : param[width] = 1 as "w"
        z = z * w
    }
    loss = mean((z - y) * (z - y))
}

train {
    optimizer sgd()
    lr        0.1
}
