"""Random layouts on (pretended) machines against one rank, in double precision: what is sent beside what computes, and
from one collective to the next, over TCP and MPI. The full run has 300 of them."""

import collections
import os
import random
import shutil

import mgctest
import random_layouts
import test_launch
from mgctest import FULL, TURN
from random_layouts import Dims

MODELS = {"dense": test_launch.MODEL, "experts": test_launch.EXPERTS, "rows": "rows.mg"}
HEADS = "kv_heads, ffn, vocab"
ANY = {"seq": "seq", "zigzag": True, "heads": True, "layers": ("layers",), "two_axes": 0.2, "pads": {"kv_heads": 2}, "thirds": ("dp", "cp", "tp")}
DIMS = {"dense": Dims([HEADS], **ANY), "experts": Dims(["experts", HEADS], **ANY, most_rules=2), "rows": Dims(["experts", HEADS], **ANY, most_rules=2, rows="experts")}
CASES = 300 if FULL else 4
FEWEST = 10  # layouts of all that have a way


def draw(seed):
    """The model, the number of ranks, the layout's lines and the number of machines."""
    r = random.Random(seed)
    kind = r.choice(("dense", "dense", "experts", "rows"))
    n, lines = random_layouts.draw(r, DIMS[kind], ranks=(2, 3, 4, 4, 8), stages=0.4)
    return kind, n, lines, r.choice((2, 4)) if n in (4, 8) else n


