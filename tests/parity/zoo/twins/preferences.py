"""Language models that learn from what is preferred."""

import torch
import torch.nn.functional as F

from .attention import Plain
from .twin import Twin, kind


def log_probability(z, y):
    """Of each target."""
    return torch.log_softmax(z, -1).gather(-1, y[..., None])[..., 0]


@kind
class Dpo(Twin):
    hidden, ffn, vocab, seq, batch, beta = 16, 16, 32, 8, 4, 0.5

    def shapes(self):
        h = self.hidden
        return {f"{who}.{n}": shape for who in ("policy", "reference") for n, shape in {
            "embed.weight": (self.vocab, h), "mix.weight": (h,), "up.weight": (self.ffn, h),
            "down.weight": (h, self.ffn)}.items()}

    def learns(self, name):
        return name.startswith("policy.")

    def inputs(self, draw):
        tokens = torch.randint(0, self.vocab, (self.batch, 2, self.seq + 1), generator=draw)
        begins = torch.randint(1, self.seq - 1, (self.batch, 1, 1), generator=draw)
        weight = (torch.arange(self.seq) >= begins).float().expand(-1, 2, -1)
        return {"ids": tokens[..., :-1], "target": tokens[..., 1:], "weight": weight}

    def answers(self, w, who, d):
        x, rows = w[who + ".embed.weight"][d["ids"]] * w[who + ".mix.weight"], []
        state = torch.zeros_like(x[:, :, 0])
        for t in range(self.seq):  # what was before fades by e
            state = state * torch.exp(torch.tensor(-1.0, dtype=x.dtype)) + x[:, :, t]
            rows.append(state)
        x = torch.stack(rows, 2)
        x = x + F.silu(x @ w[who + ".up.weight"].T) @ w[who + ".down.weight"].T
        return (d["weight"] * log_probability(x @ w[who + ".embed.weight"].T, d["target"])).sum(-1)

    def loss(self, w, d):
        gain = self.answers(w, "policy", d) - self.answers(w, "reference", d)
        return -F.logsigmoid(self.beta * (gain[:, 0] - gain[:, 1])).mean()


@kind
class Grpo(Plain):
    low, high, kl = 0.8, 1.2, 0.1

    def inputs(self, draw):
        tokens = torch.randint(0, self.vocab, (self.batch, self.seq + 1), generator=draw)
        shape = (self.batch, self.seq)
        return {"ids": tokens[:, :-1], "act": tokens[:, 1:], "old": -4 + 0.5 * torch.randn(shape, generator=draw),
                "ref": -4 + 0.5 * torch.randn(shape, generator=draw), "advantage": torch.randn((self.batch,), generator=draw),
                "weight": (torch.rand(shape, generator=draw) < 0.8).float()}

    def loss(self, w, d):
        l = log_probability(self.logits(w, d["ids"]), d["act"])
        ratio, advantage = torch.exp(l - d["old"]), d["advantage"][:, None]
        gain = torch.minimum(ratio * advantage, ratio.clamp(self.low, self.high) * advantage)
        paid = torch.exp(d["ref"] - l) - (d["ref"] - l) - 1
        return (d["weight"] * (self.kl * paid - gain)).sum() / d["weight"].sum()

    def metrics(self, w, d):
        l, mask = log_probability(self.logits(w, d["ids"]), d["act"]), d["weight"].bool()
        far, ratio = d["ref"] - l, torch.exp(l - d["old"])
        outside = (ratio < self.low) | (ratio > self.high)
        return {"divergence": (torch.exp(far) - far - 1)[mask].mean(), "clipped": outside[mask].double().mean()}
