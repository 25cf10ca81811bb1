"""Depth stays symbolic: 5000 layers cost what 500 do, in compile time, dumps and emitted source.

With few layers a sum over all of a parameter can be small enough for one kernel where it otherwise
takes two; beyond that the programs are the same but for numbers."""

import os
import re

import mgctest
from mgctest import model

LAYERS = (500, 5000)
LARGE = "--device=cpu2t"


class Depth(mgctest.Case):
    def test_emitted_source(self):
        two, few, many = (self.compiles(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--emit=c").out
                          for n in (2, *LAYERS))
        self.assertLess(len(many), 1.1 * len(two))
        # A line that is broken because its numbers are wide is no more source.
        self.assertLess(abs(len(few.splitlines()) - len(many.splitlines())), 0.01 * len(few.splitlines()))
        self.assertLess(len(many), 1.01 * len(few))
        # Beside numbers, and where lines are broken, the two programs are one.
        few, many = (re.sub(r"(?m)^.*fingerprint.*$", "", text) for text in (few, many))
        plain = [re.sub(r"[\s\\*]+", "", re.sub(r"-?\b\d[\d.e+-]*", "0", text)) for text in (few, many)]
        self.assertEqual(*plain)

    def test_kernels_in_c(self):
        """The kernels, too: as many lines, but where a loop over all layers is long enough to be cut."""
        few, many = (self.compiles(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--emit=c", "--with-kernels").out
                     for n in LAYERS)
        self.assertLess(abs(len(few.splitlines()) - len(many.splitlines())), 0.01 * len(few.splitlines()))
        self.assertLess(abs(len(few) - len(many)), 0.02 * len(few))

    def test_emitted_source_is_short(self):
        """The step stands first, no line is too long, and kernels have the names of what they do."""
        text = self.compiles(model("llama_mini.mg"), LARGE, "--emit=c").out
        lines = text.splitlines()
        self.assertLessEqual(len(lines), 910)
        self.assertLessEqual(max(map(len, lines)), 110)
        step = text.index("void mg_step(mg_run *r)")
        for table in ("mg_gemm_desc\n", "mg_tensor tensors[]", "mg_action actions[]", "mg_death deaths[]"):
            self.assertLess(step, text.index(f"static const {table}"), table)
        kernels = re.findall(r"\b[kd]_\w+", " ".join(re.findall(r"(?m)^extern mg_kernel[^;]*", text)))
        self.assertLessEqual({"k_rmsnorm", "d_rmsnorm", "k_rope", "k_swiglu", "d_swiglu", "k_adamw"}, set(kernels))
        with open(os.path.join(mgctest.SOURCE, "ir", "ops.def"), encoding="utf-8") as f:
            ops = set(re.findall(r"(?m)^(?:PRIMITIVE|COMPOSED|OP|LIBRARY|COLLECTIVE)\((\w+),", f.read()))
        self.assertIn("add", ops)
        bare = [k for k in kernels if re.sub(r"_\d+$", "", k)[2:] in ops and k[-1].isdigit()]
        self.assertEqual(bare, [])

    def test_dumps(self):
        few, many = (self.compiles(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--print-after=all").out
                     for n in LAYERS)
        self.assertEqual(len(few.splitlines()), len(many.splitlines()))

    def test_time(self):
        few, many = (self.work(model("llama_mini.mg"), "-D", f"layers={n}", LARGE, "--check") for n in (2, 200))
        self.assertLess(many, 1.5 * few + 0.02, f"{few:.3f} s for 2 layers, {many:.3f} s for 200")

    def test_check_of_a_large_model(self):
        self.assertLess(self.work(model("llama7b.mg"), "--check", "--device=cpu2t"), 0.2)


if __name__ == "__main__":
    mgctest.main()
