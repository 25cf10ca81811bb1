"""Programs that generate on GPUs, run by the shim (tests/cuda_shim): the logits of processors, from caches of windows, latent vectors and
halves."""

import json
import re
import struct
import unittest

import mgctest
import shim

# The last one's latent rows are longer than tiles of attention.
MODELS = ("gemma3",), ("deepseek",), ("gemma2",), ("llama_mini",), ("deepseek", "-D", "latent=256")
PROMPT = "In the beginning God created the heaven and the earth. And the earth was without form"  # longer than windows of 64
WITHIN = {"f32": 1e-5, "bf16": 3e-2}


class GenerateCuda(shim.Case):
    def says(self, program, tokens):
        self.trains(program, "--init", "weights", "--sample", tokens, "--temperature", 0, "--prompt", PROMPT, "--logits", "l.st")
        data = self.read("l.st")
        n, = struct.unpack_from("<Q", data)
        rows, vocab = json.loads(data[8:8 + n])["logits"]["shape"]
        x = struct.unpack_from(f"<{rows * vocab}f", data, 8 + n)
        return [x[k * vocab:(k + 1) * vocab] for k in range(rows)]

    def caches(self, path, *options):
        size, unit = re.search(r"(?m)^  caches +([\d.]+) (\w+)$", self.compiles(path, *options, "--plan").out).groups()
        return float(size) * {"KiB": 1, "MiB": 1024}[unit]

    def test_as_processors(self):
        for model, *more in mgctest.some(MODELS, 2):
            path = f"{mgctest.SOURCE}/models/{model}.mg"
            kept = {}
            for precision, within in WITHIN.items():
                options = (*more, "--precision", precision, "--generate", "--sequences", 2, "--prefill", 16)
                self.both(path, *options)
                self.trains("./cpu", "--sample", 1, "--export", "weights")
                tokens = 12 if precision == "f32" else 3  # of halves the next one may be another
                for mine, theirs in zip(self.says("./gpu", tokens), self.says("./cpu", tokens), strict=True):
                    size = max(map(abs, theirs))
                    self.assertLess(max(abs(a - b) for a, b in zip(mine, theirs)), within * size, (model, precision))
                    if max(range(len(mine)), key=mine.__getitem__) != max(range(len(theirs)), key=theirs.__getitem__):
                        break
                kept[precision] = self.caches(path, *options, "--device", "h200")
                self.assertEqual(kept[precision], self.caches(path, *options))
                self.run_program("rm", "-r", self.path("weights"))
            if model != "deepseek":  # how often experts were chosen is counted in f32
                self.assertEqual(kept["f32"], 2 * kept["bf16"], model)


if __name__ == "__main__":
    unittest.main()
