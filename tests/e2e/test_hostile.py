"""Bad sources are refused cleanly: an exit code of 1, a place, no crash, no hang, no file written."""

import os
import random
import time

import mgctest
from mgctest import TINY


class Hostile(mgctest.Case):
    def refused(self, text, codes=(1,)):
        f = self.write("bad.mg", text)
        start = time.monotonic()
        r = self.mgc(f, "-o", "train", timeout=60)
        self.assertIn(r.returncode, codes, r.err[-2000:])
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(os.listdir(self.dir), ["bad.mg"])
        self.assertLess(len(r.err), 100_000)
        return r

    def test_empty(self):
        for text in ("", "\n\n\n", "# nothing\n", "\0", "\ufeff"):
            self.refused(text)

    def test_nesting(self):
        for open_, close in (("(", ")"), ("-", ""), ("silu(", ")")):
            deep = open_ * 100_000 + "x" + close * 100_000
            r = self.refused(TINY.replace("tanh(embed[tokens])", deep))
            self.assertIn("bad.mg:6:", r.err)
        self.refused("block a(x) {" * 100_000)
        self.refused(TINY.replace("    x = tanh", "repeat hidden {" * 100_000 + "x = tanh"))

    def test_random_bytes(self):
        r = random.Random(7)
        for size in (1, 10, 1000, 100_000):
            self.refused(bytes(r.randrange(256) for _ in range(size)))
        words = TINY.split(" ")
        for _ in range(30):
            r.shuffle(words)
            self.refused(" ".join(words))

    def test_mutations(self):
        """Deleted, doubled and swapped characters: refused, or still a model; never a crash."""
        r = random.Random(11)
        for _ in range(200):
            text = TINY
            for _ in range(r.randint(1, 4)):
                i = r.randrange(len(text) - 1)
                text = r.choice((text[:i] + text[i + 1:], text[:i] + text[i] + text[i:],
                                 text[:i] + r.choice("(){}[],=~@#\"0-9\n\0") + text[i:]))
            f = self.write("bad.mg", text)
            self.assertIn(self.mgc(f, "--check", timeout=60).returncode, (0, 1, 3), text)
            self.assertEqual(os.listdir(self.dir), ["bad.mg"])

    def test_huge_dims(self):
        for n in (1 << 62, (1 << 63) - 1, 1 << 64, 10**40):
            self.refused(TINY.replace("hidden = 16", f"hidden = {n}"))
        self.refused(TINY.replace("hidden = 16", f"hidden = {1 << 31}"), codes=(1, 3))
        self.refused(TINY.replace("batch = 4", f"batch = {1 << 40}"), codes=(1, 3))

    def test_a_million_parameters(self):
        lines = "\n".join(f"    p{i} : param[hidden] = 0" for i in range(1_000_000))
        self.refused(TINY.replace("    x = tanh", lines + "\n    x = tanh"))

    def test_recursive_block(self):
        self.refused(TINY.replace("model tiny", "block f(x[hidden]) {\n    return f(x)\n}\n\nmodel tiny")
                     .replace("tanh(embed[tokens])", "f(embed[tokens])"))
        two = "block f(x[hidden]) {\n    return g(x)\n}\n\nblock g(x[hidden]) {\n    return f(x)\n}\n\nmodel tiny"
        self.refused(TINY.replace("model tiny", two).replace("tanh(embed[tokens])", "f(embed[tokens])"))

    def test_block_tree_that_doubles(self):
        """Thirty blocks, each calling the one before twice: 2^30 instances."""
        blocks = "block b0(x[hidden]) {\n    return tanh(x)\n}\n\n"
        for i in range(1, 31):
            blocks += f"block b{i}(x[hidden]) {{\n    return b{i - 1}(b{i - 1}(x))\n}}\n\n"
        self.refused(TINY.replace("model tiny", blocks + "model tiny")
                     .replace("tanh(embed[tokens])", "b30(embed[tokens])"))

    def test_long_things(self):
        self.refused("#" + "x" * 10_000_000)
        self.refused(TINY.replace('"embed.weight"', '"' + "e" * 1_000_000))

    def test_missing_input(self):
        for name in ("nothing.mg", "/", "/dev/zero"):
            r = self.mgc(name, "-o", "train")
            self.assertEqual(r.returncode, 2)
            self.assertEqual(os.listdir(self.dir), [])

    def test_bad_dump(self):
        text = self.compiles(self.write("bad.mg", TINY), "--print-after=lower").out
        r = random.Random(5)
        for _ in range(100):
            i, j = sorted(r.randrange(len(text)) for _ in range(2))
            cut = text[:i] + text[min(j, i + 40):] if r.random() < 0.5 else text[:i]
            f = self.write("bad.mgir", cut)
            code = self.mgc(f"--from={f}", "--check", timeout=60).returncode
            self.assertIn(code, (0, 1, 2, 3), cut[-300:])


class Names(mgctest.Case):
    """Names of a source that mean something to C, to the linker or to make are only names."""

    def test_c_keywords(self):
        names = ["int", "while", "main", "mg_main", "mg_step", "printf", "NULL", "restrict", "_Bool"]
        text = TINY.replace("tiny", "switch").replace("embed :", "double :").replace("embed[", "double[")
        text = text.replace("head  :", "return_ :").replace("@ head", "@ return_").replace("hidden", "goto")
        for i, name in enumerate(names):
            text = text.replace("    x = tanh", f"    {name} : param[goto] = 1\n    x = tanh", 1)
            text = text.replace("@ return_ over", f"* {name} @ return_ over", 1)
        f = self.write("if.mg", text)
        self.compiles(f, "-o", "train")
        self.trains("./train", "--data", self.text(4000), "--steps", 2)

    def test_external_names_are_escaped(self):
        evil = 'a\\b*/ %s %n ??/ $(touch x) `touch x` \u00e9 "'.replace('"', "")
        f = self.write("m.mg", TINY.replace("embed.weight", evil))
        r = self.mgc(f, "-o", "train")
        if r.returncode == 1:  # refusing such a name is as good
            self.assertIn("m.mg:", r.err)
            return
        self.assertEqual(r.returncode, 0, r.err)
        self.trains("./train", "--data", self.text(4000), "--steps", 2)
        self.assertNotIn("x", os.listdir(self.dir))


if __name__ == "__main__":
    mgctest.main()
