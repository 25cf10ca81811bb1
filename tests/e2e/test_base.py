"""Frozen matrices in NF4 and int8 beside an adapter (`base = nf4`, `base = int8`), by real programs: a run has the losses of a program over the matrices that
--export writes of it, which are not in codes; any layout has those of one rank, and one that would cut blocks is refused; a run goes on
with the same bits; memory is what was planned; on a GPU, by the shim, the losses are a processor's. That the numbers are
bitsandbytes': tests/codegen/test_nf4.c, test_int8.c."""

import json
import re
import shutil

import layouts
import mgctest
import shim
from mgctest import some
from test_adapters import LAYOUTS, SMALL

SIZES = {"batch": 8, "hidden": 128, "head": 32, "ffn": 256}


def sizes(**other):
    return [word for d, n in {**SIZES, **other}.items() for word in ("-D", f"{d}={n}")]


class Base(shim.Case):
    def setUp(self):
        super().setUp()
        with open(SMALL, encoding="utf-8") as f:
            text = f.read()
        self.write("plain.mg", text)
        for source, kind in (("small.mg", "nf4"), ("bytes.mg", "int8")):
            self.write(source, re.sub(r"(lora lora|stable lora|dora dora)\(", rf"\1(base = {kind}, ", text))
        self.text(6000)

    def make(self, program, *argv, source="small.mg"):
        self.compiles(source, *sizes(), "-o", program, *argv)

    def run_one(self, program, steps, out, *argv):
        self.trains("./" + program, "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, *argv, timeout=300)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]

    def near(self, want, got, error):
        for a, b in zip(want, got, strict=True):
            self.assertLess(max(abs(a[0] - b[0]), abs(a[1] - b[1])), error)

    def test_what_it_stands_for(self):
        """The program over the exported matrices has the losses within rounding; a step of training is of other ones than the f32
        that they were made of."""
        for kind, adapter, precision in some((("small.mg", "lora", "f32"), ("bytes.mg", "dora", "f32"), ("bytes.mg", "stable", "bf16"),
                                              ("small.mg", "dora", "f32"), ("bytes.mg", "lora", "f32"), ("small.mg", "stable", "bf16")), 2):
            with self.subTest(kind=kind, adapter=adapter, precision=precision):
                for source, program in ((kind, "base"), ("plain.mg", "plain")):
                    self.make(program, "--adapter", adapter, "--precision", precision, source=source)
                self.trains("./base", "--data", "text1.txt", "--steps", 0, "--out", "none", "--export", "dense")
                want = self.run_one("base", 20, "run-base")
                self.near(want, self.run_one("plain", 20, "run-plain", "--init", "dense"), 1e-5 if precision == "f32" else 2e-2)
                self.assertNotEqual(want, self.run_one("plain", 20, "run-f32"))
                shutil.rmtree(self.path("dense"))

    def test_layouts(self):
        for source in ("small.mg", "bytes.mg"):
            self.make("one", "--adapter", "dora", "--precision", "f64", source=source)
            want = self.run_one("one", 4, "run-one")
            for name in some(LAYOUTS, 2):
                self.write(f"{name}.mg", layouts.text(name, heads="kv_heads"))
                self.make(name, "--adapter", "dora", "--precision", "f64", "--layout", f"./{name}.mg", source=source)
                with self.subTest(source=source, layout=name):
                    self.near(want, self.run_one(name, 4, f"run-{name}"), 1e-12)

    def test_int8_cut_anywhere(self):
        """Rows of 48 elements, of which two ranks have 24 each, and so a part of the absmax' row: the losses of one rank."""
        odd = {"hidden": 48, "head": 12, "ffn": 80}
        self.write("tp2_sp.mg", layouts.text("tp2_sp", heads="kv_heads"))
        self.compiles("bytes.mg", *sizes(**odd), "--adapter", "lora", "--precision", "f64", "-o", "one")
        self.compiles("bytes.mg", *sizes(**odd), "--adapter", "lora", "--precision", "f64", "--layout", "./tp2_sp.mg", "-o", "two")
        self.near(self.run_one("one", 4, "run-one"), self.run_one("two", 4, "run-two"), 1e-12)

    def test_refused(self):
        """Blocks of two heads cannot be on two ranks; and rows of 160 have none."""
        self.write("tp2_sp.mg", layouts.text("tp2_sp", heads="kv_heads"))
        for other, more, want in (
                ({"head": 16}, ("--layout", "./tp2_sp.mg"),
                 "error[MG0351]: 'model.layers.{}.self_attn.o_proj.weight' is kept in NF4, and its dim 'kv_heads' of 2 is split into 2 parts, "
                 "which end inside of blocks of 64"),
                ({"hidden": 160}, (), "error[MG0350]: 'model.layers.{}.self_attn.q_proj.weight', 128 x 160, cannot be kept in NF4"),
                ({}, ("--precision", "fp8"), "error[MG0349]: base = nf4 beside precision fp8"),
                ({"source": "bytes.mg"}, ("--precision", "fp8"), "error[MG0349]: base = int8 beside precision fp8"),
                ({"source": "bytes.mg", "ffn": 79}, ("--layout", "./tp2_sp.mg"),
                 "error[MG0360]: 'model.layers.{}.mlp.gate_proj.weight', 79 x 128, cannot be kept in 8 bits: it is padded")):
            r = self.mgc(other.pop("source", "small.mg"), *sizes(**other), "--adapter", "lora", *more, "--check")
            self.assertEqual(r.returncode, 1, r.err)
            self.assertIn(want, r.err)

    def test_resume(self):
        """The same bits, with the base made of its file once more; a checkpoint has the adapter alone."""
        self.make("none", "--adapter", "none", source="plain.mg")
        self.run_one("none", 1, "whole", "--export", "dense")
        self.make("train", "--adapter", "lora", source=some(("bytes.mg", "small.mg"), 1)[0])
        self.run_one("train", 6, "a", "--save-every", 3, "--keep", 0, "--init", "dense")
        shutil.copytree(self.path("a/ckpt/step-00000003"), self.path("b/ckpt/step-00000003"))
        self.run_one("train", 6, "b", "--resume")
        for name in ("adapter_model.safetensors", "optimizer.safetensors", "state.json"):
            self.assertEqual(self.read(f"a/ckpt/step-00000006/{name}"), self.read(f"b/ckpt/step-00000006/{name}"))
        self.assertNotIn(b"down_proj.weight.absmax", self.read("a/ckpt/step-00000006/adapter_model.safetensors"))

    def test_memory(self):
        """As stored: half a byte a weight, a 64th for absmax, and its scales; not over what was planned."""
        plan = json.loads(self.compiles("small.mg", *sizes(), "--adapter", "lora", "--plan=json").stdout)
        kept = {t["name"]: t["bytes"] for t in plan["tensors"] if ".down_proj.weight" in t["name"]}
        name, n = "model.layers.{}.mlp.down_proj.weight", 2 * 128 * 256
        self.assertEqual({k[len(name):]: kept[k] for k in kept if k.startswith(name)},
                         {"": n // 2, ".absmax": n // 64, ".nested_absmax": 2 * 128 * 4, ".offset": 2 * 4})
        plan = json.loads(self.compiles("bytes.mg", *sizes(), "--adapter", "lora", "--plan=json").stdout)
        kept = {t["name"]: t["bytes"] for t in plan["tensors"] if ".down_proj.weight" in t["name"]}
        self.assertEqual({k[len(name):]: kept[k] for k in kept if k.startswith(name)}, {"": n, ".absmax": 2 * 128 * 4})
        for source in ("small.mg", "bytes.mg"):
            self.make("train", "--adapter", "lora", source=source)
            r = self.trains("./train", "--data", "text1.txt", "--steps", 3, "--out", "r" + source)
            self.assertIn(", 0 bytes over", r.out + r.err)

    def test_offload(self):
        """Codes that lie in a file give the same bits."""
        self.write("off.mg", "layout {\n    device cpu\n    mesh dp = 1\n    batch -> dp\n    microbatch 4\n    offload parameters -> disk\n}\n")
        self.write("on.mg", "layout {\n    device cpu\n    mesh dp = 1\n    batch -> dp\n    microbatch 4\n}\n")
        for source in some(("bytes.mg", "small.mg")):
            for program in ("on", "off"):
                self.make(program, "--adapter", "lora", "--layout", f"./{program}.mg", source=source)
            self.assertEqual(self.run_one("on", 5, "run-on"), self.run_one("off", 5, "run-off"))

    def test_gpu(self):
        """f32 and bf16, of a processor and by the shim."""
        for source, precision, error in some((("small.mg", "f32", 2e-4), ("bytes.mg", "bf16", 3e-2), ("bytes.mg", "f32", 2e-4),
                                              ("small.mg", "bf16", 3e-2)), 2):
            self.make("cpu", "--adapter", "lora", "--precision", precision, source=source)
            want = self.run_one("cpu", 4, f"run-{precision}")
            self.gpu(source, *sizes(), "--adapter", "lora", "--precision", precision)
            for a, (b, _) in zip(want, self.losses("./gpu", "--steps", 4, data="text1.txt"), strict=True):
                self.assertLess(abs(a[0] - b), error)


if __name__ == "__main__":
    mgctest.main()
