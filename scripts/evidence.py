#!/usr/bin/env python3
"""evidence.py BUILD - the table of docs/evidence.md: what was run, on what, and what it gave.

Reads BUILD/report.xml (ctest's), and measures what the tests only bound: compile times, the size of
the emitted source, the distance to PyTorch's numbers. Needs the standard library only."""

import os
import platform
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RUNS = 10


def out(*argv, **more):
    return subprocess.run(argv, check=True, capture_output=True, text=True, **more).stdout


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return next(line.split(":")[1].strip() for line in f if line.startswith("model name"))


def best(mgc, folder, *argv):
    """Seconds, the least of RUNS: what the work takes, without what else the machine does."""
    took = []
    for _ in range(RUNS):
        start = time.monotonic()
        subprocess.run([mgc, *argv], check=True, stdout=subprocess.DEVNULL, cwd=folder)
        took.append(time.monotonic() - start)
    return min(took)


def compile_times(mgc):
    model = os.path.join(ROOT, "models/llama7b.mg")
    with tempfile.TemporaryDirectory(prefix="mgc-evidence-") as folder:
        def row(*argv):
            return best(mgc, folder, model, "--device=cpu2t", *argv)

        def source(layers):
            return out(mgc, model, "--device=cpu2t", "-D", f"layers={layers}", "--emit=c")

        print("## Compile times: `models/llama7b.mg --device=cpu2t`\n")
        print(f"Least of {RUNS} runs.\n\n| what | seconds | bound |\n|---|---|---|")
        print(f"| `--check` | {row('--check'):.3f} | 0.2 |")
        print(f"| `--emit=c` | {row('--emit=c'):.3f} | 0.5 |")
        print(f"| executable, kernels included | {row('-o', 'train'):.3f} | 3 |")
        for what in (["--check"], ["--emit=c"], ["-o", "train"]):
            few, many = (row("-D", f"layers={n}", *what) for n in (2, 200))
            print(f"| `{' '.join(what)}`, 2 and 200 layers | {few:.3f}, {many:.3f} | 10% + 0.02 apart |")
        few, many = source(2), source(200)
    print(f"\nEmitted C: {len(few.splitlines())} lines with 2 layers, {len(many.splitlines())} with 200 "
          f"(bound 1,500); {len(few)} and {len(many)} bytes, {100 * (len(many) / len(few) - 1):.2f}% "
          "apart (bound 2%).\n")


def parity(build):
    print("## PyTorch's numbers\n\nGradients of every parameter and the losses of 20 AdamW steps, from "
          "the emitted program,\nagainst PyTorch in float64 (bounds: float32 1e-5 and 1e-4, float64 1e-9).\n\n```")
    for model in ("gpt2", "llama", "mlp"):
        for precision in ("f32", "f64"):
            text = out(sys.executable, os.path.join(ROOT, "tests/parity/check.py"), f"{model}_small",
                       precision, env={**os.environ, "MGC_BUILD": os.path.abspath(build)})
            print(text.strip().splitlines()[-1])
    print("```\n")


def tests(build):
    suite = xml.parse(os.path.join(build, "report.xml")).getroot()
    print("## Tests\n\n| test | result | seconds |\n|---|---|---|")
    for case in suite.iter("testcase"):
        bad = case.find("failure") is not None
        skipped = case.find("skipped") is not None
        result = "failed" if bad else "skipped" if skipped else "passed"
        print(f"| {case.get('name')} | {result} | {float(case.get('time')):.1f} |")


def main():
    build = sys.argv[1]
    commit = out("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip()
    print("# Evidence\n\nWritten by `scripts/test full`. The bounds are those the tests hold the project "
          "to; the machine is\nshared, so times are upper bounds.\n")
    print(f"Commit {commit}; {processor()}, {os.cpu_count()} cores; Linux {platform.release()}; "
          f"{out('cc', '--version').splitlines()[0]}.\n")
    compile_times(os.path.join(os.path.abspath(build), "bin/mgc"))
    parity(build)
    tests(build)


if __name__ == "__main__":
    main()
