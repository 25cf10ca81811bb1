block norm(x[hidden]) {
    gain : param[hidden] = $ones as "weight"
    return rmsnorm(x, $(plus)gain, over hidden, eps = eps)
}

