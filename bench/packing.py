#!/usr/bin/env python3
"""Documents packed into windows, beside windows that are cut anywhere and beside rows that padding fills.

    bench/packing.py [BUILD] [--layers N] [--seq N] [--rounds N]

A Llama of the width of llama_packed.mg, in seconds of the processor on one thread, which other programs disturb least: a step of
causal attention, of documents of an eighth of a window, of documents as long as a window, and of documents whose lengths are drawn
(log-normal). Of the last: targets in a second, against rows of one document each. A round runs each program; a number is the median.
"""

import argparse
import array
import math
import os
import random
import re
import statistics
import struct
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def write(name, lengths, draw):
    """A Megatron file of documents of bytes."""
    at, offsets, n = 0, [], len(lengths)
    for k in lengths:
        offsets.append(at)
        at += k
    with open(name + ".bin", "wb") as f:
        f.write(draw.randbytes(at))
    with open(name + ".idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 1, n, n + 1) + array.array("i", lengths).tobytes()
                + array.array("q", offsets).tobytes() + array.array("q", range(n + 1)).tobytes())


def seconds(program, data, steps):
    p = subprocess.Popen([f"./{program}", "--data", f"{data}.bin", "--steps", str(steps), "--threads", "1", "--out", "run"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = status
    assert status == 0, (program, data)
    return usage.ru_utime + usage.ru_stime


def step(program, data, steps=6):
    """A step without what a run takes beside its steps."""
    return (seconds(program, data, steps + 1) - seconds(program, data, 1)) / steps


def packing(data):
    """Windows, the share of padding."""
    out = subprocess.run(["./packed", "--data", f"{data}.bin", "--dry-run"], capture_output=True, text=True, check=True).stdout
    windows, padding = re.search(r"in (\d+) windows of \d+, ([\d.]+)% of positions", out).groups()
    return int(windows), float(padding) / 100


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--seq", type=int, default=1024)
    p.add_argument("--rounds", type=int, default=3)
    o = p.parse_args()
    mgc, seq, batch = os.path.abspath(os.path.join(o.build, "mgc")), o.seq, 4
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sizes = [x for d in (f"layers={o.layers}", f"seq={seq}", f"batch={batch}") for x in ("-D", d)]
        for name, model in (("packed", "llama_packed.mg"), ("causal", "llama_mini.mg")):
            subprocess.run([mgc, os.path.join(ROOT, "models", model), *sizes, "--microbatch", str(batch), "-o", name], check=True,
                           stdout=subprocess.DEVNULL)
        drawn = [max(2, min(seq + 1, int(math.exp(draw.gauss(math.log(seq / 5), 0.8))))) for _ in range(4000)]
        for name, lengths in (("short", [seq // 8] * 2000), ("long", [seq + 1] * 250), ("drawn", drawn)):
            write(name, lengths, draw)
        times = {k: [] for k in (("causal", "long"), ("packed", "long"), ("packed", "short"), ("packed", "drawn"))}
        for _ in range(o.rounds):
            for k, found in times.items():
                found.append(step(*k))
        t = {k: statistics.median(found) for k, found in times.items()}
        whole = t["causal", "long"]
        print(f"windows of {seq}, {batch} a step, {o.layers} layers; seconds of the processor for a step, and of the causal one's")
        for (program, data), x in t.items():
            print(f"{program:7} {data:6} {x:.3f} {x / whole:.2f}")
        windows, padding = packing("drawn")
        targets = sum(n - 1 for n in drawn)
        alone, together = targets / len(drawn) / whole, targets / windows / t["packed", "drawn"]
        print(f"{len(drawn)} documents of {sum(drawn) / len(drawn):.0f} tokens: {windows} windows, {100 * padding:.2f}% padding; "
              f"alone in a row {100 * (1 - sum(min(n, seq) for n in drawn) / len(drawn) / seq):.0f}%")
        print(f"targets in a second: packed {batch * together:.0f}, rows of one document {batch * alone:.0f}: {together / alone:.2f} times")


if __name__ == "__main__":
    main()
