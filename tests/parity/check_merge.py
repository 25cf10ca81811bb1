"""mgc merge against PEFT's merge_and_unload: check_merge.py, with the numbers of merge.py.

Bases lie in one file or, of the case lora, in two with an index. Each number is PEFT's, which adds in float32, to the last
digits; --type bf16 is the same rounded. What cannot be merged is refused and leaves nothing behind.
"""

import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from check import HERE, MGC, read_safetensors
from check_adapters import write_tensors

FAILURES = []


def expect(good, what):
    if not good:
        FAILURES.append(what)


def parts(golden, part):
    return {k[len(part) + 1:]: v for k, v in golden.items() if k.startswith(part + ".")}


def write_base(folder, tensors, shards):
    os.mkdir(folder)
    for name, text in (("config.json", '{"model_type": "any", "torch_dtype": "float32"}'), ("tokenizer.json", "{}"), ("notes.md", "")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(text)
    names = sorted(tensors)
    if shards == 1:
        write_tensors(os.path.join(folder, "model.safetensors"), tensors)
        return
    cut = len(names) // 2
    files = {"model-00001-of-00002.safetensors": names[:cut], "model-00002-of-00002.safetensors": names[cut:]}
    for file, mine in files.items():
        write_tensors(os.path.join(folder, file), {k: tensors[k] for k in mine})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
        json.dump({"weight_map": {k: file for file, mine in files.items() for k in mine}}, f)


def write_adapter(folder, tensors, config):
    os.mkdir(folder)
    write_tensors(os.path.join(folder, "adapter_model.safetensors"), tensors)
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)


def merge(*argv):
    return subprocess.run([MGC, "merge", *argv], capture_output=True, text=True, timeout=100)


def all_of(folder):
    out = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        out.update(read_safetensors(path))
    return out


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) & 0xffff


def check(name, folder):
    golden = read_safetensors(os.path.join(HERE, f"golden/merge_{name}.safetensors"))
    with open(os.path.join(HERE, f"golden/merge_{name}.json"), encoding="utf-8") as f:
        said = json.load(f)
    at = lambda n: os.path.join(folder, n)  # noqa: E731
    base, merged = parts(golden, "base"), parts(golden, "merged")
    write_base(at("base"), base, 2 if name == "lora" else 1)
    write_adapter(at("adapter"), parts(golden, "adapter"), said["adapter"])
    words = [at("adapter")]
    if "second" in said:
        write_adapter(at("second"), parts(golden, "second"), said["second"])
        words = [f"{at('adapter')}={said['weights'][0]}", f"{at('second')}={said['weights'][1]}"]
    r = merge(*words, "--base", at("base"), "-o", at("out"))
    expect(r.returncode == 0, f"{name}: {r.stderr}")
    if r.returncode:
        return
    got = all_of(at("out"))
    expect({k: v[:2] for k, v in got.items()} == {k: v[:2] for k, v in merged.items()}, f"{name}: other tensors")
    worst = max(abs(x - y) for k in merged for x, y in zip(got[k][2], merged[k][2], strict=True))
    moved = max(abs(x - y) for k in merged for x, y in zip(base[k][2], merged[k][2], strict=True))
    expect(worst <= 3e-7 and moved > 0.05, f"{name}: off by {worst}, of {moved}")
    names = set(os.listdir(at("out")))
    expect({"config.json", "tokenizer.json"} <= names and "notes.md" not in names, f"{name}: files {names}")
    expect(("model.safetensors.index.json" in names) == (name == "lora"), f"{name}: index")
    r = merge(*words, "--base", at("base"), "--type", "bf16", "-o", at("half"))
    expect(r.returncode == 0, f"{name} in bf16: {r.stderr}")
    check_half(name, at("half"), got)
    print(f"{name}: off by {worst:.1e} at most, of {moved:.2f}")
    r = merge(*words, "--base", at("base"), "-o", at("out"))
    expect(r.returncode == 2 and "exists" in r.stderr, f"{name}: a second time: {r.stderr}")


