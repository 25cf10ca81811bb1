#!/usr/bin/env python3
"""make_golden.py - writes golden/ for test_gpu_bounds.py: machine code and launches of a few kernels of gpt2_124m on an h100, and what the
CUDA Toolkit says of occupancy.

It needs nvcc, nvdisasm and a build of mgc. Of nvdisasm's text only blanks are dropped."""

import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
from gpu_bounds import build, cards  # noqa: E402

KERNELS = ["d_gpt2_add", "mg_gather_16", "mg_scatter_add_f32", "mg_flash90_forward_bf16_all_64_64"]
OPTIONS = ["--precision", "bf16", "--microbatch", "1"]


def text_of(name, whole):
    part = re.search(rf"^\.text\.{name}:\n(.*?)(?=^\t\.section|\Z)", whole, re.M | re.S).group(1)
    lines = [re.sub(r" {2,}", " ", line).rstrip() for line in part.splitlines()]
    return f".text.{name}:\n" + "".join(line + "\n" for line in lines if line)


def occupancy(folder):
    program = os.path.join(folder, "occupancy")
    include = os.path.join(os.path.dirname(os.path.dirname(build.tool("nvcc", "MGC_NVCC"))), "include")
    build.run(["cc", "-I" + include, os.path.join(HERE, "occupancy.c"), "-o", program])
    with open(os.path.join(HERE, "golden", "occupancy.txt"), "w", encoding="ascii") as f:
        f.write(build.run([program]))


def main():
    card = cards.read("h100")
    with tempfile.TemporaryDirectory() as folder:
        model = build.model("gpt2_124m", OPTIONS, card, folder)
        occupancy(folder)
        whole = build.run([build.tool("nvdisasm", "MGC_NVDISASM"), "-c", "-hex", os.path.join(folder, "kernels.cubin")])
    for name in KERNELS:
        with open(os.path.join(HERE, "golden", name + ".sass"), "w", encoding="ascii") as f:
            f.write(text_of(name, whole))
    first = {l.kernel: l for l in reversed(model.step.launches) if l.kernel in KERNELS}
    known = {"memory": model.step.memory,
             "kernels": {n: {**model.kernels[n]._asdict(), **first[n]._asdict(), "params": first[n].params.hex(),
                             "places": model.kernels[n].params} for n in KERNELS}}
    with open(os.path.join(HERE, "golden", "launches.json"), "w", encoding="ascii") as f:
        json.dump(known, f, indent=1)
        f.write("\n")


main()
