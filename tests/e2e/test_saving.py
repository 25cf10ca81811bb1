"""Checkpoints that are written beside the steps: the bytes of those that steps wait for, under each layout, on one
machine and on several, whatever happens meanwhile."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import layouts
import mgctest
import shim
import test_launch
from layouts import LAYOUTS
from mgctest import TINY, TURN, some

MODEL = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
BESIDE = "checkpoints are written beside the steps"
WAITS = "checkpoints are written while steps wait: "
ONE = ("dp2", "dp2_zero3", "tp2", "pp2")
MORE = ("dp4_zero1", "dp4_zero3", "hybrid", "dp2_tp2", "tp2_dp2", "zero3_tp2_sp", "tp2_pp2_zb", "pp2_zb_zero3", "pp2_gpipe_dp2", "hidden")


class Saving(mgctest.Case):
    bytes = None  # of a checkpoint, as planned

    def make(self, layout=None, model=MODEL, *more):
        named = ()
        if layout:
            mesh, rules = LAYOUTS[layout]
            self.write("l.mg", f"layout l {{\n    device cpu\n    mesh {mesh}\n{rules.replace('{heads}', 'kv_heads')}    microbatch 1\n}}\n")
            named = ("--layout", "./l.mg")
        options = (model, *named, "-D", "batch=8", "--precision", "f32", *more)
        self.compiles(*options, "-o", "train")
        plan = json.loads(self.compiles(*options, "--plan=json").out)["checkpoint"]
        self.assertEqual(plan["copy_bytes"], plan["bytes"])
        self.assertIn("  checkpoint   ", self.compiles(*options, "--plan").out)
        self.bytes = plan["bytes"]
        self.text(6000)

    def args(self, out, steps=6, *more):
        return ["./train", "--data", "text1.txt", "--steps", steps, "--out", out, "--threads", 1, "--save-every", 2, "--keep", 0, *more]

    def tree(self, out):
        """Each file of each checkpoint, and nothing else that lies there."""
        found = {}
        for at, _, names in os.walk(self.path(f"{out}/ckpt")):
            for name in names:
                found[os.path.relpath(os.path.join(at, name), self.path(out))] = self.read(os.path.join(at, name))
        return found

    def same(self, a, b, steps=3):
        one, other = self.tree(a), self.tree(b)
        self.assertEqual(sorted(one), sorted(other))
        self.assertEqual(len({os.path.dirname(name) for name in one}), steps, sorted(one))
        for name, text in one.items():
            self.assertEqual(text, other[name], name)

    def both(self):
        wait = self.trains(*self.args("wait", 6, "--save", "blocking")).out
        beside = self.trains(*self.args("beside")).out
        self.assertIn(BESIDE, beside)
        self.assertNotIn("checkpoints are written", wait)
        self.assertEqual(beside.count("written beside in"), 3, beside)
        self.assertRegex(beside, r"saves: 3, for which steps stood still [\d.]+ m?s \([\d.]+% of the run\), written beside steps in ")
        self.same("wait", "beside")
        for out in ("wait", "beside"):
            costs = [m for m in self.metrics(out) if "saved" in m]
            if out == "wait":
                self.assertEqual([(m["step"], m["saved"]) for m in costs], [(3, 2), (5, 4)])
            for m in costs:
                self.assertGreater(m["step"], m["saved"])
                self.assertGreater(m["save_stopped_ms"], 0)
                self.assertEqual(m["save_beside_ms"] > 0, out == "beside")
                step = f"{out}/ckpt/step-{m['saved']:08d}"
                tensors = sum(os.path.getsize(self.path(f"{step}/{f}")) for f in ("model.safetensors", "optimizer.safetensors"))
                self.assertTrue(0 < tensors - m["save_bytes"] < 100_000)
                self.assertEqual(m["save_bytes"], self.bytes)

    def test_one_rank(self):
        self.make()
        self.both()
        self.trains(*self.args("beside", 10, "--resume=beside/ckpt/step-00000004"))
        self.trains(*self.args("wait", 10, "--save", "blocking", "--resume=wait/ckpt/step-00000006"))
        name = "ckpt/step-00000010/model.safetensors"
        self.assertEqual(self.read(f"beside/{name}"), self.read(f"wait/{name}"))

    def test_layouts(self):
        for layout in some(ONE, 2) + some(MORE, 2):
            with self.subTest(layout):
                self.make(layout)
                self.both()
                shutil.rmtree(self.path("wait"))
                shutil.rmtree(self.path("beside"))

    def test_other_state(self):
        """State of 8 bits, whose tensors begin anywhere in the file; averages; no state at all; an evaluation between."""
        eight = TINY.replace("adamw(", "adamw(state = dynamic8, ").replace("hidden = 16", "hidden = 40")
        for text in (eight, TINY.replace("adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)", "sgd()"),
                     TINY.replace("clip ", "average 0.9\n    clip ")):
            self.write("m.mg", text)
            self.compiles("m.mg", "-o", "train")
            self.text(6000)
            more = ("--val-fraction", 0.2, "--eval-every", 1, "--best-by", "val_loss:max")
            for out, how in (("wait", "blocking"), ("beside", "beside")):
                self.trains(*self.args(out, 6, "--save", how, *more))
            self.same("wait", "beside", len(os.listdir(self.path("wait/ckpt"))))
            shutil.rmtree(self.path("wait"))
            shutil.rmtree(self.path("beside"))

    def test_kept(self):
        """--keep-every beside --keep, in both ways."""
        self.make()
        for how in ("blocking", "beside"):
            self.trains(*self.args(how, 9, "--save-every", 1, "--save", how, "--keep", 2, "--keep-every", 3))
            self.assertEqual(sorted(os.listdir(self.path(f"{how}/ckpt"))), [f"step-{n:08d}" for n in (3, 6, 8, 9)])
        self.assertIn("--keep-every", self.trains(*self.args("no", 2, "--keep-every", 0), code=2).err)
        self.assertIn("--save now: it is beside or blocking", self.trains(*self.args("no", 2, "--save", "now"), code=2).err)

    def test_only_at_the_end(self):
        """A run that saves nothing before its end has no copy, and needs none."""
        self.make()
        for every in (0, 6, 1000):
            out = self.trains(*self.args(f"run{every}", 6, "--save-every", every)).out
            self.assertNotIn("checkpoints are written", out)
            self.assertRegex(out, r"saved run\d+/ckpt/step-00000006 ")

    def test_no_room(self):
        """Where the machine has no room for the copy, steps wait, and a line has both numbers."""
        self.make(None, self.write("wide.mg", TINY.replace("hidden = 16", "hidden = 8192")))
        used = self.trains(*self.args("wait", 4, "--save", "blocking")).out
        arena = int(re.search(r"arena (\d+) bytes", used)[1])
        limit = [0]

        def limited():
            resource.setrlimit(resource.RLIMIT_AS, (limit[0], limit[0]))
        for more in range(60, 600, 30):  # the least that the program starts with
            limit[0] = arena + (more << 20)
            r = self.trains(*self.args("tight", 4), preexec=limited, code=(0, 1))
            if r.returncode == 0:
                break
        said = re.search(re.escape(WAITS) + r"a copy of the state takes (\d+) bytes \(.*\) of this machine, which has (\d+) \(.*\) left", r.out)
        self.assertTrue(said, r.out + r.err)
        self.assertGreater(int(said[1]), int(said[2]))
        self.assertGreater(int(said[1]), 3 * 2 * 4 * 256 * 8192)
        self.same("wait", "tight", 2)

    def test_full(self):
        """A file that may not grow so far: warnings, nothing is left, and the run goes on."""
        self.make(None, self.write("wide.mg", TINY.replace("hidden = 16", "hidden = 4096")))
        r = self.trains(*self.args("full"), code=74, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
        for step in (2, 4, 6):
            self.assertIn(f"no checkpoint of step {step}: writing model.safetensors in full/ckpt: File too large; the newest is none", r.err)
        self.assertEqual(os.listdir(self.path("full/ckpt")), [])
        self.assertEqual(len([m for m in self.metrics("full") if "loss" in m]), 6)
        self.trains(*self.args("full", 8, "--resume"))
        self.assertEqual(len(os.listdir(self.path("full/ckpt"))), 4)

    def test_small_disk(self):
        """A file system that has room for one checkpoint and a half."""
        for layout in (None, "dp2"):
            self.make(layout, self.write("wide.mg", TINY.replace("hidden = 16", "hidden = 1024")))
            disk = self.path(f"disk{layout}")
            os.mkdir(disk)
            mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "none", disk], capture_output=True, check=False)
            if mount.returncode:
                self.skipTest("no file system can be mounted here")
            self.addCleanup(subprocess.run, ["umount", disk], check=False)
            r = self.trains(*self.args(f"{disk}/run", 6, "--keep", 1), code=(0, 74))
            self.assertIn("no checkpoint of step 4: writing ", r.err)
            self.assertIn("No space left on device; the newest is step-00000002", r.err)
            self.assertEqual(os.listdir(f"{disk}/run/ckpt"), ["step-00000002"])

    def test_stopped(self):
        """SIGTERM while a checkpoint is written: that one and the last are whole."""
        self.make("dp2", MODEL, "-D", "ffn=4096")
        for i in range(4):
            p = subprocess.Popen([str(a) for a in self.args(f"stop{i}", 1000, "--save-every", 1)], cwd=self.dir,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            while len(self.metrics(f"stop{i}") if os.path.exists(self.path(f"stop{i}/metrics.jsonl")) else []) < 3:
                time.sleep(0.02)
            time.sleep(0.01 * i)
            p.send_signal(signal.SIGTERM)
            out, err = (s.decode() for s in p.communicate(timeout=120))
            self.assertEqual(p.returncode, 75, err + out)
            steps = sorted(os.listdir(self.path(f"stop{i}/ckpt")))
            last = max(m["step"] for m in self.metrics(f"stop{i}") if "loss" in m)
            self.assertEqual(steps, [f"step-{n:08d}" for n in range(1, last + 1)])
            self.trains(*self.args(f"stop{i}", last + 1, "--resume"))

    def test_killed(self):
        """SIGKILL at any time: a rank, or all of them. What is left resumes, to the bits of a run that was not."""
        self.make("dp2_zero3", MODEL, "-D", "ffn=2048")
        self.trains(*self.args("whole", 12, "--save-every", 1, "--keep", 1))
        kills = 0
        for i in range(40):
            p = subprocess.Popen([str(a) for a in self.args("killed", 12, "--save-every", 1, "--keep", 2, "--resume=auto")], cwd=self.dir,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(0.1 + 0.037 * (i * 7 % 20))
            if p.poll() is None:
                victim = test_launch.below(p.pid)[-1 if i % 2 else 0]
                os.kill(victim, signal.SIGKILL)
                kills += 1
            err = p.communicate(timeout=120)[1].decode()
            self.assertNotIn("passed over", err)
            self.assertIn(p.returncode, (0, -9, 69, 75))
            if p.returncode == 0:
                break
        self.trains(*self.args("killed", 12, "--save-every", 1, "--keep", 2, "--resume=auto"))
        self.assertGreater(kills, 0)
        for name in ("model", "optimizer"):
            name = f"ckpt/step-00000012/{name}.safetensors"
            self.assertEqual(self.read(f"killed/{name}"), self.read(f"whole/{name}"))
        self.assertFalse([n for n in os.listdir(self.path("killed/ckpt")) if n.startswith(".")])


class Machines(test_launch.Launch):
    """Ranks on machines that are pretended, which see one folder, or each its own."""

    def two(self, hosts, argv, apart=()):
        """Four ranks by TCP; those in `apart` have another working folder. What rank 0 says."""
        ranks = []
        for rank in range(4):
            env = {**test_launch.CLEAN, **{k: str(v) for k, v in test_launch.tcp(hosts)(rank, 4).items()}}
            where = self.path(f"of{rank}") if rank in apart else self.dir
            os.makedirs(where, exist_ok=True)
            ranks.append(subprocess.Popen([self.path("train"), *argv], cwd=where, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        said = [p.communicate(timeout=240)[0].decode(errors="replace") for p in ranks]
        self.assertEqual([p.returncode for p in ranks], [0] * 4, said)
        self.assertEqual(said[1:], [""] * 3)
        return said[0]

    def test_saving(self):
        self.make()
        argv = [str(a) for a in Saving.args(self, "beside")[1:]]
        argv[argv.index("text1.txt")] = self.path("text1.txt")
        self.trains("./train", *argv, "--out", "wait", "--save", "blocking")
        for hosts in (2, 4):
            shutil.rmtree(self.path("beside"), ignore_errors=True)
            self.assertIn(BESIDE, self.two(hosts, argv))
            Saving.same(self, "wait", "beside")
        shutil.rmtree(self.path("beside"))
        self.assertIn(WAITS + "rank 2 does not see beside/ckpt as rank 0 does", self.two(2, argv, apart=(2, 3)))
        Saving.same(self, "wait", "beside")
        self.assertFalse(os.path.exists(self.path("of2/beside")))

    tree = Saving.tree


for name in [n for n in dir(Machines) if n.startswith("test_") and n != "test_saving"]:
    setattr(Machines, name, None)  # of the class that it takes its ways of starting from


class Gpu(shim.Case):
    """A program for GPUs, whose copy is in the memory of the host."""

    same, tree, args = Saving.same, Saving.tree, Saving.args

    def test_same(self):
        self.text(6000)
        for name in (None, *some(("dp2", "dp2_zero3", "tp2", "zero3_tp2"))):
            if name:
                self.write("l.mg", layouts.text(name, "h200", "kv_heads"))
                self.gpu(MODEL, "-D", "batch=8", "--layout", "./l.mg", "--precision", "f32", device=())
            else:
                self.gpu(self.write("m.mg", TINY))
            for way in ("blocking", "beside"):
                argv = ["./gpu", *self.args(way, 6, "--save", way)[1:]]
                said = self.trains(*argv, env={"SHIM_GPUS": "8", "SHIM_SEED": str(TURN)}, timeout=300).out
                self.assertEqual(BESIDE in said, way == "beside", said)
            self.same("blocking", "beside")
            shutil.rmtree(self.path("blocking"))
            shutil.rmtree(self.path("beside"))


if __name__ == "__main__":
    mgctest.main()
