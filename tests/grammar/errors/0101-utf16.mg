# RUN: printf "\377\376d\000i\000m\000" > %t
# RUN: not %front check %t 2>&1 | FileCheck %s
# CHECK: :1:1: error[MG0101]: the file is UTF-16
# CHECK: help: save it as UTF-8 or ASCII
# CHECK-NOT: {{error|warning}}[MG
