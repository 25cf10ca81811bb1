"""Communication beside what computes, on processors of several (pretended) machines: the bits of --overlap=none under
each layout and carrier, what the emitted program does for it, and that ranks which die or hang meanwhile are named."""

import json
import os
import re
import shutil
import signal

import mgctest
import test_launch

LAYOUTS = {  # ranks, and what the layout says beside the mesh
    "dp": (2, "mesh dp = 2\n batch -> dp\n microbatch 2"),
    "zero1": (4, "mesh dp = 4\n batch -> dp\n state -> dp\n microbatch 1"),
    "zero3": (2, "mesh dp = 2\n batch -> dp\n state, grads, params -> dp\n microbatch 4"),
    "zero3_rounds": (4, "mesh dp = 4\n batch -> dp\n state, grads, params -> dp\n microbatch 1"),
    "tp": (4, "mesh dp = 2, tp = 2\n batch -> dp\n kv_heads, ffn, vocab -> tp\n seq -> tp\n microbatch 2"),
    "ring": (4, "mesh dp = 2, cp = 2\n batch -> dp\n seq -> cp (ring, zigzag)\n state, grads, params -> dp\n microbatch 2"),
    # Cut with the products beside it: into sequences, and into blocks of positions.
    "pieces": (2, "mesh tp = 2\n kv_heads, ffn, vocab -> tp\n seq -> tp\n microbatch 4", "--pieces=4"),
    "blocks": (4, "mesh dp = 2, tp = 2\n batch -> dp\n kv_heads, ffn, vocab -> tp\n seq -> tp\n microbatch 1", "--pieces=2"),
    "positions": (2, "mesh tp = 2\n heads, ffn, vocab -> tp\n seq -> tp\n microbatch 1", "--pieces=2"),
    # Slots of experts, part by part.
    "experts": (4, "mesh dp = 2, ep = 2\n experts -> ep\n batch -> dp, ep\n state -> dp\n microbatch 1", "--pieces=2"),
    # Sequences in turns, to experts and back.
    "turns": (2, "mesh ep = 2\n experts -> ep\n batch -> ep\n microbatch 4", "--pieces=2"),
    # A collective reads what the one before it writes: over two axes, and from place to place of one ring.
    "two_axes": (4, "mesh dp = 2, cp = 2\n batch -> dp, cp\n state -> dp, cp\n microbatch 1"),
    "one_ring": (4, "mesh cp = 4\n seq -> cp (ring)\n microbatch 4"),
    "heads": (4, "mesh dp = 2, cp = 2\n batch -> dp\n seq -> cp (heads)\n state, grads, params -> dp\n microbatch 2"),
}
MODELS = {  # a table of positions stays whole where these are in blocks
    "experts": (mgctest.model("mixtral_mini.mg"), *(f"-D{d}" for d in ("layers=2", "seq=64"))),
    "turns": (mgctest.model("mixtral_mini.mg"), *(f"-D{d}" for d in ("layers=2", "seq=64"))),
    "positions": (mgctest.model("gpt2_124m.mg"), *(f"-D{d}" for d in ("layers=2", "hidden=64", "heads=4", "ffn=256", "vocab=256", "seq=64"))),
}


