"""What is kept in bf16, by real programs: `state = bf16` and `master = bf16` are rounded at random, with bits of an element alone. So a
run has the same bits under every layout, resumed, and on any number of threads; memory and checkpoints are what they are said to be;
and a mean that moves by less than half a step of bf16 moves all the same, unless the nearest is asked for."""

import json
import os
import re
import struct

import layouts
import mgctest
from mgctest import some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
DP = "batch -> dp\n"
Z1, Z3 = DP + "state -> dp\n", DP + "state, grads, params -> dp\n"
LAYOUTS = {"dp1": ("dp = 1", DP), "dp2": ("dp = 2", DP), "dp4_zero1": ("dp = 4", Z1), "dp2_zero3": ("dp = 2", Z3), "dp4_zero3": ("dp = 4", Z3)}
TP = {"tp2": ("tp = 2", "kv_heads, ffn, vocab -> tp\n"), "tp2_dp2": ("tp = 2, dp = 2", "kv_heads, ffn, vocab -> tp\n" + Z1),
      "dp2_tp2_zero3": ("dp = 2, tp = 2", "kv_heads, ffn, vocab -> tp\n" + Z3)}
KEPT = {"state": (", state = bf16", "f32(reduce = tree)"), "master": ("", "bf16(master = bf16, reduce = tree)"),
        "both": (", state = bf16", "bf16(master = bf16, reduce = tree)")}

# Classes have no sum over them in a gradient: ranks with some of them each compute what one rank does.
APART = """dim batch = 8, features = 24, classes = 64
model apart(x[batch, features], y[batch, classes]) {
    w : param[features, classes] ~ normal(0.1) as "w" [classes, features]
    b : param[classes] = 0
    d = x @ w over features + b - y
    loss = mean(d * d)
}
train {
    optimizer adamw(state = bf16)
    lr        1e-2
    precision f32
}
layout { device cpu  mesh tp = 1  classes -> tp  microbatch 8 }
"""


CONSTANT = """dim batch = 1, one = 1, many = 512
model constant(x[batch, one]) {
    w : param[many] = 0
    loss = sum(mean(x, over (batch, one)) * w)
}
train {
    optimizer adamw(betas = (0.9, 0.999), state = bf16)
    lr        1e-6
    precision f32
}
"""

SUMS = """dim batch = 8, one = 1, many = 64
model sums(x[batch, one]) {
    w : param[many] = 0 as "w"
    loss = sum(mean(x, over (batch, one)) * w)
}
train {
    optimizer sgd
    lr        1
    precision bf16(reduce = bf16)
}
layout { device cpu  mesh dp = 1  batch -> dp  microbatch MICRO }
"""

# dw[many, out] is the sum of x z / 8 over the rows: a product.
PRODUCTS = """dim batch = 8, many = 64, out = 4
model products(x[batch, many], z[batch, out]) {
    w : param[many, out] = 0 as "w"
    loss = sum(mean((x @ w over many) * z, over batch))
}
train {
    optimizer sgd
    lr        1
    precision bf16(reduce = bf16_nearest)
}
layout { device cpu  mesh dp = 1  batch -> dp  microbatch MICRO }
"""


def philox(counter, key):
    """A block of Philox4x32-10 (Salmon, Moraes, Dror, Shaw; 2011)."""
    c, k, low = list(counter), [key & 0xffffffff, key >> 32], 0xffffffff
    for _ in range(10):
        p0, p1 = c[0] * 0xd2511f53, c[2] * 0xcd9e8d57
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & low, (p0 >> 32) ^ c[3] ^ k[1], p0 & low]
        k = [(k[0] + 0x9e3779b9) & low, (k[1] + 0xbb67ae85) & low]
    return c


