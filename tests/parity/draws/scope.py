"""What a random program is made of: expressions that are text and torch at once, and the scopes that they are drawn in.

An expression (E) has a text, dims, a bound of its elements, and a function that gives its value in an environment (Env). A scope
(Scope) is a body in the making: the model's, a block's, a repeat's, a scan's. Modules beside this one draw: `@kind(weight)` gives
Scope.expression another kind of expression, `@statement(weight)` gives Scope.step another statement. Each is called with the scope,
and gives None (an expression) or False (a statement) where the scope has nothing for it.

A body of a scan reads what is outside at the current index, so what it sees lacks the scan's dim; parameters and instances are
declared in the nearest scope that no scan is around, its home.
"""

import math
import random
import re

import named
import torch
from named import T

MOST = 6.0  # how large values may become, by their bounds
ELEMENTS, RANK = 500, 5
REPEATS = ("rounds", "inner", "layers")  # dims that are counted by repeats and by nothing else
EXTRA = 6  # dims that are made for one expression
CALL, PRODUCT, MINUS, TIMES, PLUS, COMPARE = 5, 4, 3, 2, 1, 0

KINDS, STATEMENTS = [], []


def kind(weight):
    def registered(f):
        KINDS.append((f, weight))
        return f
    return registered


def statement(weight):
    def registered(f):
        STATEMENTS.append((f, weight))
        return f
    return registered


class E:
    """An expression: its text and how tightly that binds, its dims, a bound of its elements, and what it is in torch."""

    def __init__(self, text, prec, dims, most, value, of=None):
        self.text, self.prec, self.dims, self.most, self.value, self.of = text, prec, tuple(dims), most, value, of

    def at(self, prec):
        return self.text if self.prec >= prec else f"({self.text})"


def call(name, args, dims, most, value, of=None):
    return E(f"{name}({', '.join(args)})", CALL, dims, most, value, of)


def pointwise(text, prec, f, *es, most):
    """The expression of this text, whose elements f makes of those of es."""
    return E(text, prec, dict.fromkeys(d for e in es for d in e.dims), most, lambda env: named.pointwise(f, *(e.value(env) for e in es)))


def over_text(over):
    return f"over {over[0]}" if len(over) == 1 else f"over ({', '.join(over)})"


class Env:
    """The values of a scope by name, and where it is.

    path: of external names; place: of the keys of noise; loops: (index, size) of those around, the outer first; scanned: the index of
    each dim that a scan around goes along; dim: that of this scope's own scan; follower: whether parameters are a follower's.
    """

    def __init__(self, program, path=(), place=(), around=None, loops=(), scanned=None, dim=None, follower=False):
        self.program, self.path, self.place, self.around, self.values = program, path, place, around, {}
        self.loops, self.scanned, self.dim, self.follower = loops, scanned or {}, dim, follower

    def get(self, name):
        if name in self.values:
            return self.values[name]
        v = self.around.get(name)
        return named.pick(v, self.dim, self.scanned[self.dim]) if isinstance(v, T) and self.dim in v.dims else v

    def put(self, name, v):
        self.values[name] = v

    def here(self, v):
        """An input, at the indices of the scans around."""
        for d, i in self.scanned.items():
            v = named.pick(v, d, i) if d in v.dims else v
        return v

    def repeated(self, label, dim, i, size):
        return Env(self.program, (*self.path, label, str(i)), (*self.place, dim), self, (*self.loops, (i, size)), self.scanned,
                   follower=self.follower)

    def scanning(self, dim, word, i, size):
        return Env(self.program, self.path, (*self.place, word), self, (*self.loops, (i, size)), {**self.scanned, dim: i}, dim, self.follower)

    def called(self, declared, label, follower=False):
        """In a block; declared: the environment that its parameters are declared in."""
        return Env(self.program, (*declared.path, label), (*declared.place, label), None, self.loops, {}, None, declared.follower or follower)


