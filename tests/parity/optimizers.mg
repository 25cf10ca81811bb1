# Optimizers that a file declares, each as rules.py has it: from torch.optim, or written out from its paper.

# Loshchilov and Hutter 2019, as the language's own.
optimizer own_adamw(betas = (0.9, 0.999), eps = 1e-8, decay = 0) {
    state m as "exp_avg", v as "exp_avg_sq"
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    p = p * (1 - lr * decay)
    p = p - lr / (1 - pow(beta1, step)) * m / (sqrt(v / (1 - pow(beta2, step))) + eps)
}

# Chen et al. 2023
optimizer own_lion(beta1 = 0.9, beta2 = 0.99, decay = 0) {
    state m
    p = p - lr * (sign(beta1 * m + (1 - beta1) * g) + decay * p)
    m = beta2 * m + (1 - beta2) * g
}

setting 0 <= mu_decay < 1

# Dozat 2016; the product of all momenta so far is one number for a parameter.
optimizer nadam(betas = (0.9, 0.999), eps = 1e-8, mu_decay = 4e-3, decay = 0) {
    state m as "exp_avg", v as "exp_avg_sq", product[] = 1 as "mu_product"
    g = regularized(p, g, decay = decay)
    mu = beta1 * (1 - 0.5 * pow(0.96, step * mu_decay))
    next = beta1 * (1 - 0.5 * pow(0.96, (step + 1) * mu_decay))
    product = product * mu
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    size = sqrt(v / (1 - pow(beta2, step))) + eps
    p = p - lr * (1 - mu) / (1 - product) * g / size - lr * next / (1 - product * next) * m / size
}

# Liu et al. 2020
block rectified(step, beta2 =) {
    longest = 2 / (1 - beta2) - 1
    rho = longest - 2 * step * pow(beta2, step) / (1 - pow(beta2, step))
    r = (rho - 4) * (rho - 2) * longest / ((longest - 4) * (longest - 2) * rho)
    return select(rho > 5, sqrt(max(r, 0)), 0)  # 0: the variance is not tractable yet
}

optimizer radam(betas = (0.9, 0.999), eps = 1e-8, decay = 0) {
    state m as "exp_avg", v as "exp_avg_sq"
    g = regularized(p, g, decay = decay)
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    r = rectified(step, beta2 = beta2)
    size = select(r > 0, r * sqrt(1 - pow(beta2, step)) / (sqrt(v) + eps), 1)
    p = p - lr * m / (1 - pow(beta1, step)) * size
}

# Kingma and Ba 2015
optimizer adamax(betas = (0.9, 0.999), eps = 1e-8) {
    state m as "exp_avg", u as "exp_inf"
    m = average(m, g, beta = beta1)
    u = max(beta2 * u, abs(g) + eps)
    p = p - lr / (1 - pow(beta1, step)) * m / u
}

# Duchi et al. 2011; the sums begin with a number of the source.
optimizer adagrad(lr_decay = 0, eps = 1e-10) {
    state sum_of_squares = 0.1 as "sum"
    sum_of_squares = sum_of_squares + g * g
    p = p - lr / (1 + (step - 1) * lr_decay) * g / (sqrt(sum_of_squares) + eps)
}

# Riedmiller and Braun 1993
const least = 1e-6, most = 50
optimizer rprop(slower = 0.5, faster = 1.2) {
    state before as "prev", size as "step_size"
    turned = g * before
    size = select(step == 1, lr, size)
    size = max(min(size * select(turned > 0, faster, select(turned < 0, slower, 1)), most), least)
    g = select(turned < 0, 0, g)
    p = p - sign(g) * size
    before = g
}

setting centered

optimizer rmsprop(alpha = 0.99, momentum = 0, eps = 1e-8, centered = 0) {
    state v as "square_avg", m as "momentum_buffer"
    state a as "grad_avg" where centered != 0
    v = average(v, g * g, beta = alpha)
    a = select(centered, average(a, g, beta = alpha), 0)
    m = momentum * m + g / (sqrt(v - a * a) + eps)
    p = p - lr * m
}

# Xie et al. 2022
optimizer adan(beta1 = 0.98, beta2 = 0.92, beta3 = 0.99, eps = 1e-8, decay = 0) {
    state m, v, n, before
    change = select(step == 1, 0, g - before)
    ahead = g + beta2 * change
    m = average(m, g, beta = beta1)
    v = average(v, change, beta = beta2)
    n = average(n, ahead * ahead, beta = beta3)
    size = sqrt(n / (1 - pow(beta3, step))) + eps
    move = (m / (1 - pow(beta1, step)) + beta2 * v / (1 - pow(beta2, step))) / size
    p = (p - lr * move) / (1 + lr * decay)
    before = g
}

# You et al. 2020: each layer's parameter moves by a part of its own norm.
block norm_of(x, over d) {
    return sqrt(sum(x * x, over d))
}

optimizer lamb(betas = (0.9, 0.999), eps = 1e-6, decay = 0) {
    state m, v
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    move = m / (1 - pow(beta1, step)) / (sqrt(v / (1 - pow(beta2, step))) + eps) + decay * p
    old = norm_of(p, over all)
    new = norm_of(move, over all)
    p = p - lr * select(old > 0, select(new > 0, old / max(new, 1e-30), 1), 1) * move
}
