"""Objectives of fine-tuning against the trainers of TRL: test_objectives.py CASE...

A golden file (written by generate.py) has one batch, and of TRL's trainer the loss and each gradient's norm and product with random signs in
float64, and the losses of 20 steps. Here the model is imported for the objective, the reference interpreter computes loss and gradients in
float64, and the program trains, alone and on two ranks each way.
"""

import array
import json
import math
import os
import re
import sys
import tempfile

import cases
import test_families as families
import tiny

HERE = os.path.dirname(os.path.abspath(__file__))
LOSS, GRADIENT, OF_ALL, TRAINED = 1e-9, 1e-9, 1e-12, 1e-4  # relative; of losses of steps of float32: 1e-4 itself
LAYOUTS, TOGETHER = ("", "dp=2", "tp=2", "pp=2", "dp=2,tp=2,pp=2"), ("", "dp=2", "tp=2", "dp=2,tp=2")
REFERENCE = "reference."
TRAIN = f"""train {{
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8)
    lr constant(peak = {cases.RATE}, steps = {cases.STEPS})
    clip 1.0
}}
"""
PREFIX = "base_model.model."


def names(golden):
    """The names of files of the golden parameters, and of those that a base has: (name, name in PEFT's model, shape, base)."""
    for n, (shape, base) in golden["shapes"].items():
        adapter = n.startswith(PREFIX) and n in golden["gradients"]
        yield (n if adapter or not n.startswith(PREFIX) else n[len(PREFIX):].replace(".base_layer.", ".")), n, shape, base, adapter


def padded(rows, size):
    """Rows of tokens and marks are filled up; others have their size."""
    return {k: v if k in ("good", "target", "teacher", "reference", "advantage", "old") else [row + [2 if k.endswith("mask") else 0] * (size - len(row)) for row in v]
            for k, v in rows.items()}


def stored_rows(rows):
    stored = {}
    for k, v in rows.items():
        if k == "teacher":
            numbers = array.array("f", (x for row in v for place in row for x in place))
            stored[k] = ("F32", [len(v), len(v[0]), len(v[0][0])], numbers.tobytes())
        elif k in ("reference", "advantage", "old"):
            stored[k] = ("F64", [len(v), len(v[0])], array.array("d", sum(v, [])).tobytes())
        else:
            stored[k] = ("U8", [len(v), len(v[0])], bytes(sum(v, [])))
    return stored


def source(folder, golden, config, reference):
    shapes = {n: [s, b] for n, _, s, b, adapter in names(golden) if not adapter}
    tiny.directory(f"{folder}/source", config, shapes)
    stored = {n: ("F32", s, tiny.weights(n, s, b).tobytes()) for n, (s, b) in shapes.items()}
    if reference:
        stored |= {REFERENCE + n: ("F32", s, tiny.weights(REFERENCE + n, s, b).tobytes()) for n, (s, b) in shapes.items()}
    tiny.write_safetensors(f"{folder}/init.safetensors", stored)
    return stored


def model(folder, name, seq):
    families.run(folder, "mgc", "import-hf", "source", "-o", "m.mg", "--objective", cases.CASES[name])
    families.run(folder, "mgc", "fmt", "--check", "m.mg")
    with open(f"{folder}/m.mg", encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"\bseq = \d+\b", f"seq = {seq}", text, count=1)
    text = re.sub(r"\bbatch = \d+\b", f"batch = {cases.BATCH}", text, count=1)
    line = f"    adapter lora(rank = {cases.RANK}, alpha = {cases.ALPHA}) on " + ", ".join(f'"*.{x}.weight"' for x in cases.ADAPTED)
    if name.startswith(("reward", "classify")):
        line += "\n    adapter whole() on " + ", ".join(f'"{x}.weight"' for x in cases.HEAD)
    text = re.sub(r"(?ms)^train \{.*?^\}\n", lambda _: TRAIN.replace("}\n", line + "\n}\n") if name.endswith("_lora") else TRAIN, text, count=1)
    with open(f"{folder}/m.mg", "w", encoding="utf-8") as f:
        f.write(text)


