#!/usr/bin/env python3
"""What mgc's programs cost on this processor, beside PyTorch and beside the limit of their own products.

    scripts/bench cpu [BUILD] [--pairs 7] [--threads 1,2] [--only CASE] [--steps 5]
                      [--precision f32] [--out FILE.md] [--no-build]

mgc's program, PyTorch eager and PyTorch compiled take turns: a round is some steps of each, and the next round begins
with another of them. A figure of a round is the median of its steps; what is said of a case are medians of rounds.
In each round every product of mgc's step is also run alone, by every library there is. L is the FLOPs of all of them by
the seconds that the fastest library of each takes: at the median, as steps are counted, and at best; P the same, with
mgc's own kernels among the libraries. Model FLOPs are
6 a weight of a product and token, and causal attention by half. mgc's time by class is from --trace.
"""

import argparse
import collections
import contextlib
import ctypes
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HERE = os.path.join(ROOT, "bench")
WARM = 2  # steps of mgc's program before those that count
TRACED = 4
AGAIN = 2  # times that a turn is repeated when something else ran beside it
Case = collections.namedtuple("Case", "name model define")
CASES = [Case("gpt2_t64", "gpt2_124m", {"batch": 4, "seq": 64}), Case("gpt2_t256", "gpt2_124m", {"batch": 4, "seq": 256}),
         Case("llama_56m", "llama_56m", {"batch": 8, "seq": 256}),
         Case("llama_wide", "llama_56m", {"hidden": 2048, "kv_heads": 4, "group": 4, "head": 128, "ffn": 5632, "layers": 2,
                                          "seq": 512, "batch": 2})]
CLASSES = ["products", "attention", "head", "norms and activations", "optimiser", "other"]
KINDS = {"product": "products", "attention": "attention", "attention_grad": "attention", "head": "head",
         "head_loss": "head", "cross_entropy": "head", "cross_entropy_grad": "head"}


def run(*argv, **more):
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False, **more)
    if r.returncode:
        sys.exit(f"cpu.py: {' '.join(map(str, argv))}\n{r.stdout}{r.stderr}")
    return r.stdout


def median(values):
    return statistics.median(values)


def busy():
    """Seconds that this machine's cores did not idle, all together; what the host took from them counts too."""
    with open("/proc/stat", encoding="utf-8") as f:
        user, nice, system, _, _, irq, soft, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


# ---- the model ---------------------------------------------------------------------------------

def sizes_of(case):
    """The model's dims as torch_model.py takes them: what the source says, with the case's own."""
    with open(f"{ROOT}/models/{case.model}.mg", encoding="utf-8") as f:
        text = f.read()
    dims = {n: int(v) for line in re.findall(r"(?m)^dim (.*)$", text) for n, v in re.findall(r"(\w+) = (\d+)", line)}
    dims.update(case.define)
    kind = re.search(r"(?m)^model (\w+)\(", text)[1]
    if kind == "gpt2":
        dims.update(kv_heads=dims["heads"], group=1)
    return {**dims, "kind": kind, "tied": "unembed" not in text, "model": case.name}


def weights_of(m):
    """Weights that are in products: of the layers, and of the head."""
    heads = m["kv_heads"] * m["group"] * m["head"]
    attend = m["hidden"] * (2 * heads + 2 * m["kv_heads"] * m["head"])
    return m["layers"] * (attend + (2 if m["kind"] == "gpt2" else 3) * m["hidden"] * m["ffn"]), m["hidden"] * m["vocab"]


def model_flops(m):
    """Of a step, by class."""
    layers, head = weights_of(m)
    tokens = m["batch"] * m["seq"]
    attention = 12 * m["layers"] * m["seq"] * m["kv_heads"] * m["group"] * m["head"] * tokens // 2
    return {"products": 6 * layers * tokens, "attention": attention, "head": 6 * head * tokens}


# ---- mgc ---------------------------------------------------------------------------------------

