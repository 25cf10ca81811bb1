# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = 3 ä
# CHECK: 0101-bytes.mg:2:11: error[MG0101]: byte 0xc3 outside of a comment
# CHECK: help: names are ASCII; any text may stand in a comment
# CHECK-NOT: {{error|warning}}[MG
