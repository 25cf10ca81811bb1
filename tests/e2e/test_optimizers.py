"""Optimizers that a file declares: the program of a declaration like the language's own is that of the language's own; under
every kind of layout the numbers of one rank; checkpoints that any layout resumes; GPUs; padding; texts between passes. The
optimizers are those of tests/parity/optimizers.mg, which PyTorch's numbers hold (check_rules.py)."""

import json
import os
import re
import shutil

import layouts
import mgctest
import shim
import test_layouts
from mgctest import FULL, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
with open(os.path.join(PARITY, "optimizers.mg"), encoding="utf-8") as f:
    DECLARED = f.read()
with open(os.path.join(PARITY, "golden/rules.json"), encoding="utf-8") as f:
    RULES = {name: rule["optimizer"] for name, rule in json.load(f).items() if rule.get("declared")}
# A declaration of AdamW, of the prelude's words.
ADAMW = """
optimizer %s(betas = (0.9, 0.999), eps = 1e-8, decay = 0) {
    state m as "exp_avg", v as "exp_avg_sq"
    m = average(m, g, beta = beta1)
    v = average(v, g * g, beta = beta2)
    p = decayed(p, lr, decay = decay)
    c1 = bias_correction(step, beta = beta1)
    c2 = bias_correction(step, beta = beta2)
    p = p - m / (sqrt(v) / sqrt(c2) + eps) * (lr / c1)
}
"""
# A rule that makes something of zeros, looks at the whole of a parameter, and begins with other numbers than 0.
RESTLESS = """
optimizer restless(pull = 0.01) {
    state m = 0.5, far[] = 2
    far = 0.9 * far + 0.1 * max(abs(p) + 0.1, over all)
    m = 0.9 * m + g + 0.01 * mean(exp(p), over all)
    p = p - lr * (m / far + pull * cos(p))
}
"""


def chosen(text, name, declared=DECLARED):
    return declared + re.sub(r"optimizer +\w+\(.*\n", lambda _: f"optimizer {RULES.get(name, name)}\n", text)


