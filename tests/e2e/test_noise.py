"""Noise of a model: in training and in evaluation the same numbers whatever is computed at once, over whatever ranks, in a run that is
resumed, and on a GPU (through the shim)."""

import os
import unittest

import mgctest
import shim
from mgctest import some
from test_evaluation import rows

MODEL = """dim batch = 8, wide = 6, hidden = 8, layers = 4
model noisy(x[batch, wide], w[batch, wide]) {
    u : param[wide, hidden] ~ normal(0.5) as "u"
    v : param[hidden, wide] ~ normal(0.5) as "v"
    share = uniform(over batch)
    h = (x + normal(over (wide, batch))) @ u over wide
    repeat layers as "{}" {
        a : param[hidden, to_] ~ normal(0.5) as "a"
        h = h + tanh(h @ a over hidden)[to_ -> hidden] * (1 + 0.1 * normal(over hidden)) + uniform(over (hidden, batch))
    }
    e = h @ v over hidden - w * share
    loss = LOSS
    metric far = mean(select(abs(e) > uniform(over (batch, wide)), 1, 0))
}
dim to_ = hidden
train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2, steps = 4)
    precision f64
}
layout {
    device cpu
"""
EACH = "mean(e * e) * min(1, (step() + 1) / 3)"
MIXED = "mean(select(e > mean(e), e * e, 0))"  # rows depend on each other: whole batches
LAYOUTS = ("", "    mesh dp = 2\n    batch -> dp\n", "    mesh tp = 2\n    hidden -> tp\n    wide -> tp\n",
           "    mesh pp = 2, dp = 2\n    batch -> dp\n    layers -> pp (schedule = 1f1b)\n")


class Noise(mgctest.Case):
    def said(self, program, *argv, steps=3, val="v"):
        out = f"run{len(os.listdir(self.dir))}"
        self.trains("./" + program, "--data", "d", "--val", val, "--steps", steps, "--eval-every", 1, "--out", out, "--threads", 1,
                    "--save-every", 1, "--keep", 0, *argv, timeout=300)
        lines = self.metrics(out)
        return out, [(m["loss"], m["grad_norm"]) for m in lines if "loss" in m], [(m["val_loss"], m["val_far"]) for m in lines if "val_loss" in m]

    def program(self, name, loss=EACH, layout="    microbatch 4\n", *argv):
        self.write("m.mg", MODEL.replace("LOSS", loss) + layout + "}\n")
        return self.compiles("m.mg", "-o", name, *argv)

    def near(self, a, b):
        for x, y in zip(sum(a[1:], []), sum(b[1:], []), strict=True):
            for p, q in zip(x, y, strict=True):
                self.assertLessEqual(abs(p - q), 1e-11 * max(1, abs(p)), (a, b))

    def test_layouts(self):
        """Losses, norms and evaluations do not depend on microbatches and ranks, nor on how many rows are left for the last batch."""
        self.write("d", rows(16, 1))
        self.write("v", rows(13, 2))
        for loss in some((EACH, EACH, MIXED)):
            want = None
            for size in (1, 2, 4, 8):
                for mesh in some(LAYOUTS, 2):
                    if (size == 8 and "batch" in mesh) or (loss is MIXED and size * (1 + ("batch" in mesh)) < 8):
                        continue
                    with self.subTest(loss=loss, microbatch=size, mesh=mesh):
                        if loss is MIXED and "pp" in mesh:  # a pipeline takes even a whole batch as a microbatch
                            self.write("m.mg", MODEL.replace("LOSS", loss) + f"{mesh}    microbatch {size}\n}}\n")
                            self.assertIn("error[MG0522]", self.mgc("m.mg", "-o", "p").err)
                            continue
                        r = self.program("p", loss, f"{mesh}    microbatch {size}\n")
                        self.assertEqual("MG0530" in r.err, loss is MIXED)
                        got = self.said("p")
                        want = want or got
                        self.near(want, got)

    def test_within(self):
        """Rows have their own numbers, too, where neighbours of the batch are on the outer axis of the mesh."""
        self.write("d", rows(16, 1))
        self.write("v", rows(13, 2))
        self.program("one", EACH, "    microbatch 2\n")
        want = self.said("one")
        for size in (1, 2):
            self.program("p", EACH, f"    mesh out = 2, dp = 2\n    batch -> dp, out\n    microbatch {size}\n")
            self.near(want, self.said("p"))

    def test_what_it_depends_on(self):
        """Steps, rows and seeds have numbers of their own; evaluations of one model are the same, and whole batches differ."""
        self.write("d", rows(8, 1))
        self.program("p", "mean(e * e)")
        self.write("v", rows(8, 2))
        _, losses, vals = self.said("p", "--lr", 0)
        self.assertEqual(len(set(losses)), 3)
        self.assertEqual(len(set(vals)), 1)
        self.assertNotEqual(self.said("p", "--lr", 0, "--seed", 1)[2][0], vals[0])
        self.program("q", MIXED, "    microbatch 8\n")
        _, _, once = self.said("q", "--lr", 0)
        one = self.read("v")
        size = 8 * 6 * 8  # bytes of x, and of w, at the end; the same rows once more behind them
        header = one[8:-2 * size].decode().replace("[8, 6]", "[16, 6]")
        header = header.replace(str(2 * size), str(4 * size)).replace(str(size), str(2 * size))
        x, w = one[-2 * size:-size], one[-size:]
        self.write("vv", len(header).to_bytes(8, "little") + header.encode() + 2 * x + 2 * w)
        _, _, again = self.said("q", "--lr", 0, val="vv")
        self.assertNotEqual(once[0], again[0])

    def test_resumed(self):
        """A run in two parts ends with the bytes of a run in one."""
        self.write("d", rows(16, 1))
        self.write("v", rows(5, 2))
        self.program("p")
        whole, losses, vals = self.said("p", steps=4)
        part, first, _ = self.said("p", steps=2)
        self.trains("./p", "--resume", "--data", "d", "--val", "v", "--steps", 4, "--eval-every", 1, "--out", part, "--threads", 1)
        lines = self.metrics(part)
        self.assertEqual([(m["loss"], m["grad_norm"]) for m in lines if "loss" in m], losses)
        for f in ("model", "optimizer"):
            self.assertEqual(*(self.read(f"{r}/ckpt/step-00000004/{f}.safetensors") for r in (whole, part)))


class Gpu(shim.Case):
    def test_shim(self):
        self.write("d", rows(16, 1))
        self.write("v", rows(13, 2))
        self.write("m.mg", MODEL.replace("LOSS", EACH) + "}\n")
        self.both("m.mg", "--microbatch", 4)
        got = []
        for name in ("cpu", "gpu"):
            self.trains(f"./{name}", "--data", "d", "--val", "v", "--steps", 3, "--eval-every", 1, "--out", f"run-{name}", timeout=300)
            got.append([m[k] for m in self.metrics(f"run-{name}") for k in ("loss", "val_loss", "val_far") if k in m])
        self.assertEqual(len(got[0]), 9)
        for a, b in zip(*got, strict=True):
            self.assertLessEqual(abs(a - b), 1e-11 * max(1, abs(a)), got)


if __name__ == "__main__":
    unittest.main()
