"""Families of models that import-hf knows against transformers: test_families.py FAMILY...

Each case of golden/FAMILY.json (written by generate.py) is a config.json, the names and shapes of its tensors, and what
transformers makes of them in float64: the loss, of each gradient its norm and its product with random signs, and the
losses of five steps of AdamW. Here the directory is imported (names and shapes are compared both ways), the reference
interpreter computes loss and gradients in float64, and the program of the first case trains: of every fourth family, in turns, and of
all cases with MGC_FULL=1. So often, too, the model that --packed writes is held against these numbers, where each window is a document,
and with two documents in each window against what each is alone.
"""

import array
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import zlib

import tiny

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("MGC_BUILD", os.path.join(HERE, "../../../build"))
# Relative: of the loss, of a gradient to its own norm and to that of all, all in float64; of losses of steps in float32.
LOSS, GRADIENT, OF_ALL, TRAINED = 1e-10, 1e-9, 1e-12, 1e-5


def output(folder, program, *argv, which="stdout"):
    r = subprocess.run([os.path.join(BUILD, program) if "/" not in program[:2] else program, *map(str, argv)],
                       cwd=folder, capture_output=True, check=False)
    if r.returncode:
        raise RuntimeError(f"{program} {' '.join(map(str, argv))}: exit code {r.returncode}\n{r.stdout.decode()}{r.stderr.decode()}")
    return getattr(r, which).decode()


def run(folder, program, *argv):
    return output(folder, program, *argv, which="stderr")


def tiny_model(folder, source="source", options=()):
    """m.mg, of the sizes and with the train block of tiny.py."""
    run(folder, "mgc", "import-hf", source, "-o", "m.mg", *options)
    run(folder, "mgc", "fmt", "--check", "m.mg")
    with open(f"{folder}/m.mg", encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"\bseq = \d+\b", f"seq = {tiny.SEQ}", text, count=1)
    text = re.sub(r"\bbatch = \d+\b", f"batch = {tiny.BATCH}", text, count=1)
    text = re.sub(r"\b(drop\w*) = 0\.\d+", r"\1 = 0", text)  # transformers' numbers are without it, too
    frozen = re.findall(r"(?m)^ *frozen where .*\n", text)
    text = re.sub(r"(?ms)^train \{.*?^\}\n", tiny.TRAIN.replace("}\n", "".join(frozen) + "}\n"), text, count=1)
    with open(f"{folder}/m.mg", "w", encoding="utf-8") as f:
        f.write(text)


def compare(what, mine, theirs, allowed):
    """How far off, as a part of what is allowed; told if more."""
    off = abs(mine - theirs) / allowed
    if not off < 1:
        print(f"  {what}: {mine:.9g}, {theirs:.9g} in transformers")
    return off if off == off else math.inf


def interpret(folder, case, rows, **more):
    """The loss and the gradients of m.mg, by name."""
    stored = {"weight." + n: ("F32", s, tiny.weights(n, s, b).tobytes()) for n, (s, b) in case["tensors"].items()}
    stored |= {name: ("U8", [tiny.BATCH, tiny.SEQ + 1], bytes(sum(x, []))) for name, x in {"batch": rows, **more}.items()}
    tiny.write_safetensors(f"{folder}/golden.safetensors", stored)
    with open(f"{folder}/golden.json", "w", encoding="utf-8") as f:
        json.dump({"loss": case["loss"]}, f)
    run(folder, "bin/parity-interpret", "m.mg", "golden.safetensors", "golden.json", "--write", "out.safetensors")
    header, begin = tiny.read_header(f"{folder}/out.safetensors")
    with open(f"{folder}/out.safetensors", "rb") as f:
        data = f.read()
    return {n: array.array("d", data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]) for n, t in header.items()}


