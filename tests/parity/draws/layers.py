"""Parts of layers: rotary positions, norms, attention."""

import math

import named
import torch

from .scope import CALL, ELEMENTS, MINUS, PRODUCT, TIMES, E, call, kind


def even(s, e):
    return [d for d in e.dims if s.p.size[d] % 2 == 0 and d != "batch"]


def document_starts(s):
    """Where the document of each token begins, a value of its own; None without tokens that have positions."""
    ids = [i for i in s.indices if i.dims == ("batch", "seq") and "select" not in i.text and "v" not in i.text[:1]]
    if not ids or "seq" in s.scanned:
        return None
    if s.p.start and any(i.text == "tokens" for i in ids) and s.r.random() < 0.6:
        return s.p.start
    i = s.r.choice(ids)
    n, end = s.p.size["seq"], s.r.randrange(s.p.size[i.of])
    return s.assign(call("document_start", [i.text, "along seq", f"separator = {end}"], i.dims, n,
                         lambda env: named.document_start(i.value(env), "seq", end)))


def position_of(s, dims):
    """One of the dims; that of the tokens rather than others."""
    return "seq" if "seq" in dims and s.r.random() < 0.5 else s.r.choice(dims)


@kind(2)
def turned(s):
    e = s.any(lambda e: even(s, e))
    if not e:
        return None
    d = s.r.choice(even(s, e))
    others = [x for x in e.dims if x != d and x != "batch"]
    if not others or s.r.random() < 0.4:
        return call("rotate", [e.text, f"over {s.d(d)}"], e.dims, e.most, lambda env: named.rotate(e.value(env), d))
    pos = position_of(s, others)
    n = s.p.size[pos]
    if s.r.random() < 0.3:
        k = {"theta": 100, "factor": 4, "low": 1, "high": 4, "original": 16}
        return call("rope_llama3", [e.text, f"along {s.d(pos)}", f"over {s.d(d)}", *(f"{a} = {x}" for a, x in k.items())],
                    e.dims, 2 * e.most, lambda env: named.rope_llama3(e.value(env), pos, d, n, **k))
    theta = s.r.choice((10000, 50))
    more = [f"theta = {theta}"] if theta != 10000 else []
    start = document_starts(s) if pos == "seq" and "batch" in e.dims and s.r.random() < 0.8 else None
    if start:
        return call("rope", [e.text, start.text, f"along {s.d(pos)}", f"over {s.d(d)}", *more], e.dims, 2 * e.most,
                    lambda env: named.rope(e.value(env), pos, d, n, theta, start.value(env)))
    return call("rope", [e.text, f"along {s.d(pos)}", f"over {s.d(d)}", *more], e.dims, 2 * e.most,
                lambda env: named.rope(e.value(env), pos, d, n, theta))


@kind(3)
def normed(s):
    e = s.any(lambda e: e.dims and s.p.elements(e.dims) > 2)
    if not e:
        return None
    r = s.r
    over = s.some(e.dims)
    if s.p.elements(over) < 2:
        return None
    pick = r.randrange(3)
    if pick == 0:
        return call("softmax", [e.text, s.over(over)], e.dims, 1, lambda env: named.softmax(e.value(env), over))
    of = [d for d in over if d != "batch"]
    gain = s.param(of) if of and r.random() < 0.6 else E("1", CALL, (), 1, lambda env: named.number(1))
    bias = s.param(of) if of and r.random() < 0.4 else E("0", CALL, (), 0, lambda env: named.number(0))
    eps = r.choice(("1e-1", "1e-2"))
    most = math.sqrt(s.p.elements(over)) * gain.most
    if pick == 1:
        return call("rmsnorm", [e.text, gain.text, s.over(over), f"eps = {eps}"], e.dims, most,
                    lambda env: named.rmsnorm(e.value(env), gain.value(env), over, float(eps)))
    return call("layernorm", [e.text, gain.text, bias.text, s.over(over), f"eps = {eps}"], e.dims, most + bias.most,
                lambda env: named.layernorm(e.value(env), gain.value(env), bias.value(env), over, float(eps)))


@kind(1.5)
def packed(s):
    """Documents in one sequence: positions from the beginning of each, and attention within it."""
    r, start = s.r, None
    x = s.any(lambda e: {"batch", "seq"} < set(e.dims))
    if x:
        d = r.choice([d for d in x.dims if d not in ("batch", "seq")])
        start = document_starts(s)
    if not start:
        return None
    n, q, k = s.p.size["seq"], x, x
    if d in even(s, x):
        q = call("rope", [x.text, start.text, "along seq", f"over {s.d(d)}"], x.dims, 2 * x.most,
                 lambda env: named.rope(x.value(env), "seq", d, n, 10000, start.value(env)))
        k = q if r.random() < 0.7 else x
    window, cap = r.choice((None, 1, 2)), r.choice((None, None, 4))
    more = [f"window = {window}"] if window else []
    more += [f"cap = {cap}"] if cap else []
    return call("attention", [q.text, k.text, x.text, start.text, f"along {s.d('seq')}", f"over {s.d(d)}", "causal", *more], x.dims, x.most,
                lambda env: named.attention(q.value(env), k.value(env), x.value(env), "seq", d, n, True, None, None, None, None, window, cap, start.value(env)))


