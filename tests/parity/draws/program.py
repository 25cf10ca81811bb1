"""A whole program: its dims and inputs, its statements, its losses, its text."""

import math

import named
import torch
from named import T
from twins.noise import mix, order, permutation

from . import blocks, elements, experts, layers, loops, noise, places, windows
from .scope import CALL, TIMES, E, Env, Program, Scope, call
from .training import Training

DRAWN = (blocks, elements, experts, layers, loops, noise, places, windows)  # their kinds of expressions and statements


def make_dims(p):
    r = p.r
    p.size |= {"batch": r.choice((2, 4)), "seq": r.choice((3, 4, 6)), "hidden": r.choice((4, 6, 8)), "vocab": r.choice((5, 7)),
               "heads": 2, "head": r.choice((2, 4)), "rounds": r.choice((1, 2, 3, 5)), "inner": 2, "layers": r.choice((2, 3))}
    if r.random() < 0.3:
        p.size["group"] = 3
    pick = r.random()
    if pick < 0.35:
        p.size |= {"wide": p.size["hidden"], "key": p.size["seq"]}
        p.formulas |= {"wide": "hidden", "key": "seq"}
    elif pick < 0.65:
        p.size |= {"row": r.choice((4, 5)), "col": r.choice((3, 4)), "colour": 2}
    if r.random() < 0.35:
        n, best = r.choice((2, 4)), r.choice((1, 2))
        slot = max(1, math.ceil(1.25 * best * p.size["seq"] / n)) if r.random() < 0.6 else p.size["seq"]
        p.size |= {"experts": n, "choice": n, "best": best, "slot": slot, "rows": best * p.size["seq"], "ffn": 4}
        p.formulas |= {"choice": "experts", "rows": "best * seq", "slot": "seq" if slot == p.size["seq"] else "ceil(1.25 * best * seq / experts)"}


# ---- inputs ------------------------------------------------------------------------------------


def indices(text, x, dims, of):
    return E(text, CALL, dims, 1, lambda env: T(x, dims, of=of), of)


def weights(text, w, dims):
    return E(text, CALL, dims, 2, lambda env: T(w.double(), dims))


def first_fit(lengths, capacity):
    """Pieces by falling length, each in the first window that has room."""
    windows = []
    for k in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        fits = [w for w in windows if sum(lengths[i] for i in w) + lengths[k] <= capacity]
        (fits[0] if fits else windows.append([]) or windows[-1]).append(k)
    return windows


def pack(p):
    """Documents that fill the windows of the first epoch, which are the batch; False: none of those drawn do. Of one length each is
    where the epoch's permutation has it, and of all windows each is the row that this makes of it."""
    n, batch, data = p.size["seq"], p.size["batch"], p.data
    for _ in range(20):
        lengths = [p.r.randint(2, n + 1) for _ in range(p.r.randint(batch, 3 * batch))]
        windows = first_fit(lengths, n + 1)
        if len(windows) == batch:
            break
    else:
        return False
    tokens = [torch.randint(0, p.size["vocab"], (k,), generator=p.draw) for k in lengths]
    weights = [torch.randint(1, 4, (k,), generator=p.draw) for k in lengths]
    where = {}
    for k in set(lengths):
        alike = [i for i, x in enumerate(lengths) if x == k]
        where |= {alike[i]: alike[j] for i, j in enumerate(permutation(mix(mix(mix(0)) ^ k), len(alike)))}
    for name, x in (("tokens", 0), ("weights", 0), ("documents", torch.arange(n + p.ahead))):
        data[name] = torch.zeros((batch, n + p.ahead), dtype=torch.long) + x
    for row, window in enumerate(order(batch, 0)):
        at = 0
        for k in windows[window]:
            here = slice(at, at + lengths[k])
            data["tokens"][row, here], data["weights"][row, here], data["documents"][row, here] = tokens[where[k]], weights[where[k]], at
            at += lengths[k]
    p.documents, p.ordered = list(zip(tokens, weights)), True  # an evaluation has them in the order of the file
    return True


def counted(p, by):
    """The weights of the tokens so much further: 0 of those of another document."""
    n = p.size["seq"]
    w = p.data["weights"][:, by:by + n]
    return w * (p.data["documents"][:, by:by + n] <= torch.arange(n)) if p.documents else w


def token_inputs(p, scope):
    """Windows of tokens, perhaps with weights; targets are one position further or more."""
    r, size, dims, targets = p.r, p.size, ("batch", "seq"), []
    n, p.tokens, p.ahead = size["seq"], True, r.choice((1, 1, 2, 3))
    p.data["tokens"] = torch.randint(0, size["vocab"], (size["batch"], n + p.ahead), generator=p.draw)
    weigh = r.random() < 0.4
    if weigh:
        p.data["weights"] = torch.randint(0, 3, p.data["tokens"].shape, generator=p.draw)
    packed, t = weigh and r.random() < 0.5 and pack(p), p.data["tokens"]
    scope.indices.append(indices("tokens", t[:, :n], dims, "vocab"))
    if packed:
        start = p.data["documents"][:, :n].double()
        p.start = scope.assign(call("document_start", ["tokens", "along seq"], dims, n, lambda env: T(start, dims)))
    for by in sorted({1, p.ahead}):
        after = indices("next(tokens)" if by == 1 else f"next(tokens, by = {by})", t[:, by:by + n], dims, "vocab")
        w = weights("weight" if by == 1 else f"next(weight, by = {by - 1})" if by > 2 else "next(weight)", counted(p, by), dims) if weigh else None
        targets.append((after, w))
        if r.random() < 0.3:
            scope.indices.append(after)
    if not weigh:
        targets.append((indices("last(next(tokens), along seq)", t[:, n], ("batch",), "vocab"), None))
    return "tokens[batch, seq] : token(vocab)" + (", weight[batch, seq]" if weigh else ""), targets


