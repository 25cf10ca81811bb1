# RUN: not %front check %s 2>&1 | FileCheck %s
block move(x, from : token(rows), to : token(rows)) {
    return x[from]
}
# CHECK: 0105-reserved-parameter.mg:2:35: error[MG0105]: expected 'over', 'along' or a name, found 'to'
# CHECK: help: 'to' is a reserved word: choose another name
# CHECK-NOT: {{error|warning}}[MG
