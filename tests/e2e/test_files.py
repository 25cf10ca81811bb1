"""What is no regular file in the place of one that mgc reads is refused at once, by name."""

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
        self.assertTrue("not a regular file" in r.err or "Is a directory" in r.err, r.err)

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

    def test_hub(self):
        os.mkdir(self.path("hub"))
        for name in ("config.json",):
            for _ in self.odd(f"hub/{name}"):
                self.refused("import-hf", "hub", says=name)


if __name__ == "__main__":
    mgctest.main()
