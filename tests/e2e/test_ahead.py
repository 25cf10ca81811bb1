"""Several tokens ahead: next(tokens, by = 2) reads what lies behind a window; sample, evaluation and the files' lengths."""

import unittest

import mgctest
from mgctest import TINY

AHEAD = TINY.replace("    loss = cross_entropy(x @ head over hidden, next(tokens))", """    other : param[hidden, vocab] ~ normal(0.1) as "other.weight"
    loss = cross_entropy(x @ head over hidden, next(tokens)) + cross_entropy(x @ other over hidden, next(tokens, by = 3))
    metric further = mean(in_top(x @ other over hidden, next(tokens, by = AT)))""")


class Ahead(mgctest.Case):
    def program(self, at=3):
        self.write("m.mg", AHEAD.replace("AT", str(at)))
        self.compiles("m.mg", "-o", "train")

    def test_a_text_of_one_period(self):
        """The model learns what is three tokens on, and a sample continues by one."""
        self.program()
        self.write("d", "abcdefgh" * 100)
        self.trains("./train", "--data", "d", "--val", "d", "--steps", 60, "--lr", 0.05, "--out", "run")
        last = self.metrics("run")[-1]
        self.assertGreater([m for m in self.metrics("run") if "val_further" in m][-1]["val_further"], 0.99, last)
        r = self.trains("./train", "--resume", "--out", "run", "--sample", 16, "--prompt", "abc", "--temperature", 0)
        self.assertEqual(r.out.strip(), "defghabcdefghabc")

    def test_lengths(self):
        """A window is seq + 3 tokens; a metric alone may look further than the loss."""
        for at, window in ((3, 11), (1, 11), (5, 13)):
            self.program(at)
            self.write("short", "x" * (window - 1))
            self.write("long", "x" * window)
            r = self.trains("./train", "--data", "short", "--steps", 1, "--out", "a", code=65)
            self.assertIn(f"short: has {window - 1} tokens; one window takes {window}", r.err)
            self.trains("./train", "--data", "long", "--val", "long", "--steps", 1, "--out", f"run-{window}-{at}")


if __name__ == "__main__":
    unittest.main()
