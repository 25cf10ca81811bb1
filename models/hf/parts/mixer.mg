%# Mamba 2's mixer (Dao, Gu, 2024). Before it: lanes, lane, state, tap, groups, conv_bias, use_bias, limit_low, limit_high, act.
%# The kernel of a file begins with the oldest position.
%let each = groups == 1 ? "lanes" : "groups, member", merged = groups == 1 ? "lanes" : "groups member"
block conv(x[mixed]) {
    w : param[mixed, one, tap] ~ uniform(-1 / sqrt(tap), 1 / sqrt(tap)) as "weight"
%if conv_bias
    b : param[mixed] = 0 as "bias"
%end
    return $act(sum(x[seq = seq + tap - $(tap - 1)] * w[one = 0], over tap)$(conv_bias ? " + b" : ""))
}

block mixer(x[hidden]) {
    win : param[hidden, all] ~ normal(std) as "in_proj.weight" [all, hidden]
%if use_bias
    bin : param[all] = 0 as "in_proj.bias"
%end
%if groups == 1
    bd : param[lanes] = 1 as "dt_bias"
    rate : param[lanes] = log(1 + index(lanes)) as "A_log"
    skip : param[lanes] = 1 as "D"
%else
    bd : param[groups, member] = 1 as "dt_bias" [(groups member)]
    rate : param[groups, member] = log(1 + index(groups) * member + index(member)) as "A_log" [(groups member)]
    skip : param[groups, member] = 1 as "D" [(groups member)]
%end
    gain : param[$each, lane] = 1 as "norm.weight" [($merged lane)]
    wo : param[$each, lane, hidden] ~ normal(std / sqrt(2 * layers)) as "out_proj.weight" [hidden, ($merged lane)]
%if use_bias
    bo : param[hidden] = 0 as "out_proj.bias"
%end
    p = x @ win over hidden$(use_bias ? " + bin" : "")
    z = p[all = 0 .. inner][inner -> ($each, lane)]
    c = conv(p[all = inner .. inner + mixed -> mixed]) as "conv1d"
    u = c[mixed = 0 .. inner][inner -> ($each, lane)]
%if groups == 1
    k = c[mixed = inner .. inner + state -> state]
    q = c[mixed = inner + state .. inner + 2 * state -> state]
    r = p[all = inner + mixed .. all -> lanes] + bd
%else
    k = c[mixed = inner .. inner + keys -> keys][keys -> (groups, state)]
    q = c[mixed = inner + keys .. inner + 2 * keys -> keys][keys -> (groups, state)]
    r = p[all = inner + mixed .. all -> lanes][lanes -> (groups, member)] + bd
%end
    dt = log(1 + exp(-abs(r))) + max(r, 0)
%if limit_low > 0
    dt = max(dt, $limit_low)
%end
%if limit_high != null
    dt = min(dt, $limit_high)
%end
    h = expand(0, over (batch$also, $each, lane, state))
    scan seq {
        h = exp(-exp(rate) * dt) * h + dt * u * k
        read = q @ h over state
    }
    g = (read + skip * u) * silu(z)
    return rmsnorm(g, gain, over ($(groups > 1 ? "member" : each), lane), eps = eps) @ wo over ($each, lane)$(use_bias ? " + bo" : "")
}

