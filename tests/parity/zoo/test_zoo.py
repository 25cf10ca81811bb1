"""Models of many kinds against PyTorch: the losses, norms and gradients of a program of one rank are those of the golden
files. CI takes some of the models, which turn with the commit; MGC_FULL=1 takes all."""

import unittest

from zoo import MODELS, Golden, mgctest


class Zoo(mgctest.Case):
    def test_one_rank(self):
        for name in mgctest.some(MODELS, 3):
            with self.subTest(model=name):
                golden = Golden(name)
                data = golden.prepare(self)
                self.compiles(golden.source, "-o", name)
                self.assertEqual(golden.run(self, name, f"run-{name}", data), [])


if __name__ == "__main__":
    unittest.main()
