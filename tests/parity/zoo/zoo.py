"""Common parts of the zoo's tests: a model's golden numbers, and a program's beside them."""

import itertools
import json
import math
import os
import struct
import sys
from array import array

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../e2e"))

import mgctest  # noqa: E402
import random_layouts  # noqa: E402

MODELS = sorted(f[:-3] for f in os.listdir(HERE) if f.endswith(".mg"))
CODES = {"F64": "d", "F32": "f", "BF16": "H", "U8": "B"}

# In double precision: of a loss, of the norm of all gradients, of a parameter's gradient to its own norm, and to that of all.
LOSS, NORM, GRADIENT, OF_ALL = 1e-9, 1e-9, 1e-9, 1e-13


def read_safetensors(path):
    """name -> (dtype, shape, bytes)"""
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack_from("<Q", data)
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = (t["dtype"], t["shape"], data[8 + n + a:8 + n + b])
    return out


def write_safetensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def norm(v):
    return math.sqrt(math.fsum(x * x for x in v))


class Golden:
    def __init__(self, name):
        self.name, self.source = name, os.path.join(HERE, name + ".mg")
        self.file = os.path.join(HERE, "golden", name + ".safetensors")
        tensors = read_safetensors(self.file)
        with open(self.file.replace(".safetensors", ".json"), encoding="utf-8") as f:
            numbers = json.load(f)
        self.losses, self.norms, self.metrics = numbers["losses"], numbers["norms"], numbers.get("metrics", {})
        self.val_loss = numbers.get("val_loss", self.losses[0])  # of the batch; another one where noise is drawn
        self.weights = {k[7:]: t for k, t in tensors.items() if k.startswith("weight.")}
        self.grads = {k[5:]: array("d", t[2]) for k, t in tensors.items() if k.startswith("grad.")}
        self.after = {k[6:]: array("d", t[2]) for k, t in tensors.items() if k.startswith("after.")}
        self.averages = {k[8:]: array("d", t[2]) for k, t in tensors.items() if k.startswith("average.")}
        self.goals = numbers.get("goals", {})
        self.tokens, self.target_weights, self.documents = (tensors.get(n) for n in ("tokens", "weights", "documents"))

    def prepare(self, case):
        """Into the case's folder: the parameters a program starts from, and its data; what it is told of them."""
        write_safetensors(case.path("start.safetensors"), self.weights)
        if not self.tokens:
            return ["--init", "start.safetensors", "--data", self.file]
        if self.documents:
            return ["--init", "start.safetensors", "--data", self.write_documents(case)]
        _, (sequences, window), data = self.tokens
        for i in range(sequences):  # a file a sequence: each gives one window, in every epoch
            case.write(f"{i:02d}.window", data[i * window:(i + 1) * window])
            if self.target_weights:
                case.write(f"{i:02d}.window.weights", self.target_weights[2][i * window:(i + 1) * window])
        return ["--init", "start.safetensors", "--data", "u8:??.window"]

    def write_documents(self, case):
        """A Megatron file of the documents in the windows; what fills these is one token that begins where it is, and weighs 0."""
        window, places = self.documents[1][1], self.documents[2]
        starts = [i for i in range(len(places)) if i % window == places[i]]
        ends = [i for i in range(1, len(places) + 1) if i == len(places) or i % window == places[i]]
        found = [(a, b) for a, b in zip(starts, ends, strict=True) if b - a > 1]
        at = [0, *itertools.accumulate(b - a for a, b in found)]
        n = len(found)
        case.write("packed.idx", b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 1, n, n + 1) + struct.pack(f"<{n}i", *(b - a for a, b in found))
                   + struct.pack(f"<{n}q", *at[:n]) + struct.pack(f"<{n + 1}q", *range(n + 1)))
        for name, (_, _, data) in (("packed.bin", self.tokens), ("packed.bin.weights", self.target_weights)):
            case.write(name, b"".join(data[a:b] for a, b in found))
        return "packed.bin"

    def differences(self, case, out):
        """The losses, norms and first gradients of a run that are beyond the bounds, as texts."""
        found = []
        rows = [m for m in case.metrics(out) if "grad_norm" in m]
        if [m["step"] for m in rows] != list(range(1, len(self.losses) + 1)):
            return [f"steps {[m['step'] for m in rows]}"]
        for m, loss, size in zip(rows, self.losses, self.norms):
            if not abs(m["loss"] - loss) <= LOSS * abs(loss):
                found.append(f"step {m['step']}: loss {m['loss']!r}, PyTorch {loss!r}")
            if not abs(m["grad_norm"] - size) <= NORM * size:
                found.append(f"step {m['step']}: norm {m['grad_norm']!r}, PyTorch {size!r}")
            for goal, row in self.goals.items():
                for key, want in ((goal, row["losses"]), (goal + "_grad_norm", row["norms"])):
                    if not abs(m[key] - want[m["step"] - 1]) <= LOSS * abs(want[m["step"] - 1]):
                        found.append(f"step {m['step']}: {key} {m[key]!r}, PyTorch {want[m['step'] - 1]!r}")
        state = read_safetensors(case.path(f"{out}/ckpt/step-00000001/optimizer.safetensors"))
        for name, g in self.grads.items():  # the momentum after one step is the gradient
            if "momentum." + name not in state:
                continue  # it follows another loss, by another optimizer: what becomes of it is compared below
            dtype, _, data = state["momentum." + name]
            off = norm(a - b for a, b in zip(array(CODES[dtype], data), g, strict=True))
            if not off <= GRADIENT * norm(g) + OF_ALL * self.norms[0]:
                found.append(f"gradient of {name}: off by {off:.3e} of {norm(g):.3e}")
        if self.after:
            last = f"{out}/ckpt/step-{len(self.losses):08d}/"
            weights = read_safetensors(case.path(last + "model.safetensors"))
            weights |= read_safetensors(case.path(last + "optimizer.safetensors"))
        for name, want in (self.after | {"average." + n: t for n, t in self.averages.items()}).items():
            dtype, _, data = weights[name]
            off = norm(a - b for a, b in zip(array(CODES[dtype], data), want, strict=True))
            if not off <= GRADIENT * norm(want):
                found.append(f"{name} after the last step: off by {off:.3e} of {norm(want):.3e}")
        return found

    def run(self, case, program, out, data, **more):
        """The differences of so many steps of a program from the golden ones."""
        case.trains(f"./{program}", *data, "--steps", len(self.losses), "--save-every", 1, "--keep", 0, "--threads", 1,
                    "--out", out, timeout=300, **more)
        return self.differences(case, out)


__all__ = ["Golden", "MODELS", "mgctest", "random_layouts"]
