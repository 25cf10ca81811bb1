#!/usr/bin/env python3
"""What a step was said to cost beside what it did cost, by kinds of action.

    bench/predicted.py [BUILD] [--rounds N] [--only MODEL]

Calibrates the machine, compiles three models at two sizes of batch for it, and traces steps of each; that a few times
over. Prints the predicted step, and how far the measured one and its kinds above 1% of a step are off, in percent of
what was predicted: medians. The machine must do nothing else.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# Model, sequences, steps that are traced: some eight seconds of them, as long as calibration takes.
CASES = [("llama_mini", 32, 40), ("llama_mini", 8, 160), ("llama_56m", 8, 5), ("llama_56m", 2, 12), ("gpt2_124m", 1, 5),
         ("gpt2_124m", 2, 5)]


def run(*argv):
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    if r.returncode:
        sys.exit(f"{' '.join(map(str, argv))}\n{r.stdout}{r.stderr}")
    return r.stdout


def tokens(vocab):
    """A file of random tokens, and how --data names it."""
    with open("tokens", "wb") as f:
        words = os.urandom(1 << 20)
        for i in range(0, len(words), 2):
            f.write((int.from_bytes(words[i:i + 2], "little") % vocab).to_bytes(2, "little"))
    return "u16:tokens"


def measure(mgc, model, batch, steps):
    """Milliseconds predicted and measured: of a step, and of its kinds of actions."""
    source = f"{ROOT}/models/{model}.mg"
    with open(source, encoding="utf-8") as f:
        vocab = int(re.search(r"vocab = (\d+)", f.read())[1])
    run(mgc, source, "-D", f"batch={batch}", "--microbatch", batch, "--device", "./cpu.json", "-o", "train")
    shutil.rmtree("run", ignore_errors=True)
    run("./train", "--data", tokens(vocab), "--steps", steps + 2, "--trace", f"3:{steps + 2}", "--out", "run",
        "--save-every", 0)
    out = run(mgc, "report", "run/trace.json")
    step = re.search(r"measured ([\d.]+) ms, predicted ([\d.]+) ms", out)
    kinds = {"step": (float(step[2]), float(step[1]))}
    for line in out.split("\n\n")[1].splitlines()[1:]:
        w = line.split(maxsplit=6)
        kinds[w[6]] = (float(w[1]), float(w[0]))
    return kinds


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", help="one of the models")
    o = p.parse_args()
    mgc = os.path.abspath(os.path.join(o.build, "mgc"))
    seen = {case: [] for case in CASES if o.only in (None, case[0])}
    with tempfile.TemporaryDirectory() as tmp:
        os.chdir(tmp)
        for _ in range(o.rounds):
            print(run(mgc, "calibrate", "-o", "cpu.json").strip(), flush=True)
            for case in seen:
                seen[case].append(measure(mgc, *case))
                k = seen[case][-1]
                print(*case[:2], *(f"{n} {m / p - 1:+.0%}" for n, (p, m) in k.items()), flush=True)
        for (model, batch, _), rounds in seen.items():
            first = rounds[0]
            off = {n: statistics.median(r[n][1] / r[n][0] - 1 for r in rounds) for n in first
                   if first[n][0] > 0.01 * first["step"][0]}
            print(f"| {model} | {batch} | {statistics.median(r['step'][0] for r in rounds):.1f} ms |",
                  " | ".join(f"{n} {x:+.1%}" for n, x in off.items()), flush=True)


if __name__ == "__main__":
    main()
