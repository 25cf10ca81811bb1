#!/usr/bin/env python3
"""What mgc search finds, beside the layouts that others published.

    bench/searched.py STATE.tsv [ROW...] [--mgc build/bin/mgc] [--minutes M] [--enough] [--no-new] [--markdown]
    bench/searched.py STATE.tsv [ROW...] --doubt

For each row of bench/published/published.tsv, and a few models of models/ with a layout of their own file: the step of that
layout by mgc's own plan of it, with what was kept and offloaded there, and with mgc's choice of that, the faster of both; what `mgc search` finds for that model,
device and number of ranks; seconds of processors that the search takes, of all its processes. The text that is found is compiled by
itself, and must have that step; no whole plan may be below its bound. STATE.tsv has a line for each row that is done, and a second run goes on
behind it: rows in the order in which they are named, or first those whose layout has most parts, and of rows that differ in the number of ranks alone the smallest.
Rows of the same model, device and number of ranks, which differ in the layout that was published alone, have one search.
--enough stops a search once what it has is faster than the published layout, which shows the same in less time (a later run without it searches to the end).
--doubt plans nothing but each row's one rank, and says where the published layout stands in the order of estimates, by which a search begins: a layout that is no point
of the space cannot be found, and one that stands far behind may not be planned.
Ends with a table; the exit code is 1 if anything found is slower than the published layout, or a plan is below its bound. The machine may do other things.
"""

import argparse
import csv
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SAME = 1e-4  # of a step: as fast
ENOUGH = 0.994  # of the published layout's step: a search may stop
COLUMNS = ["row", "ranks", "layout", "layout_s", "found", "found_s", "processor_s", "layouts", "rough", "quick", "whole", "below_bound", "ended"]

# Models with layouts of their own: file, options, device, ranks, the layout. The row of Llama 3 70B has gradients' sums in f32, where NeMo's are halves.
OWN = {
    "qwen3_0_6b": ("models/qwen3_0_6b.mg", [], "rtx4090", 8, "mesh dp = 8\nbatch -> dp\nmicrobatch 1\nrecompute auto"),
    "gpt2_1_6b": ("models/gpt2_124m.mg", "-D layers=48 -D hidden=1600 -D heads=25 -D ffn=6400 -D vocab=50304 -D batch=1024 --precision bf16".split(), "h100", 8,
                  "mesh dp = 8\nbatch -> dp\nstate -> dp\nmicrobatch 16\nrecompute auto"),
    "llama3_70b": ("models/llama3_8b.mg", "-D layers=80 -D hidden=8192 -D group=8 -D ffn=28672 -D batch=128".split(), "h100", 64,
                   "mesh pp = 4, dp = 2, cp = 2, tp = 4\nbatch -> dp\nkv_heads, ffn, vocab -> tp\nseq -> cp (zigzag)\nseq -> tp\n"
                   "layers -> pp (schedule = interleaved, chunks = 5)\nstate -> dp, cp\nmicrobatch 1\nrecompute auto"),
    "mixtral_8x7b": ("models/mixtral_8x7b.mg", [], "h100", 64, "node64"),
    "llama3_405b": ("models/llama3_405b.mg", [], "h100", 16384, "pod16k"),
}


