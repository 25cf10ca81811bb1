"""Depth stays symbolic: 200 layers cost what 2 do, in compile time, dumps and emitted source."""

import re
import time

import mgctest
from mgctest import model

LAYERS = (2, 200)


class Depth(mgctest.Case):
    def best(self, *argv):
        """The least of some runs: what the work takes, without what else the machine does."""
        times = []
        for _ in range(5):
            start = time.monotonic()
            self.compiles(*argv)
            times.append(time.monotonic() - start)
        return min(times)

    def test_emitted_source(self):
        few, many = (self.compiles(model("llama7b.mg"), "--device=cpu2t", "-D", f"layers={n}", "--emit=c").out for n in LAYERS)
        self.assertEqual(len(few.splitlines()), len(many.splitlines()))
        self.assertLess(len(many), 1.01 * len(few))
        # Beside numbers, the two programs are one.
        plain = [re.sub(r"-?\d[\d.e+-]*", "0", text) for text in (few, many)]
        self.assertEqual(len(plain[0].splitlines()), len(plain[1].splitlines()))

    def test_dumps(self):
        few, many = (self.compiles(model("llama7b.mg"), "--device=cpu2t", "-D", f"layers={n}", "--print-after=all").out
                     for n in LAYERS)
        self.assertEqual(len(few.splitlines()), len(many.splitlines()))

    def test_time(self):
        few, many = (self.best(model("llama_mini.mg"), "-D", f"layers={n}", "--check") for n in LAYERS)
        self.assertLess(many, 1.5 * few + 0.02, f"{few:.3f} s for 2 layers, {many:.3f} s for 200")

    def test_check_of_a_large_model(self):
        """--check of llama7b takes under 0.2 s; the bound here leaves room for a busy machine."""
        took = self.best(model("llama7b.mg"), "--check", "--device=cpu2t")
        self.assertLess(took, 0.4)


if __name__ == "__main__":
    mgctest.main()
