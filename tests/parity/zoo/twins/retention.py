"""Sequences without softmax: states that fade, and recurrences."""

import math

import torch
import torch.nn.functional as F

from .twin import Twin, join_heads, kind, layer_norm, next_token, rms, rope, split_heads


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


@kind
class Mamba2(Twin):
    layers, hidden, heads, inner, state, tap, vocab, seq, batch = 2, 16, 4, 4, 4, 4, 32, 8, 4

    def shapes(self):
        h, n = self.hidden, self.heads * self.inner
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{name}": shape for name, shape in {
                "norm.weight": (h,), "x.weight": (n, h), "z.weight": (n, h), "b.weight": (self.state, h),
                "c.weight": (self.state, h), "dt.weight": (self.heads, h), "dt.bias": (self.heads,),
                "A_log.bias": (self.heads,), "D.weight": (self.heads,), "conv.weight": (n, self.tap),
                "conv.bias": (n,), "gate_norm.weight": (n,), "out.weight": (h, n)}.items()}
        return s

    def scan(self, u, dt, a, b, c):
        """The recurrence: h_t = exp(a dt) h + dt u b, y = h c; u is (batch, seq, heads, inner)."""
        state, out = torch.zeros(len(u), self.heads, self.inner, self.state, dtype=u.dtype), []
        for t in range(u.shape[1]):
            fade = torch.exp(a * dt[:, t])[:, :, None, None]
            state = fade * state + (dt[:, t, :, None] * u[:, t])[..., None] * b[:, t, None, None, :]
            out.append((state * c[:, t, None, None, :]).sum(-1))
        return torch.stack(out, 1)

    def mixer(self, x, w, p):
        n = rms(x, w[p + "norm.weight"], 1e-5)
        u = (n @ w[p + "x.weight"].T).transpose(1, 2)
        kernel = w[p + "conv.weight"].flip(-1)[:, None]  # conv1d weighs the oldest first; the taps here begin with the newest
        u = F.conv1d(F.pad(u, (self.tap - 1, 0)), kernel, w[p + "conv.bias"], groups=u.shape[1])
        u = F.silu(u.transpose(1, 2)).reshape(*x.shape[:2], self.heads, self.inner)
        dt = F.softplus(n @ w[p + "dt.weight"].T + w[p + "dt.bias"], threshold=1000)
        b, c = (n @ w[p + f"{k}.weight"].T for k in "bc")
        y = self.scan(u, dt, -torch.exp(w[p + "A_log.bias"]), b, c) + u * w[p + "D.weight"][:, None]
        g = y.flatten(2) * F.silu(n @ w[p + "z.weight"].T)
        return rms(g, w[p + "gate_norm.weight"], 1e-5) @ w[p + "out.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            x = x + self.mixer(x, w, f"{i}.")
        return next_token(rms(x, w["norm.weight"], 1e-5) @ w["embed.weight"].T, d["tokens"])


@kind
class Gru(Twin):
    hidden, narrow, vocab, seq, batch = 16, 8, 32, 8, 4

    def shapes(self):
        n = 3 * self.hidden
        return {"embed.weight": (self.vocab, self.narrow), "rnn.weight_ih": (n, self.narrow),
                "rnn.weight_hh": (n, self.hidden), "rnn.bias_ih": (n,), "rnn.bias_hh": (n,),
                "head.weight": (self.vocab, self.hidden)}

    def loss(self, w, d):
        cell = torch.nn.GRU(self.narrow, self.hidden, batch_first=True, dtype=torch.float64)
        named = {f"{n}_l0": w[f"rnn.{n}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
        out, _ = torch.func.functional_call(cell, named, w["embed.weight"][d["tokens"][:, :-1]])
        return next_token(out @ w["head.weight"].T, d["tokens"])


@kind
class Lstm(Twin):
    layers, hidden, vocab, seq, batch = 2, 16, 32, 8, 4
    PARTS = "weight_ih", "weight_hh", "bias_ih", "bias_hh"

    def shapes(self):
        n, h = 4 * self.hidden, self.hidden
        s = {"embed.weight": (self.vocab, h), "head.weight": (self.vocab, h)}
        for i in range(self.layers):
            s |= {f"rnn.{i}.weight_ih": (n, h), f"rnn.{i}.weight_hh": (n, h), f"rnn.{i}.bias_ih": (n,),
                  f"rnn.{i}.bias_hh": (n,)}
        return s

    def loss(self, w, d):
        cells = torch.nn.LSTM(self.hidden, self.hidden, self.layers, batch_first=True, dtype=torch.float64)
        named = {f"{n}_l{i}": w[f"rnn.{i}.{n}"] for n in self.PARTS for i in range(self.layers)}
        out, _ = torch.func.functional_call(cells, named, w["embed.weight"][d["tokens"][:, :-1]])
        return next_token(out @ w["head.weight"].T, d["tokens"])


@kind
class Tagger(Twin):
    features, hidden, classes, seq, batch = 8, 16, 6, 8, 4

    def shapes(self):
        n = 3 * self.hidden
        s = {"head.weight": (self.classes, 2 * self.hidden)}
        for i in range(2):
            s |= {f"rnn.{i}.weight_ih": (n, self.features), f"rnn.{i}.weight_hh": (n, self.hidden),
                  f"rnn.{i}.bias_ih": (n,), f"rnn.{i}.bias_hh": (n,)}
        return s

    def inputs(self, draw):
        return {"x": torch.randn((self.batch, self.seq, self.features), generator=draw),
                "y": torch.randint(0, self.classes, (self.batch, self.seq), generator=draw)}

    def loss(self, w, d):
        cells = torch.nn.GRU(self.features, self.hidden, batch_first=True, bidirectional=True, dtype=torch.float64)
        named = {f"{n}_l0{end}": w[f"rnn.{i}.{n}"] for n in Lstm.PARTS for i, end in enumerate(("", "_reverse"))}
        out, _ = torch.func.functional_call(cells, named, d["x"])
        return F.cross_entropy((out @ w["head.weight"].T).flatten(0, 1), d["y"].flatten())


@kind
class Rwkv(Twin):
    layers, hidden, ffn, vocab, seq, batch = 2, 16, 16, 32, 8, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "head.weight": (self.vocab, h), "norm.weight": (h,), "norm.bias": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.{part}": (h,) for n in ("ln1", "ln2") for part in ("weight", "bias")}
            s |= {f"{i}.att.{n}.weight": (h, h) for n in "rkvo"}
            s |= {f"{i}.{n}.mix": (h,) for n in ("att.r", "att.k", "att.v", "ffn.r", "ffn.k")}
            s |= {f"{i}.att.decay": (h,), f"{i}.att.first": (h,), f"{i}.ffn.r.weight": (h, h),
                  f"{i}.ffn.k.weight": (self.ffn, h), f"{i}.ffn.v.weight": (h, self.ffn)}
        return s

    def parts(self, x, w, p, names):
        """x mixed with the position before, by the shares of each name, times its matrix."""
        before = F.pad(x, (0, 0, 1, -1))
        for n in names:
            share = w[f"{p}.{n}.mix"]
            yield torch.lerp(before, x, share) @ w[f"{p}.{n}.weight"].T

    def wkv(self, k, v, w, p):
        """The mean of all values up to each position, weighed by exp of their keys less their distance's decay."""
        fade, out = torch.exp(w[p + ".decay"]), []
        for t in range(k.shape[1]):
            back = t - 1 - torch.arange(t, dtype=k.dtype)[:, None]
            weight = torch.cat((k[:, :t] - back * fade, k[:, t:t + 1] + w[p + ".first"]), 1).exp()
            out.append((weight * v[:, :t + 1]).sum(1) / weight.sum(1))
        return torch.stack(out, 1)

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            r, k, v = self.parts(layer_norm(x, w, f"{i}.ln1"), w, f"{i}.att", "rkv")
            x = x + (torch.sigmoid(r) * self.wkv(k, v, w, f"{i}.att")) @ w[f"{i}.att.o.weight"].T
            r, k = self.parts(layer_norm(x, w, f"{i}.ln2"), w, f"{i}.ffn", "rk")
            x = x + torch.sigmoid(r) * (F.relu(k)**2 @ w[f"{i}.ffn.v.weight"].T)
        return next_token(layer_norm(x, w, "norm") @ w["head.weight"].T, d["tokens"])


class LinearAttention(Twin):
    """Layers that read a state of each head; `extra` are a layer's own parameters, and step() is one position."""
    layers, hidden, heads, key, vocab, seq, batch = 2, 16, 4, 4, 32, 8, 4
    extra = {}

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.weight": (h, h) for n in "qkvgo"}
            s |= {f"{i}.norm.weight": (h,), f"{i}.out_norm.weight": (self.key,)}
            s |= {f"{i}.{n}": shape for n, shape in self.extra.items()}
        return s

    def mixer(self, x, w, p):
        n = rms(x, w[p + "norm.weight"], 1e-5)
        q, k, v = (split_heads(n @ w[p + f"{name}.weight"].T, self.heads) for name in "qkv")
        q, k, gates = self.prepare(n, q, k, w, p)
        state, out = torch.zeros(len(x), self.heads, self.key, self.key, dtype=x.dtype), []
        for t in range(x.shape[1]):
            state = self.step(state, k[:, :, t], v[:, :, t], *(g[:, t] for g in gates))
            out.append(torch.einsum("bhk,bhkv->bhv", q[:, :, t], state))
        y = rms(torch.stack(out, 2), w[p + "out_norm.weight"], 1e-5)
        return (join_heads(y) * F.silu(n @ w[p + "g.weight"].T)) @ w[p + "o.weight"].T

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            x = x + self.mixer(x, w, f"{i}.")
        return next_token(rms(x, w["norm.weight"], 1e-5) @ w["embed.weight"].T, d["tokens"])


@kind
class Gla(LinearAttention):
    extra = {"f.weight": (16, 16), "f.bias": (16,)}

    def prepare(self, n, q, k, w, p):
        gate = F.logsigmoid(n @ w[p + "f.weight"].T + w[p + "f.bias"]) / 4
        return q / math.sqrt(self.key), k, [gate.exp().unflatten(-1, (self.heads, self.key))]

    def step(self, state, k, v, gate):
        return gate[..., None] * state + k[..., :, None] * v[..., None, :]


@kind
class GatedDelta(LinearAttention):
    extra = {"a.weight": (4, 16), "b.weight": (4, 16), "A_log.bias": (4,), "dt.bias": (4,)}

    def prepare(self, n, q, k, w, p):
        dt = F.softplus(n @ w[p + "a.weight"].T + w[p + "dt.bias"], threshold=1000)
        q, k = (x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
        return q, k, [torch.exp(-torch.exp(w[p + "A_log.bias"]) * dt), torch.sigmoid(n @ w[p + "b.weight"].T)]

    def step(self, state, k, v, decay, part):
        """S (1 - part k k^T) + part v k^T of the faded state, as a matrix with a row for each element of a key."""
        kept = torch.eye(self.key, dtype=k.dtype) - part[..., None, None] * k[..., :, None] * k[..., None, :]
        return decay[..., None, None] * (kept @ state) + part[..., None, None] * k[..., :, None] * v[..., None, :]