def check_half(name, folder, got):
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        with open(path, "rb") as f:
            data = f.read()
        n = struct.unpack_from("<Q", data)[0]
        for k, t in json.loads(data[8:8 + n]).items():
            if k == "__metadata__":
                continue
            a, b = (8 + n + x for x in t["data_offsets"])
            halves = struct.unpack(f"<{(b - a) // 2}H", data[a:b])
            # rounded once from the sum in double, so beside a float32 that lies in the middle it may be the other neighbour
            off = sum(abs(h - bf16(x)) for h, x in zip(halves, got[k][2], strict=True))
            expect(t["dtype"] == "BF16" and off <= 1, f"{name} in bf16: {k} {off}")
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        expect(json.load(f)["torch_dtype"] == "bfloat16", f"{name}: config of bf16")


def check_refused(folder):
    """Each leaves no OUT and nothing beside."""
    golden = read_safetensors(os.path.join(HERE, "golden/merge_lora.safetensors"))
    with open(os.path.join(HERE, "golden/merge_lora.json"), encoding="utf-8") as f:
        config = json.load(f)["adapter"]
    tensors = parts(golden, "adapter")
    write_base(os.path.join(folder, "base"), parts(golden, "base"), 1)
    first = sorted(tensors)[0]
    odd = {first.replace("layers.0", "layers.7"): tensors[first], **tensors}
    short = {**tensors, first: ("F32", [1, 1], tensors[first][2][:1])}
    lonely = {k: v for k, v in tensors.items() if k != first.replace("lora_A", "lora_B")}
    cases = [("odd", odd, config, "belongs to no tensor"), ("short", short, config, "does not fit"), ("lonely", lonely, config, "without its lora_B"),
             ("other", tensors, {**config, "peft_type": "LOHA"}, "LORA is built"),
             ("experts", tensors, {**config, "target_parameters": ["mlp.experts.gate_up_proj"]}, "'target_parameters' is not built"),
             ("tokens", tensors, {**config, "trainable_token_indices": [1]}, "'trainable_token_indices' is not built"),
             ("pissa", tensors, {**config, "init_lora_weights": "pissa"}, "changes the base")]
    for name, mine, said, says in cases:
        write_adapter(os.path.join(folder, name), mine, said)
        r = merge(os.path.join(folder, name), "--base", os.path.join(folder, "base"), "-o", os.path.join(folder, "out"))
        expect(r.returncode == 1 and says in r.stderr, f"{name}: {r.returncode} {r.stderr}")
        expect(not glob.glob(os.path.join(folder, "out*")), f"{name}: something is left")
    write_adapter(os.path.join(folder, "good"), tensors, config)
    check_damaged(folder)
    with open(os.path.join(folder, "base/model.safetensors"), "r+b") as f:
        f.truncate(os.path.getsize(f.name) - 5)
    r = merge(os.path.join(folder, "good"), "--base", os.path.join(folder, "base"), "-o", os.path.join(folder, "out"))
    expect(r.returncode == 1 and "MG0620" in r.stderr, f"cut: {r.stderr}")


def check_damaged(folder):
    """Whatever the bytes of an adapter are, mgc ends with an error of its own."""
    draw, at = random.Random(7), os.path.join(folder, "damaged")
    with open(os.path.join(folder, "good/adapter_model.safetensors"), "rb") as f:
        tensors = f.read()
    with open(os.path.join(folder, "good/adapter_config.json"), "rb") as f:
        config = f.read()
    os.mkdir(at)
    for i in range(60):
        both = [bytearray(tensors), bytearray(config)]
        for _ in range(draw.randrange(1, 5)):
            data = both[draw.randrange(2)]
            data[draw.randrange(min(len(data), 1500))] = draw.choice(b"0123456789-,:[]{}\"e.\x00\xff")
        for name, data in zip(("adapter_model.safetensors", "adapter_config.json"), both, strict=True):
            with open(os.path.join(at, name), "wb") as f:
                f.write(data)
        r = merge(at, "--base", os.path.join(folder, "base"), "-o", os.path.join(folder, f"damaged{i}"))
        expect(r.returncode in (0, 1), f"damaged {i}: {r.returncode} {r.stderr}")


def main():
    names = sorted(os.path.basename(p)[len("merge_"):-len(".json")] for p in glob.glob(os.path.join(HERE, "golden/merge_*.json")))
    for name in [*names, None]:
        folder = tempfile.mkdtemp(prefix="mgc-merge-")
        try:
            if name:
                check(name, folder)
            else:
                check_refused(folder)
        finally:
            shutil.rmtree(folder)
    for f in FAILURES:
        print(f)
    return 1 if FAILURES or len(names) < 9 else 0


if __name__ == "__main__":
    sys.exit(main())
