#!/usr/bin/env python3
"""Random programs of all of the language against PyTorch: random_programs.py [--seed N] [--count N] [--compiled SHARE].

Needs torch. Each program is made twice from one random tree: as a .mg file, and in float64 by torch, with the meaning
that docs/language.md gives each operator (named.py). The interpreter's loss is torch's within 1e-10, each gradient within 1e-9 of its
norm; a share of the programs is compiled too, with a random microbatch and choice of what is computed again, and its
first step has the same loss, and the same gradients in its momentum. What fails is printed whole, with its seed.

Numbers stay of the size of 1: each value has a bound, and what grows is brought back. A program whose result hangs on
rounding, by a comparison of numbers that are nearly equal, is drawn again.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from array import array

try:
    import torch
except ImportError:
    print("random programs: PyTorch is not there: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "zoo"))

import named  # noqa: E402
from named import IllConditioned, T  # noqa: E402
from zoo import GRADIENT, LOSS, OF_ALL, norm, read_safetensors, write_safetensors  # noqa: E402

BUILD = os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build"))
MOST = 6.0  # how large values may become, by their bounds
ELEMENTS, RANK = 500, 5
REPEATS = ("rounds", "inner", "layers")  # dims that are counted by repeats and by nothing else


class E:
    """An expression: its text and how tightly that binds, its dims, a bound of its elements, and what it is in torch."""

    def __init__(self, text, prec, dims, most, value, of=None):
        self.text, self.prec, self.dims, self.most, self.value, self.of = text, prec, tuple(dims), most, value, of

    def at(self, prec):
        return self.text if self.prec >= prec else f"({self.text})"


CALL, PRODUCT, MINUS, TIMES, PLUS, COMPARE = 5, 4, 3, 2, 1, 0


def call(name, args, dims, most, value, of=None):
    return E(f"{name}({', '.join(args)})", CALL, dims, most, value, of)


def over_text(over):
    return f"over {over[0]}" if len(over) == 1 else f"over ({', '.join(over)})"


class Env:
    """The scope of a statement: the values by name, and the path of the repeats and calls around it."""

    def __init__(self, program, path=(), around=None):
        self.program, self.path, self.around, self.values = program, path, around, {}

    def get(self, name):
        return self.values[name] if name in self.values else self.around.get(name)

    def put(self, name, v):
        self.values[name] = v


class Program:
    """The dims, inputs, statements and parameters of a program; parameters are made as they are met."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.seed, self.draw = seed, torch.Generator().manual_seed(seed)
        self.size, self.formulas, self.params, self.data, self.of = {}, {}, {}, {}, {}
        self.blocks, self.lines, self.names = [], [], 0
        self.indices = []  # E of indices that are inputs
        self.tokens = False
        self.ordered = False  # whether it matters which row of the batch is where: a program reads them in an order of its own

    def fresh(self, kind):
        self.names += 1
        return f"{kind}{self.names}"

    def elements(self, dims):
        return math.prod(self.size[d] for d in dims)

    def free(self, but=()):
        """The dims that parameters may have, without some."""
        return [d for d in self.size if d not in REPEATS and d != "batch" and d not in but]

    def parameter(self, name, shape, scale):
        if name not in self.params:
            x = scale * torch.randn(shape, generator=self.draw)
            self.params[name] = x.bfloat16().double().requires_grad_()
        return self.params[name]


