# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = .5
# CHECK: 0101-point.mg:2:9: error[MG0101]: '.' means nothing here
# CHECK: help: numbers begin with a digit: 0.5
# CHECK-NOT: {{error|warning}}[MG
