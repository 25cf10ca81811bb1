"""Models with several losses, whose parameters follow one each."""

import torch

from .twin import Twin, kind
from .vision import linear, linear_shapes


@kind
class Gan(Twin):
    noise, pixels, hidden, layers, batch = 4, 10, 12, 2, 8

    def shapes(self):
        h = self.hidden
        s = {"generator.first.weight": (h, self.noise), "generator.last.weight": (self.pixels, h),
             "critic.first.weight": (h, self.pixels), "critic.last.bias": (h,)}
        for part in ("generator", "critic"):
            for i in range(self.layers):
                s |= linear_shapes(f"{part}.layers.{i}", h, h)
        return s

    def inputs(self, draw):
        return {"z": torch.randn((self.batch, self.noise), generator=draw),
                "x": 1 + torch.randn((self.batch, self.pixels), generator=draw)}

    def layers_of(self, h, w, part):
        for i in range(self.layers):
            h = h + torch.tanh(linear(h, w, f"{part}.layers.{i}"))
        return h

    def critic(self, x, w):
        return self.layers_of(x @ w["critic.first.weight"].T, w, "critic") @ w["critic.last.bias"]

    def losses(self, w, d):
        made = self.layers_of(d["z"] @ w["generator.first.weight"].T, w, "generator") @ w["generator.last.weight"].T
        fake, true = self.critic(made, w), self.critic(d["x"], w)
        return {"loss": 0.5 * ((fake - 1) ** 2).mean(), "critic_loss": 0.5 * (((true - 1) ** 2).mean() + (fake**2).mean())}

    def follows(self, name):
        return "critic_loss" if name.startswith("critic.") else "loss"

    def optimizer(self, loss, weights):
        if loss == "loss":
            return super().optimizer(loss, weights)
        return torch.optim.Adam(weights, betas=(0.5, 0.9), eps=1e-4), (lambda step: 0.02 * min(1, (step + 1) / 2)), 0.5
