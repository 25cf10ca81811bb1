# A dot that the layer norm's kernel computes again for itself is not stored by that kernel: what computes a row's elements
# again cannot read it there.
dim hidden = 4, row = 2, batch = 4, vocab = 6, heads = 3, inner = 1

model m(tokens[batch] : token(vocab)) {
    embed : param[vocab] = 3
    w     : param[row]   = 1
    x = embed[tokens] * w
    repeat inner {
        a : param[hidden] = 1
        y = x + a @ a over hidden
        d    : param[heads]        = 1
        e    : param[heads, vocab] = 1
        bias : param[vocab]        = 0.5
        gain : param[vocab]        = 1
        x = 0.3 * dropout(y + index(vocab) * d, p = 0.25) @ layernorm(y * e, gain, bias, over vocab, eps = 1e-2) over (vocab, heads)
    }
    head : param[row, vocab] = 1
    loss = cross_entropy(x @ head over row, tokens)
}

train {
    optimizer sgd
    lr        1e-2
    precision f32
}
