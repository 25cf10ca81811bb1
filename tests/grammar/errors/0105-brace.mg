# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 3
block f(x) {
    return x

model m(t[a, a] : token(a)) {
}
# CHECK: 0105-brace.mg:6:1: error[MG0105]: expected '}' before 'model'
# CHECK: 0105-brace.mg:3:12: note: to close this one
# CHECK-NOT: {{error|warning}}[MG
