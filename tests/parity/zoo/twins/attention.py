"""Transformers that differ in what attention sees, and in how a layer is put together."""

import itertools
import math

import torch
import torch.nn.functional as F

from .twin import (Twin, attend, cross_entropy, hidden_from, join_heads, kind, layer_norm, next_token, rms, rope,
                   sizes, split_heads)


def norm_shapes(h, *names):
    return {f"{n}.{part}": (h,) for n in names for part in ("weight", "bias")}


@kind
class Gemma2(Twin):
    layers, hidden, kv, group, head, ffn, vocab, seq, batch = 4, 8, 2, 2, 4, 16, 64, 8, 4
    score_cap, logit_cap, near = 2.0, 3.0, 3

    def shapes(self):
        h, q, kv = self.hidden, self.kv * self.group * self.head, self.kv * self.head
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for p in (f"{i}." for i in range(self.layers)):
            s |= {p + f"ln{i}.weight": (h,) for i in (1, 2, 3, 4)}
            s |= {p + "attn.q_proj.weight": (q, h), p + "attn.k_proj.weight": (kv, h),
                  p + "attn.v_proj.weight": (kv, h), p + "attn.o_proj.weight": (h, q),
                  p + "mlp.gate_proj.weight": (self.ffn, h), p + "mlp.up_proj.weight": (self.ffn, h),
                  p + "mlp.down_proj.weight": (h, self.ffn)}
        return s

    def attention(self, x, w, p, window):
        q, k, v = (split_heads(x @ w[p + f"{n}_proj.weight"].T, heads)
                   for n, heads in (("q", self.kv * self.group), ("k", self.kv), ("v", self.kv)))
        q, k = rope(q), rope(k)
        k, v = k.repeat_interleave(self.group, 1), v.repeat_interleave(self.group, 1)
        s = self.score_cap * torch.tanh(q @ k.transpose(-1, -2) / math.sqrt(self.head) / self.score_cap)
        t = torch.arange(x.shape[1])
        back = t[:, None] - t
        s = s.masked_fill((back < 0) | (back >= window), -math.inf)
        return join_heads(torch.softmax(s, -1) @ v) @ w[p + "o_proj.weight"].T

    def mlp(self, x, w, p):
        gate = F.gelu(x @ w[p + "gate_proj.weight"].T, approximate="tanh")
        return gate * (x @ w[p + "up_proj.weight"].T) @ w[p + "down_proj.weight"].T

    def loss(self, w, d):
        def norm(x, name):
            return rms(x, 1 + w[name + ".weight"])

        x = w["embed.weight"][d["tokens"][:, :-1]] * math.sqrt(self.hidden)
        for i in range(self.layers):
            p, window = f"{i}.", self.seq if i % 2 else self.near
            x = x + norm(self.attention(norm(x, p + "ln1"), w, p + "attn.", window), p + "ln2")
            x = x + norm(self.mlp(norm(x, p + "ln3"), w, p + "mlp."), p + "ln4")
        z = norm(x, "norm") @ w["embed.weight"].T
        return next_token(self.logit_cap * torch.tanh(z / self.logit_cap), d["tokens"])


@kind
class Alibi(Twin):
    layers, hidden, heads, ffn, vocab, seq, batch = 2, 16, 4, 16, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h)} | norm_shapes(h, "norm")
        for i in range(self.layers):
            s |= norm_shapes(h, f"{i}.ln1", f"{i}.ln2")
            s |= {f"{i}.attn.{n}.weight": (h, h) for n in "qkvo"}
            s |= {f"{i}.mlp.up.weight": (self.ffn, h), f"{i}.mlp.up.bias": (self.ffn,),
                  f"{i}.mlp.down.weight": (h, self.ffn), f"{i}.mlp.down.bias": (h,)}
        return s

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        t = torch.arange(self.seq)
        slope = 2.0 ** (-8 / self.heads * torch.arange(1, self.heads + 1, dtype=x.dtype))
        bias = -slope[:, None, None] * (t[:, None] - t)
        for i in range(self.layers):
            a = layer_norm(x, w, f"{i}.ln1")
            q, k, v = (split_heads(a @ w[f"{i}.attn.{n}.weight"].T, self.heads) for n in "qkv")
            s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias
            s = s.masked_fill(hidden_from(self.seq), -math.inf)
            x = x + join_heads(torch.softmax(s, -1) @ v) @ w[f"{i}.attn.o.weight"].T
            u = layer_norm(x, w, f"{i}.ln2") @ w[f"{i}.mlp.up.weight"].T + w[f"{i}.mlp.up.bias"]
            x = x + F.gelu(u) @ w[f"{i}.mlp.down.weight"].T + w[f"{i}.mlp.down.bias"]
        return next_token(layer_norm(x, w, "norm") @ w["embed.weight"].T, d["tokens"])


