# RUN: not %front check %s 2>&1 | FileCheck %s
dim aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 3
# CHECK: 0102-long-name.mg:2:5: error[MG0102]: a name of 140 bytes; the limit is 128
# CHECK-NOT: {{error|warning}}[MG
