# The log probability of each target.
block likelihood(logits, targets : token(c)) {
    masked = select(valid(c), logits, -1e30)
    top = stop(max(masked, over c))
    return sum(select(index(c) == targets, logits, 0), over c) - top - log(sum(exp(masked - top), over c))
}

# That of an answer: of the targets with the mark 1.
block answer(logits, targets : token(c), mark : token(k)) {
    return sum(select(mark == 1, likelihood(logits, targets), 0), over seq)
}

