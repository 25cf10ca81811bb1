"""--prompts: texts in the log of a run, drawn the same each time, and the run has the same bits as without."""

import json
import os
import struct

import mgctest
from mgctest import TINY
import layouts

AVERAGED = TINY.replace("clip      1.0", "clip      1.0\n    average   0.9")


def events(path):
    """The texts of a TensorBoard file: (step, tag, text)."""
    def fields(data):
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
            elif key & 7 == 1:
                at += 8
                yield key >> 3, data[at - 8:at]
            elif key & 7 == 5:
                at += 4
                yield key >> 3, data[at - 4:at]
            else:
                n = varint()
                at += n
                yield key >> 3, data[at - n:at]
    with open(path, "rb") as f:
        data = f.read()
    at, out = 0, []
    while at < len(data):
        n, = struct.unpack_from("<Q", data, at)
        event = dict(fields(data[at + 12:at + 12 + n]))
        at += n + 16
        for value in (v for k, v in fields(event.get(5, b"")) if k == 1):
            value = dict(fields(value))
            if 8 in value:
                tensor, plugin = dict(fields(value[8])), dict(fields(dict(fields(value[9]))[1]))
                assert tensor[1] == 7 and plugin[1] == b"text" and dict(fields(dict(fields(tensor[2]))[2]))[1] == 1
                out.append((event[2], value[1].decode(), tensor[8].decode()))
    return out


