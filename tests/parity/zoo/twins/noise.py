"""Models that draw noise, and the numbers that they draw: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, 2011), in plain integers."""

import math

import torch
import torch.nn.functional as F

from .generative import Diffusion, Vae
from .twin import kind
from .vision import linear

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1


def philox(counter, key):
    """Four words of four, under a key of 64 bits."""
    c0, c1, c2, c3 = counter
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & WORD, (p0 >> 32) ^ c3 ^ k1, p0 & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


def mix(x):
    """SplitMix64's finalizer (Steele, Lea, Flood, 2014)."""
    x = (x + 0x9E3779B97F4A7C15) & LONG
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & LONG
    x = (x ^ x >> 27) * 0x94D049BB133111EB & LONG
    return x ^ x >> 31


def order(n, epoch):
    """The order of the rows in an epoch of a run with seed 0 (runtime/data/shuffle.c)."""
    key, half = mix(mix(0) ^ epoch), 1
    while half < 32 and n - 1 >> 2 * half:
        half += 1
    mask, rows = (1 << half) - 1, []
    for i in range(n):
        while True:
            left, right = i >> half, i & mask
            for turn in range(6):
                left, right = right, left ^ mix(key ^ mix(right << 8 | turn)) & mask
            i = left << half | right
            if i < n:
                break
        rows.append(i)
    return rows


def fnv(name):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 & LONG
    return h


class Noise:
    """What is drawn in a step, or (step -1) in an evaluation, with seed 0; `i` is the iteration of the loop around."""

    def __init__(self, d):
        self.step = d["step"]

    def uniform(self, path, shape, i=0):
        n, numbers = math.prod(shape), []
        step, first = (self.step, i * n) if self.step >= 0 else (LONG - i, 0)
        for e in range(first, first + n):
            words = philox((e // 4, e // 4 >> 32, step & WORD, step >> 32), fnv(path))
            numbers.append((words[e % 4] >> 8) / 2**24)
        return torch.tensor(numbers, dtype=torch.float64).reshape(shape)

    def normal(self, path, second, shape, i=0):
        return torch.sqrt(-2 * torch.log(1 - self.uniform(path, shape, i))) * torch.cos(2 * math.pi * self.uniform(second, shape, i))


@kind
class VaeNoise(Vae):
    draws = True

    def inputs(self, draw):
        return {"x": torch.rand((self.batch, self.pixels), generator=draw)}

    def loss(self, w, d):
        h = torch.tanh(linear(d["x"], w, "enc"))
        q = torch.distributions.Normal(linear(h, w, "mu"), torch.exp(linear(h, w, "logvar") / 2))
        z = q.mean + q.stddev * Noise(d).normal("uniform", "uniform_2", q.mean.shape)
        logits = linear(torch.tanh(linear(z, w, "dec")), w, "out")
        missed = F.binary_cross_entropy_with_logits(logits, d["x"], reduction="none").sum(-1)
        apart = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0)).sum(-1)
        return (missed + min(1, (d["steps"] + 1) / 4) * apart).mean()


@kind
class DiffusionNoise(Diffusion):
    draws = True

    def inputs(self, draw):
        return {"x": torch.randn((self.batch, self.point), generator=draw)}

    def loss(self, w, d):
        def norm(x):
            return F.layer_norm(x, x.shape[-1:], eps=1e-6)

        noise, rows = Noise(d), self.batch
        t = noise.uniform("uniform", (rows, 1))
        angle, eps = math.pi / 2 * t, noise.normal("uniform_2", "uniform_3", (rows, self.point))
        speed = 100 ** (-torch.arange(self.rate, dtype=t.dtype) / self.rate)
        emb = F.silu(linear(torch.sin(100 * t * speed) + torch.cos(50 * t * speed), w, "time"))
        h = linear(torch.cos(angle) * d["x"] + torch.sin(angle) * eps, w, "in")
        for i in range(self.layers):
            u = norm(h) * (1 + linear(emb, w, f"{i}.scale")) + linear(emb, w, f"{i}.shift")
            gain = 1 + 0.1 * noise.normal("layers.uniform", "layers.uniform_2", (self.hidden,), i)
            h = h + F.silu(u @ w[f"{i}.dense.weight"].T) * gain + 0.1 * noise.uniform("layers.uniform_3", (rows, self.hidden), i)
        each = F.mse_loss(linear(norm(h), w, "out"), eps, reduction="none").mean(-1)
        return (each * (1 + t[:, 0])).mean()