@kind(2)
def attended(s):
    r = s.r
    e = s.any(lambda e: len(e.dims) >= 2 and [d for d in e.dims if d != "batch"])
    if not e:
        return None
    free = [d for d in e.dims if d != "batch"]
    pos = position_of(s, free)
    d = r.choice(s.free([pos]))
    groups = s.free([*e.dims, d])
    group = r.sample(groups, min(len(groups), r.randint(0, 1)))
    share = r.sample([g for g in groups if g not in group], min(1, len(groups) - len(group))) if r.random() < 0.4 else []
    over = [x for x in e.dims if x not in (pos, "batch", d)]
    over = [x for x in over if r.random() < 0.7]
    if len(over) + len(group) + len(share) > 3:
        return None

    def projected(more):
        if not over and d in e.dims and not more:
            return e
        w = s.param([*over, *more, *([d] if d not in e.dims else [])], 0.4)
        if not over:
            return E(f"{e.at(TIMES)} * {w.at(MINUS)}", TIMES, [*e.dims, *(x for x in w.dims if x not in e.dims)], e.most * w.most,
                     lambda env: named.pointwise(torch.mul, e.value(env), w.value(env)))
        dims = [x for x in [*e.dims, *(y for y in w.dims if y not in e.dims)] if x not in over]
        return E(f"{e.at(PRODUCT)} @ {w.at(CALL)} {s.over(over)}", PRODUCT, dims, e.most * w.most * 2,
                 lambda env: named.product(e.value(env), w.value(env), over))
    q, k, v = projected([*group, *share]), projected(share), projected(share)
    n = s.p.size[pos]
    if not s.small(q.dims) or s.p.elements(q.dims) * n > 4 * ELEMENTS:
        return None
    args, f, key = options(s, q, pos, d)
    if key:
        fold = s.param([pos, key], 0.4)

        def folded(x):
            dims = [*(y for y in x.dims if y != pos), key]
            return E(f"({x.at(PRODUCT)} @ {fold.at(CALL)} {s.over([pos])})", CALL, dims, x.most * 2,
                     lambda env: named.product(x.value(env), fold.value(env), [pos]))
        k, v = folded(k), folded(v)
    other = [x for x in s.free([*q.dims, *k.dims])]
    wide = other and r.random() < 0.2
    dims, most = list(q.dims), v.most
    if wide:  # values have another dim than keys
        to = r.choice(other)
        w = s.param([d, to], 0.4)
        v = E(f"({v.at(PRODUCT)} @ {w.text} {s.over([d])})", CALL, [*(x for x in v.dims if x != d), to], v.most * 2,
              lambda env, v=v: named.product(v.value(env), w.value(env), [d]))
        dims, most = [to if x == d else x for x in dims], v.most
    starts = [f.start.text] if f.start else []
    return call("attention", [q.text, k.text, v.text, *starts, f"along {s.d(pos)}", *args], dims, most,
                lambda env: f.attention(env, q.value(env), k.value(env), v.value(env)))



class Options:
    """Of an attention: what is seen, and what is done to scores."""

    def __init__(self, pos, d, size):
        self.pos, self.d, self.size = pos, d, size
        self.key = self.bias = self.sink = self.start = self.scale = self.window = self.cap = None
        self.causal = False

    def attention(self, env, q, k, v):
        bias, sink, start = (e and e.value(env) for e in (self.bias, self.sink, self.start))
        return named.attention(q, k, v, self.pos, self.d, self.size, self.causal, self.scale, self.key, bias, sink, self.window, self.cap, start)


def options(s, q, pos, d):
    """The text of the options behind `along pos`, what they are, and the dim of keys, where it is another."""
    r, f = s.r, Options(pos, d, s.p.size[pos])
    others = s.free([*q.dims, d]) if r.random() < 0.4 else []
    f.key = r.choice(others) if others else None
    f.causal, f.scale = r.random() < 0.6, 0.5 if r.random() < 0.3 else None
    f.cap = r.choice((1, 4)) if r.random() < 0.2 else None
    if f.causal and r.random() < 0.3 and (not f.key or s.p.size[f.key] >= f.size):
        f.window = r.randint(1, f.size)
    if f.key and r.random() < 0.5:
        scored = [x for x in [*q.dims, f.key] if x not in (d, "batch")]
        f.bias = s.param(r.sample(scored, min(len(scored), r.randint(1, 2))), 0.4)
    if r.random() < 0.3:
        shared = [x for x in q.dims if x not in (d, "batch")]
        f.sink = s.param(r.sample(shared, min(len(shared), r.randint(1, 2))), 0.4)
    if pos == "seq" and "batch" in q.dims and f.causal and not f.key and r.random() < 0.8:
        f.start = document_starts(s)
    args = ([f"along {s.d(f.key)}"] if f.key else []) + [f"over {s.d(d)}"] + (["scale = 0.5"] if f.scale else [])
    args += (["causal"] if f.causal else []) + ([f"window = {f.window}"] if f.window else []) + ([f"cap = {f.cap}"] if f.cap else [])
    args += ([f"bias = {f.bias.text}"] if f.bias else []) + ([f"sink = {f.sink.text}"] if f.sink else [])
    return args, f, f.key
