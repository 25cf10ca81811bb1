"""Models that draw noise, and the numbers that they draw: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, 2011), in plain integers."""

import math

import torch
import torch.nn.functional as F

from .generative import Diffusion, Vae
from .twin import Twin, join_heads, kind, split_heads
from .vision import linear, linear_shapes

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
    """The order of the rows in an epoch of a run with seed 0."""
    return permutation(mix(mix(0) ^ epoch), n)


def permutation(key, n):
    """Where each number below n goes (runtime/data/shuffle.c)."""
    half = 1
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


@kind
class Dit(Twin):
    draws = True
    layers, hidden, heads, ffn, rate, colour, size, patch, classes, batch = 2, 16, 2, 32, 4, 2, 4, 2, 4, 8

    def shapes(self):
        h, pixels = self.hidden, self.patch**2 * self.colour
        s = linear_shapes("x_embedder.proj", h, pixels) | {"y_embedder.embedding_table.weight": (self.classes + 1, h)}
        s |= linear_shapes("t_embedder.mlp.0", h, 2 * self.rate) | linear_shapes("t_embedder.mlp.2", h, h)
        for i in range(self.layers):
            for name, out, into in (("adaLN_modulation.1", 6 * h, h), ("attn.qkv", 3 * h, h), ("attn.proj", h, h), ("mlp.fc1", self.ffn, h),
                                    ("mlp.fc2", h, self.ffn)):
                s |= linear_shapes(f"blocks.{i}.{name}", out, into)
        return s | linear_shapes("final_layer.adaLN_modulation.1", 2 * h, h) | linear_shapes("final_layer.linear", pixels, h)

    def inputs(self, draw):
        return {"image": torch.randn((self.batch, self.colour, self.size, self.size), generator=draw),
                "label": torch.randint(0, self.classes, (self.batch,), generator=draw)}

    def waves(self, at, n):
        angle = at[..., None] * 10000 ** (-torch.arange(n, dtype=torch.float64) / n)
        return torch.sin(angle), torch.cos(angle)

    def loss(self, w, d):
        noise, rows, p, side = Noise(d), self.batch, self.patch, self.size // self.patch
        time, eps = noise.uniform("uniform", (rows,)), noise.normal("uniform_2", "uniform_3", d["image"].shape)
        label = torch.where(noise.uniform("uniform_4", (rows,)) < 0.25, self.classes, d["label"])
        angle = (math.pi / 2 * time)[:, None, None, None]
        noisy = torch.cos(angle) * d["image"] + torch.sin(angle) * eps
        kernel = w["x_embedder.proj.weight"].reshape(self.hidden, self.colour, p, p)
        x = F.conv2d(noisy, kernel, w["x_embedder.proj.bias"], stride=p).flatten(2).transpose(1, 2)
        high, wide = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        x = x + torch.cat(self.waves(wide.flatten(), self.hidden // 4) + self.waves(high.flatten(), self.hidden // 4), -1)
        c = torch.cat(self.waves(1000 * time, self.rate)[::-1], -1)
        c = linear(F.silu(linear(c, w, "t_embedder.mlp.0")), w, "t_embedder.mlp.2")
        c = F.silu(c + w["y_embedder.embedding_table.weight"][label])

        def changed(x, shift, scale):
            return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]

        for i in range(self.layers):
            at = f"blocks.{i}."
            m = linear(c, w, at + "adaLN_modulation.1").chunk(6, -1)
            q, k, v = (split_heads(t, self.heads) for t in linear(changed(x, m[0], m[1]), w, at + "attn.qkv").chunk(3, -1))
            x = x + m[2][:, None] * linear(join_heads(F.scaled_dot_product_attention(q, k, v)), w, at + "attn.proj")
            h = F.gelu(linear(changed(x, m[3], m[4]), w, at + "mlp.fc1"), approximate="tanh")
            x = x + m[5][:, None] * linear(h, w, at + "mlp.fc2")
        x = linear(changed(x, *linear(c, w, "final_layer.adaLN_modulation.1").chunk(2, -1)), w, "final_layer.linear")
        shown = F.fold(x.unflatten(-1, (p * p, self.colour)).transpose(2, 3).flatten(2).transpose(1, 2), (self.size, self.size), p, stride=p)
        return F.mse_loss(shown, eps)
