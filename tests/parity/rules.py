"""Golden losses of every optimizer: rules.py writes golden/rules.json.

Needs torch and transformers; the test (check_rules.py) does not. The model, its weights and its batch
are those of llama_small (generate.py), trained for STEPS steps in float64 by each rule: torch's Adam
and SGD, transformers' Adafactor, Lion and Muon written out from their papers. Those that optimizers.mg
declares are torch's, and Adan and LAMB written out here.
"""

import json
import os

import torch
from safetensors.torch import load_file
from transformers.optimization import Adafactor

import generate
import kept
from generate import HERE, Llama, rate

STEPS = 12


class Lion:
    def __init__(self, groups, betas):
        self.param_groups, self.betas = groups, betas
        self.m = {p: torch.zeros_like(p) for g in groups for p in g["params"]}

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        for g in self.param_groups:
            for p in g["params"]:
                m = self.m[p]
                move = torch.sign(b1 * m + (1 - b1) * p.grad)
                p.mul_(1 - g["lr"] * g["weight_decay"]).sub_(g["lr"] * move)
                m.mul_(b2).add_((1 - b2) * p.grad)


class Muon:
    """Hidden matrices; the others are AdamW's."""

    def __init__(self, groups, momentum, nesterov):
        self.param_groups, self.momentum, self.nesterov = groups, momentum, nesterov
        self.m = {p: torch.zeros_like(p) for g in groups for p in g["params"]}

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in g["params"]:
                m = self.m[p].lerp_(p.grad, 1 - self.momentum)
                x = p.grad.lerp(m, self.momentum) if self.nesterov else m.clone()
                tall = x.shape[0] > x.shape[1]
                x = x.T if tall else x
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    a = x @ x.T
                    x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                x = x.T if tall else x
                p.mul_(1 - g["lr"] * g["weight_decay"])
                p.sub_(g["lr"] * 0.2 * max(p.shape) ** 0.5 * x)


class Adan:
    def __init__(self, groups, betas, eps):
        self.param_groups, self.betas, self.eps, self.steps = groups, betas, eps, 0
        self.m, self.v, self.n, self.last = ({p: torch.zeros_like(p) for g in groups for p in g["params"]} for _ in range(4))

    @torch.no_grad()
    def step(self):
        self.steps += 1
        b1, b2, b3 = self.betas
        c1, c2, c3 = (1 - b ** self.steps for b in self.betas)
        for g in self.param_groups:
            for p in g["params"]:
                change = p.grad - self.last[p] if self.steps > 1 else torch.zeros_like(p)
                self.m[p].lerp_(p.grad, 1 - b1)
                self.v[p].lerp_(change, 1 - b2)
                self.n[p].lerp_((p.grad + b2 * change) ** 2, 1 - b3)
                move = (self.m[p] / c1 + b2 * self.v[p] / c2) / ((self.n[p] / c3).sqrt() + self.eps)
                p.sub_(g["lr"] * move).div_(1 + g["lr"] * g["weight_decay"])
                self.last[p] = p.grad.clone()


class Lamb:
    def __init__(self, groups, betas, eps):
        self.param_groups, self.betas, self.eps, self.steps = groups, betas, eps, 0
        self.m, self.v = ({p: torch.zeros_like(p) for g in groups for p in g["params"]} for _ in range(2))

    @torch.no_grad()
    def step(self):
        self.steps += 1
        b1, b2 = self.betas
        for g in self.param_groups:
            for p in g["params"]:
                self.m[p].lerp_(p.grad, 1 - b1)
                self.v[p].lerp_(p.grad ** 2, 1 - b2)
                move = self.m[p] / (1 - b1 ** self.steps) / ((self.v[p] / (1 - b2 ** self.steps)).sqrt() + self.eps)
                move += g["weight_decay"] * p
                trust = float(p.norm() / move.norm()) if p.norm() > 0 and move.norm() > 0 else 1.0
                p.sub_(g["lr"] * trust * move)


class Both:
    def __init__(self, *parts):
        self.parts = parts
        self.param_groups = [g for p in parts for g in p.param_groups]

    def step(self):
        for p in self.parts:
            p.step()


def groups(w, decay, names=None):
    chosen = {n: t for n, t in w.items() if names is None or names(n)}
    return [{"params": [t for t in chosen.values() if t.ndim >= 2], "weight_decay": decay, "lr": 0.0},
            {"params": [t for t in chosen.values() if t.ndim < 2], "weight_decay": 0.0, "lr": 0.0}]


def vocab(name):
    return "embed" in name or "lm_head" in name


def with_rules(w):
    """decay 0 where "*mlp*", rate 0.5 where vocab, frozen where "*self_attn*", rank < 2"""
    made = []
    for n, t in w.items():
        frozen = "self_attn" in n or t.ndim < 2
        t.requires_grad_(not frozen)
        if not frozen:
            made.append({"params": [t], "weight_decay": 0.0 if "mlp" in n else 0.1, "lr": 0.0,
                         "rate": 0.5 if vocab(n) else 1.0})
    return torch.optim.AdamW(made, lr=1.0, betas=(0.9, 0.95), eps=1e-8)