class Program:
    """mgc's program of a case, in the current folder."""

    def __init__(self, o, case, m):
        self.source = os.path.abspath(f"{ROOT}/models/{case.model}.mg")
        mgc = os.path.join(o.build, "mgc")
        defines = (a for n, v in case.define.items() for a in ("-D", f"{n}={v}"))
        argv = [mgc, self.source, *defines, "--microbatch", m["batch"], "--precision", o.precision, "--device", o.device]
        run(*argv, "-o", "train")
        self.emitted = run(*argv, "--emit=c")
        self.plan = json.loads(run(*argv, "--plan=json"))
        self.params, self.tokens = self.plan["params"], m["batch"] * m["seq"]
        with open(self.source, encoding="utf-8") as f:
            self.lines = f.read().splitlines()
        with open("tokens", "wb") as f:
            words = os.urandom(1 << 20)
            for i in range(0, len(words), 2):
                f.write((int.from_bytes(words[i:i + 2], "little") % m["vocab"]).to_bytes(2, "little"))

    def train(self, steps, threads, *more):
        """Runs so many steps and ends the program there, before it saves: what it used."""
        run("rm", "-rf", "run")
        argv = ["./train", "--data", "u16:tokens", "--threads", str(threads), "--save-every", "0", "--out", "run", "--steps",
                "1000000", *more]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
            said = []
            for line in p.stdout:
                said.append(line)
                if line.startswith(f"step {steps}/"):
                    p.send_signal(signal.SIGKILL)
                    break
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
        if p.returncode != -signal.SIGKILL:
            sys.exit(f"cpu.py: {' '.join(argv)} ended with {p.returncode}\n{''.join(said)}")
        return used

    def steps(self, steps, threads):
        used = self.train(WARM + steps, threads)
        with open("run/metrics.jsonl", encoding="utf-8") as f:
            ms = [x["step_ms"] for x in map(json.loads, f) if "step_ms" in x]
        return {"ms": ms[WARM:WARM + steps], "peak": used.ru_maxrss * 1024, "cpu": used.ru_utime + used.ru_stime}

    def trace(self, threads):
        """Some steps: how long each took, and its events."""
        used = self.train(WARM + TRACED + 1, threads, "--trace", f"{WARM + 1}:{WARM + TRACED}")  # written before one more step
        with open("run/trace.json", encoding="utf-8") as f:
            events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X" and e["tid"] == 0]
        steps = [e for e in events if e["cat"] == "step"]
        actions = [e for e in events if e["cat"] != "step"]
        found = [(s["dur"], [e for e in actions if s["ts"] <= e["ts"] < s["ts"] + s["dur"]]) for s in steps]
        return {"steps": found, "cpu": used.ru_utime + used.ru_stime}

    def class_of(self, event):
        """Kernels that come of no line, or of one that declares a parameter, are of gradients' norms and of updates."""
        if event["cat"] != "kernel":
            return KINDS.get(event["cat"], "other")
        line = re.search(r":(\d+)$", event["args"]["src"])
        declares = not line or re.search(r" : param\[", self.lines[int(line[1]) - 1])
        return "optimiser" if declares else "norms and activations"

    def products(self, events):
        """{(class, ta, tb, m, n, k): how often in a step}, from the descriptions of the actions that ran."""
        tables = "\n".join(re.findall(r"(?ms)^static const mg_(?:gemm|head)_desc$.*?;$", self.emitted))
        described = dict(re.findall(r"(?ms)^    (\w+) = \{(.*?)\}(?:,(?=\n {4}\w)|;)$", tables))
        of_action = {int(a): d for a, d in
                     re.findall(r"(?:mg_(?:gemm|gemm_epilogue|head)\(r, |PRODUCT\()(\d+), &?(\w+)", self.emitted)}
        found = collections.Counter()
        for e in events:
            body = described.get(of_action.get(e["args"]["action"]))
            if body is None:
                if e["cat"] in ("product", "head"):
                    sys.exit(f"cpu.py: the emitted program has no description of action {e['args']['action']}, {e['name']}")
                continue
            d = collections.defaultdict(int, ((n, int(v)) for n, v in re.findall(r"\.(\w+) = (\d+)", body)))
            yes = set(re.findall(r"\.(\w+) = true", body))
            product = re.match(r"GEMM\(\w+, \w+, (\d+), (\d+), (\d+), [^)]*?(\d+)\)", body)
            if product:
                d.update(zip(("m", "n", "k", "batch"), map(int, product.groups())))
            if e["cat"] == "product":
                found["products", "ta" in yes, "tb" in yes, d["m"], d["n"], d["k"]] += d["batch"]
            else:
                found.update(("head", *p) for p in head_products(d, "w_by_vocab" in yes))
        return found


