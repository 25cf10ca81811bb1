block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_up_proj.weight" [ffn at 0, hidden]
    up : param[hidden, ffn] ~ normal(std) as "gate_up_proj.weight" [ffn at ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
    return ($act(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
}