@kind
class Falcon(Twin):
    layers, hidden, heads, head, ffn, vocab, seq, batch = 2, 16, 4, 4, 32, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h)} | norm_shapes(h, "norm")
        for i in range(self.layers):
            s |= norm_shapes(h, f"{i}.ln")
            s |= {f"{i}.attn.q.weight": (h, h), f"{i}.attn.k.weight": (self.head, h),
                  f"{i}.attn.v.weight": (self.head, h), f"{i}.attn.o.weight": (h, h),
                  f"{i}.mlp.up.weight": (self.ffn, h), f"{i}.mlp.down.weight": (h, self.ffn)}
        return s

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            a = layer_norm(x, w, f"{i}.ln")
            q = rope(split_heads(a @ w[f"{i}.attn.q.weight"].T, self.heads))
            k, v = (split_heads(a @ w[f"{i}.attn.{n}.weight"].T, 1) for n in "kv")
            o = join_heads(attend(q, rope(k), v)) @ w[f"{i}.attn.o.weight"].T
            x = x + o + F.gelu(a @ w[f"{i}.mlp.up.weight"].T) @ w[f"{i}.mlp.down.weight"].T
        return next_token(layer_norm(x, w, "norm") @ w["embed.weight"].T, d["tokens"])


@kind
class Neox(Twin):
    layers, hidden, heads, turn, ffn, vocab, seq, batch = 2, 16, 2, 4, 16, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "unembed.weight": (self.vocab, h)} | norm_shapes(h, "norm")
        for i in range(self.layers):
            s |= norm_shapes(h, f"{i}.ln1", f"{i}.ln2")
            s |= {f"{i}.attn.qkv.weight": (3 * h, h), f"{i}.attn.qkv.bias": (3 * h,)}
            s |= {f"{i}.attn.o.weight": (h, h), f"{i}.attn.o.bias": (h,)}
            s |= {f"{i}.mlp.up.weight": (self.ffn, h), f"{i}.mlp.down.weight": (h, self.ffn)}
        return s

    def turned(self, x):
        return torch.cat((rope(x[..., :self.turn]), x[..., self.turn:]), -1)

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            a, p = layer_norm(x, w, f"{i}.ln1"), f"{i}.attn."
            q, k, v = split_heads(a @ w[p + "qkv.weight"].T + w[p + "qkv.bias"], self.heads).chunk(3, -1)
            o = join_heads(attend(self.turned(q), self.turned(k), v)) @ w[p + "o.weight"].T + w[p + "o.bias"]
            u = F.gelu(layer_norm(x, w, f"{i}.ln2") @ w[f"{i}.mlp.up.weight"].T)
            x = x + o + u @ w[f"{i}.mlp.down.weight"].T
        return next_token(layer_norm(x, w, "norm") @ w["unembed.weight"].T, d["tokens"])


