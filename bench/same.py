#!/usr/bin/env python3
"""same.py - two builds of mgc, model by model: the bits of the losses, and how long compiling takes.

    bench/same.py BEFORE AFTER [--steps 10] [--rounds 5]

BEFORE and AFTER are mgc executables. Each shipped model, made small, is compiled by both in f32, f64 and
bf16, and trained on the same text by one thread; losses and gradient norms are compared as they are
written, digit by digit. Compile times are medians of pairs, of the model as it is shipped (--check) and of its
small program (-o). Exit 1 if a loss differs.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")
DENSE = ["layers=2", "hidden=32", "head=8", "ffn=48", "vocab=256", "seq=24", "batch=4"]
HEADS = {"gpt2_124m": ["heads=4"], "mlp": None, "mixtral_8x7b": ["kv_heads=2", "group=2"], "mixtral_mini": ["kv_heads=2", "group=2"]}
SMALL = ["kv_heads=2", "group=2"]


def options_of(model):
    """-D options that make it small."""
    heads = HEADS.get(model, SMALL)
    return [] if heads is None else DENSE + heads


def compile_small(mgc, model, out, more):
    defines = [w for d in options_of(model) for w in ("-D", d)]
    return subprocess.run([mgc, os.path.join(MODELS, model + ".mg"), *defines, *more, "--device", "cpu2t", "-o", out],
                          capture_output=True, text=True)


def losses(program, text, folder, steps):
    done = subprocess.run([program, "--data", text, "--steps", str(steps), "--threads", "1", "--seed", "1", "--out", folder],
                          capture_output=True, text=True)
    if done.returncode:
        return "exit %d: %s" % (done.returncode, done.stderr.strip().splitlines()[-1:])
    with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    return [(m["loss"], m.get("gnorm", m.get("grad_norm"))) for m in lines if "loss" in m]


def seconds(command):
    begin = time.monotonic()
    done = subprocess.run(command, capture_output=True)
    return time.monotonic() - begin if done.returncode in (0, 3) else None


def compile_ratio(before, after, model, rounds):
    times = {before: [], after: []}
    for _ in range(rounds):
        for mgc in (before, after):
            t = seconds([mgc, os.path.join(MODELS, model + ".mg"), "--check"])
            if t is None:
                return None
            times[mgc].append(t)
    return statistics.median(times[after]) / statistics.median(times[before])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("before")
    p.add_argument("after")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--rounds", type=int, default=5)
    a = p.parse_args()
    variants = {"f32": ["--precision", "f32"], "f64": ["--precision", "f64"], "bf16": ["--precision", "bf16"]}
    differ = ran = 0
    print("| model | %s | --check, times as long |" % " | ".join(variants))
    print("|---|%s---|" % ("---|" * len(variants)))
    with tempfile.TemporaryDirectory() as tmp:
        text = os.path.join(tmp, "text")
        rng = random.Random(1)
        with open(text, "wb") as f:
            f.write(bytes(rng.choice(b"abcdefgh ijklm\n") for _ in range(40000)))
        for model in sorted(m[:-3] for m in os.listdir(MODELS) if m.endswith(".mg")):
            cells = []
            for name, more in variants.items():
                got = []
                for which, mgc in (("before", a.before), ("after", a.after)):
                    program = os.path.join(tmp, which)
                    made = compile_small(mgc, model, program, more)
                    got.append(losses(program, text, os.path.join(tmp, f"{model}-{name}-{which}"), a.steps)
                               if made.returncode == 0 else "not compiled: " + made.stderr.strip().splitlines()[0])
                    if os.path.exists(program):
                        os.remove(program)
                ran += isinstance(got[0], list)
                same = got[0] == got[1]
                differ += not same
                cells.append(("%.17g" % got[0][-1][0] if isinstance(got[0], list) else got[0]) if same else "DIFFER")
            ratio = compile_ratio(a.before, a.after, model, a.rounds)
            print(f"| {model} | {' | '.join(cells)} | {'-' if ratio is None else '%.2f' % ratio} |", flush=True)
    print(f"{ran} programs, {differ} differ")
    return 1 if differ or not ran else 0


sys.exit(main())
