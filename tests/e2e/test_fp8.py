"""Training with `precision fp8`, by real programs on processors, which multiply halves of the same value: losses follow those of bf16,
scales are of the tensor on all ranks together, and what is computed again has the bits that it had."""

import os
import re
import shutil

import mgctest
from mgctest import some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
GRADIENTS = {"e5m2": "fp8", "e4m3": "fp8(gradients = e4m3)"}
SCALES = {"tensor": "fp8", "tile": "fp8(scales = tile)", "mx": "fp8(scales = mx)"}
# Mesh, rules, sequences a rank computes at once, how far the first loss may be off: sums over tp and cp are in another order.
LAYOUTS = {"dp2": ("dp = 2", "batch -> dp", 2, 1e-7), "zero3": ("dp = 2", "batch -> dp\nstate, grads, params -> dp", 2, 1e-7),
           "pp2": ("pp = 2", "layers -> pp", 4, 1e-7), "tp2": ("tp = 2", "kv_heads, ffn, vocab -> tp", 4, 1e-3),
           "cp2": ("cp = 2", "seq -> cp (ring, zigzag)", 4, 1e-3), "heads": ("cp = 2", "seq -> cp (heads)", 4, 1e-3),
           "zb": ("pp = 2, dp = 2", "layers -> pp (schedule = zb-h1)\nbatch -> dp", 2, 1e-7)}


SCHEDULE = r"(cosine\(.*\bsteps = )\d+"