@kind
class Phi3(Twin):
    layers, hidden, kv, group, head, turn, ffn, vocab, seq, batch = 2, 16, 2, 2, 6, 4, 12, 32, 8, 4
    near = 5

    def shapes(self):
        h, q, kv = self.hidden, self.kv * self.group * self.head, self.kv * self.head
        s = {"embed.weight": (self.vocab, h), "unembed.weight": (self.vocab, h), "norm.weight": (h,)}
        for p in (f"{i}." for i in range(self.layers)):
            s |= {p + "ln1.weight": (h,), p + "ln2.weight": (h,),
                  p + "attn.qkv.weight": (q + 2 * kv, h), p + "attn.qkv.bias": (q + 2 * kv,), p + "attn.o.weight": (h, q),
                  p + "mlp.gate_up.weight": (h, 2 * self.ffn), p + "mlp.down.weight": (h, self.ffn)}
        return s

    def attention(self, x, w, p):
        y = x @ w[p + "qkv.weight"].T + w[p + "qkv.bias"]
        q, k, v = y.split((self.kv * self.group * self.head, self.kv * self.head, self.kv * self.head), -1)
        q, k, v = split_heads(q, self.kv * self.group), split_heads(k, self.kv), split_heads(v, self.kv)
        q, k = (torch.cat((rope(z[..., :self.turn]), z[..., self.turn:]), -1) for z in (q, k))
        k, v = (z.repeat_interleave(self.group, 1) for z in (k, v))
        t = torch.arange(self.seq)
        back = t[:, None] - t
        s = (q @ k.transpose(-1, -2) / math.sqrt(self.head)).masked_fill((back < 0) | (back >= self.near), -math.inf)
        return join_heads(torch.softmax(s, -1) @ v) @ w[p + "o.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for p in (f"{i}." for i in range(self.layers)):
            x = x + self.attention(rms(x, w[p + "ln1.weight"], 1e-5), w, p + "attn.")
            gate, up = (rms(x, w[p + "ln2.weight"], 1e-5) @ w[p + "mlp.gate_up.weight"]).chunk(2, -1)
            x = x + F.silu(gate) * up @ w[p + "mlp.down.weight"].T
        return next_token(rms(x, w["norm.weight"], 1e-5) @ w["unembed.weight"].T, d["tokens"])


def swiglu(x, w, p):
    return F.silu(x @ w[p + "gate.weight"].T) * (x @ w[p + "up.weight"].T) @ w[p + "down.weight"].T


@kind
class Mla(Twin):
    layers, hidden, heads, head, turn, latent, narrow, ffn = 2, 16, 2, 4, 4, 8, 4, 16
    vocab, seq, batch = 32, 8, 4

    def shapes(self):
        h, n = self.hidden, self.heads * self.head
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= sizes(**{
                f"{i}.ln1": (h,), f"{i}.ln2": (h,),
                f"{i}.attn.q_a": (self.narrow, h), f"{i}.attn.q_norm": (self.narrow,),
                f"{i}.attn.q_b": (n, self.narrow), f"{i}.attn.q_rope": (self.heads * self.turn, self.narrow),
                f"{i}.attn.kv_a": (self.latent, h), f"{i}.attn.kv_norm": (self.latent,),
                f"{i}.attn.k_b": (n, self.latent), f"{i}.attn.v_b": (n, self.latent),
                f"{i}.attn.k_rope": (self.turn, h), f"{i}.attn.o": (h, n),
                f"{i}.mlp.gate": (self.ffn, h), f"{i}.mlp.up": (self.ffn, h), f"{i}.mlp.down": (h, self.ffn)})
        return s

    def attention(self, x, w, p):
        a = rms(x @ w[p + "q_a.weight"].T, w[p + "q_norm.weight"])
        c = rms(x @ w[p + "kv_a.weight"].T, w[p + "kv_norm.weight"])
        still, turned = (split_heads(a @ w[p + f"{n}.weight"].T, self.heads) for n in ("q_b", "q_rope"))
        k, v = (split_heads(c @ w[p + f"{n}_b.weight"].T, self.heads) for n in "kv")
        shared = rope(split_heads(x @ w[p + "k_rope.weight"].T, 1)).expand(-1, self.heads, -1, -1)
        q, k = torch.cat((still, rope(turned)), -1), torch.cat((k, shared), -1)
        return join_heads(attend(q, k, v)) @ w[p + "o.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            x = x + self.attention(rms(x, w[f"{i}.ln1.weight"]), w, f"{i}.attn.")
            x = x + swiglu(rms(x, w[f"{i}.ln2.weight"]), w, f"{i}.mlp.")
        return next_token(rms(x, w["norm.weight"]) @ w["embed.weight"].T, d["tokens"])


@kind
class Ngpt(Twin):
    layers, hidden, heads, head, ffn, vocab, seq, batch = 2, 16, 4, 4, 16, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = sizes(embed=(self.vocab, h), unembed=(self.vocab, h), logit_scale=(self.vocab,))
        for i in range(self.layers):
            s |= {f"{i}.attn.{n}.weight": (h, h) for n in "qkvo"}
            s |= sizes(**{f"{i}.attn.scale": (h,), f"{i}.mlp.up_scale": (self.ffn,), f"{i}.mlp.gate_scale": (self.ffn,),
                          f"{i}.mlp.gate": (self.ffn, h), f"{i}.mlp.up": (self.ffn, h), f"{i}.mlp.down": (h, self.ffn),
                          f"{i}.a.rate": (h,), f"{i}.m.rate": (h,)})
        return s

    def loss(self, w, d):
        def unit(x, dim=-1):
            return x / torch.linalg.vector_norm(x, dim=dim, keepdim=True)

        def towards(x, y, rate):
            return unit(x + rate.abs() * (unit(y) - x))

        x = unit(w["embed.weight"])[d["tokens"][:, :-1]]
        for i in range(self.layers):
            p = f"{i}.attn."
            q, k, v = (split_heads(x @ unit(w[p + f"{n}.weight"]).T, self.heads) for n in "qkv")
            scale = w[p + "scale.weight"].reshape(self.heads, 1, self.head)
            a = attend(rope(unit(q) * scale), rope(unit(k) * scale), v, scale=math.sqrt(self.head))
            x = towards(x, join_heads(a) @ unit(w[p + "o.weight"], 0).T, w[f"{i}.a.rate.weight"])
            p = f"{i}.mlp."
            u = x @ unit(w[p + "up.weight"]).T * w[p + "up_scale.weight"]
            g = x @ unit(w[p + "gate.weight"]).T * w[p + "gate_scale.weight"] * math.sqrt(self.hidden)
            x = towards(x, u * F.silu(g) @ unit(w[p + "down.weight"], 0).T, w[f"{i}.m.rate.weight"])
        return next_token(x @ unit(w["unembed.weight"]).T * w["logit_scale.weight"], d["tokens"])


@kind
class Albert(Twin):
    layers, hidden, heads, ffn, narrow, vocab, seq, batch = 3, 16, 2, 32, 8, 32, 8, 4

    def shapes(self):
        h = self.hidden
        return {"embed.weight": (self.vocab, self.narrow), "widen.weight": (h, self.narrow), "up.weight": (self.ffn, h),
                "down.weight": (h, self.ffn)} | {f"{n}.weight": (h, h) for n in "qkvo"} | norm_shapes(h, "ln1", "ln2")

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]] @ w["widen.weight"].T
        for _ in range(self.layers):
            q, k, v = (split_heads(x @ w[f"{n}.weight"].T, self.heads) for n in "qkv")
            h = layer_norm(x + join_heads(attend(rope(q), rope(k), v)) @ w["o.weight"].T, w, "ln1", 1e-6)
            u = F.gelu(h @ w["up.weight"].T, approximate="tanh")
            x = layer_norm(h + u @ w["down.weight"].T, w, "ln2", 1e-6)
        return next_token(x @ w["widen.weight"] @ w["embed.weight"].T, d["tokens"])


