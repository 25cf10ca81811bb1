"""mgc refuses at once, by name, a path to read that is no regular file."""

import json
import os
import socket

import mgctest
from mgctest import TINY


class Files(mgctest.Case):
    def odd(self, name):
        """A pipe that nobody writes, a socket, a device and a directory, one after another."""
        path = self.path(name)
        kinds = [lambda: os.mkfifo(path), lambda: self.socket(path), lambda: os.symlink("/dev/zero", path),
                 lambda: os.mkdir(path)]
        for make in kinds:
            make()
            yield
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)

    def socket(self, path):
        here = os.getcwd()
        os.chdir(os.path.dirname(path))  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(os.path.basename(path))
        os.chdir(here)

    def refused(self, *args, says):
        r = self.mgc(*args, timeout=20)
        self.assertIn(r.returncode, (1, 2), r.err)
        self.assertIn(says, r.err)
        self.assertTrue("not a regular file" in r.err or "s a directory" in r.err, r.err)

    def test_inputs(self):
        self.write("m.mg", TINY)
        for _ in self.odd("x.mg"):
            self.refused("x.mg", "--check", says="'x.mg'")
            self.refused("m.mg", "--layout", "x.mg", "--check", says="x.mg")
        for _ in self.odd("x.json"):
            self.refused("m.mg", "--device", "x.json", "--check", says="x.json")
            self.refused("report", "x.json", says="'x.json'")
            self.refused("tok", "--tokenizer", "x.json", "-o", "c", "m.mg", says="x.json")
        for _ in self.odd("x.csv"):
            self.refused("pipeline", "x.csv", says="x.csv")
        for _ in self.odd("x.mgir"):
            self.refused("--from=x.mgir", "--check", says="x.mgir")

    def test_names_that_are_too_long(self):
        """A name too long for the file system is refused before anything is made, with no remedy that is none."""
        self.write("m.mg", TINY)
        for name in ("a" * 300, "a" * 252, "/".join(["b" * 200] * 25)):
            for more in ([], ["--emit=c"]) if len(name) == 252 else ([], ["--emit=c"], ["--emit=source"]):
                r = self.mgc("m.mg", *more, "-o", name)
                self.assertEqual(r.returncode, 4, r.err)
                self.assertIn("MG0543", r.err)
                self.assertIn("File name too long", r.err)
                self.assertNotIn("help:", r.err)
        r = self.mgc("m.mg", "-o", "none/x")
        self.assertEqual((r.returncode, "MG0543" in r.err, "help:" in r.err), (4, True, False), r.err)
        self.assertEqual(os.listdir(self.dir), ["m.mg"])
        r = self.mgc("a" * 300 + ".mg", "--check")
        self.assertEqual((r.returncode, "File name too long" in r.err), (2, True), r.err)

    def test_hub(self):
        os.mkdir(self.path("hub"))
        for name in ("config.json",):
            for _ in self.odd(f"hub/{name}"):
                self.refused("import-hf", "hub", says=name)

    HOSTILE = "\x1b]0;x\x07\x1b[31m\x9b2J\x7f\nmgc: note: all is well\r"

    def harmless(self, r, quoted=True):
        self.assertNotEqual(r.returncode, 70)
        if quoted:
            self.assertIn("\\x1b]0;x\\x07", r.err + r.out)
        for c in r.err + r.out:
            self.assertTrue(c == "\n" or (c >= " " and not "\x7f" <= c < "\xa0"), repr(r.err + r.out))
        self.assertNotIn("\nmgc: note: all", r.err + r.out)

    def safetensors(self, path, name):
        header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
        self.write(path, len(header).to_bytes(8, "little") + header + bytes(4))

    def test_text_of_files(self):
        """Messages quote the text of a file so that a terminal does not act on it."""
        x = self.HOSTILE
        os.mkdir(self.path("hub"))
        with open(os.path.join(os.path.dirname(__file__), "hf", "qwen3_0_6b.json"), encoding="utf-8") as f:
            config = json.load(f)
        for key in config:
            self.write("hub/config.json", json.dumps(config | {key: x}))
            self.harmless(self.mgc("import-hf", "hub"), quoted=key == "model_type")
        self.write("hub/config.json", json.dumps(config))
        index = "hub/model.safetensors.index.json"
        for file in (x, "../" + x):
            self.write(index, json.dumps({"weight_map": {x: file}}))
            self.harmless(self.mgc("import-hf", "hub"))
        os.unlink(self.path(index))
        self.safetensors("hub/model.safetensors", x)
        self.harmless(self.mgc("import-hf", "hub"), quoted=False)
        self.write("m.mg", TINY)
        self.write("device.json", json.dumps({x: 1}))
        self.harmless(self.mgc("m.mg", "--check", "--device", "device.json"))
        self.write("tokenizer.json", json.dumps({"model": {"type": x}}))
        self.harmless(self.mgc("tok", "--tokenizer", "tokenizer.json", "-o", "c", "m.mg"))
        self.harmless(self.mgc(f"{x}.mg", "--check"))
        # And in what a program says of its weights.
        self.compiles("m.mg", "-o", "train")
        r = self.trains(self.path("train"), "--data", "m.mg", "--init", "hub/model.safetensors", code=65)
        self.harmless(r)


if __name__ == "__main__":
    mgctest.main()
