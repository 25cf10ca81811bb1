# vae_noise.mg - a variational autoencoder (Kingma, Welling, 2014) that draws its noise, and whose second term grows in the first steps.
dim pixel = 16, hidden = 16, latent = 4, batch = 8

block dense(x, along from, along to_) {
    w : param[from, to_] ~ normal(0.3) as "weight" [to_, from]
    b : param[to_]       = 0 as "bias"
    return x @ w over from + b
}

model vae(x[batch, pixel]) {
    h = tanh(dense(x, along pixel, along hidden) as "enc")
    mu = dense(h, along hidden, along latent) as "mu"
    logvar = dense(h, along hidden, along latent) as "logvar"
    z = mu + exp(0.5 * logvar) * normal(over (batch, latent))
    logits = dense(tanh(dense(z, along latent, along hidden) as "dec"), along hidden, along pixel) as "out"
    missed = sum(max(logits, 0) - logits * x + log(1 + exp(-abs(logits))), over pixel)
    apart = -0.5 * sum(1 + logvar - mu * mu - exp(logvar), over latent)
    loss = mean(missed + min(1, (step() + 1) / 4) * apart)
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
