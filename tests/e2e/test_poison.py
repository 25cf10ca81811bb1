"""--poison: dead bytes are NaN. No loss changes; and where the plan is made to kill a buffer too early, one does."""

import os
import re

import layouts
import mgctest
from mgctest import model

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
MODELS = [os.path.join(PARITY, name + "_small.mg") for name in ("gpt2", "llama", "mlp", "mixtral")]


class Poison(mgctest.Case):
    def losses(self, program, *argv):
        self.last = f"run{len(os.listdir(self.dir))}"
        self.trains(program, "--data", "text1.txt", "--val-fraction", 0.2, "--eval-every", 2, "--steps", 4, "--out", self.last,
                    *argv)
        return [(l.get("loss"), l.get("grad_norm"), l.get("val_loss")) for l in self.metrics(self.last)]

    def test_changes_no_loss(self):
        self.text(6000)
        for path in MODELS:
            self.compiles(path, "-o", "train")
            clean = self.losses("./train")
            self.assertEqual(self.losses("./train", "--poison"), clean, path)
            self.assertEqual(len([1 for loss, _, _ in clean if loss]), 4)
            sample = ("./train", "--sample", 5, "--temperature", 0, "--resume", "--out", self.last)
            self.assertEqual(self.trains(*sample, "--poison").stdout, self.trains(*sample).stdout)

    def test_ranks(self):
        """Each poisons its own arena; nobody reads what another has thrown away."""
        self.text(6000)
        for path, name in ((MODELS[1], "zero3_tp2_sp"), (MODELS[1], "cp2_zigzag"), (MODELS[3], "dp2_ep2")):
            self.write("l.mg", layouts.text(name))
            self.compiles(path, "--layout", "./l.mg", "-D", "batch=8", "-o", "train")
            clean = self.losses("./train")
            self.assertEqual(self.losses("./train", "--poison"), clean, name)

    def test_a_death_too_early(self):
        """Each buffer of a step killed by the action before its last: whoever reads it then reads NaN."""
        self.text(6000)
        self.compiles(model("mlp.mg"), "-D", "batch=8", "--emit=source", "-o", "tree")
        self.made()
        clean = self.losses("tree/train")
        text = self.read("tree/program.c").decode()
        begin = text.index("mg_death deaths[] = {")
        step = int(re.search(r"mg_guard\(r, (\d+)", text).group(1))
        entries = [m for m in re.finditer(r"DIES\((\d+),(\w+)(?:\(0\))?,\d+\)", text[begin:]) if 1 < int(m.group(1)) < step]
        self.assertGreater(len(entries), 10)
        silent = []
        for m in entries:
            at = begin + m.start(1)
            event = int(m.group(1))
            self.write("tree/program.c", text[:at] + str(event - 1) + text[at + len(m.group(1)):])
            self.made()
            r = self.run_program("tree/train", "--data", "text1.txt", "--steps", 4, "--poison", "--out", f"early{at}")
            losses = [l["loss"] for l in self.metrics(f"early{at}") if "loss" in l]
            if r.returncode == 0 and losses == [loss for loss, _, _ in clean if loss]:
                silent.append((event, m.group(2)))
        self.assertEqual(silent, [])

    def made(self):
        r = self.run_program("make", "-C", "tree")
        self.assertEqual(r.returncode, 0, r.stderr[-2000:])


if __name__ == "__main__":
    mgctest.main()
