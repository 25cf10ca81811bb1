#!/usr/bin/env python3
"""What a step was said to cost beside what it did cost, by kinds of action.

    bench/predicted.py [BUILD] [--rounds N] [--only MODEL] [--forms] [--pause SECONDS]

Calibrates the machine, compiles three models at two sizes of batch for it, and traces steps of each; that a few times
over. Prints the predicted step, and how far the measured one and its kinds above 1% of a step are off, in percent of
what was predicted: medians. The machine must do nothing else.

--forms: the programs of attention.py, conv.py and recurrent.py instead, on the processors that this process may use, without PyTorch. A machine that others
share changes its speed within minutes, so calibrations and programs take turns, and a program is
predicted by the mean of what both its neighbours say.
"""

import argparse
import importlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

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


def forms(build):
    """Name, and how the program is made of a description and measured: milliseconds predicted and of each step."""
    threads = len(os.sched_getaffinity(0))  # as many as a description has
    attention, conv, recurrent = (importlib.import_module(name) for name in ("attention", "conv", "recurrent"))

    def attend(case):
        def of(device):
            options = argparse.Namespace(build=build, threads=threads, cpu=False, device=device)
            return attention.Program(options, case, attention.CASES[case]["called"])
        return of, 16

    def images(device):
        return conv.Program(argparse.Namespace(build=build, threads=threads, batch=16, device=device))

    def scanned(gru):
        model = None if gru else recurrent.mamba(recurrent.LAYERS, recurrent.SEQ, recurrent.BATCH)
        return (lambda device: recurrent.Program(build, model, threads, device)), 4

    return {"attention, " + case: attend(case) for case in attention.CASES} | {
        "convolutions": (images, 12), "Mamba 2": scanned(False), "GRU": scanned(True)}


def said_of(program):
    return program.predicted if hasattr(program, "predicted") else program.plan["step_ms"]


def took_of(program, steps):
    """Milliseconds of a step: the mean, without steps that took much longer than the others, as a calibration has it."""
    if not hasattr(program, "predicted"):
        return program.step(steps) * 1e3
    took = program.steps(steps)
    took = took[0] if isinstance(took, tuple) else took
    return statistics.mean(t for t in took if t <= 1.4 * statistics.median(took))


def measure_forms(build, mgc, rounds, only, pause):
    """Calibrations and programs take turns; a program is predicted by the mean of those right before and right behind."""
    programs, seen = {n: p for n, p in forms(build).items() if only in (None, n)}, {}
    for _ in range(rounds):
        run(mgc, "calibrate", "-o", "before.json")
        for name, (make, steps) in programs.items():
            program = make(os.path.abspath("before.json"))
            took = took_of(program, steps)
            run(mgc, "calibrate", "-o", "behind.json")
            said = [said_of(program), said_of(make(os.path.abspath("behind.json")))]
            off = statistics.mean(said) / took - 1
            seen.setdefault(name, []).append((took, off))
            print(f"{name}: predicted {said[0]:.0f} and {said[1]:.0f} ms, measured {took:.0f}: {off:+.0%}", flush=True)
            os.replace("behind.json", "before.json")
            if pause:
                time.sleep(pause)
                run(mgc, "calibrate", "-o", "before.json")
    for name, of in seen.items():
        off = [o for _, o in of]
        print(f"| {name} | {statistics.median(t for t, _ in of):.0f} ms | {statistics.median(off):+.0%} |"
              f" {min(off):+.0%} to {max(off):+.0%} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", help="one of the models, or of the forms")
    p.add_argument("--forms", action="store_true")
    p.add_argument("--pause", type=float, default=0, help="seconds for others between two forms")
    o = p.parse_args()
    build = os.path.abspath(o.build)
    mgc = os.path.join(build, "mgc")
    seen = {case: [] for case in CASES if o.only in (None, case[0])}
    with tempfile.TemporaryDirectory() as tmp:
        os.chdir(tmp)
        if o.forms:
            measure_forms(build, mgc, o.rounds, o.only, o.pause)
            return
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
