"""Families of models that import-hf knows against transformers: test_families.py FAMILY...

Each case of golden/FAMILY.json (written by generate.py) is a config.json, the names and shapes of its tensors, and what
transformers makes of them in float64: the loss, of each gradient its norm and its product with random signs, and the
losses of five steps of AdamW. Here the directory is imported (names and shapes are compared both ways), the reference
interpreter computes loss and gradients in float64, and the program of the first case trains: of every fourth family, in turns, and of
all cases with MGC_FULL=1.
"""

import array
import json
import math
import os
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


def run(folder, program, *argv):
    r = subprocess.run([os.path.join(BUILD, program) if "/" not in program[:2] else program, *map(str, argv)],
                       cwd=folder, capture_output=True, check=False)
    if r.returncode:
        raise RuntimeError(f"{program} {' '.join(map(str, argv))}: exit code {r.returncode}\n{r.stdout.decode()}{r.stderr.decode()}")
    return r.stderr.decode()


def tiny_model(folder, source="source"):
    """m.mg, of the sizes and with the train block of tiny.py."""
    run(folder, "mgc", "import-hf", source, "-o", "m.mg")
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


def interpreted(folder, case):
    """The worst of the loss and the gradients, as parts of what is allowed."""
    rows = tiny.tokens(case["config"]["vocab_size"])
    stored = {"weight." + n: ("F32", s, tiny.weights(n, s, b).tobytes()) for n, (s, b) in case["tensors"].items()}
    stored["batch"] = ("U8", [tiny.BATCH, tiny.SEQ + 1], bytes(sum(rows, [])))
    tiny.write_safetensors(f"{folder}/golden.safetensors", stored)
    with open(f"{folder}/golden.json", "w", encoding="utf-8") as f:
        json.dump({"loss": case["loss"]}, f)
    run(folder, "bin/parity-interpret", "m.mg", "golden.safetensors", "golden.json", "--write", "out.safetensors")
    header, begin = tiny.read_header(f"{folder}/out.safetensors")
    with open(f"{folder}/out.safetensors", "rb") as f:
        data = f.read()
    mine = {n: array.array("d", data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]) for n, t in header.items()}
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
        losses = [json.loads(line)["loss"] for line in f]
    assert len(losses) == len(case["losses"]), losses
    return max(compare(f"loss of step {i}", x, y, TRAINED * abs(y)) for i, (x, y) in enumerate(zip(losses, case["losses"])))


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
            good &= check_published(name, case) if family == "published" else check(family, name, case, i == 0 and turn or bool(os.environ.get("MGC_FULL")))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
