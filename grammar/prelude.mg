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
