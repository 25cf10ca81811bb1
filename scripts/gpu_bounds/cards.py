"""cards - a GPU as the tool needs it: from its device description, and from what the description does not say."""

import json
import os
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICES = os.path.join(ROOT, "compiler", "devices")
# path: of the description; machine: 90 for sm_90; arch: what nvcc is told; clock in Hz; flops: of bf16 products of a multiprocessor a cycle.
# l2: bytes a second that the L2 cache gives; cache: bytes that it holds.
Card = namedtuple("Card", "name path machine arch processors clock flops bandwidth l2 cache memory description")
MACHINES = {"a100": 80, "b200": 100}  # of descriptions without an architecture
# Dense bf16 with sums in float32, of a multiprocessor a cycle: data sheet's peak by its clock. Of 86, 89 and 120 that of GeForce; a
# card of the same generation for work stations has twice that, which the peak of the description shows.
FLOPS = {80: 2048, 86: 512, 89: 512, 90: 4096, 100: 8192, 120: 512}
FLOAT_LANES = {80: 64, 86: 128, 89: 128, 90: 128, 100: 128, 120: 128}
# Bytes a cycle that the L2 cache gives a multiprocessor. A100's is NVIDIA's (5120 bytes a cycle, whitepaper); that of sm_90 is near what
# was measured on an H100 PCIe (5.5 to 6 TB/s; Chips and Cheese, 2023); the others' a guess.
L2_BYTES = {80: 47, 86: 32, 89: 32, 90: 28, 100: 28, 120: 32}
# Bytes that the L2 cache holds, by the data sheets: of the generation, and of cards that have another.
CACHES = {80: 40e6, 86: 6e6, 89: 72e6, 90: 50e6, 100: 126e6, 120: 96e6}
CACHE_OF = {"l40s": 96e6, "rtx5060ti": 32e6, "rtxpro6000": 128e6}
GUESSES = [
    "the clock is that of the data sheet's peak, higher only where products are measured above that peak; at its limit of power a card is slower",
    "bandwidth of the L2 cache (cards.py), but of a100",
]


def read(name):
    path = name if name.endswith(".json") else os.path.join(DEVICES, name + ".json")
    with open(path, encoding="utf-8") as f:
        d = json.load(f)
    machine = d.get("architecture") or (90 if d.get("warpgroups") else MACHINES.get(d["name"]))
    if d["target"] != "cuda" or machine not in FLOPS:
        raise ValueError(f"{path}: no GPU that this tool knows")
    machine_flops = FLOPS[machine]
    clock = d["flops_bf16_per_thread"] / machine_flops
    float_clock = d["flops_f32_per_thread"] / (2 * FLOAT_LANES[machine])
    if clock > 1.5 * float_clock:  # twice the rate of GeForce
        machine_flops, clock = 2 * machine_flops, clock / 2
    clock *= max(1, d["product_share"])  # over 1 where products are faster than the peak: the clock is higher than that peak's
    arch = f"sm_{machine}" + ("a" if machine >= 90 else "")
    return Card(d["name"], path, machine, arch, d["threads"], clock, machine_flops, d["bandwidth"], L2_BYTES[machine] * clock * d["threads"],
                CACHE_OF.get(d["name"], CACHES[machine]), d["memory"], d)
