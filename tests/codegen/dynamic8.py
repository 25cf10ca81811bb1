#!/usr/bin/env python3
"""Writes dynamic8.txt: how bitsandbytes rounds numbers to its dynamic maps, and what their codes are. Needs PyTorch and bitsandbytes.

    f32 TYPE BITS CODE          the float of these bits becomes this number of TYPE
    wide TYPE CODE BITS         this number of TYPE is the float of these bits

With --tables it prints the tables of runtime/dynamic8.h instead. dynamic8 is the map with a sign, udynamic8 the one without; CODE is
the number's place in it, of dynamic8 less 127, in 8 bits. A float becomes the one that quantize_blockwise of bitsandbytes' default
backend gives: the place among the middles of neighbours. Where no middle is near, the library's own function gives the same.
All numbers are in base 16."""

import os
import struct
import sys

import torch
from bitsandbytes import functional

MAPS = {"dynamic8": functional.create_dynamic_map(signed=True), "udynamic8": functional.create_dynamic_map(signed=False)}


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def number(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def byte(name, place):
    return (place - 127) % 256 if name == "dynamic8" else place


def rounded(name, x):
    code = MAPS[name]
    middles = (code[:-1] + code[1:]) / 2
    return torch.bucketize(torch.clamp(x, -1, 1), middles)


def floats(name):
    """Each number, each middle, and what is beside them; some of all sizes; what is beyond."""
    code = MAPS[name]
    edges = torch.cat([code, (code[:-1] + code[1:]) / 2])
    up, down = torch.tensor(torch.inf), torch.tensor(-torch.inf)
    g = torch.Generator().manual_seed(8)
    size = 10 ** (torch.rand(600, generator=g) * 9 - 9)
    some = size if name == "udynamic8" else size * torch.sign(torch.randn(600, generator=g))
    low = torch.tensor([-torch.inf, -2.0, -1.0, -1e-30, -0.0] if name == "dynamic8" else [-0.5, -0.0])
    return torch.cat([edges, torch.nextafter(edges, up), torch.nextafter(edges, down), some, low,
                      torch.tensor([0.0, 1e-45, 1.0, 1.5, torch.inf])])


def check(name):
    """The library's own function, on blocks whose largest number is 1."""
    g = torch.Generator().manual_seed(9)
    x = torch.rand(64, 256, generator=g) ** 4
    if name == "dynamic8":
        x = x * torch.sign(torch.randn(x.shape, generator=g))
    x[:, 0] = 1
    got, state = functional.quantize_blockwise(x.flatten().contiguous(), code=MAPS[name].clone(), blocksize=256)
    assert bool((state.absmax == 1).all())
    apart = (got.long() != rounded(name, x.flatten())).sum().item()
    print(f"{name}: {apart} of {x.numel()} otherwise in the library", file=sys.stderr)


def short(x):
    for n in range(1, 10):
        s = f"{x:.{n}g}"
        if bits(float(s)) == bits(x):
            return (s if "." in s or "e" in s else s + ".0") + "f"
    raise ValueError(x)


def tables():
    for name, code in MAPS.items():
        numbers = code[code >= 0].tolist()
        line = "   "
        print(f"MG_DYNAMIC8_TABLE float mg_{name}[{len(numbers)}] = {{")
        for i, x in enumerate(numbers):
            more = " " + short(x) + ("," if i + 1 < len(numbers) else "};")
            if len(line) + len(more) > 98:
                print(line)
                line = "   "
            line += more
        print(line)


def main():
    if "--tables" in sys.argv:
        tables()
        return
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "dynamic8.txt"), "w", encoding="ascii") as out:
        for name, code in MAPS.items():
            check(name)
            x = floats(name)
            for v, place in zip(x.tolist(), rounded(name, x).tolist()):
                print("f32", name, f"{bits(v):x} {byte(name, place):x}", file=out)
            for place, v in enumerate(code.tolist()):
                print("wide", name, f"{byte(name, place):x} {bits(v):x}", file=out)


if __name__ == "__main__":
    main()
