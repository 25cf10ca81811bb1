dim batch = 2, hidden = 3
# The file begins with the mark of UTF-8, which some editors write, and its lines end with CR LF.
# RUN: %front check %s 2>&1 | FileCheck --allow-empty --check-prefix=CLEAN %s
model m(x[batch, hidden]) {
    w : param[hidden] ~ normal(1)
    loss = mean(x * w)
}
train { optimizer sgd()  lr 0.1 }
# CLEAN-NOT: MG0
