"""Numbers that are drawn anew in each step, and the number of the step, which is 0: those of zoo/twins/noise.py."""

import math

import named
import torch
from named import T
from twins.noise import fnv, philox

from .scope import TIMES, E, call, kind


def key(env, site, word):
    """The key of a call: the path to it, and how many had that path before it."""
    p, wanted = env.program, ".".join((*env.place, word))
    if (site, wanted) not in p.sites:
        p.drawn[wanted] = p.drawn.get(wanted, 0) + 1
        p.sites[site, wanted] = wanted if p.drawn[wanted] == 1 else f"{wanted}_{p.drawn[wanted]}"
    return p.sites[site, wanted]


def uniform(env, site, dims, word="uniform"):
    """In [0, 1), for the step 0; the batch is the first dim, and each iteration of the loops around has its own."""
    dims = sorted(dims, key=lambda d: d != "batch")
    shape, at, numbers = [env.program.size[d] for d in dims], 0, []
    for i, size in env.loops:
        at = at * size + i
    n, k = math.prod(shape), fnv(key(env, site, word))
    for e in range(at * n, (at + 1) * n):
        numbers.append((philox((e // 4, 0, 0, 0), k)[e % 4] >> 8) / 2**24)
    return T(torch.tensor(numbers, dtype=torch.float64).reshape(shape), dims)


def normal(env, site, dims):
    a, b = uniform(env, (site, 0), dims), uniform(env, (site, 1), dims)
    return named.pointwise(lambda x, y: torch.sqrt(-2 * torch.log(1 - x)) * torch.cos(2 * math.pi * y), a, b)


@kind(1.2)
def noise(s):
    """A value by itself, so that the calls stand in the text in the order in which they are drawn."""
    if s.quiet:
        return None
    r, site = s.r, s.p.fresh("site")
    free = s.free()
    dims = [*r.sample(free, r.randint(0, 2)), *(["batch"] if r.random() < 0.6 else [])]
    if not dims or not s.small(dims):
        return None
    r.shuffle(dims)
    s.p.draws = True
    name, f, most = (("uniform", uniform, 1), ("normal", normal, 3))[r.randrange(2)]
    return s.assign(call(name, [s.over(dims)], dims, most, lambda env: f(env, site, dims)))


@kind(0.6)
def dropped(s):
    """Of a value whose elements have an order that is known: the batch, and one dim."""
    x = s.any(lambda e: 0 < len(e.dims) <= 1 + ("batch" in e.dims))
    if s.quiet or not x:
        return None
    site, p = s.p.fresh("site"), s.r.choice((0.1, 0.5, 0.25))
    s.p.draws = True

    def value(env):
        return named.pointwise(lambda v, u: torch.where(u >= p, v / (1 - p), torch.zeros_like(v)), x.value(env), uniform(env, site, x.dims, "dropout"))
    return s.assign(s.bounded(call("dropout", [x.text, f"p = {p}"], x.dims, x.most / (1 - p), value)))


@kind(0.4)
def scheduled(s):
    x = s.leaf()
    s.p.draws = True  # another number in an evaluation
    return E(f"{x.at(TIMES)} * min(1, (1 + step()) / 4)", TIMES, x.dims, x.most, lambda env: named.pointwise(lambda v: v / 4, x.value(env)))


