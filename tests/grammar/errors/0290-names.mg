# RUN: %front check %s 2>&1 | FileCheck %s
dim batch = 2, width = 4, deep = 3
block scaled(a[width], b[width], eps = 1e-5, flag) {
    v : param[width] = 1 as "v"
    once = tanh(a)
    return a * v
}
model m(x[batch, width], y[batch, width], unread[batch]) {
    z = scaled(x, y)
    repeat deep as "layers.{}" {
        w : param[width] = 1 as "w"
        round = tanh(z)
        z = z * w
    }
    last = 2 * z
    k = 3
    loss = mean((z - y) * (z - y))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0290-names.mg:3:24: warning[MG0290]: value 'b' is not used
# CHECK: 0290-names.mg:3:34: warning[MG0290]: 'eps' is not used
# CHECK: 0290-names.mg:3:46: warning[MG0290]: 'flag' is not used
# CHECK: 0290-names.mg:5:5: warning[MG0290]: value 'once' is not used
# CHECK: 0290-names.mg:12:9: warning[MG0290]: value 'round' is not used
# CHECK: 0290-names.mg:8:43: warning[MG0290]: input 'unread' is not read
# CHECK: 0290-names.mg:15:5: warning[MG0290]: value 'last' is not used
# CHECK: 0290-names.mg:16:5: warning[MG0290]: value 'k' is not used
# CHECK-NOT: {{error|warning}}[MG
