"""Mixtures of experts."""

import math

import torch
import torch.nn.functional as F

from .twin import Twin, attend, join_heads, kind, next_token, rms, rope, split_heads


@kind
class SharedExperts(Twin):
    layers, hidden, heads, ffn, common, vocab, seq, batch = 2, 16, 2, 8, 16, 32, 8, 4
    experts, best, slots, balancing = 4, 2, 5, 0.01

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.ln1.weight": (h,), f"{i}.ln2.weight": (h,), f"{i}.moe.gate.weight": (self.experts, h)}
            s |= {f"{i}.attn.{n}.weight": (h, h) for n in "qkvo"}
            for e, wide in [(f"experts.{e}", self.ffn) for e in range(self.experts)] + [("shared", self.common)]:
                s |= {f"{i}.moe.{e}.up.weight": (wide, h), f"{i}.moe.{e}.down.weight": (h, wide)}
        return s

    def moe(self, x, w, p):
        def unit(name, u):
            return F.silu(u @ w[p + name + ".up.weight"].T) @ w[p + name + ".down.weight"].T

        score = torch.softmax(x @ w[p + "gate.weight"].T, -1)
        share, chosen = torch.topk(score, self.best)
        rows = []
        for b in range(len(x)):
            taken = [0] * self.experts
            for t in range(x.shape[1]):
                row = unit("shared", x[b, t])
                for k, e in enumerate(chosen[b, t].tolist()):
                    taken[e] += 1
                    if taken[e] <= self.slots:
                        row = row + share[b, t, k] * unit(f"experts.{e}", x[b, t])
                rows.append(row)
            self.dropped += sum(max(0, n - self.slots) for n in taken)
        used = F.one_hot(chosen, self.experts).to(x.dtype).sum(2).mean(1)
        return torch.stack(rows).reshape(x.shape), self.experts * (used * score.mean(1)).sum(-1).mean()

    def loss(self, w, d):
        x, uneven, self.dropped = w["embed.weight"][d["tokens"][:, :-1]], 0, 0
        for i in range(self.layers):
            a, p = rms(x, w[f"{i}.ln1.weight"]), f"{i}.attn."
            q, k, v = (split_heads(a @ w[p + f"{n}.weight"].T, self.heads) for n in "qkv")
            x = x + join_heads(attend(rope(q), rope(k), v)) @ w[p + "o.weight"].T
            y, more = self.moe(rms(x, w[f"{i}.ln2.weight"]), w, f"{i}.moe.")
            x, uneven = x + y, uneven + more
        assert self.dropped, "every choice has a slot: what becomes of those without is not tested"
        return next_token(rms(x, w["norm.weight"]) @ w["embed.weight"].T, d["tokens"]) + self.balancing * uneven


@kind
class Dropless(SharedExperts):
    ffn, experts = 8, 6

    def shapes(self):
        s = {n: shape for n, shape in super().shapes().items() if ".moe." not in n}
        for i in range(self.layers):
            s[f"{i}.moe.gate.weight"] = (self.experts, self.hidden)
            for e in range(self.experts):
                s |= {f"{i}.moe.experts.{e}.{n}.weight": (self.ffn, self.hidden) for n in ("gate", "up")}
                s[f"{i}.moe.experts.{e}.down.weight"] = (self.hidden, self.ffn)
        return s

    def moe(self, x, w, p):
        """One expert after the other, on all positions that chose it."""
        score = torch.softmax(x @ w[p + "gate.weight"].T, -1)
        share, chosen = torch.topk(score, self.best)
        share = share / share.sum(-1, keepdim=True)
        y, flat = torch.zeros_like(x).flatten(0, 1), x.flatten(0, 1)
        for e in range(self.experts):
            at, k = torch.where(chosen.flatten(0, 1) == e)
            u = [w[p + f"experts.{e}.{n}.weight"].T for n in ("gate", "up", "down")]
            y = y.index_add(0, at, share.flatten(0, 1)[at, k, None] * (F.silu(flat[at] @ u[0]) * (flat[at] @ u[1]) @ u[2]))
        used = F.one_hot(chosen, self.experts).to(x.dtype).sum(2).sum(1)
        self.dropped += int((used == 0).sum()) * int((used > 1.25 * self.best * self.seq / self.experts).sum())
        return y.reshape(x.shape), self.experts * (used / self.seq * score.mean(1)).sum(-1).mean()


