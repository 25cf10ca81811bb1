"""Models of many kinds against PyTorch: the losses, norms and gradients of a program of one rank are those of the golden
files. CI takes some of the models, which turn with the commit; MGC_FULL=1 takes all."""

import unittest

from zoo import MODELS, Golden, mgctest


class Zoo(mgctest.Case):
    def test_one_rank(self):
        for name in mgctest.some(MODELS, 5):
            with self.subTest(model=name):
                golden = Golden(name)
                data = golden.prepare(self)
                self.compiles(golden.source, "-o", name)
                self.assertEqual(golden.run(self, name, f"run-{name}", data), [])

    def test_another_model_differs(self):
        """A norm's eps in the seventh digit is seen in losses, norms and gradients."""
        golden = Golden("falcon")
        with open(golden.source, encoding="utf-8") as f:
            self.write("other.mg", f.read().replace("eps = 1e-5", "eps = 1.1e-5"))
        self.compiles("other.mg", "-o", "other")
        found = " ".join(golden.run(self, "other", "run", golden.prepare(self)))
        for word in ("loss", "norm", "gradient of embed.weight"):
            self.assertIn(word, found)

    def test_form(self):
        """They are written in the one form."""
        for name in MODELS:
            self.assertEqual(self.mgc("fmt", "--check", Golden(name).source).returncode, 0, name)


if __name__ == "__main__":
    unittest.main()
