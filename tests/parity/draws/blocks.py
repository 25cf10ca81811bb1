"""Blocks: called with parameters of their own, as instances that several calls share, and as instances that follow others."""

import named
import torch
from named import T

from .elements import binary
from .scope import CALL, ELEMENTS, MINUS, PLUS, RANK, TIMES, E, Scope, call, over_text, pointwise, statement


class Block:
    """Its text is in the program; x, y: what it is called with, whose dims all calls have; results: its values; k: its number's default."""

    def __init__(self, s):
        p, r = s.p, s.r
        self.name, self.k = p.fresh("f"), r.choice((0.5, 2, 1.5))
        self.scanned, self.repeated = set(s.scanned), set(s.repeated)
        self.formal, self.factor, self.flag = [p.fresh("x"), p.fresh("x")], p.fresh("k"), p.fresh("s")


    def fits(self, s):
        """Whether it may be called in s too: its body has no dim that s scans, and no repeat of s."""
        return set(s.scanned) <= self.scanned and set(s.repeated) <= self.repeated


def formal_dims(s, x):
    """Some dims of x, and the names that a block's body has for them."""
    given = {}
    for d in x.dims:
        if s.r.random() < 0.5 and d != "batch":
            given[d] = s.p.fresh(s.r.choice("pd"))
    return given


def drawn(s, quiet):
    """A block of its own for two values of s, or None; its body names some dims by its parameters."""
    p, r = s.p, s.r
    x = s.any(lambda e: len(e.dims) >= 2)
    if not x:
        return None
    b, given = Block(s), formal_dims(s, x)
    y = s.any(lambda e: s.small(set(x.dims) | set(e.dims))) or x
    b.x, b.y = x, y
    body = Scope(p, None, dims=given or {"": ""}, repeated=s.repeated, quiet=s.quiet or quiet, scanned=s.scanned)
    body.depth = s.depth + 1
    for n, e in zip(b.formal, (x, y), strict=True):
        body.values[n] = E(n, CALL, e.dims, e.most, None)
        body.unused.append(n)
    for _ in range(r.randint(1, 3)):
        body.step()
    e = binary(body)
    while not e:
        e = binary(body)
    e = body.bounded(e)
    result = E(f"{b.factor} * {e.at(MINUS)}", TIMES, e.dims, 2 * e.most, lambda env: named.pointwise(lambda v: env.get(b.factor) * v, e.value(env)))
    if r.random() < 0.5:
        plain = result
        result = call("select", [b.flag, f"tanh({plain.text})", plain.text], plain.dims, plain.most, lambda env: named.pointwise(
            torch.tanh, plain.value(env)) if env.get(b.flag) else plain.value(env))
    body.use(result)
    second = None
    if r.random() < 0.25:  # two values
        second = body.bounded(body.leaf())
        body.use(second)
    for n in list(body.unused):
        z = body.fitted(body.named(n, body.values[n]), result.dims)
        result = pointwise(f"{result.at(PLUS)} + 0.1 * {z.at(MINUS)}", PLUS, lambda v, w: v + 0.1 * w, result, z, most=result.most + z.most)
    b.results = [body.bounded(result), *([second] if second else [])]
    b.heads = [(("along" if v.startswith("p") else "over"), d) for d, v in given.items()]
    heads = [f"{how} {given[d]}" for how, d in b.heads]
    shape = [body.d(d) for d in x.dims if d not in given and d != "batch"]
    first = f"{b.formal[0]}[{', '.join(shape)}]" if shape and r.random() < 0.5 else b.formal[0]
    p.blocks += [f"block {b.name}({', '.join([first, b.formal[1], *heads, f'{b.factor} = {b.k}', b.flag])}) {{",
                 *("    " + line for line in body.lines), f"    return {', '.join(e.text for e in b.results)}", "}", ""]
    b.steps, b.learns = body.steps, any(": param[" in line for line in body.lines)
    return b


def called(s, b, x, y, word, label, instance=None, follower=False):
    """A statement that calls b, by the word; label: of its parameters, where the call itself has them."""
    r, p = s.r, s.p
    k, flagged = r.choice((b.k, 0.25)), r.random() < 0.5
    args = [x.text, y.text, *(f"{how} {s.d(d)}" for how, d in b.heads)]
    args += ([f"{b.factor} = {k}"] if k != b.k else []) + ([b.flag] if flagged else [])
    text = f'{word}({", ".join(args)})' + (f' as "{label}"' if not instance else "")

    def value(env):
        inner = env.called(env.get("@" + instance) if instance else env, label, follower)
        for n, e in zip(b.formal, (x, y), strict=True):
            inner.put(n, e.value(env))
        inner.values |= {b.factor: k, b.flag: flagged}
        for step in b.steps:
            step(inner)
        return [e.value(inner) for e in b.results]
    if len(b.results) == 1:
        s.assign(E(text, MINUS, b.results[0].dims, b.results[0].most, lambda env: value(env)[0]))
        return True
    for e in (x, y):
        s.use(e)
    names = [p.fresh("v") for _ in b.results]
    s.lines.append(f"{', '.join(names)} = {text}")

    def step(env):
        for n, v in zip(names, value(env), strict=True):
            env.put(n, v)
    s.steps.append(step)
    for n, e in zip(names, b.results, strict=True):
        s.values[n] = E(n, CALL, e.dims, e.most, None)
        s.unused.append(n)
    return True


