"""Programs of several ranks that learn what they generate, run by real ranks: answers, losses and parameters are those of one rank under many
layouts; a run that is resumed has the same bits, and may go on under another layout; launchers; who dies, or is slow, ends the run as ever;
what is refused."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from array import array

import layouts
import mgctest
import random_layouts
import rollouts
from rollouts import COMMAND, CONFIG, SIZES
from test_generate_ranks import ABLE
from test_launch import CLEAN, MPIS, ROOT, below, runs, torchrun
from test_weights import read_safetensors

# A step keeps its positions on `cp` where parameters lie there, too; texts are whole.
SEVERAL = {**ABLE, "zigzag_zero3": ("dp = 2, cp = 2", layouts.DP + layouts.ZIGZAG + "    params, grads, state -> dp, cp\n"),
           "heads_zero3": ("dp = 2, cp = 2", layouts.DP + layouts.HEADS + "    params, grads, state -> dp, cp\n")}
DIMS = random_layouts.Dims(["kv_heads", "ffn", "vocab"], "seq", zigzag=True, most_rules=2, two_axes=0.2)
OBJECTIVE = "grpo,group=4,tokens=10,updates=2,beta=0.05"
SLOW = "import sys, time, os\nfor k, line in enumerate(iter(sys.stdin.readline, '')):\n    if k >= 16:\n        open('waits', 'w').close()\n        time.sleep(1000)\n    print(k % 3)\n"


class RolloutRanks(rollouts.Case):
    def program(self, name, rule=None, *more, source="m.mg", precision="f64"):
        """The program ./NAME of a layout."""
        mesh, rules = rule or SEVERAL.get(name, ("dp = 1", ""))
        rules = rules.format(heads="kv_heads")
        self.write(f"{name}.mg", f"layout {name} {{\n    device cpu\n    mesh {mesh}\n{rules}    microbatch 2\n}}\n")
        self.compiles(source, "--layout", f"./{name}.mg", "--precision", precision, *SIZES, *more, "-o", name)
        return "./" + name

    def imported(self, objective=OBJECTIVE, rate="1e-2", **config):
        self.write("given/config.json", json.dumps(CONFIG | config))
        self.compiles("import-hf", "given", "--objective", objective, "-o", "m.mg")
        self.write("m.mg", re.sub(r"(?m)^    lr .*", f"    lr {rate}", self.read("m.mg").decode()))
        self.keeping()

    def run_it(self, program, steps, out, *argv, **more):
        return self.trains(program, "--data", "p.jsonl", "--reward", f"python3 reward.py {out}.lines", "--steps", steps, "--out", out, "--threads", 1, *argv, **more)

    def numbers(self, out, step):
        """All numbers of a checkpoint, by name."""
        all_of_it = {}
        for name in ("model", "optimizer"):
            for key, (dtype, _, data) in read_safetensors(self.read(f"{out}/ckpt/step-{step:08}/{name}.safetensors")).items():
                all_of_it[name, key] = array({"F64": "d", "F32": "f"}[dtype], data)
        return all_of_it

    def same(self, one, many, steps):
        """Answers are equal; losses, gradients' norms and checkpoints up to the rounding of f64."""
        self.assertEqual(self.read(f"{one}.lines"), self.read(f"{many}.lines"))
        for x, y in zip(self.metrics(one), self.metrics(many), strict=True):
            for key in ("loss", "grad_norm", "reward", "reward_std", "length", "kl", "clipped"):
                self.assertEqual(key in x, key in y)
                if key in x:
                    self.assertLess(abs(x[key] - y[key]), 1e-12, (key, x, y))
        x, y = self.numbers(one, steps), self.numbers(many, steps)
        self.assertEqual(x.keys(), y.keys())
        for key, v in x.items():
            self.assertLess(max(abs(a - b) for a, b in zip(v, y[key], strict=True)), 1e-12, key)

    def test_layouts(self):
        """Two rollouts of two updates, with a reference: under every kind of layout what one rank makes."""
        self.imported()
        self.run_it(self.program("one"), 4, "r-one")
        self.assertEqual(len(self.lines("r-one.lines")), 32)
        self.assertEqual({x for x in self.of("r-one", "clipped")[0::2]}, {0})
        self.assertGreater(max(self.of("r-one", "clipped")), 0)
        for name in mgctest.some([n for n in SEVERAL if n != "one"], 6):
            with self.subTest(layout=name):
                r = self.run_it(self.program(name), 4, "r-" + name)
                self.assertIn(", 0 bytes over", r.out)
                self.same("r-one", "r-" + name, 4)

    def test_random(self):
        """Random layouts, with what is computed again and what lies on a disk: what one rank makes, or, with an axis for positions alone, refused."""
        self.imported()
        self.run_it(self.program("one"), 2, "r-one")
        r, left, refused = random.Random(mgctest.TURN), 16 if mgctest.FULL else 2, 0
        while left:
            _, lines = random_layouts.draw(r, DIMS, ranks=(2, 4, 4), stages=0)
            with self.subTest(lines=lines):
                self.write("it.mg", random_layouts.text(lines))
                made = self.mgc("m.mg", "--layout", "./it.mg", "--precision", "f64", *SIZES, "-o", "it")
                if "MG0597" in made.err:
                    self.assertRegex(" ".join(lines), r"seq -> .*cp")
                    refused += 1
                    self.assertLess(refused, 100)
                    continue
                if "MG0332" in made.err: # two heads over four ranks, which padding would double
                    self.assertIn("'kv_heads' of 2 is not split evenly", made.err)
                    continue
                self.assertEqual(made.returncode, 0, made.err)
                left -= 1
                out = f"r-{left}"
                self.run_it("./it", 2, out)
                self.same("r-one", out, 2)

    def test_few_texts(self):
        """Answers of a step in several turns; vocabularies and heads that the ranks do not divide; groups that lie on two ranks."""
        self.imported("grpo,group=8,tokens=10", vocab_size=301, num_attention_heads=6, num_key_value_heads=3, head_dim=8)
        self.write("p.jsonl", "".join(json.dumps({"tokens": [i, 290 - i, 3][:1 + i % 3]}) + "\n" for i in range(5)))
        self.write("few.mg", self.read("m.mg").decode().replace("tokens = 10", "tokens = 10, texts = 4"))
        self.run_it(self.program("one"), 3, "r-one")
        for name in ("dp4", "zero3_tp2"):
            rules = SEVERAL[name][1] + ("    pad vocab to 302, kv_heads to 4\n" if "tp2" in name else "")
            self.run_it(self.program(name, (SEVERAL[name][0], rules), source="few.mg"), 3, "r-" + name)
            self.same("r-one", "r-" + name, 3)

    def test_experts(self):
        """Rows of experts are sent while answers are generated; a bound drops rows of a step, and none of an answer."""
        self.imported(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2)
        self.run_it(self.program("one"), 4, "r-one")
        for name in mgctest.some([n for n in layouts.SENT if "pp" not in n and "bound" not in n], 2):
            with self.subTest(layout=name):
                self.run_it(self.program(name, layouts.SENT[name]), 4, "r-" + name)
                self.same("r-one", "r-" + name, 4)
        r = self.run_it(self.program("bound", layouts.SENT["ep2_bound"]), 2, "r-bound")
        self.assertRegex(r.out, r"dropped [1-9]|dropped 0\.0*[1-9]")
        self.assertEqual(self.read("r-one.lines").splitlines()[:16], self.read("r-bound.lines").splitlines())

    def test_resume(self):
        """The bits of a run that was not stopped, in halves and with ZeRO 3; another layout goes on, too, with the same answers."""
        self.imported()
        many = self.program("zero3_tp2", precision="bf16")
        self.run_it(many, 8, "r1", "--save-every", 4, "--keep", 0)
        self.run_it(many, 8, "r2", "--resume=r1/ckpt/step-00000004")
        for name in ("model", "optimizer"):
            self.assertEqual(self.read(f"r1/ckpt/step-00000008/{name}.safetensors"), self.read(f"r2/ckpt/step-00000008/{name}.safetensors"))
        self.assertEqual(self.read("r1.lines").splitlines()[32:], self.read("r2.lines").splitlines())
        one, two = self.program("one"), self.program("dp2_zero1")
        self.run_it(one, 8, "r3", "--save-every", 4, "--keep", 0)
        self.run_it(two, 8, "r4", "--resume=r3/ckpt/step-00000004")
        self.assertEqual(self.read("r3.lines").splitlines()[32:], self.read("r4.lines").splitlines())

    def test_generates_alone(self):
        """In the first rollout the answers of a program that generates alone, over the same ranks."""
        self.imported("grpo,group=4,tokens=10")
        many = self.program("dp2_tp2")
        self.run_it(many, 1, "r", "--seed", 3, "--top-k", 100)
        lines = self.lines("r.lines")
        self.write("p.txt", "")
        self.compiles("m.mg", "--layout", "./dp2_tp2.mg", *SIZES, "--precision", "f64", "--generate", "--sequences", 16, "-o", "gen")
        prompts = [x for p in lines for x in ("--prompt", p["prompt"])]
        r = subprocess.run(["./gen", "--sample", "10", "--seed", "3", "--top-k", "100", "--ids", *prompts], cwd=self.dir, capture_output=True, check=True, timeout=120)
        said = [x.split(b"\n", 1)[1][:-1] for x in r.stdout.split(b"== ")[1:]]
        shown = [a for a, x in zip(said, lines, strict=True) if all(31 < t < 127 and t != 61 for t in x["answer_tokens"])]
        want = [bytes(x["answer_tokens"]) for x in lines if all(31 < t < 127 and t != 61 for t in x["answer_tokens"])]
        self.assertEqual(shown, want)

    def test_launchers(self):
        """Under MPI, by hand, and over the wire of machines that are pretended: the same bits, and one command of rewards."""
        self.imported()
        many = self.program("dp2_tp2", precision="f32")
        self.write("reward.py", "import os\nopen('started', 'a').write('x')\n" + self.read("reward.py").decode())
        self.run_it(many, 4, "r")
        want = self.read("r/ckpt/step-00000004/model.safetensors")
        args = [many, "--data", "p.jsonl", "--threads", "1", "--steps", "4"]
        several = 1
        for kind, env in (("openmpi", {}), ("mpich", {}), ("mpich", {"MGC_FAKE_HOSTS": "2"})):
            if shutil.which(MPIS[kind][0]):
                out = f"r{several}"
                r = subprocess.run([*MPIS[kind], "-n", "4", *args, "--reward", f"python3 reward.py {out}.lines", "--out", out], cwd=self.dir,
                                   env={**CLEAN, **ROOT, **env}, capture_output=True, timeout=120, check=False)
                self.assertEqual(r.returncode, 0, r.stderr[-2000:])
                self.assertEqual(self.read(f"{out}/ckpt/step-00000004/model.safetensors"), want, (kind, env))
                self.assertEqual(self.read(f"{out}.lines"), self.read("r.lines"))
                several += 1
        ranks = [subprocess.Popen([*args, "--reward", "python3 reward.py h.lines", "--out", "h"], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**CLEAN, **{k: str(v) for k, v in torchrun(i, 4).items()}}) for i in range(4)]
        said = [p.communicate(timeout=120) for p in ranks]
        self.assertEqual([p.returncode for p in ranks], [0] * 4, said)
        self.assertEqual(self.read("h/ckpt/step-00000004/model.safetensors"), want)
        self.assertEqual(self.read("started"), b"x" * (several + 1))

    def started(self, *more):
        """A run whose command says nothing in the second rollout."""
        for name in ("waits",):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        p = subprocess.Popen(["./dp2_tp2", "--data", "p.jsonl", *COMMAND, "--steps", "100", "--out", "r", "--threads", "1", "--hang-after", "2", *more], cwd=self.dir,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(p.kill)
        for _ in range(600):
            if os.path.exists(self.path("waits")):
                break
            time.sleep(0.1)
        ranks = below(p.pid)
        return p, ranks, [x for x in ranks if b"dp2_tp2" in self.command(x)]

    def command(self, pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return f.read()
        except OSError:
            return b""

    def ends(self, p, all_of_it, code):
        said = p.communicate(timeout=60)[1].decode()
        self.assertEqual(p.returncode, code, said)
        for _ in range(200):
            if not any(runs(x) for x in all_of_it):
                return said
            time.sleep(0.05)
        self.fail(f"{[x for x in all_of_it if runs(x)]} still run")

    def test_ends(self):
        """While a command says nothing for longer than --hang-after: a signal saves and ends all; a rank that dies or stops ends the others, and
        the command; so does a command that dies, or is too slow."""
        self.imported("grpo,group=4,tokens=4")
        self.program("dp2_tp2", precision="f32")
        self.write("reward.py", SLOW)
        p, every, ranks = self.started()
        self.assertEqual(len(ranks), 4)
        time.sleep(4)
        p.send_signal(signal.SIGTERM)
        self.ends(p, every, 75)
        self.assertTrue(os.path.isdir(self.path("r/ckpt/step-00000001")))
        p, every, ranks = self.started()
        os.kill(ranks[-1], signal.SIGKILL)
        self.assertRegex(self.ends(p, every, 69), r"rank [123] is gone")
        p, every, ranks = self.started()
        os.kill(ranks[-1], signal.SIGSTOP)
        self.assertRegex(self.ends(p, every, 69), r"rank [123] hangs")
        p, every, ranks = self.started()
        os.kill([x for x in every if b"reward.py" in self.command(x) and b"dp2_tp2" not in self.command(x)][-1], signal.SIGKILL)
        self.assertRegex(self.ends(p, every, 1), "--reward 'python3 reward.py' ended|was ended by signal 9")
        p, every, ranks = self.started("--reward-timeout", "1")
        self.assertIn("gave no number for 1 s, after 16 of 32", self.ends(p, every, 1))

    def test_refused(self):
        """Axes of positions or stages alone, and texts that ranks do not share: with what would do."""
        self.imported("grpo,group=4,tokens=4")
        for mesh, rules, code, said in (("cp = 2", "    seq -> cp\n", "MG0597", "-D cp=1"), ("pp = 2", layouts.PP("1f1b"), "MG0597", "-D pp=1"),
                                        ("dp = 2, cp = 2", layouts.DP + layouts.RING + layouts.Z3, "MG0597", "-D cp=1")):
            self.write("l.mg", f"layout l {{\n    device cpu\n    mesh {mesh}\n{rules}    microbatch 1\n}}\n")
            r = self.mgc("m.mg", "--layout", "./l.mg", *SIZES, "--check")
            self.assertEqual((r.returncode, code in r.err, "help: " + said in r.err, "--sequences" in r.err), (1, True, True, False), r.err)
        self.write("few.mg", self.read("m.mg").decode().replace("tokens = 4", "tokens = 4, texts = 2"))
        self.write("l.mg", f"layout l {{\n    device cpu\n    mesh dp = 4\n{layouts.DP}    microbatch 1\n}}\n")
        r = self.mgc("few.mg", "--layout", "./l.mg", *SIZES, "--check")
        self.assertEqual((r.returncode, "MG0594" in r.err, "texts = 4" in r.err), (1, True, True), r.err)

    def test_plan(self):
        """What a rank has: half the caches for its texts and, a quarter as large, their prompts, half of them for its heads; the time of a rollout with its collectives."""
        self.imported("grpo,group=4,tokens=10")
        said = {}
        for name in ("one", "dp2", "dp2_tp2"):
            self.program(name)
            plan = self.compiles("m.mg", "--layout", f"./{name}.mg", *SIZES, "--precision", "f64", "--plan").out
            said[name] = re.search(r"rollouts +16 answers of at most 10 tokens, 16 at once(.*): .*; caches (\S+ \w+)", plan).groups()
        self.assertEqual(said, {"one": ("", "240 KiB"), "dp2": (", 8 on each of 2 ranks of dp", "120 KiB"), "dp2_tp2": (", 8 on each of 2 ranks of dp", "60 KiB")})


if __name__ == "__main__":
    mgctest.main()
