"""`reduce = tree` by real ranks: the same microbatches on 1, 2, 4 and 8 ranks, under each ZeRO stage, give the same
losses, norms, parameters and optimizer state, to the bit; so does going on with another number of ranks."""

import os
import re
import signal
import subprocess
import time

import mgctest
from mgctest import TURN, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")

# Weights of every layer at once, in and out of the repeat; numbers that are drawn; biases.
SHARED = """dim layers = 3, hidden = 32, ffn = 64, vocab = 256, seq = 16, batch = 16
model shared(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02)
    up    : param[hidden, ffn] ~ normal(0.1)
    down  : param[ffn, hidden] ~ normal(0.1)
    x = dropout(embed[tokens], p = 0.1)
    repeat layers as "layers.{}" {
        bias : param[hidden] = 0
        x = x + dropout(tanh(x @ up over hidden) @ down over ffn, p = 0.1) + bias
    }
    loss = cross_entropy(x @ embed over hidden, next(tokens))
}
train {
    optimizer adamw
    lr        1e-2
    clip      0.5
    precision f32
}
"""
DP = "batch -> dp\n"
Z1, Z2, Z3 = DP + "state -> dp\n", DP + "state, grads -> dp\n", DP + "state, grads, params -> dp\n"
LAYOUTS = {
    "dp1": ("dp = 1", DP), "dp2": ("dp = 2", DP), "dp4": ("dp = 4", DP), "dp8": ("dp = 8", DP),
    "dp2_zero1": ("dp = 2", Z1), "dp4_zero1": ("dp = 4", Z1), "dp8_zero1": ("dp = 8", Z1),
    "dp2_zero2": ("dp = 2", Z2), "dp4_zero2": ("dp = 4", Z2), "dp8_zero2": ("dp = 8", Z2),
    "dp2_zero3": ("dp = 2", Z3), "dp4_zero3": ("dp = 4", Z3), "dp8_zero3": ("dp = 8", Z3),
}
TP = "{heads}, ffn, vocab -> tp\n"
BESIDE = {
    "tp2": ("tp = 2", TP), "dp2_tp2": ("dp = 2, tp = 2", DP + TP), "tp2_dp4": ("tp = 2, dp = 4", Z1 + TP),
    "dp2_tp2_zero3": ("dp = 2, tp = 2", DP + TP + "state, grads, params -> dp\n"),
}
REST = [n for n in LAYOUTS if n != "dp1"]
SAMPLE = some(REST, 4)


