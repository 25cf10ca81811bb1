"""Of each element: functions, arithmetic, conditions and choices; products and reductions."""

import math

import named
import torch
from named import T

from .scope import CALL, COMPARE, MINUS, PLUS, PRODUCT, TIMES, E, call, kind


@kind(4)
def unary(s):
    r, e = s.r, s.leaf()
    pick = r.randrange(16)
    simple = {0: (torch.tanh, "tanh", 1), 1: (torch.sigmoid, "sigmoid", 1), 2: (torch.sin, "sin", 1),
              3: (torch.cos, "cos", 1), 4: (torch.erf, "erf", 1)}
    if pick in simple:
        f, name, most = simple[pick]
        return s.wrap(f, name, e, most)
    if pick == 5:
        e = e if e.most <= 1.5 else s.wrap(torch.tanh, "tanh", e, 1)
        return s.wrap(torch.exp, "exp", e, math.exp(e.most))
    if pick in (6, 7, 8):  # of what is above a half
        f, name, most = {6: (torch.log, "log", math.log(0.5 + e.most**2) + 0.7),
                         7: (torch.sqrt, "sqrt", math.sqrt(0.5 + e.most**2)), 8: (torch.rsqrt, "rsqrt", 1.5)}[pick]
        return call(name, [f"{e.at(MINUS)} * {e.at(MINUS)} + 0.5"], e.dims, most,
                    lambda env: named.pointwise(lambda x: f(x * x + 0.5), e.value(env)))
    if pick == 9:
        return call("abs", [e.text], e.dims, e.most, lambda env: named.absolute(e.value(env)))
    if pick == 10:
        return E(f"-{e.at(PRODUCT)}", MINUS, e.dims, e.most, lambda env: named.pointwise(torch.neg, e.value(env)))
    if pick == 11:
        return call("relu", [e.text], e.dims, e.most, lambda env: named.relu(e.value(env)))
    f, name = [(torch.nn.functional.silu, "silu"), (torch.nn.functional.gelu, "gelu"),
               (lambda x: torch.nn.functional.gelu(x, approximate="tanh"), "gelu_tanh")][pick % 3]
    return s.wrap(f, name, e, e.most)


def literal(s):
    """A number: written out, a constant, or arithmetic of dims."""
    r = s.r
    if r.random() < 0.3:
        d = r.choice(list(s.p.size))
        return f"{s.d(d)} / 4", s.p.size[d] / 4, TIMES
    if r.random() < 0.2:
        return "share", 0.75, CALL
    x = r.choice((0.5, 1.5, 2, 0.25, 3, 1, 0.1))
    if r.random() < 0.2:
        return f"-{x}", -x, MINUS
    return repr(x), x, CALL



@kind(6)
def binary(s):
    r = s.r
    a, b = s.pair()
    dims = [*a.dims, *(d for d in b.dims if d not in a.dims)]
    pick = r.randrange(10)
    if r.random() < 0.25:  # a number on one side
        text, x, prec = literal(s)
        b = E(text, prec, (), abs(x), lambda env: named.number(x))
        dims = a.dims
        if r.random() < 0.3:
            a, b = b, a
    if pick < 3:
        return E(f"{a.at(PLUS)} + {b.at(TIMES)}", PLUS, dims, a.most + b.most,
                 lambda env: named.pointwise(torch.add, a.value(env), b.value(env)))
    if pick == 3:
        return E(f"{a.at(PLUS)} - {b.at(TIMES)}", PLUS, dims, a.most + b.most,
                 lambda env: named.pointwise(torch.sub, a.value(env), b.value(env)))
    if pick < 7:
        return E(f"{a.at(TIMES)} * {b.at(MINUS)}", TIMES, dims, a.most * b.most,
                 lambda env: named.pointwise(torch.mul, a.value(env), b.value(env)))
    if pick == 7:
        return E(f"{a.at(TIMES)} / (1 + {b.at(MINUS)} * {b.at(MINUS)})", TIMES, dims, a.most,
                 lambda env: named.pointwise(lambda x, y: x / (1 + y * y), a.value(env), b.value(env)))
    if pick == 8:
        f, name = (named.larger, "max") if r.random() < 0.5 else (named.smaller, "min")
        return call(name, [a.text, b.text], dims, max(a.most, b.most), lambda env: f(a.value(env), b.value(env)))
    return power(s, a, b, dims)


def power(s, a, b, dims):
    if not a.dims or s.r.random() < 0.5:
        k = s.r.choice((2, 3, 0, 1))
        a = a if a.dims else s.leaf()
        return call("pow", [a.text, str(k)], a.dims, max(1, a.most**k), lambda env: named.pointwise(lambda x: x**k, a.value(env)))
    b = b if b.most <= 2 else s.wrap(torch.tanh, "tanh", b, 1)
    return call("pow", [f"abs({a.text}) + 0.5", b.text], dims, max(2, a.most + 0.5) ** b.most, lambda env: named.pointwise(
        lambda x, y: (x + 0.5) ** y, named.absolute(a.value(env)), b.value(env)))