class Program:
    """The dims, inputs and parameters of a program; parameters are made as they are met."""

    def __init__(self, seed, off=0.0):
        """off: by how much each parameter is another, relatively."""
        self.r = random.Random(seed)
        self.seed, self.draw, self.off, self.aside = seed, torch.Generator().manual_seed(seed), off, torch.Generator().manual_seed(seed)
        self.size, self.formulas, self.extra = {}, {}, []
        self.params, self.followers, self.data = {}, {}, {}
        self.blocks, self.names = [], 0
        self.sites, self.drawn = {}, {}  # of noise: its key, and how often a key was wanted
        self.longer = []  # inputs by name whose rows have one position more
        self.ahead = 1  # tokens that a window has more than seq
        self.documents, self.start = [], None  # documents that fill the windows, and where each token's begins
        self.tokens = self.ordered = False  # ordered: it matters which row of the batch is where
        self.draws = False  # noise

    def fresh(self, word):
        self.names += 1
        return f"{word}{self.names}"

    def elements(self, dims):
        return math.prod(self.size[d] for d in dims)

    def free(self, but=()):
        """The dims that parameters may have, without some."""
        return [d for d in self.size if d not in REPEATS and d != "batch" and d not in but]

    def dim(self, size, but, formula=None):
        """A dim of this size: one that there is, or another; None if there are too many."""
        there = [d for d in self.free(but) if self.size[d] == size]
        if there and (self.r.random() < 0.6 or len(self.extra) >= EXTRA):
            return self.r.choice(there)
        if len(self.extra) >= EXTRA:
            return None
        d = self.fresh("dim")
        self.extra.append(d)
        self.size[d] = size
        if formula:
            self.formulas[d] = formula
        return d

    def parameter(self, name, shape, scale, follower):
        if name not in self.params:
            x = scale * torch.randn(shape, generator=self.draw)
            x = x.bfloat16().double()
            x *= 1 + self.off * torch.randn(shape, generator=self.aside, dtype=torch.float64)
            self.params[name] = x.requires_grad_(not follower)
        return self.params[name]


