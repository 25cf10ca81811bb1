"""Programs for GPUs whose layers' products are of fp8, run by the shim, whose cuBLASLt takes what the real one takes of it and no more:
they follow the processor's programs, which round alike and multiply halves of the same value."""

import json
import os
import re

import layouts
import mgctest
import shim
from mgctest import FULL, TURN, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
MODELS = ("llama_small.mg", "gpt2_small.mg", "mixtral_small.mg")
KINDS = {"e5m2": "fp8", "e4m3": "fp8(gradients = e4m3)", "kept": "fp8(master = bf16, reduce = bf16)",
         "nearest": "fp8(reduce = bf16_nearest)"}
# Scales of tiles: what says them, the device that multiplies so, and its compute capability.
TILED = {"tile": ("fp8(scales = tile)", "h200", "90"), "mx": ("fp8(scales = mx)", "b200", "100")}
RANKS = {"dp2": 4, "tp2": 8, "dp2_zero3": 4, "cp2_zigzag": 8, "tp2_sp": 8}  # sequences that a rank computes at once: of all ranks 8


@mgctest.in_turns_of(3)
class CudaFp8(shim.Case):
    def source(self, model, precision, name):
        with open(os.path.join(PARITY, model), encoding="utf-8") as f:
            self.write(f"{name}.mg", re.sub(r"(?m)^( *precision +)\w+.*$", rf"\g<1>{precision}", f.read()))
        return f"{name}.mg"

    def near(self, want, got, bound, norms=10):
        self.assertEqual(len(want), len(got))
        off = [max(abs(a[k] - b[k]) / a[k] for a, b in zip(want, got)) for k in (0, 1)]
        self.assertLess(off[0], bound)
        self.assertLess(off[1], norms * bound)

    def test_follows(self):
        """As far as bf16's follow (test_cuda.py): a sum in another order may round to another number of 8 bits. Where parameters are kept
        in bf16, too, norms of gradients are up to 1.2% apart in Mixtral's 20 steps, whose tokens then go to other experts."""
        self.text(6000)
        cases = [(m, k) for m in MODELS for k in KINDS]
        for model, kind in some(cases):
            with self.subTest(model=model, gradients=kind):
                self.both(self.source(model, KINDS[kind], "m"))
                self.assertIn(b".other = MG_E", self.read("program.c"))
                steps = 20 if FULL else 6
                want = self.losses("./cpu", "--steps", steps)
                for seed in range(4) if FULL else (TURN,):
                    self.near(want, self.losses("./gpu", "--steps", steps, seed=seed), 1e-3, norms=20 if kind == "kept" else 10)

    def test_first_step(self):
        """Before any update, and before sums of other orders have been rounded twice, the loss is nearly that of the processor, and far
        from that of bf16."""
        self.text(6000)
        self.both(self.source("llama_small.mg", "fp8", "m"))
        (want, _), (got, _) = (self.losses(p, "--steps", 1)[0] for p in ("./cpu", "./gpu"))
        self.compiles(self.source("llama_small.mg", "bf16", "half"), "-o", "half")
        half = self.losses("./half", "--steps", 1)[0][0]
        self.assertLess(10 * abs(want - got), abs(want - half))

    def test_again(self):
        """What is computed again has the bits that it had; so has a run that goes on from a checkpoint."""
        self.text(6000)
        source = self.source("llama_small.mg", "fp8", "m")
        self.gpu(source, "--recompute", "none")
        kept = self.losses("./gpu", "--steps", 4)
        self.trains("./gpu", "--data", "text1.txt", "--out", "cut", "--steps", 2, env={"SHIM_SEED": "2"})
        self.trains("./gpu", "--data", "text1.txt", "--out", "cut", "--steps", 4, "--resume", env={"SHIM_SEED": "3"})
        self.assertEqual([(l["loss"], l["grad_norm"]) for l in self.metrics("cut") if "loss" in l], kept)
        self.gpu(source, "--recompute", "all")
        self.assertEqual(self.losses("./gpu", "--steps", 4, seed=5), kept)

    def test_offloaded(self):
        """Parameters that come from the host are rounded layer by layer, with the scales that their stack has, or ahead of all layers
        where they are offloaded as masters: the same bits."""
        self.text(6000)
        for source, lines in ((self.source("llama_small.mg", "fp8", "m"), ("state, masters, parameters, gradients", "state, masters")),
                              (self.source("llama_small.mg", KINDS["kept"], "narrow"), ("state, masters",))):
            self.gpu(source)
            here = self.losses("./gpu", "--steps", 3)
            for line in some(lines):
                with self.subTest(source=source, offload=line):
                    self.write("host.mg", f"layout host {{\n device h200\n microbatch 4\n offload {line} -> host\n}}\n")
                    self.gpu(source, "--layout", "./host.mg", device=())
                    self.assertEqual(self.losses("./gpu", "--steps", 3, seed=3), here)

    def test_ranks(self):
        """Scales are of the tensor on all ranks: the largest numbers are all-reduced."""
        self.text(6000)
        source = self.source("llama_small.mg", "fp8", "m")
        self.gpu(source, "-D", "batch=8", "--microbatch", 8)
        want = self.losses("./gpu", "--steps", 3)
        for name in some(RANKS):
            with self.subTest(layout=name):
                self.write(f"{name}.mg", layouts.text(name, "h200"))
                self.gpu(source, "-D", "batch=8", "--microbatch", RANKS[name], "--layout", f"./{name}.mg", device=())
                self.near(want, self.losses("./gpu", "--steps", 3, SHIM_GPUS="8"), 2e-3)

    def test_largest_by_axis(self):
        """Where machines are of four GPUs the largest number of dp 4 and tp 2 is found along tp and then along dp, where they are of
        eight in one go: the same bits."""
        self.text(6000)
        source = self.source("llama_small.mg", "fp8", "m")
        self.write("both.mg", "layout both {\n device h200\n mesh dp = 4, tp = 2\n batch -> dp\n kv_heads, ffn, vocab -> tp\n microbatch 2\n}\n")
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="ascii") as f:
            described = json.load(f)
        runs = []
        for node in (4, 8):
            described["node_ranks"] = node
            self.write("card.json", json.dumps(described))
            how = ("-D", "batch=8", "--layout", "./both.mg", "--pieces=none", "--device", "card.json")
            text = self.mgc(source, *how, "--print-after=largest").stdout.decode()
            self.assertEqual("all_reduce" in text and "axes=dp.tp, max=yes" not in text, node == 4)
            self.gpu(source, *how, device=())
            runs.append(self.losses("./gpu", "--steps", 3, SHIM_GPUS="8"))
        self.assertEqual(*runs)

    def test_small(self):
        """The largest numbers have a stream and communicators of their own, beside what is sent to experts and in pairs of a pipeline: the
        numbers of any order of the streams, and of a program in which each collective is waited for, but for the order in which NCCL
        adds up gradients. Of one plan with that stream and without plan_small compares bits."""
        self.text(6000)
        source = self.source("mixtral_small.mg", "fp8", "m")
        cases = (("ep = 2, tp = 2", ("experts -> ep", "kv_heads, ffn, vocab -> tp", "seq -> tp")),
                 ("dp = 2, ep = 2", ("experts -> ep", "state -> dp")),
                 ("pp = 2, ep = 2", ("experts -> ep", "layers -> pp (schedule = 1f1b, pairs = all)")))
        for mesh, rules in some(cases, 2):
            with self.subTest(mesh=mesh):
                over = [a for a in ("dp", "ep") if a in mesh]
                self.write("small.mg", "\n    ".join(("layout small {", "device h200", f"mesh {mesh}", f"batch -> {', '.join(over)}", *rules, "microbatch 1\n}\n")))
                how = ("-D", "batch=8", "--layout", "./small.mg", "--pieces=none")
                runs = []
                for overlap in (True, False):
                    self.gpu(source, *how, *(() if overlap else ("--overlap=none",)), device=())
                    text = self.read("program.c")
                    self.assertEqual((b".small = true" in text, b"mg_stream(r, 7);" in text, re.search(rb"\.small = [1-9]", text) is not None), (overlap,) * 3)
                    runs += [self.losses("./gpu", "--steps", 3, SHIM_GPUS="8", seed=seed) for seed in ((1, TURN + 2) if overlap else (1,))]
                for other in runs[1:]:
                    self.near(other, runs[0], 1e-9)

    def test_tiles(self):
        """Scales of tiles: as far apart as with those of tensors. A term is rounded elsewhere than in the processor's emulation."""
        self.text(6000)
        for model, kind in some([(m, k) for m in MODELS for k in TILED]):
            precision, device, sm = TILED[kind]
            with self.subTest(model=model, kind=kind):
                self.both(self.source(model, precision, "m"), device=("--device", device))
                text = self.read("program.c").decode()
                for tiles in ("MG_TILES_MX",) if kind == "mx" else ("MG_TILES_ROWS", "MG_TILES_[AB]"):
                    self.assertRegex(text, rf"\.tiles = {tiles}")
                steps = 20 if FULL else 4
                want, got = self.losses("./cpu", "--steps", steps), self.losses("./gpu", "--steps", steps, seed=TURN, SHIM_SM=sm)
                self.near(want, got, 1e-3, norms=20 if kind == "mx" else 10)  # ffn = 48 is no multiple of 32: halves

    def test_tiles_first_step(self):
        """Several tiles of a row, of which the last is smaller: nearly the processor's loss, and far from that of scales of tensors."""
        self.text(6000)
        for kind in some(TILED):
            precision, device, sm = TILED[kind]
            size = ("-D", "ffn=400" if kind == "tile" else "ffn=416")
            self.both(self.source("llama_small.mg", precision, "m"), *size, device=("--device", device))
            (want, norm), (got, other) = (self.losses(p, "--steps", 1, SHIM_SM=sm)[0] for p in ("./cpu", "./gpu"))
            self.compiles(self.source("llama_small.mg", "fp8(gradients = e4m3)", "whole"), *size, "-o", "whole")
            whole = self.losses("./whole", "--steps", 1)[0][0]
            with self.subTest(kind):
                if kind == "tile":  # of powers of two the loss is nearer to that of tensors
                    self.assertLess(5 * abs(want - got), abs(want - whole))
                self.assertLess(abs(want - got), 2e-4)
                self.assertLess(abs(norm - other) / norm, 2e-3)

    def test_tiles_again(self):
        """Computed again and resumed it has the same bits."""
        self.text(6000)
        for kind in some(TILED):
            precision, device, sm = TILED[kind]
            source, device = self.source("llama_small.mg", precision, "m"), ("--device", device)
            self.gpu(source, "--recompute", "none", device=device)
            kept = self.losses("./gpu", "--steps", 3, SHIM_SM=sm)
            for steps, seed, more in ((2, "2", ()), (3, "3", ("--resume",))):
                self.trains("./gpu", "--data", "text1.txt", "--out", "cut" + kind, "--steps", steps, *more, env={"SHIM_SEED": seed, "SHIM_SM": sm})
            self.assertEqual([(l["loss"], l["grad_norm"]) for l in self.metrics("cut" + kind) if "loss" in l], kept)
            self.gpu(source, "--recompute", "all", device=device)
            self.assertEqual(self.losses("./gpu", "--steps", 3, seed=5, SHIM_SM=sm), kept)

    def test_tiles_ranks(self):
        """What a rank has a part of a tile of is multiplied in halves; the losses are near those of one rank."""
        self.text(6000)
        for name, kind in some([(r, k) for r in RANKS for k in TILED]):
            precision, device, sm = TILED[kind]
            source = self.source("llama_small.mg", precision, "m")
            self.gpu(source, "-D", "batch=8", "--microbatch", 8, device=("--device", device))
            want = self.losses("./gpu", "--steps", 3, SHIM_SM=sm)
            with self.subTest(layout=name, kind=kind):
                self.write(f"{name}.mg", layouts.text(name, device))
                self.gpu(source, "-D", "batch=8", "--microbatch", RANKS[name], "--layout", f"./{name}.mg", device=())
                self.near(want, self.losses("./gpu", "--steps", 3, SHIM_GPUS="8", SHIM_SM=sm), 5e-3)

    def test_tiles_refused(self):
        """Other GPUs than those that have such products, when the program is made, and when it runs; and an older library."""
        source, powers = (self.source("llama_small.mg", TILED[kind][0], kind) for kind in ("tile", "mx"))
        for kind, device, what in (("tile", "rtx4090", "a GPU of compute capability 8.9"), ("tile", "b200", "a GPU of compute capability 10.0"),
                                   ("mx", "h100", "a GPU of compute capability 9.0"), ("mx", "rtx4090", "a GPU of compute capability 8.9")):
            r = self.mgc(f"{kind}.mg", "--device", device, "--check")
            self.assertEqual(r.returncode, 1, r.err)
            for part in (f"error[MG0311]: precision fp8(scales = {kind}) on {device}, {what}", "help: precision fp8"):
                self.assertIn(part, r.err)
        for device in ("rtx5090", "b200"):
            self.compiles(powers, "--device", device, "--check")
        self.write("marked.mgir", self.compiles(source, "--device", "h100", "--print-after=quantize").out)
        r = self.mgc("--from=marked.mgir", "--device", "cpu", "--check")
        self.assertEqual(r.returncode, 2, r.err)
        self.assertIn("the text has products of fp8", r.err)
        self.write("emulated.mgir", self.compiles(source, "--device", "cpu", "--print-after=quantize").out)
        r = self.mgc("--from=emulated.mgir", "--device", "h100", "--check")
        self.assertEqual(r.returncode, 2, r.err)
        self.assertIn("the text has products of halves in place of those of fp8", r.err)
        self.compiles("--from=marked.mgir", "--device", "h100", "--check")
        self.text(6000)
        for path, device, cases in (
                (source, "h200", (({"SHIM_SM": "89"}, 77, b"its products of fp8 with scales of tiles need 9.0"),
                                  ({"SHIM_SM": "100"}, 77, b"its products of fp8 with scales of tiles need 9.0"),
                                  ({"SHIM_CUBLASLT": "120800"}, None, b"need cuBLASLt 12.9 or later"))),
                (powers, "b200", (({"SHIM_SM": "90"}, 77, b"its products of fp8 with scales of mx need 10.0 or later"),
                                  ({"SHIM_SM": "120", "SHIM_CUBLASLT": "120800"}, None, b"need cuBLASLt 12.9 or later")))):
            self.gpu(path, device=("--device", device))
            for env, code, says in cases:
                r = self.run_program("./gpu", "--data", "text1.txt", "--steps", 1, "--out", "old", env=env)
                self.assertTrue(r.returncode == code if code else r.returncode, r.stderr)
                self.assertIn(says, r.stderr)

    def test_sides(self):
        """What a rank has too few rows or columns of is multiplied in halves; nothing is refused, and the numbers are the same."""
        self.text(6000)
        source = self.source("llama_small.mg", "fp8", "m")
        small = ("-D", "seq=10", "-D", "batch=1", "--microbatch", 1)  # gradients of parameters sum 10 tokens
        self.both(source, *small)
        self.assertRegex(self.read("program.c").decode(), r"GEMM\(MG_BF16, MG_F32")
        self.near(self.losses("./cpu", "--steps", 4), self.losses("./gpu", "--steps", 4), 1e-3)

    def test_refused(self):
        """A device without tensor cores for fp8, when the program is made, and when it runs."""
        source = self.source("llama_small.mg", "fp8", "m")
        r = self.mgc(source, "--device", "a100", "--check")
        self.assertEqual(r.returncode, 1, r.err)
        for part in ("error[MG0311]: precision fp8 on a100, which has no products of fp8", "help: precision bf16"):
            self.assertIn(part, r.err)
        r = self.mgc(os.path.join(PARITY, "llama_small.mg"), "--precision", "fp8", "--device", "rtx3090", "--check")
        self.assertEqual(r.returncode, 1, r.err)
        self.assertIn("help: --precision bf16", r.err)
        self.write("emulated.mgir", self.compiles(source, "--device", "h100", "--print-after=emulate").out)
        r = self.mgc("--from=emulated.mgir", "--device", "cpu", "--check")
        self.assertEqual(r.returncode, 2, r.err)
        self.assertIn("the text has products of fp8", r.err)
        self.compiles("--from=emulated.mgir", "--device", "h100", "--check")
        self.text(6000)
        self.gpu(source)
        r = self.run_program("./gpu", "--data", "text1.txt", "--steps", 1, "--out", "old", env={"SHIM_SM": "86"})
        self.assertEqual(r.returncode, 77)
        self.assertIn(b"its products of fp8 need 8.9 or later", r.stderr)

    def test_plan(self):
        """Every second layout of an operand is an action of the plan, and products are priced at the peak of fp8."""
        source = self.source("llama_small.mg", "fp8", "m")
        wide = [a for d in ("hidden=2048", "kv_heads=8", "group=4", "head=64", "ffn=8192", "seq=1024") for a in ("-D", d)]
        text = self.compiles(source, *wide, "--device", "rtx4090", "--emit=c").out
        products = re.findall(r"GEMM\(MG_E[45]M[23], MG_(F32|BF16),", text)
        self.assertEqual(set(products), {"F32", "BF16"})
        self.assertRegex(text, r"\.tb = true,\s+\.epilogue = MG_SCALES,\s+\.other = MG_E4M3")
        self.assertRegex(self.compiles(source, *wide, "--device", "rtx4090", "--schedule").out, r"kernel .*mlp\.copy")
        seconds = {p: self.plan(source, *wide, "--device", "rtx4090", "--precision", p)["step_ms"] for p in ("bf16", "fp8")}
        self.assertLess(seconds["fp8"], 0.85 * seconds["bf16"])

    def plan(self, *argv):
        return json.loads(self.compiles(*argv, "--plan=json").out)


if __name__ == "__main__":
    mgctest.main()