def predict():
    loader = importlib.machinery.SourceFileLoader("predict", os.path.join(ROOT, "scripts", "predict"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("predict", loader))
    loader.exec_module(module)
    return module


def run(argv, expected=(0,), enough=0):
    """Of a command: its exit code, what it wrote, and seconds of processors of it and its children. A search is stopped when its best step is below `enough`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        told, stopped = [], False
        for line in p.stderr if enough else []:
            told.append(line)
            step = re.search(r"([\d.]+) (us|ms|s) a step, ", line)
            if step and not stopped and float(step[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1}[step[2]] < enough:
                stopped = True
                p.send_signal(signal.SIGINT)
        out, err = p.communicate()
    if stopped and p.returncode == -signal.SIGINT:  # it had ended by itself when the signal came, and had told nothing yet
        return run(argv, expected)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if p.returncode not in expected:
        raise RuntimeError(f"{p.returncode}: {' '.join(argv)}\n{''.join(told)}{err}")
    return p.returncode, out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def step_of(mgc, text, options, layout):
    """Seconds of a step under a layout's lines, or a layout of the file; infinite if it is refused or does not fit."""
    code, out, _ = run([mgc, text, *options, "--layout", layout, "--plan=json"], (0, 1, 3))
    return json.loads(out)["step_ms"] / 1e3 if code == 0 else float("inf")


def label(row):
    axes = [f"{a} {row[a]}" + (f" x {row['chunks']}" if a == "pp" and row["chunks"] > 1 else "") for a in ("pp", "dp", "ep", "cp", "tp") if row[a] > 1]
    return ", ".join([*axes, *[f"ZeRO {row['zero']}"] * (row["zero"] > 0), f"microbatch {row['microbatch']}", *["offload auto"] * (row["recompute"] == "offload")])


def published_steps(p, q, row):
    """Of its plans with mgc's own ways: with what was kept and offloaded there, and with mgc's choice of that, too."""
    own = dict(row, streams=3, own=True)
    auto = ["recompute auto", "offload auto" if row["recompute"] == "offload" else "offload none"]
    steps = []
    for chosen in [None] if row["recompute"] == "offload" else [auto] if row["recompute"] == "auto" else [None, auto]:
        try:
            steps.append(q.plan(own, row["batch"], chosen)["step_ms"] / 1e3)
        except p.Failed as failed:
            print(f"  one of its plans: {str(failed).splitlines()[0]}", file=sys.stderr)
    return steps


def published_case(p, q, row, folder):
    """The model's file, options and ranks."""
    text, options = q.model(dict(row, streams=3, own=True), row["batch"])
    if "part=" in row["define"]:  # its experts have parts of a sequence over tp, which no other layout of the file says
        with open(text, encoding="utf-8") as file:
            source = file.read()
        rules = [rule for rule in p.layout_rules(dict(row, own=True)) if not rule.startswith(("layers ->", "state", "seq ->"))]
        text = os.path.join(folder, "parts.mg")
        with open(text, "w", encoding="utf-8") as file:
            file.write(source + "\nlayout parts {\n    " + "\n    ".join(rules) + "\n}\n")
        options = [*options, "--layout", "parts"]
    return text, options, p.gpus_of(row)


def same_space(p, row, done, table, step, enough):
    """The row that is done and whose search is of the same layouts; None: there is none, or it was stopped at what is no faster than this row's layout."""
    def key(r):
        rules = tuple(p.layout_rules(dict(r, own=True))) if "part=" in r["define"] else ()
        return r["model"], r["define"], r["device"], r["batch"], p.gpus_of(r), rules
    for name, d in done.items():
        if name in table and key(table[name]) == key(row) and (d["ended"] == "1" or (enough and float(d["found_s"]) < ENOUGH * step)):
            return d
    return None


def doubt(p, row, folder):
    """Where its point stands by its estimate; None: nowhere."""
    text, options, ranks = published_case(p, p.Predictor(folder, []), row, folder)
    points = os.path.join(folder, "points.tsv")
    run([p.MGC, "search", text, *options, "--ranks", str(ranks), "--search-time", "0.001", "--points", points], (5,))
    with open(points, encoding="utf-8") as file:
        every = sorted(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE), key=lambda x: float(x["expected_s"]))
    mine = label(row).removesuffix(", offload auto")
    if row["tp"] > 1:
        mine = mine.replace(f"tp {row['tp']}", f"tp {row['tp']} with" + ("" if row["sp"] else "out") + " positions")
    at = next((i for i, x in enumerate(every) if x["layout"].removesuffix(", offload auto") == mine), None)
    return mine, len(every), at, at is not None and float(every[at]["expected_s"]) / float(every[0]["expected_s"])


def own_case(name, mgc, folder):
    model, options, device, ranks, layout = OWN[name]
    text, where = os.path.join(ROOT, model), layout
    options = [*options, "--device", device]
    if " " in layout:
        where = os.path.join(folder, "own.mg")
        with open(where, "w", encoding="ascii") as file:
            file.write("layout own {\n    " + layout.replace("\n", "\n    ") + "\n}\n")
        layout = ", ".join(line for line in layout.splitlines() if "->" not in line or "schedule" in line or "state" in line)
    return text, options, ranks, f"`{layout}`", step_of(mgc, text, options, where)


def search(mgc, text, options, ranks, enough, folder):
    found, points = os.path.join(folder, "found.mg"), os.path.join(folder, "points.tsv")
    code, _, seconds = run([mgc, "search", text, *options, "--ranks", str(ranks), "-o", found, "--points", points], (0, 5), enough)
    with open(points, encoding="utf-8") as file:
        every = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    whole = [p for p in every if p["state"] == "whole plan"]
    best = min(whole, key=lambda p: float(p["whole_s"]))
    at = options.index("--layout") if "--layout" in options else len(options)
    step = step_of(mgc, text, options[:at] + options[at + 2:], found)
    if abs(step / float(best["whole_s"]) - 1) > 1e-6:
        raise RuntimeError(f"{text}: the text that is found takes {step} s, and the search said {best['whole_s']}")
    offloaded = ", offload auto"  # whose bytes of the device have no bound
    below = sum(float(p["whole_s"]) < float(p["bound_s"]) * (1 - 1e-9) or (offloaded not in p["layout"] and int(p["whole_bytes"]) < float(p["bound_bytes"])) for p in whole)
    made = [sum(float(p[k]) > 0 for p in every) for k in ("rough_s", "quick_s", "whole_s")]
    return [best["layout"], step, seconds, len(every), *made, below, int(code == 0)]


