"""Sequences without softmax: states that fade, and recurrences."""

import math

import torch
import torch.nn.functional as F

from .twin import Twin, join_heads, kind, layer_norm, next_token, rope, split_heads


@kind
class Retnet(Twin):
    layers, hidden, heads, head, ffn, vocab, seq, batch = 2, 16, 4, 4, 16, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,), "norm.bias": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.{part}": (h,) for n in ("ln1", "ln2") for part in ("weight", "bias")}
            s |= {f"{i}.ret.{n}.weight": (h, h) for n in "qkvgo"}
            s |= {f"{i}.mlp.up.weight": (self.ffn, h), f"{i}.mlp.down.weight": (h, self.ffn)}
        return s

    def retention(self, x, w, p):
        """The recurrent form: a state of each head fades, and takes in key times value."""
        q, k, v = (split_heads(x @ w[p + f"{n}.weight"].T, self.heads) for n in "qkv")
        q, k = rope(q), rope(k) / math.sqrt(self.head)
        fade = (1 - 2.0 ** -(2 + torch.arange(self.heads, dtype=x.dtype)))[:, None, None]
        state, out = torch.zeros(len(x), self.heads, self.head, self.head, dtype=x.dtype), []
        for t in range(x.shape[1]):
            state = fade * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            out.append((q[:, :, t, None, :] @ state)[:, :, 0])
        y = F.layer_norm(torch.stack(out, 2), (self.head,), eps=1e-3)
        return F.silu(x @ w[p + "g.weight"].T) * join_heads(y) @ w[p + "o.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            x = x + self.retention(layer_norm(x, w, f"{i}.ln1"), w, f"{i}.ret.")
            u = F.gelu(layer_norm(x, w, f"{i}.ln2") @ w[f"{i}.mlp.up.weight"].T)
            x = x + u @ w[f"{i}.mlp.down.weight"].T
        return next_token(layer_norm(x, w, "norm") @ w["embed.weight"].T, d["tokens"])
