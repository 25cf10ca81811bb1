"""Models of two things that belong to each other: a source and its translation, an image and its text."""

import math

import torch
import torch.nn.functional as F

from .twin import Twin, attend, cross_entropy, join_heads, kind, rms, split_heads
from .vision import linear, linear_shapes


@kind
class EncoderDecoder(Twin):
    layers, depth, hidden, heads, head, ffn, vocab, source, seq, batch = 2, 1, 16, 2, 8, 16, 32, 8, 4, 4

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "pos.source.weight": (self.source, h), "pos.target.weight": (self.seq, h),
             "encoder.norm.weight": (h,), "decoder.norm.weight": (h,)}
        stacks = [(f"encoder.{i}.", ("attn",)) for i in range(self.layers)]
        stacks += [(f"decoder.{i}.", ("attn", "cross")) for i in range(self.depth)]
        for p, looks in stacks:
            s |= {p + f"{a}.{n}.weight": (h, h) for a in looks for n in "qkvo"}
            s |= {p + f"ln{i + 1}.weight": (h,) for i in range(len(looks) + 1)}
            s |= {p + "mlp.up.weight": (self.ffn, h), p + "mlp.down.weight": (h, self.ffn)}
        return s

    def inputs(self, draw):
        src = torch.randint(0, self.vocab, (self.batch, self.source), generator=draw)
        target = torch.randint(0, self.vocab, (self.batch, self.seq + 1), generator=draw)
        length = torch.tensor([8, 5, 3, 7])[:, None]
        return {"src": src, "pad": (torch.arange(self.source) >= length).float(), "tgt": target[:, :-1],
                "label": target[:, 1:], "weight": torch.rand((self.batch, self.seq), generator=draw)}

    def attention(self, x, y, w, p, hidden=None, causal=False):
        q = split_heads(x @ w[p + "q.weight"].T, self.heads)
        k, v = (split_heads(y @ w[p + f"{n}.weight"].T, self.heads) for n in "kv")
        if hidden is None:
            return join_heads(attend(q, k, v, causal=causal)) @ w[p + "o.weight"].T
        s = (q @ k.transpose(-1, -2) / math.sqrt(self.head)).masked_fill(hidden[:, None, None] > 0, -math.inf)
        return join_heads(torch.softmax(s, -1) @ v) @ w[p + "o.weight"].T

    def mlp(self, x, w, p):
        return F.relu(x @ w[p + "up.weight"].T) @ w[p + "down.weight"].T

    def loss(self, w, d):
        m = w["embed.weight"][d["src"]] + w["pos.source.weight"]
        for i in range(self.layers):
            p = f"encoder.{i}."
            a = rms(m, w[p + "ln1.weight"])
            m = m + self.attention(a, a, w, p + "attn.", d["pad"])
            m = m + self.mlp(rms(m, w[p + "ln2.weight"]), w, p + "mlp.")
        m = rms(m, w["encoder.norm.weight"])
        x = w["embed.weight"][d["tgt"]] + w["pos.target.weight"]
        for i in range(self.depth):
            p = f"decoder.{i}."
            a = rms(x, w[p + "ln1.weight"])
            x = x + self.attention(a, a, w, p + "attn.", causal=True)
            x = x + self.attention(rms(x, w[p + "ln2.weight"]), m, w, p + "cross.", d["pad"])
            x = x + self.mlp(rms(x, w[p + "ln3.weight"]), w, p + "mlp.")
        z = rms(x, w["decoder.norm.weight"]) @ w["embed.weight"].T
        each = F.cross_entropy(z.flatten(0, 1), d["label"].flatten(), reduction="none")
        return (each * d["weight"].flatten()).sum() / d["weight"].sum()


