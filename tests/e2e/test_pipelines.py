"""Pipelines by real ranks: every schedule computes what one rank does, to the bit where nothing is added up in another
order. The sample turns with the commit; MGC_FULL=1 takes all. (test_layouts.py has them beside other layouts.)"""

import array
import json
import os
import unittest

import layouts
import mgctest
import test_layouts
from layouts import DP, PP, TP, Z1, Z2, Z3
from mgctest import FULL, some

KINDS = ("gpipe", "1f1b", "interleaved, chunks = 2", "zb-h1")
EVERY = [(kind, pp, m) for kind in KINDS for pp in (2, 4) for m in (1, 3, 4, 8)]

# Layers of the stages of eight that are said.
SAID = (
    ("1f1b, stages = [layers, 0]", 2),
    ("gpipe, stages = [1, 7]", 2),
    ("interleaved, chunks = 2, stages = [3, 2, 3, 0]", 2),
    ("zb-h1, stages = [0, 4, 4, 0]", 4),
    ("interleaved, chunks = 2, stages = [0, 4, 4, 0]", 2),
    ("1f1b, stages = [5, 0, 0, 3]", 4),
    ("interleaved, chunks = 2, stages = [0, 0, 8, 0]", 2),
)

# Of eight layers the model's own peak of 3e-3 makes one rank's training leap (gradient norms of 17 among 0.4), and a leap
# makes 1e-5 of any rounding; at this one no seed's does.
RATE = ("--lr", 1e-3)

# The gradient of `rate` is summed and added to what is there in one kernel, which reads all of what it sums before it writes.
SUMMED = """dim layers = 4, hidden = 8, vocab = 256, seq = 8, batch = 4

model summed(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.3) as "embed.weight"
    head  : param[hidden, vocab] ~ normal(0.3) as "head.weight"
    x = embed[tokens]
    repeat layers as "{}" {
        rate : param[hidden] ~ normal(1) as "rate.weight"
        x = tanh(rate * x)
    }
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer sgd(momentum = 0.9)
    lr        0.1
    precision f64
}

layout {
    device     cpu
    microbatch 1
}
"""


# Models of which more goes through the stages than one stream of values: of which files, made how small.
ZOO = os.path.join(mgctest.SOURCE, "tests/parity/zoo")
OWN = os.path.join(mgctest.SOURCE, "tests/plan")
V3 = ("layers=5", "hidden=16", "heads=2", "still=4", "turn=4", "value=4", "latent=8", "narrow=8", "wide=16", "ffn=8", "experts=4",
      "groups=2", "seq=16", "batch=8")
SEVERAL = {
    "byol": (ZOO, ("layers=5",)),  # four towers, of which two follow the others; averages
    "dqn": (ZOO, ("layers=5",)),  # a network that follows another every second step
    "gan": (ZOO, ("layers=5",)),  # two losses, whose gradients come back through the same layers
    "together": (OWN, ("layers=5",)),  # all of these, and a table that both ends read
    "ends": (OWN, ("layers=5",)),  # values that each layer reads, and what is behind them
    "deepseek_v3": (os.path.join(mgctest.SOURCE, "models"), V3),  # a second loss of each layer; the table is read again behind them
}
BESIDE = ("", "batch -> dp\n", "batch -> dp\n state, grads, params -> dp\n")


def legal(kind, pp, m):
    """interleaved takes microbatches in groups of as many as there are ranks; what is left over keeps all busy."""
    return not kind.startswith("interleaved") or (m >= pp and (m % pp == 0 or m % pp >= pp))


