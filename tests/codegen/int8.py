"""Writes int8.txt: what bitsandbytes makes of rows of numbers in int8, for test_int8.c.

    python3 tests/codegen/int8.py >tests/codegen/int8.txt       with torch and bitsandbytes

All is bitsandbytes': int8_vectorwise_quant and int8_vectorwise_dequant of its default backend, but in rows of zeros, where it divides 0
by 0 and casts what is no number to an integer: of these codes 0 is written. A case is a line `case NAME rows columns`, then the words
of its numbers, codes (as bytes), absmax, and the dequantised numbers, floats as their bits."""

import bitsandbytes
import bitsandbytes.functional as functional
import torch


def cases():
    g = torch.Generator().manual_seed(2)
    normal = lambda *n, s=0.02: torch.randn(n, generator=g) * s
    yield "normal", normal(40, 300)
    zeros = normal(5, 33)
    zeros[2] = 0
    yield "zero_row", zeros
    huge = normal(3, 50)
    huge[1, 7] = 3e38
    yield "huge", huge
    yield "tiny", normal(4, 31, s=1e-36)
    halves = torch.arange(-127, 127).float() + 0.5  # of units of 1: those in the middle go to the even one
    yield "ties", torch.cat([halves, torch.tensor([127.0, -127.0])]).expand(3, -1) * torch.tensor([[1.0], [2.0], [0.25]])
    yield "bf16", normal(9, 128).bfloat16().float()


def floats(x):
    return " ".join(f"{v & 0xffffffff:x}" for v in x.reshape(-1).contiguous().view(torch.int32).tolist())


def main():
    print(f"# by tests/codegen/int8.py, bitsandbytes {bitsandbytes.__version__}")
    for name, x in cases():
        codes, absmax, _ = functional.int8_vectorwise_quant(x.clone())
        codes[absmax == 0] = 0
        y = functional.int8_vectorwise_dequant(codes, absmax)
        print(f"case {name} {x.shape[0]} {x.shape[1]}")
        for line in (floats(x), " ".join(f"{v & 255:x}" for v in codes.reshape(-1).tolist()), floats(absmax), floats(y)):
            print(line)


if __name__ == "__main__":
    main()