class Scope:
    """Statements in the making: what they may use, and what is not used yet."""

    def __init__(self, program, depth=0, around=None, dims=None, repeated=()):
        self.p, self.r, self.depth, self.around = program, program.r, depth, around
        self.dims = dims or (around.dims if around else {})  # the name by which each dim goes here
        self.values, self.unused, self.lines, self.steps = {}, [], [], []
        self.repeated = repeated
        self.number = around.number if around else None  # of the iteration of the nearest repeat that has one
        self.indices = list(around.indices) if around else []

    # ---- what there is ----

    def all(self):
        found = dict(self.around.all()) if self.around else {}
        found.update(self.values)
        return found

    def d(self, dim):
        return self.dims.get(dim, dim)

    def over(self, over):
        return over_text([self.d(o) for o in over])

    def named(self, name, e):
        return E(name, CALL, e.dims, e.most, lambda env: env.get(name), e.of)

    def any(self, test=lambda e: True):
        """A value, an unused one if there is one, or None."""
        new = [self.named(n, self.values[n]) for n in self.unused if test(self.values[n])]
        if new and self.r.random() < 0.6:
            return self.r.choice(new)
        old = [self.named(n, e) for n, e in self.all().items() if test(e) and not e.of]
        return self.r.choice(old) if old else None

    def use(self, e):
        for n in re.findall(r"[A-Za-z_]\w*", e.text):
            if n in self.unused:
                self.unused.remove(n)

    def some(self, dims):
        """One or two dims; seldom the batch, whose sums a program cannot take apart into rounds."""
        dims = [d for d in dims if d != "batch" or len(dims) == 1 or self.r.random() < 0.2]
        return self.r.sample(dims, self.r.randint(1, min(2, len(dims))))

    def small(self, dims):
        return len(dims) <= RANK and self.p.elements(dims) <= ELEMENTS

    # ---- statements ----

    def assign(self, e, name=None):
        name = name or self.p.fresh("v")
        self.use(e)
        self.lines.append(f"{name} = {e.text}")
        self.steps.append(lambda env: env.put(name, e.value(env)))
        self.values[name] = e
        if not e.of:
            self.unused.append(name)
        return self.named(name, e)

    def bounded(self, e):
        """The same value, brought back where it could grow."""
        if e.most <= MOST:
            return e
        how = self.r.randrange(3)
        if how == 0:
            return call("tanh", [e.text], e.dims, 1, lambda env: named.pointwise(torch.tanh, e.value(env)))
        if how == 1:
            return call("sin", [e.text], e.dims, 1, lambda env: named.pointwise(torch.sin, e.value(env)))
        k = round(2 / e.most, 6) or 1e-6
        return E(f"{k!r} * {e.at(MINUS)}" if k >= 1e-4 else f"{k:.9f} * {e.at(MINUS)}", TIMES, e.dims, k * e.most,
                 lambda env: named.pointwise(lambda x: k * x, e.value(env)))

    def param(self, dims, scale=0.5):
        """Declares a parameter of these dims, in some external order."""
        r, name = self.r, self.p.fresh("w")
        dims = list(dims)
        r.shuffle(dims)
        order = dims[:]
        if r.random() < 0.3:
            r.shuffle(order)
        groups = [[d] for d in order]
        while len(groups) > 1 and r.random() < 0.25:
            k = r.randrange(len(groups) - 1)
            groups[k:k + 2] = [groups[k] + groups[k + 1]]
        line = f"{name} : param[{', '.join(map(self.d, dims))}] ~ normal({scale})"
        own = name
        if order != dims or len(groups) != len(dims) or r.random() < 0.3:
            own = f"{name}.weight"
            inner = [self.d(g[0]) if len(g) == 1 else f"({' '.join(map(self.d, g))})" for g in groups]
            line += f' as "{own}" [{", ".join(inner)}]'
        self.lines.append(line)
        size = self.p.size

        def value(env):
            t = env.program.parameter(".".join((*env.path, own)), [math.prod(size[d] for d in g) for g in groups], scale)
            return T(t.reshape([size[d] for d in order]), order)
        self.steps.append(lambda env: env.put(name, value(env)))
        e = E(name, CALL, dims, 3 * scale, lambda env: env.get(name))
        self.values[name] = e
        self.unused.append(name)
        return self.named(name, e)

    # ---- expressions ----

    def leaf(self):
        """A value, a parameter, or positions."""
        r = self.r
        e = self.any(lambda e: not e.of)
        if e and r.random() < 0.85:
            return e
        if r.random() < 0.2:
            return self.index(r.choice([*self.p.free(), "batch"]))
        return self.param(r.sample(self.p.free(), r.randint(1, 2)))

    def index(self, d):
        n = self.p.size[d]
        self.p.ordered |= d == "batch"
        return call("index", [self.d(d)], (d,), n - 1, lambda env: named.iota(d, n))

    def wrap(self, f, name, e, most):
        return call(name, [e.text], e.dims, most, lambda env: named.pointwise(f, e.value(env)))

    def unary(self):
        r, e = self.r, self.leaf()
        pick = r.randrange(16)
        simple = {0: (torch.tanh, "tanh", 1), 1: (torch.sigmoid, "sigmoid", 1), 2: (torch.sin, "sin", 1),
                  3: (torch.cos, "cos", 1), 4: (torch.erf, "erf", 1)}
        if pick in simple:
            f, name, most = simple[pick]
            return self.wrap(f, name, e, most)
        if pick == 5:
            e = e if e.most <= 1.5 else self.wrap(torch.tanh, "tanh", e, 1)
            return self.wrap(torch.exp, "exp", e, math.exp(e.most))
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
        return self.wrap(f, name, e, e.most)

    def literal(self):
        """A number: written out, a constant, or arithmetic of dims."""
        r = self.r
        if r.random() < 0.3:
            d = r.choice(list(self.p.size))
            return f"{self.d(d)} / 4", self.p.size[d] / 4, TIMES
        if r.random() < 0.2:
            return "share", 0.75, CALL
        x = r.choice((0.5, 1.5, 2, 0.25, 3, 1, 0.1))
        if r.random() < 0.2:
            return f"-{x}", -x, MINUS
        return repr(x), x, CALL

    def pair(self):
        """Two values whose dims together are not too many."""
        for _ in range(8):
            a, b = self.leaf(), self.leaf()
            if self.small(set(a.dims) | set(b.dims)):
                return a, b
        return a, a

    def binary(self):
        r = self.r
        a, b = self.pair()
        dims = [*a.dims, *(d for d in b.dims if d not in a.dims)]
        pick = r.randrange(10)
        if r.random() < 0.25:  # a number on one side
            text, x, prec = self.literal()
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
        return self.power(a, b, dims)

    def power(self, a, b, dims):
        if not a.dims or self.r.random() < 0.5:
            k = self.r.choice((2, 3, 0, 1))
            a = a if a.dims else self.leaf()
            return call("pow", [a.text, str(k)], a.dims, max(1, a.most**k), lambda env: named.pointwise(lambda x: x**k, a.value(env)))
        b = b if b.most <= 2 else self.wrap(torch.tanh, "tanh", b, 1)
        return call("pow", [f"abs({a.text}) + 0.5", b.text], dims, max(2, a.most + 0.5) ** b.most, lambda env: named.pointwise(
            lambda x, y: (x + 0.5) ** y, named.absolute(a.value(env)), b.value(env)))

    def product(self):
        r = self.r
        a = self.any(lambda e: e.dims and not e.of) or self.leaf()
        if not a.dims:
            return self.binary()
        over = self.some(a.dims)
        b = self.any(lambda e: set(over) <= set(e.dims) and self.small((set(a.dims) | set(e.dims)) - set(over)))
        if not b or r.random() < 0.5:
            free = self.p.free(a.dims)
            more = r.sample(free, min(len(free), r.randint(0, 2)))
            shared = [d for d in a.dims if d not in over and d != "batch" and r.random() < 0.2]
            if "batch" in over or not self.small((set(a.dims) - set(over)) | set(more)):
                return self.reduction()
            b = self.param([*over, *shared, *more], 0.4)
        dims = [d for d in [*a.dims, *(d for d in b.dims if d not in a.dims)] if d not in over]
        if r.random() < 0.3:
            a, b = b, a
        most = a.most * b.most * math.sqrt(self.p.elements(over))
        return E(f"{a.at(PRODUCT)} @ {b.at(CALL)} {self.over(over)}", PRODUCT, dims, most,
                 lambda env: named.product(a.value(env), b.value(env), over))

    def reduction(self):
        r = self.r
        e = self.any(lambda e: e.dims and not e.of)
        if not e:
            return self.unary()
        over = self.some(e.dims)
        left = [d for d in e.dims if d not in over]
        pick = r.randrange(4)
        if pick == 0:
            return call("sum", [e.text, self.over(over)], left, e.most * self.p.elements(over),
                        lambda env: named.total(e.value(env), over))
        if pick == 1:
            return call("mean", [e.text, self.over(over)], left, e.most, lambda env: named.mean(e.value(env), over))
        if pick == 2:
            return call("max", [e.text, self.over(over)], left, e.most, lambda env: named.largest(e.value(env), over))
        d, k = over[0], r.randrange(self.p.size[over[0]]) if over[0] != "batch" else 0  # a sample has a batch of one
        left = [x for x in e.dims if x != d]
        self.p.ordered |= d == "batch"
        if r.random() < 0.3:
            return call("last", [e.text, f"along {self.d(d)}"], left, e.most, lambda env: named.pick(e.value(env), d, self.p.size[d] - 1))
        return call("pick", [e.text, f"along {self.d(d)}", f"at = {k}"], left, e.most, lambda env: named.pick(e.value(env), d, k))

    def condition(self):
        r = self.r
        sign, f = r.choice((("<", torch.lt), ("<=", torch.le), (">", torch.gt), (">=", torch.ge), ("==", torch.eq), ("!=", torch.ne)))
        pick = r.randrange(4)
        if pick == 0 and self.indices:
            i = r.choice(self.indices)
            if self.small((i.of, *i.dims)):
                a = self.index(i.of)
                return E(f"{a.text} {sign} {i.text}", COMPARE, [i.of, *i.dims], 1,
                         lambda env: named.compare(f, a.value(env), T(i.value(env).t, i.dims)))
        if pick == 1:
            a, b = (self.index(r.choice([*self.p.free(), "batch"])) for _ in range(2))
        else:
            a, b = self.pair()
        if pick == 2:
            x = r.choice((0, 0.25, -0.5))
            b = E(f"{x}", CALL if x >= 0 else MINUS, (), abs(x), lambda env: named.number(x))
        if not a.dims:
            a = self.index(r.choice(self.p.free()))
        return E(f"{a.at(PLUS)} {sign} {b.at(PLUS)}", COMPARE, [*a.dims, *(d for d in b.dims if d not in a.dims)], 1,
                 lambda env: named.compare(f, a.value(env), b.value(env)))

    def kinds(self):
        """One thing in some iterations and another in the others."""
        n = self.number
        text, holds = self.r.choice(((f"{n} % 2 == 0", lambda i: i % 2 == 0), (f"{n} < 1", lambda i: i < 1),
                                     (f"({n} + 1) % 3 != 0", lambda i: (i + 1) % 3 != 0), (f"2 * {n} >= 3", lambda i: 2 * i >= 3)))
        a = self.expression()
        b = self.fitted(self.expression(), a.dims)
        return call("select", [text, a.text, b.text], a.dims, max(a.most, b.most),
                    lambda env: (a if holds(env.get(n)) else b).value(env))

    def selection(self):
        if self.number and self.r.random() < 0.6:
            return self.kinds()
        c = self.condition()
        a, b = self.pair()
        if self.r.random() < 0.3:
            text, x, prec = self.literal()
            b = E(text, prec, (), abs(x), lambda env: named.number(x))
            a, b = (a, b) if self.r.random() < 0.5 else (b, a)
        dims = list(dict.fromkeys((*c.dims, *a.dims, *b.dims)))
        if not self.small(dims):
            return self.unary()
        return call("select", [c.text, a.text, b.text], dims, max(a.most, b.most),
                    lambda env: named.select(c.value(env), a.value(env), b.value(env)))

    def renamed(self):
        e = self.any(lambda e: e.dims and not e.of)
        if not e:
            return self.unary()
        size, names = self.p.size, {}
        for d in e.dims:
            to = [x for x in self.p.free(e.dims) if size[x] == size[d] and x not in names.values()]
            if to and d != "batch" and (not names or self.r.random() < 0.3):
                names[d] = self.r.choice(to)
        if not names:
            return self.unary()
        inner = ", ".join(f"{self.d(a)} -> {self.d(b)}" for a, b in names.items())
        return E(f"{e.at(CALL)}[{inner}]", CALL, [names.get(d, d) for d in e.dims], e.most,
                 lambda env: named.rename(e.value(env), names))

    def parted(self):
        """A range, elements at sums of indices, a dim split or two merged, or a join."""
        r, size = self.r, self.p.size
        e = self.any(lambda e: not e.of and [d for d in e.dims if d != "batch"])
        if not e:
            return self.unary()
        mine = [d for d in e.dims if d != "batch"]
        d, other = r.choice(mine), self.p.free(e.dims)
        kind = r.randrange(5)
        if kind == 0:
            to = [x for x in other if size[x] <= size[d]]
            if to:
                t = r.choice(to)
                at = r.randint(0, size[d] - size[t])
                part = f"{at} .. {at + size[t]} -> {self.d(t)}" if at or r.random() < 0.5 else f"0 .. {self.d(t)}"
                return E(f"{e.at(CALL)}[{self.d(d)} = {part}]", CALL, [t if x == d else x for x in e.dims], e.most,
                         lambda env: named.cut(e.value(env), d, at, size[t], t))
        if kind == 1:
            pairs = [(a, b) for a in other for b in other if a != b and size[a] * size[b] == size[d]]
            if pairs and len(e.dims) < RANK:
                a, b = r.choice(pairs)
                return E(f"{e.at(CALL)}[{self.d(d)} -> ({self.d(a)}, {self.d(b)})]", CALL,
                         [y for x in e.dims for y in ((a, b) if x == d else (x,))], e.most,
                         lambda env: named.split(e.value(env), d, {a: size[a], b: size[b]}))
            merged = [(a, b, t) for a in mine for b in mine for t in other if a != b and size[a] * size[b] == size[t]]
            if merged:
                a, b, t = r.choice(merged)
                return E(f"{e.at(CALL)}[({self.d(a)}, {self.d(b)}) -> {self.d(t)}]", CALL,
                         [t if x == a else x for x in e.dims if x != b], e.most, lambda env: named.merge(e.value(env), [a, b], t))
        if kind == 2:
            sums = [(b, t) for b in other for t in other if b != t and size[d] + size[b] == size[t]]
            if sums:
                b, t = r.choice(sums)
                w = self.param([b, *[x for x in mine if x != d and r.random() < 0.7]])
                return call("join", [e.text, w.text, f"({self.d(d)}, {self.d(b)}) -> {self.d(t)}"],
                            [*(t if x == d else x for x in e.dims), *(x for x in w.dims if x != b and x not in e.dims)],
                            max(e.most, w.most), lambda env: named.join(e.value(env), d, w.value(env), b, t))
        first = d if r.random() < 0.5 or not other else r.choice(other)
        terms = {first: r.choice((1, 1, 2, 3, -1))}
        more = [x for x in self.p.free([first]) if x != d]
        if more and r.random() < 0.6:
            terms[r.choice(more)] = r.choice((1, -1, 2))
        dims = [y for x in e.dims for y in ([z for z in terms if z == d or z not in e.dims] if x == d else [x])]
        if not self.small(dims):
            return self.unary()
        at = r.randint(-2, 3)
        text = " + ".join(f"{f} * {self.d(x)}" for x, f in terms.items()).replace("+ -", "- ")
        known = {x: (f, size[x]) for x, f in terms.items()}
        return E(f"{e.at(CALL)}[{self.d(d)} = {text} + {at}]".replace("+ -", "- "), CALL, dims, e.most,
                 lambda env: named.counted(e.value(env), d, known, at))

    def lookup(self):
        if not self.indices:
            return self.unary()
        i = self.r.choice(self.indices)
        ok = self.p.free([*i.dims, i.of])
        table = self.any(lambda e: i.of in e.dims and not set(e.dims) & set(i.dims) and self.small([*e.dims, *i.dims]))
        if not table or self.r.random() < 0.5:
            more = self.r.sample(ok, self.r.randint(0, min(2, len(ok))))
            if not self.small([*i.dims, *more]):
                return self.unary()
            table = self.param([i.of, *more])
        dims = [*i.dims, *(d for d in table.dims if d != i.of)]
        return E(f"{table.at(CALL)}[{i.text}]", CALL, dims, table.most, lambda env: named.gather(table.value(env), i.value(env)))

    def even(self, e):
        return [d for d in e.dims if self.p.size[d] % 2 == 0 and d != "batch"]

    def turned(self):
        e = self.any(lambda e: self.even(e))
        if not e:
            return self.unary()
        d = self.r.choice(self.even(e))
        others = [x for x in e.dims if x != d and x != "batch"]
        if not others or self.r.random() < 0.4:
            return call("rotate", [e.text, f"over {self.d(d)}"], e.dims, e.most, lambda env: named.rotate(e.value(env), d))
        pos = self.r.choice(others)
        n = self.p.size[pos]
        if self.r.random() < 0.3:
            k = {"theta": 100, "factor": 4, "low": 1, "high": 4, "original": 16}
            return call("rope_llama3", [e.text, f"along {self.d(pos)}", f"over {self.d(d)}", *(f"{a} = {x}" for a, x in k.items())],
                        e.dims, 2 * e.most, lambda env: named.rope_llama3(e.value(env), pos, d, n, **k))
        theta = self.r.choice((10000, 50))
        more = [f"theta = {theta}"] if theta != 10000 else []
        return call("rope", [e.text, f"along {self.d(pos)}", f"over {self.d(d)}", *more], e.dims, 2 * e.most,
                    lambda env: named.rope(e.value(env), pos, d, n, theta))

    def normed(self):
        e = self.any(lambda e: e.dims and not e.of and self.p.elements(e.dims) > 2)
        if not e:
            return self.unary()
        r = self.r
        over = self.some(e.dims)
        if self.p.elements(over) < 2:
            return self.unary()
        pick = r.randrange(3)
        if pick == 0:
            return call("softmax", [e.text, self.over(over)], e.dims, 1, lambda env: named.softmax(e.value(env), over))
        of = [d for d in over if d != "batch"]
        gain = self.param(of) if of and r.random() < 0.6 else E("1", CALL, (), 1, lambda env: named.number(1))
        bias = self.param(of) if of and r.random() < 0.4 else E("0", CALL, (), 0, lambda env: named.number(0))
        eps = r.choice(("1e-1", "1e-2"))
        most = math.sqrt(self.p.elements(over)) * gain.most
        if pick == 1:
            return call("rmsnorm", [e.text, gain.text, self.over(over), f"eps = {eps}"], e.dims, most,
                        lambda env: named.rmsnorm(e.value(env), gain.value(env), over, float(eps)))
        return call("layernorm", [e.text, gain.text, bias.text, self.over(over), f"eps = {eps}"], e.dims, most + bias.most,
                    lambda env: named.layernorm(e.value(env), gain.value(env), bias.value(env), over, float(eps)))

    def attended(self):
        r = self.r
        e = self.any(lambda e: len(e.dims) >= 2 and not e.of and [d for d in e.dims if d != "batch"])
        if not e:
            return self.unary()
        free = [d for d in e.dims if d != "batch"]
        pos = r.choice(free)
        d = r.choice(self.p.free([pos]))
        groups = self.p.free([*e.dims, d])
        group = r.sample(groups, min(len(groups), r.randint(0, 1)))
        share = r.sample([g for g in groups if g not in group], min(1, len(groups) - len(group))) if r.random() < 0.4 else []
        over = [x for x in e.dims if x not in (pos, "batch", d)]
        over = [x for x in over if r.random() < 0.7]
        if len(over) + len(group) + len(share) > 3:
            return self.unary()

        def projected(more):
            if not over and d in e.dims and not more:
                return e
            w = self.param([*over, *more, *([d] if d not in e.dims else [])], 0.4)
            if not over:
                return E(f"{e.at(TIMES)} * {w.at(MINUS)}", TIMES, [*e.dims, *(x for x in w.dims if x not in e.dims)], e.most * w.most,
                         lambda env: named.pointwise(torch.mul, e.value(env), w.value(env)))
            dims = [x for x in [*e.dims, *(y for y in w.dims if y not in e.dims)] if x not in over]
            return E(f"{e.at(PRODUCT)} @ {w.at(CALL)} {self.over(over)}", PRODUCT, dims, e.most * w.most * 2,
                     lambda env: named.product(e.value(env), w.value(env), over))
        q, k, v = projected([*group, *share]), projected(share), projected(share)
        if not self.small(q.dims) or self.p.elements(q.dims) * self.p.size[pos] > 4 * ELEMENTS:
            return self.unary()
        causal, scale = r.random() < 0.6, 0.5 if r.random() < 0.3 else None
        others = [x for x in self.p.free([*q.dims, d])] if r.random() < 0.4 else []
        key = r.choice(others) if others else None  # keys are of another sequence
        bias = sink = None
        if key:
            causal = False
            fold = self.param([pos, key], 0.4)

            def folded(x):
                dims = [*(y for y in x.dims if y != pos), key]
                return E(f"({x.at(PRODUCT)} @ {fold.at(CALL)} {self.over([pos])})", CALL, dims, x.most * 2,
                         lambda env: named.product(x.value(env), fold.value(env), [pos]))
            k, v = folded(k), folded(v)
            if r.random() < 0.5:
                scored = [x for x in [*q.dims, key] if x not in (d, "batch")]
                bias = self.param(r.sample(scored, min(len(scored), r.randint(1, 2))), 0.4)
        if r.random() < 0.3:
            shared = [x for x in q.dims if x not in (d, "batch")]
            sink = self.param(r.sample(shared, min(len(shared), r.randint(1, 2))), 0.4)
        args = [q.text, k.text, v.text, f"along {self.d(pos)}"] + ([f"along {self.d(key)}"] if key else [])
        args += [f"over {self.d(d)}"] + (["scale = 0.5"] if scale else []) + (["causal"] if causal else [])
        args += ([f"bias = {bias.text}"] if bias else []) + ([f"sink = {sink.text}"] if sink else [])
        n = self.p.size[pos]
        return call("attention", args, q.dims, v.most,
                    lambda env: named.attention(q.value(env), k.value(env), v.value(env), pos, d, n, causal, scale, key,
                                                bias and bias.value(env), sink and sink.value(env)))

    def routed(self):
        """Experts: scores, a choice, and what the experts make of what they are sent."""
        p, r = self.p, self.r
        if "experts" not in p.size:
            return self.unary()
        x = self.any(lambda e: set(e.dims) >= {"batch", "seq", "hidden"} and len(e.dims) == 3)
        if not x:
            return self.unary()
        gate = self.param(["hidden", "choice"])
        score = self.assign(call("softmax", [f"{x.at(PRODUCT)} @ {gate.text} over {self.d('hidden')}", f"over {self.d('choice')}"],
                                 ["batch", "seq", "choice"], 1, lambda env: named.softmax(named.product(x.value(env), gate.value(env), ["hidden"]), ["choice"])))
        best, slot, experts = p.size["best"], p.size["slot"], p.size["experts"]
        chosen = self.assign(call("top", [score.text, f"{self.d('choice')} -> {self.d('best')}"], ["batch", "seq", "best"], 1,
                                  lambda env: named.top(score.value(env), "choice", "best", best), of="choice"))
        share = self.assign(call("scores_of", [score.text, chosen.text], ["batch", "seq", "best"], 1,
                                 lambda env: named.scores_of(score.value(env), chosen.value(env))))
        if r.random() < 0.5:
            self.assign(call("imbalance", [score.text, chosen.text, f"along {self.d('seq')}", f"over {self.d('best')}"], ["batch"], experts,
                             lambda env: named.imbalance(score.value(env), chosen.value(env), "seq", "best")))

        def where(env):
            return named.places(chosen.value(env), "seq", "best", experts, slot)
        w = self.param(["experts", "hidden", "ffn"], 0.4)
        v = self.param(["experts", "ffn", "hidden"], 0.4)
        y = call("dispatch", [x.text, chosen.text, f"{self.d('seq')} -> ({self.d('experts')}, {self.d('slot')})"],
                 ["batch", "experts", "slot", "hidden"], x.most,
                 lambda env: named.dispatch(x.value(env), where(env), "seq", "best", "experts", "slot"))
        z = self.assign(E(f"{y.text} @ {w.text} over {self.d('hidden')}", PRODUCT, ["batch", "experts", "slot", "ffn"], 2,
                          lambda env: named.product(y.value(env), w.value(env), ["hidden"])))
        o = E(f"tanh({z.text}) @ {v.text} over {self.d('ffn')}", PRODUCT, ["batch", "experts", "slot", "hidden"], 3,
              lambda env: named.product(T(torch.tanh(z.value(env).t), z.dims), v.value(env), ["ffn"]))
        pick = r.randrange(3)
        weight = [] if pick == 0 else [share.text] if pick == 1 else [f"{share.text} / sum({share.text}, over {self.d('best')})"]

        def weights(env):
            s = share.value(env)
            return None if pick == 0 else s if pick == 1 else T(s.t / s.t.sum(s.dims.index("best"), keepdim=True), s.dims)
        return call("combine", [o.text, chosen.text, *weight, f"({self.d('experts')}, {self.d('slot')}) -> {self.d('seq')}"],
                    ["batch", "seq", "hidden"], 3 * best,
                    lambda env: named.combine(o.value(env), where(env), weights(env), "best", "experts", "slot"))

    KINDS = ((unary, 4), (binary, 6), (product, 5), (reduction, 3), (selection, 3), (renamed, 2), (parted, 3), (lookup, 2), (turned, 2),
             (normed, 3), (attended, 2), (routed, 1))

    def expression(self):
        kinds, weights = zip(*self.KINDS)
        e = self.r.choices(kinds, weights)[0](self)
        return self.bounded(e)

    # ---- to some dims ----

    def fitted(self, e, dims, scale=0.4):
        """The value with just these dims."""
        r = self.r
        extra = [d for d in e.dims if d not in dims]
        missing = [d for d in dims if d not in e.dims]
        few = len(extra) + len(missing) + len(self.repeated) <= 8
        if few and extra and missing and "batch" not in (*extra, *missing) and r.random() < 0.7:
            w = self.param([*extra, *missing], scale)
            e = E(f"{e.at(PRODUCT)} @ {w.text} {self.over(extra)}", PRODUCT, [*(d for d in e.dims if d in dims), *missing],
                  2 * e.most * w.most, lambda env, e=e: named.product(e.value(env), w.value(env), extra))
            return self.bounded(e)
        if extra:
            kind, f = r.choice((("mean", named.mean), ("max", named.largest)))
            e = call(kind, [e.text, self.over(extra)], [d for d in e.dims if d in dims], e.most, lambda env, e=e: f(e.value(env), extra))
        own = [d for d in missing if d != "batch"]
        if own:
            w = self.param(own, scale)
            e = E(f"{e.at(TIMES)} * {w.text}", TIMES, [*e.dims, *w.dims], e.most * w.most, lambda env, e=e: named.pointwise(torch.mul, e.value(env), w.value(env)))
        if "batch" in missing:
            b = self.any(lambda e: "batch" in e.dims and set(e.dims) <= set(dims))
            b = b or self.index("batch")
            e = E(f"{e.at(PLUS)} + {b.at(TIMES)}", PLUS, [*e.dims, *(d for d in b.dims if d not in e.dims)], e.most + b.most,
                  lambda env, e=e: named.pointwise(torch.add, e.value(env), b.value(env)))
        return self.bounded(e)

    # ---- repeats and blocks ----

    def repeat(self):
        p, r = self.p, self.r
        dims = [d for d in REPEATS if d not in self.repeated]
        carried = [self.any(lambda e: e.dims and not e.of and self.small(e.dims))
                   for _ in range(r.randint(1, 2))]
        carried = list({c.text: c for c in carried if c}.values())
        if not dims or not carried:
            return
        dim = r.choice(dims)
        for i, c in enumerate(carried):  # what a repeat changes is assigned before it
            if c.text not in self.values or c.text.startswith("w") or r.random() < 0.3:
                carried[i] = self.assign(E(f"{c.at(TIMES)} * 0.5", TIMES, c.dims, c.most,
                                           lambda env, c=c: named.pointwise(lambda x: 0.5 * x, c.value(env))))
        extra = self.assign(E("0", CALL, (), 0, lambda env: named.number(0))) if r.random() < 0.3 else None
        label = p.fresh("r")
        body = Scope(p, self.depth + 1, self, repeated=(*self.repeated, dim))
        number = p.fresh("n") if r.random() < 0.4 else None
        body.number = number or body.number
        for c in carried:
            self.use(c)
        for _ in range(r.randint(1, 3)):
            body.step()
        if number:
            body.assign(body.kinds())
        for c in carried:
            e = body.fitted(body.expression(), c.dims)
            if r.random() < 0.5:
                e = E(f"{c.text} + 0.5 * {e.at(MINUS)}", PLUS, [*c.dims], c.most + e.most,
                      lambda env, c=c, e=e: named.pointwise(lambda x, y: x + 0.5 * y, env.get(c.text), e.value(env)))
            if e.most * p.size[dim] > MOST or r.random() < 0.3:
                e = body.wrap(torch.tanh, "tanh", e, 1)
            body.assign(e, c.text)
            body.unused = [n for n in body.unused if n != c.text]
        if extra:
            e = body.any(lambda e: not e.of) or carried[0]
            s = E(f"{extra.text} + mean({e.text} * {e.at(MINUS)})" if e.prec >= TIMES else f"{extra.text} + mean({e.text})", PLUS, (), e.most**2,
                  lambda env, e=e: named.pointwise(torch.add, env.get(extra.text), named.mean(named.pointwise(lambda x: x * x, e.value(env)))))
            body.assign(s, extra.text)
            body.unused = [n for n in body.unused if n != extra.text]
        c = carried[0]
        for n in list(body.unused):  # nothing is for nothing
            e = body.fitted(body.named(n, body.values[n]), c.dims)
            body.assign(E(f"{c.text} + 0.1 * {e.at(MINUS)}", PLUS, c.dims, c.most + e.most,
                          lambda env, e=e: named.pointwise(lambda x, y: x + 0.1 * y, env.get(c.text), e.value(env))), c.text)
            body.unused = [m for m in body.unused if m != c.text]
        self.lines += [f'repeat {dim}{f" at {number}" if number else ""} as "{label}.{{}}" {{', *("    " + line for line in body.lines), "}"]
        kept = [c.text for c in carried] + ([extra.text] if extra else [])
        steps, size = body.steps, p.size[dim]

        def run(env):
            for i in range(size):
                inner = Env(p, (*env.path, label, str(i)), env)
                inner.put(number, i)
                for s in steps:
                    s(inner)
                for n in kept:
                    env.put(n, inner.get(n))
        self.steps.append(run)
        for n in kept:
            self.values[n] = E(n, CALL, self.values[n].dims, 3 * MOST if n == (extra and extra.text) else MOST, None)
            if n not in self.unused:
                self.unused.append(n)

    def block(self):
        """A block of its own, called once or twice; its body names some dims by its parameters."""
        p, r = self.p, self.r
        if self.dims:
            return
        x = self.any(lambda e: len(e.dims) >= 2 and not e.of)
        if not x:
            return
        given = {}
        for d in x.dims:
            if r.random() < 0.5 and d != "batch" and d not in given.values():
                given[d] = p.fresh(r.choice("pd"))
        name, k = p.fresh("f"), r.choice((0.5, 2, 1.5))
        y = self.any(lambda e: not e.of and self.small(set(x.dims) | set(e.dims))) or x
        formal = [p.fresh("x"), p.fresh("x")]
        body = Scope(p, self.depth + 1, None, dims=given or {"": ""}, repeated=self.repeated)
        for n, e in zip(formal, (x, y), strict=True):
            body.values[n] = E(n, CALL, e.dims, e.most, None)
            body.unused.append(n)
        factor, flag = p.fresh("k"), p.fresh("s")
        for _ in range(r.randint(1, 3)):
            body.step(blocks=False)
        e = body.bounded(body.binary())
        flagged = r.random() < 0.5
        result = E(f"{factor} * {e.at(MINUS)}", TIMES, e.dims, 2 * e.most, lambda env: named.pointwise(lambda v: env.get(factor) * v, e.value(env)))
        if r.random() < 0.5:
            plain = result
            result = call("select", [flag, f"tanh({plain.text})", plain.text], plain.dims, plain.most, lambda env: named.pointwise(
                torch.tanh, plain.value(env)) if env.get(flag) else plain.value(env))
        body.use(result)
        for n in list(body.unused):
            w, z = result, body.fitted(body.named(n, body.values[n]), result.dims)
            result = E(f"{w.at(PLUS)} + 0.1 * {z.at(MINUS)}", PLUS, w.dims, w.most + z.most,
                       lambda env, w=w, z=z: named.pointwise(lambda a, b: a + 0.1 * b, w.value(env), z.value(env)))
        result = body.bounded(result)
        heads = [f"{'along' if v.startswith('p') else 'over'} {v}" for v in given.values()]
        shape = [body.d(d) for d in x.dims if d not in given and d != "batch"]
        first = f"{formal[0]}[{', '.join(shape)}]" if shape and r.random() < 0.5 else formal[0]
        p.blocks += [f"block {name}({', '.join([first, formal[1], *heads, f'{factor} = {k}', flag])}) {{",
                     *("    " + line for line in body.lines), f"    return {result.text}", "}", ""]
        steps = body.steps
        for turn in range(r.randint(1, 2)):
            label = p.fresh("c")
            value_k = k if turn == 0 else 0.25
            args = [x.text, y.text, *(h.split()[0] + " " + d for h, d in zip(heads, given, strict=True))]
            args += ([f"{factor} = {value_k}"] if turn else []) + ([flag] if flagged else [])

            def value(env, label=label, value_k=value_k):
                inner = Env(p, (*env.path, label), None)
                for n, e in zip(formal, (x, y), strict=True):
                    inner.put(n, e.value(env))
                inner.values |= {factor: value_k, flag: flagged}
                for s in steps:
                    s(inner)
                return result.value(inner)
            self.assign(E(f'{name}({", ".join(args)}) as "{label}"', MINUS, result.dims, result.most, value))

    def local(self):
        """A block with a dim of its own: all pairs of positions."""
        p, r = self.p, self.r
        x = self.any(lambda e: len(e.dims) >= 2 and not e.of and len(e.dims) < RANK and [d for d in e.dims if d != "batch"])
        if not x or self.dims:
            return
        pos = r.choice([d for d in x.dims if d != "batch"])
        if p.elements(x.dims) * p.size[pos] > 2 * ELEMENTS:
            return
        name, n = p.fresh("f"), p.size[pos]
        over = [d for d in x.dims if d not in (pos, "batch")]
        sign, f = r.choice((("<=", torch.le), (">", torch.gt)))
        if over:
            body = f"select(index(t) {sign} index(p), x @ x[p -> t] {over_text(over)}, 0) @ tanh(x)[p -> t] over t"
        else:
            body = f"sum(select(index(t) {sign} index(p), x * x[p -> t], index(t)), over t)"
        p.blocks += [f"block {name}(x, along p) {{", "    dim t = p", f"    return {body}", "}", ""]

        def value(env):
            v = x.value(env)
            u, seen = named.rename(v, {pos: "t"}), named.compare(f, named.iota("t", n), named.iota(pos, n))
            if over:
                s = named.select(seen, named.product(v, u, over), named.number(0))
                return named.product(s, T(torch.tanh(u.t), u.dims), ["t"])
            return named.total(named.select(seen, named.pointwise(torch.mul, v, u), named.iota("t", n)), ["t"])
        dims = [*(d for d in x.dims if d not in over), *over]
        self.assign(self.bounded(call(name, [x.text, f"along {pos}"], dims, (x.most**2 + 1) * n * max(1, p.elements(over)), value)))

    def step(self, blocks=True):
        pick = self.r.random()
        if pick < 0.12 and self.depth < 3:
            self.repeat()
        elif pick < 0.2 and blocks:
            self.block()
        elif pick < 0.24 and blocks:
            self.local()
        else:
            self.assign(self.expression())


