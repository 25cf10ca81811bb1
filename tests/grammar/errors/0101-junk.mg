# RUN: not %front check %s 2>&1 | FileCheck %s
dim a = $$$ 3
# CHECK: 0101-junk.mg:2:9: error[MG0101]: '$' means nothing here
# CHECK-NOT: {{error|warning}}[MG
