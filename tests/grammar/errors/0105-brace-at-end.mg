# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 3
block f(x) {
    return x
# CHECK: 0105-brace-at-end.mg:5:1: error[MG0105]: expected '}' before the end of the file
# CHECK: 0105-brace-at-end.mg:3:12: note: to close this one
# CHECK-NOT: {{error|warning}}[MG