RULES = {
    "adam": ("adam(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)", "",
             lambda w: torch.optim.Adam(groups(w, 0.1), lr=1.0, betas=(0.9, 0.95), eps=1e-8)),
    "sgd": ("sgd(momentum = 0.9, decay = 0.1 where rank >= 2)", "",
            lambda w: torch.optim.SGD(groups(w, 0.1), lr=1.0, momentum=0.9)),
    "nesterov": ("sgd(momentum = 0.9, decay = 0.1, nesterov = 1)", "",
                 lambda w: torch.optim.SGD(w.values(), lr=1.0, momentum=0.9, nesterov=True, weight_decay=0.1)),
    "lion": ("lion(betas = (0.9, 0.99), decay = 0.1 where rank >= 2)", "",
             lambda w: Lion(groups(w, 0.1), (0.9, 0.99))),
    "adafactor": ("adafactor(decay = 0.1 where rank >= 2)", "",
                  lambda w: Adafactor(groups(w, 0.1), lr=1.0, scale_parameter=False, relative_step=False,
                                      warmup_init=False)),
    "adafactor_momentum": ("adafactor(beta1 = 0.9, power = 0.7, threshold = 0.5)", "",
                           lambda w: Adafactor(list(w.values()), lr=1.0, scale_parameter=False, beta1=0.9,
                                               decay_rate=-0.7, clip_threshold=0.5, relative_step=False,
                                               warmup_init=False)),
    "muon": ("muon(momentum = 0.95, betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)", "",
             lambda w: Both(Muon(groups(w, 0.1, lambda n: w[n].ndim == 2 and not vocab(n)), 0.95, True),
                            torch.optim.AdamW(groups(w, 0.1, lambda n: w[n].ndim < 2 or vocab(n)), lr=1.0,
                                              betas=(0.9, 0.95), eps=1e-8))),
    "rules": ("adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1)",
              'decay 0 where "*mlp*"\n    rate 0.5 where vocab\n    frozen where "*self_attn*", rank < 2',
              with_rules),
}

# Kept in fewer bits, which programs of f64 have not.
KEPT = {
    "kept": ("adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2, state = bf16)",
             lambda w: kept.AdamW(w, (0.9, 0.95), 1e-8, 0.1)),
}

# Those of optimizers.mg.
DECLARED = {
    "own_adamw": ("own_adamw(betas = (0.9, 0.95), decay = 0.1 where rank >= 2)",
                  lambda w: torch.optim.AdamW(groups(w, 0.1), lr=1.0, betas=(0.9, 0.95), eps=1e-8)),
    "own_lion": ("own_lion(beta1 = 0.9, decay = 0.1 where rank >= 2)", lambda w: Lion(groups(w, 0.1), (0.9, 0.99))),
    "nadam": ("nadam(betas = (0.9, 0.95), decay = 0.1)",
              lambda w: torch.optim.NAdam(w.values(), lr=1.0, betas=(0.9, 0.95), weight_decay=0.1)),
    "radam": ("radam(betas = (0.9, 0.95), decay = 0.1)",
              lambda w: torch.optim.RAdam(w.values(), lr=1.0, betas=(0.9, 0.95), weight_decay=0.1)),
    "adamax": ("adamax(betas = (0.9, 0.95))", lambda w: torch.optim.Adamax(w.values(), lr=1.0, betas=(0.9, 0.95))),
    "adagrad": ("adagrad(lr_decay = 0.1)",
                lambda w: torch.optim.Adagrad(w.values(), lr=1.0, lr_decay=0.1, initial_accumulator_value=0.1)),
    "rprop": ("rprop()", lambda w: torch.optim.Rprop(w.values(), lr=rate(0))),
    "rmsprop": ("rmsprop(alpha = 0.9, momentum = 0.5, eps = 1e-3, centered = 1)",
                lambda w: torch.optim.RMSprop(w.values(), lr=1.0, alpha=0.9, momentum=0.5, eps=1e-3, centered=True)),
    "adan": ("adan(decay = 0.1 where rank >= 2)", lambda w: Adan(groups(w, 0.1), (0.98, 0.92, 0.99), 1e-8)),
    "lamb": ("lamb(betas = (0.9, 0.95), decay = 0.1 where rank >= 2)", lambda w: Lamb(groups(w, 0.1), (0.9, 0.95), 1e-6)),
}


def train(make, start, tokens):
    model = Llama()
    w = {n: t.double().clone().requires_grad_() for n, t in start.items()}
    optimizer = make(w)
    losses, norms = [], []
    for step in range(STEPS):
        for g in optimizer.param_groups:
            g["lr"] = rate(step) * g.get("rate", 1.0)
        for t in w.values():
            t.grad = None
        loss = model.loss(w, tokens)
        loss.backward()
        trained = [t for t in w.values() if t.requires_grad]
        norms.append(float(torch.nn.utils.clip_grad_norm_(trained, generate.CLIP)))
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses, norms


def main():
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # in which NAdam keeps its product of momenta
    golden = load_file(f"{HERE}/golden/llama_small.safetensors")
    start = {n[len("weight."):]: t for n, t in golden.items() if n.startswith("weight.")}
    tokens = golden["batch"].long()
    out = {}
    declared = {name: (optimizer, "", make) for name, (optimizer, make) in DECLARED.items()}
    few = {name: (optimizer, "", make) for name, (optimizer, make) in KEPT.items()}
    for name, (optimizer, lines, make) in (RULES | few | declared).items():
        losses, norms = train(make, start, tokens)
        out[name] = {"optimizer": optimizer, "lines": lines, "losses": losses, "norms": norms}
        if name in DECLARED:
            out[name]["declared"] = True
        if name in KEPT:
            out[name]["precision"] = "f32"
        print(name, losses[0], "->", losses[-1])
    with open(os.path.join(HERE, "golden/rules.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
