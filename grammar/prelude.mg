# prelude.mg - functions of the language that are written in it.
#
# attention, cross_entropy and gelu_tanh are operations of their own; what stands here is their
# definition: it says what they mean, tests compare the two, and operands that the operations do not
# take are computed by it.

block relu(x) {
    return select(x <= 0, 0, x)
}

block silu(x) {
    return x * sigmoid(x)
}

block gelu(x) {  # the exact one
    return 0.5 * x * (1 + erf(x * 0.7071067811865476))
}

block gelu_tanh(x) {  # GPT-2's: sqrt(2 / pi) (x + 0.044715 x^3)
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
}

block softmax(x, over d) {
    e = exp(x - max(x, over d))
    return e / sum(e, over d)
}

block rmsnorm(x, gain, over d, eps =) {
    return x * rsqrt(mean(x * x, over d) + eps) * gain
}

block layernorm(x, gain, bias, over d, eps =) {
    c = x - mean(x, over d)
    return c * rsqrt(mean(c * c, over d) + eps) * gain + bias
}

# Rotary positions, half-split: elements i and i + d/2 turn by pos * theta^(-2 i / d).
block rope(x, along pos, over d, theta = 10000) {
    half = d / 2
    k = index(d)
    i = k - select(k < half, 0, half)
    angle = index(pos) * exp(i * (-2 * log(theta) / d))
    return x * cos(angle) + rotate(x, over d) * sin(angle)
}

# Llama 3.1's, for contexts longer than the `original`: what turns there less than `low` times turns
# `factor` times slower, what turns more than `high` times as ever, and between them in between.
block rope_llama3(x, along pos, over d, theta =, factor =, low = 1, high = 4, original =) {
    half = d / 2
    k = index(d)
    i = k - select(k < half, 0, half)
    rate = exp(i * (-2 * log(theta) / d))
    kept = max(0, min(1, (rate * (original / 6.283185307179586) - low) / (high - low)))
    angle = index(pos) * (rate * (kept + (1 - kept) / factor))
    return x * cos(angle) + rotate(x, over d) * sin(angle)
}

block attention(q, k, v, along pos, over d, scale = 1 / sqrt(d), causal) {
    dim t = pos
    scores = (q @ k[pos -> t] over d) * scale
    visible = select(causal, select(index(t) <= index(pos), scores, -1e30), scores)
    return softmax(visible, over t) @ v[pos -> t] over t
}

# The mean over all targets, or the mean weighed by target, of -log softmax(logits)[target]; padded classes have no probability.
block cross_entropy(logits, targets : token(c)) {
    masked = select(valid(c), logits, -1e30)
    top = max(masked, over c)
    lse = log(sum(exp(masked - top), over c)) + top
    return mean(lse - sum(select(index(c) == targets, logits, 0), over c))
}

block cross_entropy(logits, targets : token(c), weight) {
    masked = select(valid(c), logits, -1e30)
    top = max(masked, over c)
    lse = log(sum(exp(masked - top), over c)) + top
    each = lse - sum(select(index(c) == targets, logits, 0), over c)
    return sum(weight * each) / max(sum(weight), 1e-30)
}

# Of each position's scores those that were chosen.
block scores_of(score, chosen : token(c)) {
    return sum(select(index(c) == chosen, score, 0), over c)
}

# How unevenly experts are used (Fedus, Zoph, Shazeer: Switch transformers; 2021): the share of the
# choices that go to each times its mean score, summed, times their number; at least the number of
# choices of a position. For each group of positions by itself.
block imbalance(score, chosen : token(c), along pos, over best) {
    used = mean(sum(select(index(c) == chosen, 1, 0), over best), over pos)
    return sum(used * mean(score, over pos), over c) * c
}

# The rules of optimizers (ir/optimizers.def has their rows, grammar/update.c what they are given).
# Each returns the new p, and what it keeps. lr and step, from 1, are computed in f64; a tensor takes
# what is made of them `rounded`. Weight decay is decoupled (p shrinks by lr * decay) but for adam and
# sgd, where it is added to the gradient. A state that a parameter does not have is the number 0.

block rate_of(lr, rate =) {
    return select(rate == 1, lr, lr * rate)
}

block decayed(p, lr, rate =, decay =) {
    return select(decay == 0, p, p * rounded(1 - rate_of(lr, rate = rate) * decay))
}

block regularized(p, g, decay =) {
    return select(decay == 0, g, g + p * decay)
}

