"""Tensors whose dims have names, in PyTorch: what docs/language.md says of each operator and function, written out."""

import math

import torch
import torch.nn.functional as F

NEAR = 1e-7  # two numbers this close, and not equal, may compare either way after rounding


class IllConditioned(Exception):
    """A program whose result hangs on rounding, or that would pass a limit."""


class T:
    """t: the tensor, its dims in the order of `dims`; of: what indices are of."""

    def __init__(self, t, dims, of=None):
        assert t.ndim == len(dims), (t.shape, dims)
        self.t, self.dims, self.of = t, tuple(dims), of


def number(x):
    return T(torch.tensor(float(x), dtype=torch.float64), ())


def as_dims(a, dims):
    """The tensor of a, with so many dims in this order: those it lacks have one element."""
    order = [a.dims.index(d) for d in dims if d in a.dims]
    t = a.t.permute(order)
    for i, d in enumerate(dims):
        if d not in a.dims:
            t = t.unsqueeze(i)
    return t


def union(*values):
    dims = []
    for v in values:
        dims += [d for d in v.dims if d not in dims]
    return dims


def clear(difference):
    """No difference is so small that rounding could turn it round; none at all is no rounding."""
    d = difference.detach().abs()
    if bool(((d > 0) & (d < NEAR)).any()):
        raise IllConditioned("a comparison hangs on rounding")


def pointwise(f, *values):
    dims = union(*values)
    ts = torch.broadcast_tensors(*(as_dims(v, dims) for v in values))
    return T(f(*ts), dims)


def compare(f, a, b):
    def g(x, y):
        clear(x.double() - y.double())
        return f(x, y)
    return pointwise(g, a, b)


def larger(a, b):
    def g(x, y):
        clear(x - y)
        return torch.maximum(x, y)
    return pointwise(g, a, b)


def smaller(a, b):
    def g(x, y):
        clear(x - y)
        return torch.minimum(x, y)
    return pointwise(g, a, b)


def absolute(a):
    clear(a.t)
    return T(a.t.abs(), a.dims)


def relu(a):
    clear(a.t)
    return T(F.relu(a.t), a.dims)


def product(a, b, over):
    letters = {d: chr(97 + i) for i, d in enumerate(union(a, b))}
    dims = [d for d in union(a, b) if d not in over]
    spell = ["".join(letters[d] for d in dims_) for dims_ in (a.dims, b.dims, dims)]
    return T(torch.einsum(f"{spell[0]},{spell[1]}->{spell[2]}", a.t, b.t), dims)


def axes(a, over):
    return [a.dims.index(d) for d in over]


def left(a, over):
    return [d for d in a.dims if d not in over]


def total(a, over=None):
    over = a.dims if over is None else over
    return T(a.t.sum(axes(a, over)) if over else a.t, left(a, over))


def mean(a, over=None):
    over = a.dims if over is None else over
    return T(a.t.mean(axes(a, over)) if over else a.t, left(a, over))


def largest(a, over):
    most = a.t.amax(axes(a, over), keepdim=True)
    clear(most - a.t)
    return T(a.t.amax(axes(a, over)), left(a, over))


def select(c, a, b):
    return pointwise(lambda x, y, z: torch.where(x, y, z), c, a, b)


def rename(a, names):
    return T(a.t, [names.get(d, d) for d in a.dims], a.of)


def gather(table, index):
    """The dims of the index come first; those that the table has too are matched."""
    shared = [d for d in index.dims if d in table.dims]
    dims = [index.of, *shared, *left(table, [index.of, *shared])]
    at = [torch.arange(n).reshape([n if d == e else 1 for e in index.dims]) for d, n in zip(index.dims, index.t.shape, strict=True) if d in shared]
    return T(as_dims(table, dims)[(index.t, *at)], [*index.dims, *dims[1 + len(shared):]])


def pick(a, d, at):
    return T(a.t.select(a.dims.index(d), at), left(a, [d]), a.of)


def cut(a, d, at, size, to):
    return T(a.t.narrow(a.dims.index(d), at, size), [to if x == d else x for x in a.dims])


def counted(a, d, terms, at):
    """For each index of the terms, {dim: (factor, size)}, the element at their sum along d; 0 where d has none."""
    new = [x for x in terms if x == d or x not in a.dims]
    dims = [y for x in a.dims for y in (new if x == d else [x])]
    size = {**dict(zip(a.dims, a.t.shape, strict=True)), **{x: n for x, (_, n) in terms.items()}}

    def along(x):
        return torch.arange(size[x]).reshape([size[x] if y == x else 1 for y in dims])
    place = at + sum(f * along(x) for x, (f, _) in terms.items())
    n = a.t.shape[a.dims.index(d)]
    index = torch.broadcast_tensors(*(place.clamp(0, n - 1) if x == d else along(x) for x in a.dims), *map(along, dims))
    there = ((place >= 0) & (place < n)).expand(index[0].shape)
    return T(torch.where(there, a.t[index[:len(a.dims)]], torch.zeros((), dtype=a.t.dtype)), dims)


