"""Recomputation changes no bit: losses, norms, parameters and optimizer state of three steps of every model
with a repeat, under `recompute none`, `auto` and `all`, for every microbatch that divides the batch, in f32 and f64. CI
takes some of the models, which turn with the commit; MGC_FULL=1 takes all."""

import os
import re
import unittest

from zoo import MODELS, Golden, mgctest


def looping():
    """Models with a repeat or scan: in the others there is nothing to keep."""
    for name in MODELS:
        with open(Golden(name).source, encoding="utf-8") as f:
            if re.search(r"(?m)^\s*(repeat|scan) ", f.read()):
                yield name


class Bits(mgctest.Case):
    def trained(self, golden, data, out, *options):
        """All that three steps leave; None where the program is refused."""
        r = self.mgc(golden.source, "-o", "p", *options)
        if r.returncode:
            self.assertEqual(r.returncode, 1, r.err)
            self.assertRegex(r.err, r"error\[MG0\d\d\d\]")
            return None
        self.trains("./p", *data, "--steps", 3, "--save-every", 1, "--keep", 0, "--threads", 2, "--out", out, timeout=300)
        rows = [(m["loss"], m["grad_norm"]) for m in self.metrics(out) if "loss" in m]
        folder = f"{out}/ckpt/step-00000003"
        return rows, [self.read(f"{folder}/{f}") for f in sorted(os.listdir(self.path(folder))) if f.endswith(".safetensors")]

    def test_recompute(self):
        compared = 0
        for name in mgctest.some(looping(), 2):
            golden = Golden(name)
            data = golden.prepare(self)
            with open(golden.source, encoding="utf-8") as f:
                batch = int(re.search(r"\bbatch = (\d+)", f.read()).group(1))
            for size in [n for n in range(1, batch + 1) if batch % n == 0]:
                for precision in ("f32", "f64"):
                    given = ["--microbatch", size, "--precision", precision]
                    want = self.trained(golden, data, f"{name}-{size}-{precision}", *given, "--recompute", "none")
                    if want is None:
                        continue
                    for policy in ("auto", "all"):
                        with self.subTest(model=name, microbatch=size, precision=precision, recompute=policy):
                            got = self.trained(golden, data, f"{name}-{size}-{precision}-{policy}", *given, "--recompute", policy)
                            self.assertEqual(got[0], want[0])
                            self.assertTrue(got[1] == want[1], "other bytes")
                            compared += 1
        print(f"{compared} programs with the bits of `recompute none`")
        self.assertGreater(compared, 4)


if __name__ == "__main__":
    unittest.main()
