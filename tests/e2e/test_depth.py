"""Depth stays symbolic: 5000 layers cost what 500 do, in compile time, dumps and emitted source.

With few layers a sum over all of a parameter can be small enough for one kernel where it otherwise
takes two; beyond that the programs are the same but for numbers."""

import re

import mgctest
from mgctest import model

LAYERS = (500, 5000)
LARGE = "--device=cpu2t"


class Depth(mgctest.Case):
    def test_emitted_source(self):
        two, few, many = (self.compiles(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--emit=c").out
                          for n in (2, *LAYERS))
        self.assertLess(len(many), 1.1 * len(two))
        self.assertEqual(len(few.splitlines()), len(many.splitlines()))
        self.assertLess(len(many), 1.01 * len(few))
        # Beside numbers, the two programs are one.
        few, many = (re.sub(r"(?m)^.*fingerprint.*$| +", " ", text) for text in (few, many))
        plain = [re.sub(r"-?\d[\d.e+-]*", "0", text) for text in (few, many)]
        self.assertEqual(*plain)

    def test_dumps(self):
        few, many = (self.compiles(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--print-after=all").out
                     for n in LAYERS)
        self.assertEqual(len(few.splitlines()), len(many.splitlines()))

    def test_time(self):
        few, many = (self.work(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--check") for n in (2, 200))
        self.assertLess(many, 1.5 * few + 0.02, f"{few:.3f} s for 2 layers, {many:.3f} s for 200")

    def test_check_of_a_large_model(self):
        self.assertLess(self.work(model("llama7b.mg"), "--check", "--device=cpu2t"), 0.2)


if __name__ == "__main__":
    mgctest.main()
