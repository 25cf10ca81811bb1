# Every model in models/ is canonical text and elaborates.
# RUN: %front roundtrip %models/mlp.mg        | FileCheck %s
# RUN: %front roundtrip %models/llama_mini.mg | FileCheck %s
# RUN: %front roundtrip %models/llama_56m.mg  | FileCheck %s
# RUN: %front roundtrip %models/llama7b.mg    | FileCheck %s
# RUN: %front roundtrip %models/gpt2_124m.mg  | FileCheck %s
# RUN: %front fmt %models/mlp.mg        | diff - %models/mlp.mg
# RUN: %front fmt %models/llama_mini.mg | diff - %models/llama_mini.mg
# RUN: %front fmt %models/llama_56m.mg  | diff - %models/llama_56m.mg
# RUN: %front fmt %models/llama7b.mg    | diff - %models/llama7b.mg
# RUN: %front fmt %models/gpt2_124m.mg  | diff - %models/gpt2_124m.mg
# RUN: %front check %models/mlp.mg
# RUN: %front check %models/llama_mini.mg
# RUN: %front check %models/llama_56m.mg
# RUN: %front check %models/llama7b.mg
# RUN: %front check %models/gpt2_124m.mg
# CHECK: text same, tree same, comments same
