#!/usr/bin/env python3
"""evidence.py - what this machine measures, as the tables of docs/evidence.md.

    python3 scripts/evidence.py [BUILD] [--steps N]     Markdown on standard output

Compiles the shipped models, trains each for a few steps on a made-up text, and puts what was
predicted beside what was measured. The numbers are those of the machine and of what else it does.
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# model, definitions, steps
RUNS = [
    ("mlp", {}, 200),
    ("llama_mini", {}, 30),
    ("llama_56m", {}, 6),
    ("gpt2_124m", {"seq": 64, "batch": 4}, 6),
]
CHECKS = [("mlp", {}), ("llama_mini", {}), ("gpt2_124m", {}), ("llama_56m", {}), ("llama7b", {}),
          ("llama7b", {"layers": 200})]


def defines(d):
    return [f"-D{k}={v}" for k, v in d.items()]


def label(model, d):
    return " ".join([model, *(f"{k}={v}" for k, v in d.items())])


def run(*argv, cwd=None):
    r = subprocess.run([str(a) for a in argv], cwd=cwd, capture_output=True, text=True, check=False)
    if r.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {r.returncode}\n{r.stderr}")
    return r.stdout


def best_of(n, *argv):
    took = []
    for _ in range(n):
        start = time.monotonic()
        run(*argv)
        took.append(time.monotonic() - start)
    return min(took)


def token_file(path, vocab, tokens):
    """Bytes where the vocabulary is 256, else llm.c's format; a skewed distribution, so that it is no
    noise."""
    r = random.Random(1)
    ids = [min(int(r.paretovariate(0.7)), vocab - 1) for _ in range(tokens)]
    with open(path, "wb") as f:
        if vocab == 256:
            f.write(bytes(ids))
        else:
            header = [20240520, 1, tokens] + [0] * 253
            f.write(b"".join(x.to_bytes(4, "little") for x in header))
            f.write(b"".join(x.to_bytes(2, "little") for x in ids))


def median(v):
    v = sorted(v)
    return (v[len(v) // 2] + v[(len(v) - 1) // 2]) / 2


def peak_rss(argv, cwd):
    """Bytes: the most the program had in memory (GNU time is not needed: /proc says it)."""
    p = subprocess.Popen([str(a) for a in argv], cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(p.pid, 0)
    err = p.stderr.read().decode()
    if status:
        sys.exit(f"{argv}: status {status}\n{err}")
    return usage.ru_maxrss * 1024


def train(mgc, model, d, steps, folder):
    source = os.path.join(ROOT, "models", model + ".mg")
    plan = json.loads(run(mgc, source, *defines(d), "--plan=json"))
    run(mgc, source, *defines(d), "-o", "train", cwd=folder)
    vocab = int(re.search(r" vocab (\d+)", run(mgc, source, *defines(d), "--print-after=lower")).group(1))
    token_file(os.path.join(folder, "data.bin"), vocab, 200_000)
    argv = ["./train", "--data", "data.bin", "--steps", steps, "--out", "run", "--save-every", 0]
    rss = peak_rss(argv, folder)
    with open(os.path.join(folder, "run/metrics.jsonl"), encoding="utf-8") as f:
        rows = [r for r in map(json.loads, f) if "grad_norm" in r][1:]  # the first step faults pages in
    ms = median([r["step_ms"] for r in rows])
    return {"model": label(model, d), "params": plan["params"], "predicted": plan["step_ms"], "ms": ms,
            "tokens": median([r["tokens_per_s"] for r in rows]), "gflops": plan["flops_per_step"] / ms / 1e6,
            "planned": plan["arena_bytes"] + plan.get("scratch_bytes", 0), "rss": rss}


def compile_table(mgc):
    print("| model | `--check` | `-o` | lines of C |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for model, d in CHECKS:
            source = os.path.join(ROOT, "models", model + ".mg")
            base = [mgc, source, *defines(d), "--device=cpu2t"]
            lines = run(*base, "--emit=c").count("\n")
            print(f"| {label(model, d)} | {best_of(5, *base, '--check') * 1e3:.0f} ms "
                  f"| {best_of(2, *base, '-o', folder + '/train'):.2f} s | {lines} |", flush=True)


def run_table(mgc, few):
    print("| model | parameters | predicted ms | measured ms | tokens/s | GFLOP/s | planned MiB | RSS MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for model, d, steps in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            r = train(mgc, model, d, few or steps, folder)
        print(f"| {r['model']} | {r['params'] / 1e6:.2f} M | {r['predicted']:.4g} | {r['ms']:.4g} "
              f"| {r['tokens']:.0f} | {r['gflops']:.0f} | {r['planned'] / 2**20:.0f} | {r['rss'] / 2**20:.0f} |",
              flush=True)


def parity_table(build):
    print("| model | precision | gradients off by | 20 losses off by |\n|---|---|---|---|")
    env = {**os.environ, "MGC_BUILD": build}
    for model in ("gpt2_small", "llama_small", "mlp_small"):
        for precision in ("f32", "f64"):
            r = subprocess.run([sys.executable, os.path.join(ROOT, "tests/parity/check.py"), model, precision],
                               capture_output=True, text=True, env=env, check=False)
            m = re.search(r"off by (\S+) of their norm at most, 20 losses by (\S+): agree", r.stdout)
            if not m:
                sys.exit(r.stdout + r.stderr)
            print(f"| {model} | {precision} | {m.group(1)} | {m.group(2)} |", flush=True)


def main():
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    few = int(words.pop()) if "--steps" in sys.argv else 0
    build = os.path.abspath(words[0] if words else os.path.join(ROOT, "build"))
    mgc = os.path.join(build, "mgc")
    env = run(mgc, "env")
    print("```text\n" + re.sub(r"(?m)^home.*\n", "", env) + "```\n\n### Against PyTorch\n")
    parity_table(build)
    print("\n### Compiling\n")
    compile_table(mgc)
    print("\n### Training\n")
    run_table(mgc, few)


main()