def fnv(text):
    h = 14695981039346656037
    for b in text.encode():
        h = (h ^ b) * 1099511628211 & (1 << 64) - 1
    return h


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def number(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def nearest(x):
    """The bf16 that is nearest to x, of two that are as near the even one."""
    b = bits(x)
    return number(b + 0x7fff + (b >> 16 & 1) & 0xffff0000)


def tensors(data):
    """The dtype of each tensor of a safetensors file, and its bytes."""
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    return {k: (v["dtype"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}


@mgctest.in_turns_of(2)
class Narrow(mgctest.Case):
    def rows(self, inputs):
        """A data file of inputs by name: rows, columns, numbers."""
        head, data = {}, b""
        for name, (rows, columns, numbers) in inputs.items():
            more = struct.pack(f"<{len(numbers)}f", *numbers)
            head[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [len(data), len(data) + len(more)]}
            data += more
        text = json.dumps(head).encode()
        self.write("rows.safetensors", struct.pack("<Q", len(text)) + text + data)

    def source(self, kept):
        state, precision = KEPT[kept]
        with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f:
            text = f.read().replace("rank >= 2)", f"rank >= 2{state})")
        self.write(f"{kept}.mg", re.sub(r"precision +f32", "precision " + precision, text))
        return f"{kept}.mg"

    def make(self, source, name):
        mesh, rules = {**LAYOUTS, **TP}[name]
        self.write(f"{name}.mg", f"layout {name} {{\n device cpu\n mesh {mesh}\n{rules} microbatch 1\n}}\n")
        program = f"{source[:-3]}-{name}"
        self.compiles(source, "--layout", f"./{name}.mg", "-D", "batch=8", "-o", program)
        return "./" + program

    def trained(self, program, steps, out, *argv):
        data = "rows.safetensors" if os.path.exists(self.path("rows.safetensors")) else "text1.txt"
        self.trains(program, "--data", data, "--steps", steps, "--out", out, "--threads", 1, *argv, timeout=300)
        return [self.read(f"{out}/ckpt/step-{steps:08d}/{kind}.safetensors") for kind in ("model", "optimizer")]

    def follow(self, kept, names, first):
        source = self.source(kept)
        want = self.trained(self.make(source, first), 8, f"run-{kept}-{first}")
        for name in names:
            with self.subTest(kept=kept, layout=name):
                self.assertTrue(want == self.trained(self.make(source, name), 8, f"run-{kept}-{name}"), "other bits")
        return want

    def test_layouts(self):
        """Ranks with other parts of state, parameters and gradients; and those at the same tp."""
        self.text(8000)
        for kept in some(("state", "both", "master")):
            model, optimizer = self.follow(kept, some(list(LAYOUTS)[1:], 2), "dp1")
            self.assertEqual({t for t, _ in tensors(model).values()}, {"F32" if kept == "state" else "BF16"})
            self.assertEqual({t for t, _ in tensors(optimizer).values()}, {"F32" if kept == "master" else "BF16"})
        self.follow("both", list(TP)[1:][:1], "tp2")

    def apart(self, text):
        """What is saved where each rank has all columns, or a half of them."""
        self.write("apart.mg", text)
        self.rows({"x": (64, 24, [(i * 37 % 101) / 50 - 1 for i in range(24 * 64)]),
                   "y": (64, 64, [(i * 53 % 89) / 40 - 1 for i in range(64 * 64)])})
        got = []
        for tp in (1, 2):
            self.compiles("apart.mg", "-D", f"tp={tp}", "-o", f"apart{tp}")
            got.append(self.trained(f"./apart{tp}", 10, f"apart-{tp}"))
        self.assertTrue(got[0] == got[1], "other bits")
        return got[0]

    def test_split_columns(self):
        """A parameter that is split along its rows in files, which are its columns here, from a column of 32 on."""
        self.apart(APART)

    def test_resumes_bit_for_bit(self):
        self.text(8000)
        source = self.source("both")
        program = self.make(source, "dp1")
        whole = self.trained(program, 8, "whole")
        self.trained(program, 5, "broken", "--threads", 2)
        self.assertTrue(whole == self.trained(program, 8, "broken", "--resume"), "other bits")

    def test_memory(self):
        """Half of the bytes of state, in the plan, at run time and in checkpoints."""
        self.text(8000)
        bytes_of = {}
        for kept in ("f32", "state"):
            path = os.path.join(PARITY, "llama_small.mg") if kept == "f32" else self.source(kept)
            plan = json.loads(self.compiles(path, "--plan=json").out)
            bytes_of[kept] = plan["arena_bytes"]
            self.compiles(path, "-o", kept)
            _, optimizer = self.trained(f"./{kept}", 2, f"run-{kept}")
            saved = sum(len(data) for _, data in tensors(optimizer).values())
            elements = saved // (4 if kept == "f32" else 2)
        self.assertGreaterEqual(bytes_of["f32"] - bytes_of["state"], 2 * elements - 64 * 64)
        self.assertLessEqual(bytes_of["f32"] - bytes_of["state"], 2 * elements + 64 * 64)

    def test_kernels_in_c(self):
        """The same program with its kernels in C: losses within what other sums of gradients make of roundings."""
        self.text(8000)
        source = self.source(some(("state", "both"))[0])
        self.compiles(source, "-o", "llvm")
        self.compiles_in_c("c", source)
        for program in ("llvm", "c"):
            self.trained(f"./{program}", 10, f"run-{program}")
        a, b = ([l["loss"] for l in self.metrics(f"run-{p}") if "loss" in l] for p in ("llvm", "c"))
        for x, y in zip(a, b, strict=True):
            self.assertLess(abs(x - y), 1e-3 * x)

    def test_means_move(self):
        """A gradient of 1 for ever: the second moment after n steps is 1 - 0.999^n. Rounded to the nearest it stops where a step is
        below half a unit of its last place, near 1/3."""
        self.rows({"x": (8, 1, [1.0] * 8)})
        for kept, least, most in (("bf16", 0.61, 0.66), ("bf16(nearest)", 0.2, 0.55)):
            self.write("constant.mg", CONSTANT.replace("bf16", kept))
            self.compiles("constant.mg", "-o", "constant")
            _, optimizer = self.trained("./constant", 1000, kept[:5] + str(len(kept)))
            (second,) = (data for name, (_, data) in tensors(optimizer).items() if "exp_avg_sq" in name)
            numbers = [struct.unpack("<f", b"\0\0" + second[i:i + 2])[0] for i in range(0, len(second), 2)]
            mean = sum(numbers) / len(numbers)
            self.assertTrue(least < mean < most, f"{kept}: {mean}")

    def test_sums_of_gradients(self):
        """The rule of docs/training.md: bit for bit, for each microbatch of each step."""
        c = number(bits(8 / 7))
        self.rows({"x": (16, 1, [c] * 16)})
        for micro in some((1, 2, 8), 2):
            self.write("sums.mg", SUMS.replace("MICRO", str(micro)))
            self.compiles("sums.mg", "-o", "sums")
            self.trains("./sums", "--data", "rows.safetensors", "--steps", 2, "--save-every", 1, "--out", f"sums{micro}")
            w = [0.0] * 64
            for step in range(2):
                for column in range(64):
                    total = 0.0
                    for k in range(8 // micro):
                        word = philox((column // 4, 0, step * (8 // micro) + k, 0), fnv("sum w"))[column % 4]
                        total = number(bits(total + number(bits(c * micro / 8))) + (word & 0xffff) & 0xffff0000)
                    w[column] = number(bits(w[column] - total))
                (data,) = (d for _, d in tensors(self.read(f"sums{micro}/ckpt/step-{step + 1:08d}/model.safetensors")).values())
                self.assertEqual(list(struct.unpack("<64f", data)), w, (micro, step))
            self.assertGreater(len(set(w)), 1)

    def test_nearest_sums(self):
        """Likewise, of what a kernel adds to a sum and of what a product does."""
        c = number(bits(8 / 7))
        x, z = [nearest((i * 37 % 101) / 50 - 1) for i in range(64)], [1.0, -0.5, 1.25, 0.375]
        sums, products = SUMS.replace("reduce = bf16", "reduce = bf16_nearest"), PRODUCTS
        for micro in some((1, 2, 8), 2):
            self.rows({"x": (16, 1, [c] * 16)})
            w = self.steps_of(sums, micro, [number(bits(c * micro / 8))] * 64)
            self.assertEqual(len(set(w)), 1)
            self.rows({"x": (16, 64, x * 16), "z": (16, 4, z * 16)})
            w = self.steps_of(products, micro, [micro * a * b / 8 for a in x for b in z])
            self.assertNotEqual(w, [-2 * a * b for a in x for b in z])
            lines = [l for l in self.compiles("nearest.mg", "--schedule").out.splitlines() if " product " in l]
            self.assertEqual(sum(" +" in l for l in lines), micro < 8, lines)

    def steps_of(self, source, micro, gradient):
        """Two steps beside a plain program of the rule."""
        self.write("nearest.mg", source.replace("MICRO", str(micro)))
        self.compiles("nearest.mg", "-o", "nearest")
        self.trains("./nearest", "--data", "rows.safetensors", "--steps", 2, "--save-every", 1, "--out", "nearest-run")
        w = [0.0] * len(gradient)
        for step in range(2):
            total = [0.0] * len(w)
            for k in range(8 // micro):
                total = [nearest(number(bits(t + g))) for t, g in zip(total, gradient, strict=True)]
            w = [number(bits(a - t)) for a, t in zip(w, total, strict=True)]
            (data,) = (d for _, d in tensors(self.read(f"nearest-run/ckpt/step-{step + 1:08d}/model.safetensors")).values())
            self.assertEqual(list(struct.unpack(f"<{len(w)}f", data)), w, (micro, step))
        return w

    def test_nearest_again(self):
        """The same bits twice, on two threads, and resumed."""
        self.text(8000)
        with open(os.path.join(PARITY, some(("llama_small.mg", "gpt2_small.mg", "mixtral_small.mg"))[0]), encoding="utf-8") as f:
            self.write("again.mg", re.sub(r"precision +f32", "precision bf16(reduce = bf16_nearest)", f.read()))
        program = self.make("again.mg", "dp1")
        whole = self.trained(program, 8, "whole")
        self.assertTrue(whole == self.trained(program, 8, "twice", "--threads", 2), "other bits")
        self.trained(program, 5, "broken")
        self.assertTrue(whole == self.trained(program, 8, "broken", "--resume"), "other bits")

    def test_sums_elsewhere(self):
        """Resumed, and with other columns on each rank."""
        text = APART.replace("precision f32", "precision bf16(reduce = bf16)").replace("microbatch 8", "microbatch 2")
        whole = self.apart(text)
        self.trained("./apart2", 4, "broken")
        self.assertTrue(whole == self.trained("./apart1", 10, "broken", "--resume"), "other bits")
        self.write("apart.mg", text.replace("bf16(reduce = bf16)", "bf16"))
        self.compiles("apart.mg", "-o", "apart")
        self.assertFalse(whole == self.trained("./apart", 10, "wide"), "sums are not rounded")

    def test_sums_of_layouts(self):
        """Ranks add up in another order, and then round: some elements go the other way, by 2^-8 of themselves. That made
        at most 4.8e-5 of a loss in ten layouts, rounded at random; the bound is six times as much."""
        self.text(8000)
        for kept in some(("bf16", "bf16_nearest")):
            with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f:
                self.write("small.mg", re.sub(r"precision +f32", f"precision bf16(reduce = {kept})", f.read()))
            ends = {}
            for name in ("one", *some(tuple(layouts.LAYOUTS), 3)):
                self.write("it.mg", layouts.text(name))
                self.compiles("small.mg", "--layout", "./it.mg", "-D", "batch=8", "-o", "small")
                self.trains("./small", "--data", "text1.txt", "--steps", 12, "--out", name, "--threads", 1, timeout=300)
                ends[name] = [l["loss"] for l in self.metrics(name) if "loss" in l]
                off = max(abs(a - b) / a for a, b in zip(ends["one"], ends[name], strict=True))
                print(f"{kept} {name}: {off:.1e}", flush=True)
                self.assertLess(off, 3e-4, name)

    def test_refused(self):
        with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f:
            text = f.read()
        self.refuses_each(text, ((("rank >= 2)", "rank >= 2, state = f16)"), "MG0307"),
                                 (("rank >= 2)", "rank >= 2, state = bf16(up))"), "MG0307"),
                                 (("rank >= 2)", "rank >= 2, state = f32(nearest))"), "MG0308"),
                                 (("precision f32", "precision f32(master = bf16)"), "MG0311"),
                                 (("precision f32", "precision f32(reduce = bf16)"), "MG0311"),
                                 (("precision f32", "precision f16(reduce = bf16)"), "MG0311"),
                                 (("precision f32", "precision f16(reduce = bf16_nearest)"), "MG0311"),
                                 (("precision f32", "precision bf16(master = bf16_nearest)"), "MG0307"),
                                 (("precision f32", "precision f16(master = bf16)"), "MG0311")))
        self.write("wrong.mg", text.replace("rank >= 2)", "rank >= 2, state = bf16)").replace("precision f32", "precision f64"))
        self.assertIn("MG0311", self.mgc("wrong.mg", "--check").err)
        self.write("right.mg", text.replace("rank >= 2)", "rank >= 2, state = bf16)"))
        self.compiles("right.mg", "--check", "--precision", "f64")
        average = text.replace("precision f32", "precision bf16(master = bf16)\n    average 0.9")
        self.write("wrong.mg", average)
        self.assertIn("MG0532", self.mgc("wrong.mg", "--check").err)


if __name__ == "__main__":
    mgctest.main()