# ---- whole programs ----------------------------------------------------------------------------


def make_dims(p):
    r = p.r
    p.size |= {"batch": r.choice((2, 4)), "seq": r.choice((3, 4, 6)), "hidden": r.choice((4, 6, 8)), "vocab": r.choice((5, 7)),
               "heads": 2, "head": r.choice((2, 4)), "rounds": r.choice((1, 2, 3, 5)), "inner": 2, "layers": r.choice((2, 3))}
    if r.random() < 0.3:
        p.size["group"] = 3
    if r.random() < 0.5:
        p.size |= {"wide": p.size["hidden"], "key": p.size["seq"]}
        p.formulas |= {"wide": "hidden", "key": "seq"}
    if r.random() < 0.35:
        n, best = r.choice((2, 4)), r.choice((1, 2))
        slot = max(1, math.ceil(1.25 * best * p.size["seq"] / n)) if r.random() < 0.6 else p.size["seq"]
        p.size |= {"experts": n, "choice": n, "best": best, "slot": slot, "ffn": 4}
        p.formulas |= {"choice": "experts", "slot": "seq" if slot == p.size["seq"] else "ceil(1.25 * best * seq / experts)"}


def make_inputs(p, scope):
    """Tokens, or inputs by name; what the model's head says, and targets for a cross-entropy: (indices, weight)."""
    r, size, targets = p.r, p.size, []
    if r.random() < 0.5:
        p.tokens = True
        t = torch.randint(0, size["vocab"], (size["batch"], size["seq"] + 1), generator=p.draw)
        p.data["tokens"] = t
        ids = E("tokens", CALL, ("batch", "seq"), 1, lambda env: T(t[:, :-1], ("batch", "seq"), of="vocab"), "vocab")
        scope.indices.append(ids)
        after = E("next(tokens)", CALL, ("batch", "seq"), 1, lambda env: T(t[:, 1:], ("batch", "seq"), of="vocab"), "vocab")
        targets.append((after, None))
        if r.random() < 0.3:
            scope.indices.append(after)
        end = E("last(next(tokens), along seq)", CALL, ("batch",), 1, lambda env: T(t[:, -1], ("batch",), of="vocab"), "vocab")
        targets.append((end, None))
        return "tokens[batch, seq] : token(vocab)", targets
    texts = []
    for _ in range(r.randint(1, 3)):
        name, dims = p.fresh("in"), ["batch", *r.sample(["seq", "hidden", "heads", "head"], r.randint(0, 2))]
        x = (0.7 * torch.randn([size[d] for d in dims], generator=p.draw)).float()
        p.data[name] = x
        scope.values[name] = E(name, CALL, dims, 2.5, None)
        scope.unused.append(name)
        texts.append(f"{name}[{', '.join(dims)}]")
    for _ in range(r.randint(1, 2)):
        name, of = p.fresh("id"), r.choice(("vocab", "hidden"))
        dims = ["batch", *r.sample(["seq", "heads"], r.randint(0, 1))]
        x = torch.randint(0, size[of], [size[d] for d in dims], generator=p.draw)
        p.data[name] = x
        e = E(name, CALL, dims, 1, lambda env, x=x, dims=dims, of=of: T(x, dims, of=of), of)
        scope.indices.append(e)
        weight = None
        if r.random() < 0.3:
            w = torch.rand([size[d] for d in dims], generator=p.draw)
            p.data[name + "_weight"] = w
            texts.append(f"{name}_weight[{', '.join(dims)}]")
            weight = E(name + "_weight", CALL, dims, 1, lambda env, w=w, dims=dims: T(w.double(), dims))
        targets.append((e, weight))
        texts.append(f"{name}[{', '.join(dims)}] : token({of})")
    return ", ".join(texts), targets


