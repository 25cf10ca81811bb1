"""Models that make what they are shown; their noise is an input."""

import math

import torch
import torch.nn.functional as F

from .twin import Twin, kind
from .vision import linear, linear_shapes


@kind
class Vae(Twin):
    pixels, hidden, latent, batch = 16, 16, 4, 8

    def shapes(self):
        h = self.hidden
        return (linear_shapes("enc", h, self.pixels) | linear_shapes("mu", self.latent, h)
                | linear_shapes("logvar", self.latent, h) | linear_shapes("dec", h, self.latent)
                | linear_shapes("out", self.pixels, h))

    def inputs(self, draw):
        return {"x": torch.rand((self.batch, self.pixels), generator=draw),
                "noise": torch.randn((self.batch, self.latent), generator=draw)}

    def loss(self, w, d):
        h = torch.tanh(linear(d["x"], w, "enc"))
        mu, logvar = linear(h, w, "mu"), linear(h, w, "logvar")
        z = mu + torch.exp(logvar / 2) * d["noise"]
        logits = linear(torch.tanh(linear(z, w, "dec")), w, "out")
        missed = F.binary_cross_entropy_with_logits(logits, d["x"], reduction="none").sum(-1)
        apart = torch.distributions.kl_divergence(torch.distributions.Normal(mu, torch.exp(logvar / 2)),
                                                  torch.distributions.Normal(0.0, 1.0)).sum(-1)
        return (missed + apart).mean()


@kind
class Diffusion(Twin):
    layers, point, hidden, rate, batch = 2, 8, 16, 8, 8

    def shapes(self):
        h = self.hidden
        s = linear_shapes("time", self.rate, self.rate) | linear_shapes("in", h, self.point)
        s |= linear_shapes("out", self.point, h)
        for i in range(self.layers):
            s |= {f"{i}.dense.weight": (h, h)} | linear_shapes(f"{i}.scale", h, self.rate)
            s |= linear_shapes(f"{i}.shift", h, self.rate)
        return s

    def inputs(self, draw):
        return {"x": torch.randn((self.batch, self.point), generator=draw),
                "noise": torch.randn((self.batch, self.point), generator=draw),
                "time": 0.1 + 0.8 * torch.rand((self.batch,), generator=draw)}

    def loss(self, w, d):
        def norm(x):
            return F.layer_norm(x, x.shape[-1:], eps=1e-6)

        angle, t = math.pi / 2 * d["time"][:, None], d["time"][:, None]
        noisy = torch.cos(angle) * d["x"] + torch.sin(angle) * d["noise"]
        speed = 100 ** (-torch.arange(self.rate, dtype=t.dtype) / self.rate)
        emb = F.silu(linear(torch.sin(100 * t * speed) + torch.cos(50 * t * speed), w, "time"))
        h = linear(noisy, w, "in")
        for i in range(self.layers):
            u = norm(h) * (1 + linear(emb, w, f"{i}.scale")) + linear(emb, w, f"{i}.shift")
            h = h + F.silu(u @ w[f"{i}.dense.weight"].T)
        each = F.mse_loss(linear(norm(h), w, "out"), d["noise"], reduction="none").mean(-1)
        return (each * (1 + d["time"])).mean()