@kind
class ExpertChoice(Twin):
    layers, hidden, ffn, experts, slots, vocab, seq, batch = 2, 16, 8, 4, 3, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "pos.weight": (self.seq, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.weight": (h,) for n in ("ln1", "ln2", "mix")} | {f"{i}.moe.gate.weight": (self.experts, h)}
            for e in range(self.experts):
                s |= {f"{i}.moe.experts.{e}.up.weight": (self.ffn, h), f"{i}.moe.experts.{e}.down.weight": (h, self.ffn)}
        return s

    def moe(self, x, w, p):
        score = torch.softmax(x @ w[p + "gate.weight"].T, -1)
        y = torch.zeros_like(x)
        for e in range(self.experts):
            share, chosen = torch.topk(score[:, :, e], self.slots)
            at = chosen[..., None].expand(-1, -1, x.shape[-1])
            u = F.silu(x.gather(1, at) @ w[p + f"experts.{e}.up.weight"].T) @ w[p + f"experts.{e}.down.weight"].T
            y = y.scatter_add(1, at, share[..., None] * u)
        return y

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]] + w["pos.weight"]
        for i in range(self.layers):
            a = rms(x, w[f"{i}.ln1.weight"]) * w[f"{i}.mix.weight"]
            x = x + a.cumsum(1) / torch.arange(1, self.seq + 1, dtype=x.dtype)[:, None]
            x = x + self.moe(rms(x, w[f"{i}.ln2.weight"]), w, f"{i}.moe.")
        return next_token(rms(x, w["norm.weight"]) @ w["embed.weight"].T, d["tokens"])


class Signs(torch.optim.SGD):
    """Steps of a fixed size."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data -= group["lr"] * p.grad.sign()


@kind
class GroupedExperts(Twin):
    layers, hidden, heads, ffn, vocab, seq, batch, experts, groups, kept, best = 2, 16, 2, 8, 32, 8, 4, 8, 4, 2, 2

    def shapes(self):
        h, f = self.hidden, self.ffn
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.ln1.weight": (h,), f"{i}.ln2.weight": (h,), f"{i}.moe.gate.weight": (self.experts, h), f"{i}.moe.bias": (self.experts,)}
            s |= {f"{i}.attn.{n}.weight": (h, h) for n in "qkvo"}
            for e in [f"experts.{e}" for e in range(self.experts)] + ["shared"]:
                s |= {f"{i}.moe.{e}.up.weight": (f, h), f"{i}.moe.{e}.down.weight": (h, f)}
        return s

    def follows(self, name):
        return "bias_loss" if name.endswith(".bias") else "loss"

    def optimizer(self, loss, weights):
        return super().optimizer(loss, weights) if loss == "loss" else (Signs(weights), (lambda step: 0.05), math.inf)

    def chosen(self, score):
        """The experts of each position, one position after the other."""
        rows = []
        for row in score.flatten(0, 1).tolist():
            size = self.experts // self.groups
            groups = [row[g * size:(g + 1) * size] for g in range(self.groups)]
            best = sorted(range(self.groups), key=lambda g: -sum(sorted(groups[g])[-2:]))[:self.kept]
            among = [e for e in range(self.experts) if e // size in best]
            rows.append(sorted(among, key=lambda e: -row[e])[:self.best])
        return torch.tensor(rows).reshape(*score.shape[:2], self.best)

    def layer(self, x, w, p):
        def unit(name, u):
            return F.silu(u @ w[p + f"moe.{name}.up.weight"].T) @ w[p + f"moe.{name}.down.weight"].T

        a = rms(x, w[p + "ln1.weight"])
        q, k, v = (split_heads(a @ w[p + f"attn.{n}.weight"].T, self.heads) for n in "qkv")
        x = x + join_heads(attend(rope(q), rope(k), v)) @ w[p + "attn.o.weight"].T
        h = rms(x, w[p + "ln2.weight"])
        score = torch.sigmoid(h @ w[p + "moe.gate.weight"].T)
        taken = F.one_hot(self.chosen((score + w[p + "moe.bias"]).detach()), self.experts).sum(2).to(x.dtype)
        share = 2.5 * score * taken / (score * taken).sum(-1, keepdim=True)
        y = sum(share[..., e, None] * unit(f"experts.{e}", h) for e in range(self.experts))
        used = taken.sum((0, 1))
        return x + y + unit("shared", h), (used - used.mean()) @ w[p + "moe.bias"]

    def losses(self, w, d):
        x, uneven = w["embed.weight"][d["tokens"][:, :-1]], 0
        for i in range(self.layers):
            x, more = self.layer(x, w, f"{i}.")
            uneven = uneven + more
        return {"loss": next_token(rms(x, w["norm.weight"]) @ w["embed.weight"].T, d["tokens"]), "bias_loss": uneven}

    def loss(self, w, d):
        return self.losses(w, d)["loss"]
