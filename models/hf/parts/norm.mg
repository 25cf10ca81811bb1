%if layer_norm and norm_bias
block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    bias : param[hidden] = 0 as "bias"
    return layernorm(x, gain, bias, over hidden, eps = eps)
}

%elif layer_norm
block centered(x, gain, over d) {
    c = x - mean(x, over d)
    return c * rsqrt(mean(c * c, over d) + eps) * gain
}

block norm(x[hidden]) {
    gain : param[hidden] = 1 as "weight"
    return centered(x, gain, over hidden)
}

%else
block norm(x[hidden]) {
    gain : param[hidden] = $ones as "weight"
    return rmsnorm(x, $(plus)gain, over hidden, eps = eps)
}

%end
