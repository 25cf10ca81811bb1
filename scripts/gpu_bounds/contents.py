"""contents - what the program's tables of whole numbers may hold, where it decides which instructions run.

A kernel reads indices, choices of experts or sorted positions from memory. Their numbers are data; here they are drawn evenly, so
that counts are those of typical data. RULES names, for a kernel, which parameter points to what, and where its limit is."""

import math
import re
import struct


def mix(x):
    """A whole number of 32 bits that looks random."""
    x = (x ^ x >> 16) * 0x45D9F3B & 0xFFFFFFFF
    x = (x ^ x >> 16) * 0x45D9F3B & 0xFFFFFFFF
    return x ^ x >> 16


def drawn(limit):
    return lambda at: mix(at // 4) % limit


def choices(count, limit):
    """`count` different ones for each position."""
    return lambda at: (mix(at // 4 // count) + at // 4 % count) % limit


def placed(indices, limit):
    """Positions and their indices (the high half), sorted by index; half of the indices occur more than once where there are as many
    as rows."""
    def word(at):
        i = at // 8
        return mix(i) % indices if at % 8 == 0 else min(limit - 1, mix(i // 2) % 2 + i // 2 * 2 * limit // max(indices, 1))
    return word


def field(launch, at):
    return struct.unpack_from("<q", launch.params, at)[0]


# Of the descriptors of runtime/abi.h: mg_gather_desc has indices at 8, n at 24; mg_experts_desc has experts, groups, positions,
# choices and slots where EXPERTS says; mg_xent_desc has valid at 24.
GATHER_INDICES, GATHER_ROWS, XENT_VALID = 8, 24, 24
EXPERTS = {"groups": 8, "positions": 16, "choices": 24, "experts": 32, "slots": 40}
RULES = [
    (r"mg_gather_\d+", 3, lambda l: drawn(field(l, GATHER_ROWS))),
    (r"mg_sort_(count|place)", 4, lambda l: drawn(field(l, GATHER_ROWS))),
    (r"mg_sort_(count|place)", 5, lambda l: placed(field(l, GATHER_INDICES), field(l, GATHER_ROWS))),
    (r"mg_scatter_add_\w+", 2, lambda l: placed(field(l, GATHER_INDICES), field(l, GATHER_ROWS))),
    (r"mg_(xent|xent_grad)_\w+", 2, lambda l: drawn(field(l, XENT_VALID))),
    (r"mg_head_rows_\w+", 3, lambda l: drawn(field(l, XENT_VALID))),
    (r"mg_slots_i32", 1, lambda l: choices(field(l, EXPERTS["choices"]), field(l, EXPERTS["experts"]))),
    (r"mg_dispatch_\w+|mg_combine_(?!weight)\w+", 2, lambda l: choices(field(l, EXPERTS["choices"]), field(l, EXPERTS["experts"]))),
    (r"mg_dispatch_\w+|mg_combine_(?!weight)\w+", 3, lambda l: drawn(field(l, EXPERTS["slots"]))),
    (r"mg_combine_weight_\w+", 3, lambda l: choices(field(l, EXPERTS["choices"]), field(l, EXPERTS["experts"]))),
    (r"mg_combine_weight_\w+", 4, lambda l: drawn(field(l, EXPERTS["slots"]))),
]
# mg_attention_desc has batch, kv and group from 32 on. Blocks of attention are in one row, head after head.
HEADS = [(r"mg_flash\w*_dkv_\w+", (32, 40)), (r"mg_flash\w*_(forward|dq)_\w+", (32, 40, 48))]
SPAN = 1 << 32  # bytes behind a pointer that may belong to its table


def grid(kernel, launch):
    """The grid with a dim for the heads, which are alike: (blocks of a head, heads, 1)."""
    for pattern, fields in HEADS:
        if re.fullmatch(pattern, kernel.name):
            heads = math.prod(field(launch, at) for at in fields)
            return launch.grid[0] // heads, heads, 1
    return launch.grid


def of(kernel, launch):
    """A function of an address: the word there, or None. None where the kernel has no such tables."""
    tables = []
    for pattern, number, make in RULES:
        if re.fullmatch(pattern, kernel.name) and number < len(kernel.params):
            base, = struct.unpack_from("<Q", launch.params, kernel.params[number][0])
            if base:
                tables.append((base, make(launch)))
    if not tables:
        return None
    tables.sort(reverse=True, key=lambda t: t[0])

    def word(address):
        for base, value in tables:
            if base <= address < base + SPAN:
                return value(address - base)
        return None
    return word
