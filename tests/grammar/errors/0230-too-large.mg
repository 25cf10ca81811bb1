# RUN: not %front check %s 2>&1 | FileCheck %s
block f0(x) {
    return x
}
block f1(x) {
    return f0(f0(x))
}
block f2(x) {
    return f1(f1(x))
}
block f3(x) {
    return f2(f2(x))
}
block f4(x) {
    return f3(f3(x))
}
block f5(x) {
    return f4(f4(x))
}
block f6(x) {
    return f5(f5(x))
}
block f7(x) {
    return f6(f6(x))
}
block f8(x) {
    return f7(f7(x))
}
block f9(x) {
    return f8(f8(x))
}
block f10(x) {
    return f9(f9(x))
}
block f11(x) {
    return f10(f10(x))
}
block f12(x) {
    return f11(f11(x))
}
block f13(x) {
    return f12(f12(x))
}
block f14(x) {
    return f13(f13(x))
}
block f15(x) {
    return f14(f14(x))
}
block f16(x) {
    return f15(f15(x))
}
block f17(x) {
    return f16(f16(x))
}
block f18(x) {
    return f17(f17(x))
}
block f19(x) {
    return f18(f18(x))
}
block f20(x) {
    return f19(f19(x))
}
block f21(x) {
    return f20(f20(x))
}
block f22(x) {
    return f21(f21(x))
}
block f23(x) {
    return f22(f22(x))
}
block f24(x) {
    return f23(f23(x))
}
block f25(x) {
    return f24(f24(x))
}
block f26(x) {
    return f25(f25(x))
}
block f27(x) {
    return f26(f26(x))
}
block f28(x) {
    return f27(f27(x))
}
block f29(x) {
    return f28(f28(x))
}
block f30(x) {
    return f29(f29(x))
}
block f31(x) {
    return f30(f30(x))
}
block f32(x) {
    return f31(f31(x))
}
block f33(x) {
    return f32(f32(x))
}
block f34(x) {
    return f33(f33(x))
}
block f35(x) {
    return f34(f34(x))
}
block f36(x) {
    return f35(f35(x))
}
block f37(x) {
    return f36(f36(x))
}
block f38(x) {
    return f37(f37(x))
}
block f39(x) {
    return f38(f38(x))
}
dim batch = 2, seq = 4, vocab = 8, hidden = 3
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] ~ normal(0.02)
    x = table[tokens]
    loss = mean(f39(x))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0230-too-large.mg:6:18: error[MG0230]: the program is too large: more than 1000000 operations
# CHECK-NOT: {{error|warning}}[MG