@mgctest.in_turns
class Optimizers(shim.Case):
    make_layout, run_one, apart = (getattr(test_layouts.Layouts, f) for f in ("make", "run_one", "apart"))
    tensors = test_layouts.Layouts.tensors

    def test_program_of_the_same_rule(self):
        """Declared in a file, AdamW is the same program, kernels and all, but for names."""
        text = some((self.read(mgctest.model("llama_mini.mg")).decode(), mgctest.TINY))[0]
        own = re.sub(r"optimizer +adamw", "optimizer aDamW", text)
        first = next(i for i, line in enumerate(text.splitlines()) if "optimizer" in line)
        self.assertIn("adamw", text.splitlines()[first])
        programs = []
        for name, source in (("adamw", ADAMW % "unused" + text), ("aDamW", ADAMW % "aDamW" + own)):
            self.write("m.mg", source)
            program = self.compiles("m.mg", "--emit=c", "--with-kernels", "-o", "-").out
            programs.append(re.sub(r"\.fingerprint = \w+|\.(model|config|plan)_\w+ =\s*(\".*\"\s*)+", "", program)
                            .replace("aDamW", "adamw").replace("unused", "adamw"))
        self.assertIn("k_adamw", programs[0])
        self.assertEqual(*programs)

    def program(self, name, layout, path):
        self.write("model.mg", path)
        return self.make_layout("model.mg", layout)

    def test_layouts(self):
        """In f64 the losses and norms of one rank, under layouts of data, tensor and pipeline axes with state, gradients and
        parameters in parts; saved under one and resumed under another."""
        self.text(6000)
        names = ["dp2_zero1", "zero2_tp2_sp", "zero3_tp2", "pp2_zero1", "hybrid", "pp2_dp2_tp2", "tp2", "dp2_zero3"]
        with open(test_layouts.LLAMA, encoding="utf-8") as f:
            llama = f.read()
        rules = RULES if FULL else some(["nadam", "lamb", "adan", "rmsprop", "adagrad", "restless"])
        for rule in [*rules, "restless"] if FULL else rules:
            text = chosen(llama, rule, DECLARED + RESTLESS)
            self.write("model.mg", text)
            kind = some(names, 2)
            program = {n: self.make_layout(self.path("model.mg"), n) for n in ["one", *kind]}
            want = self.run_one(program["one"], 8, f"{rule}-one", "--save-every", 4, "--keep", 9)
            self.assertLess(want[-1][0], want[0][0] + 0.5)
            saved = self.tensors(f"{rule}-one", 4)
            for n in kind:
                with self.subTest(rule=rule, layout=n):
                    got = self.run_one(program[n], 8, f"{rule}-{n}", "--save-every", 4, "--keep", 9)
                    off = self.apart(want, got)
                    self.assertLess(off[0], 1e-9)
                    self.assertLess(off[1], 1e-8)
                    self.assertEqual(saved.keys(), self.tensors(f"{rule}-{n}", 4).keys())
            for save, resume in zip(program, [*list(program)[1:], "one"], strict=True):
                with self.subTest(rule=rule, saved=save, resumed=resume):
                    out = f"{rule}-{save}-{resume}"
                    shutil.copytree(self.path(f"{rule}-{save}"), self.path(out))
                    shutil.rmtree(self.path(f"{out}/ckpt/step-00000008"))
                    off = self.apart(want, self.run_one(program[resume], 8, out, "--resume"))
                    self.assertLess(off[0], 1e-9)
                    self.assertLess(off[1], 1e-8)

    def test_states_in_checkpoints(self):
        """A state has its name and the parameter's external form; one number of a parameter has no dims but its layers'."""
        self.text(6000)
        with open(test_layouts.LLAMA, encoding="utf-8") as f:
            self.write("model.mg", chosen(f.read(), "nadam"))
        self.compiles("model.mg", "-o", "m")
        self.trains("./m", "--data", "text1.txt", "--steps", 1, "--out", "run")
        saved = self.tensors("run", 1)
        shape = {n: t[0] for n, t in saved.items()}
        self.assertEqual(shape["exp_avg.model.layers.1.mlp.up_proj.weight"], [48, 32])
        self.assertEqual(shape["mu_product.model.layers.1.mlp.up_proj.weight"], [])
        self.assertEqual(shape["mu_product.lm_head.weight"], [])
        slots = {n.split(".")[0] for n in saved} - {"model", "lm_head"}
        self.assertEqual(slots, {"exp_avg", "exp_avg_sq", "mu_product"})

    def test_gpu(self):
        """The losses of processors, on the shim; bf16 parameters keep their f32 beside them."""
        precision, bound = some((("f32", 1e-5), ("bf16", 2e-2)))[0]
        rule = some(["own_adamw", "nadam", "lamb", "restless"])[0]
        self.write("m.mg", chosen(mgctest.TINY.replace("precision f32", f"precision {precision}"), rule, DECLARED + RESTLESS))
        self.text(6000)
        self.both("m.mg")
        cpu, gpu = (self.losses(p, "--steps", 10) for p in ("./cpu", "./gpu"))
        for (a, _), (b, _) in zip(cpu, gpu, strict=True):
            self.assertLess(abs(a - b), bound)

    def test_padding(self):
        """A rule that makes something of zeros: padding of the vocabulary changes no loss, whatever sums over it."""
        text = mgctest.TINY.replace("precision f32", "precision f64").replace("vocab = 256", "vocab = 250")
        self.text(6000)
        self.write("text1.u16", b"".join(bytes((b, 0)) for b in self.read("text1.txt")))
        got = []
        for pad in ("none", "vocab to 256"):
            self.write("m.mg", chosen(text.replace("microbatch 4", f"microbatch 4\n    pad {pad}"), "restless", RESTLESS))
            self.compiles("m.mg", "-o", "m")
            got.append(self.losses("./m", "--steps", 10, data="u16:text1.u16"))
        off = self.apart(*got)
        self.assertLess(off[0], 1e-12)
        self.assertLess(off[1], 1e-11)

    def test_two_losses(self):
        """Two losses have optimizers of the file: the plan, to the byte of state, is that of the language's own Adam."""
        with open(os.path.join(PARITY, "zoo/gan.mg"), encoding="utf-8") as f:
            gan = f.read()
        own = re.sub(r"optimizer adam\b", "optimizer aDam", gan)
        self.assertNotEqual(own, gan)
        own += (ADAMW % "aDam").replace("    p = decayed(p, lr, decay = decay)\n", "").replace(
            "    m = average", "    g = regularized(p, g, decay = decay)\n    m = average")
        self.write("gan.mg", gan)
        self.write("own.mg", own)
        plans = [self.compiles(f, "--plan").out.replace("aDam", "adam") for f in ("gan.mg", "own.mg")]
        self.assertEqual(*plans)

    def test_texts_between_passes(self):
        """A text from pass update on is the whole program; one from before lacks the rule, which is said."""
        self.write("m.mg", chosen(mgctest.TINY, "rmsprop"))
        straight = self.compiles("m.mg", "--emit=c").out
        dumps = re.split(r"(?m)^(?=# after )", self.compiles("m.mg", "--print-after=all").out)[1:]
        late = 0
        for dump in dumps:
            f = self.write("dump.mgir", dump)
            late += dump.startswith("# after update")
            if late:
                self.assertEqual(straight, self.compiles(f"--from={f}", "--emit=c").out, dump.splitlines()[0])
            else:
                r = self.mgc(f"--from={f}", "--check")
                self.assertEqual(r.returncode, 1)
                self.assertIn("error[MG0566]", r.err)
        self.assertGreater(len(dumps), 8)


if __name__ == "__main__":
    mgctest.main()
