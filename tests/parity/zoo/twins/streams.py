"""Models of several streams of tokens, and of several tokens ahead."""

import torch
import torch.nn.functional as F

from .attention import Plain
from .noise import Noise
from .twin import Twin, attend, join_heads, kind, rms, split_heads


@kind
class TwoAhead(Plain):
    share, depth = 0.3, 2

    def shapes(self):
        h = self.hidden
        s = super().shapes()
        for d in range(self.depth):
            s |= self.layer_shapes(f"mtp.{d}.") | {f"mtp.{d}.{n}.weight": (h,) for n in ("left", "right", "norm")}
            s |= {f"mtp.{d}.meet.weight": (h, 2 * h)}
        return s

    def inputs(self, draw):
        tokens = torch.randint(0, self.vocab, (self.batch, self.seq + self.depth + 1), generator=draw)
        return {"tokens": tokens, "weights": torch.randint(0, 4, tokens.shape, generator=draw)}

    def loss(self, w, d):
        tokens, weights, table = d["tokens"], d["weights"], w["embed.weight"]

        def of(x, gain, by):
            z = rms(x, gain) @ table.T
            each = F.cross_entropy(z.flatten(0, 1), tokens[:, by:by + self.seq].flatten(), reduction="none")
            count = weights[:, by:by + self.seq].flatten()
            return (each * count).sum() / count.sum()

        x = self.body(w, tokens[:, :self.seq])
        loss = of(x, w["norm.weight"], 1)
        for k in range(self.depth):
            at = f"mtp.{k}."
            known = table[tokens[:, k + 1:k + 1 + self.seq]]
            pair = (rms(x, w[at + "left.weight"]), rms(known, w[at + "right.weight"]))
            x = self.layer(torch.cat(pair, -1) @ w[at + "meet.weight"].T, w, at)
            loss = loss + self.share * of(x, w[at + "norm.weight"], k + 2)
        return loss


def heads(x, memory, w, name, count, hide=None, causal=False):
    """Attention of x at the rows of another sequence, or its own; `hide`: which of those nobody sees."""
    q, k, v = (split_heads(t @ w[f"{name}.{n}.weight"].T, count) for t, n in ((x, "q"), (memory, "k"), (memory, "v")))
    if hide is None:
        return join_heads(attend(q, k, v, causal=causal)) @ w[name + ".o.weight"].T
    mask = torch.zeros(hide.shape, dtype=x.dtype).masked_fill(hide, float("-inf"))[:, None, None, :]
    return join_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)) @ w[name + ".o.weight"].T


@kind
class Translation(Twin):
    layers, hidden, count, ffn, vocab, words, source, seq, batch = 2, 16, 2, 16, 24, 20, 6, 5, 4

    def shapes(self):
        h, f = self.hidden, self.ffn
        s = {"from.weight": (self.vocab, h), "into.weight": (self.words, h), "norm.weight": (h,)}
        for i in range(self.layers):
            for part, looks, norms in (("encoder", ("attn",), 2), ("decoder", ("attn", "cross"), 3)):
                at = f"{part}.{i}."
                s |= {f"{at}{a}.{n}.weight": (h, h) for a in looks for n in "qkvo"}
                s |= {f"{at}ln{n + 1}.weight": (h,) for n in range(norms)}
                s |= {at + "mlp.up.weight": (f, h), at + "mlp.down.weight": (h, f)}
        return s

    def inputs(self, draw):
        text = torch.randint(1, self.vocab, (self.batch, self.source), generator=draw)
        target = torch.randint(1, self.words, (self.batch, self.seq + 1), generator=draw)
        for row in range(self.batch):
            text[row, self.source - row:] = 0
            target[row, self.seq + 1 - row:] = 0
        return {"text": text, "target": target}

    def loss(self, w, d):
        def mlp(x, name):
            return F.relu(x @ w[name + ".up.weight"].T) @ w[name + ".down.weight"].T

        def turned(n):
            return torch.arange(n, dtype=torch.float64).cos()[:, None]

        empty = d["text"] == 0
        m = w["from.weight"][d["text"]] + turned(self.source)
        for i in range(self.layers):
            at = f"encoder.{i}."
            n = rms(m, w[at + "ln1.weight"])
            m = m + heads(n, n, w, at + "attn", self.count, empty)
            m = m + mlp(rms(m, w[at + "ln2.weight"]), at + "mlp")
        x = w["into.weight"][d["target"][:, :-1]] + turned(self.seq)
        for i in range(self.layers):
            at = f"decoder.{i}."
            n = rms(x, w[at + "ln1.weight"])
            x = x + heads(n, n, w, at + "attn", self.count, causal=True)
            x = x + heads(rms(x, w[at + "ln2.weight"]), m, w, at + "cross", self.count, empty)
            x = x + mlp(rms(x, w[at + "ln3.weight"]), at + "mlp")
        z = rms(x, w["norm.weight"]) @ w["into.weight"].T
        return F.cross_entropy(z.flatten(0, 1), d["target"][:, 1:].flatten(), ignore_index=0)


@kind
class Masked(Twin):
    draws = True
    layers, hidden, count, vocab, seq, batch, mask = 2, 16, 2, 32, 8, 4, 3

    def shapes(self):
        h = self.hidden
        s = {"embed.weight": (self.vocab, h), "place.weight": (self.seq, h)}
        for i in range(self.layers):
            s |= {f"{i}.{n}.weight": (h, h) for n in "qkvo"} | {f"{i}.norm.weight": (h,)}
        return s

    def inputs(self, draw):
        return {"tokens": torch.randint(0, self.vocab, (self.batch, self.seq + 1), generator=draw)}

    def loss(self, w, d):
        ids, noise = d["tokens"][:, :-1], Noise(d)
        chosen, which = noise.uniform("uniform", ids.shape) < 0.4, noise.uniform("uniform_2", ids.shape)
        seen = torch.where(chosen, F.pad(ids, (1, 0))[:, :-1], ids)
        seen = torch.where(chosen & (which > 0.25), self.mask, seen)
        x = w["embed.weight"][seen] + w["place.weight"]
        for i in range(self.layers):
            n = rms(x, w[f"{i}.norm.weight"])
            x = x + torch.tanh(heads(n, n, w, str(i), self.count))
        return F.cross_entropy((x @ w["embed.weight"].T)[chosen], ids[chosen])
