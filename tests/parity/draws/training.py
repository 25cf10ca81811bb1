"""What a program learns: its losses, each with the parameters that follow it, its optimizers, and all parameters after the first step."""

import torch

from .scope import TIMES

LR = 0.1


class Rule:
    """An optimizer: how a train block names it, its declaration, and one step of it: (p, g, decay, lr) to (momentum, p)."""

    def __init__(self, text, step, decay=0.0, lines=()):
        self.text, self.step, self.decay, self.lines = text, step, decay, list(lines)


def gradient_descent(r):
    decay = r.choice((0, 0, 0.25))

    def step(p, g, d, lr):
        m = g + d * p
        return m, p - lr * m
    return Rule("sgd(momentum = 0.9" + (f", decay = {decay})" if decay else ")"), step, decay)


SIZES = (  # what a step is divided by: the states that it keeps, their rules, the size, and what it is in torch after one step
    ("", [], "1", lambda g: 1.0),
    ("", [], "sqrt(mean(m * m, over all)) + 0.1", lambda g: torch.sqrt((g * g).mean()) + 0.1),
    ("", [], "0.5 + abs(m)", lambda g: 0.5 + g.abs()),
    ("v", ["v = rho * v + (1 - rho) * g * g"], "sqrt(v / (1 - pow(rho, step))) + 0.1", lambda g: g.abs() + 0.1),
    ("most[] = 1", ["most = max(rho * most, max(abs(m), over all))"], "most + 0.1", lambda g: torch.clamp(g.abs().max(), min=0.9) + 0.1),
    ("r[rows]", ["r = rho * r + select(matrix, mean(g * g, over cols), 0)"], "select(matrix, sqrt(r) + 0.1, 1)",
     lambda g: torch.sqrt((g * g).mean(-1, keepdim=True)) + 0.1 if g.ndim > 1 else 1.0),
)


def own(r, name):
    """An optimizer of the file."""
    state, rules, size, of = r.choice(SIZES)
    decay = r.choice((0, 0.25))
    lines = [f"optimizer {name}(rho = 0.9, decay = 0) {{", '    state m as "momentum"']
    if state:
        lines.append(f"    state {state}")
    lines += ["    m = rho * m + g", *("    " + line for line in rules), f"    size = {size}",
              "    p = p * (1 - lr * decay) - lr * m / size", "}", ""]

    def step(p, g, d, lr):
        return g, p * (1 - lr * d) - lr * g / of(g)
    return Rule(f"{name}(decay = {decay})", step, decay, lines)


def pattern(name):
    """What selects a parameter and those beside it: all with the first word of its name."""
    first, *more = name.split(".")
    return first + (".*" if more else "")


def matches(name, chosen):
    return any(name == c or c.endswith(".*") and name.startswith(c[:-1]) for c in chosen)


class Goal:
    """A loss: its terms, the selectors of its parameters (of `loss`: none), and how those learn."""

    def __init__(self, p, name, terms, chosen, names):
        r = p.r
        self.name, self.terms, self.chosen, self.names = name, terms, chosen, names
        self.rule = gradient_descent(r) if r.random() < 0.6 else own(r, p.fresh("own"))
        self.lr = r.choice(("0.1", "constant(peak = 0.2, warmup = 2, steps = 10)"))
        self.clip = r.choice((None, None, 0.5, 100))
        self.beta, self.average = r.choice(((0, None), (0, None), (0.75, "0.75"), (0.1, "min(0.9, (1 + step()) / (10 + step()))")))
        self.rate = self.decay = None  # (number, selector)
        groups = sorted({pattern(n) for n in names})
        if r.random() < 0.2:
            self.rate = (0.5, r.choice(groups))
        if r.random() < 0.2:
            self.decay = (0.5, r.choice(groups))
        self.frozen = r.choice(groups) if len(groups) > 2 and r.random() < 0.2 else None
        if self.frozen and self.reached(p, [n for n in names if not matches(n, [self.frozen])]):
            self.names = [n for n in names if not matches(n, [self.frozen])]
        else:
            self.frozen = None

    def reached(self, p, names):
        found = torch.autograd.grad(self.value(), [p.params[n] for n in names], retain_graph=True, allow_unused=True)
        return any(g is not None for g in found)

    def value(self):
        return 2 + sum(v for _, v in self.terms)

    def text(self):
        return " + ".join(t.at(TIMES) for t, _ in self.terms)

    def block(self, precision):
        head = f'train {self.name} where {", ".join(chr(34) + c + chr(34) for c in self.chosen)} {{' if self.chosen else "train {"
        lines = [f"optimizer {self.rule.text}", f"lr        {self.lr}"]
        lines += [f"clip      {self.clip}"] if self.clip else []
        lines += [f"average   {self.average}"] if self.average else []
        lines += [f"precision {precision}"] if precision else []
        lines += [f'rate      {self.rate[0]} where "{self.rate[1]}"'] if self.rate else []
        lines += [f'decay     {self.decay[0]} where "{self.decay[1]}"'] if self.decay else []
        lines += [f'frozen    where "{self.frozen}"'] if self.frozen else []
        return [head, *("    " + line for line in lines), "}", ""]

    def step(self, params, grads):
        """By name: momentum, parameter and average after one step."""
        size = torch.sqrt(sum((grads[n] ** 2).sum() for n in self.names))
        scale = min(1.0, self.clip / (float(size) + 1e-6)) if self.clip else 1.0
        found = {}
        for n in self.names:
            rate = self.rate[0] if self.rate and matches(n, [self.rate[1]]) else 1
            decay = self.decay[0] if self.decay and matches(n, [self.decay[1]]) else self.rule.decay
            x = params[n].detach()
            m, new = self.rule.step(x, scale * grads[n], decay, LR * rate)
            found[n] = m, new, self.beta * x + (1 - self.beta) * new if self.average else None
        return found