@mgctest.in_turns_of(3)
class Fp8(mgctest.Case):
    def source(self, model, precision, name):
        with open(os.path.join(PARITY, model), encoding="utf-8") as f:
            text = f.read()
        old = [line for line in text.splitlines() if line.strip().startswith("precision ")]
        self.assertEqual(len(old), 1)
        self.write(f"{name}.mg", text.replace(old[0], f"    precision {precision}"))
        return f"{name}.mg"

    def losses(self, source, name, *argv, steps=20, seed=0):
        self.compiles(source, *argv, "-o", name)
        self.trains(f"./{name}", "--data", "text1.txt", "--steps", steps, "--out", f"run-{name}-{seed}", "--threads", 1, "--seed", seed)
        return [(line["loss"], line["grad_norm"]) for line in self.metrics(f"run-{name}-{seed}") if "loss" in line]

    def test_follows_bf16(self):
        self.text(6000)
        for model in some(("llama_small.mg", "gpt2_small.mg", "mixtral_small.mg"), 2):
            base = self.losses(self.source(model, "bf16", "base"), "base")
            for kind, precision in {**GRADIENTS, **SCALES}.items():
                with self.subTest(model=model, kind=kind):
                    ours = self.losses(self.source(model, precision, kind), kind)
                    off = max(abs(a[0] - b[0]) / a[0] for a, b in zip(base, ours, strict=True))
                    self.assertLess(off, 0.01)
                    self.assertGreater(off, 1e-6)  # they were rounded
                    self.assertLess(max(abs(a[1] - b[1]) / a[1] for a, b in zip(base, ours)), 0.1)

    def test_parameters_in_bf16(self):
        """`master = bf16`: as far from bf16's as with f32; they are rounded by element and step, so a run that goes on has the same bits."""
        self.text(6000)
        kinds = ("tensor", "tile", "mx")
        base = self.losses(self.source("llama_small.mg", "bf16(master = bf16)", "base"), "base")
        for kind in some(kinds):
            source = self.source("llama_small.mg", f"fp8(master = bf16, scales = {kind})", kind)
            ours = self.losses(source, kind)
            self.assertLess(max(abs(a[0] - b[0]) / a[0] for a, b in zip(base, ours, strict=True)), 0.01)
            argv = (f"./{kind}", "--data", "text1.txt", "--steps", 20, "--threads", 1, "--out", "cut")
            self.trains(*argv, "--save-every", 8)
            for step in ("16", "20"):
                shutil.rmtree(self.path(f"cut/ckpt/step-000000{step}"))
            self.trains(*argv, "--resume")
            self.assertEqual([(l["loss"], l["grad_norm"]) for l in self.metrics("cut") if "loss" in l], ours)
            self.assertIn("parameters in bf16", self.compiles(source, "--plan").out)

    def test_thousand_steps(self):
        """As far as bf16 goes: means of the last 100 losses of four seeds under a schedule of 1,000 steps; a single one is some percent off."""
        if not mgctest.FULL:
            self.skipTest("minutes")
        self.text(400000)
        for model in ("gpt2_small.mg", "llama_small.mg"):
            last = {}
            for name, precision in {"bf16": "bf16", **SCALES}.items():
                source, last[name] = self.source(model, precision, name), 0
                text = self.read(source).decode()
                self.assertEqual(len(re.findall(SCHEDULE, text)), 1)
                self.write(source, re.sub(SCHEDULE, r"\g<1>1000", text))
                for seed in range(4):
                    losses = [loss for loss, _ in self.losses(source, name, steps=1000, seed=seed)]
                    last[name] += sum(losses[-100:]) / 400
                self.assertLess(last[name], 0.7 * losses[0])
            for name in SCALES:
                self.assertLess(abs(last[name] - last["bf16"]) / last["bf16"], 0.02, (model, last))

    def test_kinds_of_gradients_differ(self):
        """In the gradients alone: the first loss is the same."""
        self.text(6000)
        a, b = (self.losses(self.source("llama_small.mg", p, k), k, steps=2) for k, p in GRADIENTS.items())
        self.assertEqual(a[0][0], b[0][0])
        self.assertNotEqual(a[0][1], b[0][1])

    def test_scales_are_of_all_ranks(self):
        """Rows are computed as by one rank. So the loss before the first update is the same but for the order of its own sum; with a
        scale for the rows of each rank it is another, by a hundred times as much."""
        self.text(6000)
        self.scales_are_of_all("tensor", ("dp2", *some(list(LAYOUTS)[1:], 2)))

    def test_tiles_are_of_all_ranks(self):
        """Of these models most tiles lie on several ranks, where anything is split."""
        self.text(6000)
        for kind in ("tile", "mx"):
            self.scales_are_of_all(kind, some(list(LAYOUTS), 2))

    def scales_are_of_all(self, kind, layouts):
        source = self.source("llama_small.mg", SCALES[kind], kind)
        alone = self.write("alone.mg", "layout alone {\n device cpu\n microbatch 4\n}\n")
        want = self.losses(source, f"one_{kind}", "--layout", alone, steps=3)
        for name in layouts:
            mesh, rules, each, bound = LAYOUTS[name]
            with self.subTest(layout=name, scales=kind):
                many = self.write(f"{name}.mg", f"layout {name} {{\n device cpu\n mesh {mesh}\n{rules}\n microbatch {each}\n}}\n")
                got = self.losses(source, f"{name}_{kind}", "--layout", many, steps=3)
                self.assertLess(abs(want[0][0] - got[0][0]) / want[0][0], bound)
                self.assertLess(max(abs(a[0] - b[0]) / a[0] for a, b in zip(want, got, strict=True)), 1e-3)

    def test_parts_are_gathered_in_8_bits(self):
        """What ranks have parts of is gathered as layers read it, rounded by the largest number of all parts: where state is split,
        or parameters are, losses have the bits of ranks that round the whole each; a run that goes on has them, too."""
        self.text(6000)
        for kept in some(("fp8", "fp8(master = bf16)", "fp8(master = bf16, reduce = bf16_nearest)"), 2):
            source, want = self.source("llama_small.mg", kept, "model"), None
            for name, rule in {"whole": "", "zero1": "state -> dp", "zero3": "state, grads, params -> dp"}.items():
                with self.subTest(layout=name, kept=kept):
                    many = self.write(f"{name}.mg", f"layout {name} {{\n device cpu\n mesh dp = 2\n batch -> dp\n{rule}\n microbatch 2\n}}\n")
                    text = self.compiles(source, "--layout", many, "--print-after=local").out.split("\nfn @train")[1].split("\nfn @")[0]
                    gathers = [line for line in text.splitlines() if " = all_gather " in line and "[" in line]
                    self.assertEqual(any(": e4m3[" in line for line in gathers), name != "whole")
                    self.assertFalse([line for line in gathers if ": bf16[" in line and "ffn=" in line and "optimizer" not in line])
                    got = self.losses(source, name, "--layout", many, steps=6)
                    want = want or [loss for loss, _ in got]
                    self.assertEqual([loss for loss, _ in got][:1], want[:1])
                    if "reduce" not in kept:
                        self.assertEqual([loss for loss, _ in got], want)
                    argv = (f"./{name}", "--data", "text1.txt", "--steps", 6, "--threads", 1, "--out", f"cut-{name}")
                    self.trains(*argv, "--save-every", 3)
                    shutil.rmtree(self.path(f"cut-{name}/ckpt/step-00000006"))
                    self.trains(*argv, "--resume")
                    self.assertEqual([(l["loss"], l["grad_norm"]) for l in self.metrics(f"cut-{name}") if "loss" in l], got)

    def refused(self, code, says, *argv):
        r = self.mgc(*argv)
        self.assertEqual(r.returncode, code, r.err)
        for part in says:
            self.assertIn(part, r.err)

    def test_refused(self):
        source = self.source("llama_small.mg", "fp8", "model")
        for kind, device in (("tile", "rtx4090"), ("mx", "h100")):
            self.refused(1, ("error[MG0311]", f"precision fp8(scales = {kind}) on {device}, a GPU", "help: precision fp8"),
                         self.source("llama_small.mg", SCALES[kind], kind), "--device", device, "--check")
        text = self.compiles(source, "--print-after=quantize").out
        self.write("after.mgir", text)
        functions = {part.split()[0]: part for part in text.split("\nfn @")[1:]}
        self.assertIn("e4m3[", functions["train"])
        self.assertNotIn("e4m3[", functions["eval"])  # which does not depend on the rows computed at once
        self.refused(1, ("error[MG0311]", "precision fp8 on a100", "help: precision bf16"), "--from=after.mgir", "--device", "a100", "--check")
        self.compiles("--from=after.mgir", "--device", "h100", "--check")
        self.compiles("--from=after.mgir", "--check")
        tree = self.source("llama_small.mg", "f32(reduce = tree)", "tree")
        self.refused(1, ("error[MG0311]", "reduce = tree beside precision fp8", "help: --precision bf16"), tree, "--precision", "fp8", "--check")

    def test_nothing_to_round(self):
        """A program without layers is one of bf16, and says so."""
        r = self.compiles(self.source("mlp_small.mg", "fp8", "flat"), "--check")
        self.assertIn("warning[MG0533]", r.err)
        self.assertNotIn("MG0533", self.compiles(self.source("llama_small.mg", "fp8", "model"), "--check").err)

    def test_computed_again(self):
        self.text(6000)
        for kind, precision in SCALES.items():
            source = self.source("llama_small.mg", precision, kind)
            kept = self.losses(source, f"kept_{kind}", "--recompute", "none", steps=6)
            self.assertEqual(kept, self.losses(source, f"again_{kind}", "--recompute", "all", steps=6))


if __name__ == "__main__":
    mgctest.main()