def interpreted(folder, case, **more):
    """The worst of the loss and the gradients, as parts of what is allowed."""
    mine = interpret(folder, case, tiny.tokens(case["config"]["vocab_size"]), **more)
    worst = compare("loss", mine["loss"][0], case["loss"], LOSS * abs(case["loss"]))
    whole = math.sqrt(sum(norm * norm for norm, _ in case["gradients"].values()))
    for name, (norm, product) in case["gradients"].items():
        g = mine.pop("grad." + name, None)
        if g is None:
            if norm:
                raise RuntimeError(f"{name} has no gradient, in transformers one of norm {norm}")
            continue
        allowed = GRADIENT * norm + OF_ALL * whole
        worst = max(worst, compare(f"norm of the gradient of {name}", math.sqrt(sum(x * x for x in g)), norm, allowed),
                    compare(f"gradient of {name} times signs", sum(s * x for s, x in zip(tiny.signs(name, len(g)), g)), product,
                            allowed * math.sqrt(math.log(len(g) + 2))))
    assert set(mine) == {"loss"}, sorted(mine)
    return worst


def trained(folder, case):
    rows = tiny.tokens(case["config"]["vocab_size"])
    for i, row in enumerate(rows):
        with open(f"{folder}/{i}.window", "wb") as f:
            f.write(array.array("H", row).tobytes())
    run(folder, "mgc", "m.mg", "-o", "train")
    run(folder, "./train", "--init", "source", "--data", "u16:*.window", "--steps", tiny.STEPS, "--out", "run")
    with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as f:
        losses = [line["loss"] for line in map(json.loads, f) if "loss" in line]
    assert len(losses) == len(case["losses"]), losses
    return max(compare(f"loss of step {i}", x, y, TRAINED * abs(y)) for i, (x, y) in enumerate(zip(losses, case["losses"])))


CARRY = ("mamba", "mamba2", "bamba", "qwen3_next")  # layers with a state


def refused(folder, keys):
    """--packed is, and one of the keys is named."""
    try:
        tiny_model(folder, options=["--packed"])
    except RuntimeError as e:
        return "MG0570" in str(e) and "--packed" in str(e) and any(f'"{k}"' in str(e) for k in keys)
    return False


def apart(folder, case):
    """How far two documents in each window are from what each is alone, as a part of what is allowed; each alone stands at the
    beginning of its window, and what fills it up has no weight."""
    draw = random.Random(5)
    n, vocab = tiny.SEQ + 1, case["config"]["vocab_size"]
    rows, cuts = tiny.tokens(vocab), [draw.randrange(4, n - 3) for _ in range(tiny.BATCH)]
    weights = [[draw.choice((0, 1, 2, 5)) for _ in row] for row in rows]
    whole = [[0] * n for _ in rows]
    split = [[0] * c + [c] * (n - c) for c in cuts]
    together = interpret(folder, case, rows, weights=weights, documents=split)
    alone = []
    for first in (True, False):
        kept = [slice(0, c) if first else slice(c, n) for c in cuts]
        of = [row[k] + [draw.randrange(4, vocab) for _ in row[k.stop:] + row[:k.start]] for row, k in zip(rows, kept)]
        w = [[0] + row[k][1:] + [0] * (n - len(row[k])) for row, k in zip(weights, kept)]
        alone.append((sum(sum(row) for row in w), interpret(folder, case, of, weights=w, documents=whole)))
    (a, x), (b, y) = alone
    for row, c in zip(weights, cuts):  # nothing is the target of another document's last token
        row[c] = 0
    mixed = interpret(folder, case, rows, weights=weights, documents=whole)["loss"][0]
    if not abs(mixed - together["loss"][0]) > 1e-4 * mixed:
        raise RuntimeError("documents that see each other have the same loss")
    norm = math.sqrt(sum(v * v for g in together.values() for v in g))
    worst = 0
    for name, g in together.items():
        allowed = LOSS * abs(g[0]) if name == "loss" else GRADIENT * math.sqrt(sum(v * v for v in g)) + OF_ALL * norm
        off = math.sqrt(sum((v - (a * p + b * q) / (a + b))**2 for v, p, q in zip(g, x[name], y[name])))
        if off >= allowed:
            print(f"  {name} of two documents in a window is off by {off:.3g} of {allowed:.3g}")
        worst = max(worst, off / allowed)
    return worst


