#!/usr/bin/env python3
"""saving.py - what checkpoints cost a run: the time of ten steps of which one saves, beside ten that save nothing.

    bench/saving.py [--pairs N] [--steps N] [--model models/llama_56m.mg] [--dir FOLDER] [--out bench/results/NAME.md]

Runs two programs in turn, one after the other: one whose steps wait for its checkpoints (--save blocking), one that
writes them beside the steps. Each is told to save by SIGUSR1 at the beginning of every other block of steps, so that a
block with a save stands beside one without, and slow changes of a machine that others use, too, cancel out. A block is
measured by the clock, and in seconds of processors of the program, which others do not take from it; a program waits for
a disk without these. What steps stand still is as the program says. Medians over pairs."""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def scribe_seconds(pid):
    """Of the thread that writes."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as f:
            text = f.read()
        if text.split("(", 1)[1].startswith("checkpoints)"):
            fields = text.rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / TICK
    return 0.0


def lines(path):
    try:
        with open(path, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


class Run:
    def __init__(self, folder, way):
        self.log = os.path.join(folder, way, "metrics.jsonl")
        argv = ["./train", "--data", "u16:text", "--steps", "1000000", "--save-every", "1000h", "--keep", "1", "--out", way, "--save", way]
        self.p = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL)

    def at(self, step):
        """When the step was over, and the processors' seconds then."""
        while True:
            for m in lines(self.log):
                if "loss" in m and m["step"] == step:
                    return m["time"], processor_seconds(self.p.pid), scribe_seconds(self.p.pid)
            assert self.p.poll() is None, "the program ended"
            time.sleep(0.05)

    def end(self):
        self.p.kill()
        self.p.wait()


def measure(folder, way, pairs, steps, warm=3):
    """Pairs of blocks: (seconds, processors' seconds) with a save, and without."""
    run = Run(folder, way)
    try:
        found, at = [], warm
        before = run.at(at)
        for _ in range(pairs):
            run.p.send_signal(signal.SIGUSR1)  # seen behind the step that runs
            blocks = []
            for _ in range(2):
                at += steps
                now = run.at(at)
                blocks.append(tuple(b - a for a, b in zip(before, now)))
                before = now
            found.append(blocks)
            print(f"{way}: with a save, without (by the clock, processors, the writer): {blocks}", file=sys.stderr, flush=True)
        return found, [m for m in lines(run.log) if "saved" in m]
    finally:
        run.end()


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--pairs", type=int, default=5)
    a.add_argument("--steps", type=int, default=10)
    a.add_argument("--model", default=os.path.join(ROOT, "models/llama_56m.mg"))
    a.add_argument("--dir", help="where checkpoints are written; default: a folder of the system's")
    a.add_argument("--out")
    o = a.parse_args()
    folder = tempfile.mkdtemp(prefix="mgc-saving-", dir=o.dir)
    rows = []
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        cpu = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    load = " ".join(f"{x:.1f}" for x in os.getloadavg())
    try:
        subprocess.run([os.path.join(ROOT, "build/mgc"), o.model, "-o", "train"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, "text"), "wb") as f:
            r = random.Random(1)
            f.write(b"".join(r.randrange(32000).to_bytes(2, "little") for _ in range(1000000)))
        for way in ("blocking", "beside"):
            found, saved = measure(folder, way, o.pairs, o.steps)
            wall = [b[0][0] / b[1][0] for b in found]
            work = [b[0][1] / b[1][1] for b in found]
            median = statistics.median
            rows.append((way, median(b[1][0] for b in found) / o.steps, median(b[1][1] for b in found) / o.steps,
                         median(m["save_stopped_ms"] for m in saved), median(m["save_beside_ms"] for m in saved),
                         median(b[0][2] for b in found), median(work), median(wall), " ".join(f"{x:.3f}" for x in wall)))
            size = saved[0]["save_bytes"] / 2**20
    finally:
        shutil.rmtree(folder)
    text = [f"# The cost of checkpoints, {os.path.basename(o.model)}", "",
            f"{cpu}, {os.cpu_count()} cores; load {load} before, {' '.join(f'{x:.1f}' for x in os.getloadavg())} behind; "
            f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC.", "",
            f"A checkpoint of {size:.1f} MiB in one of two blocks of {o.steps} steps, {o.pairs} pairs of each way; `bench/saving.py` repeats it.", "",
            "| --save | a step, s | processors' s | steps stand still, ms | written beside, ms | the writer's processors' s a save | "
            "processors' s of a block by those without | time by that without | of each pair |", "|---|---|---|---|---|---|---|---|---|"]
    text += [f"| {w} | {s:.2f} | {p:.2f} | {stop:.0f} | {beside:.0f} | {own:.2f} | {work:.3f} | **{wall:.3f}** | {each} |"
             for w, s, p, stop, beside, own, work, wall, each in rows]
    text += ["", "On a machine that others use, steps stand still as long as those let them, and a block takes as long. "
             "The seconds of processors that a save takes are the writer's and those of the copy:", ""]
    for w, _, p, stop, beside, own, _, _, _ in rows:
        text.append(f"- {w}: steps stand still {stop:.0f} ms" + (f"; the writer takes {own:.2f} s, {100 * own / (p * o.steps):.1f}% of those of a block" if beside else ""))
    print("\n".join(text))
    if o.out:
        with open(o.out, "w", encoding="utf-8") as f:
            f.write("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
