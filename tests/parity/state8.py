"""Golden state of 8 bits: state8.py writes golden/state8.json.

Needs torch, numpy and bitsandbytes; the test (e2e/test_state8.py) does not. A vector w is pulled towards x, with the gradient
2 (w - x), for STEPS steps: by bitsandbytes' AdamW8bit, and by the rule of prelude.mg in float32, operation by operation, whose moments
bitsandbytes' map rounds. The second has the bits that a program is to have. The first differs in the order of float32's operations
(fused multiplications), so a number that lies by a middle of the map may become the neighbour."""

import base64
import json
import math
import os

import bitsandbytes
import numpy
import torch
from bitsandbytes import functional
from bitsandbytes.backends.cpu import ops as cpu

HERE = os.path.dirname(os.path.abspath(__file__))
MANY, STEPS, BLOCK = 4096 + 256 * 4, 12, 256
LR, BETAS, EPS, DECAY = 0.01, (0.9, 0.999), 1e-8, 0.1
f32 = numpy.float32


def target(i):
    """Of many sizes, so that blocks have numbers of all decades of the map."""
    return ((i * 7919 % 10007) / 10007 - 0.5) * 10.0 ** -(i * 31 % 6)


def kept(m, signed):
    """What is kept of m: places in the map, and the largest number of each block."""
    code = functional.create_dynamic_map(signed=signed)
    blocks = torch.from_numpy(m).reshape(-1, BLOCK)
    absmax = blocks.abs().max(dim=1).values
    places = torch.bucketize(blocks / absmax[:, None], (code[:-1] + code[1:]) / 2)
    return places.numpy().astype(numpy.uint8).flatten(), absmax.numpy()


def wide(places, absmax, signed):
    code = functional.create_dynamic_map(signed=signed).numpy()
    return (code[places].reshape(-1, BLOCK) * absmax[:, None]).flatten()


def by_rule(x):
    w, m, v = (numpy.zeros(MANY, f32) for _ in range(3))
    for step in range(1, STEPS + 1):
        b1, b2 = BETAS
        c1, c2 = (1 - math.exp(step * math.log(b)) for b in BETAS)
        g = (w - x) * f32(2)
        m = m * f32(b1) + g * f32(1 - b1)
        v = v * f32(b2) + g * g * f32(1 - b2)
        w = w * f32(1 - LR * DECAY)
        w = w - m / (numpy.sqrt(v) / f32(math.sqrt(c2)) + f32(EPS)) * f32(LR / c1)
        first, second = kept(m, True), kept(v, False)
        m, v = wide(*first, True), wide(*second, False)
    return w, *first, *second


def quantized(values, code, absmax, out, blocksize):
    """As quantize_blockwise of bitsandbytes' default backend, which its CPU library does not follow to the bit."""
    blocks = values.reshape(-1, blocksize)
    absmax.copy_(blocks.abs().max(dim=-1)[0])
    scaled = torch.clamp(blocks * (1.0 / absmax.clamp(min=1e-38).view(-1, 1)), -1, 1)
    out.copy_(torch.bucketize(scaled, (code[:-1] + code[1:]) / 2).to(torch.uint8).reshape(out.shape))


def by_bitsandbytes(x):
    cpu._quant_blockwise_fp32_direct = quantized
    w = torch.nn.Parameter(torch.zeros(MANY))
    optimizer = bitsandbytes.optim.AdamW8bit([w], lr=LR, betas=BETAS, eps=EPS, weight_decay=DECAY)
    for _ in range(STEPS):
        w.grad = (w.detach() - torch.from_numpy(x)) * 2
        optimizer.step()
    s = optimizer.state[w]
    return tuple(t.detach().numpy() for t in (w, s["state1"], s["absmax1"], s["state2"], s["absmax2"]))


def main():
    x = numpy.array([target(i) for i in range(MANY)], f32)
    out = {"many": MANY, "steps": STEPS, "lr": LR, "betas": BETAS, "eps": EPS, "decay": DECAY}
    ends = {"rule": by_rule(x), "bitsandbytes": by_bitsandbytes(x)}
    for name, end in ends.items():
        keys = ("w", "first", "first_absmax", "second", "second_absmax")
        out[name] = {k: base64.b64encode(numpy.ascontiguousarray(a).tobytes()).decode() for k, a in zip(keys, end)}
    a, b = ends["rule"], ends["bitsandbytes"]
    print("w apart by", abs(a[0] - b[0]).max(), "absmax", abs(a[2] / b[2] - 1).max(), abs(a[4] / b[4] - 1).max(),
          "codes otherwise", (a[1] != b[1]).sum(), (a[3] != b[3]).sum(), "by", abs(a[1].astype(int) - b[1]).max(),
          abs(a[3].astype(int) - b[3]).max())
    with open(os.path.join(HERE, "golden", "state8.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
