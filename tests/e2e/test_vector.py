"""The loops of the shipped models' kernels are vector code: where a kernel calls a function of libm
for one element, that is the remainder of a loop that calls its vector variant, and arithmetic on
floats is packed but for remainders and scalars. The code is of processors with AVX-512, whatever this one is: before, what is
chosen for each element is a jump over a load, and some short loops have one."""

import os
import re
import unittest

import mgctest
from mgctest import SHIPPED, few, model

SCALARS = {"exp", "pow"}  # AdamW's bias corrections, once a step


def units(assembly):
    """Name and text of each unit function."""
    for m in re.finditer(r'(?ms)^"?([\w.]+)\.unit"?:(.*?)^\.Lfunc_end', assembly):
        yield m.group(1), m.group(2)


class Vector(mgctest.Case):
    @unittest.skipUnless(os.uname().machine == "x86_64", "x86-64 assembly")
    def test_loops(self):
        for name in SHIPPED:
            with self.subTest(name):
                self.compiles(model(name), "--device=cpu2t", "--cpu=x86-64-v4", *few(name), "--emit=source", "-o", name)
                with open(self.path(f"{name}/kernels.s")) as f:
                    kernels = dict(units(f.read()))
                self.assertGreater(len(kernels), 10)
                for kernel, text in kernels.items():
                    calls = set(re.findall(r"call\w*\s+(\S+)", text))
                    # glibc's routine, or it on another number of lanes; and one lane of it.
                    vector = set(re.findall(r"_ZGV\w+_(\w+)@PLT|lane_([a-z]+)_\d+", " ".join(calls)))
                    vector = {a or b for a, b in vector}
                    # mg_round_bits draws the bits of many elements at once.
                    alone = {c for c in calls if not re.match(r"_ZGV|mem|lane_[a-z]+_\d+$|mg_round_bits@", c)}
                    self.assertTrue(all(c.startswith("lane_") for c in alone), alone)
                    alone = {c.removeprefix("lane_") for c in alone}
                    once = bool(alone & SCALARS)
                    alone -= SCALARS
                    straight = not re.search(r"\bj\w+\s", text)  # a unit that computes one number
                    self.assertTrue(straight or alone <= vector, (kernel, alone, vector))
                    packed = re.findall(r"\bv?(?:mul|add|sub|div|fn?m(?:add|sub)\d{3})p[sd]\b", text)
                    scalar = re.findall(r"\bv?(?:mul|add|sub|div|fn?m(?:add|sub)\d{3})s[sd]\b", text)
                    # A sum of a few partial sums is scalar, and so is what is done once a step (the norm).
                    loops = re.search(r"\bj(?!mp)\w+\s", text)
                    if loops and not kernel.startswith(("k_grad_", "k_cross_entropy")) and not once:
                        self.assertLessEqual(len(scalar), 2 * len(packed) + 1, kernel)

    @unittest.skipUnless(os.uname().machine == "x86_64", "x86-64 assembly")
    def test_one_exponent(self):
        """An argument that all calls of a routine share does not keep them from being vector calls."""
        self.write("m.mg", """dim vocab = 256, hidden = 512, seq = 16, batch = 4
            model m(tokens[batch, seq] : token(vocab)) {
                table : param[vocab, hidden] ~ normal(0.02)
                weight : param[vocab] ~ normal(0.02)
                loss = mean(weight[tokens] * mean(pow(2 + table[tokens], 0.3), over hidden))
            }
            train { optimizer sgd() frozen where rank >= 2 lr 1e-3 precision f32 }""")
        self.compiles("m.mg", "--device=cpu2t", "--cpu=x86-64-v4", "--emit=source", "-o", "m")
        with open(self.path("m/kernels.s")) as f:
            text = " ".join(text for _, text in units(f.read()))
        self.assertRegex(text, r"call\w*\s+(_ZGV\w+_powf@PLT|lane_powf_\d+)")


if __name__ == "__main__":
    mgctest.main()