@kind(5)
def product(s):
    r = s.r
    a = s.any(lambda e: e.dims) or s.leaf()
    if not a.dims:
        return None
    over = s.some(a.dims)
    b = s.any(lambda e: set(over) <= set(e.dims) and s.small((set(a.dims) | set(e.dims)) - set(over)))
    if not b or r.random() < 0.5:
        free = s.free(a.dims)
        more = r.sample(free, min(len(free), r.randint(0, 2)))
        shared = [d for d in a.dims if d not in over and d != "batch" and r.random() < 0.2]
        if "batch" in over or not s.small((set(a.dims) - set(over)) | set(more)):
            return None
        b = s.param([*over, *shared, *more], 0.4)
    dims = [d for d in [*a.dims, *(d for d in b.dims if d not in a.dims)] if d not in over]
    if r.random() < 0.3:
        a, b = b, a
    most = a.most * b.most * math.sqrt(s.p.elements(over))
    return E(f"{a.at(PRODUCT)} @ {b.at(CALL)} {s.over(over)}", PRODUCT, dims, most,
             lambda env: named.product(a.value(env), b.value(env), over))


@kind(3)
def reduction(s):
    r = s.r
    e = s.any(lambda e: e.dims)
    if not e:
        return None
    over = s.some(e.dims)
    left = [d for d in e.dims if d not in over]
    pick = r.randrange(4)
    if pick == 0:
        return call("sum", [e.text, s.over(over)], left, e.most * s.p.elements(over),
                    lambda env: named.total(e.value(env), over))
    if pick == 1:
        return call("mean", [e.text, s.over(over)], left, e.most, lambda env: named.mean(e.value(env), over))
    if pick == 2:
        return call("max", [e.text, s.over(over)], left, e.most, lambda env: named.largest(e.value(env), over))
    d, k = over[0], r.randrange(s.p.size[over[0]]) if over[0] != "batch" else 0  # a sample has a batch of one
    left = [x for x in e.dims if x != d]
    s.p.ordered |= d == "batch"
    if r.random() < 0.3:
        return call("last", [e.text, f"along {s.d(d)}"], left, e.most, lambda env: named.pick(e.value(env), d, s.p.size[d] - 1))
    return call("pick", [e.text, f"along {s.d(d)}", f"at = {k}"], left, e.most, lambda env: named.pick(e.value(env), d, k))


def condition(s):
    r = s.r
    sign, f = r.choice((("<", torch.lt), ("<=", torch.le), (">", torch.gt), (">=", torch.ge), ("==", torch.eq), ("!=", torch.ne)))
    pick = r.randrange(4)
    if pick == 0 and s.indices:
        i = r.choice(s.indices)
        if s.small((i.of, *i.dims)):
            a = s.index(i.of)

            def compared(env):
                v = i.value(env)
                return named.compare(f, a.value(env), T(v.t, v.dims))
            return E(f"{a.text} {sign} {i.text}", COMPARE, [i.of, *i.dims], 1, compared)
    if pick == 1:
        a, b = (s.index(s.position()) for _ in range(2))
    else:
        a, b = s.pair()
    if pick == 2:
        x = r.choice((0, 0.25, -0.5))
        b = E(f"{x}", CALL if x >= 0 else MINUS, (), abs(x), lambda env: named.number(x))
    if not a.dims:
        a = s.index(r.choice(s.free()))
    return E(f"{a.at(PLUS)} {sign} {b.at(PLUS)}", COMPARE, [*a.dims, *(d for d in b.dims if d not in a.dims)], 1,
             lambda env: named.compare(f, a.value(env), b.value(env)))


def kinds(s):
    """One thing in some iterations and another in the others."""
    n = s.number
    text, holds = s.r.choice(((f"{n} % 2 == 0", lambda i: i % 2 == 0), (f"{n} < 1", lambda i: i < 1),
                                 (f"({n} + 1) % 3 != 0", lambda i: (i + 1) % 3 != 0), (f"2 * {n} >= 3", lambda i: 2 * i >= 3)))
    a = s.expression()
    b = s.fitted(s.expression(), a.dims)
    return call("select", [text, a.text, b.text], a.dims, max(a.most, b.most),
                lambda env: (a if holds(env.get(n)) else b).value(env))


@kind(3)
def selection(s):
    if s.number and s.r.random() < 0.6:
        return kinds(s)
    c = condition(s)
    a, b = s.pair()
    if s.r.random() < 0.3:
        text, x, prec = literal(s)
        b = E(text, prec, (), abs(x), lambda env: named.number(x))
        a, b = (a, b) if s.r.random() < 0.5 else (b, a)
    dims = list(dict.fromkeys((*c.dims, *a.dims, *b.dims)))
    if not s.small(dims):
        return None
    return call("select", [c.text, a.text, b.text], dims, max(a.most, b.most),
                lambda env: named.select(c.value(env), a.value(env), b.value(env)))


@kind(0.5)
def stopped(s):
    e = s.leaf()
    return call("stop", [e.text], e.dims, e.most, lambda env: stop(e.value(env)))


def stop(v):
    return T(v.t.detach(), v.dims)