def head_products(d, by_vocab):
    """As kernels/head.c makes them: logits, gradient of x, gradient of w, a chunk of rows at a time."""
    hidden, vocab = d["hidden"], d["vocab"]
    for row in range(0, d["rows"], d["chunk"]):
        rows = min(d["chunk"], d["rows"] - row)
        yield False, by_vocab, rows, vocab, hidden
        yield False, not by_vocab, rows, hidden, vocab
        yield True, False, *((vocab, hidden) if by_vocab else (hidden, vocab)), rows


# ---- PyTorch -----------------------------------------------------------------------------------

class Worker:
    """A process of torch_worker.py, idle but when asked."""

    def __init__(self, o, m, mode, threads):
        with open("sizes.json", "w", encoding="utf-8") as f:
            json.dump(m, f)
        env = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads),
               "TORCHINDUCTOR_CACHE_DIR": os.path.abspath("inductor")}
        self.mode, self.errors = mode, f"torch-{mode}.txt"
        with open(self.errors, "w", encoding="utf-8") as f:
            self.process = subprocess.Popen([o.python, f"{HERE}/torch_worker.py", "sizes.json", mode, str(threads), o.precision],
                                            env=env,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=f, text=True)
        self.known = self.answer()

    def answer(self):
        """Its next line, or None if it has ended."""
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        answer = self.answer()
        if answer is None:
            sys.exit(f"cpu.py: PyTorch ({self.mode}) ended: {self.why()}")
        return answer

    def why(self):
        with open(self.errors, encoding="utf-8") as f:
            return " / ".join(f.read().strip().splitlines()[-2:])

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the products alone ------------------------------------------------------------------------

class Alone:
    """Seconds of each product by each library, gathered over rounds."""

    def __init__(self, o, products, worker, threads):
        self.kernels, self.worker, self.threads, self.products = o.kernels, worker, threads, products
        self.precision = o.precision
        self.shapes = sorted({p[1:] for p in products})
        self.seconds = collections.defaultdict(list)  # (shape, library): [(median, best), ...]
        self.limits, self.library, self.others = [], "", []
        with open("products.txt", "w", encoding="utf-8") as f:
            f.writelines(" ".join(str(int(x)) for x in s) + "\n" for s in self.shapes)

    def turn(self):
        before = os.times()
        lines = run(self.kernels, "--products", "products.txt", self.threads, self.precision).splitlines()
        after, theirs = os.times(), self.worker.ask("products.txt")
        cpu = sum(after[2:4]) - sum(before[2:4])  # of children that have ended
        return {"lines": lines, "rows": theirs["rows"], "cpu": cpu + theirs["cpu"]}

    def add(self, turn):
        for line in turn["lines"]:
            word = line.split()
            if word[0] == "limits":
                self.limits.append((float(word[1]), float(word[2])))
            elif word[0] == "library":
                self.library = line.partition(" ")[2]
            else:
                shape = (word[0] == "1", word[1] == "1", *map(int, word[2:5]))
                self.seconds[shape, word[5]].append((float(word[6]), float(word[7])))
        for shape, row in zip(self.shapes, turn["rows"], strict=True):
            self.seconds[shape, "PyTorch"].append(row)
        self.others.append(turn["others"])

    def libraries(self):
        return sorted({library for _, library in self.seconds})

    def limit(self, of, best=False, only=None, own=False):
        """FLOP/s of a class's products, or of all: each by its fastest library, mgc's own kernels among them or not, or
        by one."""
        names = [only] if only else [x for x in self.libraries() if own or x != "mgc"]
        flops = seconds = 0
        for (kind, *shape), count in self.products.items():
            if of not in (None, kind):
                continue
            rows = [self.seconds[tuple(shape), x] for x in names]
            least = min(min(b for _, b in r) if best else median(m for m, _ in r) for r in rows)
            flops += 2 * shape[2] * shape[3] * shape[4] * count
            seconds += least * count
        return flops / seconds

    def peak(self):
        return median(f for f, _ in self.limits), median(b for _, b in self.limits)


class Version(ctypes.Structure):
    """The beginning of dnnl_version_t."""
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]


def onednn():
    """The version of the one that bench_kernels finds."""
    for name in ("libdnnl.so.3", "libdnnl.so.2"):
        with contextlib.suppress(OSError):
            version = ctypes.CDLL(name).dnnl_version
            version.restype = ctypes.POINTER(Version)
            v = version().contents
            return f"{v.major}.{v.minor}.{v.patch}"
    return "none"


# ---- a case ------------------------------------------------------------------------------------

