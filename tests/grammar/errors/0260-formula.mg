# RUN: not %front check %s 2>&1 | FileCheck %s
dim batch = 2, seq = 4, vocab = 8, hidden = 3, experts = 2
model m(tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden] = 0.1 * normal(0.02)
    a : param[hidden] = log(1 + index(vocab))
    b : param[experts, hidden] = 1 + index(experts) as "b.{}"
    c : param[hidden] = softmax(index(hidden), over hidden)
    d : param[hidden] = log(uniform(3, 1))
    e : param[hidden] = log(1 + normal())
    x = table[tokens] + a + sum(b, over experts) + c + d + e
    loss = cross_entropy(x @ table over hidden, next(tokens))
}
train { optimizer sgd()  lr 0.1 }
# CHECK: 0260-formula.mg:5:39: error[MG0260]: 'vocab' is no dim of this parameter in a checkpoint
# CHECK: help: its dims are [hidden]
# CHECK: 0260-formula.mg:6:44: error[MG0260]: 'experts' is no dim of this parameter in a checkpoint
# CHECK: 0260-formula.mg:7:25: error[MG0260]: no initial value of each element
# CHECK: 0260-formula.mg:8:37: error[MG0260]: the lower bound 3 is above the upper
# CHECK: 0260-formula.mg:9:33: error[MG0260]: normal takes its standard deviation: normal(std)
