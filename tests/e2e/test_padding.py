"""Sizes that the ranks do not divide: dims of the model and parameters of a class are stored larger, and nothing shows it. Losses,
norms and checkpoints are those of one rank, from one layout to the next, on processors and on GPUs; what is cheap is padded without
being asked, what is not is proposed with its price. MGC_FULL=1 takes all layouts."""

import json
import os

import mgctest
import shim
from mgctest import TURN, some

LLAMA = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
SIZES = [x for s in ("kv_heads=5", "group=1", "ffn=94", "hidden=40", "batch=12") for x in ("-D", s)]
LAYOUTS = {
    "tp2": ("mesh tp = 2", "kv_heads, ffn, vocab -> tp"),
    "tp3": ("mesh dp = 2, tp = 3", "batch -> dp", "kv_heads, ffn, vocab -> tp"),
    "zero1": ("mesh dp = 3", "batch -> dp", "state -> dp"),
    "zero2": ("mesh dp = 6", "batch -> dp", "state, grads -> dp"),
    "zero3": ("mesh dp = 3", "batch -> dp", "state, grads, params -> dp"),
    "both": ("mesh dp = 3, tp = 2", "batch -> dp", "kv_heads, ffn, vocab -> tp", "state, grads, params -> dp"),
    "stages": ("mesh pp = 2, dp = 3", "batch -> dp", "layers -> pp", "state, grads -> dp"),
}
SOME = {k: LAYOUTS[k] for k in some(sorted(LAYOUTS), 3)}
GPUS = {"SHIM_GPUS": "8"}


def text(lines, device):
    return "\n    ".join(["layout it {", f"device {device}", "microbatch 2", *lines]) + "\n}\n"


class Padding(shim.Case):
    def run_one(self, program, out, steps, *argv):
        self.trains("./" + program, "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, *argv,
                    env={**GPUS, "SHIM_SEED": str(TURN)}, timeout=600)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]

    def near(self, want, got, bound, what):
        self.assertEqual(len(want), len(got), what)
        for (a, n), (b, k) in zip(want, got, strict=True):
            self.assertLess(abs(a - b), bound * abs(a), what)
            self.assertLess(abs(n - k), 50 * bound * abs(n), what)

    def change(self, old, new):
        """m.mg is the model with other settings."""
        with open(LLAMA, encoding="utf-8") as f:
            source = f.read()
        self.assertIn(old, source)
        self.write("m.mg", source.replace(old, new))

    def bytes_of(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def test_ranks(self):
        """In f64 the losses of one rank to 1e-9, each layout from the checkpoint of the one before."""
        self.text(6000)
        self.change("cosine(peak = 3e-3, warmup = 5, steps = 20, floor = 3e-4)", "constant(3e-3)")  # whatever --steps
        self.compiles("m.mg", *SIZES, "--precision", "f64", "-o", "one")
        want = self.run_one("one", "run-one", 2 * len(SOME))
        for k, name in enumerate(sorted(SOME)):
            self.write("it.mg", text(SOME[name], "cpu"))
            self.compiles("m.mg", *SIZES, "--layout", "./it.mg", "--precision", "f64", "-o", name)
            plan = self.mgc(LLAMA, *SIZES, "--layout", "./it.mg", "--precision", "f64", "--plan").out
            self.assertEqual("kv_heads of 5 are stored as 6" in plan, "tp" in LAYOUTS[name][0], name)
            resumed = ("--resume",) if k else ()
            got = self.run_one(name, "run", 2 * (k + 1), *resumed)
            self.near(want[:2 * (k + 1)], got, 1e-9, name)

    def test_gpus(self):
        """Through the shim, in f32 within 2e-4 of one rank on a processor; and a processor goes on from what a GPU saved."""
        self.text(6000)
        self.compiles(LLAMA, *SIZES, "--precision", "f32", "-o", "one")
        want = self.run_one("one", "run-one", 6)
        for name in some(sorted(LAYOUTS)):
            with self.subTest(layout=name):
                self.write("it.mg", text(LAYOUTS[name], "h200"))
                self.gpu(LLAMA, *SIZES, "--precision", "f32", "--layout", "./it.mg", device=())
                self.near(want[:4], self.run_one("gpu", "run-" + name, 4), 2e-4, name)
                self.near(want, self.run_one("one", "run-" + name, 6, "--resume"), 2e-4, name)

    def test_same_bits_with_rounding_at_random(self):
        """State in bf16, rounded at random by the place in the file: a padded dim changes no bit of a step."""
        self.text(6000)
        self.change("optimizer adamw(", "optimizer adamw(state = bf16, ")
        saved = {}
        for name, pad in (("plain", "pad none"), ("padded", "pad kv_heads to 6, hidden to 43")):
            self.write("it.mg", text([pad], "cpu"))
            self.compiles("m.mg", *SIZES, "--layout", "./it.mg", "--precision", "bf16", "-o", name)
            self.run_one(name, "run-" + name, 1)
            saved[name] = [self.bytes_of(f"run-{name}/ckpt/step-00000001/{f}") for f in ("model.safetensors", "optimizer.safetensors")]
        self.assertEqual(saved["plain"], saved["padded"])

    def test_plan(self):
        """96 ranks have as much of the state as 64 and 128 have, and a step of theirs takes as long."""
        step, state = {}, {}
        for n in (64, 96, 128):
            self.write("it.mg", f"layout it {{\n    device h100 x {n}\n    mesh dp = {n}\n    batch -> dp\n    state -> dp\n    microbatch 1\n}}\n")
            p = json.loads(self.mgc(mgctest.model("llama7b.mg"), "--layout", "./it.mg", "-D", f"batch={8 * n}", "--precision", "bf16", "--plan=json").out)
            step[n], state[n] = p["step_ms"], p["memory"]["optimizer"] * n
        self.assertLess(step[96], 1.02 * max(step[64], step[128]))
        self.assertLess(abs(state[96] / state[64] - 1), 0.02)

    def test_price(self):
        self.write("it.mg", text(("mesh tp = 4", "kv_heads -> tp"), "cpu"))
        r = self.mgc(LLAMA, *SIZES, "--layout", "./it.mg", "--check")
        self.assertEqual(r.returncode, 1)
        self.assertIn("error[MG0332]: 'kv_heads' of 5 is not split evenly on tp, which is 4 ranks", r.err)
        self.assertIn("`pad kv_heads to 8` in the layout: 60% more of all that has 'kv_heads'", r.err)
        self.write("it.mg", text(("mesh tp = 4", "kv_heads -> tp", "pad kv_heads to 8"), "cpu"))
        self.assertEqual(self.mgc(LLAMA, *SIZES, "--layout", "./it.mg", "--check").returncode, 0)


if __name__ == "__main__":
    import unittest

    unittest.main()
