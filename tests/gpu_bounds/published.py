#!/usr/bin/env python3
"""published - holds gpu-bounds against kernels of others whose times are published; no test, run by hand.

    tests/gpu_bounds/published.py FOLDER [TEXT...]      rows of published.tsv that have each text; all if there is none

FOLDER has cubins of PyTorch's wheel from PyPI (`pip download --no-deps torch`; cuobjdump -xelf .sm_90.cubin libtorch_cuda.so): they
have the kernels of FlashAttention-2. The kernels' parameters are made here, as their structures lie; nothing of them is committed but
the numbers in docs/gpu_bounds.md. Needs nvdisasm. Prints for each row the published rate, the bound, the expected one and their ratio;
--tsv writes tab-separated fields."""

import argparse
import glob
import json
import os
import re
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
from gpu_bounds import bounds, build, cards, cubin, launches, machine, sass  # noqa: E402

BASE, SPAN = 1 << 40, 1 << 36  # of each buffer; they only have to be known and apart
# Bytes of the parameters: of the forward pass, of the backward pass.
FORWARD_BYTES, BACKWARD_BYTES = 472, 648


def buffer(number):
    return BASE + number * SPAN


def parameters(row, backward):
    """The structure of FlashAttention-2's parameters: (batch, sequence, heads, head) in bf16, as many heads of keys as of queries."""
    head, heads, seq = row["head"], row["heads"], row["seq"]
    keys = row["keys"]
    data = bytearray(BACKWARD_BYTES if backward else FORWARD_BYTES)

    def put(at, form, *values):
        struct.pack_into("<" + form, data, at, *values)

    def strides(at, *lengths):
        """Of batches, then of rows, then of heads."""
        put(at, f"{3 * len(lengths)}q", *(n * heads * head for n in lengths), *(heads * head for _ in lengths), *(head for _ in lengths))
    put(0, "3Q", buffer(0), buffer(1), buffer(2))
    strides(24, seq, keys, keys)
    put(96, "3i", heads, heads, 1)
    put(112, "Q", buffer(3))
    strides(128, seq)
    put(160, "Q", buffer(4))
    put(176, "10i", row["batch"], seq, keys, 0, head, seq, keys, head, 0, row["batch"] * seq)
    put(216, "2f", head ** -0.5, head ** -0.5 * 1.4427)
    put(372, "fBxxxffii", 1.0, 255, 1.0, head ** -0.5, -1, 0 if row["causal"] else -1)
    put(440, "3?", True, row["causal"], True)
    if backward:
        put(472, "5Q", *(buffer(5 + k) for k in range(5)))
        strides(528, seq)
        strides(552, seq, keys, keys)
        put(624, "Q", buffer(10))
    return bytes(data)


def forward_shape(row, arch):
    """Rows, columns and shared bytes: the launch template's choice."""
    if row["head"] == 64:
        return 128, 128, 49152
    small = arch in (86, 89)
    return (64, 64, 49152) if small and row["causal"] else (128, 32, 49152) if small else (128, 64, 65536)


def backward_shape(row, arch):
    """Rows, columns, warps of the three products, whether values stay in registers, shared bytes of the loop and of the conversion."""
    large = arch in (80, 90, 100)
    if row["head"] == 64:
        return (128, 128, (4, 4, 4), 0, 147456, 16384) if large else (64, 128, (2, 4, 4), 1, 73728, 8192)
    return (64, 128, (2, 4, 2), 0, 147456, 16384) if large else (64, 64, (4, 2, 2), 1, 90112, 16384)