class Plain(Twin):
    """A transformer that several twins begin from: RMS norms, rotary positions, silu."""

    layers, hidden, heads, ffn, vocab, seq, batch = 2, 16, 2, 16, 32, 8, 4

    def shapes(self):
        s = {"embed.weight": (self.vocab, self.hidden), "norm.weight": (self.hidden,)}
        for i in range(self.layers):
            s |= self.layer_shapes(f"{i}.")
        return s

    def layer_shapes(self, p):
        h = self.hidden
        return {p + f"{n}.weight": (h,) for n in ("ln1", "ln2")} | {p + f"attn.{n}.weight": (h, h) for n in "qkvo"} | {
            p + "mlp.up.weight": (self.ffn, h), p + "mlp.down.weight": (h, self.ffn)}

    def layer(self, x, w, p):
        a = rms(x, w[p + "ln1.weight"])
        q, k, v = (split_heads(a @ w[p + f"attn.{n}.weight"].T, self.heads) for n in "qkv")
        x = x + join_heads(attend(rope(q), rope(k), v)) @ w[p + "attn.o.weight"].T
        return x + F.silu(rms(x, w[p + "ln2.weight"]) @ w[p + "mlp.up.weight"].T) @ w[p + "mlp.down.weight"].T

    def body(self, w, tokens):
        x = w["embed.weight"][tokens]
        for i in range(self.layers):
            x = self.layer(x, w, f"{i}.")
        return x

    def logits(self, w, tokens):
        return rms(self.body(w, tokens), w["norm.weight"]) @ w["embed.weight"].T


@kind
class Lora(Plain):
    low, strength = 2, 4

    def shapes(self):
        s = {}
        for n, shape in super().shapes().items():
            s[n.replace(".weight", ".base.weight")] = shape
            if ".q." in n or ".v." in n:
                s[n.replace("weight", "lora_A.weight")] = (self.low, self.hidden)
                s[n.replace("weight", "lora_B.weight")] = (self.hidden, self.low)
        return s

    def learns(self, name):
        return ".lora_" in name

    def loss(self, w, d):
        merged = {n.replace(".base", ""): t for n, t in w.items() if ".base." in n}
        for n in [n for n in w if "lora_A" in n]:
            into = n.replace("lora_A.", "")
            merged[into] = merged[into] + self.strength / self.low * w[n.replace("_A", "_B")] @ w[n]
        return next_token(self.logits(merged, d["tokens"][:, :-1]), d["tokens"])


