"""Programs for aarch64, made on another machine and run under qemu-user: they compute what programs of this machine
compute, go on from each other's checkpoints, run on pages of 64 KiB, and multiply without detours."""

import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import mgctest  # noqa: E402
from mgctest import BUILD, model  # noqa: E402

EMULATE = ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu")
SMALL = (model("llama_mini.mg"), "-D", "layers=2", "-D", "seq=16", "-D", "batch=4", "--microbatch=2", "-D", "hidden=32",
         "-D", "ffn=64")


def loops(assembly):
    """The instructions of each innermost loop, with the name of its function."""
    for function in re.split(r"\n\n", assembly):
        head = re.match(r"\s*[0-9a-f]+ <(\w+)", function)
        lines = re.findall(r"^\s*([0-9a-f]+):\s+(.*)$", function, re.M)
        at = {address: i for i, (address, _) in enumerate(lines)}
        spans = []
        for i, (_, text) in enumerate(lines):
            jump = re.match(r"(?:b|b\.\w+|cbn?z|tbn?z)\s.*?\b([0-9a-f]+) <", text)
            if jump and at.get(jump.group(1), len(lines)) <= i:
                spans.append((at[jump.group(1)], i))
        for a, b in spans:
            if not any(a <= c and d <= b and (a, b) != (c, d) for c, d in spans):
                yield head.group(1), [text for _, text in lines[a:b + 1]]


class Cross(mgctest.Case):
    def losses(self, run):
        return [line["loss"] for line in self.metrics(run) if "loss" in line]

    def both(self, *options):
        self.compiles(*SMALL, *options, "-o", "here")
        self.compiles(*SMALL, *options, "--cpu=aarch64", "-o", "there")
        os.rename(self.text(20000), self.path("book.txt"))

    def emulated(self, *argv, options=()):
        return self.trains(*EMULATE, *options, "./there", "--data", "book.txt", *argv)

    def close(self, a, b, by):
        self.assertEqual(len(a), len(b))
        self.assertGreater(len(a), 0)
        for x, y in zip(a, b):
            self.assertLess(abs(x - y), by * abs(y))

    def test_trains(self):
        for precision, by in (("f32", 1e-6), ("bf16", 1e-3), ("f16", 1e-4), ("f64", 1e-12)):
            with self.subTest(precision):
                self.both(f"--precision={precision}")
                self.trains("./here", "--data", "book.txt", "--steps", "4", "--out", f"here-{precision}")
                self.emulated("--steps", "4", "--threads", "2", "--out", f"there-{precision}")
                self.close(self.losses(f"there-{precision}"), self.losses(f"here-{precision}"), by)

    def test_ranks_and_resume(self):
        """Two ranks; each goes on from the other's checkpoint; the page size changes no bit."""
        self.both("-D", "dp=2")
        self.trains("./here", "--data", "book.txt", "--steps", "4", "--save-every", "2", "--out", "a")
        self.emulated("--steps", "4", "--save-every", "2", "--out", "b")
        self.emulated("--steps", "4", "--out", "c", options=("-p", "65536"))
        self.assertEqual(self.losses("b"), self.losses("c"))
        self.close(self.losses("b"), self.losses("a"), 1e-6)
        whole = self.losses("a")
        for run in "ab":
            shutil.rmtree(self.path(f"{run}/ckpt/step-00000004"))
        self.emulated("--resume", "--out", "a")
        self.trains("./here", "--data", "book.txt", "--resume", "--out", "b")
        for run in "ab":
            self.close(self.losses(run), whole, 1e-6)

    def test_same_bits(self):
        """The same run twice, on other numbers of threads."""
        self.both()
        for threads in "13":
            self.emulated("--steps", "2", "--threads", threads, "--out", threads)
        self.assertEqual(self.losses("1"), self.losses("3"))

    def test_source(self):
        self.compiles(*SMALL, "--cpu=aarch64", "--emit=source", "-o", "tree")
        self.assertIn(b"Needs a C compiler for aarch64", self.read("tree/Makefile"))
        self.trains("make", "-C", "tree", "CC=aarch64-linux-gnu-gcc")
        with open(self.path("tree/train"), "rb") as f:
            self.assertEqual(f.read(20)[18:], b"\xb7\x00")  # e_machine: EM_AARCH64

    def test_refusals(self):
        r = self.mgc(*SMALL, "--cpu=aarch64", "-o", "p", env={"MGC_CC": "nobody"})
        self.assertEqual(r.returncode, 4, r.err)
        self.assertIn("set MGC_CC to a C compiler for aarch64", r.err)
        r = self.mgc(*SMALL, "--device=h100", "--cpu=x86-64-v3", "--emit=c", "-o", "p.c")
        self.assertIn("--cpu=x86-64 or --cpu=aarch64", r.err)
        r = self.mgc(*SMALL, "--cpu=aarch", "-o", "p")
        self.assertIn("not 'aarch'", r.err)
        home = self.path("home")
        shutil.copytree(os.path.join(BUILD, "lib/mgc"), home, ignore=shutil.ignore_patterns("aarch64"))
        r = self.mgc(*SMALL, "--cpu=aarch64", "-o", "p", env={"MGC_HOME": home})
        self.assertIn("this mgc has no runtime for aarch64", r.err)
        self.assertFalse(os.path.exists(self.path("p")))

    def test_tiles(self):
        """The loop of a tile: 14 rows by 2 vectors of multiply-adds, and no sum leaves its register."""
        library = os.path.join(BUILD, "lib/mgc/aarch64/libmgrt.a")
        text = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", library], capture_output=True,
                              check=True, text=True).stdout
        found = {}
        for function, body in loops(text):
            adds = [i for i in body if re.match(r"fmla\s+v\d+\.(4s|2d)", i)]
            if re.match(r"(tiles|panel)_", function) and adds:
                spills = [i for i in body if re.search(r"^(st|ld)\w*\s+q.*\[sp", i)]
                self.assertEqual(spills, [], function)
                self.assertFalse([i for i in body if re.match(r"f(madd|mul|add)\s+[sd]\d", i)], function)
                found[function] = max(found.get(function, 0), len(adds))
        for type_ in ("f32", "f64"):  # packed halves are floats: the same code
            self.assertEqual(found.get(f"tiles_{type_}_base"), 28, found)


if __name__ == "__main__":
    mgctest.main()
