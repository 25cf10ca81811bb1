"""lint - what no kernel of a program may do: each finding names the kernel, the line of machine code, and what to do."""

import re
from collections import namedtuple

from . import access, sass

Finding = namedtuple("Finding", "kernel line what remedy")
HOT, CONFLICTS, WORTH = 8, 1.25, 0.02  # executions of a warp; wavefronts to the least; share of what a kernel's shared memory passes
DIVISION = re.compile(r"cuda_sm20_(div|rem)_[su]64")


def in_loops(code):
    return set().union(*sass.loops(code)) if code.ins else set()


def of_code(kernel, code):
    """What is wrong without being run."""
    if kernel.frame:
        yield Finding(kernel.name, "", f"uses {kernel.frame} bytes of local memory a thread",
                      "index arrays by constants after unrolling, or hold less: what is spilled goes to memory")
    for ins in code.ins:
        if ins.op in access.LOCAL:
            yield Finding(kernel.name, f"{ins.at:#06x} {ins.text}", "goes to local memory",
                          "index arrays by constants after unrolling, or hold less in registers")
            return


def of_bound(program, bound):
    """What is wrong in what was run: in loops that a warp runs more than HOT times."""
    code, looped, name = program.code, in_loops(program.code), bound.kernel.name
    for i, ins in enumerate(code.ins):
        hot = bound.counts[i] > HOT and i in looped
        where = f"{ins.at:#06x} {ins.text}"
        if hot and ins.op == "LDG" and access.width(ins) <= 2:
            yield Finding(name, where, f"loads {8 * access.width(ins)} bits a lane, {bound.counts[i]} times a warp",
                          "load vectors (mg_vec) of up to 16 bytes")
        if hot and (ins.op == "CALL" and DIVISION.search(ins.text)) or bound.counts[i] > HOT and ins.op == "I2F" and "U64" in ins.mods:
            yield Finding(name, where, f"divides whole numbers of 64 bits, {bound.counts[i]} times a warp",
                          "divide numbers of 32 bits, or count instead of dividing")
    yield from conflicts(code, bound)


def conflicts(code, bound):
    total, each = 0, {}
    for accesses in bound.accesses:
        for i, a in accesses.items():
            index = i[1] if isinstance(i, tuple) else i
            fronts, least, unknown = each.get(index, (0, 0, 0))
            each[index] = (fronts + a.wavefronts, least + a.least, unknown + a.unknown)
            total += a.wavefronts
    for i, (fronts, least, _) in sorted(each.items()):
        if least and i not in bound.drawn and fronts > CONFLICTS * least and fronts - least > WORTH * total:
            yield Finding(bound.kernel.name, f"{code.ins[i].at:#06x} {code.ins[i].text}",
                          f"takes {fronts / least:.2f} times as many wavefronts of shared memory as its bytes need",
                          "lay rows out so that the lanes of a quarter of a warp are in different banks")
