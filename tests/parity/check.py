"""Emitted programs against PyTorch: check.py MODEL f32|f64, with the numbers of generate.py.

The program starts from the golden weights (a checkpoint whose tensors are replaced), sees the golden
batch, and after one step without clipping gives away its gradient: exp_avg / (1 - beta1). Then 20
steps of the train block as it stands give 20 losses and norms. The order of sequences in a batch is
the program's own: it changes nothing but the order of sums.
"""

import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from array import array

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build"))
MGC = os.path.join(BUILD, "mgc")
CODES = {"F32": "f", "F64": "d", "U8": "B", "BF16": "H"}

# Per parameter |a - b| <= RELATIVE |b| + OF_ALL |all gradients|; per loss |a - b| <= LOSS.
BOUNDS = {
    "f32": {"relative": 1e-5, "of_all": 1e-7, "losses": 1e-4, "norms": 1e-4},
    "f64": {"relative": 1e-9, "of_all": 1e-12, "losses": 1e-9, "norms": 1e-9},
}


# ---- files -------------------------------------------------------------------------------------


def read_safetensors(path):
    """name -> (dtype, shape, array)"""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack_from("<Q", data)
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = (t["dtype"], t["shape"], array(CODES[t["dtype"]], data[8 + n + a:8 + n + b]))
    return out


def replace_tensors(path, values):
    """Overwrites the tensors of a file in place with values[name], converted to the file's types."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    (n,) = struct.unpack_from("<Q", data)
    header = {k: t for k, t in json.loads(data[8:8 + n]).items() if k != "__metadata__"}
    assert set(header) == set(values), sorted(set(header) ^ set(values))
    for name, t in header.items():
        _, shape, v = values[name]
        assert t["shape"] == shape, f"{name}: {t['shape']} here, {shape} in PyTorch"
        a, b = t["data_offsets"]
        data[8 + n + a:8 + n + b] = array(CODES[t["dtype"]], v).tobytes()
    with open(path, "wb") as f:
        f.write(data)


def crc32c(data):
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    c = 0xFFFFFFFF
    for byte in data:
        c = table[(c ^ byte) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def reseal(folder):
    """state.json for tensor files that were changed: their checksums, then its own."""
    path = os.path.join(folder, "state.json")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        sum_ = crc32c(f.read())
    text = re.sub(r'("model.safetensors":\{"bytes":\d+,"crc32c":")[0-9a-f]{8}', rf"\g<1>{sum_:08x}", text)
    body = text[:text.rindex(',\n"crc32c"')]
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'{body},\n"crc32c":"{crc32c(body.encode()):08x}"}}\n')


# ---- programs ----------------------------------------------------------------------------------


def run(folder, *argv):
    r = subprocess.run([str(a) for a in argv], cwd=folder, capture_output=True, check=False)
    if r.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {r.returncode}\n{r.stderr.decode()}")


def compile_variant(folder, model, precision, clip, program):
    with open(os.path.join(HERE, model + ".mg"), encoding="utf-8") as f:
        text = f.read().replace("precision f32", f"precision {precision}")
    if not clip:
        text = re.sub(r" *clip .*\n", "", text)
    with open(os.path.join(folder, program + ".mg"), "w", encoding="utf-8") as f:
        f.write(text)
    run(folder, MGC, program + ".mg", "-o", program)


def start_from(folder, program, golden, out):
    """A run folder whose newest checkpoint holds the golden weights at step 0."""
    run(folder, "./" + program, "--data", "*.window", "--steps", 0, "--out", out)
    first = os.path.join(folder, out, "ckpt/step-00000000")
    weights = {k[len("weight."):]: v for k, v in golden.items() if k.startswith("weight.")}
    replace_tensors(os.path.join(first, "model.safetensors"), weights)
    reseal(first)


def steps(folder, out):
    with open(os.path.join(folder, out, "metrics.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [r for r in rows if "grad_norm" in r]


# ---- the comparison ----------------------------------------------------------------------------


def norm(v):
    return math.sqrt(math.fsum(x * x for x in v))


def check_gradients(folder, golden, numbers, bounds, failures):
    start_from(folder, "noclip", golden, "one")
    run(folder, "./noclip", "--data", "*.window", "--steps", 1, "--out", "one", "--resume")
    slots = read_safetensors(os.path.join(folder, "one/ckpt/step-00000001/optimizer.safetensors"))
    grads = {k[len("grad."):]: v[2] for k, v in golden.items() if k.startswith("grad.")}
    whole, worst = norm([x for g in grads.values() for x in g]), 0.0
    for name, theirs in grads.items():
        mine = [x / (1 - numbers["beta1"]) for x in slots["exp_avg." + name][2]]
        off = norm([a - b for a, b in zip(mine, theirs, strict=True)])
        allowed = bounds["relative"] * norm(theirs) + bounds["of_all"] * whole
        worst = max(worst, off / norm(theirs))
        if not off <= allowed:
            failures.append(f"gradient of {name}: off by {off:.3e}, allowed {allowed:.3e}")
    loss = steps(folder, "one")[0]["loss"]
    if not abs(loss - numbers["loss"]) <= bounds["losses"]:
        failures.append(f"loss of the first step: {loss!r}, PyTorch {numbers['loss']!r}")
    return worst


def check_losses(folder, golden, numbers, bounds, failures):
    start_from(folder, "clip", golden, "many")
    run(folder, "./clip", "--data", "*.window", "--out", "many", "--resume", "--steps", len(numbers["losses"]))
    rows, worst = steps(folder, "many"), 0.0
    if [r["step"] for r in rows] != list(range(1, len(numbers["losses"]) + 1)):
        failures.append(f"steps {[r['step'] for r in rows]}")
    for r, loss, size in zip(rows, numbers["losses"], numbers["norms"]):
        worst = max(worst, abs(r["loss"] - loss))
        if not abs(r["loss"] - loss) <= bounds["losses"]:
            failures.append(f"step {r['step']}: loss {r['loss']!r}, PyTorch {loss!r}")
        if not abs(r["grad_norm"] - size) <= bounds["norms"] * size:
            failures.append(f"step {r['step']}: norm {r['grad_norm']!r}, PyTorch {size!r}")
    return worst


def main():
    model, precision = sys.argv[1:]
    bounds = BOUNDS[precision]
    golden = read_safetensors(os.path.join(HERE, "golden", model + ".safetensors"))
    with open(os.path.join(HERE, "golden", model + ".json"), encoding="utf-8") as f:
        numbers = json.load(f)
    folder = tempfile.mkdtemp(prefix="mgc-parity-")
    failures = []
    try:
        _, (sequences, window), data = golden["batch"]
        for i in range(sequences):  # a file a sequence: each gives one window, in every epoch
            with open(os.path.join(folder, f"{i:02d}.window"), "wb") as f:
                f.write(data[i * window:(i + 1) * window].tobytes())
        compile_variant(folder, model, precision, False, "noclip")
        compile_variant(folder, model, precision, True, "clip")
        gradient = check_gradients(folder, golden, numbers, bounds, failures)
        loss = check_losses(folder, golden, numbers, bounds, failures)
    finally:
        shutil.rmtree(folder)
    for f in failures:
        print(f)
    print(f"{model} {precision}: gradients off by {gradient:.1e} of their norm at most, "
          f"{len(numbers['losses'])} losses by {loss:.1e}: {'DIFFER' if failures else 'agree'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
