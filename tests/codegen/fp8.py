#!/usr/bin/env python3
"""Writes fp8.txt: how PyTorch converts numbers to e4m3 and e5m2, and back. Needs PyTorch.

    bf16 TYPE FIRST LAST CODE   the bf16 of these bits become this number of TYPE (all 65,536 are in one such line)
    f32 TYPE BITS CODE          the same of a float
    wide TYPE CODE BITS         this number of TYPE is the float of these bits

Numbers are capped at the largest one of TYPE before they are converted, as torchao's to_fp8_saturated does: then all versions of
PyTorch give the same. All numbers are in base 16."""

import os
import struct

import torch

TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def code(x, dtype):
    top = torch.finfo(dtype).max
    return x.clamp(-top, top).to(dtype).view(torch.uint8).tolist()


def floats(bits):
    return torch.tensor([struct.unpack("<f", struct.pack("<I", b))[0] for b in bits], dtype=torch.float32)


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def interesting(dtype):
    """Each number of the type, what is between neighbours, and the floats beside these; with subnormal floats, infinity, NaN."""
    values = sorted({v for v in torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32).tolist()
                     if v == v and abs(v) != float("inf")})
    bits = {0, 1, 0x7fffff, 0x800000, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x80000000, 0x80000001, 0xff800000, 0xffc00000}
    for low, high in zip(values, values[1:]):
        for x in (low, (low + high) / 2):
            bits.update(max(0, bits_of(x) + d) for d in (-1, 0, 1))
    g = torch.Generator().manual_seed(1)
    for e in range(-20, 18):
        bits.update(bits_of(x) for x in (torch.randn(6, generator=g) * 2.0 ** e).tolist())
    return sorted(b for b in bits if b < 2 ** 32)


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fp8.txt"), "w", encoding="ascii") as out:
        for name, dtype in TYPES.items():
            halves = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16).to(torch.float32)
            codes = code(halves, dtype)
            first = 0
            for b in range(1, 65537):
                if b == 65536 or codes[b] != codes[first]:
                    print(f"bf16 {name} {first:04x} {b - 1:04x} {codes[first]:02x}", file=out)
                    first = b
            bits = interesting(dtype)
            for b, c in zip(bits, code(floats(bits), dtype)):
                print(f"f32 {name} {b:08x} {c:02x}", file=out)
            for c, x in enumerate(torch.arange(256, dtype=torch.uint8).view(dtype).to(torch.float32).tolist()):
                print(f"wide {name} {c:02x} {bits_of(x):08x}", file=out)


if __name__ == "__main__":
    main()