@kind
class T5(Twin):
    layers, depth, hidden, heads, ffn, vocab, source, seq, batch, buckets, reach = 2, 2, 16, 2, 16, 32, 8, 6, 4, 8, 9

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "encoder.norm.weight": (h,), "decoder.norm.weight": (h,),
             "encoder.relative.weight": (self.buckets, self.heads), "decoder.relative.weight": (self.buckets, self.heads)}
        stacks = [(f"encoder.{i}.", ("attn",)) for i in range(self.layers)]
        stacks += [(f"decoder.{i}.", ("attn", "cross")) for i in range(self.depth)]
        for p, looks in stacks:
            s |= {p + f"{a}.{n}.weight": (h, h) for a in looks for n in "qkvo"}
            s |= {p + f"ln{i + 1}.weight": (h,) for i in range(len(looks) + 1)}
            s |= {p + "mlp.up.weight": (self.ffn, h), p + "mlp.down.weight": (h, self.ffn)}
        return s

    def inputs(self, draw):
        target = torch.randint(0, self.vocab, (self.batch, self.seq + 1), generator=draw)
        return {"src": torch.randint(0, self.vocab, (self.batch, self.source), generator=draw),
                "tgt": target[:, :-1], "label": target[:, 1:]}

    def bias(self, table, n, both):
        """[heads, query, key]: of each bucket of distances one number; half of the buckets are of one distance each."""
        ahead = torch.arange(n) - torch.arange(n)[:, None]
        count = self.buckets // 2 if both else self.buckets
        first = (ahead > 0) * count if both else 0
        far = ahead.abs() if both else (-ahead).clamp(min=0)
        exact = count // 2
        log = torch.log(far.clamp(min=1).double() / exact) / math.log(self.reach / exact) * (count - exact)
        bucket = first + torch.where(far < exact, far, (exact + log).long().clamp(max=count - 1))
        return table[bucket].permute(2, 0, 1)

    def attention(self, x, y, w, p, bias=0, causal=False):
        q = split_heads(x @ w[p + "q.weight"].T, self.heads)
        k, v = (split_heads(y @ w[p + f"{n}.weight"].T, self.heads) for n in "kv")
        s = q @ k.transpose(-1, -2) + bias
        if causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
        return join_heads(torch.softmax(s, -1) @ v) @ w[p + "o.weight"].T

    def loss(self, w, d):
        def mlp(x, p):
            return F.relu(x @ w[p + "up.weight"].T) @ w[p + "down.weight"].T

        near = self.bias(w["encoder.relative.weight"], self.source, True)
        past = self.bias(w["decoder.relative.weight"], self.seq, False)
        m, x = w["embed.weight"][d["src"]], w["embed.weight"][d["tgt"]]
        for p in (f"encoder.{i}." for i in range(self.layers)):
            a = rms(m, w[p + "ln1.weight"])
            m = m + self.attention(a, a, w, p + "attn.", near)
            m = m + mlp(rms(m, w[p + "ln2.weight"]), p + "mlp.")
        m = rms(m, w["encoder.norm.weight"])
        for p in (f"decoder.{i}." for i in range(self.depth)):
            a = rms(x, w[p + "ln1.weight"])
            x = x + self.attention(a, a, w, p + "attn.", past, causal=True)
            x = x + self.attention(rms(x, w[p + "ln2.weight"]), m, w, p + "cross.")
            x = x + mlp(rms(x, w[p + "ln3.weight"]), p + "mlp.")
        return cross_entropy(rms(x, w["decoder.norm.weight"]) @ w["embed.weight"].T, d["label"])


@kind
class Clip(Twin):
    pixels, hidden, shared, vocab, words, batch = 16, 16, 8, 32, 4, 8

    def shapes(self):
        h = self.hidden
        return linear_shapes("image.up", h, self.pixels) | {
            "image.down.weight": (self.shared, h), "text.embed.weight": (self.vocab, h),
            "text.down.weight": (self.shared, h), "scale.bias": (1,)}

    def inputs(self, draw):
        return {"image": torch.randn((self.batch, self.pixels), generator=draw),
                "text": torch.randint(0, self.vocab, (self.batch, self.words), generator=draw)}

    def loss(self, w, d):
        a = F.normalize(F.gelu(linear(d["image"], w, "image.up")) @ w["image.down.weight"].T, dim=-1)
        b = F.normalize(w["text.embed.weight"][d["text"]].mean(1) @ w["text.down.weight"].T, dim=-1)
        s = torch.exp(w["scale.bias"]) * a @ b.T
        right = torch.arange(self.batch)
        return (F.cross_entropy(s, right) + F.cross_entropy(s.T, right)) / 2


@kind
class Siamese(Twin):
    layers, pixels, hidden, ffn, shared, margin, batch = 2, 12, 16, 24, 8, 1.5, 8

    def shapes(self):
        h, s = self.hidden, {}
        for i in range(self.layers):
            s |= linear_shapes(f"tower.layers.{i}.mlp.up", self.ffn, h) | {f"tower.layers.{i}.mlp.down.weight": (h, self.ffn)}
        return s | {"tower.wide.weight": (h, self.pixels), "tower.narrow.weight": (self.shared, h)}

    def inputs(self, draw):
        left = torch.randn((self.batch, self.pixels), generator=draw)
        return {"left": left, "right": left + torch.randn((self.batch, self.pixels), generator=draw),
                "same": torch.randint(0, 2, (self.batch,), generator=draw)}

    def tower(self, x, w):
        h = x @ w["tower.wide.weight"].T
        for i in range(self.layers):
            p = f"tower.layers.{i}.mlp."

            def mlp(h, p=p):
                return h + torch.tanh(linear(h, w, p + "up")) @ w[p + "down.weight"].T

            h = mlp(0.5 * mlp(h))
        return h @ w["tower.narrow.weight"].T

    def loss(self, w, d):
        far = torch.sqrt((self.tower(d["left"], w) - self.tower(d["right"], w)).square().mean(-1) + 1e-6)
        return torch.where(d["same"] == 1, far**2, F.relu(self.margin - far) ** 2).mean()