@statement(0.08)
def block(s):
    """A block that is called once or twice, with parameters of their own."""
    if s.dims or s.home is not s:
        return False
    b = drawn(s, False)
    for _ in range(s.r.randint(1, 2) if b else 0):
        called(s, b, b.x, b.y, b.name, s.p.fresh("c"))
    return bool(b)


def same_dims(s, x):
    return s.any(lambda e: set(e.dims) == set(x.dims))


def declared(s, b, home):
    """An instance of the block in a scope around, or in this one."""
    inst, label = s.p.fresh("i"), s.p.fresh("c")
    home.lines.append(f'{inst} : block {b.name} as "{label}"')
    home.steps.append(lambda env: env.put("@" + inst, env))
    home.instances.append((inst, label, b))
    return inst, label


@statement(0.06)
def instance(s):
    """A block whose calls share its parameters: also those of all iterations, if it is declared before a repeat or a scan."""
    if s.dims:
        return False
    b = drawn(s, True)
    if not b:
        return False
    homes, scope = [s.home], s.home.around
    while scope:
        homes += [scope.home]
        scope = scope.home.around
    inst, label = declared(s, b, s.r.choice(homes))
    for _ in range(s.r.choice((1, 2))):
        called(s, b, same_dims(s, b.x) or b.x, same_dims(s, b.y) or b.y, inst, label, inst)
    return True


def visible(s):
    found = []
    while s:
        found += s.instances
        s = s.around
    return found


@statement(0.05)
def again(s):
    """Another call of an instance, of this scope or one around."""
    there = [(i, same_dims(s, i[2].x), same_dims(s, i[2].y)) for i in visible(s) if i[2].fits(s)]
    there = [t for t in there if t[1] and t[2]]
    if s.dims or not there:
        return False
    (inst, label, b), x, y = s.r.choice(there)
    return called(s, b, x, y, inst, label, inst)


RULES = (("by 0.75", lambda a, b: 0.75 * a + 0.25 * b), ("by 1 - 0.5 / (2 + step())", lambda a, b: 0.75 * a + 0.25 * b),
         ("by min(0.5, (1 + step()) / 4)", lambda a, b: 0.25 * a + 0.75 * b), ("every 1", lambda a, b: b), ("every 3", lambda a, b: a))


@statement(0.05)
def follower(s):
    """An instance whose parameters follow those of another of the same scope."""
    p, r = s.p, s.r
    there = [i for i in s.instances if i[2].learns and i[2].fits(s)] if not s.dims and s.home is s else []
    if not there:
        return False
    online, led, b = r.choice(there)
    x, y = same_dims(s, b.x), same_dims(s, b.y)
    if not x or not y:
        return False
    inst, label = p.fresh("i"), p.fresh("c")
    text, rule = r.choice(RULES)
    s.lines.append(f'{inst} : block {b.name} as "{label}" follows {online} {text}')

    def step(env):
        env.put("@" + inst, env)
        p.followers[".".join((*env.path, label))] = (".".join((*env.path, led)), rule)
    s.steps.append(step)
    called(s, b, x, y, inst, label, inst, follower=True)
    return True


@statement(0.04)
def local(s):
    """A block with a dim of its own: all pairs of positions."""
    p, r = s.p, s.r
    x = s.any(lambda e: 2 <= len(e.dims) < RANK and [d for d in e.dims if d != "batch"])
    if not x or s.dims:
        return False
    pos = r.choice([d for d in x.dims if d != "batch"])
    if p.elements(x.dims) * p.size[pos] > 2 * ELEMENTS:
        return False
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
            scores = named.select(seen, named.product(v, u, over), named.number(0))
            return named.product(scores, T(torch.tanh(u.t), u.dims), ["t"])
        return named.total(named.select(seen, named.pointwise(torch.mul, v, u), named.iota("t", n)), ["t"])
    dims = [*(d for d in x.dims if d not in over), *over]
    s.assign(s.bounded(call(name, [x.text, f"along {pos}"], dims, (x.most**2 + 1) * n * max(1, p.elements(over)), value)))
    return True


