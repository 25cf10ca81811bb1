"""Programs whose kernels are run from the PTX that nvcc makes of them (tests/ptx): they follow the processor's losses. One
program a run, for one architecture; all of them in the full run. Without nvcc there is nothing to run."""

import os
import re
import shutil
import unittest

import mgctest
import shim
from mgctest import FULL, TURN, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
MODELS = ["llama_small.mg", "gpt2_small.mg", "mixtral_small.mg"]
USUAL = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
NVCC = os.environ.get("MGC_NVCC") or shutil.which("nvcc") or (USUAL if os.path.exists(USUAL) else None)


@unittest.skipUnless(NVCC, "there is no nvcc")
class Ptx(shim.Case):
    def test_programs(self):
        """The losses of 20 steps, to 2e-4 in f32 and to 1e-3 in bf16, and those of the shim's text to 1e-5 in f32."""
        cases = [(m, p, arch) for m in MODELS for p, arch in (("f32", "80"), ("bf16", "80"), ("fp8", "89"), ("f32", "90a"), ("bf16", "90a"),
                                                              ("fp8", "90a"))]
        for model, precision, arch in some(cases):
            with self.subTest(model, precision=precision, arch=arch):
                self.follows(os.path.join(PARITY, model), precision, arch)

    def test_base(self):
        """Matrices of layers that one fused kernel makes of their codes in NF4 or int8."""
        with open(os.path.join(PARITY, "adapter_small.mg"), encoding="utf-8") as f:
            text = f.read()
        for kind, precision, arch in some((("nf4", "f32", "80"), ("int8", "bf16", "80"), ("nf4", "bf16", "90a"), ("int8", "f32", "90a"), ("nf4", "bf16", "80"),
                                           ("int8", "f32", "80"), ("nf4", "f32", "90a"), ("int8", "bf16", "90a")), 1):
            with self.subTest(kind, precision=precision, arch=arch):
                self.write("small.mg", text.replace("base = nf4", f"base = {kind}"))
                more = ("-D", "head=64") if precision == "f32" else ()  # bf16 has it
                self.follows(self.path("small.mg"), precision, arch, "--adapter", "base", "-D", "hidden=64", "-D", "ffn=128", *more)
                self.assertIn({"nf4": "mg_nf4", "int8": "0.00787401"}[kind], self.read("kernels.cu").decode())

    def ptx(self, arch):
        """kernels.ptx, of kernels.cu."""
        root = mgctest.SOURCE
        r = self.run_program(NVCC, "-ptx", "-O3", "-std=c++17", "-arch=sm_" + arch, f"-I{root}/kernels/cuda", f"-I{root}/runtime",
                             "kernels.cu", "-o", "kernels.ptx")
        self.assertEqual(r.returncode, 0, r.stderr.decode(errors="replace")[-4000:])

    def test_products_are_apart(self):
        """nvcc, and ptxas after it, may make one instruction of a product and a sum; of two products and their sum either one, as the
        text around it is. In generated kernels nothing is left to them: the same expression has the same bits in any kernel, so
        nothing depends on what is fused, stored or offloaded."""
        self.compiles(os.path.join(PARITY, "gpt2_small.mg"), "--device", "h100", "--precision", "bf16", "--emit=cuda", "-o", "kernels.cu")
        self.ptx("90a")
        found = dict(re.findall(r"\.entry ([kd]_\w+)\((.*?)\n\}", self.read("kernels.ptx").decode(), re.S))
        text = self.read("kernels.cu").decode()
        bodies = dict(re.findall(r"\b([kd]_\w+)\([^\n]*\)\n\{(.*?)\n\}", text, re.S))
        self.assertGreater(len(found), 20)
        self.assertTrue(any("mul.rn.f32" in body for body in found.values()))
        for name, body in found.items():
            if not re.search(r"\b(sin|cos|pow|exp|log|tanh|erf)f?\(", bodies[name]):  # which are products and sums of the library's
                self.assertEqual(re.findall(r"\bmul\.f(?:32|64)", body), [], name)

    def follows(self, path, precision, arch, *more):
        steps = 20 if FULL else 6
        options = () if precision == "f32" else ("--precision", precision, "-D", "head=64") if "mixtral" not in path else (
            "--precision", precision)
        same = options if precision == "fp8" else [o for o in options if o not in ("--precision", precision)]
        self.both(path, *same, *more, gpu=() if precision == "fp8" else options[:2])
        self.ptx(arch)
        self.text(6000)
        env = {"SHIM_SM": arch[:2]}
        want = self.losses("./cpu", "--steps", steps)
        text = self.losses("./gpu", "--steps", steps, **env)
        got = self.losses("./gpu", "--steps", steps, seed=TURN, SHIM_PTX=os.path.join(self.dir, "kernels.ptx"), **env)
        self.assertEqual(len(got), steps)
        for (a, _), (b, _), (c, _) in zip(want, text, got, strict=True):
            self.assertLess(abs(a - c), (2e-4 if precision == "f32" else 1e-3) * abs(a))
            self.assertLess(abs(b - c), (1e-5 if precision == "f32" else 1e-3) * abs(b))


if __name__ == "__main__":
    mgctest.main()