@mgctest.in_turns_of(2)
class Tree(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.text(8000)

    def source(self, name, precision="f32(reduce = tree)"):
        if name == "shared":
            text = SHARED
        else:
            with open(os.path.join(PARITY, f"{name}_small.mg"), encoding="utf-8") as f:
                text = f.read()
        path = f"{name}-{re.sub('[^a-z0-9]+', '-', precision)}.mg"
        self.write(path, re.sub(r"precision +f32", "precision " + precision, text))
        return path

    def make(self, source, name, microbatch=1, batch=16):
        mesh, rules = {**LAYOUTS, **BESIDE}[name]
        heads = "heads" if source.startswith("gpt2") else "kv_heads"
        self.write(f"{name}.mg", f"layout {name} {{\n device cpu\n mesh {mesh}\n{rules.format(heads=heads)} microbatch {microbatch}\n}}\n")
        program = f"{source[:-3]}-{name}-{microbatch}"
        self.compiles(source, "--layout", f"./{name}.mg", "-D", f"batch={batch}", "-o", program)
        return "./" + program

    def trained(self, program, steps, out, *argv):
        self.trains(program, "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, *argv, timeout=300)
        return self.left(out, steps)

    def left(self, out, steps):
        """The results of a run: losses and norms of its steps, and the bytes of its last checkpoint."""
        lines = [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]
        files = [self.read(f"{out}/ckpt/step-{steps:08d}/{kind}.safetensors") for kind in ("model", "optimizer")]
        return lines, files

    def alike(self, a, b):
        self.assertEqual(a[0], b[0])
        self.assertTrue(a[1] == b[1], "parameters or state differ")

    def follow(self, source, names, first="dp1", steps=20, **more):
        want = self.trained(self.make(source, first, **more), steps, f"{source}-{first}")
        self.assertTrue(any(norm > 1 for _, norm in want[0]), "nothing is clipped")
        for name in names:
            with self.subTest(source=source, layout=name):
                self.alike(want, self.trained(self.make(source, name, **more), steps, f"{source}-{name}"))

    def test_same_bits(self):
        names = ("llama", "gpt2", "mixtral")
        for name in some(names):
            self.follow(self.source(name), SAMPLE)
            self.follow(self.source(name), SAMPLE[:2], microbatch=2)

    def test_shared_weights_and_dropout(self):
        self.follow(self.source("shared"), SAMPLE)

    def test_precisions(self):
        for precision in some(("bf16", "f16", "f64")):
            self.follow(self.source("llama", precision + " (reduce = tree)"), SAMPLE[:2], steps=10)

    def test_beside_tensor_parallelism(self):
        """At the same tp."""
        self.follow(self.source(("gpt2", "llama")[TURN % 2]), list(BESIDE)[1:], first="tp2", steps=10)

    def test_without_it(self):
        """Sums in the order of ranks have other bits: what is tested here shows."""
        source = self.source("llama", "f32")
        runs = [self.trained(self.make(source, name), 4, f"plain-{name}") for name in ("dp1", "dp4")]
        self.assertNotEqual(runs[0][1], runs[1][1])

    def killed(self, program, out, step, *argv):
        """Killed some time after that step was saved; what it saved later is lost."""
        p = subprocess.Popen([self.path(program[2:]), "--data", "text1.txt", "--steps", "12", "--out", out, "--threads", "1",
                              "--save-every", "2", "--keep", "9", *argv],
                             cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while p.poll() is None and not os.path.exists(self.path(f"{out}/ckpt/step-{step:08d}")):
            time.sleep(0.002)
        p.send_signal(signal.SIGKILL)
        p.wait(10)
        for later in range(step + 1, 13):
            subprocess.run(["rm", "-rf", self.path(f"{out}/ckpt/step-{later:08d}")], check=True)
        self.assertTrue(os.path.exists(self.path(f"{out}/ckpt/step-{step:08d}")))

    def test_resumed_with_other_ranks(self):
        """Killed on 4 ranks and gone on with on 2, then on 8: as if nothing had been."""
        source = self.source("gpt2")
        want = self.trained(self.make(source, "dp1"), 12, "straight")
        self.killed(self.make(source, "dp4_zero2"), "moved", 4)
        self.killed(self.make(source, "dp2"), "moved", 8, "--resume")
        self.alike(want, self.trained(self.make(source, "dp8_zero3"), 12, "moved", "--resume"))

    def test_refused(self):
        """A sum that has no place in the tree is refused: MG0524, or MG0335."""
        penalty = SHARED.replace("precision f32", "precision f32(reduce = tree)").replace(
            "loss = ", "size = sum(up * up)\n    loss = 0.1 * size + ")
        weighed = SHARED.replace("precision f32", "precision f32(reduce = tree)").replace(
            ": token(vocab))", ": token(vocab), weight[batch, seq])").replace("next(tokens))", "next(tokens), weight)")
        for text, what in ((penalty, "what does not depend on the batch"), (weighed, "what is summed of the whole batch")):
            for microbatch in (1, 16):
                self.write("bad.mg", text + f"layout {{ microbatch {microbatch} }}\n")
                r = self.mgc("bad.mg", "--check")
                self.assertEqual(r.returncode, 1)
                self.assertIn(b"error[MG0524]: reduce = tree: " + what.encode(), r.stderr)
        r = self.mgc(self.source("llama"), "-D", "batch=6", "--microbatch", 1, "--check")
        self.assertIn(b"error[MG0335]", r.stderr)


if __name__ == "__main__":
    mgctest.main()