def begins_anew(folder):
    """All that goes along the sequence is given where documents begin. Queries and keys that are turned by as many positions more have
    the same scores, so numbers alone do not show it of both."""
    with open(f"{folder}/m.mg", encoding="utf-8") as f:
        lines = [x for x in f if re.search(r", along seq|along pos|index\(pos\)", x)]
    missing = [x for x in lines if not re.search(r"start, along seq|document_start\(|start, along pos|index\(pos\) - start", x)]
    if missing:
        raise RuntimeError("without the start: " + "".join(missing))


def check_packed(family, name, case):
    config, balance = case["config"], "output_router_logits"
    keys = (["model_type"] if family in CARRY else []) + ([balance] if config.get(balance) else [])
    with tempfile.TemporaryDirectory(prefix="mgc-family-") as folder:
        tiny.directory(f"{folder}/source", config, case["tensors"])
        if keys:
            good = refused(folder, keys)
            print(f"{family} {name}: --packed {'is refused' if good else 'is not refused as it should be: FAILED'}")
            if family in CARRY or not good:
                return good
            with open(f"{folder}/source/config.json", "w", encoding="utf-8") as f:
                json.dump({**config, balance: False}, f)
        try:
            tiny_model(folder, options=["--packed"])
            begins_anew(folder)
            ones, zeros = ([[v] * (tiny.SEQ + 1)] * tiny.BATCH for v in (1, 0))
            one = 0 if keys else interpreted(folder, case, weights=ones, documents=zeros)  # transformers' numbers are with that loss
            two = apart(folder, case)
        except RuntimeError as e:
            print(f"{family} {name}: FAILED\n{e}")
            return False
    good = one < 1 and two < 1
    print(f"{family} {name}: packed, a document a window {one:.0e} of what is allowed, two {two:.0e}: {'agree' if good else 'DIFFER'}", flush=True)
    return good


def check_published(name, case):
    """A published config.json is taken, and its model has as many parameters as in transformers."""
    with tempfile.TemporaryDirectory(prefix="mgc-family-") as folder:
        with open(f"{folder}/config.json", "w", encoding="utf-8") as f:
            json.dump(case["config"], f)
        try:
            said = run(folder, "mgc", "import-hf", ".", "-o", "m.mg")
            run(folder, "mgc", "fmt", "--check", "m.mg")
        except RuntimeError as e:
            print(f"{name}: FAILED\n{e}")
            return False
    mine = int(re.search(r"(\d+) parameters", said)[1])
    print(f"{name}: {mine} parameters{'' if mine == case['parameters'] else ', in transformers ' + str(case['parameters']) + ': DIFFER'}")
    return mine == case["parameters"]


def check(family, name, case, compiled):
    with tempfile.TemporaryDirectory(prefix="mgc-family-") as folder:
        tiny.directory(f"{folder}/source", case["config"], case["tensors"])
        try:
            tiny_model(folder)
            worst = interpreted(folder, case)
            steps = trained(folder, case) if compiled else 0
        except RuntimeError as e:
            print(f"{family} {name}: FAILED\n{e}")
            return False
    good = worst < 1 and steps < 1
    print(f"{family} {name}: loss and {len(case['gradients'])} gradients at most {worst:.0e} of what is allowed"
          f"{f', losses of {tiny.STEPS} steps {steps:.0e}' if compiled else ''}: {'agree' if good else 'DIFFER'}", flush=True)
    return good


def main():
    names = sys.argv[1:] or sorted(f[:-5] for f in os.listdir(os.path.join(HERE, "golden")))
    good = True
    for family in names:
        with open(os.path.join(HERE, "golden", family + ".json"), encoding="utf-8") as f:
            cases = json.load(f)
        turn = (zlib.crc32(family.encode()) + int(os.environ.get("MGC_TURN", "0"))) % 4 == 0
        for i, (name, case) in enumerate(cases.items()):
            if family == "published":
                good &= check_published(name, case)
                continue
            full = bool(os.environ.get("MGC_FULL"))
            good &= check(family, name, case, i == 0 and turn or full)
            if turn or full:
                good &= check_packed(family, name, case)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
