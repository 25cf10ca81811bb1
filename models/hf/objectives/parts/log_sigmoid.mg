# log(sigmoid(x)), which neither overflows nor loses digits.
block log_sigmoid(x) {
    return min(x, 0) - log(1 + exp(-abs(x)))
}