block average(old, x, beta =) {
    return old * beta + x * (1 - beta)
}

block bias_correction(step, beta =) {  # 1 - beta^step; 0 has no logarithm
    return select(beta > 0, 1 - exp(step * log(beta)), 1)
}

block adam_step(p, m, v, lr, step, beta1 =, beta2 =, eps =, rate =) {
    size = sqrt(v) / rounded(sqrt(bias_correction(step, beta = beta2))) + eps
    return p - m / size * rounded(rate_of(lr / bias_correction(step, beta = beta1), rate = rate))
}

block adamw(p, g, m, v, lr, step, beta1 =, beta2 =, eps =, rate =, decay =) {
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    p = decayed(p, lr, rate = rate, decay = decay)
    return adam_step(p, m, v, lr, step, beta1 = beta1, beta2 = beta2, eps = eps, rate = rate), m, v
}

block adam(p, g, m, v, lr, step, beta1 =, beta2 =, eps =, rate =, decay =) {
    g = regularized(p, g, decay = decay)
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    return adam_step(p, m, v, lr, step, beta1 = beta1, beta2 = beta2, eps = eps, rate = rate), m, v
}

block sgd(p, g, buffer, lr, momentum =, nesterov =, rate =, decay =) {
    g = regularized(p, g, decay = decay)
    buffer = select(momentum == 0, 0, buffer * momentum + g)
    move = select(momentum == 0, g, select(nesterov, g + buffer * momentum, buffer))
    return p - move * rounded(rate_of(lr, rate = rate)), buffer
}

block lion(p, g, m, lr, beta1 =, beta2 =, rate =, decay =) {
    move = sign(average(m, g, beta = beta1)) * rounded(rate_of(lr, rate = rate))
    return decayed(p, lr, rate = rate, decay = decay) - move, average(m, g, beta = beta2)
}

block kept(old, x, keep) {
    return old * rounded(keep) + x * rounded(1 - keep)
}

# g / sqrt(second moment); of a matrix the moment is kept as the means of its rows and columns.
block adafactor(p, g, row, col, v, m, lr, step, over rows, over cols, over all, beta1 =, eps =, power =, threshold =, rate =, decay =, rank =, matrix) {
    keep = 1 - exp(log(step) * -power)
    square = g * g + eps
    row = select(matrix, kept(row, mean(square, over cols), keep), 0)
    col = select(matrix, kept(col, mean(square, over rows), keep), 0)
    v = select(matrix, 0, kept(v, square, keep))
    move = g * select(matrix, rsqrt(row / mean(row, over rows)) * rsqrt(col), rsqrt(v))
    rms = select(rank == 0, abs(move), sqrt(mean(move * move, over all)))
    move = move / max(rms * (1 / threshold), 1) * rounded(rate_of(lr, rate = rate))
    m = select(beta1 == 0, 0, average(m, move, beta = beta1))
    return decayed(p, lr, rate = rate, decay = decay) - select(beta1 == 0, move, m), row, col, v, m
}

# One round of the quintic iteration that brings all singular values of x near 1: with a = x x', x
# becomes 3.4445 x + (-4.7750 a + 2.0315 a a) x.
block quintic(x, over d, over e) {
    dim t = d, s = d
    a = x @ x[d -> t] over e
    aa = (a @ a[t -> s][d -> t] over t)[s -> t]
    c = a * -4.7750 + aa * 2.0315
    return x * 3.4445 + c @ x[d -> t] over t
}

block orthogonal(x, over d, over e) {
    x = quintic(x, over d, over e)
    x = quintic(x, over d, over e)
    x = quintic(x, over d, over e)
    x = quintic(x, over d, over e)
    return quintic(x, over d, over e)
}

# Momentum, made orthogonal over the indices of the shorter side.
block muon(p, g, buffer, lr, over rows, over cols, momentum =, nesterov =, rate =, decay =) {
    buffer = average(buffer, g, beta = momentum)
    x = select(nesterov, average(buffer, g, beta = momentum), buffer)
    x = x / max(sqrt(sum(x * x, over (rows, cols))), 1e-7)
    x = select(rows <= cols, orthogonal(x, over rows, over cols), orthogonal(x, over cols, over rows))
    scale = rounded(rate_of(lr, rate = rate) * (0.2 * sqrt(max(rows, cols))))
    return decayed(p, lr, rate = rate, decay = decay) - x * scale, buffer
}