class Scope:
    """Statements in the making: what they may use, and what is not used yet."""

    def __init__(self, program, around=None, dims=None, repeated=(), dim=None, number=None, quiet=False, scanned=None):
        self.p, self.r, self.around = program, program.r, around
        self.depth = around.depth + 1 if around else 0
        self.dims = dims or (around.dims if around else {})  # the name by which each dim goes here
        self.values, self.unused, self.lines, self.steps = {}, [], [], []
        self.repeated, self.dim, self.scanned = repeated, dim, around.scanned if around and scanned is None else scanned or ()
        self.number = number or (around.number if around else None)  # of the iteration of the nearest repeat that has one
        self.quiet = quiet or (around.quiet if around else False)  # draws no noise
        self.home = around.home if dim or around and around.home is not around else self
        self.foreign = around.foreign if around else self.scanned  # what a scan around a call of this block goes along
        self.indices = [self.inside(i) for i in around.indices if i.of not in self.scanned] if around else []
        self.instances = []  # of blocks, that are declared here

    # ---- what there is ----

    def inside(self, e):
        """What is outside, as the body of a scan sees it."""
        if not self.dim:
            return e
        return E(e.text, CALL, [d for d in e.dims if d != self.dim], e.most, lambda env: env.here(e.value(env)), e.of)

    def all(self):
        found = {n: self.inside(e) for n, e in self.around.all().items()} if self.around else {}
        found.update(self.values)
        return found

    def free(self, but=()):
        return self.p.free((*but, *self.scanned))

    def d(self, dim):
        return self.dims.get(dim, dim)

    def over(self, over):
        return over_text([self.d(o) for o in over])

    def named(self, name, e):
        return E(name, CALL, e.dims, e.most, lambda env: env.get(name), e.of)

    def any(self, test=lambda e: True):
        """A value that is no index, an unused one if there is one, or None."""
        there = self.all()
        new = [self.named(n, there[n]) for n in self.unused if not there[n].of and test(there[n])]
        if new and self.r.random() < 0.6:
            return self.r.choice(new)
        old = [self.named(n, e) for n, e in there.items() if not e.of and test(e)]
        return self.r.choice(old) if old else None

    def use(self, e):
        scope, names = self, set(re.findall(r"[A-Za-z_]\w*", e.text))
        while scope:
            scope.unused = [n for n in scope.unused if n not in names]
            scope = scope.around

    def some(self, dims):
        """One or two dims; seldom the batch, whose sums a program cannot take apart into rounds."""
        dims = [d for d in dims if d != "batch" or len(dims) == 1 or self.r.random() < 0.2]
        return self.r.sample(dims, self.r.randint(1, min(2, len(dims))))

    def small(self, dims):
        return len(dims) <= RANK and self.p.elements(dims) <= ELEMENTS

    # ---- statements ----

    def does(self, e, name):
        """The statement `name = e`."""
        self.use(e)
        self.lines.append(f"{name} = {e.text}")
        self.steps.append(lambda env: env.put(name, e.value(env)))

    def assign(self, e, name=None):
        name = name or self.p.fresh("v")
        self.does(e, name)
        self.values[name] = e
        if not e.of and name not in self.unused:
            self.unused.append(name)
        return self.named(name, e)

    def bounded(self, e):
        """The same value, brought back where it could grow."""
        if e.most <= MOST:
            return e
        how = self.r.randrange(3)
        if how < 2:
            f, name = ((torch.tanh, "tanh"), (torch.sin, "sin"))[how]
            return self.wrap(f, name, e, 1)
        k = round(2 / e.most, 6) or 1e-6
        return pointwise(f"{k!r} * {e.at(MINUS)}" if k >= 1e-4 else f"{k:.9f} * {e.at(MINUS)}", TIMES, lambda x: k * x, e, most=k * e.most)

    def param(self, dims, scale=0.5):
        """Declares a parameter of these dims, in some external order; one that a scan reads may have an element for each index."""
        r, home, name = self.r, self.home, self.p.fresh("w")
        dims = list(dims)
        if len(dims) + len(home.repeated) > 8:
            raise named.IllConditioned("a parameter would have more than 8 dims")
        if self.dim and self.dim not in home.repeated and len(dims) < RANK and r.random() < 0.2:
            dims.append(self.dim)
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
        home.lines.append(line)
        size = self.p.size

        def value(env):
            shape = [math.prod(size[d] for d in g) for g in groups]
            t = env.program.parameter(".".join((*env.path, own)), shape, scale, env.follower)
            return T(t.reshape([size[d] for d in order]), order)
        home.steps.append(lambda env: env.put(name, value(env)))
        home.values[name] = E(name, CALL, dims, 3 * scale, lambda env: env.get(name))
        home.unused.append(name)
        return self.named(name, self.all()[name])

    # ---- expressions ----

    def leaf(self):
        """A value, a parameter, or positions."""
        r = self.r
        e = self.any()
        if e and r.random() < 0.85:
            return e
        if r.random() < 0.2:
            return self.index(self.position())
        return self.param(r.sample(self.free(), r.randint(1, 2)))

    def position(self):
        """A dim whose index may be read, be it that of a scan."""
        return self.r.choice([*self.p.free(self.foreign), "batch"])

    def index(self, d):
        n = self.p.size[d]
        self.p.ordered |= d == "batch"
        if d in self.scanned:
            return call("index", [self.d(d)], (), n - 1, lambda env: named.number(env.scanned[d]))
        return call("index", [self.d(d)], (d,), n - 1, lambda env: named.iota(d, n))

    def number_of(self, x, text=None):
        return E(text or repr(x), CALL if x >= 0 else MINUS, (), abs(x), lambda env: named.number(x))

    def wrap(self, f, name, e, most):
        return call(name, [e.text], e.dims, most, lambda env: named.pointwise(f, e.value(env)))

    def pair(self):
        """Two values whose dims together are not too many."""
        for _ in range(8):
            a, b = self.leaf(), self.leaf()
            if self.small(set(a.dims) | set(b.dims)):
                return a, b
        return a, a

    def expression(self):
        kinds, weights = zip(*KINDS)
        while True:
            e = self.r.choices(kinds, weights)[0](self)
            if e:
                return self.bounded(e)

    def step(self):
        statements, weights = zip(*STATEMENTS)
        if not self.r.choices(statements, weights)[0](self):
            self.assign(self.expression())

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
            how, f = r.choice((("mean", named.mean), ("max", named.largest)))
            e = call(how, [e.text, self.over(extra)], [d for d in e.dims if d in dims], e.most, lambda env, e=e: f(e.value(env), extra))
        own = [d for d in missing if d != "batch"]
        if own:
            w = self.param(own, scale)
            e = pointwise(f"{e.at(TIMES)} * {w.text}", TIMES, torch.mul, e, w, most=e.most * w.most)
        if "batch" in missing:
            b = self.any(lambda e: "batch" in e.dims and set(e.dims) <= set(dims)) or self.index("batch")
            e = pointwise(f"{e.at(PLUS)} + {b.at(TIMES)}", PLUS, torch.add, e, b, most=e.most + b.most)
        return self.bounded(e)
