"""Programs with adapters against PEFT: check_adapters.py NAME f32|f64, with the numbers of adapters.py.

The program reads the base by --init and the adapter by --adapter, from a directory as PEFT's. One step gives the
gradient (exp_avg), ten the losses. A run that is stopped and resumed, from a checkpoint without the base, ends with the
same bytes. What --export writes, merged, has in a program without the adapter the loss of the last step.
"""

import filecmp
import json
import os
import shutil
import struct
import sys
import tempfile

from check import BOUNDS, HERE, MGC, norm, read_safetensors, run, steps

NAMES = {"lora": {"r": 4, "lora_alpha": 6},
         "stable": {"r": 4, "lora_alpha": 6, "use_rslora": True},
         "dora": {"r": 4, "lora_alpha": 6, "use_dora": True},
         "table": {"r": 4, "lora_alpha": 6},
         "saved": {"r": 4, "lora_alpha": 6, "modules_to_save": ["lm_head", "model.norm"]}}
PREFIX = "base_model.model."


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        n = len(data) * data.itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data.tobytes())


def pattern(name, n):
    """As PEFT writes it: the end of a module's name, or a pattern."""
    return {("o_proj" if n == 2 else r".*\.self_attn\.(o_proj)"): n} if name == "stable" else {}


def write_inputs(folder, golden, name):
    weights = {k[len("weight."):]: v for k, v in golden.items() if k.startswith("weight.")}
    os.mkdir(os.path.join(folder, "base"))
    os.mkdir(os.path.join(folder, "adapter"))
    write_tensors(os.path.join(folder, "base/model.safetensors"),
                  {k: v for k, v in weights.items() if not k.startswith(PREFIX)})
    write_tensors(os.path.join(folder, "adapter/adapter_model.safetensors"),
                  {k: v for k, v in weights.items() if k.startswith(PREFIX)})
    config = NAMES[name] | {"peft_type": "LORA", "rank_pattern": pattern(name, 2), "alpha_pattern": pattern(name, 3)}
    with open(os.path.join(folder, "adapter/adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    _, (sequences, window), data = golden["batch"]
    for i in range(sequences):
        with open(os.path.join(folder, f"{i:02d}.window"), "wb") as f:
            f.write(data[i * window:(i + 1) * window].tobytes())


def compile_program(folder, precision, adapter, program):
    with open(os.path.join(HERE, "adapter_small.mg"), encoding="utf-8") as f:
        text = f.read().replace("precision f32", f"precision {precision}")
    with open(os.path.join(folder, "adapter_small.mg"), "w", encoding="utf-8") as f:
        f.write(text)
    run(folder, MGC, "adapter_small.mg", "--adapter", adapter, "-o", program)


def train(folder, out, n, *more):
    run(folder, "./train", "--init", "base", "--adapter", "adapter", "--data", "*.window", "--steps", n, "--out", out, *more)


def check_gradients(folder, golden, bounds, failures):
    train(folder, "one", 1)
    slots = read_safetensors(os.path.join(folder, "one/ckpt/step-00000001/optimizer.safetensors"))
    grads = {k[len("grad."):]: v[2] for k, v in golden.items() if k.startswith("grad.")}
    if set(slots) != {f"{s}.{k}" for s in ("exp_avg", "exp_avg_sq") for k in grads}:
        failures.append(f"optimizer state of {sorted(slots)}")
        return 0.0
    whole, worst = norm([x for g in grads.values() for x in g]), 0.0
    for name, theirs in grads.items():
        mine = [x / (1 - 0.9) for x in slots["exp_avg." + name][2]]
        off = norm([a - b for a, b in zip(mine, theirs, strict=True)])
        worst = max(worst, off / norm(theirs))
        if not off <= bounds["relative"] * norm(theirs) + bounds["of_all"] * whole:
            failures.append(f"gradient of {name}: off by {off:.3e} of {norm(theirs):.3e}")
    return worst


def check_losses(folder, numbers, bounds, failures):
    train(folder, "many", 10, "--save-every", 4, "--keep", 0)
    rows, worst = steps(folder, "many"), 0.0
    for r, loss in zip(rows, numbers["losses"], strict=True):
        worst = max(worst, abs(r["loss"] - loss))
        if not abs(r["loss"] - loss) <= bounds["losses"]:
            failures.append(f"step {r['step']}: loss {r['loss']!r}, PEFT {loss!r}")
    return worst


def check_resumed(folder, failures):
    """From step 4, whose checkpoint has no base: state.json says where that is."""
    shutil.copytree(os.path.join(folder, "many/ckpt/step-00000004"), os.path.join(folder, "again/ckpt/step-00000004"))
    run(folder, "./train", "--resume", "--data", "*.window", "--steps", 10, "--out", "again")
    for name in ("adapter_model.safetensors", "optimizer.safetensors", "adapter_config.json", "state.json"):
        paths = [os.path.join(folder, out, "ckpt/step-00000010", name) for out in ("many", "again")]
        if not filecmp.cmp(*paths, shallow=False):
            failures.append(f"{name} of the resumed run differs")
    if os.path.exists(os.path.join(folder, "many/ckpt/step-00000010/model.safetensors")):
        failures.append("a checkpoint has the base")


def check_merged(folder, numbers, precision, bounds, failures):
    run(folder, "./train", "--resume", "--out", "many", "--export", "merged")
    compile_program(folder, precision, "none", "whole")
    run(folder, "./whole", "--init", "merged", "--data", "*.window", "--steps", 1, "--out", "whole-run")
    loss = steps(folder, "whole-run")[0]["loss"]
    if not abs(loss - numbers["after"]) <= bounds["losses"]:
        failures.append(f"loss of the merged model: {loss!r}, PEFT {numbers['after']!r}")
    return abs(loss - numbers["after"])


def main():
    name, precision = sys.argv[1:]
    bounds = BOUNDS[precision]
    if precision == "f32":
        bounds = bounds | {"losses": 1e-5}
    golden = read_safetensors(os.path.join(HERE, "golden", f"adapter_{name}.safetensors"))
    with open(os.path.join(HERE, "golden", f"adapter_{name}.json"), encoding="utf-8") as f:
        numbers = json.load(f)
    folder = tempfile.mkdtemp(prefix="mgc-adapters-")
    failures = []
    try:
        write_inputs(folder, golden, name)
        compile_program(folder, precision, name, "train")
        gradient = check_gradients(folder, golden, bounds, failures)
        loss = check_losses(folder, numbers, bounds, failures)
        check_resumed(folder, failures)
        merged = check_merged(folder, numbers, precision, bounds, failures)
    finally:
        shutil.rmtree(folder)
    for f in failures:
        print(f)
    print(f"{name} {precision}: gradients off by {gradient:.1e} of their norm at most, 10 losses by {loss:.1e}, "
          f"that of the merged model by {merged:.1e}: {'DIFFER' if failures else 'agree'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
