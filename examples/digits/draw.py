"""Digits drawn on the spot: a font of 5 by 7, each image turned, sheared, scaled and shifted at random, with noise. Writes
train.safetensors and test.safetensors: image [rows, 12, 12] in f32, label [rows] in I32."""

import array
import math
import os
import random
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tensors  # noqa: E402

FONT = """
.###. ..#.. .###. #####.  ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ....#  ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ...#.  .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##.  #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....#  ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...#  ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###.  ...#. .###. .###. .#... .###. .##..
"""
ROWS = [line.split() for line in FONT.strip().splitlines()]
SHAPES = [[[float(c == "#") for c in row[digit][:5]] for row in ROWS] for digit in range(10)]
SIDE = 12


def ink(shape, x, y):
    """The ink of a point, between the font's pixels too; their middles are at whole numbers."""
    left, top = math.floor(x), math.floor(y)
    total = 0.0
    for i in (top, top + 1):
        for j in (left, left + 1):
            if 0 <= i < 7 and 0 <= j < 5:
                total += shape[i][j] * (1 - abs(x - j)) * (1 - abs(y - i))
    return total


def image(r, digit):
    turn, shear = r.uniform(-0.35, 0.35), r.uniform(-0.3, 0.3)
    wide, high = r.uniform(0.55, 0.9), r.uniform(0.6, 0.9)
    right, low = r.uniform(-1.3, 1.3), r.uniform(-1.3, 1.3)
    cos, sin = math.cos(turn), math.sin(turn)
    strength = r.uniform(0.7, 1.0)
    for row in range(SIDE):
        for col in range(SIDE):
            x, y = col - 5.5 - right, row - 5.5 - low
            x, y = (cos * x + sin * y) * wide, (cos * y - sin * x) * high
            yield strength * ink(SHAPES[digit], x + shear * y + 2, y + 3) + r.gauss(0, 0.15)


def write(path, rows, seed):
    r = random.Random(seed)
    labels = array.array("i", (r.randrange(10) for _ in range(rows)))
    images = array.array("f", (v for digit in labels for v in image(r, digit)))
    tensors.write(path, {"image": ("F32", [rows, SIDE, SIDE], images), "label": ("I32", [rows], labels)})


if __name__ == "__main__":
    write("train.safetensors", 4000, 1)
    write("test.safetensors", 1000, 2)
