"""Repeats and scans: values that go from iteration to iteration, and bodies of all else."""

import re

import named
import torch
from named import T

from .elements import kinds
from .scope import CALL, ELEMENTS, MINUS, MOST, PLUS, PRODUCT, RANK, REPEATS, TIMES, E, Scope, call, pointwise, statement


def changed(body, name, e):
    """An assignment in a body to what is carried, which the next iteration uses."""
    body.assign(e, name)
    body.unused.remove(name)


def no_rest(body, c, names):
    """Nothing is for nothing: what the body does not use, the carried value c does."""
    for n in names:
        e = body.fitted(body.named(n, body.all()[n]), c.dims)
        changed(body, c.text, pointwise(f"{c.text} + 0.1 * {e.at(MINUS)}", PLUS, lambda x, y: x + 0.1 * y, c, e, most=c.most + e.most))


def indented(head, lines):
    return [head, *("    " + line for line in lines), "}"]


@statement(0.12)
def repeat(s):
    p, r = s.p, s.r
    dims = [d for d in REPEATS if d not in s.repeated]
    carried = [s.any(lambda e: e.dims and s.small(e.dims)) for _ in range(r.randint(1, 2))]
    carried = list({c.text: c for c in carried if c}.values())
    if s.depth > 2 or not dims or not carried:
        return False
    dim = r.choice(dims)
    for i, c in enumerate(carried):  # what a repeat changes is assigned before it
        if c.text not in s.values or not c.text.startswith(("v", "h")) or r.random() < 0.3:
            carried[i] = s.assign(pointwise(f"{c.at(TIMES)} * 0.5", TIMES, lambda x: 0.5 * x, c, most=c.most))
    extra = s.assign(s.number_of(0)) if r.random() < 0.3 else None
    label, number = p.fresh("r"), p.fresh("n") if r.random() < 0.4 else None
    body = Scope(p, s, repeated=(*s.repeated, dim), number=number, quiet=bool(number))
    for c in carried:
        s.use(c)
    for _ in range(r.randint(1, 3)):
        body.step()
    if number:
        body.assign(kinds(body))
    for c in carried:
        e = body.fitted(body.expression(), c.dims)
        if r.random() < 0.9:  # else nothing is left of the iterations before
            e = pointwise(f"{c.text} + 0.5 * {e.at(MINUS)}", PLUS, lambda x, y: x + 0.5 * y, c, e, most=c.most + e.most)
        if e.most * p.size[dim] > MOST or r.random() < 0.3:
            e = body.wrap(torch.tanh, "tanh", e, 1)
        changed(body, c.text, e)
    if extra:
        e = body.any() or carried[0]
        total = named.total if r.random() < 0.1 else named.mean
        word = "sum" if total is named.total else "mean"
        changed(body, extra.text, E(f"{extra.text} + {word}({e.at(MINUS)} * {e.at(MINUS)})", PLUS, (), e.most**2, lambda env: named.pointwise(
            torch.add, env.get(extra.text), total(named.pointwise(torch.square, e.value(env))))))
    no_rest(body, carried[0], list(body.unused))
    s.lines += indented(f'repeat {dim}{f" at {number}" if number else ""} as "{label}.{{}}" {{', body.lines)
    kept = [c.text for c in carried] + ([extra.text] if extra else [])
    size = p.size[dim]

    def run(env):
        for i in range(size):
            inner = env.repeated(label, dim, i, size)
            inner.put(number, i)
            for step in body.steps:
                step(inner)
            for n in kept:
                env.put(n, inner.get(n))
    s.steps.append(run)
    for n in kept:
        s.values[n] = E(n, CALL, s.values[n].dims, 3 * MOST if extra and n == extra.text else MOST, None)
        if n not in s.unused:
            s.unused.append(n)
    return True


# ---- scans -------------------------------------------------------------------------------------


def along(s, x):
    """A dim of x that a scan may go along."""
    free = [d for d in x.dims if d != "batch"]
    return s.r.choice(free) if free else None


def start_of(s, dims):
    """The value that a scan begins with, assigned: a number, or a value with these dims."""
    if s.r.random() < 0.5 or not dims:
        k = s.r.choice((0, 0, 1, 0.5))
        e = call("expand", [str(k), s.over(dims)], dims, k, lambda env: expanded(env, k, dims)) if dims else s.number_of(k)
        return s.assign(e, s.p.fresh("h"))
    return s.assign(s.fitted(s.leaf(), dims), s.p.fresh("h"))


