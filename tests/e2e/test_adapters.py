"""Adapters, by real programs: any layout computes what one rank does; the base is kept in bf16 where products read that,
with the numbers of the whole; what is trained is the adapter alone, and a checkpoint has no more; a run goes on from it with the
same bits and with no other base; --adapter reads a directory as PEFT's and no other adapter; the plan says what freezing saves.
PEFT's own numbers: tests/parity/check_adapters.py."""

import json
import os
import re
import shutil

import layouts
import mgctest
import test_weights
from mgctest import some

SMALL = os.path.join(mgctest.SOURCE, "tests/parity/adapter_small.mg")
LAYOUTS = ("dp2", "tp2_sp", "zero3_tp2", "cp2_zigzag", "pp2_tp2_sp", "pp2_zb_zero3", "dp2_tp2", "dp2_zero1")


class Adapters(mgctest.Case):
    def setUp(self):
        super().setUp()
        with open(SMALL, encoding="utf-8") as f:
            text = f.read()
        self.source = re.sub(r"(lora lora|dora dora)\(", r"\1(dropout = 0.1, ", text)
        self.write("small.mg", self.source)
        self.text(6000)

    def make(self, program, *argv):
        self.compiles("small.mg", "-D", "batch=8", "-o", program, *argv)

    def run_one(self, program, steps, out, *argv):
        self.trains("./" + program, "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, *argv, timeout=300)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]

    def files(self, out, step):
        folder = self.path(f"{out}/ckpt/step-{step:08d}")
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                found[name] = f.read()
        return found

    def names(self, data):
        n = int.from_bytes(data[:8], "little")
        return {k: t for k, t in json.loads(data[8:8 + n]).items() if k != "__metadata__"}

    def test_layouts(self):
        """In f64 the losses and norms of one rank within 1e-12, dropout too."""
        for adapter in some(("lora", "stable", "dora", "table", "saved")):
            self.make("one", "--adapter", adapter, "--precision", "f64")
            want = self.run_one("one", 6, "run-one")
            for name in some(LAYOUTS, 3):
                self.write(f"{name}.mg", layouts.text(name, heads="kv_heads"))
                self.make(name, "--adapter", adapter, "--precision", "f64", "--layout", f"./{name}.mg")
                got = self.run_one(name, 6, f"run-{name}")
                with self.subTest(adapter=adapter, layout=name):
                    for a, b in zip(want, got, strict=True):
                        self.assertLess(abs(a[0] - b[0]), 1e-12)
                        self.assertLess(abs(a[1] - b[1]), 1e-12)

    def test_parts(self):
        """Likewise of parts of one tensor of files, which share their A and what is dropped."""
        text = self.source
        for name, part in (("q_proj", "0"), ("k_proj", "kv_heads * group * head"), ("v_proj", "kv_heads * (group + 1) * head")):
            text = re.sub(rf'"{name}.weight" \[(\([a-z_ ]+\))', rf'"qkv.weight" [\1 at {part}', text)
        for name, part in (("gate_proj", "0"), ("up_proj", "ffn")):
            text = text.replace(f'"{name}.weight" [ffn', f'"gate_up.weight" [ffn at {part}')
        lines = '    adapter dora(rank = 4, alpha = 6, dropout = 0.1) on "*.qkv.weight", "*.gate_up.weight"\n'
        self.write("small.mg", re.sub(r"(    adapter .*\n)+", lambda _: lines, text))
        self.make("one", "--precision", "f64")
        want = self.run_one("one", 4, "run-one")
        for name in some(LAYOUTS, 2):
            self.write(f"{name}.mg", layouts.text(name, heads="kv_heads"))
            self.make(name, "--precision", "f64", "--layout", f"./{name}.mg")
            for a, b in zip(want, self.run_one(name, 4, f"run-{name}"), strict=True):
                self.assertLess(max(abs(a[0] - b[0]), abs(a[1] - b[1])), 1e-12, name)
        shapes = {k: t["shape"] for k, t in self.names(self.files("run-one", 4)["adapter_model.safetensors"]).items()}
        at = "base_model.model.model.layers.1.self_attn.qkv."
        self.assertEqual([shapes[at + k] for k in ("lora_A.weight", "lora_B.weight", "lora_magnitude_vector")], [[4, 32], [64, 4], [64]])

    def test_checkpoint(self):
        """It has the adapter and its state alone; a run that goes on from it ends with the same bits, here over a base that
        --init gave, with a base of its seed too, and in bf16 too, where the matrices of the base are kept so."""
        for precision in some(("f32", "bf16"), 2):
            self.make("none", "--adapter", "none", "--precision", precision)
            self.run_one("none", 1, "base-run")
            self.make("train", "--adapter", "dora", "--precision", precision)
            for init in ((), ("--init", "base-run/ckpt/step-00000001")):
                with self.subTest(precision=precision, init=init):
                    shutil.rmtree(self.path("a"), ignore_errors=True)
                    shutil.rmtree(self.path("b"), ignore_errors=True)
                    self.run_one("train", 6, "a", "--save-every", 3, "--keep", 0, *init)
                    want = self.files("a", 6)
                    self.assertEqual(set(want), {"adapter_model.safetensors", "adapter_config.json", "optimizer.safetensors", "state.json"})
                    for name in self.names(want["adapter_model.safetensors"]):
                        self.assertIn(".lora_", name)
                    shutil.copytree(self.path("a/ckpt/step-00000003"), self.path("b/ckpt/step-00000003"))
                    self.run_one("train", 6, "b", "--resume")
                    self.assertEqual(want, self.files("b", 6))
        shutil.rmtree(self.path("a/ckpt/step-00000006"))
        self.run_one("none", 2, "other-run")
        r = self.trains("./train", "--resume", "--init", "other-run/ckpt/step-00000002", "--data", "text1.txt", "--steps", 6, "--out", "a",
                        code=65)
        self.assertIn("is not the one that this adapter's run began with", r.err)

    def join(self, out, *paths):
        """One safetensors file of the tensors of several."""
        header, body = {}, b""
        for data in map(self.read, paths):
            begin = 8 + int.from_bytes(data[:8], "little")
            for name, t in self.names(data).items():
                a, b = t["data_offsets"]
                header[name] = {**t, "data_offsets": [len(body), len(body) + b - a]}
                body += data[begin + a:begin + b]
        text = json.dumps(header).encode()
        self.write(out, len(text).to_bytes(8, "little") + text + body)

    def test_kept_in_bf16(self):
        """The bits are those of a program that keeps f32 of its frozen matrices, beside their copies."""
        self.make("train", "--adapter", "dora", "--precision", "bf16")
        self.trains("./train", "--export", "base")
        self.run_one("train", 0, "start", "--init", "base")
        types = {t["dtype"] for k, t in self.names(self.read("base/model.safetensors")).items() if "norm" not in k}
        self.assertEqual(types, {"BF16"})
        got = self.run_one("train", 5, "narrow", "--init", "base")
        text = self.compiles("small.mg", "-D", "batch=8", "--adapter", "dora", "--precision", "bf16", "--print-after=differentiate").out
        self.write("wide.mgir", re.sub(r'(?m)^adapter ".*\n| adapter \d \d [\d.]+(?= @)', "", text))
        self.compiles("--from=wide.mgir", "-o", "wide")
        self.join("all.safetensors", "base/model.safetensors", "start/ckpt/step-00000000/adapter_model.safetensors")
        self.assertEqual(got, self.run_one("wide", 5, "wide-run", "--init", "all.safetensors"))
        wide = self.files("wide-run", 5)["model.safetensors"]
        self.assertEqual({t["dtype"] for t in self.names(wide).values()}, {"F32"})

    def test_adapter_of_a_directory(self):
        """--adapter goes on from what was saved, with new state; another adapter's directory is refused, and so is none."""
        self.make("train", "--adapter", "lora", "--precision", "f32")
        self.make("none", "--adapter", "none", "--precision", "f32")
        self.run_one("none", 0, "base-run")
        base = ("--init", "base-run/ckpt/step-00000000")
        self.run_one("train", 3, "first", *base)
        self.run_one("train", 0, "second", *base, "--adapter", "first/ckpt/step-00000003")
        self.assertEqual(self.files("first", 3)["adapter_model.safetensors"], self.files("second", 0)["adapter_model.safetensors"])
        config = json.loads(self.files("first", 3)["adapter_config.json"])
        self.assertEqual((config["r"], config["lora_alpha"], config["use_dora"]), (4, 6, False))
        self.assertIn("model.layers.1.mlp.down_proj", config["target_modules"])
        self.assertTrue(config["base_model_name_or_path"].endswith("base-run/ckpt/step-00000000"))
        r = self.trains("./train", "--data", "text1.txt", "--adapter", "first/ckpt/step-00000003", code=2)
        self.assertIn("--init BASE is needed", r.err)
        r = self.trains("./none", "--data", "text1.txt", *base, "--adapter", "first/ckpt/step-00000003", code=2)
        self.assertIn("this program trains no adapter", r.err)
        config["lora_alpha"] = 8
        self.write("first/ckpt/step-00000003/adapter_config.json", json.dumps(config))
        r = self.trains("./train", "--data", "text1.txt", *base, "--adapter", "first/ckpt/step-00000003", "--out", "third", code=65)
        self.assertIn("lora_alpha = 8", r.err)
        self.make("dora", "--adapter", "dora", "--precision", "f32")
        r = self.trains("./dora", "--data", "text1.txt", *base, "--adapter", "second/ckpt/step-00000000", "--out", "third", code=65)
        self.assertIn("use_dora = 0", r.err)

    def test_merged(self):
        """mgc merge makes the bytes of --export of what programs saved."""
        self.make("none", "--adapter", "none", "--precision", "f32")
        self.trains("./none", "--export", "base")
        for adapter in some(("lora", "stable", "dora", "table", "saved"), 2):
            self.make("train", "--adapter", adapter, "--precision", "f32")
            self.run_one("train", 4, f"run-{adapter}", "--init", "base", "--lr", 0.05)
            saved = f"run-{adapter}/ckpt/step-00000004"
            self.trains("./train", "--init", "base", "--adapter", saved, "--export", f"export-{adapter}")
            self.assertEqual(self.mgc("merge", saved, "--base", "base", "-o", f"merge-{adapter}").returncode, 0)
            got, want = (self.read(f"{way}-{adapter}/model.safetensors") for way in ("merge", "export"))
            bytes_of = lambda d: {k: d[8 + int.from_bytes(d[:8], "little"):][slice(*t["data_offsets"])] for k, t in self.names(d).items()}  # noqa: E731
            self.assertEqual(bytes_of(got), bytes_of(want), adapter)

    def test_plan(self):
        """What is trained, what freezing saves; no product makes the gradient of what is frozen."""
        plans = {a: json.loads(self.compiles("small.mg", "--adapter", a, "--plan=json").out) for a in ("lora", "none")}
        layer = 4 * (32 + 32) + 4 * (32 + 16) + 4 * (32 + 48)
        self.assertEqual(plans["lora"]["adapter"]["params"], 2 * layer)
        self.assertNotIn("adapter", plans["none"])
        self.assertGreater(plans["lora"]["adapter"]["unfrozen_bytes"], plans["none"]["arena_bytes"])
        self.assertLess(plans["lora"]["memory"]["grads"], plans["none"]["memory"]["grads"] / 5)
        self.assertLess(plans["lora"]["memory"]["optimizer"], plans["none"]["memory"]["optimizer"] / 5)
        schedule = self.compiles("small.mg", "--adapter", "lora", "--schedule").out
        self.assertRegex(schedule, r"s0 head +.* =head_frozen")  # whose logits are never whole: a frozen head has no gradient
        self.assertNotIn("cross_entropy", schedule)
        matrices, rows = 2 * (32 * 96 + 3 * 32 * 48) + 256 * 32, 4 * 24
        self.assertLess(abs(plans["none"]["flops_per_step"] - plans["lora"]["flops_per_step"] - 2 * rows * matrices),
                        0.15 * 2 * rows * matrices)

    def test_tune(self):
        """The model of a directory with the line, and its program; what is wrong with the command or the line is said."""
        os.mkdir(self.path("hub"))
        shapes = test_weights.llama_tensors(test_weights.LLAMA)
        self.write("hub/config.json", json.dumps(test_weights.LLAMA))
        self.write("hub/model.safetensors", test_weights.safetensors(
            {n: ("F32", s, test_weights.packed(test_weights.numbers(s, i), "F32")) for i, (n, s) in enumerate(shapes.items())}))
        self.compiles("tune", "hub", "--lora", "rank=2,alpha=4,ratio=16", "--on", "q_proj,down_proj", "-D", "batch=4", "-o", "train")
        self.assertIn('    adapter   lora(rank = 2, alpha = 4, ratio = 16) on "*.q_proj.weight", "*.down_proj.weight"\n',
                      self.read("train.mg").decode())
        self.assertIn("document_start(tokens, along seq)", self.read("train.mg").decode())
        self.run_one("train", 2, "run", "--init", "hub")
        self.trains("./train", "--resume", "--out", "run", "--export", "merged")
        merged, base = self.names(self.read("merged/model.safetensors")), self.names(self.read("hub/model.safetensors"))
        self.assertEqual(set(merged), set(base))
        r = self.mgc("tune", "hub", "--dora", "rank=2", "--on", "qproj", "-o", "other")
        self.assertIn("this names no parameter of the model", r.err)
        r = self.mgc("tune", "hub", "-o", "other")
        self.assertIn("the form is: mgc tune DIR --lora", r.err)
        self.assertIn("to train all parameters: mgc import-hf --packed", r.err)
        r = self.mgc("tune", "hub", "--lora", "rank=2", "-D", "dp=3", "-D", "batch=4", "-o", "other")
        self.assertIn("help: -D dp=2", r.err)  # tried with the text that was written
        self.compiles("tune", "hub", "--lora", "rank=2", "--on", "all", "--emit=c", "-o", "every")
        on = ", ".join(f'"*.{n}_proj.weight"' for n in ("q", "k", "v", "o", "gate", "up", "down"))
        self.assertIn(f"adapter   lora(rank = 2) on {on}\n", self.read("every.mg").decode())
        r = self.mgc("train.mg", "--lora", "rank=2", "-o", "other")
        self.assertIn("options of mgc tune", r.err)

    def test_choice(self):
        r = self.mgc("small.mg", "--check")
        self.assertIn("a second adapter: a program has one", r.err + r.out)
        r = self.mgc("small.mg", "--check", "--adapter", "fast")
        self.assertIn("there is: lora, stable, dora, table, base, saved, none", r.err + r.out)


if __name__ == "__main__":
    mgctest.main()
