"""Programs of several ranks for GPUs, run by the shim with its NCCL: they follow one rank on a processor under every
layout, what one saves the other goes on from, and when a rank dies or stops all end and say which. The sample of
layouts and seeds turns with the commit; MGC_FULL=1 takes all."""

import json
import os
import re
import signal
import subprocess
import time

import layouts
import mgctest
import shim
from layouts import EXPERTS, LAYOUTS, SCANS, SENT
from mgctest import FULL, TURN, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
LLAMA = os.path.join(PARITY, "llama_small.mg")
GPT2 = os.path.join(PARITY, "gpt2_small.mg")
MIXTRAL = os.path.join(PARITY, "mixtral_small.mg")
SEEDS = range(4) if FULL else (TURN,)
SOME = some(LAYOUTS)
FEW = some(EXPERTS)
GPUS = {"SHIM_GPUS": "8"}
SCHEDULES = [(kind, pp) for kind in ("gpipe", "1f1b", "interleaved, chunks = 2", "zb-h1") for pp in (2, 4)]


@mgctest.in_turns
class Nccl(shim.Case):
    def make(self, path, name, *options, more=""):
        """The program ./NAME of a layout."""
        self.write(f"{name}.mg", layouts.text(name, "h200", "heads" if path == GPT2 else "kv_heads", more))
        self.gpu(path, "-D", "batch=8", "--layout", f"./{name}.mg", *options, device=())
        os.rename(self.path("gpu"), self.path(name))

    def one(self, path, *options):
        self.compiles(path, "-D", "batch=8", *options, "-o", "one")

    def losses(self, program, *argv, seed=1, code=0, **more):
        out = f"run{len(os.listdir(self.dir))}"
        self.trains(program, "--data", "text1.txt", "--out", out, "--threads", 1, *argv,
                    env={**GPUS, "SHIM_SEED": str(seed), **more}, timeout=600, code=code)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]

    def near(self, want, got, bound):
        self.assertEqual(len(want), len(got))
        for (a, n), (b, k) in zip(want, got, strict=True):
            self.assertLess(abs(a - b), bound * abs(a))
            self.assertLess(abs(n - k), 50 * bound * abs(n))

    def test_layouts(self):
        """In f32 within 2e-4 of a loss over 20 steps, as one rank is, whatever the order of arrival."""
        self.text(6000)
        path = (LLAMA, GPT2)[TURN % 2]
        self.one(path, "--precision", "f32")
        want = self.losses("./one", "--steps", 20)
        for name in SOME:
            self.make(path, name, "--precision", "f32")
            for seed in SEEDS:
                with self.subTest(layout=name, seed=seed):
                    self.near(want, self.losses("./" + name, "--steps", 20, seed=seed), 2e-4)

    def test_in_any_order(self):
        """Without the option the same run twice has the same bits; with it sums may have another order each time, near those."""
        self.text(6000)
        self.write("it.mg", "layout it {\n device h200\n mesh dp = 2, tp = 4\n batch -> dp\n kv_heads, ffn, vocab -> tp\n microbatch 1\n}\n")
        options = (LLAMA, "-D", "kv_heads=4", "-D", "batch=8", "--layout", "./it.mg", "--precision", "f32")
        runs, plan = {}, {}
        for kind in ("nccl", "unordered"):
            self.gpu(*options, f"--collectives={kind}", device=())
            plan[kind] = json.loads(self.compiles(*options, f"--collectives={kind}", "--plan=json").out)
            runs[kind] = [self.losses("./gpu", "--steps", 4) for _ in range(3)]
        self.assertEqual(len(set(map(str, runs["nccl"]))), 1)
        self.assertGreater(len(set(map(str, runs["unordered"]))), 1)
        for run in runs["unordered"]:
            self.near(runs["nccl"][0], run, 1e-5)
        large = ("-D", "batch=8", "-D", "layers=4", "--layout", "./large.mg", "--pieces=none", "--precision", "bf16", "--plan=json")
        self.write("large.mg", "layout large {\n device h100\n mesh tp = 8\n kv_heads, ffn, vocab -> tp\n microbatch 1\n}\n")
        ms = [json.loads(self.compiles(mgctest.model("llama7b.mg"), *large, f"--collectives={kind}").out)["step_ms"] for kind in ("nccl", "unordered")]
        self.assertLess(ms[1], 0.95 * ms[0])  # by the switch
        # The memory for the ways that it has more is planned.
        self.assertGreater(plan["unordered"]["outside"]["bytes"], plan["nccl"]["outside"]["bytes"])
        said = "two runs need not have the same bits"
        self.assertIn(said, self.compiles(*options, "--collectives=unordered", "--plan").out)
        self.assertNotIn(said, self.compiles(*options, "--plan").out)
        with open(LLAMA, encoding="utf-8") as f:
            self.write("tree.mg", f.read().replace("precision f32\n", "precision f32(reduce = tree)\n", 1))
        r = self.mgc("tree.mg", "-D", "batch=8", "--device", "h200", "--collectives=unordered", "--check")
        self.assertEqual(r.returncode, 2, r.err)
        self.assertIn("'reduce = tree'", r.err)
        self.assertEqual(self.mgc(LLAMA, "--device", "cpu", "--collectives=unordered", "--check").returncode, 2)

    def test_keeps_what_is_gathered(self):
        """Over slow links layers keep parameters as they were gathered: the bits of gathering them again."""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="utf-8") as f:
            device = json.load(f)
        self.write("slow.json", json.dumps({**device, "link_bandwidth": 1e8}))
        self.write("it.mg", "layout it {\n    device h200\n    mesh dp = 4\n    batch -> dp\n    state, grads, params -> dp\n    microbatch 1\n}\n")
        sizes = [x for s in ("layers=4", "hidden=64", "ffn=128", "seq=32", "batch=8") for x in ("-D", s)]
        saved = {}
        for recompute in ("auto", "none", "all"):
            options = (LLAMA, *sizes, "--layout", "./it.mg", "--precision", "bf16", f"--recompute={recompute}")
            plan = self.mgc(*options, "--device", "./slow.json", "--plan").out
            self.assertEqual("and what is gathered" in plan, recompute == "auto", plan)
            self.gpu(*options, device=("--device", "./slow.json"))
            self.trains("./gpu", "--data", "text1.txt", "--out", recompute, "--threads", 1, "--steps", 4,
                        env={**GPUS, "SHIM_SEED": str(TURN)}, timeout=600)
            saved[recompute] = [self.read(f"{recompute}/ckpt/step-00000004/{name}.safetensors") for name in ("model", "optimizer")]
        self.assertEqual(saved["auto"], saved["none"])
        self.assertEqual(saved["auto"], saved["all"])

    def test_gathers_once(self):
        """With ZeRO 1 and 2 over slow links the first microbatch's layers gather what the step before updated: the bits of
        gathers behind the update, also of evaluations and a sample between steps, in any order of streams, and resumed."""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="utf-8") as f:
            device = json.load(f)
        self.write("slow.json", json.dumps({**device, "link_bandwidth": 1e8, "launch_seconds": 4e-5}))
        with open(LLAMA, encoding="utf-8") as f:
            self.write("it.mg", f.read().replace("precision f32\n", "precision bf16(reduce = bf16)\n", 1))
        sizes = [x for s in ("layers=4", "hidden=64", "ffn=128", "seq=32") for x in ("-D", s)]
        cases = {"loop": ("dp = 2", "state -> dp", 8), "zero2": ("dp = 4", "state, grads -> dp", 16), "two": ("dp = 2", "state -> dp", 4),
                 "one": ("dp = 2", "state -> dp", 2), "tp": ("dp = 2, tp = 2", "kv_heads, ffn, vocab -> tp\n    state -> dp", 8)}
        mesh, rules, batch = cases[some(cases, 1)[0]]
        saved = {}
        self.write("layout.mg", f"layout it {{\n    device h200\n    mesh {mesh}\n    batch -> dp\n    {rules}\n    microbatch 1\n}}\n")
        for overlap in ("none", "auto"):
            options = ("./it.mg", *sizes, "-D", f"batch={batch}", "--layout", "./layout.mg", f"--overlap={overlap}")
            plan = self.mgc(*options, "--device", "./slow.json", "--plan").out
            self.assertEqual("once a step" in plan, overlap == "auto", plan)
            self.gpu(*options, device=("--device", "./slow.json"))
            for seed in (TURN, TURN + 1) if overlap == "auto" else (TURN,):
                run, env = f"{overlap}{seed}", {**GPUS, "SHIM_SEED": str(seed)}
                often = ("--data", "text1.txt", "--val-fraction", "0.1", "--eval-every", "2", "--out", run, "--threads", 1)
                self.trains("./gpu", *often, "--steps", 3, env=env, timeout=600)
                self.trains("./gpu", *often, "--steps", 6, "--resume", env=env, timeout=600)
                values = [(m.get("loss"), m.get("val_loss")) for m in self.metrics(run)]
                saved[run] = [values] + [self.read(f"{run}/ckpt/step-00000006/{name}.safetensors") for name in ("model", "optimizer")]
        want = saved[f"none{TURN}"]
        self.assertEqual(saved[f"auto{TURN}"][1:], want[1:])
        self.assertEqual(saved[f"auto{TURN + 1}"], saved[f"auto{TURN}"])
        self.assertEqual([v[0] for v in saved[f"auto{TURN}"][0]], [v[0] for v in want[0]])

    def test_beside(self):
        """With ZeRO 1 and plain data parallelism over slow links a pipeline's step gathers and reduces beside its table: the bits of
        collectives before and behind it, in any order of streams, and resumed."""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="utf-8") as f:
            device = json.load(f)
        self.write("slow.json", json.dumps({**device, "link_bandwidth": 3e7, "launch_seconds": 4e-5}))
        with open(LLAMA, encoding="utf-8") as f:
            self.write("it.mg", f.read().replace("precision f32\n", "precision bf16(reduce = bf16)\n", 1))
        sizes = [x for s in ("layers=4", "hidden=64", "ffn=128", "seq=32") for x in ("-D", s)]
        cases = {"interleaved": ("interleaved, chunks = 2", "pp = 2, dp = 2", "state -> dp"), "1f1b": ("1f1b", "pp = 2, dp = 2", "state -> dp"),
                 "zb-h1": ("zb-h1", "pp = 2, dp = 2", "state -> dp"), "plain": ("interleaved, chunks = 2", "pp = 2, dp = 2", ""),
                 "tp": ("interleaved, chunks = 2", "pp = 2, dp = 2, tp = 2", "kv_heads, ffn, vocab -> tp\n    state -> dp")}
        name = some(cases, 1)[0]
        schedule, mesh, rules = cases[name]
        saved = {}
        self.write("layout.mg", f"layout it {{\n    device h200\n    mesh {mesh}\n    batch -> dp\n    {rules}\n"
                   f"    layers -> pp (schedule = {schedule})\n    microbatch 1\n}}\n")
        for overlap in ("none", "auto"):
            options = ("./it.mg", *sizes, "-D", "batch=8", "--layout", "./layout.mg", f"--overlap={overlap}")
            self.gpu(*options, device=("--device", "./slow.json"))
            program = self.read("program.c").decode()
            self.assertEqual("case MG_PIPE_REDUCE" in program, overlap == "auto", name)
            if name == "interleaved" or overlap == "none":
                self.assertEqual("case MG_PIPE_UNSHARDED" in program, overlap == "auto", name)
            for seed in (TURN, TURN + 1) if overlap == "auto" else (TURN,):
                run, env = f"{overlap}{seed}", {**GPUS, "SHIM_SEED": str(seed)}
                often = ("--data", "text1.txt", "--val-fraction", "0.1", "--eval-every", "2", "--out", run, "--threads", 1)
                self.trains("./gpu", *often, "--steps", 3, env=env, timeout=600)
                self.trains("./gpu", *often, "--steps", 6, "--resume", env=env, timeout=600)
                values = [(m.get("loss"), m.get("grad_norm")) for m in self.metrics(run)]
                saved[run] = [values] + [self.read(f"{run}/ckpt/step-00000006/{name}.safetensors") for name in ("model", "optimizer")]
        want = saved[f"none{TURN}"]
        self.assertEqual(saved[f"auto{TURN}"], want)
        self.assertEqual(saved[f"auto{TURN + 1}"], want)

    def test_pairs(self):
        """The forward of one microbatch beside the backward of another, by links so slow that it pays: the bits of one behind the other, resumed."""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="utf-8") as f:
            self.write("slow.json", json.dumps({**json.load(f), "link_bandwidth": 3e7}))
        schedule = some(("1f1b", "interleaved, chunks = 2"), 1)[0]
        saved = {}
        for pairs in ("none", "all"):
            self.write("layout.mg", f"layout it {{\n    device h200\n    mesh pp = 2, ep = 2\n    experts -> ep\n    batch -> ep\n"
                       f"    layers -> pp (schedule = {schedule}, pairs = {pairs})\n    microbatch 1\n}}\n")
            self.gpu(MIXTRAL, "-D", "batch=8", "-D", "layers=4", "--precision", "bf16", "--layout", "./layout.mg", device=("--device", "./slow.json"))
            self.assertEqual("_pair(mg_run" in self.read("program.c").decode(), pairs == "all")
            for seed in (TURN, TURN + 1) if pairs == "all" else (TURN,):
                run, env = f"{pairs}{seed}", {**GPUS, "SHIM_SEED": str(seed)}
                often = ("--data", "text1.txt", "--out", run, "--threads", 1)
                self.trains("./gpu", *often, "--steps", 3, env=env, timeout=600)
                self.trains("./gpu", *often, "--steps", 5, "--resume", env=env, timeout=600)
                values = [(m.get("loss"), m.get("grad_norm")) for m in self.metrics(run)]
                saved[run] = [values] + [self.read(f"{run}/ckpt/step-00000005/{name}.safetensors") for name in ("model", "optimizer")]
        self.assertEqual(saved[f"all{TURN}"], saved[f"none{TURN}"])
        self.assertEqual(saved[f"all{TURN + 1}"], saved[f"none{TURN}"])

    def test_scans(self):
        """Mamba 2 over GPUs that have a part of a sequence each."""
        self.text(6000)
        path = os.path.join(mgctest.SOURCE, "models/mamba2.mg")
        small = [x for s in ("layers=2", "hidden=16", "heads=4", "head=8", "state=8", "seq=32", "batch=8") for x in ("-D", s)]
        self.write("one.mg", layouts.text("one", more="    chunk 4\n"))
        self.compiles(path, *small, "--layout", "./one.mg", "--precision", "f32", "-o", "one")
        want = self.losses("./one", "--steps", 4)
        for name in some(SCANS, 1):
            self.write(f"{name}.mg", layouts.text(name, "h200", more="    chunk 4\n"))
            self.gpu(path, *small, "--layout", f"./{name}.mg", "--precision", "f32", device=())
            with self.subTest(layout=name):
                self.near(want, self.losses("./gpu", "--steps", 4), 2e-4)

    def test_pipelines(self):
        """Stages on two and four GPUs, under every schedule; and again with as many orders of arrival."""
        self.text(6000)
        self.one(LLAMA, "--precision", "f32", "-D", "layers=8")
        want = self.losses("./one", "--steps", 3)
        for kind, pp in some(SCHEDULES):
            name = f"of_{kind[:2]}_{pp}"
            self.write(f"{name}.mg", f"layout {name} {{\n    device h200\n    mesh pp = {pp}\n{layouts.PP(kind)}    microbatch 1\n}}\n")
            self.gpu(LLAMA, "-D", "batch=8", "-D", "layers=8", "--precision", "f32", "--layout", f"./{name}.mg", device=())
            os.rename(self.path("gpu"), self.path(name))
            for seed in range(20) if FULL else (TURN, TURN + 1):
                with self.subTest(kind=kind, pp=pp, seed=seed):
                    self.near(want, self.losses("./" + name, "--steps", 3, seed=seed), 2e-4)

    def test_several(self):
        """Stages of models with several losses, with followers, with several towers: the losses and norms of one rank, each of them."""
        self.text(6000)
        files = {"byol": "zoo/byol", "gan": "zoo/gan", "together": "../plan/together", "ends": "../plan/ends"}
        (model,), (kind,) = some(files)[:1], some(("1f1b", "zb-h1", "interleaved, chunks = 2"))[:1]
        data = os.path.join(PARITY, f"zoo/golden/{model}.safetensors") if model in ("byol", "gan") else "text1.txt"
        path, rows = os.path.join(PARITY, files[model] + ".mg"), []
        self.compiles(path, "--precision", "f32", "-D", "layers=4", "-o", "one")
        self.write("it.mg", f"layout it {{\n    device h200\n    mesh pp = 2, dp = 2\n    batch -> dp\n{layouts.PP(kind)}    microbatch 1\n}}\n")
        self.gpu(path, "--precision", "f32", "-D", "layers=4", "--layout", "./it.mg", device=())
        for function in self.read("program.c").decode().split("\nvoid mg_"):  # a point is there because something waits for it
            recorded, awaited = (set(re.findall(rf"mg_{call}\(r, (\d+)\)", function)) for call in ("record", "wait"))
            self.assertEqual(recorded, awaited)
        for program in ("one", "gpu"):
            self.trains("./" + program, "--data", data, "--steps", 4, "--threads", 1, "--out", program + "-run",
                        env={**GPUS, "SHIM_SEED": str(TURN)}, timeout=600)
            rows.append([m for m in self.metrics(program + "-run") if "lr" in m])
        for a, b in zip(*rows, strict=True):
            keys = [k for k in a if k.endswith(("loss", "norm"))]
            self.assertGreaterEqual(len(keys), 2)
            for k in keys:
                self.assertLess(abs(a[k] - b[k]), 2e-4 * abs(a[k]), (model, k))

    def test_traced(self):
        """Every GPU is in the trace, and its phases lie where messages allow them to."""
        self.text(6000)
        self.write("it.mg", f"layout it {{\n    device h200\n    mesh pp = 2\n{layouts.PP('1f1b')}    microbatch 1\n}}\n")
        self.gpu(LLAMA, "-D", "batch=4", "-D", "layers=4", "--layout", "./it.mg", device=())
        self.trains("./gpu", "--data", "text1.txt", "--out", "run", "--steps", 6, "--trace", "4:5", env={**GPUS, "SHIM_SEED": "1"})
        events = json.loads(self.read("run/trace.json"))["traceEvents"]
        phases = {(e["args"]["step"], e["args"]["stage"], e["args"]["kind"], e["args"]["microbatch"]): e
                  for e in events if e.get("cat") == "phase" and e["tid"] == 0}
        self.assertEqual(len(phases), 2 * 2 * 2 * 4)
        for (step, stage, kind, m), e in phases.items():
            self.assertEqual(e["pid"], stage)
            other = phases[step, 1 - stage, kind, m]
            if stage == (kind == "F"):
                self.assertGreaterEqual(e["ts"], other["ts"] + other["dur"] - 0.01)

    def test_within_a_machine(self):
        """Of two machines of two GPUs each, what stays in one is sent beside what crosses the network: the bits of one stream. (Sums of four ranks begin where
        the shim's order has it.)"""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="utf-8") as f:
            device = {**json.load(f), "node_ranks": 2, "link_bandwidth": 1e8, "node_bandwidth": 1e8, "launch_seconds": 4e-5}
        zero3 = "state, grads, params -> dp"
        cases = {"tp": (LLAMA, "dp = 2, tp = 2", f"batch -> dp\n    kv_heads, ffn, vocab -> tp\n    seq -> tp\n    {zero3}"),
                 "ep": (MIXTRAL, "dp = 2, ep = 2", f"experts -> ep\n    batch -> dp, ep\n    {zero3}"),
                 "pp": (LLAMA, "dp = 2, pp = 2, tp = 2", "batch -> dp\n    kv_heads, ffn, vocab -> tp\n    layers -> pp (schedule = 1f1b)\n    state -> dp")}
        path, mesh, rules = cases[some(cases, 1)[0]]
        self.write("layout.mg", f"layout it {{\n    device h200\n    mesh {mesh}\n    {rules}\n    microbatch 1\n}}\n")
        saved = {}
        for streams in (2, 3):
            self.write("apart.json", json.dumps({**device, "streams": streams}))
            options = (path, "-D", "batch=8", "-D", "layers=4", "--precision", "bf16", "--layout", "./layout.mg")
            schedule = self.mgc(*options, "--device", "./apart.json", "--schedule").out
            self.assertEqual(" s8 communication" in schedule, streams == 3, schedule)
            self.gpu(*options, device=("--device", "./apart.json"))
            for seed in (TURN, TURN + 1):
                run, env = f"{streams}-{seed}", {**GPUS, "SHIM_SEED": str(seed)}
                often = ("--data", "text1.txt", "--out", run, "--threads", 1)
                self.trains("./gpu", *often, "--steps", 3, env=env, timeout=600)
                self.trains("./gpu", *often, "--steps", 5, "--resume", env=env, timeout=600)
                values = [(m.get("loss"), m.get("grad_norm")) for m in self.metrics(run)]
                saved[run] = [values] + [self.read(f"{run}/ckpt/step-00000005/{name}.safetensors") for name in ("model", "optimizer")]
        for seed in (TURN, TURN + 1):
            self.assertEqual(saved[f"3-{seed}"], saved[f"2-{seed}"])

    def test_experts(self):
        """Of the first steps, before rounding changes which expert is chosen."""
        self.text(6000)
        self.one(MIXTRAL, "--precision", "f32")
        want = self.losses("./one", "--steps", 4)
        for name in FEW:
            self.make(MIXTRAL, name, "--precision", "f32")
            for seed in SEEDS:
                with self.subTest(layout=name, seed=seed):
                    self.near(want, self.losses("./" + name, "--steps", 4, seed=seed), 2e-4)

    def test_sent_rows(self):
        """Rows that are sent to the ranks of their experts; what a bound drops is that of ranks on processors."""
        self.text(6000)
        with open(MIXTRAL, encoding="utf-8") as f:
            self.write("rows.mg", mgctest.dropless(f.read(), "f32"))
        self.one("rows.mg", "--precision", "f32")
        want = self.losses("./one", "--steps", 4)
        for name in some(SENT):
            self.make("rows.mg", name, "--precision", "f32")
            with self.subTest(layout=name):
                got = self.losses("./" + name, "--steps", 4)
                if "bound" in name:
                    self.write("cpu.mg", layouts.text(name, "cpu", "kv_heads", ""))
                    self.compiles("rows.mg", "-D", "batch=8", "--layout", "./cpu.mg", "--precision", "f32", "-o", "cpu")
                    self.near(self.losses("./cpu", "--steps", 4), got, 2e-4)
                    self.assertNotEqual([a for a, _ in want], [a for a, _ in got])
                    shares = [[m.get("dropped") for m in self.metrics(f"run{k}") if "loss" in m] for k in range(50) if os.path.exists(self.path(f"run{k}"))]
                    self.assertIn(True, [all(x and 0 < x < 1 for x in share) for share in shares])
                else:
                    self.near(want, got, 2e-4)

    def test_halves(self):
        """bf16 within 1e-3, as test_cuda.py has it for one rank."""
        self.text(6000)
        self.one(LLAMA, "--precision", "f32")
        want = self.losses("./one", "--steps", 20)
        for name in some(("zero3_tp2_sp", "cp2_dp2_zigzag", "zero3_cp2_heads")):
            with self.subTest(layout=name):
                self.make(LLAMA, name, "--precision", "bf16")
                self.near(want, self.losses("./" + name, "--steps", 20), 1e-3)

    def test_tree(self):
        """dp 1, 2 and 4 give the same bits; with ZeRO and in other orders of arrival too."""
        self.text(6000)
        with open(LLAMA, encoding="utf-8") as f:
            self.write("tree.mg", f.read().replace("precision f32", "precision f32(reduce = tree)"))
        self.gpu("tree.mg", "-D", "batch=8", "--microbatch", 1)
        want = self.losses("./gpu", "--steps", 4)
        for name in some(("dp2", "dp2_zero2", "dp2_zero1", "dp4", "dp4_zero3", "dp2_zero3"), 2):
            self.make("tree.mg", name)
            for seed in (TURN, TURN + 1):
                with self.subTest(layout=name, seed=seed):
                    self.assertEqual(self.losses("./" + name, "--steps", 4, seed=seed), want)

    def test_checkpoints(self):
        """A GPU resumes under one layout what a processor saved under another, and back; both start from the same
        parameters and draw the same."""
        self.text(6000)
        name = SOME[0] if FULL or LAYOUTS[SOME[0]][0].count("=") < 3 else "zero3_tp2"
        self.one(LLAMA, "--precision", "f32")
        self.make(LLAMA, name, "--precision", "f32")
        want = self.losses("./one", "--steps", 8)
        for first, then in (("./one", "./" + name), ("./" + name, "./one")):
            out = f"from-{first[2:]}"
            for program, steps in ((first, 4), (then, 8)):
                self.trains(program, "--data", "text1.txt", "--out", out, "--steps", steps, "--threads", 1, *(("--resume",) * (steps > 4)),
                            env=GPUS, timeout=300)
            self.near(want, [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l], 2e-4)
        for program in ("./one", "./" + name):
            self.trains(program, "--data", "text1.txt", "--out", f"init-{program[2:]}", "--steps", 0, env=GPUS)
        a, b = (self.read(f"init-{p}/ckpt/step-00000000/model.safetensors") for p in ("one", name))
        self.assertEqual(a[-4096:], b[-4096:])
        self.assertEqual(len(a), len(b))

    def test_eval_and_sample(self):
        self.text(6000)
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        head = 'cross_entropy((norm(x) as "model.norm") @ unembed over hidden, next(tokens))'
        self.assertIn(head, text)
        self.write("m.mg", text.replace("loss = " + head, f"""logits = {head[14:-15]}
    loss = cross_entropy(logits, next(tokens))
    metric accuracy = mean(in_top(logits, next(tokens), best = 20))
    metric perplexity = exp(loss)"""))
        self.one("m.mg", "--precision", "f32")
        self.make("m.mg", "dp2_tp2", "--precision", "f32")
        said = []
        for program in ("./one", "./dp2_tp2"):
            self.trains(program, "--data", "text1.txt", "--out", "e" + program[2:], "--steps", 4, "--val-fraction", 0.1, "--eval-every", 2,
                        env=GPUS)
            said.append([l[k] for l in self.metrics("e" + program[2:]) for k in sorted(l) if k.startswith("val_")])
            self.assertEqual(len(said[-1]), 2 * 3)
            r = self.run_program(program, "--resume", "--out", "e" + program[2:], "--sample", 8, "--prompt", "In the", env=GPUS)
            self.assertEqual(r.returncode, 0, r.stderr)
            said[-1].append(r.stdout)
        self.assertEqual(said[0][-1], said[1][-1])
        for a, b in zip(said[0][:-1], said[1][:-1], strict=True):
            self.assertGreater(a, 0)
            self.assertLess(abs(a - b), 2e-3 * abs(a))

    def launched(self, out, *argv, **more):
        """Two processes, as torchrun starts them; each of one machine if MGC_FAKE_HOSTS says so."""
        world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29533", "SHIM_SEED": "3"}
        ranks = [subprocess.Popen([self.path("dp2"), "--data", "text1.txt", "--out", out, "--threads", "1", *argv],
                                  cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env={**os.environ, **GPUS, **world, **more, "RANK": str(k), "LOCAL_RANK": str(k),
                                       "NCCL_HOSTID": f"machine-{k}"})
                 for k in range(2)]
        for p in ranks:
            self.addCleanup(p.kill)
            self.addCleanup(p.stderr.close)
        return ranks

    def test_torchrun(self):
        """Started by a launcher, each rank a process of its own, on one machine or on two, which meet over TCP: the bits of a
        bare start, checkpoints too."""
        self.text(6000)
        self.make(LLAMA, "dp2", "--precision", "f32")
        want = self.losses("./dp2", "--steps", 4, seed=3)
        two = {"MGC_FAKE_HOSTS": "2", "MGC_SECRET": "0123456789abcdef" * 2}
        for out, more in (("launched", {}), ("machines", two)):
            for p in self.launched(out, "--steps", "4", **more):
                self.assertEqual(p.wait(120), 0, p.stderr.read())
            self.assertEqual([(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l], want)
        self.assertEqual(*(self.read(f"{out}/ckpt/step-00000004/model.safetensors") for out in ("launched", "machines")))
        ranks = self.launched("secret", "--steps", "4", MGC_FAKE_HOSTS="2", MGC_SECRET="")
        self.assertEqual([p.wait(60) for p in ranks], [78, 78])
        self.assertIn(b"MGC_SECRET", ranks[0].stderr.read())  # which says it for all

    def test_a_machine_dies(self):
        """Over TCP too all end within five seconds."""
        self.text(6000)
        self.make(LLAMA, "dp2", "--precision", "f32")
        first, second = self.launched("long", "--steps", "1000000", MGC_FAKE_HOSTS="2", MGC_SECRET="0123456789abcdef" * 2)
        for _ in range(600):
            time.sleep(0.05)
            if os.path.exists(self.path("long/metrics.jsonl")) and len(self.metrics("long")) > 2:
                break
        second.kill()
        self.assertEqual(first.wait(5), 69)
        self.assertIn(b"rank 1 is gone", first.stderr.read())

    def test_too_few_gpus(self):
        """Refused with both numbers, unless ranks are to take turns."""
        self.text(6000)
        self.make(LLAMA, "dp2", "--precision", "f32")
        r = self.trains("./dp2", "--data", "text1.txt", "--steps", 1, "--out", "few", env={"SHIM_GPUS": "1"}, code=78)
        self.assertIn("ranks 0 and 1 have the same GPU: 2 ranks on this machine want 2 GPUs", r.err)
        self.losses("./dp2", "--steps", 1, SHIM_GPUS="1", MGC_SHARE_GPU="1")
        r = self.trains("./dp2", "--data", "text1.txt", "--steps", 1, "--out", "none", env={"SHIM_NO_GPU": "1"}, code=77)
        self.assertEqual(r.err.count("error:"), 1)

    def started(self, *argv):
        self.text(6000)
        self.make(LLAMA, "dp4", "--precision", "f32")
        p = subprocess.Popen([self.path("dp4"), "--data", "text1.txt", "--steps", "10000000", "--out", "long", "--threads", "1", *argv],
                             cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **GPUS})
        self.addCleanup(p.kill)
        self.addCleanup(p.stderr.close)
        for _ in range(600):
            time.sleep(0.05)
            if os.path.exists(self.path("long/metrics.jsonl")) and len(self.metrics("long")) > 2:
                with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                    return p, [int(x) for x in f.read().split()]
        self.fail("it does not start")

    def test_a_rank_dies(self):
        """All end within five seconds, with its name and code 69."""
        p, ranks = self.started()
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(p.wait(5), 69)
        self.assertIn(b"rank 2 is gone", p.stderr.read())

    def test_a_rank_hangs(self):
        """It is named, with the collective in which the others wait for it."""
        p, ranks = self.started("--hang-after", "4") # the others come to the collective by then, on a loaded machine too
        os.kill(ranks[1], signal.SIGSTOP)
        self.assertEqual(p.wait(30), 69)
        said = p.stderr.read().decode()
        self.assertIn("rank 2 hangs: its process has not run for 4 s", said)
        self.assertRegex(said, r"the others wait in action \d+, .*\(communication")


if __name__ == "__main__":
    mgctest.main()
