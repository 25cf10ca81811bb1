# dlrm.mg - a recommender (Naumov and others: DLRM, 2019): numbers through an MLP, categories and a bag of them through tables, the
# products of all pairs of these vectors, and an MLP over them.
dim numbers = 4, hidden = 16, narrow = 8, users = 32, items = 64, tags = 16, bag = 3
dim thing = 4, other = thing, wide = 16, batch = 8

block dense(x, along from, along to_) {
    w : param[from, to_] ~ normal(0.3) as "weight" [to_, from]
    b : param[to_]       = 0 as "bias"
    return x @ w over from + b
}

model dlrm(dense_in[batch, numbers], user[batch] : token(users), item[batch] : token(items), tag[batch, bag] : token(tags), y[batch]) {
    of_user : param[users, narrow]      ~ normal(0.3) as "user.weight"
    of_item : param[items, narrow]      ~ normal(0.3) as "item.weight"
    of_tag  : param[tags, narrow]       ~ normal(0.3) as "tag.weight"
    pairs   : param[thing, other, wide] ~ normal(0.3) as "pairs.weight" [wide, (thing other)]
    direct  : param[narrow, wide]       ~ normal(0.3) as "direct.weight" [wide, narrow]
    bias    : param[wide]               = 0 as "pairs.bias"
    top     : param[wide]               ~ normal(0.3) as "top.bias"
    h = relu(dense(relu(dense(dense_in, along numbers, along hidden) as "bottom1"), along hidden, along narrow) as "bottom2")
    k = index(thing)
    all = select(k == 0, h, select(k == 1, of_user[user], select(k == 2, of_item[item], sum(of_tag[tag], over bag))))
    met = select(index(other) < index(thing), all @ all[thing -> other] over narrow, 0)
    z = relu(met @ pairs over (thing, other) + h @ direct over narrow + bias) @ top over wide
    loss = mean(max(z, 0) - z * y + log(1 + exp(-abs(z))))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 4
}