@mgctest.in_turns_of(2)
class Pipelines(mgctest.Case):
    tensors = test_layouts.Layouts.tensors
    run_one = test_layouts.Layouts.run_one
    apart = test_layouts.Layouts.apart

    def make(self, name, mesh, rules, batch, *argv, path=test_layouts.LLAMA, layers=8, micro=1):
        self.write(f"{name}.mg", f"layout {name} {{\n    device cpu\n    mesh {mesh}\n{rules}    microbatch {micro}\n}}\n")
        self.compiles(path, "--layout", f"./{name}.mg", "-D", f"batch={batch}", "-D", f"layers={layers}", *argv, "-o", name)
        return "./" + name

    def runs(self, program, out, steps=3):
        losses = self.run_one(program, steps, out, "--save-every", steps)
        return losses, self.tensors(out, steps)

    def test_bits(self):
        """Every kind on 2 and 4 ranks: losses, norms, parameters and state are the bits of one rank."""
        self.text(6000)
        these = some(EVERY, 6)
        one = {}
        for kind, pp, m in these:
            name = f"of_{kind[:2]}_{pp}_{m}"
            with self.subTest(kind=kind, pp=pp, m=m):
                if not legal(kind, pp, m):
                    self.write("bad.mg", f"layout bad {{\n    device cpu\n    mesh pp = {pp}\n{PP(kind)}    microbatch 1\n}}\n")
                    r = self.mgc(test_layouts.LLAMA, "--layout", "./bad.mg", "-D", f"batch={m}", "-D", "layers=8", "--check")
                    self.assertIn(r.returncode, (1, 3))
                    self.assertIn(b"microbatches", r.stderr)
                    continue
                if m not in one:
                    one[m] = self.runs(self.make(f"one_{m}", "dp = 1", "", m), f"out_one_{m}")
                self.assertEqual(self.runs(self.make(name, f"pp = {pp}", PP(kind), m), f"out_{name}"), one[m])

    def test_bits_of_data_parallel(self):
        """With dp 2: ZeRO 1 to 3 and recomputing have the bits of plain data parallelism, under each schedule alike."""
        self.text(6000)
        kinds = some(KINDS)
        want = self.runs(self.make("plain", "dp = 2", DP, 16), "out_plain")
        for kind in kinds:
            for what, more in (("plain", ""), ("zero1", Z1), ("zero2", Z2), ("zero3", Z3)):
                for again in ("auto", "all") if what == "plain" else ("auto",):
                    with self.subTest(kind=kind, classes=what, recompute=again):
                        name = f"of_{kind[:2]}_{what}_{again}"
                        program = self.make(name, "pp = 2, dp = 2", DP + PP(kind) + more, 16, f"--recompute={again}")
                        losses, tensors = self.runs(program, f"out_{name}")
                        if what in ("plain", "zero1"):
                            self.assertEqual((losses, tensors), want)
                        else:  # reduced every microbatch: another order
                            off = self.apart(losses, want[0])
                            self.assertLess(off[0], 1e-5)
                            self.assertLess(off[1], 1e-4)

    def test_sums_of_one_stage(self):
        """A rank with two stages adds to the gradients of the one that a phase is of, and leaves the other's as they are."""
        self.text(6000)
        path = self.write("summed.mg", SUMMED)
        for layers in (2, 4, 7):
            want = self.runs(self.make(f"one{layers}", "dp = 1", "", 4, path=path, layers=layers), f"out_one{layers}")
            name = f"s{layers}"
            program = self.make(name, "pp = 2", PP("interleaved, chunks = 2"), 4, path=path, layers=layers)
            self.assertTrue(self.runs(program, f"out_{name}") == want, layers)

    def test_uneven(self):
        """Stages of different numbers of layers, and a table that both ends have."""
        self.text(6000)
        for layers, kind, pp in ((3, "1f1b", 2), (5, "zb-h1", 2), (7, "interleaved, chunks = 2", 2), (6, "gpipe", 4)):
            with self.subTest(layers=layers, kind=kind):
                want = self.runs(self.make(f"one{layers}", "dp = 1", "", 8, layers=layers), f"out_one{layers}")
                name = f"u{layers}"
                self.assertEqual(self.runs(self.make(name, f"pp = {pp}", PP(kind), 8, layers=layers), f"out_{name}"), want)

    def test_said(self):
        """Layers of stages that are said, none in some: the bits of one rank; and what one cut saved another goes on from."""
        self.text(6000)
        want = self.runs(self.make("one", "dp = 1", "", 8), "out_one")
        before = None
        for n, (kind, pp) in enumerate(some(SAID, 2)):
            with self.subTest(kind=kind, pp=pp):
                program = self.make(f"said{n}", f"pp = {pp}", PP(kind), 8)
                self.assertEqual(self.runs(program, f"out_said{n}"), want)
                self.run_one(before or "./one", 1, f"from{n}", "--save-every", 1)
                self.run_one(program, 3, f"from{n}", "--resume", "--save-every", 3)
                self.assertEqual(self.tensors(f"from{n}", 3), want[1])
                before = program

    def test_frozen(self):
        """What attention gives is kept as its gradient reads it, and no stage sends layers that it has not."""
        lora = os.path.join(mgctest.SOURCE, "tests/parity/zoo/lora.mg")
        for schedule, stages, layers in (("zb-h1", "[layers, 0]", 2), ("1f1b", "[0, layers]", 2), ("1f1b", "[1, layers - 1]", 3), ("gpipe", "[layers, 0]", 2)):
            self.write("uneven.mg", f"layout uneven {{\n    device cpu\n    mesh pp = 2, cp = 2\n    seq -> cp\n"
                       f"    layers -> pp (schedule = {schedule}, stages = {stages})\n    microbatch 1\n}}\n")
            self.compiles(lora, "--layout", "./uneven.mg", "-D", f"layers={layers}", "--check")

    def test_poison(self):
        """No stage reads what is dead, or what another rank has at that place."""
        self.text(6000)
        for kind in some(KINDS, 2):
            with self.subTest(kind=kind):
                program = self.make("p_" + kind[:2], "pp = 2, dp = 2", DP + PP(kind) + Z1, 16, layers=7)
                want = self.run_one(program, 3, "plain_" + kind[:2])
                self.assertEqual(self.run_one(program, 3, "poison_" + kind[:2], "--poison"), want)

    def test_beside(self):
        """Gradients that are reduced beside a table, as on processors of several machines, have the bits of those that are behind
        it; none is read when it is dead; and the one program goes on from the other's checkpoint. (A processor of one thread,
        so that the plan has something to compute beside them, whatever this one is.)"""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler", "devices", "cpus.json")) as f:
            self.write("one.json", json.dumps({**json.load(f), "name": "one", "threads": 1}))
        self.write("beside.mg", "layout beside {\n    mesh pp = 2, dp = 2\n" + DP + PP("interleaved, chunks = 2") + Z1 +
                   "    microbatch 1\n}\n")
        for name, overlap in (("beside", "auto"), ("alone", "none")):
            options = (test_layouts.LLAMA, "--layout", "./beside.mg", "--device", "./one.json", "-D", "batch=8", "-D", "layers=4",
                       "-D", "seq=128", "--precision", "f64", f"--overlap={overlap}")
            self.compiles(*options, "--emit=c", "-o", f"{name}.c")
            self.assertEqual(b"case MG_PIPE_REDUCE" in self.read(f"{name}.c"), overlap == "auto")
            self.compiles(*options, "-o", name)
        want = self.runs("./alone", "out_alone", 4)
        self.assertEqual(self.runs("./beside", "out_beside", 4), want)
        self.assertEqual(self.run_one("./beside", 4, "poisoned", "--poison"), want[0])
        self.run_one("./beside", 2, "both", "--save-every", 2)
        self.run_one("./alone", 4, "both", "--save-every", 4, "--resume")
        self.assertEqual(self.tensors("both", 4), want[1])

    def test_a_table(self):
        """A schedule from a file: that of 1f1b, with one B taken apart, and a pair that overlaps, whose actions a program
        computes one after the other."""
        self.text(6000)
        r = self.mgc("pipeline", "1f1b", "--ranks=2", "--microbatches=4", "-o", "table.csv")
        self.assertEqual(r.returncode, 0, r.stderr)
        table = self.read("table.csv").decode().replace("1B2", "1I2,1W2")
        table = table.replace("0F2,0B1", "(0F2;0B1)OVERLAP_F_B")
        self.assertIn("1I2", table)
        self.assertIn("OVERLAP", table)
        self.write("mine.csv", table)
        want = self.runs(self.make("one", "dp = 1", "", 4), "out_one")
        got = self.runs(self.make("t", "pp = 2", PP('"mine.csv"'), 4), "out_t")
        self.assertEqual(got, want)
        self.write("wrong.csv", table.replace("0F1", "0F3", 1).replace("0F3", "0F1", 2))
        self.write("w.mg", "layout w {\n    device cpu\n    mesh pp = 2\n" + PP('"wrong.csv"') + "    microbatch 1\n}\n")
        r = self.mgc(test_layouts.LLAMA, "--layout", "./w.mg", "-D", "batch=8", "-D", "layers=8", "--check")
        self.assertEqual(r.returncode, 3)
        self.assertIn(b"microbatches", r.stderr)

    def several(self, model, name, mesh, rules, micro, steps, *argv):
        """A program in f64 under a layout, run: what it says of each step and evaluation, and the tensors at the end."""
        folder, sizes = SEVERAL[model]
        path, out = os.path.join(folder, model + ".mg"), argv[-1] if argv else "out_" + name
        if not argv:
            self.write(f"{name}.mg", f"layout {name} {{\n device cpu\n mesh {mesh}\n {rules} microbatch {micro}\n}}\n")
            self.compiles(path, "--layout", f"./{name}.mg", "--precision=f64", *(a for d in sizes for a in ("-D", d)), "-o", name)
        data = os.path.join(ZOO, f"golden/{model}.safetensors") if folder == ZOO else "text1.txt"
        self.trains("./" + name, "--data", data, "--val", data, "--eval-every", 2, "--eval-batches", 2, "--steps", steps, "--save-every",
                    2, "--keep", 0, "--threads", 1, *(argv or ("--out", out)))
        rows = [{k: v for k, v in m.items() if k.endswith(("loss", "norm"))} for m in self.metrics(out)]
        self.assertTrue(any("val_loss" in m for m in rows))
        return rows, self.tensors(out, steps)

    def near(self, want, got):
        """Losses, norms and tensors within 1e-9, of a tensor's largest element."""
        self.assertEqual([list(m) for m in want[0]], [list(m) for m in got[0]])
        for a, b in zip(want[0], got[0], strict=True):
            for k, x in a.items():
                self.assertLessEqual(abs(x - b[k]), 1e-9 * abs(x), k)
        self.assertEqual(want[1].keys(), got[1].keys())
        for name, (shape, data) in want[1].items():
            a, b = array.array("d", data), array.array("d", got[1][name][1])
            self.assertEqual((shape, len(a)), (got[1][name][0], len(b)))
            self.assertLessEqual(max(abs(x - y) for x, y in zip(a, b, strict=True)), 1e-9 * max(map(abs, a)), name)

    def test_several(self):
        """Several losses, parameters that follow others, towers beside each other and what all stages read: one rank's losses,
        norms, evaluations and parameters; and a run that goes on from its checkpoint, or from one rank's, goes on as they do."""
        self.text(6000)
        every = [(model, kind) for model in SEVERAL for kind in KINDS]
        for n, (model, kind) in enumerate(some(every, 2)):
            rules = BESIDE[(n + mgctest.TURN) % 3]
            dp = 2 if rules else 1
            with self.subTest(model=model, kind=kind, rules=rules):
                one, name = f"one_{model}", f"{model}_{n}"
                want = self.several(model, one, "dp = 1", "", 2, 4)
                pp = f"pp = 2, dp = {dp}"
                self.near(want, self.several(model, name, pp, rules + f"layers -> pp (schedule = {kind})\n", 2 // dp, 4))
                whole = self.tensors("out_" + name, 4)
                self.several(model, name, "", "", 0, 2, "--out", "parts_" + name)
                self.several(model, name, "", "", 0, 4, "--resume", "--out", "parts_" + name)
                self.assertEqual(self.tensors("parts_" + name, 4), whole)
                self.several(model, one, "", "", 0, 2, "--out", "other_" + name)
                self.near(want, self.several(model, name, "", "", 0, 4, "--resume", "--out", "other_" + name))

    def gradients_near(self, want, got, what):
        """Of the first step, by the first moments: within 1e-5 of a tensor's own norm and 1e-7 of that of all."""
        want, norm = test_layouts.Layouts.gradients(self, {}, want, "f32")
        got, _ = test_layouts.Layouts.gradients(self, {}, got, "f32")
        self.assertEqual(want.keys(), got.keys())
        for tensor, g in want.items():
            off = sum((a - b) ** 2 for a, b in zip(g, got[tensor], strict=True)) ** 0.5
            self.assertLessEqual(off, 1e-5 * sum(x * x for x in g) ** 0.5 + 1e-7 * norm, f"{what}: {tensor}")

    def test_combined(self):
        """Losses of 100 steps (10 in the sample) and gradients are one rank's to 1e-5; with dp 2 and ZeRO 1 they have the
        bits of dp 2 alone."""
        self.text(6000)
        steps = 100 if FULL else 10
        more = {"dp2": ("dp = 2", DP), "tp2": ("tp = 2", TP.format(heads="kv_heads")), "zero1": ("dp = 2", DP + Z1)}
        every = [(kind, pp, m, w) for kind, pp, m in EVERY for w in more if legal(kind, pp, m)]
        one = {}
        for kind, pp, m, what in some(every, 3):
            name = f"c_{kind[:2]}_{pp}_{m}_{what}"
            mesh, rules = more[what]
            batch = m * (1 if what == "tp2" else 2)
            with self.subTest(kind=kind, pp=pp, m=m, with_=what):
                if batch not in one:
                    program = self.make(f"one_{batch}", "dp = 1", "", batch)
                    one[batch] = self.run_one(program, steps, f"long_{batch}", *RATE), self.runs(program, f"short_{batch}", 1)[1]
                if what != "tp2" and (batch, "dp") not in one:
                    program = self.make(f"dp_{batch}", "dp = 2", DP, batch)
                    one[batch, "dp"] = self.run_one(program, steps, f"long_dp_{batch}", *RATE)
                program = self.make(name, f"pp = {pp}, {mesh}", PP(kind) + rules, batch)
                got = self.run_one(program, steps, f"long_{name}", *RATE)
                self.assertLess(self.apart(one[batch][0], got)[0], 1e-5)
                if what != "tp2":
                    self.assertEqual(got, one[batch, "dp"])
                self.gradients_near(one[batch][1], self.runs(program, f"short_{name}", 1)[1], name)


if __name__ == "__main__":
    del layouts
    unittest.main(verbosity=2)
