"""`update as_ready`: parameters are updated as their gradients come in. The bits of updating together; on machines, updates
beside the reductions of others; and what is said when a gradient is not finite, whose parameters are updated by then."""

import os
import re

import layouts
import mgctest
import test_launch
import test_layouts
import test_overlap
from layouts import DP, PP, TP, Z1, Z3
from mgctest import TINY, some

# mesh, rules, microbatch
MESHES = {
    "one": ("dp = 1", "", 8),
    "microbatches": ("dp = 1", "", 2),
    "dp2": ("dp = 2", DP, 4),
    "dp2_rounds": ("dp = 2", DP, 1),
    "zero1": ("dp = 2", DP + Z1, 2),
    "zero3": ("dp = 2", DP + Z3, 4),
    "tp2": ("tp = 2", TP.format(heads="kv_heads"), 8),
    "pp2": ("pp = 2", PP("zb-h1"), 2),
}
HOT = "cosine(peak = 1e-2, warmup = 5, steps = 50, floor = 1e-3)"


class Ready(mgctest.Case):
    make_slow, losses, saved = test_overlap.Overlap.make, test_overlap.Overlap.losses, test_launch.Launch.saved
    args, by_hand, start = test_launch.Launch.args, test_launch.Launch.by_hand, test_launch.Launch.start
    run_it, await_ranks, is_rank = (getattr(test_launch.Launch, f) for f in ("run_it", "await_ranks", "is_rank"))
    run_on = test_overlap.Overlap.run_on

    def variants(self, path):
        """A model without clipping, updated together and as_ready: the names of their files."""
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertEqual(len(re.findall(r"(?m)^ *clip +1\.0$", text)), 1)
        for when in ("together", "as_ready"):
            self.write(f"{when}.mg", re.sub(r"(?m)^ *clip +1\.0$", f"    update {when}", text))
        return "together", "as_ready"

    def runs(self, name):
        self.trains(f"./{name}", "--data", "text1.txt", "--steps", 4, "--out", f"out_{name}", "--threads", 1, timeout=300)
        return self.metrics(f"out_{name}"), self.saved(f"out_{name}", 4)

    def test_bits(self):
        """Losses, parameters and states of updating together, to the bit, under every kind of layout."""
        self.text(6000)
        for path in some((test_layouts.LLAMA, test_layouts.GPT2)):
            when = self.variants(path)
            for name in some(MESHES, 4):
                mesh, rules, micro = MESHES[name]
                if path == test_layouts.GPT2:
                    rules = rules.replace("kv_heads", "heads")
                with self.subTest(model=os.path.basename(path), layout=name):
                    self.write("l.mg", f"layout l {{\n    device cpu\n    mesh {mesh}\n{rules}    microbatch {micro}\n}}\n")
                    got = {}
                    for w in when:
                        self.compiles(f"{w}.mg", "--layout", "./l.mg", "-D", "batch=8", "-o", w)
                        got[w] = self.runs(w)
                    (rows, saved), (other_rows, other) = got.values()
                    self.assertEqual([m["loss"] for m in rows if "loss" in m], [m["loss"] for m in other_rows if "loss" in m])
                    self.assertEqual(saved, other)
                    for a, b in zip(rows, other_rows, strict=True):
                        if "grad_norm" in a:  # a sum beside another kernel may be in other pieces
                            self.assertLess(abs(a["grad_norm"] - b["grad_norm"]), 1e-12 * a["grad_norm"])

    def test_on_machines(self):
        """Updates run before the last reduction is waited for, and change nothing."""
        self.text(6000)
        model = self.variants(test_launch.MODEL)
        for layout in some(("dp", "zero1", "zero3")):
            with self.subTest(layout=layout):
                self.check_on_machines(model, layout)

    def check_on_machines(self, model, layout):
        n = test_overlap.LAYOUTS[layout][0]
        for w in model:
            test_launch.MODEL, was = self.path(f"{w}.mg"), test_launch.MODEL
            try:
                self.make_slow(layout, "auto", w)
                self.make_slow(layout, "auto", f"{w}.c", "--emit=c")
            finally:
                test_launch.MODEL = was
            self.run_on("tcp", w, n, 2, f"out_{layout}_{w}")
        text = {w: self.read(f"{w}.c").decode() for w in model}
        step = {w: re.search(r"(?s)\nvoid mg_step\(.*?\n}\n", t)[0] for w, t in text.items()}
        waits = {w: [m.start() for m in re.finditer(r"mg_wait\(", t)] for w, t in step.items()}
        # Beyond the guard only what was begun there is waited for: parameters that are gathered beside other updates.
        before, beyond = step["together"].split("mg_guard(")
        begun = set(re.findall(r"mg_record\(r, (\d+)\)", beyond))
        self.assertFalse(set(re.findall(r"mg_wait\(r, (\d+)\)", beyond)) - begun)
        self.assertFalse(begun & set(re.findall(r"mg_record\(r, (\d+)\)", before)))
        updates = [m.start() for m in re.finditer(r"step_\w*update\(|S_exp_avg", step["as_ready"])]
        self.assertTrue(updates)
        self.assertLess(updates[0], waits["as_ready"][-1])
        self.assertEqual(self.losses(f"out_{layout}_together"), self.losses(f"out_{layout}_as_ready"))
        self.assertEqual(self.saved(f"out_{layout}_together", 4), self.saved(f"out_{layout}_as_ready", 4))

    def test_loss_not_finite(self):
        """The guard sees it: nothing is updated."""
        self.write("hot.mg", TINY.replace(HOT, "1e38").replace("clip      1.0", "update as_ready")
                   .replace("decay = 0.1 where rank >= 2", "decay = 0"))
        self.compiles("hot.mg", "-o", "hot")
        self.text(3000)
        r = self.trains("./hot", "--data", "text1.txt", "--steps", 9, "--out", "h", code=1)
        self.assertRegex(r.err, r"error: step \d+ gave a loss of -?(nan|inf)\n")
        self.assertIn("no parameter was changed and nothing was saved", r.err)

    def test_gradient_not_finite(self):
        """A gradient that is NaN, of a finite loss: it is found, what is said is true, and nothing is saved."""
        text = TINY.replace("    x = tanh(embed[tokens])\n", "    z : param[hidden] = 0 as \"z\"\n    x = tanh(embed[tokens]) + sqrt(z * z)\n")
        self.assertIn("sqrt", text)
        self.text(3000)
        for mesh, rules in (("dp = 1", ""), ("dp = 2", "    batch -> dp\n")):
            for when in ("update as_ready", "clip      1.0"):
                bad = re.sub(r"    mesh .*\n", f"    mesh {mesh}\n{rules}", text).replace("clip      1.0", when).replace("microbatch 4", "microbatch 2")
                self.write("bad.mg", bad)
                self.compiles("bad.mg", "-o", "bad")
                r = self.trains("./bad", "--data", "text1.txt", "--steps", 3, "--out", "b", code=1)
                self.assertRegex(r.err, r"error: step 1 gave a loss of \d\S* and a gradient norm of -?nan")
                self.assertRegex(r.err, r"the first is in the result of action \d+, \S+ \(kernel")
                said = "parameters with finite gradients were updated" if "ready" in when else "no parameter was changed"
                self.assertIn(said + " and nothing was saved", r.err)
                self.assertFalse(os.path.exists(self.path("b/ckpt")))

    def test_refused(self):
        """Options that need the norm before the updates are refused."""
        self.write("tiny.mg", TINY.replace("clip      1.0", "update as_ready"))
        self.compiles("tiny.mg", "-o", "train")
        self.text(3000)
        r = self.trains("./train", "--data", "text1.txt", "--skip-spikes", 4, code=2)
        self.assertIn("compile it without `update as_ready`", r.err)
        r = self.mgc("tiny.mg", "--precision", "f16", "--check")
        self.assertEqual(r.returncode, 1)
        self.assertIn("MG0316", r.err)


if __name__ == "__main__":
    del layouts
    mgctest.main(verbosity=2)
