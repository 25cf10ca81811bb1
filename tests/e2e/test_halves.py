"""bf16 and f16 on the processor: halves in memory, float arithmetic. Losses follow those of f32 as far as the roundings
of what products read and give allow, on each of the small models."""

import os

import mgctest

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")


class Halves(mgctest.Case):
    def losses(self, path, precision):
        self.compiles(path, "--precision", precision, "-o", precision)
        self.trains(f"./{precision}", "--data", "text1.txt", "--steps", 20, "--out", f"run-{precision}")
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(f"run-{precision}") if "loss" in l]

    def follows(self, model):
        self.text(6000)
        path = os.path.join(PARITY, model)
        exact = self.losses(path, "f32")
        self.assertEqual(len(exact), 20)
        for precision, bound in (("bf16", 1e-3), ("f16", 2e-4)):
            with self.subTest(precision):
                half = self.losses(path, precision)
                off = [max(abs(a[k] - b[k]) / a[k] for a, b in zip(exact, half, strict=True)) for k in (0, 1)]
                self.assertLess(off[0], bound)
                self.assertLess(off[1], 10 * bound)
                self.assertGreater(off[0], 1e-8)  # they were rounded

    def test_llama(self):
        self.follows("llama_small.mg")

    def test_gpt2(self):
        self.follows("gpt2_small.mg")

    def test_mlp(self):
        self.follows("mlp_small.mg")

    def test_mixtral(self):
        self.follows("mixtral_small.mg")


if __name__ == "__main__":
    mgctest.main()
