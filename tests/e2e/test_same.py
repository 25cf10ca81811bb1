"""The same input gives the same bytes: twice, from another folder, and by way of every dump."""

import os
import re

import mgctest
from mgctest import MODELS, SHIPPED, few, model


@mgctest.in_turns_of(2)
class Same(mgctest.Case):
    def emit(self, *argv, **more):
        return self.compiles(*argv, "--emit=c", **more).out

    def test_twice(self):
        for name in ("mlp.mg", "gpt2_124m.mg", "llama_mini.mg"):
            first = self.emit(model(name))
            self.assertEqual(first, self.emit(model(name), env={"MALLOC_PERTURB_": "77", "LC_ALL": "C"}))
            self.assertGreater(len(first.splitlines()), 100)

    def test_short(self):
        """Whatever the depth: the longest of models with one kind of layer, with experts, has 1601 lines. Of layers of several
        kinds each that is written has lines of its own: three in deepseek.mg, of 4 layers or of 60; two towers have two. Two of
        three in deepseek_v3.mg choose among groups of experts."""
        for name in SHIPPED:
            lines = self.emit(model(name), "--device=cpu2t", *few(name)).splitlines()
            text = self.read(model(name))
            kinds = b" at l " in text or text.count(b"repeat ") > 1
            self.assertLess(len(lines), 5300 if name == "deepseek_v3.mg" else 3500 if kinds else 1700, name)

    def test_kernels_and_plan_twice(self):
        for option in ("--emit=llvm", "--plan", "--plan=json", "--schedule", "--print-after=all"):
            first, second = (self.compiles(model("llama_mini.mg"), option).out for _ in range(2))
            self.assertEqual(first, second, option)

    def test_nothing_of_this_machine(self):
        os.symlink(MODELS, self.path("models"))
        text = self.emit("models/mlp.mg")
        self.assertIn("models/mlp.mg", text)
        for word in (self.dir, mgctest.SOURCE, os.environ.get("HOME", "/root"), "/tmp"):
            self.assertNotIn(word, text)

    def test_dumps_go_on(self):
        """From the text after any pass mgc makes the program that it makes from the model."""
        for name in ("mlp.mg", "llama_mini.mg"):
            straight = self.emit(model(name))
            dumps = re.split(r"(?m)^(?=# after )", self.compiles(model(name), "--print-after=all").out)[1:]
            self.assertGreater(len(dumps), 4)
            for dump in dumps:
                f = self.write("dump.mgir", dump)
                self.assertEqual(straight, self.emit(f"--from={f}"), dump.splitlines()[0])

    def test_print_is_a_fixed_point(self):
        dumps = self.compiles(model("llama_mini.mg"), "--print-after=all").out
        parts = re.split(r"(?m)^(?=# after )", dumps)[1:]
        rest = self.compiles("--from=" + self.write("dump.mgir", parts[0]), "--print-after=all").out
        self.assertEqual("".join(parts[1:]), rest)

    def test_source_tree_builds(self):
        """--emit=source is all that it takes, where mgc is not: a compiler and make."""
        self.compiles(model("mlp.mg"), "--emit=source", "-o", "tree")
        self.assertEqual(sorted(os.listdir(self.path("tree"))),
                         ["Makefile", "abi.h", "abi_types.h", "kernels.s", "libmgrt.a", "program.c"])
        self.compiles(model("mlp.mg"), "-o", "train")
        r = self.run_program("make", "-C", "tree", env={"MGC_HOME": "/nowhere"})
        self.assertEqual(r.returncode, 0, r.stderr)
        data = self.text(20_000)
        for program, run in (("tree/train", "a"), ("./train", "b")):
            self.trains(program, "--data", data, "--steps", 5, "--out", run)
        losses = [[m["loss"] for m in self.metrics(run) if "loss" in m] for run in ("a", "b")]
        self.assertEqual(*losses)
        r = self.mgc(model("mlp.mg"), "--emit=source", "-o", "tree")
        self.assertEqual(r.returncode, 2)
        self.assertIn("MG0544", r.err)


if __name__ == "__main__":
    mgctest.main()
