"""Models with parameters that follow others: a teacher, a target network; averages of what is trained."""

import math

import torch
import torch.nn.functional as F

from .vision import linear, linear_shapes
from .twin import Twin, kind


@kind
class Byol(Twin):
    pixels, hidden, shared, layers, batch, steps = 10, 12, 6, 2, 8, 8

    def shapes(self):
        h, s = self.hidden, {"predictor.weight": (self.shared, self.shared)}
        for net in ("online", "target"):
            s |= {f"{net}.first.weight": (h, self.pixels), f"{net}.last.weight": (self.shared, h)}
            for i in range(self.layers):
                s |= linear_shapes(f"{net}.layers.{i}", h, h)
        return s

    def inputs(self, draw):
        left = torch.randn((self.batch, self.pixels), generator=draw)
        return {"left": left, "right": left + 0.3 * torch.randn((self.batch, self.pixels), generator=draw)}

    def learns(self, name):
        return not name.startswith("target.")

    def encoder(self, x, w, net):
        h = x @ w[net + ".first.weight"].T
        for i in range(self.layers):
            h = h + torch.tanh(linear(h, w, f"{net}.layers.{i}"))
        return h @ w[net + ".last.weight"].T

    def loss(self, w, d):
        def apart(x, y):
            x, y = (v / torch.sqrt((v * v).sum(-1, keepdim=True) + 1e-6) for v in (x, y))
            return ((x - y) ** 2).sum(-1).mean()

        def guess(x):
            return torch.tanh(self.encoder(x, w, "online")) @ w["predictor.weight"].T

        return apart(guess(d["left"]), self.encoder(d["right"], w, "target")) + apart(guess(d["right"]), self.encoder(d["left"], w, "target"))

    def follow(self, w, averages, step):
        beta = 1 - 0.3 * (math.cos(math.pi * step / self.steps) + 1) / 2
        for n in w:
            if n.startswith("target."):
                w[n].lerp_(w["online." + n[7:]], 1 - beta)
        beta = min(0.9, (1 + step) / (10 + step))
        for n in filter(self.learns, w):
            averages.setdefault(n, self.start[n]).mul_(beta).add_(w[n], alpha=1 - beta)


@kind
class Dqn(Twin):
    seen, hidden, layers, actions, batch, discount = 9, 14, 2, 4, 8, 0.9

    def shapes(self):
        s = {}
        for net in ("online", "target"):
            s |= linear_shapes(f"{net}.fc1", self.hidden, self.seen) | linear_shapes(f"{net}.fc2", self.actions, self.hidden)
            for i in range(self.layers):
                s |= linear_shapes(f"{net}.layers.{i}", self.hidden, self.hidden)
        return s

    def inputs(self, draw):
        return {"before": torch.randn((self.batch, self.seen), generator=draw), "after": torch.randn((self.batch, self.seen), generator=draw),
                "reward": 2 * torch.randn((self.batch,), generator=draw), "done": (torch.arange(self.batch) % 3 == 0).float(),
                "taken": torch.randint(0, self.actions, (self.batch,), generator=draw)}

    def learns(self, name):
        return not name.startswith("target.")

    def values(self, x, w, net):
        h = torch.tanh(linear(x, w, net + ".fc1"))
        for i in range(self.layers):
            h = h + torch.tanh(linear(h, w, f"{net}.layers.{i}"))
        return linear(h, w, net + ".fc2")

    def loss(self, w, d):
        with torch.no_grad():
            aim = d["reward"] + self.discount * (1 - d["done"]) * self.values(d["after"], w, "target").max(-1).values
        return F.smooth_l1_loss(self.values(d["before"], w, "online").gather(-1, d["taken"][:, None])[:, 0], aim)

    def follow(self, w, averages, step):
        if (step + 1) % 2 == 0:
            for n in w:
                if n.startswith("target."):
                    w[n].copy_(w["online." + n[7:]])