def kernels_of(row, arch):
    """(part of its name, blocks of the first dim, threads, shared bytes, whether it is the backward pass's) of each launch."""
    head, mask = row["head"], int(row["causal"])
    if row["pass"] == "forward":
        m, n, shared = forward_shape(row, arch)
        traits = f"Flash_fwd_kernel_traitsILi{head}ELi{m}ELi{n}ELi4ELb0ELb0EN7cutlass10bfloat16_tE19Flash_kernel_traitsILi{head}ELi{m}ELi{n}ELi4ES3_EE"
        return [(f"flash_fwd_kernelI23{traits}Lb0ELb{mask}ELb0ELb0ELb1ELb1ELb0ELb0EEE", -(-row["seq"] // m), 128, shared, False)]
    m, n, (a, b, c), kept, shared, converted = backward_shape(row, arch)
    traits = (f"Flash_bwd_kernel_traitsILi{head}ELi{m}ELi{n}ELi8ELi{a}ELi{b}ELi{c}ELb{kept}ELb0EN7cutlass10bfloat16_tE"
              f"19Flash_kernel_traitsILi{head}ELi{m}ELi{n}ELi8ES3_EE")
    return [(f"flash_bwd_dot_do_o_kernelILb1E23{traits}", -(-row["seq"] // m), 256, 0, True),
            (f"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI23{traits}Lb0ELb{mask}ELb0ELb0ELb1ELb1ELb0EEE", -(-row["keys"] // n), 256, shared, True),
            (f"flash_bwd_convert_dq_kernelI23{traits}", -(-row["seq"] // m), 256, converted, True)]


class Library:
    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def find(self, part, arch):
        """Kernel and program by a part of the name."""
        if (part, arch) not in self.known:
            for path in sorted(glob.glob(os.path.join(self.folder, f"*sm_{arch}.cubin"))):
                with open(path, "rb") as f:
                    data = f.read()
                if part.encode() in data:
                    name, kernel = next((n, k) for n, k in cubin.kernels(data).items() if part in n)
                    text = self.text(path, data, name)
                    self.known[part, arch] = kernel, machine.Program(sass.parse(text)[name])
                    break
            else:
                raise build.NoTool(f"no cubin of sm_{arch} in {self.folder} has {part}")
        return self.known[part, arch]

    def text(self, path, data, name):
        kept = os.path.join(self.folder, f"{os.path.basename(path)}.{cubin.symbols(data).index(name)}.sass")
        if not os.path.exists(kept):
            out = build.run([build.tool("nvdisasm", "MGC_NVDISASM"), "-c", "-hex", "-fun", str(cubin.symbols(data).index(name)), path])
            with open(kept, "w", encoding="ascii") as f:
                f.write(out)
        with open(kept, encoding="ascii") as f:
            return f.read()


def seconds(library, row, card):
    """The bounds of the launches of a row."""
    memory = [(buffer(k), buffer(k) + SPAN) for k in range(16)]
    out = []
    for part, across, threads, shared, backward in kernels_of(row, card.machine):
        kernel, program = library.find(part, card.machine)
        data = parameters(row, backward) + (struct.pack("<i", 1) if len(kernel.params) > 1 else b"")
        launch = launches.Launch(0, kernel.name, 1, (across, row["batch"], row["heads"]), threads, shared, data)
        out.append(bounds.of_launch(program, kernel, launch, memory, card))
    return out


def table():
    with open(os.path.join(HERE, "published.tsv"), encoding="ascii") as f:
        lines = [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]
    for cells in lines[1:]:
        row = dict(zip(lines[0], cells, strict=True))
        for key in ("head", "heads", "batch", "seq", "keys", "causal"):
            row[key] = int(row[key])
        yield row


def flops(row):
    """As they are published: of the pairs that the mask leaves, counted as half of all."""
    pairs = row["batch"] * row["heads"] * row["seq"] * row["keys"] / (2 if row["causal"] else 1)
    return pairs * row["head"] * (4 if row["pass"] == "forward" else 10)


def card_of(name):
    path = os.path.join(HERE, name + ".json")
    return cards.read(path if os.path.exists(path) else name)


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], allow_abbrev=False)
    parse.add_argument("--tsv", action="store_true")
    parse.add_argument("--parts", action="store_true", help="the bounds of each part of the card")
    parse.add_argument("folder")
    parse.add_argument("texts", nargs="*")
    given = parse.parse_args()
    library = Library(given.folder)
    for row in table():
        if not all(re.search(t, " ".join(str(v) for v in row.values())) for t in given.texts):
            continue
        card = card_of(row["card"])
        found = seconds(library, row, card)
        expected, bound = sum(b.expected for b in found), sum(max(b.seconds.values()) for b in found)
        longest = max(found, key=lambda b: b.expected)
        rate, published = flops(row) / expected / 1e12, float(row["tflops"])
        cells = [row["kernel"], row["card"], row["pass"], row["head"], row["batch"], row["heads"], row["seq"], row["causal"], f"{published:g}",
                 f"{flops(row) / bound / 1e12:.0f}", longest.limit, f"{rate:.0f}", f"{published / rate:.2f}"]
        print(("\t" if given.tsv else " | ").join(str(c) for c in cells), flush=True)
        if given.parts:
            for b in found:
                print("   ", re.sub(r".*(flash_\w+?_kernel)I.*", r"\1", b.kernel.name), f"{b.expected * 1e6:.1f} us", b.occupancy,
                      json.dumps({k: round(v * 1e6, 1) for k, v in b.seconds.items() if v * 1e6 > 0.05}))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (build.NoTool, build.Failed, subprocess.SubprocessError) as e:
        sys.exit(f"published: {e}")