def cross_entropies(scope, targets):
    r, terms = scope.r, []
    for target, weight in targets:
        if r.random() < 0.7 or weight:
            dims = [*target.dims, target.of]
            if weight is None and scope.p.size[target.of] < 8 and r.random() < 0.1:
                dims.append(r.choice([d for d in ("heads", "head") if d not in dims]))
            logits = scope.fitted(scope.expression(), dims)
            scope.use(logits)
            terms.append(call("cross_entropy", [logits.text, target.text, *([weight.text] if weight else [])], (), 3,
                              lambda env, z=logits, t=target, w=weight: named.cross_entropy(z.value(env), t.value(env), w and w.value(env))))
    return terms


def make(seed):
    """A program: its text, and its loss in torch."""
    p = Program(seed)
    make_dims(p)
    main = Scope(p)
    inputs, targets = make_inputs(p, main)
    tied = main.param(["vocab", "hidden"])
    if main.indices and main.indices[0].of == "vocab" and not {"vocab", "hidden"} & set(main.indices[0].dims):
        i = main.indices[0]
        main.assign(E(f"{tied.text}[{i.text}]", CALL, [*i.dims, "hidden"], tied.most, lambda env: named.gather(tied.value(env), i.value(env))))
    for _ in range(p.r.randint(2, 8)):
        main.step()
    terms = cross_entropies(main, targets)
    for n in list(main.unused):
        e = main.named(n, main.values[n])
        k = p.r.choice((0.1, 0.5, 1))
        square = p.r.random() < 0.5
        text = f"{k} * mean({e.text} * {e.text})" if square else f"{k} * mean({e.text})"
        if not e.dims:
            text = f"{k} * {e.text} * {e.text}" if square else f"{k} * {e.text}"
        terms.append(E(text, TIMES, (), 1, lambda env, e=e, k=k, square=square: named.pointwise(
            lambda x: k * x, named.mean(named.pointwise(torch.square, e.value(env)) if square else e.value(env)))))
    terms.append(E("2", CALL, (), 2, lambda env: named.number(2)))
    main.lines.append("loss = " + " + ".join(t.at(TIMES) for t in terms))
    text = program_text(p, main, inputs)

    def loss():
        env = Env(p)
        for n, x in p.data.items():
            env.put(n, T(x.double(), main.values[n].dims) if n in main.values else None)
        for s in main.steps:
            s(env)
        return sum(t.value(env).t for t in terms)
    return p, text, loss