class Machines(mgctest.Case):
    run_it, by_hand, start = (getattr(test_launch.Launch, f) for f in ("run_it", "by_hand", "start"))

    def argv(self, program, out):
        return [f"./{program}", "--data", "text1.txt", "--steps", "4", "--out", out, "--threads", "1"]

    def losses(self, out):
        found = [(m["loss"], m["grad_norm"]) for m in self.metrics(out) if "loss" in m]
        shutil.rmtree(self.path(out))
        return found

    def run_on(self, carrier, n, hosts):
        if carrier == "tcp":
            self.by_hand(test_launch.tcp(hosts), self.argv("many", "run"), size=n)
        else:
            self.run_it([*test_launch.MPIS[carrier], "-n", str(n), *self.argv("many", "run")], {"MGC_FAKE_HOSTS": str(hosts)})
        return self.losses("run")

    def one_rank(self, kind):
        if kind == "rows":
            with open(test_launch.EXPERTS, encoding="utf-8") as f:
                self.write("rows.mg", mgctest.dropless(f.read()))
        self.compiles(MODELS[kind], "-D", "batch=24", "--precision", "f64", "-o", "one")
        self.run_it(self.argv("one", "run"))
        return self.losses("run")

    def test_offload_in_pipelines(self):
        """What is gathered beside the rest is written to another level when it is there."""
        self.text(6000)
        want = self.one_rank("experts")
        stages = ["mesh cp = 2, pp = 2", "batch -> cp", "state -> cp", "microbatch 2", "layers -> pp (schedule = 1f1b)"]
        for what in ("parameters", "state, masters, parameters, gradients, kept"):
            lines = [*stages, f"offload {what} -> LEVEL"]
            self.write("it.mg", random_layouts.text(lines, device="cpus"))
            self.compiles(MODELS["experts"], "--layout", "./it.mg", "-D", "batch=24", "--precision", "f64", "-o", "many")
            self.follows(self.run_on("tcp", 4, 2), want, lines)

    def test_gathered_twice(self):
        """Of two collectives of a stream the later reads what the earlier gave: beside transfers, and in pipelines."""
        self.text(6000)
        want = self.one_rank("dense")
        split = ["batch -> dp", "seq -> cp (zigzag)", "state, grads -> cp, dp"]
        for n, lines in ((4, ["mesh cp = 2, dp = 2", *split, "microbatch 4", "offload state -> LEVEL"]),
                         (8, ["mesh cp = 2, dp = 2, pp = 2", *split, "layers -> pp (schedule = 1f1b)", "microbatch 2"])):
            self.write("it.mg", random_layouts.text(lines, device="cpus"))
            self.compiles(MODELS["dense"], "--layout", "./it.mg", "-D", "batch=24", "--precision", "f64", "-o", "many")
            self.follows(self.run_on("tcp", n, n), want, lines)

    def test_pairs(self):
        """The forward of one microbatch beside the backward of another: the bits of one behind the other, resumed, and with layers computed again."""
        self.text(6000)
        deep = ("-D", "batch=24", "-D", "layers=4", "--precision", "f64")
        self.compiles(MODELS["experts"], *deep, "-o", "one")
        self.run_it(self.argv("one", "run"))
        want = self.losses("run")
        cases = (("1f1b", ""), ("interleaved, chunks = 2", "recompute all"), ("interleaved, chunks = 2, stages = [2, 1, 1, 0]", ""), ("1f1b", "recompute all"))
        schedule, more = mgctest.some(cases, 1)[0]
        saved = {}
        for pairs in ("none", "all"):
            lines = ["mesh pp = 2, ep = 2", "experts -> ep", "batch -> ep", f"layers -> pp (schedule = {schedule}, pairs = {pairs})",
                     "microbatch 2", *([more] if more else [])]
            self.write("it.mg", random_layouts.text(lines, device="cpus"))
            options = ("--layout", "./it.mg", *deep)
            self.assertEqual("_pair(mg_run" in self.emitted(*options), pairs == "all", (schedule, pairs))
            self.compiles(MODELS["experts"], *options, "-o", "many")
            argv = [*self.argv("many", "run"), "--save-every", "2"]
            self.by_hand(test_launch.tcp(2), argv)
            self.by_hand(test_launch.tcp(2), [*argv, "--resume", "--steps", "6"])
            saved[pairs] = [self.read(f"run/ckpt/step-00000006/{name}.safetensors") for name in ("model", "optimizer")]
            have = self.losses("run")
            saved[pairs].append(have)
        self.assertEqual(saved["all"], saved["none"])
        self.follows(saved["all"][2][:4], want, (schedule, more))

    def emitted(self, *options):
        self.compiles(MODELS["experts"], *options, "--emit=c", "-o", "emitted.c")
        return self.read("emitted.c").decode()

    def follows(self, have, want, about):
        self.assertEqual(len(have), len(want))
        for a, b in zip(have, want):
            for x, y in zip(a, b):
                self.assertLess(abs(x - y), 1e-9 * abs(y), (about, have, want))

    def test_random_layouts(self):
        self.text(6000)
        want = {kind: self.one_rank(kind) for kind in MODELS}
        carriers = ["tcp", *(k for k in test_launch.MPIS if shutil.which(test_launch.MPIS[k][0]))]
        ran, refused, seed, had = 0, 0, TURN * 100000, collections.Counter()
        while ran < CASES:
            self.assertLess(refused, 20 + 2 * ran, "most layouts are refused")
            wanted = list(random_layouts.WAYS)[(TURN * CASES + ran) % len(random_layouts.WAYS)]
            seed += 1
            kind, n, lines, hosts = draw(seed)
            if wanted not in random_layouts.ways_of(lines):
                continue
            pieces = random.Random(seed).choice(((), (), ("--pieces=2",), ("--pieces=4",)))
            self.write("it.mg", random_layouts.text(lines, device="cpus"))
            r = self.mgc(MODELS[kind], "--layout", "./it.mg", "-D", "batch=24", "--precision", "f64", *pieces, "-o", "many")
            if r.returncode:
                self.assertEqual(r.returncode, 1, (lines, r.err))
                refused += 1
                continue
            carrier = carriers[ran % len(carriers)]
            have = self.run_on(carrier, n, hosts)
            self.follows(have, want[kind], (seed, kind, carrier, hosts, lines, pieces))
            ran += 1
            had.update(random_layouts.ways_of(lines))
            had.update({"pieces"} if pieces and "MG0558" not in r.err else ())
        print(f"{ran} layouts follow one rank, {refused} refused", flush=True)
        for way in (*random_layouts.WAYS, "pieces"):
            print(f"{had[way]:6}  {way}", flush=True)
            self.assertTrue(not FULL or had[way] >= FEWEST, f"{had[way]} of {ran} layouts: {way}")


if __name__ == "__main__":
    mgctest.main()
