"""--skip-spikes: a step far above those before it changes nothing, and a resumed run skips the same."""

import os
import random
import shutil

import mgctest
from mgctest import TINY


class Spikes(mgctest.Case):
    def setUp(self):
        super().setUp()
        schedule = "cosine(peak = 1e-2, warmup = 5, steps = 50, floor = 1e-3)"
        self.write("tiny.mg", TINY.replace(schedule, "constant(peak = 1e-2, steps = 400)"))
        self.compiles("tiny.mg", "-o", "train")
        r = random.Random(1)
        words = b"ab" * 30000
        noise = bytes(r.randrange(128, 256) for _ in range(1000))
        self.write("clean", words)
        self.write("text", words[:40000] + noise + words[:20000])
        self.trains("./train", "--data", "clean", "--out", "clean.run", "--steps", 500)

    def go_on(self, out, *more):
        """From the checkpoint of the clean text into the one with noise."""
        if not os.path.exists(self.path(out)):
            shutil.copytree(self.path("clean.run"), self.path(out))
        self.trains("./train", "--data", "text", "--out", out, "--resume", *more)
        return [m for m in self.metrics(out) if m["step"] > 500]

    def test_skips(self):
        self.assertFalse(any("skipped" in m for m in self.go_on("plain", "--steps", 700)))
        rows = self.go_on("kept", "--steps", 700, "--skip-spikes", 8, "--save-every", 1, "--keep", 0)
        skipped = [m["step"] for m in rows if m.get("skipped")]
        taken = [m["step"] for m in rows if not m.get("skipped")]
        self.assertGreater(len(skipped), 3)
        self.assertGreater(len(taken), 150)

        def model(step):
            return self.read(f"kept/ckpt/step-{step:08d}/model.safetensors")
        for step in skipped:
            self.assertEqual(model(step), model(step - 1))
        self.assertNotEqual(model(taken[9]), model(taken[9] - 1))
        losses = {m["step"]: m["loss"] for m in rows}
        self.assertGreater(min(losses[s] for s in skipped), 10 * losses[taken[-1]])

    def test_resumes_bit_for_bit(self):
        self.go_on("whole", "--steps", 700, "--skip-spikes", 8)
        for steps in (513, 600, 700):
            self.go_on("parts", "--steps", steps, "--skip-spikes", 8)
        for file in ("model.safetensors", "optimizer.safetensors"):
            name = "ckpt/step-00000700/" + file
            self.assertEqual(self.read("whole/" + name), self.read("parts/" + name))

    def test_usage(self):
        for z in ("0.5", "x", "-1"):
            self.trains("./train", "--data", "text", "--skip-spikes", z, code=2)


if __name__ == "__main__":
    mgctest.main()
