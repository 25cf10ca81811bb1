%# Blocks of rotary positions; what is turned stands between $rope_ and $_rope.
%if rope_type == "linear"
# Positions are divided by the factor.
block rope_linear(x$starts, along pos, over d, base =, factor =) {
    k = index(d)
    i = k - select(k < d / 2, 0, d / 2)
    angle = $position * (exp(i * (-2 * log(base) / d)) / factor)
    return x * cos(angle) + rotate(x, over d) * sin(angle)
}

%elif rope_type == "yarn"
# YaRN (Peng et al., 2023): rates of which `original` has fewer than `slow` turns are divided by the factor, those of more than `fast` turns
# stay, and between them lies a ramp.
block rope_yarn(x$starts, along pos, over d, base =, factor =, fast =, slow =, original =, scale =) {
    k = index(d)
    i = k - select(k < d / 2, 0, d / 2)
    first = d * log(original / (fast * 6.283185307179586)) / (2 * log(base))
    last = d * log(original / (slow * 6.283185307179586)) / (2 * log(base))
%if truncate
    low = max(-ceil(-first), 0)
    high = min(ceil(last), d - 1)
%else
    low = max(first, 0)
    high = min(last, d - 1)
%end
    ramp = max(0, min(1, (i - low) / select(low == high, 0.001, high - low)))
    angle = $position * (exp(i * (-2 * log(base) / d)) * (1 - ramp + ramp / factor))
    return (x * cos(angle) + rotate(x, over d) * sin(angle)) * scale
}

%elif rope_type == "longrope"
# LongRoPE (Ding et al., 2024): each pair of elements has a factor of its own, others where a sequence is longer than `original`.
block rope_long(x$starts, along pos, over d, base =, original =, scale =) {
    k = index(d)
    i = k - select(k < d / 2, 0, d / 2)
    short = $(steps(short_factor, "i"))
    long = $(steps(long_factor, "i"))
    angle = $position * (exp(i * (-2 * log(base) / d)) / select(pos > original, long, short))
    return (x * cos(angle) + rotate(x, over d) * sin(angle)) * scale
}

%end
%let rope_ = {"default": "rope", "linear": "rope_linear", "dynamic": "rope", "yarn": "rope_yarn", "llama3": "rope_llama3", "longrope": "rope_long"}[rope_type] + "("
%let _rope = starts + ", along seq, over " + turned_dim + (rope_type in ["linear", "yarn", "longrope"] ? ", base = theta" : ", theta = theta")
%if rope_type == "linear"
%let _rope = _rope + ", factor = " + factor
%elif rope_type == "dynamic"
%let _rope = _rope + " * pow(" + factor + " * max(seq, " + positions + ") / " + positions + " - " + (factor - 1) + ", " + turned_dim + " / (" + turned_dim + " - 2))"
%elif rope_type == "llama3"
%let _rope = _rope + ", factor = " + factor + ", low = " + low_freq + ", high = " + high_freq + ", original = " + original
%elif rope_type == "yarn"
%let attention_scale = attention_factor != null ? text(attention_factor) : factor <= 1 ? "1" : mscale != null and mscale != 0 and mscale_all != null and mscale_all != 0 ? "(0.1 * " + mscale + " * log(" + factor + ") + 1) / (0.1 * " + mscale_all + " * log(" + factor + ") + 1)" : "0.1 * log(" + factor + ") + 1"
%let _rope = _rope + ", factor = " + factor + ", fast = " + beta_fast + ", slow = " + beta_slow + ", original = " + original + ", scale = " + attention_scale
%elif rope_type == "longrope"
%let attention_scale = attention_factor != null ? text(attention_factor) : factor <= 1 ? "1" : "sqrt(1 + log(" + factor + ") / log(" + original + "))"
%let _rope = _rope + ", original = " + original + ", scale = " + attention_scale
%end
%let _rope = _rope + ")"
%if turn < head or neighbours
%let cut = turn < head ? "[head = 0 .. turn]" : "", pairs = neighbours ? "[" + turned_dim + " -> (half, two)][(two, half) -> " + turned_dim + "]" : ""
%if neighbours
# Neighbours turn; both sides of a score may be ordered in another way.
%else
# Positions turn the first elements of a head.
%end
block turned(x[head]$starts) {
%if turn < head
    y = $(rope_)x$(cut)$(pairs)$_rope
    return join(y, x[head = turn .. head -> still], (turn, still) -> head)
%else
    return $(rope_)x$(pairs)$_rope
%end
}

%let rope_ = "turned("
%let _rope = starts + ")"
%end
