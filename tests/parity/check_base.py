"""A base in NF4 or int8 against bitsandbytes and PEFT: check_base.py nf4|int8, with the numbers of base.py.

The program reads the base in bf16 and quantises it, reads the adapter, and has PEFT's gradients and 20 losses; a program that keeps the
base as it is has not.
"""

import json
import os
import shutil
import sys
import tempfile

from check import BOUNDS, HERE, MGC, read_safetensors, run, steps
from check_adapters import check_gradients, write_tensors

PREFIX = "base_model.model."
SIZES = {"hidden": 64, "head": 16, "ffn": 320}
LOSSES = 1e-5


def write_inputs(folder, golden):
    weights = {k[len("weight."):]: v for k, v in golden.items() if k.startswith("weight.")}
    for name, adapter in (("base/model", False), ("adapter/adapter_model", True)):
        path = os.path.join(folder, name + ".safetensors")
        os.mkdir(os.path.dirname(path))
        write_tensors(path, {k: v for k, v in weights.items() if k.startswith(PREFIX) == adapter})
    with open(os.path.join(folder, "adapter/adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 6}, f)
    _, (sequences, window), data = golden["batch"]
    for i in range(sequences):
        with open(os.path.join(folder, f"{i:02d}.window"), "wb") as f:
            f.write(data[i * window:(i + 1) * window].tobytes())


def compile_program(folder, kind, base):
    with open(os.path.join(HERE, "adapter_small.mg"), encoding="utf-8") as f:
        text = f.read()
    assert ", base = nf4" in text
    with open(os.path.join(folder, "small.mg"), "w", encoding="utf-8") as f:
        f.write(text.replace(", base = nf4", f", base = {kind}" if base else ""))
    sizes = [word for d, n in SIZES.items() for word in ("-D", f"{d}={n}")]
    run(folder, MGC, "small.mg", *sizes, "--adapter", "base", "-o", "train")


def losses_off(folder, numbers, out):
    run(folder, "./train", "--init", "base", "--adapter", "adapter", "--data", "*.window", "--steps", 20, "--out", out)
    return max(abs(r["loss"] - loss) for r, loss in zip(steps(folder, out), numbers["losses"], strict=True))


def main():
    kind = sys.argv[1]
    golden = read_safetensors(os.path.join(HERE, "golden", f"base_{kind}.safetensors"))
    with open(os.path.join(HERE, "golden", f"base_{kind}.json"), encoding="utf-8") as f:
        numbers = json.load(f)
    folder, failures = tempfile.mkdtemp(prefix="mgc-base-"), []
    try:
        write_inputs(folder, golden)
        compile_program(folder, kind, True)
        gradient = check_gradients(folder, golden, BOUNDS["f32"], failures)
        loss = losses_off(folder, numbers, "many")
        compile_program(folder, kind, False)
        plain = losses_off(folder, numbers, "plain")
    finally:
        shutil.rmtree(folder)
    if not loss <= LOSSES:
        failures.append("a loss is another")
    if not plain > 50 * LOSSES:
        failures.append("with the base as it is the losses are the same")
    for f in failures:
        print(f)
    print(f"gradients off by {gradient:.1e} of their norm at most, 20 losses by {loss:.1e}, with the base as it is by {plain:.1e}: "
          f"{'DIFFER' if failures else 'agree'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
