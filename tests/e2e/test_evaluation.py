"""val_loss, as each metric, is a function of the model and the rows: whatever is computed at once, over whatever ranks, and although the
last batch is not filled. The sample of layouts turns with the commit; MGC_FULL=1 takes all."""

import os
import random
import struct

import layouts
import mgctest
from layouts import EXPERTS, LAYOUTS
from mgctest import FULL, some
from test_inputs import safetensors

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
# Rows of their own weights: by name, and divided by what only the whole set knows.
RATIO = """dim batch = 8, wide = 6, hidden = 8
model ratio(x[batch, wide], w[batch, wide]) {
    u : param[wide, hidden] ~ normal(0.5) as "u"
    v : param[hidden, wide] ~ normal(0.5) as "v"
    e = tanh(x @ u over wide) @ v over hidden - x
    loss = LOSS
}
train {
    optimizer sgd(momentum = 0.9)
    lr        constant(peak = 1e-2, steps = 4)
    precision f64
}
"""
BY_PARTS = ("sum(w * e * e) / sum(w)", "sum((w / sum(w)) * (e * e))", "mean(e * e) + sum(u * u) / batch",
            "sum(w * e * e) / max(sum(w), 1) - 0.5 * mean(e)")
METRICS = """
    metric ratio_too = sum(w * e * e) / sum(w)
    metric error = sqrt(mean(e * e))
    metric near = mean(select(e < 0.5, select(e > -0.5, 1, 0), 0))
    metric both = error + near
    metric worst = max(sum(e * e, over wide), over batch)"""
OF_WHOLE_BATCHES = "mean(select(w > mean(w), e * e, 0))"
CLIP = """dim batch = 4, other = batch, wide = 6, hidden = 5
model clip(x[batch, wide], w[batch, wide]) {
    u : param[wide, hidden] ~ normal(0.5) as "u"
    v : param[wide, hidden] ~ normal(0.5) as "v"
    p = x @ u over wide
    q = w @ v over wide
    z = p @ (q[batch -> other]) over hidden
    own = sum(p * q, over hidden)
    loss = mean(log(sum(exp(z), over other)) - own)
    metric first = mean(select(own >= max(z, over other), 1, 0))
}
train {
    optimizer sgd()
    lr        constant(peak = 1e-2, steps = 1)
    precision f64
}
"""


def rows(n, seed, first=0):
    r = random.Random(seed)
    data = [[r.gauss(0, 1) for _ in range(6)] + [r.random() for _ in range(6)] for _ in range(first + n)][first:]
    return safetensors({"x": ("F64", [n, 6], b"".join(struct.pack("<6d", *d[:6]) for d in data)),
                        "w": ("F64", [n, 6], b"".join(struct.pack("<6d", *d[6:]) for d in data))})


