"""Optimizer state of 8 bits, by real programs: the bits of bitsandbytes' rounding, the same under every layout, resumed, recomputed, offloaded
and on any number of threads; the bytes that the plan says; and what is refused."""

import base64
import json
import os
import re
import struct

import layouts
import mgctest
from mgctest import some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")

PULLED = """dim batch = 1, many = {many}
model pulled(x[batch, many]) {{
    w : param[many] = 0 as "w"
    d = w - x
    loss = sum(mean(d * d, over batch))
}}
train {{
    optimizer adamw(betas = ({betas[0]}, {betas[1]}), eps = {eps}, decay = {decay}, state = dynamic8)
    lr        {lr}
    precision f32
}}
"""

# Classes have no sum over them in a gradient: ranks with some of them each compute what one rank does. A block is four rows of all classes.
APART = """dim batch = 8, features = 24, classes = 64
model apart(x[batch, features], y[batch, classes]) {
    w : param[features, classes] ~ normal(0.1) as "w" [classes, features]
    b : param[classes] = 0
    d = x @ w over features + b - y
    loss = mean(d * d)
}
train {
    optimizer adamw(state = dynamic8(least = 1))
    lr        1e-2
    precision f32
}
layout { device cpu  mesh tp = 1  classes -> tp  microbatch 8 }
"""

# Rows of 320, whose blocks have 160 elements, rows of 96, of which a block has two, and a vector that is too small.
SHAPES = """dim batch = 8, seq = 1, rows = 24, columns = 320, short = 96, one = 1
model shapes(x[batch, rows]) {
    a : param[rows, columns] ~ normal(0.1)
    b : param[columns, short] ~ normal(0.1)
    s : param[short] = 0
    y = tanh(x @ a over rows) @ b over columns + s
    loss = mean(y * y)
}
train {
    optimizer OPTIMIZER
    lr        1e-2
    precision f32
}
"""