@mgctest.in_turns_of(2)
class Overlap(mgctest.Case):
    args, start, run_it = test_launch.Launch.args, test_launch.Launch.start, test_launch.Launch.run_it
    by_hand, saved = test_launch.Launch.by_hand, test_launch.Launch.saved
    hung_words, fails, long = test_launch.Launch.hung_words, test_launch.Launch.fails, test_launch.Launch.long
    await_ranks, is_rank, gone, end = (getattr(test_launch.Launch, f) for f in ("await_ranks", "is_rank", "gone", "end"))

    def make(self, layout, overlap, out, *more, pieces=None):
        """A program for machines that are slow, and links that are slower: all that may run beside the rest does."""
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/cpus.json"), encoding="utf-8") as f:
            device = {**json.load(f), "link_seconds": 1e-7, "link_bandwidth": 1e7, "node_seconds": 1e-7,
                      "node_bandwidth": 1e7, "flops_f32_per_thread": 1e8, "bandwidth_per_thread": 1e8}
        self.write("slow.json", json.dumps(device))
        self.write("layout.mg", f"layout it {{\n device cpus\n {LAYOUTS[layout][1]}\n}}\n")
        self.text(6000)
        return self.compiles(*MODELS.get(layout, (test_launch.MODEL,)), "--layout", "./layout.mg", "--device", "./slow.json", "-D", "batch=8", "--precision",
                             "f32", f"--overlap={overlap}", *([pieces] if pieces else LAYOUTS[layout][2:]), *more, "-o", out)

    def run_on(self, kind, name, n, hosts, out, *more):
        argv = [f"./{name}", *self.args(out, 4, *more)[1:]]
        if kind == "tcp":
            return self.by_hand(test_launch.tcp(hosts), argv, size=n)
        return self.run_it([*test_launch.MPIS[kind], "-n", str(n), *argv], {"MGC_FAKE_HOSTS": str(hosts)})

    def losses(self, out):
        return [m["loss"] for m in self.metrics(out) if "loss" in m]

    def check_layout(self, layout):
        if layout not in mgctest.some(LAYOUTS, 3):
            self.skipTest("another turn's")
        n = LAYOUTS[layout][0]
        for overlap in ("none", "auto"):
            self.make(layout, overlap, overlap)
            self.make(layout, overlap, f"{overlap}.c", "--emit=c")
        text = {o: self.read(f"{o}.c").decode() for o in ("none", "auto")}
        self.assertNotRegex(text["none"], r"mg_(stream|progress|wait)\(")
        # Begun in stream 2, carried on while others compute, waited for.
        self.assertRegex(text["auto"], r"mg_stream\(r, 2\);\n(.*\n)*? *mg_comm\((.*\n)*? *mg_progress\(r\);\n(.*\n)*? *mg_wait\(r, \d+\);")
        self.run_it(["./none", *self.args("bare", 4)[1:]])
        self.run_it(["./auto", *self.args("bare-auto", 4)[1:]])
        runs = [("tcp", h) for h in (2, 4) if h <= n]
        runs += [(k, 2) for k in test_launch.SAMPLE if shutil.which(test_launch.MPIS[k][0])]
        names = ["bare-auto"]
        for kind, hosts in runs:
            names.append(f"{kind}{hosts}")
            self.run_on(kind, "auto", n, hosts, names[-1])
        for name in names:
            self.assertEqual(self.losses(name), self.losses("bare"), name)
            self.assertEqual(self.saved(name, 4), self.saved("bare", 4), name)

    def test_dp(self):
        self.check_layout("dp")

    def test_zero1(self):
        self.check_layout("zero1")

    def test_zero3(self):
        self.check_layout("zero3")

    def test_zero3_rounds(self):
        self.check_layout("zero3_rounds")

    def test_tp(self):
        self.check_layout("tp")

    def test_experts(self):
        self.check_layout("experts")
        self.make("experts", "auto", "uncut", pieces="--pieces=none")
        self.make("experts", "auto", "uncut.c", "--emit=c", pieces="--pieces=none")
        cut, whole = (re.search(r"void mg_step\(.*?\n}\n", self.read(f).decode(), re.S)[0].count("mg_comm(") for f in ("auto.c", "uncut.c"))
        self.assertEqual(cut - whole, 12)  # rows and weights, to experts and back, forward and backward: of the last microbatch, and of others
        self.run_it(["./uncut", *self.args("apart", 4)[1:]])
        for one, cut in zip(self.losses("apart"), self.losses("bare"), strict=True):
            # gradients of experts in f32 are summed piece by piece, in another order
            self.assertAlmostEqual(one, cut, delta=2e-5 * one)

    def test_turns(self):
        self.check_layout("turns")
        said = self.make("turns", "auto", "planned", "--plan").out
        self.assertRegex(said, r"pieces +forward 2, of all that is computed, which take turns")
        self.make("turns", "auto", "uncut", pieces="--pieces=none")
        self.run_it(["./uncut", *self.args("apart", 4)[1:]])
        for one, cut in zip(self.losses("apart"), self.losses("bare"), strict=True):
            self.assertAlmostEqual(one, cut, delta=2e-5 * one)  # as above, of experts' gradients

    def test_pieces(self):
        self.check_layout("pieces")
        self.make("pieces", "auto", "whole", pieces="--pieces=none")  # sequences are no other numbers
        self.run_it(["./whole", *self.args("whole-run", 4)[1:]])
        self.assertEqual(self.losses("whole-run"), self.losses("bare"))

    def test_blocks(self):
        self.check_layout("blocks")

    def test_positions(self):
        self.check_layout("positions")
        self.make("positions", "auto", "whole", pieces="--pieces=none")
        self.run_it(["./whole", *self.args("whole-run", 4)[1:]])
        for cut, whole in zip(self.losses("bare"), self.losses("whole-run"), strict=True):
            self.assertLess(abs(cut - whole), 2e-6 * whole)

    def test_ring(self):
        self.check_layout("ring")

    def test_heads(self):
        self.check_layout("heads")

    def test_two_axes(self):
        self.check_layout("two_axes")

    def test_one_ring(self):
        self.check_layout("one_ring")

    def test_rounds_that_make_gradients(self):
        """Those of a layer are reduced in the backward loop, of several microbatches in the last one."""
        for layout, batch in (("dp", 8), ("dp", 4), ("zero1", 4), ("zero3", 8)):
            r = self.make(layout, "auto", "it", "-D", f"batch={batch}", "--schedule")
            iterations = [part.split("\n  end")[0] for part in r.out.split(" reverse\n")[1:]]
            found = [line for text in iterations for line in re.findall(r"s2 communication +layers\.\S*dot", text)]
            self.assertGreater(len(found), 3, (layout, batch))

    def test_who_looks(self):
        """A trace, poisoned bytes and numbers that are looked for do not change what is computed."""
        self.make("zero3_rounds", "auto", "auto")
        self.run_on("tcp", "auto", 4, 2, "plain")
        for more in (("--trace", "2:3"), ("--poison",), ("--dump", "layers.mlp.up")):
            self.run_on("tcp", "auto", 4, 2, "seen", *more)
            self.assertEqual(self.losses("seen"), self.losses("plain"), more)
            self.assertEqual(self.saved("seen", 4), self.saved("plain", 4), more)
            shutil.rmtree(self.path("seen"))

    def test_ends(self):
        """A rank that dies, or hangs, is named."""
        self.make("tp", "auto", "train")
        two = {"MGC_FAKE_HOSTS": "2", "MGC_SECRET": test_launch.SECRET}
        self.assertFalse(self.fails("torchrun", two, 2, signal.SIGKILL, "is gone", 5))
        self.assertFalse(self.fails("torchrun", two, 1, signal.SIGSTOP, "hangs: its process has not run for 1 s", 10))
        said = self.hung_words(2, "torchrun", {**two, "MGC_FAKE_HOSTS": "4"})
        self.assertRegex(said, r"rank 2 hangs: on another machine.*; the others wait in action \d+, \S+ \(communication")

    def test_options(self):
        f = self.write("m.mg", mgctest.TINY)
        r = self.mgc(f, "--check", "--overlap=maybe")
        self.assertEqual(r.returncode, 2)
        self.assertIn("--overlap", r.err)
        self.assertIn("auto", r.err)
        self.assertEqual(self.mgc(f, "--check", "--overlap=").returncode, 2)
        self.assertEqual(self.mgc("env", "--overlap=none").returncode, 2)
        for wrong in ("3", "", "-2"):
            r = self.mgc(f, "--check", f"--pieces={wrong}")
            self.assertEqual(r.returncode, 2)
            self.assertIn("--pieces", r.err)
        self.assertEqual(self.mgc("env", "--pieces=2").returncode, 2)
        for layout, microbatch, pieces, says in (
                ("mesh dp = 1", 4, 4, "the ranks of this layout send nothing"),
                ("mesh dp = 2\n batch -> dp", 2, 4, "no collective here has a product beside it"),
                ("mesh tp = 2\n heads, ffn, vocab -> tp\n seq -> tp", 3, 4, "no collective here has a product beside it"),
                ("mesh tp = 2\n heads, ffn, vocab -> tp\n seq -> tp", 3, 2, "no collective here has a product beside it"),  # of 18 positions
                ("mesh tp = 2\n heads, ffn, vocab -> tp", 4, 4, "")):
            for device in "cpus", "h100":
                path = self.write("cut.mg", f"layout cut {{ device {device}\n {layout}\n microbatch {microbatch}\n recompute auto }}\n")
                r = self.mgc(mgctest.model("gpt2_124m.mg"), "--layout", path, "--pieces", pieces, "-D", "layers=2", "-D", "hidden=64", "-D", "heads=4",
                             "-D", "ffn=256", "-D", "vocab=256", "-D", "seq=18", "-D", "batch=12", "--check")
                self.assertEqual(r.returncode, 0, r.err)
                self.assertEqual("MG0558" in r.err, bool(says), (layout, microbatch, pieces, device, r.err))
                self.assertIn(says, r.err)
        path = self.write("cut.mg", "layout cut { device cpus\n mesh tp = 2\n heads, ffn, vocab -> tp\n seq -> tp\n microbatch 1\n recompute auto }\n")
        self.assertNotIn("MG0558", self.compiles(mgctest.model("gpt2_124m.mg"), "--layout", path, "--pieces=2", "--check").err)
        path = self.write("cut.mg", "layout cut { device cpus\n mesh tp = 2\n kv_heads, ffn, vocab -> tp\n seq -> tp\n microbatch 1\n recompute auto }\n")
        self.assertNotIn("MG0558", self.compiles(mgctest.model("llama_mini.mg"), "--layout", path, "-D", "kv_heads=6", "--pieces=2", "--check").err)
        self.compiles(f, "--check", "--overlap=none")


if __name__ == "__main__":
    mgctest.main()
