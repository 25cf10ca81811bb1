# RUN: not %front check %s 2>&1 | FileCheck %s
const a = 1e400
# CHECK: 0104-number-range.mg:2:11: error[MG0104]: '1e400' is more than a double can hold
# CHECK-NOT: {{error|warning}}[MG
