"""Layers of several kinds in one model."""

import torch
import torch.nn.functional as F

from .experts import SharedExperts
from .retention import Mamba2
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


@kind
class Bamba(Mamba2):
    """Attention in some layers; the others' mixers read one product: gate, what the convolution takes, steps."""

    layers, queries, keys, ffn = 5, 4, 2, 16

    def attends(self, i):
        return i > 0 and i % 2 == 0

    def shapes(self):
        h, n = self.hidden, self.heads * self.inner
        mixed, kept = n + 2 * self.state, h * self.keys // self.queries
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{name}.weight": shape for name, shape in {
                "ln1": (h,), "ln2": (h,), "mlp.gate": (self.ffn, h), "mlp.up": (self.ffn, h), "mlp.down": (h, self.ffn)}.items()}
            if self.attends(i):
                s |= {f"{i}.attn.{name}.weight": (kept if name in "kv" else h, h) for name in "qkvo"}
            else:
                s |= {f"{i}.mamba.{name}": shape for name, shape in {
                    "in.weight": (n + mixed + self.heads, h), "conv.weight": (mixed, self.tap), "conv.bias": (mixed,),
                    "dt.bias": (self.heads,), "A_log.bias": (self.heads,), "D.weight": (self.heads,), "norm.weight": (n,),
                    "out.weight": (h, n)}.items()}
        return s

    def mixer(self, x, w, p):
        n, mixed = self.heads * self.inner, self.heads * self.inner + 2 * self.state
        z, c, dt = (x @ w[p + "in.weight"].T).split([n, mixed, self.heads], -1)
        kernel = w[p + "conv.weight"].flip(-1)[:, None]
        c = F.conv1d(F.pad(c.transpose(1, 2), (self.tap - 1, 0)), kernel, w[p + "conv.bias"], groups=mixed)
        u, b, c = F.silu(c).transpose(1, 2).split([n, self.state, self.state], -1)
        u = u.unflatten(-1, (self.heads, self.inner))
        dt = F.softplus(dt + w[p + "dt.bias"], threshold=1000)
        y = self.scan(u, dt, -torch.exp(w[p + "A_log.bias"]), b, c) + u * w[p + "D.weight"][:, None]
        return rms(y.flatten(2) * F.silu(z), w[p + "norm.weight"], 1e-5) @ w[p + "out.weight"].T

    def attention(self, x, w, p):
        q, k, v = (split_heads(x @ w[p + f"{n}.weight"].T, heads) for n, heads in zip("qkv", (self.queries, self.keys, self.keys)))
        return join_heads(attend(rope(q), rope(k), v)) @ w[p + "o.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            h = rms(x, w[f"{i}.ln1.weight"], 1e-5)
            x = x + (self.attention(h, w, f"{i}.attn.") if self.attends(i) else self.mixer(h, w, f"{i}.mamba."))
            h = rms(x, w[f"{i}.ln2.weight"], 1e-5)
            x = x + (F.silu(h @ w[f"{i}.mlp.gate.weight"].T) * (h @ w[f"{i}.mlp.up.weight"].T)) @ w[f"{i}.mlp.down.weight"].T
        return next_token(rms(x, w["norm.weight"], 1e-5) @ w["embed.weight"].T, d["tokens"])
