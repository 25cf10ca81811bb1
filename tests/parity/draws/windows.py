"""Convolutions and pools: elements at computed places of one dim or two, and what is summed over them."""

import named
import torch

from .places import free_of
from .scope import CALL, ELEMENTS, PRODUCT, RANK, E, call, kind


def taps_of(s, e, along):
    """The elements of e at the taps of windows along dims: the expression, the dims of the taps, those that are left; or None."""
    r, p, taps, out, inner, known = s.r, s.p, [], [], [], {}
    for d in along:
        stride, spread = r.choice((1, 1, 2, 3)), r.choice((1, 1, 2, -1))
        n = p.size[d] if stride == 1 and r.random() < 0.6 else max(1, p.size[d] // stride)
        o = d if n == p.size[d] and r.random() < 0.5 else p.dim(n, (*e.dims, *s.scanned, *taps, *out))
        t = o and p.dim(r.choice((2, 3)), (*e.dims, *s.scanned, *taps, *out, o))
        if not t:
            return None
        pad = r.randint(0, p.size[t] - 1)
        text = f"{s.d(o)}" if stride == 1 else f"{stride} * {s.d(o)}"
        text += f" - {s.d(t)}" if spread == -1 else f" + {s.d(t)}" if spread == 1 else f" + {spread} * {s.d(t)}"
        text += f" - {pad}" if pad and spread > 0 else ""
        inner.append(f"{s.d(d)} = {text}")
        known[d] = ({o: (stride, p.size[o]), t: (spread, p.size[t])}, -pad if spread > 0 else 0)
        taps.append(t)
        out.append(o)
    dims = [y for x in e.dims for y in ((out[along.index(x)], taps[along.index(x)]) if x in along else (x,))]
    if len(dims) > RANK + 1 or p.elements(dims) > 4 * ELEMENTS:
        return None

    def value(env):
        v = e.value(env)
        for d, (terms, at) in known.items():  # one after the other: no term of one is a dim of another
            v = named.counted(v, d, terms, at)
        return v
    return E(f"{e.at(CALL)}[{', '.join(inner)}]", CALL, dims, e.most, value), taps, out


def windows(s):
    e = s.any(free_of)
    if not e:
        return None
    free = free_of(e)
    return taps_of(s, e, s.r.sample(free, s.r.choice((1, min(2, len(free))))))


@kind(2)
def convolved(s):
    found = windows(s)
    if not found:
        return None
    x, taps, out = found
    rest = [d for d in x.dims if d not in (*taps, *out, "batch")]
    over = [d for d in rest if s.r.random() < 0.6]
    shared = [d for d in rest if d not in over and s.r.random() < 0.4]  # groups of channels
    free = s.free(x.dims)
    w = s.param([*taps, *over, *shared, *s.r.sample(free, min(len(free), s.r.choice((0, 1, 1))))], 0.4)
    over = [*taps, *over]
    dims = [d for d in [*x.dims, *(d for d in w.dims if d not in x.dims)] if d not in over]
    if not s.small(dims):
        return None
    return E(f"{x.text} @ {w.text} {s.over(over)}", PRODUCT, dims, x.most * w.most * 2, lambda env: named.product(x.value(env), w.value(env), over))


@kind(1)
def pooled(s):
    found = windows(s)
    if not found:
        return None
    x, taps, _ = found
    dims = [d for d in x.dims if d not in taps]
    if not s.small(dims):
        return None
    how = s.r.randrange(4)
    if how == 3:  # of each channel, as a convolution that is written as a sum
        w = s.param([*taps, *(d for d in dims if d != "batch" and s.r.random() < 0.4)], 0.4)
        if not set(w.dims) <= set(x.dims):
            return None
        return call("sum", [f"{x.text} * {w.text}", s.over(taps)], dims, x.most * w.most * 2,
                    lambda env: named.total(named.pointwise(torch.mul, x.value(env), w.value(env)), taps))
    name, f, more = (("max", named.largest, 1), ("mean", named.mean, 1), ("sum", named.total, s.p.elements(taps)))[how]
    return call(name, [x.text, s.over(taps)], dims, x.most * more, lambda env: f(x.value(env), taps))
