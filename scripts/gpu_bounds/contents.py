"""contents - what the program's tables of whole numbers may hold, where it decides which instructions run.

A kernel reads indices, choices of experts or sorted positions from memory. Their numbers are data; here they are drawn evenly, so
that counts are those of typical data. RULES names, for a kernel, which parameter points to what, and where its limit is."""

import re
import struct

from . import descriptors


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


def field(launch, descriptor, name):
    """A field of the descriptor that is the kernel's first parameter."""
    return struct.unpack_from("<q", launch.params, *descriptors.at(descriptor, name))[0]


def rows(launch):
    """Of one table."""
    return field(launch, "mg_gather_desc", "n")


def all_placed(launch):
    return placed(field(launch, "mg_gather_desc", "indices"), rows(launch) * field(launch, "mg_gather_desc", "tables"))


def slots(launch):
    return drawn(field(launch, "mg_experts_desc", "slots"))


def experts(launch):
    return choices(field(launch, "mg_experts_desc", "choices"), field(launch, "mg_experts_desc", "experts"))


def ends(launch):
    """Experts that have as many rows each."""
    count, rows = field(launch, "mg_grouped_desc", "experts"), field(launch, "mg_grouped_desc", "rows")
    return lambda at: (at // 4 % count + 1) * rows // count


def classes(launch):
    return drawn(field(launch, "mg_xent_desc", "valid"))


RULES = [
    (r"mg_(gather|put)_\d+", 3, lambda l: drawn(rows(l))),
    (r"mg_sort_(count|place)", 4, lambda l: drawn(rows(l))),
    (r"mg_sort_(count|place)", 5, all_placed),
    (r"mg_scatter_add_\w+", 2, all_placed),
    (r"mg_(xent|xent_grad)_\w+", 2, classes),
    (r"mg_head_rows_\w+", 3, classes),
    (r"mg_(slots|ends)_i32", 1, experts),
    (r"mg_grouped_\w+", 5, ends),
    (r"mg_dispatch_\w+|mg_combine_(?!weight)\w+", 2, experts),
    (r"mg_dispatch_\w+|mg_combine_(?!weight)\w+", 3, slots),
    (r"mg_combine_weight_\w+", 3, experts),
    (r"mg_combine_weight_\w+", 4, slots),
]
SPAN = 1 << 32  # bytes behind a pointer that may belong to its table


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