def interpreted(folder, golden, rows, stored):
    """The worst of loss and gradients, as parts of what is allowed."""
    have = dict(stored)
    have |= {n: ("F32", s, tiny.weights(n, s, b).tobytes()) for n, _, s, b, adapter in names(golden) if adapter}
    weights = {"weight." + n: t for n, t in have.items()}
    tiny.write_safetensors(f"{folder}/golden.safetensors", weights | stored_rows(rows))
    with open(f"{folder}/golden.json", "w", encoding="utf-8") as f:
        json.dump({"loss": golden["loss"]}, f)
    families.run(folder, "bin/parity-interpret", "m.mg", "golden.safetensors", "golden.json", "--write", "out.safetensors")
    header, begin = tiny.read_header(f"{folder}/out.safetensors")
    with open(f"{folder}/out.safetensors", "rb") as f:
        data = f.read()
    mine = {n: array.array("d", data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]) for n, t in header.items()}
    worst = families.compare("loss", mine["loss"][0], golden["loss"], LOSS * abs(golden["loss"]))
    whole = math.sqrt(sum(norm * norm for norm, _ in golden["gradients"].values()))
    for file, name, *_ in names(golden):
        if name not in golden["gradients"]:
            continue
        norm, product = golden["gradients"][name]
        g = mine.pop("grad." + file)
        allowed = GRADIENT * norm + OF_ALL * whole
        worst = max(worst, families.compare(f"norm of the gradient of {file}", math.sqrt(sum(x * x for x in g)), norm, allowed),
                    families.compare(f"gradient of {file} times signs", sum(s * x for s, x in zip(tiny.signs(name, len(g)), g)), product,
                                     allowed * math.sqrt(math.log(len(g) + 2))))
    left = {n for n, g in mine.items() if n != "loss" and any(g)}
    if left:
        raise RuntimeError(f"only here have gradients: {sorted(left)}")
    return worst


def trained(folder, golden, rows, layout, arguments):
    sizes = [x for axis in layout.split(",") if axis for x in ("-D", axis)]
    with open(f"{folder}/m.mg", encoding="utf-8") as f:
        together = "microbatch batch" in f.read()
    families.run(folder, "mgc", "m.mg", "-o", "train", *sizes, *([] if together else ["--microbatch", 2]))
    tiny.write_safetensors(f"{folder}/rows.safetensors", stored_rows(rows))
    families.run(folder, "./train", *arguments, "--data", "rows.safetensors", "--steps", cases.STEPS, "--out", "run" + layout)
    with open(f"{folder}/run{layout}/metrics.jsonl", encoding="utf-8") as f:
        losses = [line["loss"] for line in map(json.loads, f) if "loss" in line]
    if len(losses) != cases.STEPS:
        raise RuntimeError(f"{len(losses)} losses")
    return max(families.compare(f"loss of step {i}", x, y, TRAINED) for i, (x, y) in enumerate(zip(losses, golden["losses"])))


def adapter_directory(folder, golden):
    os.mkdir(f"{folder}/adapter")
    tiny.write_safetensors(f"{folder}/adapter/adapter_model.safetensors",
                           {n: ("F32", s, tiny.weights(n, s, b).tobytes()) for n, _, s, b, adapter in names(golden) if adapter})
    with open(f"{folder}/adapter/adapter_config.json", "w", encoding="utf-8") as f:
        json.dump({"peft_type": "LORA", "r": cases.RANK, "lora_alpha": cases.ALPHA, "target_modules": list(cases.ADAPTED), "bias": "none",
                   "modules_to_save": list(cases.HEAD) if PREFIX + "score.weight" in golden["shapes"] else None}, f)


def check(name, layouts):
    with open(f"{HERE}/golden/{name}.json", encoding="utf-8") as f:
        golden = json.load(f)
    lora = name.endswith("_lora")
    size = max(len(row) for k, v in golden["rows"].items() if k != "old" for row in v)  # of an objective without `next` that is seq
    kind = name.split("_")[0]
    seq, size = (size, size) if kind in ("reward", "classify") else (size - 1, size) if kind in ("distill", "grpo") else (size, size + 1)
    referred = (kind in ("dpo", "ipo", "kto") or "beta=" in cases.CASES[name] and kind == "grpo") and not lora and \
        "reference=stored" not in cases.CASES[name]
    rows = padded(golden["rows"], size)
    with tempfile.TemporaryDirectory(prefix="mgc-objective-") as folder:
        stored = source(folder, golden, cases.CONFIG, referred)
        arguments = ["--init", "init.safetensors"]
        if lora:
            adapter_directory(folder, golden)
            arguments += ["--adapter", "adapter"]
        try:
            model(folder, name, seq)
            exact = interpreted(folder, golden, rows, stored)
            steps = {layout: trained(folder, golden, rows, layout, arguments) for layout in layouts}
        except RuntimeError as e:
            print(f"{name}: FAILED\n{e}")
            return False
    good = exact < 1 and max(steps.values()) < 1
    print(f"{name}: {exact:.0e} of what is allowed in float64, losses of steps " +
          ", ".join(f"{v:.0e}{' with ' + k if k else ''}" for k, v in steps.items()) + f": {'agree' if good else 'DIFFER'}", flush=True)
    return good


if __name__ == "__main__":
    chosen = sys.argv[1:] or list(cases.CASES)
    everything = bool(os.environ.get("MGC_FULL"))
    turn = int(os.environ.get("MGC_TURN", "0"))
    results = []
    for i, name in enumerate(chosen):
        layouts = TOGETHER if name.startswith("kto") else LAYOUTS
        results.append(check(name, layouts if everything else ("", layouts[1 + (turn + i) % (len(layouts) - 1)])))
    sys.exit(0 if all(results) else 1)
