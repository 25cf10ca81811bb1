"""Truncated and bit-flipped checkpoints: every one is detected, and the run falls back to the newest
whole one. 25 of them, chosen by MGC_TURN; with MGC_FULL 500."""

import os
import random
import shutil

import mgctest
from mgctest import TINY


class Damage(mgctest.Case):
    def test_falls_back(self):
        self.write("tiny.mg", TINY + 'config {\n    model_type = "tiny"\n}\n')
        self.compiles("tiny.mg", "-o", "train")
        run = ("./train", "--data", self.text(5000), "--save-every", 2, "--steps", 4)
        self.trains(*run, "--out", "good")
        newest = "run/ckpt/step-00000004/"
        r = random.Random(mgctest.TURN)
        seen = set()
        for _ in range(500 if mgctest.FULL else 25):
            shutil.rmtree(self.path("run"), ignore_errors=True)
            shutil.copytree(self.path("good"), self.path("run"))
            file = r.choice(sorted(os.listdir(self.path(newest))))
            data = bytearray(self.read(newest + file))
            at = r.randrange(len(data))
            if r.random() < 0.5:
                data[at] ^= 1 << r.randrange(8)
                what = f"bit of byte {at} of {file}"
            else:
                del data[at:]
                what = f"{file} cut to {at}"
            self.write(newest + file, bytes(data))
            result = self.trains(*run, "--out", "run", "--resume")
            self.assertIn("passed over: " + newest[:-1], result.err, what)
            self.assertIn("resumed from run/ckpt/step-00000002", result.out, what)
            for name in ("model.safetensors", "optimizer.safetensors", "config.json"):
                self.assertEqual(self.read("good/ckpt/step-00000004/" + name), self.read(newest + name), what)
            seen.add(file)
        self.assertGreaterEqual(len(seen), 3)


if __name__ == "__main__":
    mgctest.main()
