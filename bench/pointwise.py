#!/usr/bin/env python3
"""What a function of a generated kernel takes on this processor, beside what is predicted of it.

    bench/pointwise.py [BUILD] [--device cpu.json] [--rounds 3] [--times 8]

Of each function a kernel computes --times of them of each of some hundred thousand numbers, which stay in a cache. Prints nanoseconds of one
on a thread (with the multiplication and the addition around it), how many additions take as long, and predicted by measured time:
medians of all runs. A function that is far from 1 has a wrong price in plan/host_price.c; what all are off by is the description's
`operations_per_thread`. Without --device mgc calibrate describes the machine first.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FUNCTIONS = {
    "addition": "({0} + {0})", "arithmetic": "(({0} + 1) * ({0} + 2) - {0})", "division": "1 / (3 + {})", "sqrt": "sqrt(2 + {})",
    "rsqrt": "rsqrt(2 + {})", "exp": "exp({})", "log": "log(3 + {})", "sigmoid": "sigmoid({})", "silu": "silu({})", "tanh": "tanh({})",
    "gelu_tanh": "gelu_tanh({})", "erf": "erf({})", "gelu": "gelu({})", "sin": "sin({})", "cos": "cos({})", "pow": "pow(3 + {}, 0.3)",
    "select": "select({0} > 0, {0}, 0.1)", "max": "max({}, 0.1)", "abs": "abs({})"}
ROWS, SEQ, WIDEST = 4, 64, 1024


def source(times):
    """Sums of each function; each has a dim of its own size, so that no two are one kernel."""
    lines = [f"dim vocab = 256, seq = {SEQ}, batch = {ROWS}"]
    lines += [f"dim d{i} = {WIDEST - 16 * i}" for i in range(len(FUNCTIONS))]
    lines.append("model pointwise(tokens[batch, seq] : token(vocab)) {\n    weight : param[vocab] ~ normal(0.1)\n    sum0 = 0 * weight[tokens]")
    for i, text in enumerate(FUNCTIONS.values()):
        terms = " + ".join(text.format(f"({1 - 0.5 * k / times:.4f} * x{i})") for k in range(times))
        lines += [f"    t{i} : param[vocab, d{i}] ~ normal(0.3)", f"    x{i} = t{i}[tokens]",
                  f"    sum{i + 1} = sum{i} + mean({terms}, over d{i})"]
    lines.append(f"    loss = mean(weight[tokens] * sum{len(FUNCTIONS)})\n}}")
    lines.append("train {\n    optimizer sgd()\n    frozen where rank >= 2\n    lr 1e-4\n    precision f32\n}")
    return "\n".join(lines)


def kernels(path):
    """Name of the function: (measured, predicted) of each run of its kernel, in microseconds."""
    with open(path, encoding="utf-8") as f:
        events = json.load(f)["traceEvents"]
    seen = {}
    for e in events:
        args = e.get("args", {})
        if e.get("cat") != "kernel" or not args.get("measured_us") or e["tid"] % 2 or args["flops"] < 2 * args["bytes"] / 4:
            continue
        for i, name in enumerate(FUNCTIONS):
            read = ROWS * SEQ * (WIDEST - 16 * i) * 4
            if read <= args["bytes"] < read + 16 * SEQ * ROWS and args["flops"] >= read / 4:
                seen.setdefault(name, []).append((args["measured_us"], args["predicted_us"]))
    return seen


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--device")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--times", type=int, default=8)
    o = p.parse_args()
    mgc = os.path.join(os.path.abspath(o.build), "mgc")
    device = os.path.abspath(o.device) if o.device else None
    with tempfile.TemporaryDirectory() as tmp:
        os.chdir(tmp)
        if not device:
            device = os.path.join(tmp, "cpu.json")
            subprocess.run([mgc, "calibrate", "-o", device], check=True)
        with open(device, encoding="utf-8") as f:
            rate = json.load(f)["operations_per_thread"]
        with open("m.mg", "w", encoding="utf-8") as f:
            f.write(source(o.times))
        with open("tokens", "wb") as f:
            f.write(os.urandom(100000))
        subprocess.run([mgc, "m.mg", "--device", device, "-o", "train"], check=True, capture_output=True)
        threads, seen = len(os.sched_getaffinity(0)), {}
        for n in range(o.rounds):
            subprocess.run(["./train", "--data", "tokens", "--threads", str(threads), "--save-every", "0", "--out", f"run{n}",
                            "--steps", "12", "--trace", "3:12"], check=True, capture_output=True)
            for name, runs in kernels(f"run{n}/trace.json").items():
                seen.setdefault(name, []).extend(runs)
    print("| function | ns | additions | predicted by measured |\n|---|---|---|---|")
    for i, name in enumerate(FUNCTIONS):
        if name not in seen:
            continue
        us = statistics.median(m for m, _ in seen[name])
        each = us * 1e3 * threads / (ROWS * SEQ * (WIDEST - 16 * i) * o.times)
        ratio = statistics.median(p for _, p in seen[name]) / us
        print(f"| {name} | {each:.3f} | {each * 1e-9 * rate:.1f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
