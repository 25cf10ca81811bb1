# RUN: not %front check %s 2>&1 | FileCheck %s
dim model = 4
# CHECK: 0105-keyword.mg:2:5: error[MG0105]: expected a name, found 'model'
# CHECK: help: 'model' is a reserved word: choose another name
# CHECK-NOT: {{error|warning}}[MG
