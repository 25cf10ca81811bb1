#!/usr/bin/env python3
"""Random programs of all of the language against PyTorch: random_programs.py [--seed N] [--count N] [--compiled SHARE] [--layouts SHARE].

Needs torch. Each program is made twice from one random tree (draws/): as a .mg file, and in float64 by torch, with the meaning
that docs/language.md gives each operator (named.py). The interpreter's loss is torch's within 1e-10, each gradient within 1e-9 of its
norm; a share of the programs is compiled too, with a random microbatch and choice of what is computed again, with kernels by LLVM or in
C, and its first step has the same losses, the same gradients in its momentum, the same parameters, averages and followers behind it,
and an evaluation the same loss and metrics. Another share runs under a random layout, by real ranks. What fails is printed whole, with
its seed.

Numbers stay of the size of 1: each value has a bound, and what grows is brought back. A program whose result hangs on
rounding, by a comparison of numbers that are nearly equal, is drawn again.
"""

import argparse
import collections
import itertools
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from array import array

try:
    import torch
except ImportError:
    print("random programs: PyTorch is not there: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "zoo"))

import draws  # noqa: E402
from draws.scope import REPEATS  # noqa: E402
from named import IllConditioned  # noqa: E402
from twins.noise import order  # noqa: E402
from zoo import GRADIENT, LOSS, OF_ALL, norm, random_layouts, read_safetensors, write_safetensors  # noqa: E402

BUILD = os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build"))
STEEP = 1e4  # how much larger the difference of gradients may be than that of parameters, where they are compared
TRIES = 6  # layouts of a program, until one is not refused
CODES = {torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8"}


def raw(t, dtype=None):
    t = t.detach().to(dtype or (t.dtype if t.is_floating_point() else torch.uint8)).contiguous()
    return CODES[t.dtype], list(t.shape), bytes(t.flatten().view(torch.uint8).tolist()) if t.numel() else b""


CONSTRUCTS = {  # what --stats counts, as it stands in a text
    "repeat": r"repeat \w+ as", "repeat with a number": r"repeat \w+ at", "scan": r"scan \w+ {", "scan reverse": r"scan \w+ reverse",
    "scan in a repeat": r"^ {4,}repeat(?:(?!^ {4}}).)*scan", "scan in a scan": r"^( +)scan(?:(?!^\1}).)*\n\1 +scan", "recurrence": r"\b(h\d+) = [\w.]+ \* \1$",
    "delta rule": r"@ (h\d+) over \w+\) \* \w+$", "chunk": r"chunk ", "instance": r"i\d+ : block \w+ as \"c\d+\"$", "follower": "follows .* by",
    "copy": "follows .* every", "several values": r"^ +v\d+, v\d+ = f", "uniform": r"uniform\(", "normal": r" normal\(over", "dropout": r"dropout\(",
    "step": r"step\(\)\) / 4\)", "convolution in one dim": r"\[\w+ = [^\],]*\] @ \w+ over", "in two": r"\[\w+ = [^\],]*, \w+ = [^\],]*\] @ \w+ over",
    "stride": r"\[\w+ = [23] \* ", "dilation": r"\[\w+ = [^\]]*\+ 2 \* ", "pool": r"(max|mean|sum)\(\w+\[\w+ = [^\]]*\], over", "join of two": r"join\(\w+, \w+, \(",
    "join of three": r"join\(\w+, \w+, \w+, \(", "range": r"\[\w+ = \d+ \.\.", "one element": r"\[\w+ = \d+\]", "split": r"\[\w+ -> \(", "merge": r"\[\(\w+, \w+\) -> ",
    "shift": r"\[\w+ - \w+\]", "look-up": r"\w\[(tokens|id\d+|v\d+)\]", "top": r"top\(", "select of indices": r"\[select\(\w+ == \d+, \d+, \w+\)\]", "stop": r"stop\(",
    "next, further": r"next\(tokens, by", "next by name": r"next\(id", "weights of tokens": r"next\(weight|, weight\)", "documents": r"document_start\(", "documents of the data": r"document_start\(tokens, along seq\)",
    "attention": r" attention\(|\(attention\(", "window": r"window = ", "cap": r"cap = ", "start": r"attention\([^\n]*, v\d+, along \w+, over [^\n]*causal", "rope with a start": r"rope\(\w+, v\d+, along",
    "experts": r"combine\(", "sorted rows": r"grouped\(", "several losses": r"^train \w+ where", "own optimizer": r"^optimizer", "schedule": r"lr +constant", "clip": r"clip ", "average": r"average ",
    "rate of some": r"^ +rate", "decay of some": r"^ +decay", "frozen": r"^ +frozen", "metric": r"^ +metric",
}


class Drawn:
    """A program with the numbers that it has by torch."""

    def __init__(self, program):
        self.program, self.text = program, program.text
        self.losses = {g.name: float(g.value().detach()) for g in program.training.goals}
        self.grads = program.training.gradients()
        self.size = math.sqrt(sum(float((g**2).sum()) for g in self.grads.values()))
        self.state, self.after = program.training.after(self.grads)

    def data(self):
        """The inputs, as long as the program reads them."""
        p, found = self.program, {}
        furthest = max([int(k or 1) for k in re.findall(r"next\(tokens(?:, by = (\d+))?\)", self.text)], default=1)
        furthest = max([furthest, *(int(k or 1) + 1 for k in re.findall(r"next\(weight(?:, by = (\d+))?\)", self.text))])
        for n, x in p.data.items():
            whole = p.size["seq"] + furthest if n in ("tokens", "weights", "documents") else x.shape[-1]
            if n in p.longer and f"next({n})" not in self.text:
                whole -= 1
            found[n] = x[..., :whole] if x.ndim > 1 else x
        return found


def draw(seed):
    """None where rounding decides, or a limit is passed."""
    try:
        d = Drawn(draws.make(seed))
    except IllConditioned:
        return None
    if not all(1e-2 < abs(x) < 20 for x in d.losses.values()) or not 1e-3 < d.size < 1e3:  # what is left of large numbers is rounding
        return None
    return d


def steep(drawn):
    """Whether parameters that are others in the last digits have gradients that are others in so many more: rounding decides."""
    off = 1e-12
    try:
        other = Drawn(draws.make(drawn.program.seed, off))
    except IllConditioned:
        return True
    return any(float((other.grads[n] - g).norm()) > STEEP * off * float(g.norm()) for n, g in drawn.grads.items() if float(g.norm()) > 1e-6 * drawn.size)


def errors(text):
    """A compiler's messages without its warnings."""
    parts = re.split(r"^(?=\S+:\d+:\d+: |\w[\w-]*: )", text, flags=re.M)
    return "".join(t for t in parts if "warning[" not in t)[-3000:]


class Check:
    def __init__(self, folder):
        self.folder, self.whole, self.evaluated, self.in_c, self.refused = folder, 0, 0, 0, collections.Counter()

    def run(self, *argv, **more):
        return subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False, **more)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def files(self, d):
        """The data in the order of the first step, for the interpreter, and in one that a program makes this of."""
        self.write("m.mg", d.text)
        weights = {n: raw(t, torch.bfloat16) for n, t in d.program.params.items()}
        data = d.data()
        write_safetensors(self.path("start.safetensors"), weights)
        write_safetensors(self.path("golden.safetensors"), {"grad." + n: raw(g, torch.float64) for n, g in d.grads.items()} | {
            "weight." + n: t for n, t in weights.items()} | {n: raw(x) for n, x in data.items()})
        self.write("golden.json", json.dumps({"loss": d.losses["loss"]}))
        rows = order(d.program.size["batch"], 0)
        back = [rows.index(i) for i in range(len(rows))]
        write_safetensors(self.path("data.safetensors"), {n: raw(x[back]) for n, x in data.items()})
        for word, end in (("tokens", ""), ("weights", ".weights")):
            for i, k in enumerate(back if word in data and not d.program.documents else []):
                with open(self.path(f"{i:02d}.window{end}"), "wb") as f:
                    f.write(bytes(data[word][k].tolist()))
        self.source = self.packed(d) if d.program.documents else "u8:??.window" if d.program.tokens else "data.safetensors"

    def packed(self, d):
        """A Megatron file of the documents, and what their tokens weigh."""
        lengths = [len(t) for t, _ in d.program.documents]
        n, at = len(lengths), [0, *itertools.accumulate(lengths)]
        with open(self.path("packed.idx"), "wb") as f:
            f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 1, n, n + 1) + struct.pack(f"<{n}i", *lengths)
                    + struct.pack(f"<{n}q", *at[:n]) + struct.pack(f"<{n + 1}q", *range(n + 1)))
        for k, name in enumerate(("packed.bin", "packed.bin.weights")):
            with open(self.path(name), "wb") as f:
                f.write(b"".join(bytes(x[k].tolist()) for x in d.program.documents))
        return "packed.bin"

    def interpret(self):
        r = self.run(os.path.join(BUILD, "bin/parity-interpret"), "m.mg", "golden.safetensors", "golden.json")
        return "" if r.returncode == 0 else f"interpreter, exit code {r.returncode}\n{r.stdout[-3000:]}{errors(r.stderr)}"

    # ---- compiled ----

    def make(self, how, in_c):
        """The program m: mgc's result."""
        done = self.run(os.path.join(BUILD, "mgc"), "m.mg", *how, *(["--emit=c", "--with-kernels", "-o", "m.c"] if in_c else ["-o", "m"]), timeout=900)
        if in_c and not done.returncode:
            with open(self.path("m.c"), encoding="utf-8") as f:
                line = re.search(r"^ \*     (cc .*)$", f.read(), re.M).group(1)
            line = line.replace("HOME", os.path.join(os.path.abspath(BUILD), "lib/mgc")).replace("FILE.c", "m.c").replace("train", "m")
            self.in_c += 1
            return self.run(*line.split(), "-O1", "-Wall", "-Wextra", "-Werror", timeout=900)
        return done

    def compiled(self, d):
        """The fault of a step of the compiled program, or nothing."""
        r = random.Random(d.program.seed)
        how = [f"--recompute={r.choice(('auto', 'none', 'all'))}"]
        rounds, in_c = [f"--microbatch={r.choice((1, 2, 4))}"], r.random() < 0.3
        done = self.make([*how, *rounds], in_c)
        if done.returncode == 1 and "MG0522" in done.stderr:  # it needs the whole batch at once
            self.whole += 1
            rounds = []
            done = self.make(how, in_c)
        how += rounds
        if done.returncode:
            return f"{how}: mgc, in C: {in_c}, exit code {done.returncode}\n{errors(done.stderr)}"
        wrong = self.trained(d) or self.evaluates(d)
        return f"{how}, in C: {in_c}: {wrong}" if wrong else ""

    def step(self, *more):
        return self.run("./m", "--init", "start.safetensors", "--data", self.source, "--steps", "1", "--threads", "1", *more, timeout=900)

    def row(self, out, key):
        with open(self.path(out + "/metrics.jsonl"), encoding="utf-8") as f:
            return next(m for m in map(json.loads, f) if key in m)

    def trained(self, d):
        done = self.step("--out", "run")
        if done.returncode:
            return f"the program, exit code {done.returncode}\n{done.stderr[-3000:]}"
        row, wrong = self.row("run", "loss"), []
        for n, want in d.losses.items():
            if not abs(row[n] - want) <= LOSS * abs(want):
                wrong.append(f"{n} {row[n]!r}, torch {want!r}")
        for name, found in (("optimizer", d.state), ("model", d.after)):
            there = read_safetensors(self.path(f"run/ckpt/step-00000001/{name}.safetensors"))
            for n, x in found.items():
                want = x.flatten().tolist()
                off = norm(a - b for a, b in zip(array("d", there[n][2]), want, strict=True))
                if not off <= GRADIENT * norm(want) + OF_ALL * max(1, d.size):
                    wrong.append(f"{n}: off by {off:.3e} of {norm(want):.3e}")
        return "\n".join(wrong)

    def evaluates(self, d):
        """Loss and metrics of the batch, where they are no others than in training."""
        p = d.program
        if p.ordered or p.draws or p.followers:
            return ""
        self.evaluated += 1
        done = self.step("--val", self.source, "--lr", "0", "--out", "evaluated")
        if done.returncode:
            return f"evaluation, exit code {done.returncode}\n{done.stderr[-3000:]}"
        row = self.row("evaluated", "val_loss")
        numbers = {"loss": d.losses["loss"]} | {n: x for n, _, x in p.metrics}
        return "\n".join(f"val_{n} {row['val_' + n]!r}, torch {x!r}" for n, x in numbers.items() if not abs(row["val_" + n] - x) <= LOSS * max(abs(x), 1e-3))

    # ---- under a layout ----

    def layout(self, d, r):
        """The lines of a random layout of the program, and what mgc made of it."""
        p = d.program
        loops = tuple(dim for dim in REPEATS if f"repeat {dim}" in d.text)
        free = [dim for dim in p.size if dim not in (*REPEATS, "batch", "seq") and re.search(rf"\b{dim}\b", d.text.split("model ")[1])]
        dims = random_layouts.Dims(free, seq="seq", zigzag="attention(" in d.text, heads="attention(" in d.text, layers=loops, most_rules=3, two_axes=0.15)
        _, lines = random_layouts.draw(r, dims, ranks=(2, 2, 4), stages=0.3)
        if r.random() < 0.5:  # many programs need their rows at once
            lines = [*(line for line in lines if not line.startswith("microbatch")), f"microbatch {p.size['batch']}"]
        self.write("it.mg", random_layouts.text([*lines, *re.findall(r"chunk +\d+", d.text)]))
        return lines, self.run(os.path.join(BUILD, "mgc"), "m.mg", "--layout", "./it.mg", "-o", "m", timeout=900)

    def ranks(self, d, seed):
        """The fault of a step by the ranks of a random layout, or nothing; None if the layouts have errors of their own."""
        r = random.Random(seed)
        for _ in range(TRIES):
            lines, done = self.layout(d, r)
            codes = re.findall(r"error\[(MG03\d\d|MG02\d\d|MG0522|MG0581)\]", done.stderr)
            if done.returncode != 1 or not codes:
                wrong = f"mgc, exit code {done.returncode}\n{errors(done.stderr)}" if done.returncode else self.trained(d)
                return f"{lines}: {wrong}" if wrong else ""
            self.refused[codes[0]] += 1
        return None

    def clean(self):
        for name in os.listdir(self.folder):
            path = self.path(name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)


