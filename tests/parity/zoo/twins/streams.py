"""Models of several streams of tokens, and of several tokens ahead."""

import torch
import torch.nn.functional as F

from .attention import Plain
from .twin import kind, rms


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