def expanded(env, k, dims):
    return T(torch.full([env.program.size[d] for d in dims], float(k), dtype=torch.float64), dims)


def finished(s, body, d, carried, outputs, reverse):
    """The scan itself, behind its body: what it carries and what it puts out are values of s."""
    p, size = s.p, s.p.size[d]
    word, lines = s.d(d), body.lines
    s.lines += indented(f"scan {word}{' reverse' if reverse else ''} {{", lines)
    kept = [c.text for c in carried]

    def run(env):
        rows = {}
        for i in reversed(range(size)) if reverse else range(size):
            inner = env.scanning(d, word, i, size)
            for step in body.steps:
                step(inner)
            for n in kept:
                env.put(n, inner.get(n))
            rows[i] = [inner.get(n) for n in outputs]
        for k, n in enumerate(outputs):
            first = rows[0][k]
            env.put(n, T(torch.stack([named.as_dims(rows[i][k], first.dims) for i in range(size)]), (d, *first.dims)))
    s.steps.append(run)
    for n in (*kept, *outputs):
        e = body.values[n]
        s.values[n] = E(n, CALL, e.dims if n in kept else (d, *e.dims), MOST, None)
        if n not in s.unused:
            s.unused.append(n)
    return True


@statement(0.1)
def scan(s):
    """Any recurrence: one state or two, whose new values are bounded."""
    p, r = s.p, s.r
    x = s.any(lambda e: [d for d in e.dims if d != "batch"])
    if s.depth > 2 or not x:
        return False
    d, carried = along(s, x), []
    for _ in range(r.choice((1, 1, 2))):
        dims = [e for e in x.dims if e != d and r.random() < (0.9 if e == "batch" else 0.8)]
        more = s.free([*x.dims, *dims])
        dims += r.sample(more, min(len(more), 1)) if r.random() < 0.3 else []
        carried.append(start_of(s, dims if s.small(dims) else dims[:2]))
    body = Scope(p, s, repeated=s.repeated, dim=d, scanned=(*s.scanned, d))
    body.unused = [x.text, *(c.text for c in carried)]
    if s.number:  # in iterations of each kind something has the dim
        body.assign(body.wrap(torch.tanh, "tanh", body.named(x.text, body.all()[x.text]), 1))
    for _ in range(r.randint(0, 2)):
        body.step()
    for c in carried:
        e = body.fitted(body.expression(), c.dims)
        body.use(c)
        if r.random() < 0.4:
            g = body.wrap(torch.sigmoid, "sigmoid", body.fitted(body.leaf(), c.dims), 1)
            g = body.assign(g)
            body.use(g)
            e = E(f"{g.text} * {c.text} + (1 - {g.text}) * {e.at(MINUS)}", PLUS, c.dims, max(c.most, e.most), lambda env, c=c, e=e, g=g: named.pointwise(
                lambda a, b, z: z * a + (1 - z) * b, env.get(c.text), e.value(env), g.value(env)))
        else:
            e = pointwise(f"{e.at(PLUS)} + {c.text}", PLUS, torch.add, e, c, most=e.most + c.most)
            e = body.wrap(torch.tanh, "tanh", e, 1)
        changed(body, c.text, e)
        if r.random() < 0.6:
            body.assign(body.wrap(torch.sin, "sin", c, 1) if r.random() < 0.3 else E(c.text, CALL, c.dims, e.most, lambda env, c=c: env.get(c.text)))

    if not any(re.search(rf"\b{x.text}\b", line) and "select(n" not in line for line in body.lines):
        no_rest(body, carried[0], [x.text])  # whatever the numbers of repeats choose, something has the dim

    def out(n):
        e = body.values.get(n)
        return e and not e.of and n.startswith("v") and len(e.dims) < RANK and p.elements(e.dims) * p.size[d] <= ELEMENTS
    outputs = [n for n in body.values if out(n) and (n in body.unused and r.random() < 0.8 or r.random() < 0.1)]
    no_rest(body, carried[0], [n for n in body.unused if n not in outputs])
    return finished(s, body, d, carried, outputs, r.random() < 0.3)


# ---- linear recurrences ------------------------------------------------------------------------


