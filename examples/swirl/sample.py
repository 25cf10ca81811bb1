"""Samples of the exported denoiser, from noise to points in 40 steps (DDIM: Song, Meng, Ermon, 2021), and a picture of them,
samples.svg. The network is written a second time here, by lists: any program can read a checkpoint."""

import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tensors  # noqa: E402
from points import spiral  # noqa: E402

POINTS, STEPS, LAYERS, RATES, PAIR = 300, 40, 3, 8, 2
weights = tensors.read("denoiser/model.safetensors")


def dense(name, x):
    (rows, cols), w = weights[name + ".weight"]
    return [b + sum(map(float.__mul__, w[i * cols:(i + 1) * cols].tolist(), x)) for i, b in zip(range(rows), weights[name + ".bias"][1])]


def silu(x):
    return [v / (1 + math.exp(-v)) for v in x]


def said_noise(noisy, time):
    angles = [time * math.exp(0.5 * k) for k in range(RATES)]
    waves = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    h = [a + b for a, b in zip(dense("in", noisy), dense("time", waves))]
    for layer in range(LAYERS):
        h = [a + b for a, b in zip(h, dense(f"layers.{layer}", silu(h)))]
    return dense("out", silu(h))


def sample(x):
    """From time 1, at which a point is noise alone, to time 0."""
    for k in range(STEPS, 0, -1):
        now, then = math.pi / 2 * (k - 0.5) / STEPS, math.pi / 2 * max(k - 1.5, 0) / STEPS
        noise = said_noise(x, now / (math.pi / 2))
        clean = [(v - math.sin(now) * e) / math.cos(now) for v, e in zip(x, noise)]
        x = [math.cos(then) * c + math.sin(then) * e for c, e in zip(clean, noise)]
    return x


def from_spiral(point):
    """The distance to the spiral, and where on it the nearest place is (0 to 1)."""
    return min((math.dist(point, spiral(t / 400)), t / 400) for t in range(401))


def picture(samples, noise):
    def dots(points, shift, colour):
        return "".join(f'<circle cx="{shift + 45 * x:.1f}" cy="{110 - 45 * y:.1f}" r="1.6" fill="{colour}"/>' for x, y in points)

    curve = " ".join(f"{330 + 45 * x:.1f},{110 - 45 * y:.1f}" for x, y in (spiral(t / 200) for t in range(201)))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="440" height="220"><rect width="440" height="220" fill="white"/>'
            f'<polyline points="{curve}" fill="none" stroke="#ddd" stroke-width="6"/>{dots(noise, 110, "#999")}'
            f'{dots(samples, 330, "#06c")}</svg>\n')


if __name__ == "__main__":
    r = random.Random(7)
    start = [[r.gauss(0, 1), r.gauss(0, 1)] for _ in range(POINTS)]
    ends = [sample(x) for x in start]
    with open("samples.svg", "w", encoding="ascii") as f:
        f.write(picture(ends, start))
    for name, points in (("noise", start), ("samples", ends)):
        found = [from_spiral(p) for p in points]
        parts = [sum(k / 4 <= t < (k + 1) / 4 or (k == 3 and t == 1) for _, t in found) for k in range(4)]
        print(f"{name}: {sum(d for d, _ in found) / POINTS:.3f} from the spiral on average; nearest to its four parts:", *parts)
