# prelude.mg - functions of the language that are written in it, and all optimizers.
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

# The same with positions that begin at `start`, which document_start gives.
block rope(x, start, along pos, over d, theta = 10000) {
    half = d / 2
    k = index(d)
    i = k - select(k < half, 0, half)
    angle = (index(pos) - start) * exp(i * (-2 * log(theta) / d))
    return x * cos(angle) + rotate(x, over d) * sin(angle)
}

block rope_llama3(x, start, along pos, over d, theta =, factor =, low = 1, high = 4, original =) {
    half = d / 2
    k = index(d)
    i = k - select(k < half, 0, half)
    rate = exp(i * (-2 * log(theta) / d))
    kept = max(0, min(1, (rate * (original / 6.283185307179586) - low) / (high - low)))
    angle = (index(pos) - start) * (rate * (kept + (1 - kept) / factor))
    return x * cos(angle) + rotate(x, over d) * sin(angle)
}

# The position at which each token's document begins. A separator is the last token of its document;
# without one the data say where documents begin (grammar/documents.c).
block document_start(tokens, along pos, separator = -1) {
    dim t = pos
    ended = select(tokens[pos -> t] == separator, index(t) + 1, 0)
    return max(select(index(t) < index(pos), ended, 0), over t)
}

# A softmax with one more element beside those along d, which takes its share of the sum.
block softmax_beside(x, sink, over d) {
    top = max(max(x, over d), sink)
    e = exp(x - top)
    return e / (sum(e, over d) + exp(sink - top))
}

# A score x becomes cap tanh(x / cap), if there is a cap. A query sees no key after it (causal), and of
# those before it so many that they are `window` with itself. The sink is the score of one more key,
# which has no value.
block attention(q, k, v, along pos, over d, scale = 1 / sqrt(d), window = 0, cap = 0, sink[] = -1e30, causal) {
    dim t = pos
    scores = (q @ k[pos -> t] over d) * scale
    capped = select(cap > 0, tanh(scores / cap) * cap, scores)
    past = select(causal, select(index(t) <= index(pos), capped, -1e30), capped)
    visible = select(window > 0, select(index(pos) - index(t) < window, past, -1e30), past)
    return softmax_beside(visible, sink, over t) @ v[pos -> t] over t
}

# Queries along one dim, keys and values along another, `t`: of two sequences, or of one whose keys
# have a name of their own, for the bias of each query and key. It is added to what the cap leaves.
block attention(q, k, v, along pos, along t, over d, scale = 1 / sqrt(d), window = 0, cap = 0, bias[] = 0, sink[] = -1e30, causal) {
    scores = (q @ k over d) * scale
    capped = select(cap > 0, tanh(scores / cap) * cap, scores) + bias
    past = select(causal, select(index(t) <= index(pos), capped, -1e30), capped)
    visible = select(window > 0, select(index(pos) - index(t) < window, past, -1e30), past)
    return softmax_beside(visible, sink, over t) @ v over t
}