def by_class(program, steps):
    """{class: (ms, FLOPs, bytes)}, medians over traced steps, and the traced step; `other` holds what is in no action."""
    parts = []
    for us, events in steps:
        sums = {c: [0.0, 0.0, 0.0] for c in CLASSES}
        for e in events:
            for i, x in enumerate((e["args"]["measured_us"] / 1e3, e["args"]["flops"], e["args"]["bytes"])):
                sums[program.class_of(e)][i] += x
        sums["other"][0] += us / 1e3 - sum(s[0] for s in sums.values())
        parts.append(sums)
    return {c: tuple(median(p[c][i] for p in parts) for i in range(3)) for c in CLASSES}, median(us / 1e3 for us, _ in steps)


def start_workers(o, m, threads):
    """Those that run, and why others do not."""
    workers, missing = {}, {}
    for mode in ("eager", "compile"):
        w = Worker(o, m, mode, threads)
        if w.known:
            workers[mode] = w
        else:
            w.close()
            missing[mode] = w.why()
    if "eager" not in workers:
        sys.exit(f"cpu.py: PyTorch does not run: {missing['eager']}")
    return workers, missing


def compare(program, workers):
    """Both are the same model, or it is said."""
    for w in workers.values():
        for what in ("params", "tokens"):
            if w.known[what] != getattr(program, what):
                print(f"warning: PyTorch ({w.mode}) has {w.known[what]} {what}, mgc {getattr(program, what)}")


def wait_for_quiet(o):
    """Until the machine idles, or for as long as is allowed; threads of the turn before may wait by turning."""
    end = time.monotonic() + o.patience
    while True:
        begin, before = time.monotonic(), busy()
        time.sleep(0.5)
        if (busy() - before) / (time.monotonic() - begin) / os.cpu_count() < o.others or time.monotonic() > end:
            return


def taken(o, turn):
    """What a turn says, and the share of the machine that others took meanwhile: of a few, the one with the least."""
    best = None
    for _ in range(1 + AGAIN):
        wait_for_quiet(o)
        begin, before = time.monotonic(), busy()
        said = turn()
        others = max(0, busy() - before - said["cpu"]) / (time.monotonic() - begin) / os.cpu_count()
        if best is None or others < best["others"]:
            best = {**said, "others": others}
        if others < o.others:
            break
    return best


def measure(o, case, threads):
    """Everything that is known of a case at so many threads."""
    m = sizes_of(case)
    program = Program(o, case, m)
    traced = taken(o, lambda: program.trace(threads))
    products = program.products(traced["steps"][0][1])
    workers, missing = start_workers(o, m, threads)
    compare(program, workers)
    hands = Worker(o, m, "products", threads)
    alone = Alone(o, products, hands, threads)
    turns = {"mgc": lambda: program.steps(o.steps, threads)}
    turns.update({w.mode: lambda w=w: w.ask(o.steps) for w in workers.values()})
    names, rounds = list(turns), {n: [] for n in turns}
    for i in range(o.pairs):
        for j in range(len(names)):
            name = names[(i + j) % len(names)]
            rounds[name].append(taken(o, turns[name]))
        alone.add(taken(o, alone.turn))
        said = (f"{n} {median(r[-1]['ms']):.1f} ms (others {r[-1]['others']:.0%})" for n, r in rounds.items())
        print(f"    {case.name} round {i + 1}:", *said, flush=True)
    classes, step = by_class(program, traced["steps"])
    for w in [*workers.values(), hands]:
        w.close()
    return {"case": case, "m": m, "threads": threads, "program": program, "rounds": rounds, "missing": missing,
            "alone": alone, "classes": classes, "traced": step, "known": {w.mode: w.known for w in workers.values()}}


# ---- what is said ------------------------------------------------------------------------------

def table(head, rows):
    """A table that is read as text and as Markdown."""
    rows = [[str(c) for c in r] for r in [head, *rows]]
    width = [max(len(r[i]) for r in rows) for i in range(len(head))]
    width[0] = -width[0]  # the first column to the left
    lines = []
    for r in rows:
        lines.append(f"| {' | '.join(c.rjust(w) if w > 0 else c.ljust(-w) for c, w in zip(r, width, strict=True))} |")
    lines.insert(1, "|" + "|".join("-" * (1 - w) + "-" if w < 0 else "-" * (w + 1) + ":" for w in width) + "|")
    return lines


