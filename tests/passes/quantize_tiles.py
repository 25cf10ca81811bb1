#!/usr/bin/env python3
"""Writes quantize_tiles.txt: tensors of bf16 as torchao rounds them in tiles. Needs PyTorch and torchao.

tile: torchao.prototype.blockwise_fp8_training, DeepSeek-V3's scales as its kernels for training make them: the rule of its references in
PyTorch. mx: torchao.prototype.mx_formats with RCEIL, the default of its MXFP8TrainingOpConfig and the rule of Transformer Engine's MXFP8.
Both want whole tiles: a tensor whose last tile is smaller has zeros behind it, as DeepGEMM pads. Of mx no tile but those of zeros needs the
least scale, 2^-127: torchao 0.18 leaves numbers of such a tile unscaled, which makes all of them 0; later versions scale them.

    KIND TYPE ROWS COLUMNS HEIGHT WIDTH      of a tile
    NUMBER:CODE ...                          row by row: the bits of a bf16, and of the number of fp8
    SCALE ...                                row of tiles by row: what a number is multiplied by to be that of the tensor, as the bits of a
                                             float; all in base 16"""

import os
import struct

import torch
from torchao.prototype.blockwise_fp8_training import kernels
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import to_mx


def tensors(rows, columns):
    g = torch.Generator().manual_seed(9)
    for size in (1, 1e-3, 37.5, 1e-9, 1e30, 1e-20, 1e-30):
        yield torch.randn(rows, columns, generator=g) * size
    yield torch.rand(rows, columns, generator=g) * 2.0 ** torch.randint(-30, 4, (rows, columns), generator=g)
    sparse = torch.randn(rows, columns, generator=g)  # with tiles of zeros, and below the least that has a scale of its own
    sparse[: rows // 2] = 0
    sparse[:, : columns // 2] *= 1e-13
    yield sparse
    yield 448 * 2.0 ** torch.randint(-3, 3, (rows, columns), generator=g)  # the largest number itself
    yield 449 * 2.0 ** torch.randint(-3, 3, (rows, columns), generator=g)


def padded(x, height, width):
    return torch.nn.functional.pad(x, (0, -x.shape[1] % width, 0, -x.shape[0] % height))


def rounded(kind, dtype, x, height, width):
    """Numbers of fp8, and a scale for each tile."""
    if kind == "mx":
        turned = x.T.contiguous() if height > 1 else x
        scale, q = to_mx(turned, dtype, max(height, width), ScaleCalculationMode.RCEIL)
        scale = scale.view(torch.uint8).to(torch.int32)
        scale = torch.where(scale == 0, 0x400000, scale << 23).view(torch.float32)
        return (q.T, scale.T) if height > 1 else (q, scale)
    if height == 1:
        return kernels.torch_blockwise_scale_act_quant_lhs(x, width)
    if width == 1:
        return [y.T for y in kernels.torch_blockwise_scale_act_quant_lhs(x.T.contiguous(), height)]
    return kernels.torch_blockwise_scale_weight_quant(x, height)


CASES = [("tile", torch.float8_e4m3fn, 2, 300, 1, 128), ("tile", torch.float8_e4m3fn, 256, 2, 128, 1),
         ("tile", torch.float8_e4m3fn, 20, 24, 8, 8), ("mx", torch.float8_e4m3fn, 3, 80, 1, 32),
         ("mx", torch.float8_e4m3fn, 96, 2, 32, 1), ("mx", torch.float8_e5m2, 3, 80, 1, 32)]


def main():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "quantize_tiles.txt"), "w", encoding="ascii") as out:
        for kind, dtype, rows, columns, height, width in CASES:
            for x in tensors(rows, columns):
                x = x.to(torch.bfloat16)
                q, scale = rounded(kind, dtype, padded(x, height, width).contiguous(), height, width)
                q = q[:rows, :columns].contiguous()
                name = "e5m2" if dtype == torch.float8_e5m2 else "e4m3"
                print(kind, name, rows, columns, height, width, file=out)
                numbers = x.contiguous().view(torch.uint16).flatten().tolist()
                codes = q.view(torch.uint8).flatten().tolist()
                print(*(f"{n:04x}:{c:02x}" for n, c in zip(numbers, codes, strict=True)), file=out)
                print(*(f"{struct.unpack('<I', struct.pack('<f', s))[0]:08x}" for s in scale.contiguous().flatten().tolist()), file=out)


if __name__ == "__main__":
    main()
