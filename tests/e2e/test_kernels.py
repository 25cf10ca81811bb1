"""--with-kernels: the emitted C with its kernels is the whole program. It is made by the line in its head, trains as the
program does whose kernels LLVM makes, and says so where there is nothing to write.

Sums have another order and exp and the like are the C library's, not its vector routines: f64 agrees to 1e-13, f32 to
1e-7, halves to the roundings that then fall the other way."""

import os
import re

import layouts
import mgctest
from mgctest import TINY, model, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
DROPOUT = TINY.replace("tanh(embed[tokens])", "dropout(tanh(embed[tokens]), p = 0.2)")
# Of losses and of gradients' norms, each to its own size.
BOUNDS = {"f64": (1e-13, 1e-13), "f32": (1e-7, 1e-6), "bf16": (5e-4, 5e-3), "f16": (5e-5, 1e-3)}
# Shipped models, in sizes that train in a second; the kernels are those of their blocks all the same.
SHIPPED = {
    "llama_mini.mg": ("layers=2", "seq=32", "batch=4"),
    "gpt2_124m.mg": ("layers=2", "heads=4", "head=16", "hidden=64", "vocab=256", "seq=32", "batch=4"),
    "mixtral_mini.mg": ("layers=2", "seq=32", "batch=4"),
    "qwen3_0_6b.mg": ("layers=2", "hidden=64", "ffn=96", "vocab=256", "seq=32", "batch=4"),
    "mlp.mg": (),
}