def speed_rows(d):
    tokens, flops = d["program"].tokens, sum(model_flops(d["m"]).values())
    limit, best, own = (d["alone"].limit(None, **of) for of in ({}, {"best": True}, {"own": True}))
    for name, rounds in d["rounds"].items():
        ms = median(median(r["ms"]) for r in rounds)
        peak, rate = max(r["peak"] for r in rounds), flops / ms * 1e3
        beside = peak - 16 * d["program"].params
        yield [name if name == "mgc" else f"PyTorch {name}", f"{ms:.1f}", f"{tokens / ms * 1e3:.0f}", f"{rate / 1e9:.1f}",
               f"{rate / limit:.1%}", f"{rate / best:.1%}", f"{rate / own:.1%}", f"{peak / 2**20:.0f}", f"{beside / 2**20:.0f}"]


def ratios(d):
    """Of each round: the faster of PyTorch's two by mgc."""
    ms = {n: [median(r["ms"]) for r in rounds] for n, rounds in d["rounds"].items()}
    own = ms.pop("mgc")
    return [min(theirs) / x for x, *theirs in zip(own, *ms.values(), strict=True)]


def memory_ratio(d):
    """What is resident beside 16 bytes a parameter, of mgc by PyTorch's faster one."""
    fixed = 16 * d["program"].params
    most = {n: max(r["peak"] for r in rounds) - fixed for n, rounds in d["rounds"].items()}
    faster = min((n for n in most if n != "mgc"), key=lambda n: median(median(r["ms"]) for r in d["rounds"][n]))
    return most["mgc"] / most[faster], faster


def class_rows(d):
    """A class's time, what it is limited by, and how far its time is over what its model FLOPs take at P."""
    alone, model = d["alone"], model_flops(d["m"])
    peak, bandwidth = alone.peak()
    own = {"products": alone.limit("products", own=True), "attention": peak, "head": alone.limit("head", own=True)}
    limit_of_all = alone.limit(None, own=True)
    for c, (ms, flops, moved) in d["classes"].items():
        amount, limit, unit = (flops, own[c], "GF/s") if c in own else (moved, bandwidth, "GB/s")
        rate = amount / ms * 1e3 if ms > 0 else 0
        yield [c, f"{ms:.1f}", f"{ms / d['traced']:.1%}", f"{rate / 1e9:.1f} {unit}", f"{limit / 1e9:.1f} {unit}",
               f"{rate / limit:.0%}", f"{amount / limit * 1e3:.1f}", f"{ms - model.get(c, 0) / limit_of_all * 1e3:+.1f}"]


def product_rows(d):
    a = d["alone"]
    shapes = collections.Counter()
    for (kind, *shape), count in a.products.items():
        shapes[kind, tuple(shape)] += count
    for (kind, shape), count in sorted(shapes.items(), key=lambda x: (x[0][0], x[0][1][2:])):
        flops = 2 * shape[2] * shape[3] * shape[4]
        rates = {x: flops / median(m for m, _ in a.seconds[shape, x]) / 1e9 for x in a.libraries()}
        name = f"{kind} {'x'.join(map(str, shape[2:]))} {'T' if shape[0] else 'N'}{'T' if shape[1] else 'N'}"
        yield [name, count, *(f"{rates[x]:.0f}" for x in a.libraries()), max(rates, key=rates.get)]


def gflops(rate):
    return f"{rate / 1e9:.1f}"


def notes(d):
    """What is not in a table, a line each."""
    a, each, (memory, faster) = d["alone"], ratios(d), memory_ratio(d)
    peak, bandwidth = a.peak()
    every = (f"{n} {' '.join(format(median(r['ms']), '.1f') for r in rounds)}" for n, rounds in d["rounds"].items())
    others = sorted([r["others"] for rounds in d["rounds"].values() for r in rounds] + a.others)
    yield f"speed by that of PyTorch, the faster of a round: **{median(each):.3f}** ({', '.join(f'{x:.3f}' for x in each)})"
    yield f"memory beside 16 bytes a parameter, by that of PyTorch {faster}: **{memory:.3f}**"
    yield f"PyTorch as it is imported, in MiB: {d['known'][faster]['imported'] / 2**20:.0f}"
    yield (f"L: {gflops(a.limit(None))} GF/s at the median, {gflops(a.limit(None, best=True))} at best; P: "
           f"{gflops(a.limit(None, own=True))}; of one: "
           f"{', '.join(f'{x} {gflops(a.limit(None, only=x))}' for x in a.libraries())}")
    yield f"multiply-adds that wait for nothing: {gflops(peak)} GF/s; copied: {gflops(bandwidth)} GB/s"
    yield f"milliseconds of each round: {'; '.join(every)}"
    yield f"of the machine, something else took {median(others):.1%} at the median of turns, {others[-1]:.1%} at most"
    for mode, why in d["missing"].items():
        yield f"no PyTorch {mode}: {why}"