def main():
    parser = argparse.ArgumentParser()
    turn = int(os.environ.get("MGC_TURN", "0"))  # of the commit: scripts/test
    parser.add_argument("--seed", type=int, default=1 + 10000 * turn, help="of the first program; the next have those that follow")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--compiled", type=float, default=0.1, help="the share that is compiled, too")
    parser.add_argument("--layouts", type=float, default=0, help="the share that runs under a random layout, too")
    parser.add_argument("--longest", type=int, default=0, help="lines that a program may have, of which longer ones are passed over")
    parser.add_argument("--stats", action="store_true", help="say in how many programs what is drawn")
    parser.add_argument("--print", action="store_true", help="print the programs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    seed, count = args.seed, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="mgc-random-") as folder:
        check = Check(folder)
        while count["agree"] + count["differ"] < args.count:
            drawn, r = draw(seed), random.Random(seed)
            seed += 1
            if not drawn or 0 < args.longest < drawn.text.count("\n"):
                count["again" if not drawn else "longer"] += 1
                continue
            for name, form in CONSTRUCTS.items():
                count["in: " + name] += bool(re.search(form, drawn.text, re.M | re.S if "(?!" in form else re.M))
            if args.print:
                print(drawn.text, flush=True)
            check.clean()
            check.files(drawn)
            wrong = check.interpret()
            if not wrong and r.random() < args.compiled:
                wrong = check.compiled(drawn)
                count["compiled"] += 1
            if not wrong and r.random() < args.layouts:
                wrong = check.ranks(drawn, seed)
                count["layouts"] += wrong is not None
            if wrong and " off by " in wrong and steep(drawn):
                count["again"] += 1
                continue
            count["differ" if wrong else "agree"] += 1
            if wrong:
                print(f"{drawn.text}\nseed {seed - 1}: {wrong}\n", flush=True)
    if args.stats:
        print("\n".join(f"{count['in: ' + name]:6} {name}" for name in CONSTRUCTS))
    print(f"random programs, seeds {args.seed} to {seed - 1}: {count['agree']} agree with torch, {count['differ']} do not; {count['compiled']} were "
          f"compiled and run too ({check.in_c} with kernels in C, {check.evaluated} evaluated, {check.whole} need the whole batch at once), "
          f"{count['layouts']} under random layouts ({sum(check.refused.values())} more refused: {dict(check.refused)}); {count['again']} hang on rounding and "
          f"were drawn again{', ' + str(count['longer']) + ' are longer' if args.longest else ''}")
    return 1 if count["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
