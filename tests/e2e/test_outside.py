"""Memory of a GPU beside the arena: the plan knows how many nodes each graph has, to the node (the shim counts them), and a
program that does not fit says so before it allocates, at the right byte. MGC_FULL=1 takes all layouts."""

import json
import os
import re

import layouts
import mgctest
import shim
from layouts import EXPERTS, LAYOUTS
from mgctest import some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
GPT2, LLAMA, MIXTRAL, MLP = (os.path.join(PARITY, name + "_small.mg") for name in ("gpt2", "llama", "mixtral", "mlp"))
GPUS = {"SHIM_GPUS": "8", "SHIM_SEED": "1"}
SCHEDULES = [(kind, pp) for kind in ("gpipe", "1f1b", "interleaved, chunks = 2", "zb-h1") for pp in (2, 4)]


@mgctest.in_turns
class Outside(shim.Case):
    def plan(self, *options):
        return json.loads(self.compiles(*options, "--plan=json").out)

    def run_gpu(self, *argv, code=0, **env):
        return self.trains("./gpu", "--data", "text1.txt", "--out", "run", "--threads", 1, *argv, code=code, timeout=600,
                           env={**GPUS, "SHIM_NODES": self.path("nodes"), **env})

    def counted(self):
        """Nodes of each rank's graphs, in the order in which they were made."""
        all_of = {}
        for rank, nodes in (map(int, line.split()) for line in self.read("nodes").splitlines()):
            all_of.setdefault(rank, []).append(nodes)
        os.remove(self.path("nodes"))
        return all_of

    def exact(self, options, mesh="", argv=("--steps", 3), evaluated=False, more=0):
        """Every rank's graphs have as many nodes as the plan says for its stage (and at most `more` besides)."""
        plan = self.plan(*options)
        nodes = plan["outside"]["nodes"]
        self.run_gpu(*argv)
        axes = [(name, int(size)) for name, size in re.findall(r"(\w+) = (\d+)", mesh)]
        got = self.counted()
        self.assertEqual(len(got), plan["ranks"])
        for rank, counts in got.items():
            place, left = 0, rank
            for name, size in reversed(axes):
                place, left = (left % size if name == "pp" else place), left // size
            want = list(nodes["step"][place]) + ([nodes["eval"][place][0]] if evaluated else [])
            self.assertEqual(len(counts), len(want))
            for a, b in zip(sorted(counts), sorted(want), strict=True): # an evaluation may come first
                self.assertLessEqual(b, a, (options, rank, counts, want))
                self.assertLessEqual(a, b + more, (options, rank, counts, want))
        return nodes

    def one_rank(self, path, *options, **how):
        options += ("--device", "h200")
        self.gpu(path, *options, device=())
        return self.exact((path, *options), **how)

    def test_models(self):
        """Steps and evaluations, in float32."""
        self.text(6000)
        for path in (GPT2, LLAMA, MIXTRAL, MLP):
            with self.subTest(model=path):
                self.one_rank(path, "--precision", "f32", argv=("--steps", 4, "--val", "text1.txt", "--eval-every", 1), evaluated=True)

    def test_halves(self):
        """Attention on the tensor cores is a kernel more. gpt2's epilogues are kernels of their own where the library lacks
        them, which the plan counts as bytes, not as nodes."""
        self.text(6000)
        self.one_rank(LLAMA, "--precision", "bf16")
        nodes = self.one_rank(GPT2, "--precision", "bf16", more=200)["step"][0]
        plan = self.plan(GPT2, "--precision", "bf16", "--device", "h200")
        self.assertGreater(plan["outside"]["items"]["CUDA graphs"], sum(nodes) * 10240)

    def layout(self, path, name, mesh, rules, *options, more=0, argv=("--steps", 3)):
        self.write(f"{name}.mg", f"layout {name} {{\n    device h200\n    mesh {mesh}\n{rules}    microbatch 1\n}}\n")
        options = ("-D", "batch=8", "--layout", f"./{name}.mg", "--precision", "f32", *options)
        self.gpu(path, *options, device=())
        self.exact((path, *options), mesh, more=more, argv=argv)

    def test_layouts(self):
        self.text(6000)
        for name in some(LAYOUTS):
            with self.subTest(layout=name):
                mesh, rules = LAYOUTS[name]
                self.layout(LLAMA, name, mesh, rules.replace("{heads}", "kv_heads"), "-D", "layers=4")

    def test_experts(self):
        self.text(6000)
        for name in some(EXPERTS, 1):
            with self.subTest(layout=name):
                mesh, rules = EXPERTS[name]
                self.layout(MIXTRAL, name, mesh, rules.replace("{heads}", "kv_heads"))

    def test_pipelines(self):
        """Each stage has its own number; stages of unlike depth, too."""
        self.text(6000)
        for kind, pp in some(SCHEDULES):
            for layers in (8, 9):
                with self.subTest(kind=kind, pp=pp, layers=layers):
                    self.layout(LLAMA, f"of_{kind[:2]}", f"pp = {pp}", layouts.PP(kind), "-D", f"layers={layers}")

    def test_tree(self):
        """Sums in a tree are exchanges and kernels; a rank without a share of a few numbers launches no sum of it."""
        self.text(6000)
        with open(LLAMA, encoding="utf-8") as f:
            self.write("tree.mg", f.read().replace("precision f32", "precision f32(reduce = tree)"))
        self.write("dp4.mg", "layout dp4 {\n    device h200\n    mesh dp = 4\n    batch -> dp\n    state -> dp\n    microbatch 1\n}\n")
        options = ("tree.mg", "-D", "batch=8", "--layout", "./dp4.mg")
        self.gpu(*options, device=())
        want = self.plan(*options)["outside"]["nodes"]["step"][0]
        self.run_gpu("--steps", 3)
        got = self.counted()
        self.assertEqual([max(counts[k] for counts in got.values()) for k in range(2)], want)

    def refusal(self, options, ranks=1, env=(), extra=0):
        """At the last byte it runs; with one less it says both numbers and what takes them, and exits 1."""
        env = dict(env)
        plan = self.plan(*options)
        late = plan["outside"]["bytes"] - plan["outside"]["items"]["CUDA context"] + extra
        need = plan["arena_bytes"] + late
        self.run_gpu("--steps", 1, SHIM_FREE=str(need), **env)
        r = self.run_gpu("--steps", 1, SHIM_FREE=str(need - 1), code=(1,), **env)
        self.assertRegex(r.err, rf"needs {need} bytes .* {need - 1} \(.*\) are free: {plan['arena_bytes']} for the arena, "
                                rf"{late} beside it \(.*work space of products 64.00 MiB, CUDA graphs")
        if ranks > 1:
            self.assertRegex(r.err, r"communicators of NCCL \d")
        return plan

    def test_refusal(self):
        self.text(6000)
        options = (LLAMA, "--device", "h200")
        self.gpu(*options, device=())
        self.refusal(options)

    def test_refusal_of_ranks(self):
        """With NCCL's buffers; a user's NCCL_BUFFSIZE and NCCL_MAX_CTAS count."""
        self.text(6000)
        self.write("dp2.mg", "layout dp2 {\n    device h200\n    mesh dp = 2\n    batch -> dp\n    microbatch 1\n}\n")
        options = (LLAMA, "-D", "batch=8", "--layout", "./dp2.mg")
        self.gpu(*options, device=())
        plan = self.refusal(options, 2)
        mib = 1 << 20
        self.assertEqual(plan["outside"]["items"]["communicators of NCCL"], 16 * mib + 32 * 12 * mib)
        self.refusal(options, 2, {"NCCL_BUFFSIZE": str(8 * mib)}, 32 * 4 * mib)
        self.refusal(options, 2, {"NCCL_MAX_CTAS": "2"}, -30 * 12 * mib)

    def test_measured(self):
        """What was taken stands beside what was planned; more than that is a warning."""
        self.text(6000)
        self.gpu(LLAMA)
        beside = r"memory beside the arena: planned (\d+) bytes .*, measured (\d+) .*: code of kernels"
        took = {}
        for each in (0, 10000, 10000000):
            r = self.run_gpu("--steps", 3, SHIM_NODE_BYTES=str(each))
            found = re.search(beside, r.out + r.err)
            self.assertTrue(found, r.out)
            planned, took[each] = (int(x) for x in found.groups())
            self.assertEqual("were planned" in r.err, took[each] > planned)
        nodes = sum(map(sum, self.counted().values())) // 3
        self.assertEqual(took[10000] - took[0], 10000 * nodes)
        self.assertGreater(took[10000000], planned)


if __name__ == "__main__":
    mgctest.main()
