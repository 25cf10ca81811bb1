#!/usr/bin/env python3
"""Writes quantize.txt: tensors of bf16 as torchao's dynamic scaling of whole tensors rounds them. Needs PyTorch and torchao.

    TYPE SCALE NUMBER:CODE ...    the scale as the bits of a float, numbers as those of a bf16, all in base 16"""

import os
import struct

import torch
from torchao.float8.float8_scaling_utils import hp_tensor_to_float8_dynamic
from torchao.float8.float8_training_tensor import LinearMMConfig

ROWS, COLUMNS = 8, 16  # as in test_quantize.c


def tensors():
    g = torch.Generator().manual_seed(8)
    for size in (1, 1e-3, 37.5, 1e-9, 3e4, 1e30, 1e-38):
        yield torch.randn(ROWS, COLUMNS, generator=g) * size
    yield torch.zeros(ROWS, COLUMNS)
    yield torch.full((ROWS, COLUMNS), -1e-13)  # below the least that has a scale of its own
    outlier = torch.randn(ROWS, COLUMNS, generator=g)
    outlier[3, 5] = -5000
    yield outlier
    yield torch.rand(ROWS, COLUMNS, generator=g) * 2.0 ** torch.randint(-30, 4, (ROWS, COLUMNS), generator=g)
    yield torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).float() * 3.5


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantize.txt"), "w", encoding="ascii") as out:
        for name, dtype in (("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)):
            for x in tensors():
                x = x.to(torch.bfloat16)
                q = hp_tensor_to_float8_dynamic(x, dtype, LinearMMConfig())
                scale = struct.unpack("<I", struct.pack("<f", q._scale.item()))[0]
                numbers = x.view(torch.uint16).flatten().tolist()
                codes = q._data.view(torch.uint8).flatten().tolist()
                print(name, f"{scale:08x}", *(f"{n:04x}:{c:02x}" for n, c in zip(numbers, codes)), file=out)


if __name__ == "__main__":
    main()