@mgctest.in_turns_of(2)
class Kernels(mgctest.Case):
    def run_of(self, program, steps, *more):
        self.trains(f"./{program}", "--data", "text1.txt", "--steps", steps, "--threads", 2, "--out", f"run-{program}",
                    *more)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(f"run-{program}") if "loss" in l]

    def agree(self, precision, *argv, steps=10, more=()):
        self.compiles(*argv, "--precision", precision, "-o", "llvm")
        self.compiles_in_c("c", *argv, "--precision", precision)
        want, got = self.run_of("llvm", steps, *more), self.run_of("c", steps, *more)
        self.assertEqual(len(want), steps)
        for k, bound in enumerate(BOUNDS[precision]):
            off = max(abs(a[k] - b[k]) / abs(a[k]) for a, b in zip(want, got, strict=True))
            self.assertLessEqual(off, bound, "loss" if k == 0 else "grad_norm")

    def test_small_models(self):
        """All blocks of the three families; of the precisions f64 and another, which turns."""
        self.text(6000)
        for name in ("llama_small.mg", "gpt2_small.mg", "mixtral_small.mg", "mlp_small.mg"):
            for precision in ("f64", *some(("f32", "bf16", "f16"))):
                with self.subTest(model=name, precision=precision):
                    self.agree(precision, os.path.join(PARITY, name))

    def test_shipped_models(self):
        self.text(20000)
        for name, sizes in SHIPPED.items():
            with self.subTest(model=name):
                self.agree("f32", model(name), *(w for s in sizes for w in ("-D", s)), steps=4)

    def test_random_numbers(self):
        """Dropout, whose masks are of the same numbers."""
        self.text(4000)
        for precision in ("f64", "f32"):
            with self.subTest(precision):
                self.agree(precision, self.write("dropout.mg", DROPOUT), steps=20)

    def test_evaluation_and_sample(self):
        """The kernels of the other two programs: the same val_loss, and the same drawn tokens."""
        self.text(6000)
        path, seen = os.path.join(PARITY, "llama_small.mg"), []
        self.compiles(path, "--precision", "f64", "-o", "llvm")
        self.compiles_in_c("c", path, "--precision", "f64")
        for program in ("llvm", "c"):
            r = self.trains(f"./{program}", "--data", "text1.txt", "--val", "text1.txt", "--steps", 20, "--sample", 60,
                            "--prompt", "the ", "--out", program + "-run")
            sampled = re.split(r"memory: planned.*\n", r.out)[1]
            self.assertGreater(len(sampled), 60)
            val = [m["val_loss"] for m in self.metrics(program + "-run") if "val_loss" in m]
            seen.append((val, sampled))
        self.assertGreater(len(seen[0][0]), 0)
        for a, b in zip(seen[0][0], seen[1][0], strict=True):
            self.assertLessEqual(abs(a - b), 1e-13 * a)
        self.assertEqual(seen[0][1], seen[1][1])

    def test_ranks(self):
        """Two ranks, whose kernels are of parts; a pipeline's as well."""
        self.text(6000)
        llama = os.path.join(PARITY, "llama_small.mg")
        for name in ("dp2_zero3", "tp2_sp", "pp2"):
            with self.subTest(layout=name):
                self.write(f"{name}.mg", layouts.text(name))
                self.agree("f64", llama, "--layout", f"./{name}.mg", "-D", "batch=8", more=("--threads", 1))

    def test_text(self):
        """A function for each kernel, over dims by name, below its formula; no line too long; the rest is as without."""
        argv = (model("llama_mini.mg"), "--device=cpu2t", "--emit=c")
        plain, whole = self.compiles(*argv).out, self.compiles(*argv, "--with-kernels").out
        declared = set(re.findall(r"\b[kd]_\w+", " ".join(re.findall(r"extern mg_kernel ([^;]*);", plain))))
        defined = re.findall(r"(?m)^/\* .*\*/\nvoid (\w+)\(void \*const \*args, int64_t begin, int64_t end\)\n\{", whole)
        defined += re.findall(r"(?m)^   .*\*/\nvoid (\w+)\(void", whole)
        self.assertEqual(sorted(declared), sorted(defined))
        self.assertLessEqual(max(map(len, whole.splitlines())), 110)
        self.assertIn("for (int64_t hidden = 0; hidden < 160; hidden++) {", whole)
        head, tail = whole.index("/* The kernels, in C"), whole.index("/* From here on, tables")
        rest = whole[whole.index("/* Generated kernels"):head] + whole[tail:]
        feature = re.compile(r'(?m)^.*cpu_features.*\n')
        self.assertEqual(feature.sub("", rest), feature.sub("", plain[plain.index("/* Generated kernels"):]))

    def test_names(self):
        """Dims and parameters may be called what C calls something else."""
        self.text(4000)
        text = re.sub(r"\bhidden\b", "double", TINY)
        for old, new in (("seq", "expf"), ("vocab", "NULL"), ("embed", "args"), ("head", "X_loss"), ("x", "begin")):
            text = re.sub(rf"(?<!\.)\b{old}\b(?!\.)", new, text)
        self.agree("f32", self.write("names.mg", text), steps=5)

    def test_large_model(self):
        """Seven billion parameters: places and offsets beyond 32 bits."""
        self.compiles(model("llama7b.mg"), "--device=cpu2t", "--emit=c", "--with-kernels", "-o", "large.c")
        r = self.run_program("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                             f"-I{mgctest.BUILD}/lib/mgc/include", "large.c")
        self.assertEqual((r.returncode, r.stderr), (0, b""), r.stderr[:2000])

    def test_refusals(self):
        path = self.write("tiny.mg", TINY)
        for argv, words in ((("--with-kernels", "-o", "x"), "--with-kernels is for the program as C"),
                            (("--emit=source", "--with-kernels", "-o", "x"), "--with-kernels is for the program as C"),
                            (("--emit=c", "--with-kernels", "--cpu=x86-64"), "--cpu is for kernels that LLVM makes"),
                            (("--device=h200", "--emit=c", "--with-kernels"), "--emit=cuda writes it")):
            with self.subTest(argv):
                r = self.mgc(path, *argv)
                self.assertEqual(r.returncode, 2)
                self.assertIn(words, r.err)
                self.assertEqual(r.out, "")
                self.assertFalse(os.path.exists(self.path("x")))


if __name__ == "__main__":
    mgctest.main()
