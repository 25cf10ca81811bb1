"""Collectives by copies through the memory of the host, of programs of several ranks for GPUs that are linked through it, run by
the shim: the losses of one rank, the bits of the same order of sums by NCCL, the plan's nodes; and what they refuse. The sample of
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
from mgctest import FULL, TURN, some

LLAMA = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
GPUS = {"SHIM_GPUS": "8"}
SMALL = ("-D", "batch=8")


@mgctest.in_turns
class Copies(shim.Case):
    def make(self, path, name, *options, collectives="copies"):
        """The program ./NAME of a layout."""
        self.write(f"{name}.mg", layouts.text(name, "rtx4090"))
        self.gpu(path, *SMALL, "--layout", f"./{name}.mg", "--collectives", collectives, *options, device=())
        os.rename(self.path("gpu"), self.path(name))

    def losses(self, program, *argv, seed=1, code=0, **more):
        out = f"run{len(os.listdir(self.dir))}"
        self.trains(program, "--data", "text1.txt", "--out", out, "--threads", 1, *argv, env={**GPUS, "SHIM_SEED": str(seed), **more},
                    timeout=600, code=code)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]

    def plan(self, *options):
        return json.loads(self.compiles(LLAMA, *SMALL, *options, "--plan=json").out)

    def copied(self, plan):
        return {(c["axis"], c["kind"]) for c in plan["collectives"] if c["copies"]}

    def test_losses(self):
        """In f32 within 2e-4 of a loss over 8 steps, as one rank is, whatever the order of streams and ranks; with several
        microbatches, and replayed graphs."""
        self.text(6000)
        self.gpu(LLAMA, *SMALL, "--precision", "f32", device=("--device", "rtx4090"))
        os.rename(self.path("gpu"), self.path("one"))
        want = self.losses("./one", "--steps", 8)
        for name in some(("dp2", "dp4", "dp2_zero1", "dp4_zero1", "dp2_zero3", "dp4_zero3", "tp2", "tp2_sp", "dp2_tp2_sp", "zero3_tp2_sp",
                          "cp2_zigzag", "cp2_dp2_zigzag", "cp2_heads", "cp2_heads_tp2"), 2):
            self.make(LLAMA, name, "--precision", "f32")
            for seed in range(20) if FULL else (TURN, TURN + 1):
                with self.subTest(layout=name, seed=seed):
                    got = self.losses("./" + name, "--steps", 8, seed=seed)
                    self.assertEqual(len(want), len(got))
                    for (a, n), (b, k) in zip(want, got, strict=True):
                        self.assertLess(abs(a - b), 2e-4 * abs(a))
                        self.assertLess(abs(n - k), 1e-2 * abs(n))

    def test_bits(self):
        """In the order of the tree: the bits of NCCL, and those of one GPU; in any order of streams."""
        self.text(6000)
        with open(LLAMA, encoding="utf-8") as f:
            self.write("tree.mg", f.read().replace("precision f32", "precision f32(reduce = tree)"))
        for name in some(("dp2", "dp2_zero1", "dp4", "dp4_zero3", "dp2_zero3"), 1):
            self.make("tree.mg", name, collectives="nccl")
            want = self.losses("./" + name, "--steps", 4)
            self.make("tree.mg", name)
            for seed in (TURN, TURN + 1):
                with self.subTest(layout=name, seed=seed):
                    self.assertEqual(self.losses("./" + name, "--steps", 4, seed=seed), want)

    def test_nodes(self):
        """Graphs have as many nodes as the plan says, on every rank."""
        self.text(6000)
        (name,) = some(("dp2", "dp2_zero3", "dp2_tp2_sp", "cp2_zigzag", "cp2_heads"), 1)
        self.make(LLAMA, name, "--precision", "f32")
        self.assertIn("by NCCL, and by copies through the host, in pieces of at most ", self.trains("./" + name, "--info").out)
        nodes = self.plan("--precision", "f32", "--layout", f"./{name}.mg", "--collectives=copies")["outside"]["nodes"]["step"][0]
        self.losses("./" + name, "--steps", 3, SHIM_NODES=self.path("nodes"))
        of = {}
        for rank, n in (map(int, line.split()) for line in self.read("nodes").splitlines()):
            of.setdefault(rank, []).append(n)
        self.assertEqual(len(of), self.plan("--layout", f"./{name}.mg")["ranks"])
        for rank, got in of.items():
            self.assertEqual(sorted(got[:2]), sorted(nodes), rank)

    def test_planned(self):
        """What goes by copies, what does not, and what it takes; the price decides, unless it is said."""
        self.write("dp2.mg", layouts.text("dp2_tp2", "rtx4090"))
        auto, nccl, copies = (self.plan("--layout", "./dp2.mg", f"--collectives={o}") for o in ("auto", "nccl", "copies"))
        self.assertEqual(self.copied(nccl), set())
        self.assertEqual(self.copied(auto), set()) # all are small
        self.assertIn(("dp", "all_reduce"), self.copied(copies))
        self.assertNotIn("copies", nccl["levels"])
        room = copies["levels"]["copies"]
        self.assertEqual(room["ranks"], 4)
        self.assertGreaterEqual(room["bytes"], 4 * 4 * 3 * room["piece"])
        self.assertTrue(any(c["scalars"] and not c["copies"] for c in copies["collectives"]))
        r = self.compiles(LLAMA, *SMALL, "--layout", "./dp2.mg", "--collectives=copies", "--plan")
        self.assertRegex(r.out, r"copies +[\d.]+ MiB of the host's memory, for 4 ranks of a machine")
        self.assertIn(", by copies", r.out)
        self.assertIn("| by copies of ", self.compiles(LLAMA, *SMALL, "--layout", "./dp2.mg", "--collectives=copies", "--schedule").out)
        said = self.mgc("explain", LLAMA, "wq", *SMALL, "--layout", "./dp2.mg", "--collectives=copies").out
        self.assertRegex(said, r"along \w+, by copies through the host")
        # Large gradients: by copies where nothing is faster.
        large = json.loads(self.compiles(mgctest.model("llama_56m.mg"), "-D", "batch=8", "-D", "hidden=1024", "-D", "ffn=4096", "-D", "dp=4", "-D", "tp=1", "--device", "rtx4090",
                                         "--plan=json").out)
        self.assertTrue(any(c["copies"] for c in large["collectives"]))
        # A node of two: what goes to others is NCCL's. And so is all of a program with stages.
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/rtx4090.json"), encoding="utf-8") as f:
            card = json.load(f)
        self.write("two.json", json.dumps({**card, "node_ranks": 2}))
        two = self.plan("--layout", "./dp2.mg", "--device", "./two.json", "--collectives=copies")
        self.assertEqual({axis for axis, kind in self.copied(two)}, {"tp"})
        self.write("pp.mg", layouts.text("pp2_gpipe_dp2", "rtx4090"))
        self.assertEqual(self.copied(self.plan("--layout", "./pp.mg", "--collectives=copies", "-D", "layers=4")), set())

    def test_refused(self):
        for options, said in ((("--device", "h100", "--collectives=copies"), "linked through their host"),
                              (("--device", "cpu2t", "--collectives=nccl"), "is for GPUs"),
                              (("--device", "rtx4090", "--collectives=fast"), "--collectives")):
            r = self.mgc(LLAMA, *options, "--check")
            self.assertEqual(r.returncode, 2)
            self.assertIn(said, r.err)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/rtx4090.json"), encoding="utf-8") as f:
            card = json.load(f)
        less = {k: v for k, v in card.items() if not k.startswith(("host_", "disk_"))}
        for fields, said in (({**card, "link": "bus"}, "'link' is \"own\" or \"host\""), (less, "are missing"),
                             ({**card, "link": "own"}, "'host_all' is of GPUs whose 'link' is \"host\"")):
            self.write("card.json", json.dumps(fields))
            r = self.mgc(LLAMA, "--device", "./card.json", "--check")
            self.assertEqual(r.returncode, 2)
            self.assertIn(said, r.err)

    def test_without(self):
        """A driver without waits for words, and ranks of one group on two machines, are refused at the start."""
        self.text(6000)
        self.make(LLAMA, "dp2", "--precision", "f32")
        r = self.trains("./dp2", "--data", "text1.txt", "--steps", 1, "--out", "none", env={**GPUS, "SHIM_NO_WORDS": "1"}, code=1)
        self.assertIn("the driver has no cuStreamBatchMemOp", r.err)
        world = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29541", "MGC_FAKE_HOSTS": "2",
                 "MGC_SECRET": "0123456789abcdef" * 2}
        ranks = [subprocess.Popen([self.path("dp2"), "--data", "text1.txt", "--out", "two", "--threads", "1", "--steps", "2"], cwd=self.dir,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env={**os.environ, **GPUS, **world, "RANK": str(k), "LOCAL_RANK": str(k), "NCCL_HOSTID": f"machine-{k}"})
                 for k in range(2)]
        for p in ranks:
            self.addCleanup(p.kill)
            self.addCleanup(p.stderr.close)
        self.assertIn(78, [p.wait(60) for p in ranks])
        said = b"".join(p.stderr.read() for p in ranks).decode()
        self.assertRegex(said, r"ranks \d and \d exchange through the memory of their host, and are on different machines")

    def test_planted(self):
        """A wait for what another has put that does not wait gives other numbers in some order."""
        self.text(6000)
        self.make(LLAMA, "dp2_zero3", "--precision", "f32")
        good = self.losses("./dp2_zero3", "--steps", 3)
        for seed in range(12):
            out = f"planted{seed}"
            r = self.run_program("./dp2_zero3", "--data", "text1.txt", "--steps", 3, "--out", out, "--threads", 1, "--hang-after", 2,
                                 env={**GPUS, "SHIM_SEED": str(seed), "SHIM_SKIP_WAIT": "1"})
            if r.returncode or [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l] != good:
                return
        self.fail("no order of streams shows it")

    def test_resumes(self):
        """The bits of a run that was not interrupted."""
        self.text(6000)
        self.make(LLAMA, "dp2_zero1", "--precision", "f32")
        want = self.losses("./dp2_zero1", "--steps", 6)
        for steps in (3, 6):
            self.trains("./dp2_zero1", "--data", "text1.txt", "--out", "parts", "--steps", steps, "--threads", 1, *(("--resume",) * (steps > 3)),
                        env=GPUS, timeout=300)
        self.assertEqual([(l["loss"], l["grad_norm"]) for l in self.metrics("parts") if "loss" in l][3:], want[3:])

    def started(self, *argv):
        self.text(6000)
        self.make(LLAMA, "dp4", "--precision", "f32")
        p = subprocess.Popen([self.path("dp4"), "--data", "text1.txt", "--steps", "10000000", "--out", "long", "--threads", "1", *argv],
                             cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **GPUS})
        self.addCleanup(p.kill)
        self.addCleanup(p.stderr.close)
        for _ in range(1200):
            time.sleep(0.05)
            if os.path.exists(self.path("long/metrics.jsonl")) and len(self.metrics("long")) > 2:
                with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
                    return p, [int(x) for x in f.read().split()]
        self.fail("it does not start")

    def test_a_rank_dies(self):
        p, ranks = self.started()
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(p.wait(10), 69)
        self.assertIn(b"rank 2 is gone", p.stderr.read())

    def test_a_rank_hangs(self):
        """It is named, with the collective in which the others wait for it."""
        p, ranks = self.started("--hang-after", "4") # in which the others come to the collective, on a busy machine too
        os.kill(ranks[1], signal.SIGSTOP)
        self.assertEqual(p.wait(60), 69)
        said = p.stderr.read().decode()
        self.assertIn("rank 2 hangs: its process has not run for 4 s", said)
        self.assertTrue(re.search(r"the others wait in action \d+, .*\(communication", said), said)


if __name__ == "__main__":
    mgctest.main()