def program_text(p, main, inputs):
    dims = ", ".join(f"{d} = {p.formulas.get(d, n)}" for d, n in p.size.items())
    return "\n".join([
        f"# seed {p.seed}", f"dim {dims}", "const share = 3 / heads / 2", "", *p.blocks, f"model random({inputs}) {{", *("    " + line for line in main.lines), "}", "",
        "train {", "    optimizer sgd(momentum = 0.9)", "    lr        0.1", "    precision f64", "}", "",
        "layout {", "    device     cpu", f"    microbatch {p.size['batch']}", "}", ""])


# ---- the comparison ----------------------------------------------------------------------------

CODES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8"}


def raw(t, dtype):
    t = t.detach().to(dtype).contiguous()
    return CODES[dtype], list(t.shape), bytes(t.flatten().view(torch.uint8).tolist()) if t.numel() else b""


def draw(seed):
    """(program, text, loss, gradients), or None where rounding decides."""
    p, text, loss = make(seed)
    try:
        value = loss()
        if not value.requires_grad:
            return None
        value.backward()
    except IllConditioned:
        return None
    grads = {n: t.grad if t.grad is not None else torch.zeros_like(t) for n, t in p.params.items()}
    size = math.sqrt(sum(float((g**2).sum()) for g in grads.values()))
    if not 1e-2 < abs(float(value)) < 20 or not 1e-3 < size < 1e3:  # what is left of large numbers is rounding
        return None
    return p, text, float(value), grads, size