class Prompts(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.text(3000)
        self.write("prompts", 'the \n"two\\nlines"\n\nend')
        self.write("m.mg", TINY)
        self.compiles("m.mg", "-o", "m")

    def samples(self, out):
        return {l["step"]: [(s["prompt"], s["text"]) for s in l["samples"]] for l in self.metrics(out) if "samples" in l}

    def bits(self, out, step):
        return [self.read(f"{out}/ckpt/step-{step:08}/{n}.safetensors") for n in ("model", "optimizer")]

    def run_to(self, steps, out, *argv, program="./m", code=0):
        return self.trains(program, "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, *argv, code=code)

    def test_log(self):
        r = self.run_to(9, "a", "--prompts", "prompts", "--sample-every", 4, "--sample", 12)
        got = self.samples("a")
        self.assertEqual(sorted(got), [4, 8, 9])
        for texts in got.values():
            self.assertEqual([p for p, _ in texts], ["the ", "two\nlines", "end"])
            self.assertTrue(all(t for _, t in texts))
        self.assertIn('step 4/9  sample 2: "two\\nlines" -> "', r.out)
        (log,) = (f for f in os.listdir(self.path("a")) if "tfevents" in f)
        shown = {(step, tag): text for step, tag, text in events(self.path("a/" + log))}
        self.assertEqual(set(shown), {(s, f"sample/{k}") for s in (4, 8, 9) for k in (1, 2, 3)})
        self.assertTrue(shown[4, "sample/2"].startswith("two\nlines"))
        # The run is that without samples; another run draws the same.
        self.run_to(9, "b")
        self.assertEqual(self.bits("a", 9), self.bits("b", 9))
        self.run_to(9, "c", "--prompts", "prompts", "--sample", 12, "--threads", 2)
        self.assertEqual(sorted(self.samples("c")), list(range(1, 10)))
        self.assertEqual({s: self.samples("c")[s] for s in got}, got)
        seeds = self.run_to(9, "d", "--prompts", "prompts", "--sample", 12, "--sample-every", 0, "--seed", 3)
        self.assertEqual(list(self.samples("d")), [9])
        self.assertNotEqual(self.samples("d")[9], got[9], seeds.out)

    def test_text_k_draws_by_k(self):
        self.write("same", "x\nx\nx\n")
        self.run_to(2, "a", "--prompts", "same", "--sample", 8)
        self.write("same", "x\ny\nx\n")
        self.run_to(2, "b", "--prompts", "same", "--sample", 8)
        for step, texts in self.samples("a").items():
            self.assertEqual(len(set(texts)), 3)
            self.assertEqual(texts[::2], self.samples("b")[step][::2])

    def test_greedy_is_a_look(self):
        self.run_to(20, "a", "--prompts", "prompts", "--sample", 10, "--sample-every", 0, "--temperature", 0, "--lr", 0.1)
        for prompt, text in self.samples("a")[20]:
            r = self.trains("./m", "--resume", "--out", "a", "--sample", 10, "--prompt", prompt, "--temperature", 0)
            self.assertEqual(r.out, text + "\n")

    def test_with_evaluations(self):
        self.run_to(10, "a", "--val-fraction", 0.2, "--eval-every", 5, "--prompts", "prompts")
        self.assertEqual(sorted(self.samples("a")), [5, 10])
        self.assertEqual([s for l in self.metrics("a") for s in [l["step"]] if "val_loss" in l], [5, 10])
        r = self.run_to(12, "a", "--resume", "--prompts", "prompts", "--sample-every", 3)
        self.assertEqual(sorted(self.samples("a")), [5, 10, 12], r.out)

    def test_averages(self):
        self.write("v.mg", AVERAGED)
        self.compiles("v.mg", "-o", "v")
        more = ("--prompts", "prompts", "--sample-every", 0, "--temperature", 0, "--lr", 0.1)
        for out, with_them in (("a", ()), ("b", ("--eval-with", "average"))):
            self.run_to(8, out, *more, *with_them, program="./v")
        self.assertEqual(self.bits("a", 8), self.bits("b", 8))
        for prompt, text in self.samples("b")[8]:
            r = self.trains("./v", "--resume", "--out", "b", "--sample", 64, "--prompt", prompt, "--temperature", 0, "--eval-with", "average")
            self.assertEqual(r.out, text + "\n")

    def test_ranks(self):
        with open(os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg"), encoding="utf-8") as f:
            self.write("s.mg", f.read().replace("precision f32", "precision f64"))
        texts = []
        for name in ("one", "dp2_tp2"):
            self.write("l.mg", layouts.text(name))
            self.compiles("s.mg", "-D", "batch=8", "--layout", "./l.mg", "-o", name)
            self.run_to(3, "out-" + name, "--prompts", "prompts", "--sample", 8, program="./" + name)
            texts.append(self.samples("out-" + name))
        self.assertEqual(*texts)
        self.assertEqual(sorted(texts[0]), [1, 2, 3])

    def test_tokens(self):
        self.write("t.mg", TINY.replace("vocab = 256", "vocab = 300"))
        self.compiles("t.mg", "-o", "t")
        self.write("ids", "1 2 3\n299, 0\n")
        self.write("d.bin", struct.pack("<500H", *(i * 7 % 300 for i in range(500))))
        self.trains("./t", "--data", "u16:d.bin", "--steps", 1, "--prompts", "ids", "--sample", 3)
        for (prompt, text), want in zip(self.samples("run")[1], ("1 2 3", "299, 0"), strict=True):
            self.assertEqual((prompt, len(text.split())), (want, 3))
        self.write("ids", "1 300\n")
        self.assertIn("token ids (0 to 299)", self.trains("./t", "--data", "u16:d.bin", "--steps", 1, "--prompts", "ids", "--out", "no", code=2).err)

    def test_refused(self):
        for text, words in (("", "has no line"), ("\n\n", "has no line"), ('"open\n', "a JSON string"), ('"a" b\n', "a JSON string"),
                            ("a\0b", "a byte of 0"), ("x\n" * 65, "more than 64")):
            self.write("p", text)
            self.assertIn(words, self.run_to(1, "no", "--prompts", "p", code=65).err)
        self.assertIn("No such file", self.run_to(1, "no", "--prompts", "none", code=65).err)
        for argv, words in ((("--sample-every", 2), "needs --prompts"), (("--prompts", "prompts", "--prompt", "x"), "goes without --prompt"),
                            (("--prompts", "prompts", "--chat"), "goes without --chat")):
            self.assertIn(words, self.run_to(1, "no", *argv, code=2).err)
        self.assertIn("needs --data", self.trains("./m", "--prompts", "prompts", code=2).err)
        self.assertFalse(os.path.exists(self.path("no")))


if __name__ == "__main__":
    mgctest.main()
