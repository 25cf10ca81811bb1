"""Token files of every format, blended; and what is wrong with one is said by name."""

import array
import os
import struct
import time

import mgctest
from mgctest import TINY

VOCAB = 70000


def llmc(tokens, wide=True):
    magic, version, code = (20240801, 7, "I") if wide else (20240520, 1, "H")
    return struct.pack("<3i", magic, version, len(tokens)) + bytes(1012) + array.array(code, tokens).tobytes()


def megatron(documents, code=4):
    """The .idx and .bin of lists of tokens."""
    form = {1: "B", 3: "h", 4: "i", 5: "q", 8: "H"}[code]
    width = array.array(form).itemsize
    at, offsets = 0, []
    for d in documents:
        offsets.append(at)
        at += len(d) * width
    n = len(documents)
    index = (b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, n, n + 1) + struct.pack(f"<{n}i", *map(len, documents))
             + struct.pack(f"<{n}q", *offsets) + struct.pack(f"<{n + 1}q", *range(n + 1)))
    return index, b"".join(array.array(form, d).tobytes() for d in documents)


class Data(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("tiny.mg", TINY)
        self.compiles("tiny.mg", "-D", f"vocab={VOCAB}", "-o", "train")

    def takes(self, *argv, tokens, code=0):
        r = self.trains("./train", *argv, "--dry-run", code=code)
        self.assertIn(f"{tokens} tokens", r.out)

    def refused(self, *argv, word, code=65):
        r = self.trains("./train", *argv, "--steps", 1, "--out", "none", code=code)
        self.assertIn(word, r.err)
        self.assertFalse(os.path.exists(self.path("none/metrics.jsonl")))

    def test_formats(self):
        ids = [i * 37 % VOCAB for i in range(1000)]
        small = [i % 60000 for i in ids]
        self.write("a.bin", llmc(ids))
        self.takes("--data", "a.bin", tokens=1000)
        self.write("b.bin", llmc(small, wide=False))
        self.takes("--data", "b.bin", tokens=1000)
        self.write("c.raw", array.array("H", small).tobytes())
        self.takes("--data", "u16:c.raw", tokens=1000)
        self.write("d.raw", array.array("I", ids).tobytes())
        self.takes("--data", "u32:d.raw", tokens=1000)
        self.write("e.raw", bytes(range(100)))
        self.takes("--data", "u8:e.raw", tokens=100)
        for code in (1, 3, 4, 5, 8):
            most = {1: 255, 3: 30000, 8: 60000}.get(code, VOCAB)
            index, data = megatron([[t % most for t in ids[:300]], [], [t % most for t in ids[300:]]], code)
            self.write(f"m{code}.idx", index)
            self.write(f"m{code}.bin", data)
            self.takes("--data", f"m{code}.bin", tokens=1000)
        self.takes("--data", "m*", tokens=5000)

    def test_same_tokens_same_losses(self):
        """The format of the tokens makes no difference to the run."""
        ids = [i * i * 31 % VOCAB for i in range(2000)]
        self.write("a.bin", llmc(ids))
        self.write("b.raw", array.array("I", ids).tobytes())
        index, data = megatron([ids[:7], ids[7:1500], ids[1500:]])
        self.write("c.idx", index)
        self.write("c.bin", data)
        losses = []
        for k, source in enumerate(("a.bin", "u32:b.raw", "c.bin")):
            self.trains("./train", "--data", source, "--steps", 3, "--out", f"r{k}")
            losses.append([m["loss"] for m in self.metrics(f"r{k}") if "loss" in m])
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])

    def test_wrong(self):
        self.write("a.raw", bytes(2001))
        self.refused("--data", "u16:a.raw", word="a.raw has 2001 bytes, which is not a multiple of 2, the bytes of a token")
        self.refused("--data", "a.raw", word="u16:a.raw")
        self.write("b.bin", llmc([VOCAB] * 100))
        self.refused("--data", "b.bin", word=f"b.bin: token 0 is {VOCAB}")
        index, data = megatron([[5] * 50 + [-1] * 50])
        self.write("c.idx", index)
        self.write("c.bin", data)
        self.refused("--data", "c.bin", word="c.bin: token 50 is -1")
        good, data = megatron([[1] * 60, [2] * 40])
        self.write("c.bin", data)
        for index, word in ((good[:20], "no index"), (b"X" + good[1:], "no index of version 1"),
                            (good[:9] + struct.pack("<Q", 2) + good[17:], "no index of version 1"),
                            (good[:17] + b"\6" + good[18:], "of type 6"), (good[:17] + b"\xff" + good[18:], "of type 255"),
                            (good[:18] + struct.pack("<Q", 2 ** 63) + good[26:], "too few for the"),
                            (good[:26] + struct.pack("<Q", 2 ** 61) + good[34:], "too few for the"),
                            (good[:34] + struct.pack("<i", -5) + good[38:], "sequence 0 has -5 tokens"),
                            (good[:34] + struct.pack("<i", 2 ** 31 - 1) + good[38:], "sequence 0 has 2147483647 tokens"),
                            (good[:42] + struct.pack("<q", -8) + good[50:], "at byte -8"),
                            (good[:38] + struct.pack("<i", 39) + good[42:], "end at byte 396")):
            self.write("c.idx", index)
            self.refused("--data", "c.bin", word=word)

    def test_sources(self):
        self.write("a.raw", array.array("H", [1] * 1000).tobytes())
        self.write("b.raw", array.array("H", [2] * 1000).tobytes())
        self.takes("--data", "0.7:u16:a.raw", "--data", "0.3:u16:b.raw", tokens=2000)
        self.refused("--data", "0.7:u16:a.raw", "--data", "u16:b.raw", code=2, word="1 of 2 sources have a weight")
        self.refused("--data", "0:u16:a.raw", code=2, word="a weight is a number above 0")
        self.trains("./train", "--data", "3:u16:a.raw", "--data", "1:u16:b.raw", "--val-fraction", "0.1", "--steps", 9,
                    "--out", "r")
        r = self.trains("./train", "--data", "1:u16:a.raw", "--data", "1:u16:b.raw", "--val-fraction", "0.1",
                        "--steps", 10, "--out", "r", "--resume")
        self.assertIn("the weights of the data are not those of the resumed run", r.err)

    def test_blend_resumes_bit_for_bit(self):
        for k in range(3):
            self.write(f"{k}.raw", array.array("I", [(i * (k + 3)) % VOCAB for i in range(1500)]).tobytes())
        data = [a for k, w in enumerate((5, 3, 2)) for a in ("--data", f"{w}:u32:{k}.raw")]
        self.trains("./train", *data, "--steps", 12, "--out", "whole")
        self.trains("./train", *data, "--steps", 5, "--out", "parts")
        self.trains("./train", *data, "--steps", 12, "--out", "parts", "--resume")
        name = "ckpt/step-00000012/model.safetensors"
        self.assertEqual(self.read("whole/" + name), self.read("parts/" + name))

    def test_changed_while_read(self):
        import subprocess
        self.write("a.raw", array.array("H", [1] * 5000).tobytes())
        p = subprocess.Popen(["./train", "--data", "u16:a.raw", "--steps", "1000000", "--out", "r", "--log-every", "64"],
                             cwd=self.dir, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not os.path.exists(self.path("r/metrics.jsonl")) and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        with open(self.path("a.raw"), "ab") as f:
            f.write(bytes(2))
        _, err = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 65)
        self.assertIn("a.raw has 10002 bytes; it had 10000 when the program started", err.decode())
        self.assertTrue(os.listdir(self.path("r/ckpt")))


if __name__ == "__main__":
    mgctest.main()
