"""One model under many layouts, run by real ranks: the losses of one rank, checkpoints that any layout resumes, the
same bits twice. The sample of layouts turns with the commit; MGC_FULL=1 takes all."""

import glob
import json
import os
import signal
import struct
import subprocess
import time

import layouts
import mgctest
from layouts import EXPERTS, LAYOUTS, SCANS
from mgctest import FULL, TURN, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
LLAMA = os.path.join(PARITY, "llama_small.mg")
GPT2 = os.path.join(PARITY, "gpt2_small.mg")
MIXTRAL = os.path.join(PARITY, "mixtral_small.mg")
FEW = some(EXPERTS, 2)
SAMPLE = some(LAYOUTS, 4)


@mgctest.in_turns_of(2)
class Layouts(mgctest.Case):
    def make(self, path, name, precision="f64"):
        """The program ./NAME-PRECISION of a layout; the batch is the same under all."""
        self.write(f"{name}.mg", layouts.text(name, heads="heads" if path == GPT2 else "kv_heads"))
        program = f"{name}-{precision}"
        self.compiles(path, "--layout", f"./{name}.mg", "-D", "batch=8", "--precision", precision, "-o", program)
        return "./" + program

    def run_one(self, program, steps, out, *argv):
        self.trains(program, "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, *argv, timeout=300)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]

    def apart(self, a, b):
        return [max(abs(x[k] - y[k]) for x, y in zip(a, b, strict=True)) for k in (0, 1)]

    def test_losses(self):
        """In f64 the losses and norms of one rank to 1e-9, in f32 to 1e-5 and 1e-4, over 100 steps (20 in the sample)."""
        steps = 100 if FULL else 20
        self.text(6000)
        for path in some((LLAMA, GPT2)):
            kind = os.path.basename(path)[:4]
            for precision, bound in (("f64", (1e-9, 1e-8)), ("f32", (1e-5, 1e-3))):
                want = self.run_one(self.make(path, "one", precision), steps, f"{kind}-one-{precision}")
                for name in SAMPLE:
                    with self.subTest(path=kind, layout=name, precision=precision):
                        got = self.run_one(self.make(path, name, precision), steps, f"{kind}-{name}-{precision}")
                        off = self.apart(want, got)
                        self.assertLess(off[0], bound[0])
                        self.assertLess(off[1], bound[1])

    def tensors(self, out, step):
        found = {}
        for path in sorted(glob.glob(self.path(out) + f"/ckpt/step-{step:08d}/*.safetensors")):
            with open(path, "rb") as f:
                data = f.read()
            n = struct.unpack("<Q", data[:8])[0]
            for key, t in json.loads(data[8:8 + n]).items():
                if key != "__metadata__":
                    begin, end = t["data_offsets"]
                    found[key] = (t["shape"], data[8 + n + begin:8 + n + end])
        return found

    def gradients(self, before, after, precision):
        """Of the step between two checkpoints, by name, from the first moments; and the norm of all."""
        code, size, beta = ("d", 8, 0.9) if precision == "f64" else ("f", 4, 0.9)
        found, square = {}, 0.0
        for name, (_, now) in after.items():
            if name.startswith("exp_avg."):
                n = len(now) // size
                m = struct.unpack(f"<{n}{code}", now)
                was = struct.unpack(f"<{n}{code}", before[name][1]) if name in before else [0.0] * n
                found[name] = [(b - beta * a) / (1 - beta) for a, b in zip(was, m, strict=True)]
                square += sum(x * x for x in found[name])
        return found, square ** 0.5

    def test_gradients(self):
        """From the same weights, the gradients of steps 0 to 3 are those of one rank: in f64 within 1e-11 of each tensor's
        own norm, in f32 within 1e-5 of it and 1e-7 of the norm of all."""
        self.text(6000)
        for path in some((LLAMA, GPT2, MIXTRAL)):
            kind = os.path.basename(path)[:4]
            for precision, own, of_all in (("f64", 1e-11, 0), ("f32", 1e-5, 1e-7)):
                one = f"grad-{kind}-{precision}"
                self.run_one(self.make(path, "one", precision), 4, one, "--save-every", 1, "--keep", 9)
                saved = [self.tensors(one, k) if k else {} for k in range(5)]
                for name in FEW if path == MIXTRAL else SAMPLE:
                    program = self.make(path, name, precision)
                    for k in range(1 if path == MIXTRAL and precision == "f32" else 4):
                        out = f"{one}-{name}-{k}"
                        again = (f"--resume={self.path(one)}/ckpt/step-{k:08d}",) if k else ()
                        self.run_one(program, k + 1, out, "--save-every", 1, *again)
                        want, norm = self.gradients(saved[k], saved[k + 1], precision)
                        got, _ = self.gradients(saved[k], self.tensors(out, k + 1), precision)
                        self.assertEqual(want.keys(), got.keys())
                        for tensor, g in want.items():
                            with self.subTest(path=kind, layout=name, precision=precision, step=k, tensor=tensor):
                                off = sum((a - b) ** 2 for a, b in zip(g, got[tensor], strict=True)) ** 0.5
                                self.assertLessEqual(off, own * sum(x * x for x in g) ** 0.5 + of_all * norm)

    def test_initial_values_and_checkpoints(self):
        """The weights before a step are those of one rank to the bit; what one layout saved another goes on from."""
        self.text(6000)
        path = (LLAMA, GPT2)[TURN % 2]  # which has a table of positions
        names = ["one", "dp2_zero3", "tp2_sp", "zero3_tp2", "cp2_zigzag", "cp2_heads", "hybrid"] if FULL else ["one", *SAMPLE[:2]]
        program = {name: self.make(path, name) for name in names}
        want = self.run_one(program["one"], 8, "straight")
        first = None
        for name in names:
            self.run_one(program[name], 0, f"init-{name}")
            now = self.tensors(f"init-{name}", 0)
            first = first or now
            self.assertEqual(now, first, name)
        for save in names:
            self.run_one(program[save], 8, f"from-{save}", "--save-every", 4)
            subprocess.run(["rm", "-r", self.path(f"from-{save}/ckpt/step-00000008")], check=True)
            for resume in names:
                with self.subTest(saved=save, resumed=resume):
                    out = f"{save}-{resume}"
                    subprocess.run(["cp", "-r", self.path(f"from-{save}"), self.path(out)], check=True)
                    got = self.run_one(program[resume], 8, out, "--resume")
                    off = self.apart(want, got)
                    self.assertLess(off[0], 1e-9)
                    self.assertLess(off[1], 1e-8)

    def test_experts(self):
        """With experts: in f64 the losses and norms of one rank, saved and resumed under others; in f32 those of the first
        step, before rounding can change which expert is chosen."""
        steps = 100 if FULL else 20
        self.text(6000)
        program = {name: self.make(MIXTRAL, name) for name in ["one", *FEW]}
        want = self.run_one(program["one"], steps, "experts-one", "--save-every", steps // 2)
        for name in FEW:
            with self.subTest(layout=name):
                off = self.apart(want, self.run_one(program[name], steps, f"experts-{name}", "--save-every", steps // 2))
                self.assertLess(off[0], 1e-9)
                self.assertLess(off[1], 1e-8)
        names = ["one", *FEW]
        for save, resume in zip(names, names[1:] + names[:1], strict=True):
            with self.subTest(saved=save, resumed=resume):
                self.assertEqual(*(self.shapes(f"experts-{n}", steps // 2) for n in (save, "one")))
                subprocess.run(["rm", "-r", self.path(f"experts-{save}/ckpt/step-{steps:08d}")], check=True)
                off = self.apart(want, self.run_one(program[resume], steps, f"experts-{save}", "--resume"))
                self.assertLess(off[0], 1e-9)
                self.assertLess(off[1], 1e-8)
        one = self.run_one(self.make(MIXTRAL, "one", "f32"), 1, "experts32-one")
        for name in FEW:
            off = self.apart(one, self.run_one(self.make(MIXTRAL, name, "f32"), 1, f"experts32-{name}"))
            self.assertLess(off[0], 1e-5)
            self.assertLess(off[1], 1e-4)

    def test_scans(self):
        """Mamba 2 over several ranks of its sequence: the losses and norms of one rank in f64, and of its checkpoints."""
        self.text(6000)
        names, program = ["one", *some(SCANS)], {}
        for name in names:
            self.write(f"{name}.mg", layouts.text(name, more="    chunk 4\n"))
            sizes = ("layers=2", "hidden=16", "heads=4", "head=8", "state=8", "seq=32", "batch=8")
            self.compiles(os.path.join(mgctest.SOURCE, "models/mamba2.mg"), "--layout", f"./{name}.mg", *(x for s in sizes for x in ("-D", s)),
                          "--precision", "f64", "-o", name)
            program[name] = "./" + name
        want = self.run_one(program["one"], 10, "scan-one", "--save-every", 5)
        for name in names[1:]:
            with self.subTest(layout=name):
                off = self.apart(want, self.run_one(program[name], 10, f"scan-{name}", "--save-every", 5))
                self.assertLess(off[0], 1e-9)
                self.assertLess(off[1], 1e-8)
        for save, resume in zip(names, names[1:] + names[:1], strict=True):
            with self.subTest(saved=save, resumed=resume):
                subprocess.run(["rm", "-r", self.path(f"scan-{save}/ckpt/step-00000010")], check=True)
                off = self.apart(want, self.run_one(program[resume], 10, f"scan-{save}", "--resume"))
                self.assertLess(off[0], 1e-9)
                self.assertLess(off[1], 1e-8)

    def decisions(self, out, name):
        """The experts that each position chose in the first step, by sequence and layer. Ranks of the batch's axes have
        neighbouring sequences of a microbatch; of others (tp, cp) the first rank is asked, or each its part of a sequence."""
        sizes = dict(a.split(" = ") for a in (EXPERTS[name][0] if name != "one" else "dp = 1").split(", "))
        rules = EXPERTS[name][1] if name != "one" else ""
        axes, found = [(a, int(n)) for a, n in sizes.items()], {}
        over = next((r.split("->")[1] for r in rules.splitlines() if r.split("->")[0].strip() == "batch"), "")
        parts = "cp" if "seq -> cp" in rules else "tp" if "seq -> tp" in rules else ""
        total = 1
        for _, n in axes:
            total *= n
        for rank in range(total):
            place, rest = {}, rank
            for a, n in reversed(axes):
                place[a], rest = rest % n, rest // n
            at, of = 0, 1
            for a in (w.strip() for w in over.split(",") if w.strip()):
                at, of = at * int(sizes[a]) + place[a], of * int(sizes[a])
            stages = int(sizes.get("pp", 1))
            if any(place[a] for a, _ in axes if a not in over and a not in (parts, "pp")):
                continue
            file = sorted(glob.glob(self.path(out) + f"/dump/rank-{rank}/*.chosen.i32"))[0]  # the forward one
            with open(file, "rb") as f:
                data = f.read()
            n = int(sizes.get(parts, 1))
            each = 2 * 24 // n * 4  # two choices of each of so many positions
            for k in range(len(data) // each):
                micro, layer = divmod(k, 2 // stages)  # a stage has its layers alone
                layer += place.get("pp", 0) * (2 // stages)
                found[micro * of + at, layer, place.get(parts, 0) if parts else 0] = data[k * each:(k + 1) * each]
        whole = {}
        for (sequence, layer, part), choices in sorted(found.items()):
            whole[sequence, layer] = whole.get((sequence, layer), b"") + choices
        return whole

    def test_routing(self):
        """In f32, from the same weights, at most one choice of an expert in ten thousand is another than one rank's."""
        self.text(60000)
        self.write("wide.mg", self.source(MIXTRAL, "batch = 4", "batch = 256"))
        dump = ("--dump", "layers.block_sparse_moe.chosen")
        flips = every = 0
        for name in ["one", *FEW]:
            self.write(f"{name}.mg", layouts.text(name))
            self.compiles("wide.mg", "--layout", f"./{name}.mg", "--precision", "f32", "-o", name)
            self.run_one("./" + name, 1, f"routing-{name}", *dump)
            got = self.decisions(f"routing-{name}", name)
            if name == "one":
                want = got
                self.assertEqual(len(want), 2 * 256)
                continue
            self.assertEqual(got.keys(), want.keys())
            for key, choices in got.items():
                a, b = (struct.unpack(f"<{len(c) // 4}i", c) for c in (choices, want[key]))
                every += len(a)
                flips += sum(x != y for x, y in zip(a, b, strict=True))
        self.assertEqual(every, len(FEW) * 2 * 256 * 24 * 2)
        self.assertLessEqual(flips, every // 10000)

    def source(self, path, old, new):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        self.assertIn(old, text)
        return text.replace(old, new)

    def shapes(self, out, step):
        return {name: shape for name, (shape, _) in self.tensors(out, step).items()}

    def test_same_bits(self):
        """The same layout twice, and with kill and resume between."""
        self.text(6000)
        name = SAMPLE[0]
        program = self.make(LLAMA, name, "f32")
        self.run_one(program, 6, "first", "--save-every", 3)
        self.run_one(program, 6, "second", "--save-every", 3)
        self.assertEqual(self.tensors("first", 6), self.tensors("second", 6))
        self.run_one(program, 3, "third")
        self.run_one(program, 6, "third", "--resume")
        self.assertEqual(self.tensors("first", 6), self.tensors("third", 6))

    def test_eval_and_sample(self):
        self.text(6000)
        results = {}
        for name in ("one", *SAMPLE[:2]):
            program = self.make(LLAMA, name)
            self.run_one(program, 4, f"e-{name}", "--val-fraction", 0.1, "--eval-every", 2)
            results[name] = [l["val_loss"] for l in self.metrics(f"e-{name}") if "val_loss" in l]
            r = self.run_program(program, "--resume", "--out", f"e-{name}", "--sample", 8, "--prompt", "In the", "--threads", 1)
            self.assertEqual(r.returncode, 0, r.stderr)
            results[name].append(r.stdout)
        for name in SAMPLE[:2]:
            for a, b in zip(results["one"], results[name], strict=True):
                if isinstance(a, bytes):
                    self.assertEqual(a, b)
                else:
                    self.assertLess(abs(a - b), 1e-9)

    def children(self, pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(x) for x in f.read().split()]

    def started(self):
        self.text(6000)
        program = self.make(LLAMA, "dp4", "f32")
        p = subprocess.Popen([self.path(program[2:]), "--data", "text1.txt", "--steps", "10000000", "--out", "long", "--threads", "1"],
                             cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(p.kill)
        self.addCleanup(p.stderr.close)
        for _ in range(200):
            time.sleep(0.05)
            if os.path.exists(self.path("long/metrics.jsonl")) and len(self.children(p.pid)) == 3:
                time.sleep(0.2)
                return p, self.children(p.pid)
        self.fail("it does not start")

    def test_a_rank_dies(self):
        """All end within five seconds, with its name and code 69."""
        p, ranks = self.started()
        os.kill(ranks[1], signal.SIGKILL)
        self.assertEqual(p.wait(5), 69)
        self.assertIn(b"rank 2 is gone", p.stderr.read())
        self.gone(ranks)

    def test_the_leader_dies(self):
        p, ranks = self.started()
        p.kill()
        p.wait(5)
        self.gone(ranks)

    def test_stopped(self):
        """SIGTERM saves and stops all, with code 75."""
        p, ranks = self.started()
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(10), 75)
        self.assertTrue(glob.glob(self.path("long/ckpt/step-*")))
        self.gone(ranks)

    def gone(self, pids):
        for _ in range(100):
            if not any(self.runs(pid) for pid in pids):
                return
            time.sleep(0.05)
        self.fail("some ranks are still there")

    def runs(self, pid):
        try:
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                return "(zombie)" not in f.read()
        except OSError:
            return False


if __name__ == "__main__":
    mgctest.main()
