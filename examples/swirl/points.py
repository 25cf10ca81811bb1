"""2,000 points along a spiral of a turn and a half, as points.safetensors: x [rows, 2] in f32."""

import array
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tensors  # noqa: E402

ROWS = 2000


def spiral(t):
    """The spiral at t, from 0 at its inner end to 1."""
    angle = 3 * math.pi * math.sqrt(0.05 + 0.95 * t)
    return angle / 5 * math.cos(angle), angle / 5 * math.sin(angle)


if __name__ == "__main__":
    r = random.Random(1)
    rows = array.array("f", (v + r.gauss(0, 0.03) for _ in range(ROWS) for v in spiral(r.random())))
    tensors.write("points.safetensors", {"x": ("F32", [ROWS, 2], rows)})
