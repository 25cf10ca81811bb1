"""A run takes as much of the machine's memory as it planned: with many layers, wide, with experts, in halves, on one
rank and several, fresh, resumed and saving."""

import re

import mgctest
from mgctest import model

DEEP = """
dim vocab = 256, seq = 8, layers = 10000, hidden = 16, batch = 4
model deep(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.02) as "embed.weight"
    head  : param[hidden, vocab] ~ normal(0.02) as "head.weight"
    x = tanh(embed[tokens])
    repeat layers as "h.{}" {
        w : param[hidden] ~ normal(0.1) as "w"
        x = x + tanh(x * w)
    }
    loss = cross_entropy(x @ head over hidden, next(tokens))
}
train {
    optimizer adamw(betas = (0.9, 0.95))
    lr        constant(peak = 1e-3, steps = 100)
}
layout {
    device cpu
    mesh   dp = 1
    batch -> dp
    microbatch 2
}
"""
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
SLACK = 16 << 20  # what the runtime plans beside what it knows, for each process: libraries, stacks, buffers


class Memory(mgctest.Case):
    def fits(self, processes, *argv):
        out = self.trains("./train", "--data", self.data, "--threads", 1, *argv).out
        line = re.search(r"memory: planned ([\d.]+) (\w+) \(.*\), used ([\d.]+) (\w+)( by the \d+ processes)?", out)
        self.assertTrue(line, out)
        planned, used = (float(line[i]) * UNITS[line[i + 1]] for i in (1, 3))
        self.assertLessEqual(used, planned, out)
        self.assertGreater(used, planned - SLACK * (processes + 1), out)
        self.assertEqual(line[5] or "", f" by the {processes} processes" if processes > 1 else "")
        return used - int(re.search(r"arena (\d+) bytes", out)[1])

    def check(self, *argv, processes=1):
        self.data = self.text(40_000)
        self.compiles(*argv, "-o", "train")
        self.fits(processes, "--steps", 2, "--out", "run")
        used = self.fits(processes, "--steps", 3, "--out", "run", "--resume")
        self.fits(processes, "--steps", 5, "--out", "run", "--resume", "--save-every", 1)  # beside the steps, from a copy
        return used

    def test_deep(self):
        """A layer takes little beside its numbers: less than a kilobyte for its three tensors, also while resuming."""
        f = self.write("deep.mg", DEEP)
        self.assertLess(self.check(f) - self.check(f, "-D", "layers=10"), 10_000 << 10)

    def test_wide(self):
        self.check(self.write("deep.mg", DEEP), "-D", "layers=2", "-D", "hidden=4096")

    def test_offload(self):
        """State and parameters in a file: its blocks are not over the plan either, and the lanes' own blocks of memory are in the plan."""
        offload = DEEP.replace("microbatch 2\n", "microbatch 2\n    offload state, parameters -> disk\n")
        f = self.write("deep.mg", offload)
        for ranks, size in ((1, 16384), (2, 4096)):
            self.check(f, "-D", f"dp={ranks}", "-D", "layers=40", "-D", f"hidden={size}", "--microbatch", "1", processes=ranks)
            out = self.trains("./train", "--data", self.data, "--threads", 1, "--steps", 7, "--out", "run", "--resume").out
            arena, used, over = re.search(r"disk: planned .* \(arena (\d+) bytes, .*\), used ([\d.]+ \w+), (.*) over", out).groups()
            self.assertEqual(over, "0 bytes", out)
            amount, unit = used.split()
            self.assertAlmostEqual(float(amount) * UNITS[unit] / int(arena), 1, delta=0.01)

    def test_experts(self):
        self.check(model("mixtral_mini.mg"), "-D", "ep=2", "-D", "batch=8", "--microbatch", "4", processes=2)

    def test_ranks(self):
        f = self.write("deep.mg", DEEP)
        self.check(f, "-D", "dp=2", "-D", "layers=3000", processes=2)
        self.check(f, "-D", "dp=4", "-D", "layers=100", "-D", "hidden=1024", "--microbatch", "1", processes=4)

    def test_halves(self):
        f = self.write("deep.mg", DEEP.replace("optimizer adamw", "precision bf16\n    optimizer adamw"))
        self.check(f, "-D", "layers=500", "-D", "hidden=512")


if __name__ == "__main__":
    mgctest.main()
