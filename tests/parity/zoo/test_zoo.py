"""Models of many kinds against PyTorch: the losses, norms and gradients of a program of one rank are those of the golden
files. CI takes some of the models, which turn with the commit; MGC_FULL=1 takes all."""

import unittest

from zoo import MODELS, Golden, mgctest


class Zoo(mgctest.Case):
    def test_one_rank(self):
        for name in mgctest.some(MODELS, 5):
            with self.subTest(model=name):
                golden = Golden(name)
                data = golden.prepare(self)
                self.compiles(golden.source, "-o", name)
                self.assertEqual(golden.run(self, name, f"run-{name}", data), [])

    def test_kernels_in_c(self):
        """The same of programs whose kernels are C (--with-kernels): no LLVM, and the C library's functions."""
        for name in mgctest.some(MODELS, 4, turn=mgctest.TURN + 2):
            with self.subTest(model=name):
                golden = Golden(name)
                data = golden.prepare(self)
                self.compiles_in_c(name, golden.source)
                self.assertEqual(golden.run(self, name, f"run-{name}", data), [])

    def test_evaluation(self):
        """val_loss of the batch is its loss, for every microbatch; rows of CLIP and batch norm depend on each other."""
        mixing = ["batch_norm", "clip"]
        drawing = ["diffusion_noise", "dit", "masked", "vae_noise"]
        for name in mgctest.some(sorted(set(MODELS) - set(mixing + drawing)), 2) + mgctest.some(mixing) + mgctest.some(drawing):
            golden = Golden(name)
            data = golden.prepare(self)
            for size in (1, 2, 4, 8):
                with self.subTest(model=name, microbatch=size):
                    r = self.mgc(golden.source, "-o", name, "--microbatch", size)
                    if r.returncode:  # the rows of a step are computed at once, or it divides no batch
                        self.assertRegex(r.err, r"error\[MG0(216|303|522)\]")
                        continue
                    self.assertEqual("MG0530" in r.err, name in mixing)
                    out = f"eval-{name}-{size}"
                    self.trains(f"./{name}", *data, "--val", data[-1], "--lr", 0, "--steps", 1, "--threads", 1, "--out", out)
                    (val,) = [m["val_loss"] for m in self.metrics(out) if "val_loss" in m]
                    self.assertLessEqual(abs(val - golden.val_loss), 1e-9 * abs(golden.val_loss))

    def test_metrics(self):
        """Those of the batch are PyTorch's, whatever is computed at once: accuracies, and means over what a mask leaves."""
        names = [name for name in MODELS if Golden(name).metrics]
        self.assertEqual(names, ["grpo", "mixer"])
        for name in names:
            golden = Golden(name)
            data = golden.prepare(self)
            for size in mgctest.some((1, 2, 4)):
                with self.subTest(model=name, microbatch=size):
                    self.compiles(golden.source, "-o", name, "--microbatch", size)
                    out = f"metrics-{name}-{size}"
                    self.trains(f"./{name}", *data, "--val", data[-1], "--lr", 0, "--steps", 1, "--threads", 1, "--out", out)
                    (row,) = [m for m in self.metrics(out) if "val_loss" in m]
                    self.assertEqual({k[4:] for k in row if k.startswith("val_")}, {"loss"} | set(golden.metrics))
                    for metric, want in golden.metrics.items():
                        self.assertLessEqual(abs(row["val_" + metric] - want), 1e-12 * want, metric)

    def test_losses_go_on(self):
        """Of several losses: three steps of two ranks with parameters in parts, then one rank resumes; or one rank throughout."""
        golden = Golden("gan")
        data = golden.prepare(self)
        self.write("two.mg", "layout two {\n device cpu x 2\n mesh dp = 2\n batch -> dp\n state, grads, params -> dp\n"
                   " microbatch 2\n recompute all\n}\n")
        self.compiles(golden.source, "-o", "one")
        self.compiles(golden.source, "--layout", "./two.mg", "-o", "two")
        every = ["--save-every", 3, "--keep", 0, "--threads", 1]
        self.trains("./one", *data, "--steps", 6, *every, "--out", "whole")
        self.trains("./two", *data, "--steps", 3, *every, "--out", "parts")
        self.trains("./one", "--resume", *data[2:], "--steps", 6, *every, "--out", "parts")
        rows = [[m for m in self.metrics(out) if "lr" in m] for out in ("whole", "parts")]
        self.assertEqual([len(r) for r in rows], [6, 6])
        for a, b in zip(*rows, strict=True):
            for key in ("loss", "critic_loss", "grad_norm", "critic_loss_grad_norm", "lr", "critic_loss_lr"):
                self.assertLessEqual(abs(a[key] - b[key]), 1e-9 * abs(a[key]), (a["step"], key))

    def test_another_model_differs(self):
        """A norm's eps in the seventh digit is seen in losses, norms and gradients."""
        golden = Golden("falcon")
        with open(golden.source, encoding="utf-8") as f:
            self.write("other.mg", f.read().replace("eps = 1e-5", "eps = 1.1e-5"))
        self.compiles("other.mg", "-o", "other")
        found = " ".join(golden.run(self, "other", "run", golden.prepare(self)))
        for word in ("loss", "norm", "gradient of embed.weight"):
            self.assertIn(word, found)

    def test_form(self):
        """They are written in the one form, in at most 60 lines each."""
        for name in MODELS:
            with open(Golden(name).source, encoding="utf-8") as f:
                self.assertLessEqual(len(f.readlines()), 60, name)
            self.assertEqual(self.mgc("fmt", "--check", Golden(name).source).returncode, 0, name)


if __name__ == "__main__":
    unittest.main()
