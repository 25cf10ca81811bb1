"""Inputs by name out of safetensors files, instead of windows of tokens."""

import json
import random
import struct

import mgctest

MODEL = """dim batch = 16, features = 20, hidden = 32, classes = 5
model classify(x[batch, features], y[batch] : token(classes)) {
    w1 : param[features, hidden] ~ normal(0.2) as "fc1.weight" [hidden, features]
    b1 : param[hidden]           = 0 as "fc1.bias"
    w2 : param[hidden, classes]  ~ normal(0.2) as "fc2.weight" [classes, hidden]
    h = tanh(x @ w1 over features + b1)
    loss = cross_entropy(h @ w2 over hidden, y)
}
train {
    optimizer adamw(betas = (0.9, 0.99))
    lr        constant(peak = 1e-2, steps = 100)
    precision f32
}
layout {
    device     cpu
    microbatch 4
}
"""
REGRESSION = """dim batch = 8, features = 3
model line(x[batch, features], y[batch]) {
    w : param[features] = 0 as "w"
    d = x @ w over features - y
    loss = mean(d * d)
}
train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 2e-2, steps = 300)
    precision f64
}
"""


def safetensors(tensors):
    """tensors: name -> (dtype, shape, bytes)"""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values())


def classes(rows, seed=1, shape=(20,), dtype="I64", form="q"):
    """Points and which of five directions each lies in most."""
    r = random.Random(7)
    w = [[r.gauss(0, 1) for _ in range(20)] for _ in range(5)]
    r = random.Random(seed)
    x = [[r.gauss(0, 1) for _ in range(20)] for _ in range(rows)]
    y = [max(range(5), key=lambda c: sum(a * b for a, b in zip(w[c], v))) for v in x]
    return {"x": ("F32", [rows, *shape], b"".join(struct.pack("<20f", *v) for v in x)),
            "y": (dtype, [rows], struct.pack(f"<{rows}{form}", *y)), "other": ("F32", [1], b"1234")}


class Inputs(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("m.mg", MODEL)
        self.compiles("m.mg", "-o", "train")

    def refused(self, tensors, *words):
        self.write("bad.safetensors", safetensors(tensors))
        r = self.trains("./train", "--data", "bad.safetensors", "--out", "none", code=65)
        for word in words:
            self.assertIn(word, r.err)

    def test_learns(self):
        self.write("a.safetensors", safetensors(classes(500, 1)))
        self.write("b.safetensors", safetensors(classes(140, 2, (4, 5), "U8", "B")))
        self.write("v.safetensors", safetensors(classes(101, 3)))
        r = self.trains("./train", "--data", "?.safetensors", "--val", "v.safetensors", "--steps", 300, "--out", "r")
        self.assertRegex(r.out, r"300 steps in .* rows/s\n")
        rows = self.metrics("r")
        val = [m["val_loss"] for m in rows if "val_loss" in m]
        self.assertLess(val[-1], 0.6)
        self.assertLess(val[-1], 0.5 * rows[0]["loss"])

    def test_every_row_once_an_epoch(self):
        """The first step's loss over all rows is the evaluation's before training: 16 rows, 16 a batch."""
        self.write("a.safetensors", safetensors(classes(16)))
        self.trains("./train", "--data", "a.safetensors", "--val", "a.safetensors", "--steps", 1, "--lr", 1e-30,
                    "--out", "r")
        rows = self.metrics("r")
        val = [m["val_loss"] for m in rows if "val_loss" in m]
        self.assertAlmostEqual(rows[0]["loss"], val[-1], places=6)

    def test_resumes_bit_for_bit(self):
        self.write("a.safetensors", safetensors(classes(100)))
        run = ("./train", "--data", "a.safetensors", "--val-fraction", "0.1")
        self.trains(*run, "--steps", 40, "--out", "whole")
        self.trains(*run, "--steps", 17, "--out", "parts")
        self.trains(*run, "--steps", 40, "--out", "parts", "--resume")
        name = "ckpt/step-00000040/model.safetensors"
        self.assertEqual(self.read("whole/" + name), self.read("parts/" + name))

    def test_microbatches_change_nothing(self):
        self.write("a.safetensors", safetensors(classes(64)))
        self.compiles("m.mg", "-o", "half")
        self.write("m.mg", MODEL.replace("microbatch 4", "microbatch 16"))
        self.compiles("m.mg", "-o", "whole")
        for program in ("half", "whole"):
            self.trains("./" + program, "--data", "a.safetensors", "--steps", 20, "--out", "r" + program)
        for a, b in zip(self.metrics("rhalf"), self.metrics("rwhole")):
            self.assertAlmostEqual(a["loss"], b["loss"], places=5)

    def test_numbers(self):
        """A regression in float64 finds its weights."""
        r = random.Random(1)
        x = [[r.gauss(0, 1) for _ in range(3)] for _ in range(200)]
        y = [1 * a - 2 * b + 3 * c for a, b, c in x]
        self.write("m.mg", REGRESSION)
        self.compiles("m.mg", "-o", "line")
        self.write("a.safetensors", safetensors({
            "x": ("F64", [200, 3], b"".join(struct.pack("<3d", *v) for v in x)),
            "y": ("F32", [200], struct.pack("<200f", *y))}))
        self.trains("./line", "--data", "a.safetensors", "--out", "r")
        got = struct.unpack("<3d", self.read("r/ckpt/step-00000300/model.safetensors")[-24:])
        for a, b in zip(got, (1, -2, 3)):
            self.assertAlmostEqual(a, b, places=3)

    def test_what_does_not_fit(self):
        t = classes(10)
        self.refused({"x": t["x"]}, "has no tensor 'y'")
        self.refused({"x": ("F32", [10, 19], t["x"][2][:760]), "y": t["y"]},
                     "a row of x has 19 elements; the program takes 20")
        self.refused({"x": t["x"], "y": ("I64", [9], t["y"][2][:72])}, "y has 9 rows, the inputs before it 10")
        self.refused({"x": t["x"], "y": ("F32", [10], t["y"][2][:40])}, "y is of type F32; whole numbers are read")
        self.refused({"x": t["x"], "y": ("I64", [10], struct.pack("<10q", *[0] * 9, 5))},
                     "y holds 5 in row 9; the program takes 0 to 4")
        self.refused({"x": t["x"], "y": ("I64", [10], struct.pack("<10q", *[0] * 9, -1))}, "y holds -1 in row 9")
        self.refused({"x": ("F32", [], b"1234"), "y": t["y"]}, "x has no rows")
        self.write("bad.safetensors", b"x" * 100)
        self.assertIn("bad.safetensors", self.trains("./train", "--data", "bad.safetensors", code=65).err)

    def test_sources(self):
        for old, new, code in (("y[batch] : token(classes)", "y[classes]", "MG0272"),
                               ("x[batch, features]", "x[batch, batch]", "MG0205"),
                               ("x[batch, features]", "x", "MG0272"),
                               ("cross_entropy(h @ w2 over hidden, y)", "mean(next(y) * h)", "MG0254")):
            self.write("bad.mg", MODEL.replace(old, new))
            r = self.mgc("bad.mg", "--check")
            self.assertEqual(r.returncode, 1)
            self.assertIn(code, r.err)


if __name__ == "__main__":
    mgctest.main()