def in_order(rows):
    """Of rows alike but for their ranks the smallest, the largest, then the others; of each the most involved first."""
    groups = {}
    for row in rows:
        groups.setdefault((row["source"], row["model"], row["define"], row["device"], row["recompute"], row["chunks"], row["tp"], row["ep"]), []).append(row)
    keyed = []
    for group in groups.values():
        group.sort(key=lambda r: r["dp"] * r["batch"])
        for k, row in enumerate(group):
            turn = 0 if k == 0 else 1 if k == len(group) - 1 else 2
            axes = sum(row[a] > 1 for a in ("pp", "ep", "cp", "tp"))
            doubt = 2 * (row["ep"] > 1) + 2 * ("part=" in row["define"]) + (row["chunks"] > 1) + ("precision=fp8" in row["define"]) + axes
            keyed.append((turn, -doubt, len(keyed), row))
    return [row for *_, row in sorted(keyed, key=lambda x: x[:3])]


def done_rows(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return {r[0]: dict(zip(COLUMNS, r)) for r in csv.reader(file, delimiter="\t") if len(r) == len(COLUMNS) and r[0] != "row"}


def is_number(text):
    return re.fullmatch(r"[\d.e+-]+", text) is not None


def seconds_text(s):
    return f"{float(s):.4g} s" if float(s) >= 1 else f"{1e3 * float(s):.4g} ms"


def tell(order, done, markdown):
    head = ["row", "ranks", "layout", "step", "found", "step", "faster", "processors", "layouts: planned"]
    rows = []
    for name in (n for n in order if n in done):
        d = done[name]
        gain = float(d["layout_s"]) / float(d["found_s"]) - 1
        rows.append([f"`{name}`", d["ranks"], d["layout"], seconds_text(d["layout_s"]), d["found"], seconds_text(d["found_s"]), f"{100 * gain:+.1f}%",
                     f"as `{d['processor_s']}`" if not is_number(d["processor_s"]) else f"{float(d['processor_s']):.0f} s" if d["ended"] == "1" else "stopped", f"{d['layouts']}: {d['rough']}, {d['quick']}, {d['whole']}"])
    if markdown:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for r in rows:
        print("| " + " | ".join(r) + " |" if markdown else "  ".join(r))
    slower = [n for n, d in done.items() if float(d["found_s"]) > float(d["layout_s"]) * (1 + SAME)]
    below = [n for n, d in done.items() if int(d["below_bound"])]
    cost = sorted(float(d["processor_s"]) for d in done.values() if d["ended"] == "1" and is_number(d["processor_s"]))
    print(f"\n{len(rows)} of {len(order)} rows; slower than the layout: {', '.join(slower) or 'none'}; with a plan below its bound: {', '.join(below) or 'none'}"
          + (f"; seconds of processors: median {cost[len(cost) // 2]:.0f}, most {cost[-1]:.0f}" if cost else ""))
    return not slower and not below


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    a.add_argument("state")
    a.add_argument("rows", nargs="*")
    a.add_argument("--mgc", default=os.path.join(ROOT, "build", "bin", "mgc"))
    a.add_argument("--minutes", type=float, default=1e9)
    a.add_argument("--markdown", action="store_true")
    a.add_argument("--enough", action="store_true", help="a search ends when it is faster than the published layout")
    a.add_argument("--doubt", action="store_true", help="where published layouts stand in the order of estimates")
    a.add_argument("--no-new", action="store_true", help="the table of what is done")
    o = a.parse_intermixed_args()
    p = predict()
    p.MGC = os.path.abspath(o.mgc)
    table = {row["name"]: row for row in p.table()}
    order = [*OWN, *[row["name"] for row in in_order(table.values())]]
    unknown = [n for n in o.rows if n not in order]
    if unknown:
        sys.exit(f"no row {unknown[0]}: {', '.join(order)}")
    for name in (o.rows or order) if o.doubt else []:
        if name not in OWN:
            with tempfile.TemporaryDirectory() as folder:
                print(name, *doubt(p, table[name], folder), sep="\t", flush=True)
    if o.doubt:
        return 0
    done, end = done_rows(o.state), time.monotonic() + 60 * o.minutes
    with open(o.state, "a", encoding="utf-8") as out:
        for name in [] if o.no_new else o.rows or order:
            if (name in done and (o.enough or done[name]["ended"] == "1")) or time.monotonic() > end:
                continue
            other = None
            with tempfile.TemporaryDirectory() as folder:
                if name in OWN:
                    text, options, ranks, layout, step = own_case(name, p.MGC, folder)
                else:
                    q, layout = p.Predictor(folder, []), label(table[name])
                    step = min(published_steps(p, q, table[name]))
                    text, options, ranks = published_case(p, q, table[name], folder)
                other = same_space(p, table[name], done, table, step, o.enough) if name in table else None
                if other:
                    found = [other[c] for c in COLUMNS[4:]]
                    found[2] = other["processor_s"] if not is_number(other["processor_s"]) else other["row"]
                else:
                    found = search(p.MGC, text, options, ranks, ENOUGH * step if o.enough else 0, folder)
                line = [name, ranks, layout, step, *found]
            done[name] = dict(zip(COLUMNS, map(str, line)))
            print(*line, sep="\t", file=out, flush=True)
            spent = f"the search of {line[6]}" if other else f"{line[6]:.0f} s of processors"
            print(name, f"{step:.6g} s, found {float(line[5]):.6g} s: {line[4]}; {spent}", flush=True)
    return 0 if tell(order, done, o.markdown) else 1


if __name__ == "__main__":
    sys.exit(main())