@kind
class Documents(Twin):
    layers, hidden, kv, group, head, ffn, vocab, seq, batch = 2, 16, 2, 2, 4, 16, 32, 8, 4

    def shapes(self):
        h, n = self.hidden, self.kv * self.head
        s = {"embed.weight": (self.vocab, h), "pos.weight": (self.seq, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.weight": (h,) for n in ("ln1", "ln2")}
            s |= {f"{i}.attn.q.weight": (h, h), f"{i}.attn.k.weight": (n, h), f"{i}.attn.v.weight": (n, h),
                  f"{i}.attn.o.weight": (h, h), f"{i}.mlp.up.weight": (self.ffn, h), f"{i}.mlp.down.weight": (h, self.ffn)}
        return s

    def inputs(self, draw):
        ids, target = torch.randint(0, self.vocab, (2, self.batch, self.seq), generator=draw)
        begins = torch.rand((self.batch, self.seq), generator=draw) < 0.3
        doc = begins.long().cumsum(1)
        at = torch.arange(self.seq).expand(self.batch, -1)
        spot = at - torch.where(begins, at, 0).cummax(1).values
        weight = torch.cat((~begins[:, 1:], torch.zeros(self.batch, 1, dtype=torch.bool)), 1)
        return {"ids": ids, "target": target, "doc": doc.float(), "spot": spot, "weight": weight.float()}

    def attention(self, x, w, p, d):
        q, k, v = (split_heads(x @ w[p + f"{n}.weight"].T, n_heads)
                   for n, n_heads in (("q", self.kv * self.group), ("k", self.kv), ("v", self.kv)))
        k, v = k.repeat_interleave(self.group, 1), v.repeat_interleave(self.group, 1)
        apart = (d["doc"][:, :, None] != d["doc"][:, None, :])[:, None] | hidden_from(self.seq)
        s = (q @ k.transpose(-1, -2) / math.sqrt(self.head)).masked_fill(apart, -math.inf)
        return join_heads(torch.softmax(s, -1) @ v) @ w[p + "o.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["ids"]] + w["pos.weight"][d["spot"]]
        for i in range(self.layers):
            x = x + self.attention(rms(x, w[f"{i}.ln1.weight"]), w, f"{i}.attn.", d)
            u = rms(x, w[f"{i}.ln2.weight"]) @ w[f"{i}.mlp.up.weight"].T
            x = x + F.gelu(u, approximate="tanh") @ w[f"{i}.mlp.down.weight"].T
        z = rms(x, w["norm.weight"]) @ w["embed.weight"].T
        each = F.cross_entropy(z.flatten(0, 1), d["target"].flatten(), reduction="none")
        return (each * d["weight"].flatten()).sum() / d["weight"].sum()


@kind
class Packed(Twin):
    layers, hidden, kv, group, head, vhead, ffn, vocab, seq, batch = 2, 16, 2, 2, 4, 6, 16, 8, 24, 4
    mark, near, score_cap = 0, 5, 2.0

    def shapes(self):
        h, heads = self.hidden, self.kv * self.group
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.weight": (h,) for n in ("ln1", "ln2")}
            s |= {f"{i}.attn.q.weight": (heads * self.head, h), f"{i}.attn.k.weight": (self.kv * self.head, h),
                  f"{i}.attn.v.weight": (self.kv * self.vhead, h), f"{i}.attn.o.weight": (h, heads * self.vhead),
                  f"{i}.mlp.up.weight": (self.ffn, h), f"{i}.mlp.down.weight": (h, self.ffn)}
        return s

    def attention(self, x, w, p):
        """Of one document: x is (1, its tokens, hidden)."""
        q, k, v = (split_heads(x @ w[p + f"{n}.weight"].T, heads)
                   for n, heads in (("q", self.kv * self.group), ("k", self.kv), ("v", self.kv)))
        k, v = rope(k).repeat_interleave(self.group, 1), v.repeat_interleave(self.group, 1)
        s = self.score_cap * torch.tanh(rope(q) @ k.transpose(-1, -2) / math.sqrt(self.head) / self.score_cap)
        t = torch.arange(x.shape[1])
        back = t[:, None] - t
        s = s.masked_fill((back < 0) | (back >= self.near), -math.inf)
        return join_heads(torch.softmax(s, -1) @ v) @ w[p + "o.weight"].T

    def hidden_states(self, ids, w):
        """Those of a document by itself."""
        x = w["embed.weight"][ids][None]
        for i in range(self.layers):
            x = x + self.attention(rms(x, w[f"{i}.ln1.weight"]), w, f"{i}.attn.")
            u = rms(x, w[f"{i}.ln2.weight"]) @ w[f"{i}.mlp.up.weight"].T
            x = x + F.gelu(u, approximate="tanh") @ w[f"{i}.mlp.down.weight"].T
        return rms(x, w["norm.weight"])[0]

    def loss(self, w, d):
        rows = []
        for row in d["tokens"][:, :-1]:
            ends = [i + 1 for i in range(self.seq) if row[i] == self.mark or i == self.seq - 1]
            rows.append(torch.cat([self.hidden_states(row[a:b], w) @ w["embed.weight"].T for a, b in zip([0, *ends], ends)]))
        return next_token(torch.stack(rows), d["tokens"])


@kind
class Packing(Packed):
    """Documents of which no token is another's target, each computed by itself: that is all of the definition."""

    near, second = 9, 0.3
    windows = ((25,), (13, 12), (10, 9, 6), (8, 7, 5, 3))  # as first-fit decreasing puts them into windows of 25

    def shapes(self):
        return super().shapes() | {"ahead.weight": (self.vocab, self.hidden)}

    def inputs(self, draw):
        """Windows of two tokens more than targets; `documents` says where in it each token's document begins."""
        size = (self.batch, self.seq + 2)
        tokens, documents = torch.zeros(size, dtype=torch.long), torch.arange(self.seq + 2).repeat(self.batch, 1)
        weights = torch.zeros(size, dtype=torch.long)
        for row, lengths in enumerate(self.windows):
            for at, n in zip(itertools.accumulate((0, *lengths)), lengths):
                tokens[row, at:at + n] = torch.randint(0, self.vocab, (n,), generator=draw)
                weights[row, at:at + n] = torch.randint(0, 4, (n,), generator=draw)
                documents[row, at:at + n] = at
        return {"tokens": tokens, "documents": documents, "weights": weights}

    def loss(self, w, d):
        loss, weight = {1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}  # by distance
        for row, lengths in enumerate(self.windows):
            for at, n in zip(itertools.accumulate((0, *lengths)), lengths):
                ids, weights = d["tokens"][row, at:at + n], d["weights"][row, at:at + n]
                y = self.hidden_states(ids, w)
                for by, head in ((1, "embed.weight"), (2, "ahead.weight")):
                    each = F.cross_entropy(y[:n - by] @ w[head].T, ids[by:], reduction="none")
                    loss[by] = loss[by] + (each * weights[by:]).sum()
                    weight[by] = weight[by] + weights[by:].sum()
        return loss[1] / weight[1] + self.second * loss[2] / weight[2]


@kind
class MultiToken(Plain):
    share = 0.3

    def shapes(self):
        h = self.hidden
        return super().shapes() | self.layer_shapes("mtp.") | {
            "left.weight": (h,), "right.weight": (h,), "mtp.norm.weight": (h,), "meet.weight": (h, 2 * h)}

    def inputs(self, draw):
        tokens = torch.randint(0, self.vocab, (self.batch, self.seq + 2), generator=draw)
        return {"ids": tokens[:, :-2], "first": tokens[:, 1:-1], "second": tokens[:, 2:]}

    def loss(self, w, d):
        x = self.body(w, d["ids"])
        pair = (rms(x, w["left.weight"]), rms(w["embed.weight"][d["first"]], w["right.weight"]))
        y = self.layer(torch.cat(pair, -1) @ w["meet.weight"].T, w, "mtp.")
        one, two = (cross_entropy(rms(h, w[n]) @ w["embed.weight"].T, target)
                    for h, n, target in ((x, "norm.weight", d["first"]), (y, "mtp.norm.weight", d["second"])))
        return one + self.share * two


@kind
class Smoothing(Plain):
    spread, drawn = 0.1, 0.01

    def loss(self, w, d):
        z = self.logits(w, d["tokens"][:, :-1]).flatten(0, 1)
        smooth = F.cross_entropy(z, d["tokens"][:, 1:].flatten(), label_smoothing=self.spread)
        return smooth + self.drawn * torch.logsumexp(z, -1).square().mean()
