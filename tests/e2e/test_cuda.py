"""Programs for GPUs, run by the shim (tests/cuda_shim): they follow the processor's losses, and what one saves
the other goes on from. The sample of seeds turns with the commit; MGC_FULL=1 takes 20 of them."""

import json
import os
import random
import re
import shutil
import struct
import subprocess

import mgctest
import shim
from mgctest import FULL, TINY, TURN, some
from test_data import megatron

SEEDS = range(20) if FULL else (2 * TURN, 2 * TURN + 1)
SHIPPED = ["gpt2_124m.mg", "llama3_8b.mg", "llama3_405b.mg", "llama7b.mg", "mistral_7b.mg", "qwen2_0_5b.mg", "qwen3_0_6b.mg"]
PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
GPT2 = os.path.join(PARITY, "gpt2_small.mg")
LLAMA = os.path.join(PARITY, "llama_small.mg")
MASK = os.path.join(mgctest.SOURCE, "tests/golden/attention_mask.mg")
PACKED = os.path.join(mgctest.MODELS, "llama_packed.mg")
TWO = os.path.join(mgctest.SOURCE, "tests/golden/attention_two.mg")
MLP = os.path.join(PARITY, "mlp_small.mg")
MIXTRAL = os.path.join(PARITY, "mixtral_small.mg")


