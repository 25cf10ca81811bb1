%include "objectives/parts/token_likelihood.mg"
# That of an answer: of the targets with the mark 1.
block answer(logits, targets : token(c), mark : token(k)) {
    return sum(select(mark == 1, likelihood(logits, targets), 0), over seq)
}