def tell(d):
    """Lines about a case."""
    case, program = d["case"], d["program"]
    defined = ", ".join(f"{n} = {v}" for n, v in case.define.items())
    return [f"## {case.name}, {d['threads']} thread{'s' * (d['threads'] > 1)}", "",
            f"models/{case.model}.mg with {defined}: {program.params} parameters; a step is {program.tokens} tokens, "
            f"{gflops(sum(model_flops(d['m']).values()))} model GFLOP.", "",
            *table(["", "ms", "tokens/s", "GF/s", "of L", "of L at best", "of P", "MiB", "beside 16 B/param"], speed_rows(d)), "",
            *("- " + line for line in notes(d)), "",
            f"A step of {d['traced']:.1f} ms by class; over P: beyond what the class's model FLOPs take at P.", "",
            *table(["class", "ms", "share", "rate", "its limit", "of it", "ms at it", "ms over P"], class_rows(d)), "",
            "Products alone, GF/s at the median.", "",
            *table(["m x n x k", "a step", *d["alone"].libraries(), "fastest"], product_rows(d)), ""]


def heading(o, known, library):
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        found = re.search(r"model name\s*: (.*)", f.read())
    cpu, torch = found[1] if found else "unknown processor", next(iter(known.values()))
    load, date = " ".join(format(x, ".2f") for x in o.load), time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    return ["# mgc and PyTorch on a processor", "",
            f"{cpu}, {len(os.sched_getaffinity(0))} cores; load {load} before; {date} UTC.", "",
            f"PyTorch {torch['torch']} ({'; '.join(torch['libraries'])}); {library}; oneDNN of the system: {onednn()}; "
            f"{run(os.path.join(o.build, 'mgc'), '--version').strip()}.", "",
            f"{o.pairs} rounds of {o.steps} steps each, in {o.precision}; `scripts/bench cpu` repeats it.", ""]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--pairs", type=int, default=7, help="rounds; default 7")
    p.add_argument("--threads", default="1,2", help="numbers of threads, by commas; default 1,2")
    p.add_argument("--only", action="append", choices=[c.name for c in CASES], help="a case; repeatable; default all")
    p.add_argument("--precision", default="f32", choices=["f32", "bf16"], help="of products; default f32")
    p.add_argument("--steps", type=int, default=5, help="steps of each in a round; default 5")
    p.add_argument("--others", type=float, default=0.1, help="turns beside which something else took more of the machine "
                   f"are repeated, {AGAIN} times at most; default 0.1")
    p.add_argument("--patience", type=float, default=10, help="seconds to wait for a quiet machine, of a turn; default 10")
    p.add_argument("--device", default="cpu", help="what mgc compiles for; default cpu")
    p.add_argument("--out", help="a file for all of it as Markdown")
    p.add_argument("--python", default=os.path.join(ROOT, "build/bench/venv/bin/python"), help="one that has PyTorch")
    p.add_argument("--kernels", help="bench_kernels; default that of BUILD")
    p.add_argument("--no-build", action="store_true", help="take BUILD as it is")
    o = p.parse_args()
    o.build, o.load, start = os.path.abspath(o.build), os.getloadavg(), os.getcwd()
    o.kernels = os.path.abspath(o.kernels or os.path.join(o.build, "bin/bench_kernels"))
    o.device = os.path.abspath(o.device) if o.device.endswith(".json") else o.device
    for file in (o.kernels, o.python, os.path.join(o.build, "mgc")):
        if not os.path.exists(file):
            sys.exit(f"cpu.py: there is no {file}; scripts/bench cpu makes it")
    o.python, text = os.path.abspath(o.python), []
    for threads in map(int, o.threads.split(",")):
        for case in CASES:
            if o.only and case.name not in o.only:
                continue
            with tempfile.TemporaryDirectory(prefix="mgc-bench-") as folder, contextlib.chdir(folder):
                d = measure(o, case, threads)
                said = ([] if text else heading(o, d["known"], d["alone"].library)) + tell(d)
            print("\n".join(said), flush=True)
            text += said
            if o.out:  # what there is, should the next case fail
                path = os.path.join(start, o.out)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as f:
                    f.write("\n".join(text))


if __name__ == "__main__":
    main()