# As the first, and a query sees no key before position `start`, which document_start gives.
block attention(q, k, v, start, along pos, over d, scale = 1 / sqrt(d), window = 0, cap = 0, sink[] = -1e30, causal) {
    dim t = pos
    scores = (q @ k[pos -> t] over d) * scale
    capped = select(cap > 0, tanh(scores / cap) * cap, scores)
    past = select(causal, select(index(t) <= index(pos), capped, -1e30), capped)
    near = select(window > 0, select(index(pos) - index(t) < window, past, -1e30), past)
    visible = select(index(t) >= start, near, -1e30)
    return softmax_beside(visible, sink, over t) @ v[pos -> t] over t
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

# 1 for each target that is among the `best` largest scores, else 0. Of equal scores the first counts as the larger, as in `top`; a
# score that is no number is smaller than none, so that nothing is right by it. Padded classes are no scores.
block in_top(score, target : token(c), best = 1) {
    own = sum(select(index(c) == target, score, 0), over c)
    behind = select(score < own, 1, select(score == own, select(index(c) >= target, 1, 0), 0))
    return select(sum(select(valid(c), behind, 0), over c) > c - best, 1, 0)
}

# How unevenly experts are used (Fedus, Zoph, Shazeer: Switch transformers; 2021): the share of the
# choices that go to each times its mean score, summed, times their number; at least the number of
# choices of a position. For each group of positions by itself.
block imbalance(score, chosen : token(c), along pos, over best) {
    used = mean(sum(select(index(c) == chosen, 1, 0), over best), over pos)
    return sum(used * mean(score, over pos), over c) * c
}

# Noise of mean 0 and deviation 1, drawn anew in each step (Box and Muller, 1958).
block normal(over d) {
    size = sqrt(-2 * log(1 - uniform(over d)))
    return size * cos(6.283185307179586 * uniform(over d))
}

# Optimizers. A declaration says all of one: what a source may set, what is kept for each parameter,
# and the rule, which gives the parameter and what is kept their new values. The build makes the
# tables of the C code from it (grammar/optimizer_table.c); grammar/update.c elaborates the rule.
#
#   optimizer NAME(SETTING = default, ...)   in the order of values without names: settings of the list
#                     below, `betas`, which are beta1 and beta2, and `decay`, the weight decay
#   state m           kept for each parameter: of its dims, 0 at first
#   state m as "s"    the name in checkpoints, where it is another one
#   state m[rows]     for matrices only: without the dims of the columns; m[cols]: without the rows'
#   state m where matrix == 0    for all but matrices
#   state m where s != 0         for none if the setting s is 0
#   rest NAME         the optimizer of all parameters but hidden matrices
#   p = ...           the rule assigns p and each state
#
# A rule reads its settings and its states (a state that a parameter does not have is the number 0),
# and:
#
#   p, g              the parameter and its gradient
#   lr, step          the parameter's learning rate, and the number of the step, from 1. What is made
#                     of them alone is computed in f64, and rounded where it meets a tensor.
#   decay             the parameter's weight decay, of an optimizer with this setting
#   matrix            whether it is one. Of a matrix also its dims: rows, cols, and all, which are all
#                     but those that number matrices
#   rank              the number of dims in `all`
#
# Weight decay is decoupled (p shrinks by lr * decay) but for adam and sgd, where it is added to the
# gradient.

# The range of each setting. One without a range is a flag, 1 or 0.
setting 0 <= beta1 < 1
setting 0 <= beta2 < 1
setting 0 < eps < 1
setting 0 <= momentum < 1
setting 0 < power < 10
setting 0 < threshold
setting nesterov

block decayed(p, lr, decay =) {
    return select(decay == 0, p, p * (1 - lr * decay))
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

block adam_step(p, m, v, lr, step, beta1 =, beta2 =, eps =) {
    size = sqrt(v) / sqrt(bias_correction(step, beta = beta2)) + eps
    return p - m / size * (lr / bias_correction(step, beta = beta1))
}

# torch.optim.AdamW
optimizer adamw(betas = (0.9, 0.999), eps = 1e-8, decay = 0) {
    state m as "exp_avg", v as "exp_avg_sq"
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    p = decayed(p, lr, decay = decay)
    p = adam_step(p, m, v, lr, step, beta1 = beta1, beta2 = beta2, eps = eps)
}

# torch.optim.SGD
optimizer sgd(momentum = 0, decay = 0, nesterov = 0) {
    state buffer as "momentum" where momentum != 0
    g = regularized(p, g, decay = decay)
    buffer = select(momentum == 0, 0, buffer * momentum + g)
    move = select(momentum == 0, g, select(nesterov, g + buffer * momentum, buffer))
    p = p - move * lr
}

# torch.optim.Adam: the decay is added to the gradient.
optimizer adam(betas = (0.9, 0.999), eps = 1e-8, decay = 0) {
    state m as "exp_avg", v as "exp_avg_sq"
    g = regularized(p, g, decay = decay)
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    p = adam_step(p, m, v, lr, step, beta1 = beta1, beta2 = beta2, eps = eps)
}

# Chen et al. 2023
optimizer lion(betas = (0.9, 0.99), decay = 0) {
    state m as "exp_avg"
    move = sign(average(m, g, beta = beta1)) * lr
    p = decayed(p, lr, decay = decay) - move
    m = average(m, g, beta = beta2)
}

block kept(old, x, keep) {
    return old * keep + x * (1 - keep)
}

# Shazeer and Stern 2018, as transformers': g / sqrt(second moment); of a matrix the moment is kept as
# the means of its rows and columns.
optimizer adafactor(beta1 = 0, power = 0.8, threshold = 1, eps = 1e-30, decay = 0) {
    state row[rows] as "exp_avg_sq_row", col[cols] as "exp_avg_sq_col"
    state v as "exp_avg_sq" where matrix == 0
    state m as "exp_avg" where beta1 != 0
    keep = 1 - exp(log(step) * -power)
    square = g * g + eps
    row = select(matrix, kept(row, mean(square, over cols), keep), 0)
    col = select(matrix, kept(col, mean(square, over rows), keep), 0)
    v = select(matrix, 0, kept(v, square, keep))
    move = g * select(matrix, rsqrt(row / mean(row, over rows)) * rsqrt(col), rsqrt(v))
    rms = select(rank == 0, abs(move), sqrt(mean(move * move, over all)))
    move = move / max(rms * (1 / threshold), 1) * lr
    m = select(beta1 == 0, 0, average(m, move, beta = beta1))
    p = decayed(p, lr, decay = decay) - select(beta1 == 0, move, m)
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

# Jordan 2024, scaled as torch.optim.Muon's match_rms_adamw: momentum, made orthogonal over the indices
# of the shorter side.
optimizer muon(momentum = 0.95, betas = (0.9, 0.95), eps = 1e-8, decay = 0, nesterov = 1) {
    state buffer as "momentum"
    rest adamw
    buffer = average(buffer, g, beta = momentum)
    x = select(nesterov, average(buffer, g, beta = momentum), buffer)
    x = x / max(sqrt(sum(x * x, over (rows, cols))), 1e-7)
    x = select(rows <= cols, orthogonal(x, over rows, over cols), orthogonal(x, over cols, over rows))
    scale = lr * (0.2 * sqrt(max(rows, cols)))
    p = decayed(p, lr, decay = decay) - x * scale
}
