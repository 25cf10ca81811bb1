"""Writes nf4.txt: what bitsandbytes makes of numbers in NF4 with double quantisation, for test_nf4.c.

    python3 tests/codegen/nf4.py >tests/codegen/nf4.txt       with torch and bitsandbytes

The offset, torch's mean of the absmax, is a sum of floats in an order that depends on the device; here it is summed in double. All
else is bitsandbytes': quantize_4bit, quantize_blockwise and dequantize_4bit of its default backend. A case is a line `case NAME n
blocks`, then the words of its numbers, codes, absmax, bits of the nested absmax, nested scales, the offset, and the dequantised
numbers, floats as their bits."""

import bitsandbytes
import bitsandbytes.functional as functional
import torch

BOUNDS = functional.get_4bit_type("nf4", device="cpu")


def cases():
    g = torch.Generator().manual_seed(1)
    normal = lambda n, s=0.02: torch.randn(n, generator=g) * s
    yield "normal", normal(64 * 300)
    zeros = normal(64 * 8)
    zeros[64:192] = 0
    yield "zero_blocks", zeros
    yield "all_zero", torch.zeros(64 * 3)
    yield "short", normal(64 * 5 + 23)
    huge = normal(64 * 6)
    huge[100] = 3e38
    huge[200] = -1e30
    yield "huge", huge
    yield "tiny", normal(64 * 4, 1e-41)
    middles = (BOUNDS[:-1] + BOUNDS[1:]) / 2
    yield "ties", torch.cat([middles, middles.nextafter(torch.tensor(2.0)), middles.nextafter(torch.tensor(-2.0)), torch.ones(19)])
    yield "bf16", normal(64 * 9).bfloat16().float()


def floats(x):
    return " ".join(f"{v & 0xffffffff:x}" for v in x.reshape(-1).contiguous().view(torch.int32).tolist())


def whole(x):
    return " ".join(f"{v:x}" for v in x.reshape(-1).tolist())


def main():
    print(f"# by tests/codegen/nf4.py, bitsandbytes {bitsandbytes.__version__}")
    code = functional.create_dynamic_map()
    for name, x in cases():
        packed, absmax = torch.ops.bitsandbytes.quantize_4bit(x, 64, "nf4", torch.uint8)
        offset = absmax.double().mean().float()
        off = absmax - offset
        nested, scales = torch.ops.bitsandbytes.quantize_blockwise(off, code, 256)
        again = torch.ops.bitsandbytes.dequantize_blockwise(nested, scales, code, 256, torch.float32) + offset
        y = torch.ops.bitsandbytes.dequantize_4bit(packed, again, 64, "nf4", list(x.shape), torch.float32)
        bytes_ = packed.reshape(-1)
        codes = torch.stack([bytes_ >> 4, bytes_ & 15], 1).reshape(-1)[: x.numel()]
        print(f"case {name} {x.numel()} {absmax.numel()}")
        for line in (floats(x), whole(codes), floats(absmax), whole((nested.int() - 127) & 255), floats(scales), floats(offset), floats(y)):
            print(line)


if __name__ == "__main__":
    main()
