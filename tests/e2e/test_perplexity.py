"""--perplexity: every token of a file but its first, once. Against the loss by hand, against windows of their own size, under
layouts, with weights of targets, of packed documents."""

import json
import math
import os
import random
import struct

import layouts
import mgctest
from mgctest import TINY, some
from test_weights import LLAMA, llama_tensors, numbers, packed, read_safetensors, safetensors

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")


class Perplexity(mgctest.Case):
    def small(self, name="p", seq=24, layout=None, more=(), weighs=False):
        """llama_small in float64, with weights at which contexts matter."""
        with open(os.path.join(PARITY, "llama_small.mg"), encoding="utf-8") as f:
            text = f.read().replace("normal(0.02", "normal(0.4").replace("precision f32", "precision f64")
        text = text.replace("cosine(peak = 3e-3, warmup = 5, steps = 20, floor = 3e-4)", "constant(peak = 1e-2, steps = 20)")
        if weighs:
            text = text.replace(": token(vocab))", ": token(vocab), weight[batch, seq])", 1).replace("next(tokens))\n}", "next(tokens), weight)\n}", 1)
        self.write(name + ".mg", text)
        if layout:
            self.write("l.mg", layouts.text(layout))
        self.compiles(name + ".mg", "-D", f"seq={seq}", "-D", "batch=8", *(("--layout", "./l.mg") if layout else ()), *more, "-o", name)

    def told(self, *argv, code=0):
        r = self.trains(*argv, "--threads", 1, timeout=300, code=code)
        return r, [json.loads(line) for line in r.out.splitlines() if line.startswith("{")]

    def close(self, a, b, bound=1e-12):
        self.assertLessEqual(abs(a - b), bound * abs(a), (a, b))

    def of_windows(self, data, seq):
        """The sum of nats by the evaluation of training: whole windows, then a program for the rest."""
        whole, rest = divmod(len(data) - 1, seq)
        nats = 0
        for n, first, size in ((whole, 0, seq), (1, whole * seq, rest)):
            if n and size:
                self.small("one", seq=size)
                self.write("part", data[first:first + n * size + 1])
                self.trains("./one", "--data", "part", "--val", "part", "--steps", 1, "--lr", 0, "--out", f"out{size}", "--threads", 1)
                nats += self.metrics(f"out{size}")[-1]["val_loss"] * n * size
        return nats

    def test_by_hand(self):
        """A model without context: the loss of each pair of bytes by Python."""
        self.write("t.mg", TINY.replace("precision f32", "precision f64"))
        self.compiles("t.mg", "-o", "t")
        self.text(1000)
        self.trains("./t", "--data", "text1.txt", "--steps", 3, "--threads", 1)
        w = {k: (shape, struct.unpack(f"<{len(d) // 8}d", d)) for k, (_, shape, d) in
             read_safetensors(self.read("run/ckpt/step-00000003/model.safetensors")).items()}
        embed, head = w["embed.weight"][1], w["head.weight"][1]

        def nats(a, b):
            x = [math.tanh(v) for v in embed[16 * a:16 * a + 16]]
            z = [sum(x[i] * head[256 * i + c] for i in range(16)) for c in range(256)]
            most = max(z)
            return math.log(sum(math.exp(v - most) for v in z)) + most - z[b]
        r = random.Random(7)
        sizes = [2, 8, 9, 10, 33, 75]
        for n in sizes:
            self.write(f"f{n:03}", bytes(r.randrange(256) for _ in range(n)))
        out, lines = self.told("./t", "--resume", "--perplexity", "f*")
        self.assertEqual([l["file"] for l in lines], [f"f{n:03}" for n in sizes] + ["all"])
        want, targets = 0, 0
        for n, line in zip(sizes, lines):
            data = self.read(f"f{n:03}")
            sum_ = sum(nats(a, b) for a, b in zip(data, data[1:]))
            self.close(sum_ / (n - 1), line["loss"])
            self.close(math.exp(sum_ / (n - 1)), line["perplexity"])
            self.close(sum_ / (n - 1) / math.log(2), line["bits_per_byte"])
            self.assertEqual((line["tokens"], line["step"]), (n - 1, 3))
            self.assertIn(f"f{n:03}: loss {line['loss']:.6f}, perplexity", out.out)
            want, targets = want + sum_, targets + n - 1
        self.close(want / targets, lines[-1]["loss"])
        self.assertEqual(lines[-1]["tokens"], targets)
        before = sorted(os.listdir(self.path("run")))
        again, _ = self.told("./t", "--init", "run/ckpt/step-00000003", "--perplexity", "f075")
        self.assertIn(f"f075: loss {lines[5]['loss']:.6f}", again.out)
        self.assertEqual(before, sorted(os.listdir(self.path("run"))))

    def test_context(self):
        """Each target is seen from its window, also those behind the last whole one."""
        self.text(24 * 9 + 6)
        data = self.read("text1.txt")
        self.small()
        for n in some((len(data), 24 * 8 + 1, 24 + 2, 7), 2):
            self.write("f", data[:n])
            _, (line,) = self.told("./p", "--perplexity", "f")
            self.close(self.of_windows(data[:n], 24) / (n - 1), line["loss"], 1e-9)
            self.assertEqual(line["tokens"], n - 1)

    def test_layouts(self):
        self.text(24 * 9 + 6)
        data = self.read("text1.txt")
        self.write("f", data)
        self.small()
        _, (want,) = self.told("./p", "--perplexity", "f")
        for name in some(layouts.LAYOUTS, 3):
            with self.subTest(layout=name):
                self.small("q", layout=name)
                _, (line,) = self.told("./q", "--perplexity", "f")
                self.close(want["loss"], line["loss"], 1e-9)

    def test_weights(self):
        self.text(24 * 9 + 6)
        data = self.read("text1.txt")
        self.write("f", data)
        self.small("w", weighs=True)
        self.small()
        _, (plain,) = self.told("./p", "--perplexity", "f")
        _, (line,) = self.told("./w", "--perplexity", "f")
        self.close(plain["loss"], line["loss"], 1e-9)
        # Of one half and of the other half by weights: together they are all.
        parts = []
        for k in (0, 1):
            self.write("f.weights", bytes(int((i * 7 % 10 < 4) == k) for i in range(len(data))))
            parts.append(self.told("./w", "--perplexity", "f")[1][0])
        self.assertNotEqual(parts[0]["loss"], parts[1]["loss"])
        self.assertEqual(sum(p["tokens"] for p in parts), len(data) - 1)
        self.close(sum(p["tokens"] * p["loss"] for p in parts) / (len(data) - 1), plain["loss"], 1e-9)
        self.write("f.weights", bytes(len(data)))
        self.assertIn("all weights are 0", self.told("./w", "--perplexity", "f", code=65)[0].err)

    def test_packed(self):
        """A file of bytes is one document: its pieces are the windows of a program that does not pack."""
        os.mkdir(self.path("hf"))
        self.write("hf/config.json", json.dumps(LLAMA))
        self.write("hf/model.safetensors", safetensors({n: ("F32", shape, packed(numbers(shape, i), "F32"))
                                                                for i, (n, shape) in enumerate(llama_tensors(LLAMA).items())}))
        self.text(24 * 9 + 6)
        lines = []
        for name, more in (("a", ()), ("b", ("--packed",))):
            self.compiles("import-hf", *more, "hf", "-o", name + ".mg")
            self.compiles(name + ".mg", "-D", "seq=24", "--precision", "f64", "-o", name)
            lines.append(self.told("./" + name, "--init", "hf", "--perplexity", "text1.txt")[1][0])
        self.assertEqual(lines[0]["tokens"], lines[1]["tokens"])
        self.close(lines[0]["loss"], lines[1]["loss"], 1e-9)

    def test_after_training(self):
        self.small()
        self.text(3000)
        self.write("f", self.read("text1.txt")[:500])
        for more in ((), ("--perplexity", "f")):
            _, lines = self.told("./p", "--data", "text1.txt", "--steps", 2, "--out", f"o{len(more)}", *more)
        _, again = self.told("./p", "--resume", "--out", "o2", "--perplexity", "f")
        self.assertEqual(lines, again)
        self.assertEqual(lines[0]["step"], 2)
        self.assertEqual(*(self.read(f"o{k}/ckpt/step-00000002/model.safetensors") for k in (0, 2)))

    def test_refused(self):
        self.small()
        self.text(600)
        self.assertIn("nothing-there", self.told("./p", "--perplexity", "nothing-there", code=65)[0].err)
        self.write("one", b"x")
        self.assertIn("one", self.told("./p", "--perplexity", "one", code=65)[0].err)
        self.told("./p", "--data", "text1.txt", "--steps", 1, "--perplexity", "none", code=65)
        self.assertFalse(os.path.exists(self.path("run/metrics.jsonl")))
        self.assertIn("weights", self.told("./p", "--perplexity", "0.5:text1.txt", code=2)[0].err)
        self.compiles("p.mg", "--generate", "-o", "gen")
        self.assertIn("without an evaluation program", self.told("./gen", "--sample", 1, "--perplexity", "text1.txt", code=2)[0].err)


if __name__ == "__main__":
    mgctest.main()
