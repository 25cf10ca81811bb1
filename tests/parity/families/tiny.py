"""Tiny models of each family: weights and tokens that need no file, because they follow from names."""

import array
import json
import math
import os
import random
import struct

SEQ, BATCH = 20, 3
RATE, STEPS = 2e-3, 5
TRAIN = f"""train {{
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr constant(peak = {RATE}, steps = {STEPS})
    clip 1.0
}}
"""


def weights(name, shape, base):
    """Floats of 32 bits: matrices around 0, as large as keeps values near 1; vectors around their usual value."""
    draw = random.Random(name).uniform
    size = 1.4 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.2
    return array.array("f", (base + draw(-size, size) for _ in range(math.prod(shape))))


def signs(name, n):
    bits = random.Random("signs of " + name).getrandbits(n)
    return [1 if bits >> i & 1 else -1 for i in range(n)]


def tokens(vocab):
    draw = random.Random(SEQ)
    return [[draw.randrange(4, vocab) for _ in range(SEQ + 1)] for _ in range(BATCH)]


def write_safetensors(path, tensors):
    """tensors: name -> (type, shape, bytes)"""
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def read_header(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    header.pop("__metadata__", None)
    return header, 8 + n


def directory(folder, config, shapes, kind="F32"):
    """What import-hf and transformers read. shapes: name -> [shape, base]; kind: F32, or F64 with the same values."""
    os.mkdir(folder)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    write_safetensors(f"{folder}/model.safetensors",
                      {n: (kind, s, array.array("f" if kind == "F32" else "d", weights(n, s, b)).tobytes()) for n, (s, b) in shapes.items()})
