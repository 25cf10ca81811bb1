"""occupancy - how many blocks of a kernel a multiprocessor holds at a time.

Limits by compute capability, and that registers are given to a warp in units of 256, shared memory in units of 128 bytes with 1 KiB
more for each block: the occupancy calculator of the CUDA Toolkit (cuda_occupancy.h), with whose answers the tests compare."""

from collections import namedtuple

# warps, blocks and bytes of shared memory of a multiprocessor; the most bytes of one block.
Limits = namedtuple("Limits", "warps blocks shared block_shared")
KIB = 1024
LIMITS = {
    80: Limits(64, 32, 164 * KIB, 163 * KIB),
    86: Limits(48, 16, 100 * KIB, 99 * KIB),
    89: Limits(48, 24, 100 * KIB, 99 * KIB),
    90: Limits(64, 32, 228 * KIB, 227 * KIB),
    100: Limits(64, 32, 228 * KIB, 227 * KIB),
    120: Limits(48, 24, 100 * KIB, 99 * KIB),
}
REGISTERS, REGISTER_UNIT, SHARED_UNIT, SYSTEM_SHARED, WARPS_UNIT = 65536, 256, 128, 1024, 4
Occupancy = namedtuple("Occupancy", "blocks warps limit")  # limit: what allows no more


def up(x, unit):
    return -(-x // unit) * unit


def of(machine, threads, registers, shared):
    """threads and shared bytes of a block (static and dynamic), registers of a thread. 0 blocks: it cannot be launched."""
    limits, warps = LIMITS[machine], -(-threads // 32)
    by = {"blocks": limits.blocks, "warps": limits.warps // warps}
    if registers:
        each = up(registers * 32, REGISTER_UNIT)  # of a warp; a quarter of the multiprocessor has a quarter of the registers
        by["registers"] = REGISTERS // WARPS_UNIT // each * WARPS_UNIT // warps
    if shared > limits.block_shared:
        return Occupancy(0, 0, "shared memory")
    by["shared memory"] = limits.shared // up(shared + SYSTEM_SHARED, SHARED_UNIT)
    limit = min(by, key=by.get)
    return Occupancy(by[limit], by[limit] * warps, limit)
