"""order - where a block of a launch is: attention's blocks are in one row, and heads take turns in it (kernels/cuda/flash.h)."""

import math
import os
import re

from .contents import field

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../kernels/cuda")
WIDTH = {"bf16": 2, "f16": 2, "tf32": 4, "f32": 4}


def constant(header, name):
    with open(os.path.join(KERNELS, header), encoding="ascii") as f:
        value, shift = re.search(rf"\b{name} = (\d+) << (\d+)", f.read()).groups()
    return int(value) << int(shift)


class Grid:
    """Blocks as they are numbered by the launch: any of one column is like those beside it."""

    def __init__(self, size):
        self.size = size
        self.count = math.prod(size)

    def block(self, x, y):
        return x, y, 0

    def columns(self, most):
        """The column of each block, in the order in which blocks begin; of the first about `most` blocks."""
        line = list(range(min(self.size[0], most)))
        return line * min(self.size[1] * self.size[2], max(1, most // len(line)))


class Turns(Grid):
    """A row of blocks for the heads, which are alike: [blocks of a head, heads]. `section` heads take turns (flash_place_of)."""

    def __init__(self, launch, heads, section):
        super().__init__((launch.grid[0] // heads, heads, 1))
        self.section = max(1, min(section, heads))

    def turns(self, head):
        first = head // self.section * self.section
        return first, min(self.section, self.size[1] - first)

    def block(self, x, y):
        first, turns = self.turns(y)
        return first * self.size[0] + x * turns + y - first, 0, 0

    def columns(self, most):
        heads = max(1, min(self.size[1], most // self.size[0]))
        return [x for first in range(0, heads, self.section) for x in range(self.size[0]) for _ in range(min(self.section, heads - first))]


def of(kernel, launch):
    which = re.fullmatch(r"mg_flash(90)?_(forward|dq|dkv)\w*?_(bf16|f16|tf32|f32)_\w+", kernel.name)
    if not which:
        return Grid(launch.grid)
    get = lambda name: field(launch, "mg_attention_desc", name)
    grad = which[2] == "dkv"
    read = get("queries") * get("group") if grad else get("keys")
    most = constant("flash_sm90.h", "FLASH90_SECTION") if which[1] else constant("flash.h", "FLASH_SECTION")
    heads = max(1, most // (read * (get("head") + get("vhead")) * WIDTH[which[3]]))
    return Turns(launch, get("batch") * get("kv") * (1 if grad else get("group")), heads * (1 if grad else get("group")))
