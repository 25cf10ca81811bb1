"""Weights of targets: what they mean, with every microbatch; and what is wrong with a file of them."""

import array
import os
import random

import mgctest
from mgctest import TINY

WEIGHED = TINY.replace(": token(vocab))", ": token(vocab), weight[batch, seq])").replace(
    "next(tokens))", "next(tokens), weight)")


class Weighed(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("tiny.mg", WEIGHED)
        self.compiles("tiny.mg", "-o", "train")
        r = random.Random(3)
        self.bytes = bytes(r.choice(b"etaoin shrdlu") for _ in range(3000))
        self.write("text", self.bytes)

    def weigh(self, weights, form="B"):
        self.write("text.weights", array.array(form, weights).tobytes())

    def losses(self, program, *argv):
        out = f"run{len(os.listdir(self.dir))}"
        self.trains(program, "--data", "text", "--val", "text", "--steps", 12, "--out", out, *argv)
        lines = self.metrics(out)
        return ([l["loss"] for l in lines if "loss" in l], [l["val_loss"] for l in lines if "val_loss" in l])

    def close(self, a, b, bound=2e-6):  # losses of f32 programs that add in another order: some ulps, 6e-8 each
        for x, y in zip(a[0] + a[1], b[0] + b[1], strict=True):
            self.assertLess(abs(x - y), bound * abs(x))

    def test_all_alike_is_the_mean(self):
        self.write("plain.mg", TINY)
        self.compiles("plain.mg", "-o", "plain")
        plain = self.losses("./plain")
        self.assertNotIn("warning", self.trains("./plain", "--data", "text", "--dry-run").err)
        self.weigh([1] * 3000)
        self.assertIn("warning: text.weights is not read", self.trains("./plain", "--data", "text", "--dry-run").err)
        self.close(plain, self.losses("./train"))
        self.weigh([2.5] * 3000, "f")
        self.close(plain, self.losses("./train"))

    def test_any_microbatch(self):
        r = random.Random(4)
        self.weigh([r.choice((0, 0, 1, 3)) for _ in range(3000)])
        whole = self.losses("./train")
        self.weigh([float(b) for b in self.read("text.weights")], "f")
        self.assertEqual(whole, self.losses("./train"))
        for micro in (1, 2):
            self.write("micro.mg", WEIGHED.replace("microbatch 4", f"microbatch {micro}"))
            self.compiles("micro.mg", "-o", "micro")
            self.close(whole, self.losses("./micro"))

    def test_sums(self):
        """The losses of two masks that complete each other, put together, are the loss of all."""
        self.write("still.mg", WEIGHED.replace("cosine(peak = 1e-2, warmup = 5, steps = 50, floor = 1e-3)", "1e-12"))
        self.compiles("still.mg", "-o", "still")
        r = random.Random(5)
        mask = [r.choice((0, 1, 1)) for _ in range(3000)]
        seen = range(1, 8 * (2999 // 8) + 1) # targets of the windows in order
        sums = []
        for weights in ([1] * 3000, mask, [1 - m for m in mask]):
            self.weigh(weights)
            loss = self.losses("./still")[1][-1]
            sums.append(loss * sum(weights[i] for i in seen))
        self.assertLess(abs(sums[0] - sums[1] - sums[2]), 1e-6 * sums[0])

    def test_what_does_not_count_is_not_learnt(self):
        """This model sees one token back: one that is no counted target, nor before one, is as good as any."""
        mask = [i // 7 % 2 for i in range(3000)]
        self.weigh(mask)
        self.trains("./train", "--data", "text", "--steps", 6, "--out", "a")
        self.write("text", bytes(c if mask[i] or mask[min(i + 1, 2999)] else ord("#") for i, c in enumerate(self.bytes)))
        self.assertNotEqual(self.bytes, self.read("text"))
        self.trains("./train", "--data", "text", "--steps", 6, "--out", "b")
        name = "/ckpt/step-00000006/model.safetensors"
        self.assertEqual(self.read("a" + name), self.read("b" + name))

    def refused(self, word, code=65):
        r = self.trains("./train", "--data", "text", "--steps", 1, "--out", "none", code=code)
        self.assertIn(word, r.err)
        self.assertFalse(os.path.exists(self.path("none/metrics.jsonl")))

    def test_files(self):
        self.refused("text.weights: No such file")
        self.weigh([1] * 2999)
        self.refused("text.weights has 2999 bytes; for the 3000 tokens of text it has as many, or four times as many")
        self.weigh([0] * 3000)
        self.refused("all weights are 0")
        for bad, shown in ((-1.0, "-1"), (float("nan"), "nan"), (float("inf"), "inf")):
            self.weigh([1.0] * 2000 + [bad] + [1.0] * 999, "f")
            self.refused(f"entry 2000 is {shown}; weights are finite and not below 0")
        self.weigh([1] * 3000)
        os.mkdir(self.path("many"))
        for name in ("text", "text.weights"):
            os.rename(self.path(name), self.path("many/" + name))
        self.trains("./train", "--data", "many/*", "--val-fraction", 0.2, "--steps", 2, "--out", "r")
        self.assertIn("3000 tokens", self.trains("./train", "--data", "many/*", "--dry-run").out)


if __name__ == "__main__":
    mgctest.main()