class Evaluation(mgctest.Case):
    def val(self, program, data, val, *argv, steps=2):
        out = f"run{len(os.listdir(self.dir))}"
        self.trains("./" + program, "--data", data, "--val", val, "--steps", steps, "--eval-every", 1, "--out", out,
                    "--threads", 1, *argv, timeout=300)
        return [l[k] for l in self.metrics(out) for k in sorted(l) if k.startswith("val_")]

    def same(self, want, got, bound=1e-12):
        for a, b in zip(want, got, strict=True):
            self.assertLessEqual(abs(a - b), bound * max(1, abs(a)), (want, got))

    def ratio(self, loss, name, layout, *argv):
        self.write("m.mg", RATIO.replace("LOSS", loss) + f"layout {{\n    device cpu\n{layout}}}\n")
        return self.compiles("m.mg", "-o", name, *argv)

    def test_named_inputs(self):
        self.write("d", rows(16, 1))
        for k, loss in enumerate(BY_PARTS):
            for n in some((1, 13, 16, 27)):
                self.write("v", rows(n, 2))
                want = None
                for size in (1, 2, 4, 8):
                    for mesh in some(("", "    mesh dp = 2\n    batch -> dp\n", "    mesh tp = 2\n    hidden -> tp\n",
                                      "    mesh tp = 2\n    wide -> tp\n")):
                        if size == 8 and "batch" in mesh:
                            continue
                        with self.subTest(loss=loss, rows=n, microbatch=size, mesh=mesh):
                            r = self.ratio(loss + METRICS, f"p{k}", f"{mesh}    microbatch {size}\n")
                            self.assertNotIn("MG0530", r.err)
                            got = self.val(f"p{k}", "d", "v")
                            self.assertEqual(len(got), 2 * 6)
                            want = want or got
                            self.same(want, got)

    def test_training_is_the_same(self):
        """With metrics and without: losses, norms and checkpoints to the bit."""
        self.write("d", rows(16, 1))
        said = []
        for name, metrics in (("with", METRICS), ("without", "")):
            self.ratio(BY_PARTS[0] + metrics, name, "    microbatch 2\n")
            self.trains("./" + name, "--data", "d", "--val", "d", "--out", name + "-run", "--threads", 1)
            said.append([(l["loss"], l["grad_norm"]) for l in self.metrics(name + "-run") if "loss" in l])
            said[-1] += [self.read(f"{name}-run/ckpt/step-00000004/{f}.safetensors") for f in ("model", "optimizer")]
        self.assertEqual(*said)

    def test_rows_by_hand(self):
        """The whole set at once, as a batch of training, is what a set of that size evaluates to."""
        self.write("v", rows(16, 2))
        for loss in BY_PARTS:
            self.ratio(loss, "parts", "    microbatch 4\n")
            self.ratio(loss, "whole", "    microbatch 16\n", "-D", "batch=16")
            self.trains("./whole", "--data", "v", "--steps", 1, "--out", "w", "--threads", 1, "--lr", 0)
            self.same([self.metrics("w")[0]["loss"]], self.val("parts", "v", "v", "--lr", 0, steps=1))

    def test_whole_batches(self):
        """Rows that depend on each other: the mean over whole batches, in microbatches or not; what is left over is not seen."""
        self.write("d", rows(16, 1))
        self.write("v", rows(27, 2))
        self.write("three", rows(24, 2))
        self.write("few", rows(7, 2))
        want = None
        for mesh, size in (("", 8), ("", 2), ("    mesh dp = 2\n    batch -> dp\n", 4), ("    mesh dp = 2\n    batch -> dp\n", 1)):
            with self.subTest(mesh=mesh, microbatch=size):
                r = self.ratio(OF_WHOLE_BATCHES, "p", f"{mesh}    microbatch {size}\n")
                self.assertIn("MG0530", r.err)
                got = self.val("p", "d", "v")
                want = want or got
                self.same(want, got)
                self.same(want, self.val("p", "d", "three"))
        r = self.trains("./p", "--data", "d", "--val", "few", "--steps", 1, "--out", "few-out", code=65)
        self.assertIn("7 rows", r.err)
        self.assertIn("whole batches of 8", r.err)

    def test_contrast(self):
        self.write("clip.mg", CLIP)
        self.assertIn("MG0530", self.compiles("clip.mg", "-o", "clip").err)
        self.write("d", rows(4, 1))
        parts = []
        for k in range(3):
            self.write(f"v{k}", rows(4, 2, first=4 * k))
            parts.append(self.val("clip", "d", f"v{k}", steps=1))
        self.write("v", rows(15, 2))
        got = self.val("clip", "d", "v", steps=1)
        self.same([sum(part) / 3 for part in zip(*parts)], got)
        self.assertEqual(len(got), 2)
        self.assertNotEqual(*got)

    def test_batches_are_those_of_training(self):
        self.write("d", rows(16, 1))
        self.write("v", rows(27, 2))
        self.write("first", rows(16, 2))
        self.ratio(BY_PARTS[0], "p", "    microbatch 2\n")
        self.same(self.val("p", "d", "first"), self.val("p", "d", "v", "--eval-batches", 2))

    def weighed(self):
        """m.mg, a language model with weighed targets and metrics; text and weights for it."""
        with open(os.path.join(PARITY, "mixtral_small.mg"), encoding="utf-8") as f:
            text = f.read()
        self.assertIn("next(tokens))", text)
        head = '(norm(x) as "model.norm") @ unembed over hidden'
        self.assertIn(f"    loss = cross_entropy({head}, next(tokens))", text)
        self.write("m.mg", text.replace(": token(vocab))", ": token(vocab), weight[batch, seq])", 1)
                   .replace(f"    loss = cross_entropy({head}, next(tokens))", f"""    logits = {head}
    right = in_top(logits, next(tokens), best = 5)
    metric accuracy = mean(in_top(logits, next(tokens)))
    metric weighed = sum(weight * right) / sum(weight)
    loss = cross_entropy(logits, next(tokens), weight)"""))
        self.text(6000, 1)
        self.text(3500, 2)
        r = random.Random(5)
        for k, n in ((1, 6000), (2, 3500)):
            self.write(f"text{k}.txt.weights", bytes(r.randrange(3) for _ in range(n)))

    def test_layouts(self):
        """Weighed targets under layouts of real ranks, of windows that do not fill the last batch."""
        self.weighed()
        results = {}
        for name in ["one"] + some(LAYOUTS, 4 if not FULL else 1) + some(EXPERTS, 1):
            with self.subTest(layout=name):
                self.write("l.mg", layouts.text(name))
                self.compiles("m.mg", "--layout", "./l.mg", "-D", "batch=8", "--precision", "f64", "-o", "p")
                results[name] = self.val("p", "text1.txt", "text2.txt")
                self.assertEqual(len(results[name]), 2 * 3)
                self.same(results["one"], results[name], 1e-9)

    def test_padding(self):
        """Padded classes are no scores: among the largest of any number, too."""
        self.weighed()
        want = None
        for padded in ("none", "vocab to 288"):
            for rule in some(("", "    mesh tp = 2\n    vocab -> tp\n")):
                with self.subTest(pad=padded, rule=rule):
                    self.write("l.mg", f"layout {{\n    device cpu\n{rule}    pad {padded}\n}}\n")
                    self.compiles("m.mg", "--layout", "./l.mg", "-D", "batch=8", "--precision", "f64", "-o", "p")
                    got = self.val("p", "text1.txt", "text2.txt", steps=1)
                    want = want or got
                    self.same(want, got, 1e-9)


if __name__ == "__main__":
    mgctest.main()
