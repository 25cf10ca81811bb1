"""Programs of several ranks that generate, run by real ranks: the texts of one rank under many layouts, with texts that lose
their first tokens; checkpoints; launchers; chat; memory as planned; what ends them; what is refused."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time

import layouts
import mgctest
import shim
from test_launch import CLEAN, MPIS, ROOT, below, runs, torchrun

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
LLAMA, GPT2, MIXTRAL = (os.path.join(PARITY, f"{m}_small.mg") for m in ("llama", "gpt2", "mixtral"))
PROMPTS = ["In the beginning God created the heaven", "a", "And the earth", "without form, and void; and darkness was upon the deep"]
GROUPS = ("tp = 2, tq = 2", "    kv_heads, ffn, vocab -> tp\n    group -> tq\n")  # two key heads, four ranks
# Positions that other axes split, too, are left whole; an axis for them alone, or for stages, is refused.
PADDED = ("tp = 2", layouts.TP + "    pad vocab to 258\n")
ABLE = {k: v for k, v in (layouts.LAYOUTS | {"groups": GROUPS, "padded": PADDED}).items() if "cp" not in v[0] and "pp" not in v[0]}
EXPERTS = {k: v for k, v in layouts.EXPERTS.items() if "cp" not in v[0] and "pp" not in v[0]}


def where(pid):
    """What the threads of a process do, of one that should have ended."""
    try:
        threads = [f"/proc/{pid}/task/{t}" for t in sorted(os.listdir(f"/proc/{pid}/task"))]
        return [open(f"{t}/{name}", errors="replace").read().strip()[:80] for t in threads for name in ("stat", "wchan", "syscall")]
    except OSError as e:
        return str(e)


class GenerateRanks(mgctest.Case):
    def program(self, path, name, *more, precision="f64"):
        """The program ./NAME of a layout, of four texts."""
        mesh, rules = (ABLE | EXPERTS | layouts.SENT).get(name, ("dp = 1", ""))
        rules = rules.format(heads="heads" if path == GPT2 else "kv_heads")
        self.write(f"{name}.mg", f"layout {name} {{\n    device cpu\n    mesh {mesh}\n{rules}    microbatch 1\n}}\n")
        more = more if "--sequences" in more else (*more, "--sequences", 4)
        self.compiles(path, "--layout", f"./{name}.mg", "--precision", precision, "--generate", "--prefill", 6, *more, "-o", name)
        return "./" + name

    def says(self, program, *args, prompts=PROMPTS, **how):
        given = [x for p in prompts for x in ("--prompt", p)]
        return self.trains(program, "--threads", 1, *args, *given, **how).out

    def compare(self, path, names):
        one = self.program(path, "one")
        drawn, likeliest = (("--sample", 60, "--seed", 7), ("--sample", 60, "--temperature", 0))  # more than seq, of 24
        want = [self.says(one, *a) for a in (drawn, likeliest)]
        self.assertNotEqual(*want)
        for name in names:
            with self.subTest(path=os.path.basename(path), layout=name):
                many = self.program(path, name)
                self.assertEqual([self.says(many, *a) for a in (drawn, likeliest)], want)

    def test_llama(self):
        """The same texts, drawn and likeliest, under every kind of layout."""
        self.compare(LLAMA, mgctest.some(ABLE, 6))

    def test_gpt2(self):
        self.compare(GPT2, mgctest.some([n for n in ABLE if n != "groups"], 3))

    def test_experts(self):
        """Experts with slots on the ranks that have them; rows that are sorted, and sent."""
        self.compare(MIXTRAL, mgctest.some([n for n in EXPERTS if n != "ep2_tp2" or mgctest.FULL], 3))
        with open(MIXTRAL, encoding="utf-8") as f:
            path = self.write("dropless.mg", mgctest.dropless(f.read()))
        self.compare(path, mgctest.some([n for n in layouts.SENT if n in ("ep2_rows", "ep2_rows_tp2")], 1))

    def logits(self, path):
        data = self.read(path)
        n = struct.unpack("<Q", data[:8])[0]
        (t,) = (v for k, v in json.loads(data[8:8 + n]).items() if k != "__metadata__")
        rows, cols = t["shape"]
        return struct.unpack(f"<{rows * cols}f", data[8 + n:])

    def test_logits_and_weights(self):
        """Logits are those of one rank as far as f32 shows; weights that one layout wrote another reads, bit for bit."""
        one, many = self.program(LLAMA, "one"), self.program(LLAMA, "zero3_tp2")
        self.says(one, "--sample", 1, "--seed", 3, "--export", "from-one", prompts=())
        for program in (one, many):
            self.says(program, "--sample", 30, "--init", "from-one", "--logits", program + ".st", prompts=PROMPTS[:1])
        x, y = self.logits(one + ".st"), self.logits(many + ".st")
        self.assertEqual(len(x), 30 * 256)
        self.assertLess(max(abs(a - b) for a, b in zip(x, y, strict=True)), 1e-6)
        self.says(many, "--sample", 1, "--init", "from-one", "--export", "from-many", prompts=())
        self.assertEqual(self.read("from-one/model.safetensors"), self.read("from-many/model.safetensors"))

    def test_bits(self):
        """Text k of a rank of dp, in f32 and in halves, has the bits of the text of one rank with the seed seed + k."""
        for precision in ("f32", "bf16"):
            one = self.program(LLAMA, "one", "--sequences", 1, precision=precision)
            two = self.program(LLAMA, "dp2", "--sequences", 2, precision=precision)
            self.says(one, "--sample", 1, "--export", "w-" + precision, prompts=())
            parts = self.says(two, "--sample", 50, "--seed", 5, "--init", "w-" + precision, prompts=PROMPTS[:2]).split("== ")[1:]
            for k, prompt in enumerate(PROMPTS[:2]):
                alone = self.says(one, "--sample", 50, "--seed", 5 + k, "--init", "w-" + precision, prompts=(prompt,))
                self.assertEqual(parts[k], f"{k + 1}\n{alone}", precision)

    def test_as_trained(self):
        """--sample of the program that trains over the same ranks computes the whole window for each token: the same text."""
        many = self.program(LLAMA, "dp2_tp2")
        self.compiles(LLAMA, "--layout", "./dp2_tp2.mg", "-D", "batch=8", "--precision", "f64", "-o", "train")
        args = ("--sample", 18, "--seed", 2)
        self.assertEqual(self.says("./train", *args, prompts=("abc",)), self.says(many, *args, prompts=("abc",)))

    def test_launchers(self):
        """Under MPI, and over the wire of machines that are pretended, as in a bare start; only rank 0 reads what is said."""
        many = self.program(LLAMA, "dp2_tp2")
        args = [many, "--threads", "1", "--sample", "40", "--prompt", "x", "--prompt", "In the"]
        want = self.says(many, "--sample", 40, prompts=("x", "In the"))
        for kind, env in (("openmpi", {}), ("mpich", {}), ("mpich", {"MGC_FAKE_HOSTS": "2"})):
            if shutil.which(MPIS[kind][0]):
                r = subprocess.run([*MPIS[kind], "-n", "4", *args], cwd=self.dir, env={**CLEAN, **ROOT, **env}, capture_output=True,
                                   timeout=120, check=False)
                self.assertEqual((r.returncode, r.stdout.decode()), (0, want), (kind, env, r.stderr[-2000:]))
        several = [subprocess.Popen(args, cwd=self.dir, env={**CLEAN, **{k: str(v) for k, v in torchrun(i, 4).items()}},
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE) for i in range(4)]
        said = [p.communicate(timeout=120) for p in several]
        self.assertEqual([p.returncode for p in several], [0] * 4, said)
        self.assertEqual([s[0].decode() for s in said], [want, "", "", ""])

    def test_chat(self):
        """Lines come to rank 0 alone, and answers are those of one rank; the others wait longer than --hang-after."""
        one, many = self.program(LLAMA, "one", "--sequences", 1), self.program(LLAMA, "tp2", "--sequences", 1)
        args = ["--chat", "--sample", "12", "--temperature", "0", "--stop", "~~~", "--threads", "1"]
        said = []
        for program in (one, many):
            patience = ["--hang-after", "1"] if program == many else []
            p = subprocess.Popen([program, *args, *patience], cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            p.stdin.write(b"In the\n")
            p.stdin.flush()
            time.sleep(3 if program == many else 0)
            said.append(p.communicate(b"beginning\nGod\n", timeout=60)[0])
            self.assertEqual(p.returncode, 0)
        self.assertEqual(said[0], said[1])

    def started(self, program):
        p = subprocess.Popen([program, "--threads", "1", "--sample", "100000000", "--prompt", "x", "--hang-after", "5"], cwd=self.dir,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(p.kill)
        self.assertTrue(p.stdout.read(4))  # the text begins
        return p, below(p.pid)

    def ends(self, p, all_of_it, code):
        try:
            said = p.communicate(timeout=60)[1].decode()
        except subprocess.TimeoutExpired:
            self.fail("".join(f"{x}: {where(x)}\n" for x in all_of_it))
        self.assertEqual(p.returncode, code, said)
        for _ in range(100):
            left = [x for x in all_of_it if runs(x)]
            if not left:
                return said
            time.sleep(0.05)
        self.fail(f"{left} still run")

    def test_ends(self):
        """A signal ends all ranks behind a token; a rank that dies, or stops, ends the others with the reason."""
        many = self.program(LLAMA, "tp2", "--sequences", 1)
        for number in (signal.SIGINT, signal.SIGTERM):
            p, ranks = self.started(many)
            self.assertEqual(len(ranks), 2)
            p.send_signal(number)
            self.ends(p, ranks, 75)
        p, ranks = self.started(many)
        os.kill(ranks[1], signal.SIGKILL)
        self.assertIn("rank 1", self.ends(p, ranks, 69))
        p, ranks = self.started(many)
        os.kill(ranks[1], signal.SIGSTOP)
        self.assertIn("rank 1", self.ends(p, ranks, 69))

    def test_plan(self):
        """--plan says what a rank has: half the caches of two ranks of heads, the texts of its own of two ranks of those."""
        sizes = {}
        for name in ("one", "tp2", "dp2", "zero3_tp2"):
            self.program(LLAMA, name, "-D", "seq=512")
            plan = self.compiles(LLAMA, "--layout", f"./{name}.mg", "-D", "seq=512", "--sequences", 4, "--precision", "f64", "--generate", "--plan")
            sizes[name] = re.search(r"\n  caches +(\S+ \w+)", plan.out)[1]
            self.assertEqual("communication" in plan.out, name != "one")
            said = re.search(r"\ntexts +4 of at most 512 tokens at once(.*)", plan.out)[1]
            self.assertEqual(said, ", 2 on each of 2 ranks of dp" if name in ("dp2", "zero3_tp2") else "")
        self.assertEqual(sizes, {"one": "1 MiB", "tp2": "512 KiB", "dp2": "512 KiB", "zero3_tp2": "256 KiB"})

    def test_refused(self):
        """Axes of positions or stages alone, and texts that ranks do not share: with what would do."""
        model = f"{mgctest.SOURCE}/models/llama_56m.mg"
        for defined, code, said in (("cp=2", "MG0537", "-D cp=1"), ("pp=2", "MG0537", "-D pp=1"), ("dp=2", "MG0293", "--sequences 4")):
            r = self.mgc(model, "--generate", "--check", "-D", defined, *(("--sequences", 3) if defined == "dp=2" else ()))
            self.assertEqual(r.returncode, 1, r.err)
            self.assertIn(code, r.err)
            self.assertIn("help: " + said, r.err)
        self.assertIn("generates 4 texts of 256 tokens on 8 ranks", self.compiles(model, "--generate", "--check", "-D", "dp=4", "-D", "tp=2").out)


class GenerateGpus(shim.Case):
    def test_gpus(self):
        """GPUs of the shim, with its NCCL, in f32: the likeliest tokens are those of one rank on a processor; dp on GPUs of a
        text each, parameters that are gathered while a layer runs, half of the heads."""
        prompts = [x for p in PROMPTS for x in ("--prompt", p)]
        options = ("--generate", "--sequences", 4, "--prefill", 6, "--precision", "f32")
        self.compiles(LLAMA, *options, "-o", "one")
        self.trains("./one", "--sample", 1, "--export", "weights")
        args = ("--sample", 40, "--temperature", 0, "--init", "weights", *prompts)
        want = self.trains("./one", *args).out
        for name in mgctest.some(("tp2", "dp4", "zero3_tp2", "dp2_tp2")):
            self.write(f"{name}.mg", layouts.text(name, "h200"))
            self.gpu(LLAMA, "--layout", f"./{name}.mg", *options, device=())
            got = self.trains("./gpu", *args, env={"SHIM_GPUS": "8", "SHIM_SEED": str(mgctest.TURN)}, timeout=600).out
            self.assertEqual(got, want, name)


if __name__ == "__main__":
    import unittest
    unittest.main()
