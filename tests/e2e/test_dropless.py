"""Experts in sorted rows (dispatch to one dim, grouped products) against the same experts with as many slots as positions, which
drops nothing either: losses and parameters; threads, microbatches, what is computed again, a run that goes on, several ranks."""

import os
import re
import shutil
import struct

import mgctest

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
MIXTRAL = os.path.join(PARITY, "mixtral_small.mg")
def tensors(data):
    """The numbers of a safetensors file of f32 or f64."""
    n, = struct.unpack_from("<Q", data)
    size = 8 if b'"F64"' in data[:8 + n] else 4
    return struct.unpack(f"<{(len(data) - 8 - n) // size}{'d' if size == 8 else 'f'}", data[8 + n:])


class Dropless(mgctest.Case):
    def setUp(self):
        super().setUp()
        with open(MIXTRAL, encoding="utf-8") as f:
            self.slots = f.read().replace("slot = 12", "slot = seq")
        self.text(6000)

    def trained(self, name, *options, steps=4, **more):
        """Losses and the bytes of the parameters."""
        r = self.run_program(f"./{name}", "--data", "text1.txt", "--steps", steps, "--out", f"run-{name}", *options, **more)
        self.assertEqual(r.returncode, 0, r.stderr[-2000:])
        losses = [m["loss"] for m in self.metrics(f"run-{name}") if "loss" in m]
        return losses, self.read(f"run-{name}/ckpt/step-{steps:08}/model.safetensors")

    def near(self, a, b, bound):
        for x, y in zip(a[0], b[0], strict=True):
            self.assertLess(abs(x - y), bound * abs(x))
        p, q = tensors(a[1]), tensors(b[1])
        size = max(map(abs, p))
        self.assertLess(max(abs(x - y) for x, y in zip(p, q, strict=True)), bound * size)
        self.assertEqual(len(p), len(q))

    def test_slots(self):
        """Losses and, in sgd's parameters, gradients are those with as many slots as positions: within 1e-12."""
        plain = re.sub(r"(?s)optimizer .*?\n", "optimizer sgd(momentum = 0.9)\n", self.slots, count=1).replace("precision f32", "precision f64")
        self.write("slots.mg", plain)
        self.write("rows.mg", mgctest.dropless(plain))
        self.compiles("slots.mg", "-o", "slots")
        self.compiles("rows.mg", "-o", "rows")
        self.near(self.trained("slots"), self.trained("rows"), 1e-12)
        for microbatch, recompute in ((1, "all"), (2, "none")):
            self.compiles("rows.mg", "--microbatch", microbatch, "--recompute", recompute, "-o", "other")
            self.near(self.trained("slots"), self.trained("other"), 1e-12)

    def test_bits(self):
        """Any number of threads, and a run that was interrupted, has the same bits; in halves as well."""
        for precision in ("f32", "bf16"):
            self.write("rows.mg", mgctest.dropless(self.slots, precision))
            self.compiles("rows.mg", "-o", "rows", "--recompute", "none")
            one = self.trained("rows", "--threads", "1")
            self.assertEqual(self.trained("rows", "--threads", "3"), one)
            self.compiles("rows.mg", "-o", "again", "--recompute", "all")
            self.assertEqual(self.trained("again"), one)
            self.trained("rows", "--save-every", 2)
            shutil.rmtree(self.path("run-rows/ckpt/step-00000004"))
            self.trains("./rows", "--resume", "--out", "run-rows", "--data", "text1.txt", "--steps", 4)
            self.assertEqual(self.read("run-rows/ckpt/step-00000004/model.safetensors"), one[1])

    def test_ranks(self):
        """Split along data, experts (whose matrices are gathered), what is summed, positions and layers."""
        self.write("rows.mg", mgctest.dropless(self.slots))
        self.compiles("rows.mg", "-o", "rows")
        one = self.trained("rows")
        for layout in mgctest.some((("dp=2",), ("ep=2",), ("tp=2",), ("cp=2",), ("pp=2",), ("dp=2", "tp=2"), ("ep=2", "tp=2")), 3):
            with self.subTest(layout=layout):
                self.compiles("rows.mg", *(a for d in layout for a in ("-D", d)), "-D", "batch=4", "--microbatch", 1, "-o", "ranks")
                self.near(one, self.trained("ranks"), 1e-10)


if __name__ == "__main__":
    mgctest.unittest.main()
