"""Names and places: renames, ranges, dims in parts and together, joins, look-ups."""

import named
import torch
from named import T

from .scope import CALL, ELEMENTS, RANK, E, call, kind


def free_of(e):
    return [d for d in e.dims if d != "batch"]


def replaced(e, d, *to):
    """The dims of e, with others in the place of d."""
    return [y for x in e.dims for y in (to if x == d else (x,))]


@kind(2)
def renamed(s):
    e = s.any(lambda e: e.dims)
    if not e:
        return None
    size, names = s.p.size, {}
    for d in e.dims:
        to = [x for x in s.free(e.dims) if size[x] == size[d] and x not in names.values()]
        if to and d != "batch" and (not names or s.r.random() < 0.3):
            names[d] = s.r.choice(to)
    if not names:
        return None
    inner = ", ".join(f"{s.d(a)} -> {s.d(b)}" for a, b in names.items())
    return E(f"{e.at(CALL)}[{inner}]", CALL, [names.get(d, d) for d in e.dims], e.most, lambda env: named.rename(e.value(env), names))


@kind(1)
def cut(s):
    e = s.any(free_of)
    if not e:
        return None
    r, size, d = s.r, s.p.size, s.r.choice(free_of(e))
    if r.random() < 0.3:  # one element
        k = r.randrange(size[d])
        return E(f"{e.at(CALL)}[{s.d(d)} = {k}]", CALL, [x for x in e.dims if x != d], e.most, lambda env: named.pick(e.value(env), d, k))
    to = [x for x in s.free(e.dims) if size[x] <= size[d]]
    if not to:
        return None
    t = r.choice(to)
    at = r.randint(0, size[d] - size[t])
    part = f"{at} .. {at + size[t]} -> {s.d(t)}" if at or r.random() < 0.5 else f"0 .. {s.d(t)}"
    return E(f"{e.at(CALL)}[{s.d(d)} = {part}]", CALL, replaced(e, d, t), e.most, lambda env: named.cut(e.value(env), d, at, size[t], t))