@mgctest.in_turns_of(7)
class Cuda(shim.Case):
    def test_recompute(self):
        """With less memory, in ranges of layers and segments, the same losses; in f32, or with halves."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        precision = some(("f32", "bf16"))[0]
        options = ("-D", "layers=6", "-D", "batch=8", "--precision", precision)
        text = text.replace("microbatch 4", "microbatch 8").replace("seq = 24", "seq = 96")
        self.write("usual.mg", text)
        self.gpu("usual.mg", *options)
        self.text(6000)
        usual = self.losses("./gpu", "--steps", 3)
        p = json.loads(self.compiles("usual.mg", *options, "--device", "h200", "--plan=json").out)
        most = p["arena_bytes"] + p["outside"]["bytes"]  # an assertion of the peak counts both
        for part in (16, 4) if FULL else (4,):
            budget = most - p["arena_bytes"] // part
            self.write("less.mg", re.sub(r"(?m)^( *)recompute .*", rf"\1assert peak < {budget} B", text))
            less = json.loads(self.compiles("less.mg", *options, "--device", "h200", "--plan=json").out)
            self.assertTrue(less["recompute"]["ranges"])
            self.gpu("less.mg", *options)
            self.assertEqual(self.losses("./gpu", "--steps", 3), usual)

    def test_pieces(self):
        """Collectives cut with the products beside them, into sequences and into blocks of positions: the losses of processors."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read().split("layout {")[0]
        self.text(6000)
        precision, within = some((("f32", 1e-6), ("bf16", 1e-3)))[0]
        for at_once, pieces, more in ((4, 4, "seq -> tp"), (1, 2, "seq -> tp"), (1, 4, "")):
            self.write("cut.mg", text + f"layout {{ device h100 mesh dp = 2, tp = 2 batch -> dp kv_heads, ffn, vocab -> tp {more} microbatch {at_once} }}")
            plan = json.loads(self.compiles("cut.mg", "--precision", precision, f"--pieces={pieces}", "--plan=json").out)
            self.assertEqual({k: v["pieces"] for k, v in plan["pieces"].items()}, {"forward": pieces, "backward": pieces})
            self.both(LLAMA, "--precision", precision)
            want = [loss for loss, _ in self.losses("./cpu", "--steps", 4)]
            self.gpu("cut.mg", "--precision", precision, f"--pieces={pieces}")
            for a, (b, _) in zip(want, self.losses("./gpu", "--steps", 4, SHIM_GPUS="4"), strict=True):
                self.assertLess(abs(a - b), within * a, (at_once, pieces))

    def test_turns_of_experts(self):
        """Sequences that take turns, to experts on other GPUs and back: the losses of processors."""
        with open(MIXTRAL, encoding="utf-8") as f:
            text = f.read().split("layout {")[0]
        self.text(6000)
        precision, within = some((("f32", 1e-6), ("bf16", 1e-3)))[0]
        self.write("cut.mg", text + "layout { device h100 mesh ep = 2 experts -> ep batch -> ep microbatch 4 }")
        # A GPU that computes about as long as it sends, and starts kernels in no time: there turns pay in a model this small.
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h100.json"), encoding="utf-8") as f:
            device = {**json.load(f), "link_bandwidth": 1e8, "link_seconds": 1e-7, "launch_seconds": 1e-7, "product_rows": 8, "product_columns": 8,
                      "flops_f32_per_thread": 1e9, "flops_bf16_per_thread": 1e9, "bandwidth_per_thread": 1e9, "bandwidth": 1e11}
        self.write("slow.json", json.dumps(device))
        options = ("-D", "batch=8", "--precision", precision)
        plan = json.loads(self.compiles("cut.mg", *options, "--device", "./slow.json", "--pieces=2", "--plan=json").out)
        self.assertTrue(plan["pieces"]["forward"]["turns"], plan["pieces"])
        self.both(MIXTRAL, *options)
        want = [loss for loss, _ in self.losses("./cpu", "--steps", 4)]
        self.gpu("cut.mg", *options, "--pieces=2", device=("--device", "./slow.json"))
        for a, (b, _) in zip(want, self.losses("./gpu", "--steps", 4, SHIM_GPUS="2"), strict=True):
            self.assertLess(abs(a - b), within * a)

    def test_masks(self):
        """Attention with a window, a cap, documents and values of another width: the losses of processors, and in a ring too."""
        precision, within = some((("f32", 1e-6), ("bf16", 1e-4)))[0]
        self.both(MASK, "--precision", precision)
        self.text(6000)
        want = [loss for loss, _ in self.losses("./cpu", "--steps", 8)]
        self.gpu(MASK, "--precision", precision, "-D", "cp=4")
        ring = self.losses("./gpu", "--steps", 8, SHIM_GPUS="4")
        self.gpu(MASK, "--precision", precision)
        for got in (ring, self.losses("./gpu", "--steps", 8)):
            for a, (b, _) in zip(want, got, strict=True):
                self.assertLess(abs(a - b), within * a)

    def test_packing(self):
        """Documents that the data pack into windows: the losses of processors, in a ring and by heads too, with tensor cores and without."""
        r = random.Random(TURN)
        index, data = megatron([[r.randrange(256) for _ in range(r.choice((2, 7, 20, 33, 64, 65, 90)))] for _ in range(80)])
        self.write("corpus.idx", index)
        self.write("corpus.bin", data)
        precision, within, head = some((("f32", 1e-6, 8), ("bf16", 1e-3, 64)))[0]
        sizes = ("-D", "seq=64", "-D", "batch=4", "-D", "layers=2", "-D", "hidden=32", "-D", "kv_heads=2", "-D", "ffn=64",
                 "-D", f"head={head}", "--precision", precision)
        self.both(PACKED, *sizes, "--microbatch", 4)
        want = [loss for loss, _ in self.losses("./cpu", "--steps", 6, data="corpus.bin")]
        for gpus, rows, more in some(((1, 4, ()), (2, 4, ("-D", "cp=2")), (4, 2, ("-D", "dp=2", "-D", "cp=2"))), 3 if FULL else 2):
            self.gpu(PACKED, *sizes, *more, "--microbatch", rows)
            for a, (b, _) in zip(want, self.losses("./gpu", "--steps", 6, data="corpus.bin", SHIM_GPUS=str(gpus)), strict=True):
                self.assertLess(abs(a - b), within * a, more)

    def test_sequences(self):
        """Attention between two sequences, with a bias, and with a sink: the losses of processors, over four GPUs too."""
        precision, within = some((("f32", 1e-6), ("bf16", 1e-3)))[0]
        self.both(TWO, "--precision", precision)
        self.text(6000)
        want = [loss for loss, _ in self.losses("./cpu", "--steps", 4)]
        one = self.losses("./gpu", "--steps", 4)
        self.gpu(TWO, "--precision", precision, "-D", "cp=2", "-D", "tp=2")
        for got in (one, self.losses("./gpu", "--steps", 4, SHIM_GPUS="4")):
            for a, (b, _) in zip(want, got, strict=True):
                self.assertLess(abs(a - b), within * a)

    def zoo_follows(self, model, precision, within, split, seq=8, more=""):
        """A model of the zoo has the losses of processors, on one GPU and on four with `split` over two of them: the first, which
        no update has changed, to rounding, all `within` what roundings grow to: Adam moves a parameter by the sign of a gradient that
        is near 0."""
        with open(os.path.join(PARITY, f"zoo/{model}.mg"), encoding="utf-8") as f:
            text = f.read().split("\ntrain {")[0].replace("vocab = 32", "vocab = 256").replace("seq = 8", f"seq = {seq}")
        train = "train { optimizer adamw() lr 1e-2 } layout {"
        self.write("m.mg", text + train + f"microbatch 2 {more} }}")
        self.write("four.mg", text + train + f"microbatch 2 {more} mesh dp = 2, tp = 2 batch -> dp {split} -> tp }}")
        self.both("m.mg", "--precision", precision)
        self.text(6000)
        want = [loss for loss, _ in self.losses("./cpu", "--steps", 8)]
        one = self.losses("./gpu", "--steps", 8)
        self.gpu("four.mg", "--precision", precision)
        for got in (one, self.losses("./gpu", "--steps", 8, SHIM_GPUS="4")):
            self.assertLess(abs(want[0] - got[0][0]), (1e-6 if precision == "f32" else 1e-3) * want[0])
            for a, (b, _) in zip(want, got, strict=True):
                self.assertLess(abs(a - b), within * a)

    def test_parts(self):
        """Parts of tensors, layers of several kinds, and a bias of scores: the losses of processors, and of four GPUs too."""
        cases = (("parts", "f32", 1e-6), ("parts", "bf16", 2e-3), ("hybrid", "f32", 1e-6),  # rounding chooses other experts
                 ("alibi", "f32", 1e-6), ("alibi", "bf16", 4e-3))
        model, precision, within = some(cases, turn=TURN + 1)[0]
        self.zoo_follows(model, precision, within, "heads, vocab")

    def test_images(self):
        """Convolutions, pools and look-ups in a table of each image: one GPU and four have the losses of as many processors. In bf16
        they are compared with the same layout: four ranks round other sums, and Adam moves a parameter by the sign of a gradient near 0."""
        model, split, precision, within = some((("mae", "hidden", "f32", 1e-5), ("convnet", "second", "f32", 1e-5),
                                                ("resnet", "deep", "f32", 1e-5), ("resnet", "deep", "bf16", 1e-4)))[0]
        zoo = os.path.join(PARITY, "zoo")
        with open(os.path.join(zoo, f"{model}.mg"), encoding="utf-8") as f:
            text = f.read().split("\ntrain {")[0] + "train { optimizer adamw() lr 1e-2 } layout {"
        self.write("m.mg", text + "microbatch 2 }")
        self.write("four.mg", text + f"microbatch 1 mesh dp = 2, tp = 2 batch -> dp {split} -> tp }}")
        data = os.path.join(zoo, f"golden/{model}.safetensors")
        for file, gpus in (("m.mg", "1"), ("four.mg", "4")):
            self.both(file, "--precision", precision)
            want = [loss for loss, _ in self.losses("./cpu", "--steps", 6, data=data)]
            got = [loss for loss, _ in self.losses("./gpu", "--steps", 6, data=data, SHIM_GPUS=gpus)]
            for a, b in zip(want, got, strict=True):
                self.assertLess(abs(a - b), within * a)

    def test_losses(self):
        """Several losses, with an optimizer each, towers with the same parameters, or those that follow others: the numbers of
        processors."""
        (model,) = some(("gan", "siamese", "byol", "dqn"))[:1]
        with open(os.path.join(PARITY, f"zoo/{model}.mg"), encoding="utf-8") as f:
            self.write("m.mg", f.read().replace("precision f64", "precision f32"))
        self.both("m.mg")
        rows = []
        for program in ("cpu", "gpu"):
            self.trains(f"./{program}", "--data", os.path.join(PARITY, f"zoo/golden/{model}.safetensors"), "--steps", 4, "--out",
                        program + "-run", env={"SHIM_SEED": "1"})
            rows.append([m for m in self.metrics(program + "-run") if "lr" in m])
        self.assertEqual([len(r) for r in rows], [4, 4])
        for a, b in zip(*rows, strict=True):
            keys = [k for k in a if k.endswith(("loss", "norm"))]
            self.assertEqual(len(keys), 4 if model == "gan" else 2)
            for k in keys:
                self.assertLess(abs(a[k] - b[k]), 1e-5 * a[k], k)

    def test_scans(self):
        """Recurrences: the losses of processors, one GPU or four; a scan is a loop, however long the sequence is."""
        model, precision, within = some((("lstm", "f32", 1e-6), ("rwkv", "bf16", 2e-3), ("gru", "bf16", 2e-3),
                                         ("rwkv", "f32", 1e-6)), turn=TURN)[0]
        self.zoo_follows(model, precision, within, "vocab, hidden", seq=24)
        size = [len(self.compiles("m.mg", "-D", f"seq={n}", "--device", "h200", "--emit=c", "--precision", precision).out)
                for n in (256, 4096)]
        self.assertLess(size[1], size[0] * 1.05)

    def test_chunks(self):
        """Linear recurrences in chunks of 8: the losses of processors, one GPU or four (at this rate, roundings grow)."""
        model, precision, within = some((("mamba2", "f32", 1e-6), ("gla", "bf16", 2e-2), ("gated_delta", "f32", 1e-3),
                                         ("retnet", "bf16", 3e-2)), turn=TURN)[0]
        self.zoo_follows(model, precision, within, "heads, vocab", seq=24, more="chunk 8")
        self.assertIn("3 chunks of 8", self.compiles("m.mg", "--plan", "--device", "h200", "--precision", precision).out)

    def test_as_ready(self):
        """Updates as gradients come in, behind a guard of the loss alone: the losses of updating together, graphs and all."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        self.text(6000)
        losses = {}
        for when in ("together", "as_ready"):
            self.write("m.mg", text.replace("clip      1.0", "update " + when))
            self.gpu("m.mg")
            losses[when] = [loss for loss, _ in self.losses("./gpu", "--steps", 5)]
        self.assertEqual(losses["together"], losses["as_ready"])

    def test_tf32(self):
        """Operands of products have 10 bits: their roundings, 5e-4 each, move a loss by less than 2e-3."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        self.write("m.mg", text.replace("precision f32", "precision tf32"))
        self.both("m.mg")
        self.text(6000)
        want, got = (self.losses(p, "--steps", 20) for p in ("./cpu", "./gpu"))
        off = max(abs(a - b) / a for (a, _), (b, _) in zip(want, got, strict=True))
        self.assertLess(off, 2e-3)
        self.assertGreater(off, 1e-7)  # they were rounded

    def follows(self, path, *options, steps=20):
        self.both(path, *options)
        self.text(6000)
        want = self.losses("./cpu", "--steps", steps)
        self.assertEqual(len(want), steps)
        for (a, n), (b, k) in zip(want, self.orders(steps), strict=True):
            self.assertLess(abs(a - b), 2e-4 * abs(a))
            self.assertLess(abs(n - k), 1e-2 * abs(n))  # a norm follows the path of 20 steps, whose losses do

    def orders(self, steps):
        """Losses of ./gpu, in which no order of blocks and warps shows: of the other ones the first steps."""
        first, *others = SEEDS
        got = self.losses("./gpu", "--steps", steps, seed=first)
        for seed in others:
            n = steps if FULL else 4
            self.assertEqual(self.losses("./gpu", "--steps", n, seed=seed), got[:n])
        return got

    def test_poison(self):
        """Dead buffers are NaN, and no loss changes; but one does where a buffer dies before its last use."""
        self.gpu(MLP)
        self.text(6000)
        clean = self.losses("./gpu", "--steps", 3)
        self.assertEqual(self.losses("./gpu", "--steps", 3, "--poison"), clean)
        text = self.read("program.c").decode()
        death = re.search(r"mg_death deaths\[\] = \{\s*DIES\(\d+,\w+(?:\(0\))?,\d+\),\s*DIES\((\d+),", text)
        self.write("program.c", text[:death.start(1)] + str(int(death[1]) - 1) + text[death.end(1):])
        self.link()
        self.assertEqual(self.losses("./gpu", "--steps", 3), clean)
        r = self.run_program("./gpu", "--data", "text1.txt", "--steps", 3, "--out", "early", "--poison")
        self.assertTrue(r.returncode or [(l["loss"], l["grad_norm"]) for l in self.metrics("early") if "loss" in l] != clean)

    def test_llama(self):
        self.follows(LLAMA)

    def test_gpt2(self):
        self.follows(GPT2)

    def test_mlp(self):
        self.follows(MLP)

    def test_tree(self):
        """Loops in each other, sums that are made by themselves."""
        with open(GPT2, encoding="utf-8") as f:
            self.write("tree.mg", f.read().replace("precision f32", "precision f32(reduce = tree)"))
        self.follows("tree.mg", "-D", "batch=8", "--microbatch", 1)
        self.assertIn(b"mg_product(", self.read("kernels.cu"))

    def test_narrow(self):
        """State, or parameters as well, kept in bf16."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read().replace("rank >= 2)", "rank >= 2, state = bf16)")
        self.write("kept.mg", text)
        self.follows("kept.mg", steps=6)
        self.assertIn(b"mg_stochastic_bf16(", self.read("kernels.cu"))
        self.write("master.mg", text.replace("precision f32", "precision bf16(master = bf16)"))
        self.both("master.mg")
        for (a, _), (b, _) in zip(self.losses("./cpu", "--steps", 6), self.losses("./gpu", "--steps", 6), strict=True):
            self.assertLess(abs(a - b), 5e-3 * abs(a))

    def test_nearest(self):
        """Sums of gradients in bf16, to which cuBLASLt's products add."""
        self.text(6000)
        with open(LLAMA, encoding="utf-8") as f:
            self.write("nearest.mg", f.read().replace("precision f32", "precision bf16(reduce = bf16_nearest)"))
        self.both("nearest.mg", "-D", "batch=16", "--microbatch", 2)
        lines = self.compiles("nearest.mg", "-D", "batch=16", "--microbatch", 2, "--device", "h200", "--schedule").out.splitlines()
        self.assertEqual(sum(" product " in l and "writes in the first micro" in l for l in lines), 7)
        for (a, _), (b, _) in zip(self.losses("./cpu", "--steps", 6), self.losses("./gpu", "--steps", 6), strict=True):
            self.assertLess(abs(a - b), 5e-3 * abs(a))

    def test_state8(self):
        """Optimizer state in 8 bits, in blocks of several rows and of heads."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read().replace("rank >= 2)", "rank >= 2, state = dynamic8(least = 1))")
        self.write("state8.mg", text.replace("head = 8", "head = 32"))
        self.follows("state8.mg", steps=6)
        self.assertIn(b"dynamic.h", self.read("kernels.cu"))

    def test_mixtral(self):
        self.follows(MIXTRAL)

    def test_dropless(self):
        """Grouped products, in f32 and on tensor cores."""
        with open(MIXTRAL, encoding="utf-8") as f:
            self.write("rows.mg", mgctest.dropless(f.read(), "f32"))
        self.follows("rows.mg")
        kernels = self.read("kernels.cu")
        self.assertIn(b"MG_GROUPED(f32", kernels)
        self.assertIn(b"MG_GROUPED_WEIGHT(f32", kernels)
        self.halves("rows.mg", "bf16", 1e-3)
        self.assertIn(b"MG_GROUPED(bf16", self.read("kernels.cu"))

    def test_shipped_models(self):
        """Small: one a run, in f32 or in bf16; all in both in the full run."""
        small = ["layers=2", "hidden=32", "head=8", "ffn=48", "vocab=256", "seq=24", "batch=4"]
        for name, bf16 in some((s, b) for s in SHIPPED for b in (False, True)):
            with self.subTest(name, bf16=bf16):
                heads = ["heads=4"] if "gpt2" in name else ["kv_heads=2", "group=2"]
                options = [a for d in small + heads for a in ("-D", d)]
                if bf16:
                    self.halves(mgctest.model(name), "bf16", 1e-3, *options)
                else:
                    self.follows(mgctest.model(name), *options, "--precision", "f32")

    def halves(self, path, precision, bound, *options, steps=20):
        """Losses against those of f32: what products read and give is rounded by up to 2^-8 (bf16) or 2^-11 (f16) of
        itself, at random; over the thousands of terms of a loss this comes to a thousandth of it, measured 1e-4. The
        processor rounds the same values."""
        self.both(path, *options, gpu=("--precision", precision))
        self.compiles(path, *options, "--precision", precision, "-o", "half")
        self.text(6000)
        exact, half = (self.losses(p, "--steps", steps) for p in ("./cpu", "./half"))
        got = self.orders(steps)
        for a, b, least in ((exact, got, 1e-7), (exact, half, 1e-7), (half, got, 0)):
            off = [max(abs(x[k] - y[k]) / x[k] for x, y in zip(a, b, strict=True)) for k in (0, 1)]
            self.assertLess(off[0], bound)
            self.assertLess(off[1], 10 * bound)
            self.assertGreaterEqual(off[0], least)  # they were rounded

    def test_halves(self):
        """bf16 within 1e-3, f16, with a scaled loss, within 2e-4, on each of the models, one of the six a run; all in
        the full run."""
        cases = [(path, *half) for path in (LLAMA, GPT2, MLP) for half in (("bf16", 1e-3), ("f16", 2e-4))]
        for path, precision, bound in some(cases):
            with self.subTest(path=path, precision=precision):
                self.halves(path, precision, bound)

    def test_tensor_cores(self):
        """Heads of 64 and 128, which have kernels of their own: by warpgroups on sm_90, by warps before it and where it is
        said."""
        cases = [(path, head, *half) for path, head in ((LLAMA, 64), (GPT2, 128)) for half in (("bf16", 1e-3), ("f16", 2e-4))]
        for path, head, precision, bound in some(cases):
            with self.subTest(path=path, precision=precision, head=head):
                self.halves(path, precision, bound, "-D", f"head={head}", steps=20 if FULL else 4)
                # Each runs where the other's kernels are not there.
                groups, warps, said = (self.losses("./gpu", "--steps", 4, **env)
                                       for env in ({"SHIM_WITHOUT": "mg_flash_dq"}, {"SHIM_WITHOUT": "mg_flash90", "SHIM_SM": "80"},
                                                   {"SHIM_WITHOUT": "mg_flash90", "MGC_NO_WGMMA": "1"}))
                self.assertEqual(warps, said)
                self.assertLess(max(abs(a - b) / a for (a, _), (b, _) in zip(groups, warps, strict=True)), bound)

    def test_packed_runtime(self):
        """The package has all sources that the runtime of GPUs is made of."""
        self.needs_nvcc()
        for argv in (["scripts/gpu-pack", "--sources"], ["build/gpu/gpu-check", "runtime"]):
            r = subprocess.run([os.path.join(mgctest.SOURCE, argv[0]), *argv[1:]], capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    def test_packed(self):
        """The package for a machine with a GPU builds with nvcc and a C compiler, here for an H100. Half an hour: in the full run."""
        self.needs_nvcc()
        if not FULL:
            self.skipTest("in the full run")
        for argv in (["scripts/gpu-pack"], ["build/gpu/gpu-check", "build", "9.0"]):
            r = subprocess.run([os.path.join(mgctest.SOURCE, argv[0]), *argv[1:]], capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn("executables", r.stdout)

    def test_dropped_wait(self):
        """Streams wait for each other: without any one of the waits some order gives other numbers, or a graph whose
        streams do not come together. A few a run, all in the full run."""
        self.gpu(LLAMA)
        self.text(6000)
        good = self.losses("./gpu", "--steps", 4)
        text = self.read("program.c").decode()
        step = min(text.index(mark) for mark in ("static void eval_", "void mg_eval(") if mark in text)
        waits = [m.start() for m in re.finditer(r"\n *mg_wait\(r, \d+\);", text[:step])]
        self.assertGreater(len(waits), 5)
        for k in some(range(len(waits)), 2):
            end = text.index("\n", waits[k] + 1)
            with self.subTest(text[waits[k]:end].strip(), place=k):
                self.write("program.c", text[:waits[k]] + text[end:])
                self.link()
                seen = False
                for seed in range(12):
                    out = f"planted{k}-{seed}"
                    r = self.run_program("./gpu", "--data", "text1.txt", "--steps", 4, "--out", out, env={"SHIM_SEED": str(seed)})
                    seen |= r.returncode != 0 or [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l] != good
                    if seen:
                        break
                self.assertTrue(seen)

    def test_products(self):
        """--products measures once, and what it wrote is taken from then on; what it cannot mean is refused."""
        self.gpu(GPT2, "--precision", "bf16")
        self.compiles(GPT2, "-o", "cpu")
        self.text(3000)
        good = self.losses("./gpu", "--steps", 3, "--products", "algos")
        first = self.read("algos").decode()
        self.assertRegex(first, r"\Amgc-products 4\ndevice shim\nlibrary \d+\n(\d+ ){22}")
        self.assertEqual(len({line.split()[22] for line in first.splitlines()[3:]}), 3)  # not always the first one
        self.assertEqual(self.losses("./gpu", "--steps", 3, "--products", "algos", seed=5), good)
        self.assertEqual(self.read("algos").decode(), first)
        lines = first.splitlines(keepends=True)
        for bad in ("", "\0\1", "".join(lines[:2]), first.replace("device shim", "device other"), first.replace("library ", "library 9"),
                    first + "1 2 3\n", "".join(lines[:3]) + lines[3].replace(" ", " x", 1), "".join(lines[:3]) + "9" * 900 + "\n"):
            with self.subTest(bad[:60]):
                self.write("bad", bad)
                self.trains("./gpu", "--data", "text1.txt", "--steps", 1, "--out", "no", "--products", "bad", code=65)
                self.assertEqual(self.read("bad").decode(), bad)
        self.trains("./cpu", "--data", "text1.txt", "--steps", 1, "--out", "no", "--products", "algos", code=2)
        r = self.trains("./gpu", "--data", "text1.txt", "--steps", 1, "--out", "no", env={"SHIM_NO_PRODUCTS": "1"}, code=1)
        self.assertRegex(r.err, r"cuBLASLt \S+ has no algorithm for [\w.]+: \d+ x \d+ x \d+ \(m, n, k\) of bf16 to \w+, .*"
                                r"at multiples of 256, \d+, \d+, \d+ bytes; its status is 7")

    def test_overflow(self):
        """Gradients that overflow are left out and the scale halved, as in a run that begins with the scale that
        holds; a resumed run does the same."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        self.write("m.mg", text.replace("precision f32", "precision f16(scale = 1099511627776, hysteresis = 1, window = 5)"))
        self.text(6000)
        self.gpu("m.mg")
        self.trains("./gpu", "--data", "text1.txt", "--steps", 40, "--out", "whole")
        rows = [r for r in self.metrics("whole") if "loss" in r]
        left_out = [r for r in rows if r.get("overflow")]
        self.assertGreater(len(left_out), 3)
        scale = 2.0 ** 40
        for r in rows:
            self.assertLessEqual(abs(r["loss_scale"] / scale - 1), 1)  # halved or doubled at most
            scale = r["loss_scale"]
        self.assertGreater(max(b["loss_scale"] / a["loss_scale"] for a, b in zip(rows, rows[1:])), 1.5)  # it grows again
        self.assertTrue(all(r["grad_norm"] is None for r in left_out))
        first = next(k for k, r in enumerate(rows) if not r.get("overflow"))
        self.assertEqual([r["lr"] for r in rows[:first]], [rows[0]["lr"]] * first)  # the schedule waits
        self.trains("./gpu", "--data", "text1.txt", "--steps", first + 1, "--out", "parts")
        self.trains("./gpu", "--data", "text1.txt", "--steps", 40, "--out", "parts", "--resume")
        again = [r for r in self.metrics("parts") if "loss" in r]
        keys = ("step", "loss", "grad_norm", "lr", "loss_scale")
        self.assertEqual([[r[k] for k in keys] for r in again], [[r[k] for k in keys] for r in rows])

    def test_overflow_at_first(self):
        """What is behind the guard runs for the first time after steps that overflow: Muon's products are measured then, and
        not within a capture, where nobody may allocate or wait."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        text = text.replace("precision f32", "precision f16(scale = 1099511627776, hysteresis = 1, window = 50)")
        self.write("m.mg", re.sub(r"optimizer .*", "optimizer muon(decay = 0.1 where rank >= 2)", text))
        self.text(6000)
        self.gpu("m.mg")
        self.trains("./gpu", "--data", "text1.txt", "--steps", 30, "--out", "run", "--products", "algos")
        rows = [r for r in self.metrics("run") if "loss" in r]
        self.assertTrue(all(r.get("overflow") for r in rows[:3]))
        self.assertGreater(len([r for r in rows if not r.get("overflow")]), 3)

    def test_look_ups_are_counted(self):
        """A look-up of 2^31 indices is refused with both numbers; one sequence less is a program."""
        self.write("m.mg", re.sub(r"dim .*", "dim hidden = 1, vocab = 256, seq = 2048, batch = 1048576", TINY, count=1)
                   .replace("microbatch 4", "microbatch 1048576"))
        r = self.mgc("m.mg", "--device", "h200", "--check")
        self.assertEqual(r.returncode, 3)
        self.assertRegex(r.err, r"m\.mg:\d+:\d+: error\[MG0525\]: a look-up of 2147483648 indices in 1 x 256 rows; a GPU counts to 2147483647")
        self.assertIn("a smaller microbatch", r.err)
        self.compiles("m.mg", "--device", "h200", "--check", "-D", "batch=1048575", "--microbatch", "1048575")

    def test_convolutions_are_counted(self):
        """A convolution whose operand has 2^32 elements is refused with both numbers; a smaller microbatch is a program, which stores
        nothing of what the taps show."""
        self.write("m.mg", """dim batch = 8192, row = 1024, colour = 512, tap = 3, wide = 8, classes = 2
            model m(x[batch, row, colour], y[batch] : token(classes)) {
                w : param[tap, colour, wide] ~ normal(0.1)
                head : param[wide, classes] ~ normal(0.1)
                h = relu(x[row + tap - 1] @ w over (tap, colour))
                loss = cross_entropy(mean(h, over row) @ head over wide, y)
            }
            train { optimizer sgd() lr 1e-3 }
            layout { microbatch 8192 }""")
        r = self.mgc("m.mg", "--device", "h200", "--check")
        self.assertEqual(r.returncode, 3)
        self.assertRegex(r.err, r"m\.mg:\d+:\d+: error\[MG0526\]: a convolution of \d{10,} elements, with its borders; a GPU counts to 2147483647")
        r = self.compiles("m.mg", "--device", "h200", "--schedule", "--microbatch", "1024", "-D", "batch=1024")
        self.assertRegex(r.out, r"convolution +dot")
        self.assertNotIn("reindex", r.out)

    def test_f64_dropout_and_microbatches(self):
        self.write("m.mg", TINY.replace("tanh(embed[tokens])", "dropout(tanh(embed[tokens]), p = 0.1)")
                   .replace("precision f32", "precision f64").replace("microbatch 4", "microbatch 2"))
        self.follows("m.mg")

    def test_checkpoints_are_the_same(self):
        """The processor resumes a checkpoint of the GPU, which stores a larger vocabulary, and the other way; both sample
        the same text."""
        self.write("m.mg", TINY)
        self.both("m.mg", "-D", "vocab=257")
        self.assertIn("vocab=260", self.compiles("m.mg", "-D", "vocab=257", "--device", "h200", "--print-after=lower").out)
        tokens = [random.Random(1).randrange(257) for _ in range(3000)]
        self.write("tokens", struct.pack("<3000H", *tokens))
        for first, second in (("./cpu", "./gpu"), ("./gpu", "./cpu")):
            out = "run" + first[2:]
            self.trains(first, "--data", "u16:tokens", "--steps", 6, "--out", out)
            self.trains(second, "--data", "u16:tokens", "--steps", 12, "--out", out, "--resume")
        a, b = (self.read(f"{run}/ckpt/step-00000012/model.safetensors") for run in ("runcpu", "rungpu"))
        size, = struct.unpack_from("<Q", a)
        self.assertEqual(a[:8 + size], b[:8 + size])
        x, y = (struct.unpack(f"<{(len(d) - 8 - size) // 4}f", d[8 + size:]) for d in (a, b))
        # AdamW moves a weight by at most the rate a step, 1e-2, whose sign rounding decides where a gradient is 0:
        # a hundredth of that after twelve.
        self.assertLess(max(abs(p - q) for p, q in zip(x, y, strict=True)), 1e-4)
        texts = [self.trains(p, "--resume=runcpu/ckpt/step-00000012", "--sample", 12, "--temperature", 0).out
                 for p in ("./cpu", "./gpu")]
        self.assertEqual(texts[0], texts[1])

    def test_reads_ahead(self):
        """The host reads the batch of the next step before it waits for the guard, and none behind the last step."""
        self.write("m.mg", TINY)
        self.gpu("m.mg")
        self.text(3000)
        self.write("watch.c", '#include <stdbool.h>\n#include <stdint.h>\n#include <stdio.h>\n'
                   'void __real_rt_tokens_read(const void *, int64_t, int64_t, int32_t *);\n'
                   'bool __real_rt_guard_passes(void *, int, double, double);\n'
                   'static void note(char c) { FILE *f = fopen("order", "a"); fputc(c, f); fclose(f); }\n'
                   'void __wrap_rt_tokens_read(const void *f, int64_t at, int64_t n, int32_t *to)\n'
                   '{ note(\'r\'); __real_rt_tokens_read(f, at, n, to); }\n'
                   'bool __wrap_rt_guard_passes(void *r, int a, double x, double y)\n'
                   '{ note(\'g\'); return __real_rt_guard_passes(r, a, x, y); }\n')
        r = self.run_program("cc", "-c", "watch.c")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.link("watch.o", "-Wl,--wrap=rt_tokens_read,--wrap=rt_guard_passes")
        self.trains("./gpu", "--data", "text1.txt", "--steps", 4, "--out", "run")
        self.assertEqual(self.read("order"), b"rrrr" + 3 * b"rrrrg" + b"g")  # of four sequences

    def test_default_precision(self):
        """A source that says no precision is bf16 on a GPU and f32 on a processor: the other resumes what one saved, on
        the losses of a run that only it made, to the rounding of bf16."""
        self.write("m.mg", TINY.replace("    precision f32\n", ""))
        self.both("m.mg")
        self.assertIn(b"bf16", self.read("program.c"))
        self.text(3000)
        runs = {}
        for first, second in (("./cpu", "./cpu"), ("./cpu", "./gpu"), ("./gpu", "./cpu"), ("./gpu", "./gpu")):
            out = f"run-{first[2:]}-{second[2:]}"
            self.trains(first, "--data", "text1.txt", "--steps", 6, "--out", out)
            self.trains(second, "--data", "text1.txt", "--steps", 12, "--out", out, "--resume")
            runs[first, second] = [l["loss"] for l in self.metrics(out) if "loss" in l]
        want = runs["./cpu", "./cpu"]
        self.assertEqual(len(want), 12)
        for who, got in runs.items():
            off = max(abs(a - b) / a for a, b in zip(want, got, strict=True))
            self.assertLess(off, 1e-3, who)
            if who != ("./cpu", "./cpu"):
                self.assertGreater(off, 1e-7, who)  # the GPU rounded

    def test_tools(self):
        self.write("m.mg", TINY)
        self.both("m.mg")
        self.text(3000)
        r = self.trains("./gpu", "--data", "text1.txt", "--val-fraction", 0.2, "--steps", 3, "--trace", "2:3", "--out", "r")
        self.assertTrue(os.path.exists(self.path("r/trace.json")))
        self.assertIn("val", r.out)
        r = self.trains("./gpu", "--info")
        self.assertIn("cuBLASLt", r.out)
        self.assertIn("| GPU | shim, ", r.out)
        self.assertIn("[ok] GPU: shim", self.trains("./gpu", "--data", "text1.txt", "--dry-run").out)
        r = self.trains("./gpu", "--data", "text1.txt", "--dry-run", env={"SHIM_NO_GPU": "1"}, code=77)
        self.assertIn("[FAIL] GPU: none", r.out)
        self.assertIn("| GPU | none: ", self.trains("./gpu", "--info", env={"SHIM_NO_GPU": "1"}).out)
        r = self.trains("./gpu", "--data", "text1.txt", "--steps", 3, "--out", "none", env={"SHIM_NO_GPU": "1"}, code=77)
        self.assertEqual(r.err.count("\n"), 1)
        self.assertIn("was compiled for a GPU", r.err)
        self.assertFalse(os.path.exists(self.path("none")))
        self.write("hot.mg", TINY.replace("cosine(peak = 1e-2, warmup = 5, steps = 50, floor = 1e-3)", "1e38")
                   .replace("    clip      1.0\n", "").replace("decay = 0.1 where rank >= 2", "decay = 0"))
        self.both("hot.mg")
        r = self.trains("./gpu", "--data", "text1.txt", "--steps", 9, "--out", "h", code=1)
        self.assertIn("already held", r.err)

    def needs_nvcc(self):
        nvcc = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
        if not (shutil.which("nvcc") or os.path.exists(nvcc)):
            self.skipTest("no nvcc")

    def test_no_kernel_spills(self):
        self.needs_nvcc()
        script = os.path.join(mgctest.SOURCE, "scripts/gpu-registers")
        r = self.trains(script, mgctest.model("gpt2_124m.mg"), env={"MGC": mgctest.MGC}, timeout=600)
        self.assertIn("0 kernels spill", r.out)

    def test_links(self):
        """With a CUDA Toolkit at hand the program is made, and says in a line that there is no GPU."""
        self.needs_nvcc()
        self.write("m.mg", TINY)
        self.compiles("m.mg", "--device", "h200", "-o", "train")
        self.text(3000)
        self.compiles("m.mg", "--device", "h200", "--emit=source", "-o", "tree")
        self.trains("make", "-C", "tree")
        for program in ("./train", "tree/train"):
            r = self.run_program(program, "--data", "text1.txt", "--out", "r" + program[:1], "--steps", 2)
            self.assertIn(r.returncode, (0, 77), r.stderr)
        r = self.mgc("m.mg", "--device", "h200", "--emit=llvm")
        self.assertEqual(r.returncode, 2)
        self.assertIn("--emit=llvm is not for device h200", r.err)


if __name__ == "__main__":
    mgctest.main()