class Training:
    """terms: (expression, value) of all that is to be small."""

    def __init__(self, p, terms):
        self.p, r = p, p.r
        names = [n for n in p.params if p.params[n].requires_grad]
        other = self.second(terms, names) if r.random() < 0.3 else None
        self.goals = [Goal(p, "loss", terms, [], names)]
        if other:
            mine, chosen, its = other
            left = [n for n in names if n not in its]
            self.goals = [Goal(p, "loss", [t for t in terms if t not in mine], [], left), Goal(p, p.fresh("aim"), mine, chosen, its)]
        self.losses = [f"{g.name} = {g.text()} + 2" for g in self.goals]
        self.optimizers = [line for g in self.goals for line in g.rule.lines]
        self.blocks = [line for g in self.goals for line in g.block("f64" if g.name == "loss" else None)]

    def second(self, terms, names):
        """Another loss: some terms, and selectors of parameters of which it has gradients; `loss` has some, too."""
        r = self.p.r
        learned = [t for t in terms if t[1].requires_grad]
        if len(learned) < 2:
            return None
        mine = r.sample(learned, r.randint(1, len(learned) - 1))
        left = [t for t in learned if t not in mine]
        of = [self.reached(ts, names) for ts in (mine, left)]
        groups = sorted({pattern(n) for n in names})
        there = [g for g in groups if any(matches(n, [g]) for n in of[0])]
        r.shuffle(there)
        chosen = there[:r.randint(1, 2)]
        its = [n for n in names if matches(n, chosen)]
        if not chosen or not set(of[1]) - set(its):
            return None
        return mine, chosen, its

    def reached(self, terms, names):
        found = torch.autograd.grad(sum(v for _, v in terms), [self.p.params[n] for n in names], retain_graph=True, allow_unused=True)
        return [n for n, g in zip(names, found, strict=True) if g is not None]

    def gradients(self):
        """Of each parameter that learns, of the loss that it follows."""
        grads = {}
        for goal in self.goals:
            params = [self.p.params[n] for n in goal.names]
            found = torch.autograd.grad(goal.value(), params, retain_graph=True, allow_unused=True)
            grads |= {n: torch.zeros_like(x) if g is None else g for n, x, g in zip(goal.names, params, found, strict=True)}
        return grads

    def after(self, grads):
        """Momentum, parameters and averages after one step, by the names of checkpoints."""
        state, params = {}, {n: x.detach() for n, x in self.p.params.items() if x.requires_grad}
        for goal in self.goals:
            for n, (m, new, average) in goal.step(self.p.params, grads).items():
                state["momentum." + n], params[n] = m, new
                if average is not None:
                    state["average." + n] = average
        for prefix, (online, rule) in self.p.followers.items():
            for n, x in self.p.params.items():
                if n.startswith(prefix + "."):
                    params[n] = rule(x.detach(), params[online + n[len(prefix):]])
        return state, params
