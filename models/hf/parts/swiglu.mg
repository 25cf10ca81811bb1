%# An MLP with a gate. Before it: mlp_bias, act.
block swiglu(x[hidden]) {
    gate : param[hidden, ffn] ~ normal(std) as "gate_proj.weight" [ffn, hidden]
    up : param[hidden, ffn] ~ normal(std) as "up_proj.weight" [ffn, hidden]
    down : param[ffn, hidden] ~ normal(std / sqrt(2 * layers)) as "down_proj.weight" [hidden, ffn]
%if mlp_bias
    gate_bias : param[ffn] = 0 as "gate_proj.bias"
    up_bias : param[ffn] = 0 as "up_proj.bias"
    down_bias : param[hidden] = 0 as "down_proj.bias"
    return ($act(x @ gate over hidden + gate_bias) * (x @ up over hidden + up_bias)) @ down over ffn + down_bias
%else
    return ($act(x @ gate over hidden) * (x @ up over hidden)) @ down over ffn
%end
}