def split(a, d, parts):
    """parts: {dim: size}, the innermost last."""
    dims = [y for x in a.dims for y in (parts if x == d else [x])]
    return T(a.t.unflatten(a.dims.index(d), list(parts.values())), dims)


def merge(a, parts, to):
    dims = [y for x in a.dims for y in (parts if x == parts[0] else [] if x in parts else [x])]
    k = dims.index(parts[0])
    return T(as_dims(a, dims).flatten(k, k + len(parts) - 1), [*dims[:k], to, *dims[k + len(parts):]])


def join(a, x, b, y, to):
    """a along x, and behind it b along y."""
    dims = [to if d == x else d for d in a.dims]
    dims += [d for d in b.dims if d != y and d not in dims]
    both = [as_dims(T(v.t, [to if d == e else d for d in v.dims]), dims) for v, e in ((a, x), (b, y))]
    k = dims.index(to)
    shape = [max(m, n) for m, n in zip(both[0].shape, both[1].shape, strict=True)]
    return T(torch.cat([v.expand([v.shape[k] if i == k else n for i, n in enumerate(shape)]) for v in both], k), dims)


def rotate(a, d):
    x, y = a.t.chunk(2, a.dims.index(d))
    return T(torch.cat((-y, x), a.dims.index(d)), a.dims)


def iota(d, size):
    return T(torch.arange(size, dtype=torch.float64), (d,))


# ---- the prelude -------------------------------------------------------------------------------


def softmax(a, over):
    most = a.t.amax(axes(a, over), keepdim=True).detach()
    e = torch.exp(a.t - most)
    return T(e / e.sum(axes(a, over), keepdim=True), a.dims)


def rmsnorm(a, gain, over, eps):
    n = T(a.t / torch.sqrt((a.t**2).mean(axes(a, over), keepdim=True) + eps), a.dims)
    return pointwise(torch.mul, n, gain)


def layernorm(a, gain, bias, over, eps):
    c = a.t - a.t.mean(axes(a, over), keepdim=True)
    n = T(c / torch.sqrt((c**2).mean(axes(a, over), keepdim=True) + eps), a.dims)
    return pointwise(torch.add, pointwise(torch.mul, n, gain), bias)


def turn(a, pos, d, size, rate, start=None):
    """start: the position that counts as 0."""
    half = len(rate)
    at = pointwise(torch.sub, iota(pos, size), start or number(0))
    angle = pointwise(torch.mul, at, T(torch.cat((rate, rate)), (d,)))
    x = pointwise(lambda x, y: x * y.cos(), a, angle)
    y = pointwise(lambda x, y: x * y.sin(), rotate(a, d), angle)
    assert 2 * half == a.t.shape[a.dims.index(d)]
    return pointwise(torch.add, x, y)


def rope(a, pos, d, size, theta, start=None):
    half = a.t.shape[a.dims.index(d)] // 2
    return turn(a, pos, d, size, theta ** (-torch.arange(half, dtype=torch.float64) / half), start)


