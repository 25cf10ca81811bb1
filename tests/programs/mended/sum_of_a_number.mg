# One number is kept as it is where sums of gradients are of bf16: it has no place to draw bits by.
dim seq = 2, vocab = 3, hidden = batch, batch = 1
model m(tokens[batch, seq] : token(vocab)) {
    s7 : param[] = 1
    loss = cross_entropy(normal(over (batch, vocab)), last((tokens), along seq))
}
train {
    optimizer adamw()
    lr warmup(peak = 40)
    precision bf16(reduce = bf16)
}