def errors(text):
    """A compiler's messages without its warnings."""
    parts = re.split(r"^(?=\S+:\d+:\d+: |\w[\w-]*: )", text, flags=re.M)
    return "".join(t for t in parts if "warning[" not in t)[-3000:]


class Check:
    def __init__(self, folder):
        self.folder, self.whole = folder, 0

    def run(self, *argv):
        return subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, check=False)

    def path(self, name):
        return os.path.join(self.folder, name)

    def files(self, drawn):
        p, text, value, grads, _ = drawn
        with open(self.path("m.mg"), "w", encoding="utf-8") as f:
            f.write(text)
        data = {n: raw(x, x.dtype if x.is_floating_point() else torch.uint8) for n, x in p.data.items()}
        if p.tokens and "next(" not in text:  # then a window has no token more
            data["tokens"] = raw(p.data["tokens"][:, :-1], torch.uint8)
        weights = {n: raw(t, torch.bfloat16) for n, t in p.params.items()}
        write_safetensors(self.path("start.safetensors"), weights)
        write_safetensors(self.path("golden.safetensors"), {"grad." + n: raw(g, torch.float64) for n, g in grads.items()} | {
            "weight." + n: t for n, t in weights.items()} | data)
        with open(self.path("golden.json"), "w", encoding="utf-8") as f:
            json.dump({"loss": value}, f)

    def interpret(self):
        r = self.run(os.path.join(BUILD, "bin/parity-interpret"), "m.mg", "golden.safetensors", "golden.json")
        return "" if r.returncode == 0 else f"interpreter, exit code {r.returncode}\n{r.stdout[-3000:]}{errors(r.stderr)}"

    def compiled(self, drawn):
        """The fault of a step of the compiled program, or nothing."""
        p, _, value, grads, size = drawn
        r = random.Random(p.seed)
        how = [f"--recompute={r.choice(('auto', 'none', 'all'))}"]
        rounds = [f"--microbatch={r.choice((1, 2, 4))}"]
        done = self.run(os.path.join(BUILD, "mgc"), "m.mg", *how, *rounds, "-o", "m")
        if done.returncode == 1 and "MG0522" in done.stderr:  # it needs the whole batch at once
            self.whole += 1
            rounds = []
            done = self.run(os.path.join(BUILD, "mgc"), "m.mg", *how, "-o", "m")
        how += rounds
        if done.returncode:
            return f"{how}: mgc, exit code {done.returncode}\n{errors(done.stderr)}"
        source = ["--data", "golden.safetensors"]
        if p.tokens:
            for i, row in enumerate(p.data["tokens"].tolist()):
                with open(self.path(f"{i:02d}.window"), "wb") as f:
                    f.write(bytes(row))
            source = ["--data", "u8:??.window"]
        done = self.run("./m", "--init", "start.safetensors", *source, "--steps", "1", "--threads", "1", "--out", "run")
        if done.returncode:
            return f"{how}: the program, exit code {done.returncode}\n{done.stderr[-3000:]}"
        with open(self.path("run/metrics.jsonl"), encoding="utf-8") as f:
            loss = next(m["loss"] for m in map(json.loads, f) if "loss" in m)
        wrong = [f"loss {loss!r}, torch {value!r}"] if not abs(loss - value) <= LOSS * abs(value) else []
        state = read_safetensors(self.path("run/ckpt/step-00000001/optimizer.safetensors"))
        for n, g in grads.items():
            want = g.flatten().tolist()
            off = norm(a - b for a, b in zip(array("d", state["momentum." + n][2]), want, strict=True))
            if not off <= GRADIENT * norm(want) + OF_ALL * size:
                wrong.append(f"gradient of {n}: off by {off:.3e} of {norm(want):.3e}")
        return f"{how}: " + "\n".join(wrong) if wrong else ""

    def clean(self):
        for name in os.listdir(self.folder):
            path = self.path(name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def main():
    parser = argparse.ArgumentParser()
    turn = int(os.environ.get("MGC_TURN", "0"))  # of the commit: scripts/test
    parser.add_argument("--seed", type=int, default=1 + 10000 * turn, help="of the first program; the next have those that follow")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--compiled", type=float, default=0.1, help="the share that is compiled, too")
    parser.add_argument("--print", action="store_true", help="print the programs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    seed, agree, again, compiled, failed = args.seed, 0, 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="mgc-random-") as folder:
        check = Check(folder)
        while agree + failed < args.count:
            drawn = draw(seed)
            seed += 1
            if not drawn:
                again += 1
                continue
            if args.print:
                print(drawn[1], flush=True)
            check.clean()
            check.files(drawn)
            wrong = check.interpret()
            if not wrong and not drawn[0].ordered and random.Random(seed).random() < args.compiled:
                wrong = check.compiled(drawn)
                compiled += 1
            if wrong:
                failed += 1
                print(f"{drawn[1]}\nseed {seed - 1}: {wrong}\n", flush=True)
            else:
                agree += 1
    print(f"random programs, seeds {args.seed} to {seed - 1}: {agree} agree with torch, {failed} do not; {compiled} were compiled and "
          f"run too ({check.whole} need the whole batch at once); {again} hang on rounding and were drawn again")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
