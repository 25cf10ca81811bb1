# The log probability of each target.
block likelihood(logits, targets : token(c)) {
    masked = select(valid(c), logits, -1e30)
    top = stop(max(masked, over c))
    return sum(select(index(c) == targets, logits, 0), over c) - top - log(sum(exp(masked - top), over c))
}