def named_inputs(p, scope):
    """Numbers and indices by name."""
    r, size, texts, targets = p.r, p.size, [], []
    images = "row" in size
    for i in range(r.randint(1, 3)):
        name, dims = p.fresh("in"), ["batch", *r.sample(["seq", "hidden", "heads", "head"], r.randint(0, 2))]
        if images and not i:
            dims = ["batch", *r.sample(["row", "col", "colour"], r.choice((2, 3)))]
        p.data[name] = (0.7 * torch.randn([size[d] for d in dims], generator=p.draw)).float()
        scope.values[name] = E(name, CALL, dims, 2.5, None)
        scope.unused.append(name)
        texts.append(f"{name}[{', '.join(dims)}]")
    for _ in range(r.randint(1, 2)):
        name, of = p.fresh("id"), r.choice(("vocab", "hidden"))
        dims = ["batch", *r.sample(["seq", "heads"], r.randint(0, 1))]
        texts.append(f"{name}[{', '.join(dims)}] : token({of})")
        shape, ahead = [size[d] for d in dims], len(dims) > 1 and r.random() < 0.3
        if ahead:  # a row has one more
            shape[-1] += 1
        x = torch.randint(0, size[of], shape, generator=p.draw)
        p.data[name] = x
        scope.indices.append(indices(name, x[:, :-1] if ahead else x, dims, of))
        if ahead:
            targets.append((indices(f"next({name})", x[:, 1:], dims, of), None))
            p.longer.append(name)
            continue
        weight = None
        if r.random() < 0.3:
            w = torch.rand([size[d] for d in dims], generator=p.draw)
            p.data[name + "_weight"] = w
            texts.append(f"{name}_weight[{', '.join(dims)}]")
            weight = weights(name + "_weight", w, dims)
        targets.append((scope.indices[-1], weight))
    return ", ".join(texts), targets


# ---- losses ------------------------------------------------------------------------------------


def cross_entropies(scope, targets):
    r, terms = scope.r, []
    for target, weight in targets:
        if r.random() < 0.7 or weight or "next(id" in target.text:
            dims = [*target.dims, target.of]
            if weight is None and scope.p.size[target.of] < 8 and r.random() < 0.1:
                dims.append(r.choice([d for d in ("heads", "head") if d not in dims]))
            logits = scope.fitted(scope.expression(), dims)
            scope.use(logits)
            terms.append(call("cross_entropy", [logits.text, target.text, *([weight.text] if weight else [])], (), 3,
                              lambda env, z=logits, t=target, w=weight: named.cross_entropy(z.value(env), t.value(env), w and w.value(env))))
    return terms


def mean_of(e, k, square):
    """k times the mean of e, or of its square."""
    text = f"{e.text} * {e.text}" if square else e.text
    text = f"mean({text})" if e.dims else text

    def value(env):
        v = e.value(env)
        return named.pointwise(lambda x: k * x, named.mean(named.pointwise(torch.square, v) if square else v))
    return E(f"{k} * {text}", TIMES, (), 1, value)


def rest(scope):
    """What nothing uses yet is part of the loss."""
    r = scope.r
    return [mean_of(scope.named(n, scope.values[n]), r.choice((0.1, 0.5, 1)), r.random() < 0.5) for n in list(scope.unused)]


def metrics(p, scope):
    """Some numbers of values that there are."""
    found = []
    for _ in range(p.r.choice((0, 0, 1, 2))):
        e = scope.any()
        if e:
            found.append((p.fresh("m"), mean_of(e, 1, True)))
    return found


# ---- the program -------------------------------------------------------------------------------


def make(seed, off=0.0):
    """A program with its text, what it learns in the first step (training), and its numbers by torch."""
    p = Program(seed, off)
    make_dims(p)
    main = Scope(p)
    inputs, targets = (token_inputs if p.r.random() < 0.5 else named_inputs)(p, main)
    tied = main.param(["vocab", "hidden"])
    if main.indices[0].of == "vocab" and not {"vocab", "hidden"} & set(main.indices[0].dims):
        i = main.indices[0]
        main.assign(E(f"{tied.text}[{i.text}]", CALL, [*i.dims, "hidden"], tied.most, lambda env: named.gather(tied.value(env), i.value(env))))
    for _ in range(p.r.randint(2, 8)):
        main.step()
    terms = cross_entropies(main, targets)
    terms += rest(main)
    env = Env(p)
    for n, e in main.values.items():
        if n in p.data:
            env.put(n, T(p.data[n].double(), e.dims))
    for step in main.steps:
        step(env)
    p.training = Training(p, [(t, t.value(env).t) for t in terms])
    p.metrics = [(n, e, float(e.value(env).t.detach())) for n, e in metrics(p, main)]
    p.text = program_text(p, main, inputs)
    return p


def program_text(p, main, inputs):
    dims = ", ".join(f"{d} = {p.formulas.get(d, n)}" for d, n in p.size.items())
    lines = main.lines + p.training.losses + [f"metric {n} = {e.text}" for n, e, _ in p.metrics]
    chunk = p.r.choice((0, 1, 2, 3, 4))
    return "\n".join([
        f"# seed {p.seed}", f"dim {dims}", "const share = 3 / heads / 2", "", *p.blocks, *p.training.optimizers, f"model random({inputs}) {{",
        *("    " + line for line in lines), "}", "", *p.training.blocks,
        "layout {", "    device     cpu", f"    microbatch {p.size['batch']}", *([f"    chunk      {chunk}"] if chunk else []), "}", ""])


