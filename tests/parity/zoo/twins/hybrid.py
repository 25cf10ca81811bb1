"""Layers of several kinds in one model."""

import torch
import torch.nn.functional as F

from .experts import SharedExperts
from .twin import attend, join_heads, kind, next_token, rms, rope, split_heads


@kind
class Hybrid(SharedExperts):
    layers, hidden, heads, ffn, wide, taps, vocab, seq, batch = 8, 16, 2, 8, 24, 3, 32, 8, 4
    every, dense, slots = 3, 1, 5

    def attends(self, i):
        return i % self.every == self.every - 1

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.ln1.weight": (h,), f"{i}.ln2.weight": (h,)}
            if self.attends(i):
                s |= {f"{i}.attn.{n}.weight": (h, h) for n in "qkvo"}
            else:
                s |= {f"{i}.past.gate.weight": (h,), f"{i}.past.conv.weight": (h, self.taps)}
            if i < self.dense:
                s |= {f"{i}.mlp.up.weight": (self.wide, h), f"{i}.mlp.down.weight": (h, self.wide)}
            else:
                s |= {f"{i}.moe.gate.weight": (self.experts, h)}
                for e in range(self.experts):
                    s |= {f"{i}.moe.experts.{e}.up.weight": (self.ffn, h),
                          f"{i}.moe.experts.{e}.down.weight": (h, self.ffn)}
        return s

    def mix(self, x, w, p):
        if p + "attn.q.weight" in w:
            q, k, v = (split_heads(x @ w[p + f"attn.{n}.weight"].T, self.heads) for n in "qkv")
            return join_heads(attend(rope(q), rope(k), v)) @ w[p + "attn.o.weight"].T
        taps = w[p + "past.conv.weight"].flip(-1)[:, None]
        y = F.conv1d(F.pad(x.transpose(1, 2), (self.taps - 1, 0)), taps, groups=self.hidden).transpose(1, 2)
        return torch.sigmoid(x * w[p + "past.gate.weight"]) * y

    def feed(self, x, w, p):
        if p + "mlp.up.weight" in w:
            return F.silu(x @ w[p + "mlp.up.weight"].T) @ w[p + "mlp.down.weight"].T
        w = w | {p + f"moe.shared.{n}.weight": x.new_zeros(shape)
                 for n, shape in (("up", (1, self.hidden)), ("down", (self.hidden, 1)))}
        return self.moe(x, w, p + "moe.")[0]

    def loss(self, w, d):
        x, self.dropped = w["embed.weight"][d["tokens"][:, :-1]], 0
        for i in range(self.layers):
            x = x + self.mix(rms(x, w[f"{i}.ln1.weight"]), w, f"{i}.")
            x = x + self.feed(rms(x, w[f"{i}.ln2.weight"]), w, f"{i}.")
        return next_token(rms(x, w["norm.weight"]) @ w["embed.weight"].T, d["tokens"])