def gate(s, x, dims):
    """A factor that is positive whatever the data are, as a value before the scan; or a number, or nothing."""
    r = s.r
    how = r.randrange(6)
    if how == 0:
        return None
    if how == 1:
        return s.number_of(0.9)
    some = [d for d in dims if d == "batch" or r.random() < 0.8]
    g = s.fitted(x, some)
    text, f = (("sigmoid({})", torch.sigmoid), ("exp(-abs({}))", lambda v: torch.exp(-torch.abs(v))), ("1 - sigmoid({})", lambda v: 1 - torch.sigmoid(v)),
               ("sigmoid({})", torch.sigmoid))[how - 2]

    def value(env):
        v = g.value(env)
        if how == 3:
            named.clear(v.t)
        return named.pointwise(f, v)
    return s.assign(E(text.format(g.text), PLUS, g.dims, 1, value))


@statement(0.08)
def recurrence(s):
    """A state that is updated linearly, which goes on in chunks: retention, gates, a gate of each key, the delta rule."""
    p, r = s.p, s.r
    x = s.any(lambda e: "batch" in e.dims and len(e.dims) > 1 and [d for d in e.dims if d != "batch"])
    if s.depth > 2 or not x or len(s.free(x.dims)) < 2:
        return False
    d = along(s, x)
    names = [e for e in s.free([d])]
    r.shuffle(names)
    key, value, *heads = names[:2 + r.randrange(2)]
    lead = ["batch", *heads]
    if p.elements([*lead, key, value]) > ELEMENTS or p.elements([*lead, d, key]) > ELEMENTS or p.elements([*lead, d, value]) > ELEMENTS:
        return False
    seq = [*lead, d]

    def made(dims):
        return s.assign(s.fitted(s.any(lambda e: d in e.dims and "batch" in e.dims) or x, dims))
    k, v = made([*seq, key]), made([*seq, value])
    delta = r.random() < 0.35
    if delta or r.random() < 0.4:
        k = s.assign(E(f"{k.text} * rsqrt(sum({k.text} * {k.text}, {s.over([key])}) + 0.1)", TIMES, k.dims, 1, lambda env, k=k: unit(k.value(env), key)))
    q = made([*seq, key]) if r.random() < 0.8 else k
    a = gate(s, x, [*seq, key] if r.random() < 0.3 else seq)
    part = s.assign(s.wrap(torch.sigmoid, "sigmoid", s.fitted(x, seq), 1)) if r.random() < 0.6 else None
    state = start_of(s, [*lead, key, value])
    body = Scope(p, s, repeated=s.repeated, dim=d, scanned=(*s.scanned, d))
    see = {e.text: body.named(e.text, body.all()[e.text]) for e in (k, v, q, *([part] if part else []), *([a] if a and a.text.startswith("v") else []))}
    k, v, q, part = see[k.text], see[v.text], see[q.text], part and see[part.text]
    before = r.random() < 0.3
    outputs = []

    def read():
        y = E(f"{q.text} @ {state.text} {s.over([key])}", PRODUCT, [*lead, value], MOST, lambda env: named.product(q.value(env), env.get(state.text), [key]))
        if r.random() < 0.2:
            y = body.wrap(torch.tanh, "tanh", y, 1)
        outputs.append(body.assign(y).text)
    if before:
        read()
    if a:
        g = see.get(a.text, a)
        changed(body, state.text, pointwise(f"{g.text} * {state.text}", TIMES, torch.mul, g, state, most=MOST))
    w = part.text + " * " if part else ""
    if delta:
        new = E(f"{state.text} + {w}({v.text} - {k.text} @ {state.text} {s.over([key])}) * {k.text}", PLUS, state.dims, MOST,
                lambda env: ruled(env.get(state.text), k.value(env), v.value(env), part and part.value(env), key))
    else:
        sign = r.choice("++-")
        new = E(f"{state.text} {sign} {w}{k.text} * {v.text}", PLUS, state.dims, MOST,
                lambda env: added(env.get(state.text), k.value(env), v.value(env), part and part.value(env), 1 if sign == "+" else -1))
    changed(body, state.text, new)
    if not before or r.random() < 0.3:
        read()
    for e in see.values():
        s.use(e)
    return finished(s, body, d, [state], outputs, r.random() < 0.2)


def unit(k, key):
    return named.pointwise(lambda a, b: a * torch.rsqrt(b + 0.1), k, named.total(named.pointwise(torch.square, k), [key]))


def added(state, k, v, part, sign):
    new = named.pointwise(torch.mul, k, v)
    new = named.pointwise(torch.mul, new, part) if part else new
    return named.pointwise(lambda x, y: x + sign * y, state, new)


def ruled(state, k, v, part, key):
    off = named.pointwise(torch.sub, v, named.product(k, state, [key]))
    return added(state, k, off, part, 1)