def rope_llama3(a, pos, d, size, theta, factor, low, high, original):
    half = a.t.shape[a.dims.index(d)] // 2
    rate = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    kept = ((rate * original / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return turn(a, pos, d, size, rate * (kept + (1 - kept) / factor))


def beside(s, sink, over):
    """The softmax with one more score, of which nothing is left in the result."""
    dims = [*left(s, [over]), over]
    s, last = as_dims(s, dims), as_dims(sink, dims)
    last = last.expand([*s.shape[:-1], 1])
    return T(torch.softmax(torch.cat([s, last], -1), -1)[..., :-1], dims)


def document_start(tokens, pos, end):
    """Behind the last token `end` before each position; 0 if there is none."""
    size = tokens.t.shape[tokens.dims.index(pos)]
    ended = pointwise(lambda t, i: torch.where(t == end, i + 1, torch.zeros_like(i)), rename(T(tokens.t, tokens.dims), {pos: "@t"}), iota("@t", size))
    before = compare(torch.lt, iota("@t", size), iota(pos, size))
    found = select(before, ended, number(0))
    return T(found.t.amax(found.dims.index("@t")), left(found, ["@t"]))


def attention(q, k, v, pos, d, size, causal, scale=None, along=None, bias=None, sink=None, window=None, cap=None, start=None):
    """along: the dim of keys and values, where it is not pos."""
    key = {along or pos: "@key"}
    s = product(q, rename(k, key), [d])
    s = T(s.t * (scale or 1 / math.sqrt(q.t.shape[q.dims.index(d)])), s.dims)
    if cap:
        s = T(torch.tanh(s.t / cap) * cap, s.dims)
    if bias:
        s = pointwise(torch.add, s, rename(bias, key))
    at = iota("@key", k.t.shape[k.dims.index(along or pos)])
    seen = [compare(torch.le, at, iota(pos, size))] if causal else []
    if window:
        seen.append(pointwise(lambda i, j: i - j < window, iota(pos, size), at))
    if start:
        seen.append(compare(torch.ge, at, start))
    for c in seen:
        s = select(c, s, number(-math.inf))
    p = beside(s, sink, "@key") if sink else softmax(s, ["@key"])
    return product(p, rename(v, key), ["@key"])


def cross_entropy(logits, targets, weight=None):
    c = targets.of
    z = as_dims(logits, [*left(logits, [c]), c])
    index = T(targets.t, targets.dims)
    log_p = T(torch.log_softmax(z, -1), [*left(logits, [c]), c])
    each = pointwise(lambda x, y: x * y, T(log_p.t, log_p.dims), hits(index, c, z.shape[-1]))
    each = T(-total(each, [c]).t, left(each, [c]))
    if weight is None:
        return mean(each)
    both = pointwise(torch.mul, each, weight)
    return T(both.t.sum() / weight.t.sum().clamp(min=1e-30), ())


def hits(index, c, size):
    """1 where the index is that of c, a new dim at the end."""
    return T(F.one_hot(index.t, size).double(), [*index.dims, c])


# ---- experts -----------------------------------------------------------------------------------


def top(a, d, best, size):
    x = as_dims(a, [*left(a, [d]), d])
    values, at = torch.sort(x, dim=-1, descending=True, stable=True)
    clear(values[..., 1:] - values[..., :-1])
    return T(at[..., :size], [*left(a, [d]), best], of=d)


def scores_of(score, chosen):
    c = chosen.of
    size = score.t.shape[score.dims.index(c)]
    return total(pointwise(torch.mul, hits(T(chosen.t, chosen.dims), c, size), score), [c])


def imbalance(score, chosen, seq, best):
    c = chosen.of
    size = score.t.shape[score.dims.index(c)]
    used = mean(total(hits(T(chosen.t, chosen.dims), c, size), [best]), [seq])
    both = total(pointwise(torch.mul, used, mean(score, [seq])), [c])
    return T(both.t * size, both.dims)


def places(chosen, seq, best, experts, slots):
    """[group, seq, best, experts, slots]: 1 where a choice has a slot. Slots go by position, then by choice."""
    groups = left(chosen, [seq, best])
    at = as_dims(T(chosen.t, chosen.dims), [*groups, seq, best])
    flat = at.reshape(-1, *at.shape[-2:])
    out = torch.zeros(*flat.shape, experts, slots, dtype=torch.float64)
    for g in range(len(flat)):
        taken = [0] * experts
        for s in range(flat.shape[1]):
            for k in range(flat.shape[2]):
                e = int(flat[g, s, k])
                if taken[e] < slots:
                    out[g, s, k, e, taken[e]] = 1
                taken[e] += 1
    return T(out.reshape(*at.shape, experts, slots), [*groups, seq, best, "@experts", "@slots"])


def sorted_places(chosen, seq, best, experts):
    """[group, seq, best, rows]: 1 at the row of a choice, by expert, position, choice; and [group, rows, experts]: 1 for whose a row is."""
    where = places(chosen, seq, best, experts, chosen.t.shape[chosen.dims.index(seq)] * chosen.t.shape[chosen.dims.index(best)])
    used = where.t.sum((-4, -3))  # of each expert its slots
    owner = torch.zeros(*used.shape[:-2], used.shape[-1], experts, dtype=torch.float64)
    row = used.flatten(-2).cumsum(-1).reshape(used.shape) - 1
    for *group, e, slot in torch.nonzero(used).tolist():
        owner[(*group, int(row[(*group, e, slot)]), e)] = 1
    at = (where.t * row[..., None, None, :, :]).sum((-2, -1)).long()
    groups = where.dims[:-4]
    return T(F.one_hot(at, used.shape[-1]).double(), [*groups, seq, best, "@rows"]), T(owner, [*groups, "@rows", "@experts"])


def dispatch_sorted(x, where, seq, best, rows):
    sent = T(where.t.sum(where.dims.index(best)), left(where, [best]))
    return rename(product(x, sent, [seq]), {"@rows": rows})


def grouped(z, owner, w, experts, rows, over):
    return product(z, product(rename(owner, {"@rows": rows, "@experts": experts}), w, [experts]), over)


def combine_sorted(y, where, weight, best, rows):
    w = where if weight is None else pointwise(torch.mul, where, weight)
    return product(rename(y, {rows: "@rows"}), T(w.t.sum(w.dims.index(best)), left(w, [best])), ["@rows"])


def dispatch(x, where, seq, best, experts, slots):
    sent = T(where.t.sum(where.dims.index(best)), left(where, [best]))
    return rename(product(x, sent, [seq]), {"@experts": experts, "@slots": slots})


def combine(y, where, weight, best, experts, slots):
    w = where if weight is None else pointwise(torch.mul, where, weight)
    return product(rename(y, {experts: "@experts", slots: "@slots"}), T(w.t.sum(w.dims.index(best)), left(w, [best])), ["@experts", "@slots"])