@kind(1.5)
def split(s):
    """A dim as two."""
    e, size = s.any(lambda e: free_of(e) and len(e.dims) < RANK), s.p.size
    if not e:
        return None
    d, n = s.r.choice(free_of(e)), None
    n = s.r.choice([k for k in (2, 3, 4, 1) if size[d] % k == 0])
    a = s.p.dim(n, (*e.dims, *s.scanned))
    b = a and s.p.dim(size[d] // n, (*e.dims, *s.scanned, a))
    if not b:
        return None
    if s.r.random() < 0.5:
        a, b = b, a
    return E(f"{e.at(CALL)}[{s.d(d)} -> ({s.d(a)}, {s.d(b)})]", CALL, replaced(e, d, a, b), e.most,
             lambda env: named.split(e.value(env), d, {a: size[a], b: size[b]}))


@kind(1.5)
def merged(s):
    """Two dims as one."""
    e, size = s.any(lambda e: len(free_of(e)) > 1), s.p.size
    if not e:
        return None
    a, b = s.r.sample(free_of(e), 2)
    t = s.p.dim(size[a] * size[b], (*e.dims, *s.scanned), f"{a} * {b}")
    if not t:
        return None
    return E(f"{e.at(CALL)}[({s.d(a)}, {s.d(b)}) -> {s.d(t)}]", CALL, [t if x == a else x for x in e.dims if x != b], e.most,
             lambda env: named.merge(e.value(env), [a, b], t))


@kind(2)
def joined(s):
    """Two parts or three, one behind the other; a part may lack dims."""
    r, size, e = s.r, s.p.size, s.any(free_of)
    if not e:
        return None
    parts, along = [e], [r.choice(free_of(e))]
    for _ in range(r.choice((1, 1, 2))):
        rest = set(e.dims) - {along[0]}
        def ends(x):
            return [d for d in free_of(x) if d not in along and set(x.dims) - {d} <= rest]
        x = s.any(ends)
        if x and r.random() < 0.7:
            d = r.choice(ends(x))
        else:
            d = r.choice(s.free([*e.dims, *along]) or [None])
            if not d:
                return None
            x = s.param([d, *(y for y in free_of(e) if y != along[0] and r.random() < 0.6)])
        parts.append(x)
        along.append(d)
    n = sum(size[d] for d in along)
    t = s.p.dim(n, (*e.dims, *s.scanned, *along), " + ".join(along))
    dims = t and replaced(e, along[0], t)
    if not t or not s.small(dims):
        return None

    def value(env):
        v, d = parts[0].value(env), along[0]
        for x, y in zip(parts[1:], along[1:], strict=True):
            v, d = named.join(v, d, x.value(env), y, t), t
        return v
    args = [*(x.text for x in parts), f"({', '.join(map(s.d, along))}) -> {s.d(t)}"]
    return call("join", args, dims, max(x.most for x in parts), value)


@kind(1.5)
def counted(s):
    """The element at a sum of indices."""
    r, size, e = s.r, s.p.size, s.any(free_of)
    if not e:
        return None
    d, other = r.choice(free_of(e)), s.free(e.dims)
    if d in other or not other or r.random() < 0.5:
        first = d
    else:
        first = r.choice(other)
    if r.random() < 0.2:  # the short form
        more = [x for x in other if size[x] * s.p.elements(e.dims) <= ELEMENTS]
        if first == d and more:
            t = r.choice(more)
            return E(f"{e.at(CALL)}[{s.d(d)} - {s.d(t)}]", CALL, replaced(e, d, d, t), e.most,
                     lambda env: named.counted(e.value(env), d, {d: (1, size[d]), t: (-1, size[t])}, 0))
        return E(f"{e.at(CALL)}[{s.d(d)} - 1]", CALL, e.dims, e.most, lambda env: named.counted(e.value(env), d, {d: (1, size[d])}, -1))
    terms = {first: r.choice((1, 1, 2, 3, -1))}
    more = [x for x in s.free([first]) if x != d]
    if more and r.random() < 0.6:
        terms[r.choice(more)] = r.choice((1, -1, 2))
    dims = replaced(e, d, *(z for z in terms if z == d or z not in e.dims))
    if not s.small(dims):
        return None
    at = r.randint(-2, 3)
    text = " + ".join(f"{f} * {s.d(x)}" for x, f in terms.items()).replace("+ -", "- ")
    known = {x: (f, size[x]) for x, f in terms.items()}
    return E(f"{e.at(CALL)}[{s.d(d)} = {text} + {at}]".replace("+ -", "- "), CALL, dims, e.most,
             lambda env: named.counted(e.value(env), d, known, at))


@kind(3)
def lookup(s):
    """Of a table, or in a value that has dims of the index as well."""
    if not s.indices:
        return None
    r, i = s.r, chosen_indices(s)
    ok = s.free([*i.dims, i.of])
    shared = r.random() < 0.5
    table = s.any(lambda e: i.of in e.dims and bool(set(e.dims) & set(i.dims)) == shared and s.small({*e.dims, *i.dims}))
    if not table or r.random() < 0.3:
        more = r.sample(ok, r.randint(0, min(2, len(ok))))
        if not s.small([*i.dims, *more]):
            return None
        table = s.param([i.of, *more])
    dims = [*i.dims, *(d for d in table.dims if d != i.of and d not in i.dims)]
    return E(f"{table.at(CALL)}[{i.text}]", CALL, dims, table.most, lambda env: named.gather(table.value(env), i.value(env)))


def chosen_indices(s):
    """Indices; sometimes another number in the place of one, as of a mask."""
    i, n = s.r.choice(s.indices), s.p.size
    if s.r.random() < 0.8:
        return i
    k, other = s.r.randrange(n[i.of]), s.r.randrange(n[i.of])

    def value(env):
        v = i.value(env)
        return T(torch.where(v.t == k, torch.full_like(v.t, other), v.t), v.dims, i.of)
    return call("select", [f"{i.text} == {k}", str(other), i.text], i.dims, 1, value, i.of)


@kind(0.7)
def ranked(s):
    """The places of the largest elements, as indices for what comes later, and here for a look-up in what they are of."""
    r, size = s.r, s.p.size
    e = s.any(lambda e: [d for d in free_of(e) if size[d] > 1])
    if not e:
        return None
    d = r.choice([d for d in free_of(e) if size[d] > 1])
    to = [x for x in s.free(e.dims) if size[x] <= size[d]]
    if not to:
        return None
    t = r.choice(to)
    dims = [*(x for x in e.dims if x != d), t]
    chosen = s.assign(call("top", [e.text, f"{s.d(d)} -> {s.d(t)}"], dims, 1, lambda env: named.top(e.value(env), d, t, size[t]), of=d))
    s.indices.append(chosen)
    return call("scores_of", [e.text, chosen.text], dims, e.most, lambda env: named.scores_of(e.value(env), chosen.value(env)))
