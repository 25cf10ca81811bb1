block swiglu(x[hidden], over width) {
    gate : param[hidden, width] ~ normal(std) as "gate_proj.weight" [width, hidden]
    up : param[hidden, width] ~ normal(std) as "up_proj.weight" [width, hidden]
    down : param[width, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, width]
    return ($act(x @ gate over hidden) * (x @ up over hidden)) @ down over width
}