def tensors(data):
    """The dtype of each tensor of a safetensors file, and its bytes."""
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    return {k: (v["dtype"], data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}


@mgctest.in_turns_of(2)
class State8(mgctest.Case):
    def rows(self, **inputs):
        """A data file of inputs by name: rows of numbers."""
        head, data = {}, b""
        for name, rows in inputs.items():
            more = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
            head[name] = {"dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + len(more)]}
            data += more
        text = json.dumps(head).encode()
        self.write("rows.safetensors", struct.pack("<Q", len(text)) + text + data)

    def source(self, name="small.mg", state="dynamic8", precision="f32(reduce = tree)"):
        """llama_small with tensors that are large enough: blocks of heads, of rows, of several rows."""
        with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f:
            text = f.read().replace("rank >= 2)", f"rank >= 2, state = {state})")
        for old, new in (("hidden = 32", "hidden = 64"), ("head = 8", "head = 32"), ("ffn = 48", "ffn = 96")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write(name, re.sub(r"precision +f32", "precision " + precision, text))
        return name

    def make(self, source, layout, *options, program=None):
        mesh, rules = layout
        program = program or source[:-3]
        self.write("it.mg", f"layout it {{\n    device cpu\n    mesh {mesh}\n{rules}    microbatch 1\n}}\n")
        self.compiles(source, "--layout", "./it.mg", "-D", "batch=8", *options, "-o", program)
        return "./" + program

    def trained(self, program, steps, out, *argv, data="text1.txt"):
        self.trains(program, "--data", data, "--steps", steps, "--out", out, *argv, timeout=300)
        return [self.read(f"{out}/ckpt/step-{steps:08d}/{kind}.safetensors") for kind in ("model", "optimizer")]

    def test_bits(self):
        """The parameter, the codes and the largest number of each block are those of the rule in float32 and bitsandbytes' map, to the
        bit. bitsandbytes' own program has them but for what its fused multiplications move."""
        with open(os.path.join(PARITY, "golden/state8.json"), encoding="utf-8") as f:
            golden = json.load(f)
        many, steps = golden["many"], golden["steps"]
        self.rows(x=[[((i * 7919 % 10007) / 10007 - 0.5) * 10.0 ** -(i * 31 % 6) for i in range(many)]] * (steps + 1))
        self.write("pulled.mg", PULLED.format(**golden))
        self.compiles("pulled.mg", "-o", "pulled")
        model, optimizer = self.trained("./pulled", steps, "run", data="rows.safetensors")
        got = {**tensors(model), **tensors(optimizer)}
        self.assertEqual({k: t for k, (t, _) in got.items()}, {"w": "F32", "exp_avg.w": "I8", "exp_avg_absmax.w": "F32",
                                                               "exp_avg_sq.w": "U8", "exp_avg_sq_absmax.w": "F32"})
        end = {"w": got["w"][1], "first": bytes((c + 127) % 256 for c in got["exp_avg.w"][1]), "second": got["exp_avg_sq.w"][1],
               "first_absmax": got["exp_avg_absmax.w"][1], "second_absmax": got["exp_avg_sq_absmax.w"][1]}
        for key, data in end.items():
            want, theirs = (base64.b64decode(golden[who][key]) for who in ("rule", "bitsandbytes"))
            self.assertTrue(data == want, f"other bits of {key}")
            if len(data) == many:
                apart = [abs(a - b) for a, b in zip(data, theirs, strict=True)]
                self.assertLessEqual(max(apart), 1, key)
                self.assertLess(sum(apart), many / 100, key)
            else:
                a, b = (struct.unpack(f"<{len(data) // 4}f", d) for d in (data, theirs))
                for x, y in zip(a, b, strict=True):
                    self.assertLess(abs(x - y), 2e-5 * abs(x) + (1e-4 if key == "w" else 0), key)

    def test_layouts(self):
        """Ranks with other parts of state, parameters and gradients; blocks that ranks share."""
        self.text(8000)
        source = self.source(precision=some(("f32(reduce = tree)", "bf16(master = bf16, reduce = tree)"), 1)[0])
        want = self.trained(self.make(source, ("dp = 1", layouts.DP)), 8, "one")
        self.assertEqual({t for t, _ in tensors(want[1]).values()}, {"F32", "I8", "U8"})
        ways = {"zero1": ("dp = 2", layouts.DP + layouts.Z1), "zero2": ("dp = 4", layouts.DP + layouts.Z2),
                "zero3": ("dp = 2", layouts.DP + layouts.Z3), "zero3_4": ("dp = 4", layouts.DP + layouts.Z3), "dp4": ("dp = 4", layouts.DP)}
        for name in some(list(ways), 2):
            with self.subTest(layout=name):
                self.assertTrue(want == self.trained(self.make(source, ways[name]), 8, name), "other bits")

    def test_resumes_bit_for_bit(self):
        """On other threads, and under another layout."""
        self.text(8000)
        source = self.source()
        whole = self.trained(self.make(source, ("dp = 1", layouts.DP)), 8, "whole", "--threads", 1)
        self.trained("./small", 5, "broken", "--threads", 2)
        self.assertTrue(whole == self.trained("./small", 8, "broken", "--resume"), "other bits")
        self.trained("./small", 5, "moved")
        other = self.make(source, ("dp = 2", layouts.DP + layouts.Z3), program="other")
        self.assertTrue(whole == self.trained(other, 8, "moved", "--resume"), "other bits")

    def test_recompute_and_offload(self):
        self.text(8000)
        source = self.source(precision="bf16")
        ends = [self.trained(self.make(source, ("dp = 1", layouts.DP + more), *options), 6, f"run{n}")
                for n, (more, *options) in enumerate((("",), ("", "--recompute", "all"), ("    offload state, masters -> disk\n",)))]
        self.assertTrue(ends[0] == ends[1], "recomputed: other bits")
        self.assertTrue(ends[0] == ends[2], "offloaded: other bits")

    def test_shared_blocks(self):
        """Ranks that have parts of each block agree on its largest number: the bits of one rank."""
        self.write("apart.mg", APART)
        self.rows(x=[[(i * 24 + k) * 37 % 101 / 50 - 1 for k in range(24)] for i in range(64)],
                  y=[[(i * 64 + k) * 53 % 89 / 40 - 1 for k in range(64)] for i in range(64)])
        ends = []
        for tp in (1, 2):
            self.compiles("apart.mg", "-D", f"tp={tp}", "-o", f"apart{tp}")
            ends.append(self.trained(f"./apart{tp}", 10, f"apart-{tp}", data="rows.safetensors"))
        self.assertTrue(ends[0] == ends[1], "other bits")

    def test_shapes(self):
        """Other optimizers, and tensors that 256 does not divide: on two ranks as on one."""
        self.rows(x=[[(i * 24 + k) * 37 % 101 / 50 - 1 for k in range(24)] for i in range(64)])
        for optimizer in some(("adam(state = dynamic8)", "lion(state = dynamic8)", "sgd(momentum = 0.9, state = dynamic8)"), 1):
            self.write("shapes.mg", SHAPES.replace("OPTIMIZER", optimizer))
            ends = [self.trained(self.make("shapes.mg", layout, program=f"shapes{n}"), 6, f"{optimizer[:3]}{n}", data="rows.safetensors")
                    for n, layout in enumerate((("tp = 1", "    columns -> tp\n"), ("tp = 2", "    columns -> tp\n")))]
            self.assertEqual(tensors(ends[0][1]).keys(), tensors(ends[1][1]).keys())
            for (_, a), (_, b) in zip(tensors(ends[0][0]).values(), tensors(ends[1][0]).values(), strict=True):
                for x, y in zip(*(struct.unpack(f"<{len(d) // 4}f", d) for d in (a, b)), strict=True):
                    self.assertLess(abs(x - y), 2e-3)

    def test_memory(self):
        """A quarter of the bytes of state and the largest number of each block, in the plan and in checkpoints."""
        self.text(8000)
        size = {}
        for state in ("f32", "dynamic8"):
            source = self.source(f"{state}.mg", state, "f32")
            plan = self.compiles(source, "--plan=json", "-D", "batch=8")
            size[state] = json.loads(plan.out)["arena_bytes"]
            saved = tensors(self.trained(self.make(source, ("dp = 1", layouts.DP)), 2, f"run-{state}")[1])
            size[state + " saved"] = sum(len(d) for _, d in saved.values())
        codes = sum(len(d) for t, d in saved.values() if t in ("I8", "U8"))
        absmax = sum(len(d) for k, (_, d) in saved.items() if "absmax" in k)
        self.assertEqual(size["f32 saved"] - size["dynamic8 saved"], 3 * codes - absmax)
        self.assertLess(absmax, codes / 32)
        self.assertGreater(size["f32"] - size["dynamic8"], 2.8 * codes)

    def test_kernels_in_c(self):
        """The same program with its kernels in C: losses within what other sums of gradients make of roundings."""
        self.text(8000)
        source = self.source(precision="f32")
        self.compiles(source, "-o", "llvm")
        self.compiles_in_c("c", source)
        for program in ("llvm", "c"):
            self.trained(f"./{program}", 10, f"run-{program}")
        a, b = ([l["loss"] for l in self.metrics(f"run-{p}") if "loss" in l] for p in ("llvm", "c"))
        for x, y in zip(a, b, strict=True):
            self.assertLess(abs(x - y), 1e-3 * x)

    def test_refused(self):
        with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f:
            text = f.read()
        self.refuses_each(text, ((("rank >= 2)", "rank >= 2, state = dynamic8(nearest = 1))"), "MG0308"),
                                 (("rank >= 2)", "rank >= 2, state = dynamic8(least = 0))"), "MG0303"),
                                 (("rank >= 2)", "rank >= 2, state = int8)"), "MG0307"),
                                 (("adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)", "adafactor(state = dynamic8)"), "MG0311"),
                                 (("adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)", "muon(state = dynamic8)"), "MG0311")))
        self.write("wrong.mg", text.replace("rank >= 2)", "rank >= 2, state = dynamic8)").replace("precision f32", "precision f64"))
        self.assertIn("MG0311", self.mgc("wrong.mg", "--check").err)


if __name__ == "__main__":
    mgctest.main()
