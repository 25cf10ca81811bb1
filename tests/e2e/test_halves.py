"""bf16 and f16 on the processor: halves in memory, float arithmetic. Losses follow those of f32 as far as the roundings
of what products read and give allow, on each of the small models."""

import fcntl
import os
import signal
import subprocess
import time

import mgctest

STEPS = 24
PARITY = os.path.join(mgctest.SOURCE, "tests/parity")


@mgctest.in_turns_of(2)
class Halves(mgctest.Case):
    def losses(self, path, precision):
        self.compiles(path, "--precision", precision, "-o", precision)
        self.trains(f"./{precision}", "--data", "text1.txt", "--steps", 20, "--out", f"run-{precision}")
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(f"run-{precision}") if "loss" in l]

    def follows(self, model):
        self.text(6000)
        path = os.path.join(PARITY, model)
        exact = self.losses(path, "f32")
        self.assertEqual(len(exact), 20)
        for precision, bound in (("bf16", 1e-3), ("f16", 2e-4)):
            with self.subTest(precision):
                half = self.losses(path, precision)
                off = [max(abs(a[k] - b[k]) / a[k] for a, b in zip(exact, half, strict=True)) for k in (0, 1)]
                self.assertLess(off[0], bound)
                self.assertLess(off[1], 10 * bound)
                self.assertGreater(off[0], 1e-8)  # they were rounded

    def test_llama(self):
        self.follows("llama_small.mg")

    def test_gpt2(self):
        self.follows("gpt2_small.mg")

    def test_mlp(self):
        self.follows("mlp_small.mg")

    def test_mixtral(self):
        self.follows("mixtral_small.mg")

    def checkpoint(self, run):
        folder = f"{run}/ckpt/step-{STEPS:08d}/"
        return [self.read(folder + name) for name in ("model.safetensors", "optimizer.safetensors")]

    def killed(self, run, argv):
        """Ends the program as soon as it has saved its third step."""
        p = subprocess.Popen([*argv, "--out", run], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             start_new_session=True)
        until = time.monotonic() + 60
        while not os.path.isdir(self.path(f"{run}/ckpt/step-00000003")) and time.monotonic() < until:
            time.sleep(0.001)
        os.killpg(p.pid, signal.SIGKILL)  # and its ranks
        self.assertEqual(p.wait(60), -signal.SIGKILL)
        with open(self.path(f"{run}/.lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the other ranks are gone as well

    def test_resumes_bit_for_bit(self):
        """The copies that products read are not saved: they are made anew. Here one is of a table that is looked up,
        too; and with ZeRO 1 a rank has a part of each master."""
        self.text(6000)
        alone = self.write("alone.mg", "layout alone {\n    device cpu\n    microbatch 2\n}\n")
        zero1 = self.write("zero1.mg", "layout zero1 {\n    device cpu\n    mesh dp = 2\n    batch -> dp\n"
                           "    state -> dp\n    microbatch 1\n}\n")
        for name, layout, precision in (("alone", alone, "bf16"), ("zero1", zero1, "bf16"), ("scaled", alone, "f16"),
                                        ("eighths", zero1, "fp8"), ("tiles", zero1, "fp8(scales = tile)"),
                                        ("mx", alone, "fp8(scales = mx)")):
            with self.subTest(name):
                with open(os.path.join(PARITY, "gpt2_small.mg"), encoding="utf-8") as f:
                    source = self.write(f"{name}.mg", f.read().replace("precision f32", f"precision {precision}"))
                self.compiles(source, "--layout", layout, "-o", name)
                run = (f"./{name}", "--data", "text1.txt", "--steps", str(STEPS), "--save-every", "1")
                self.trains(*run, "--out", f"{name}-whole")
                self.killed(f"{name}-broken", run)
                self.trains(*run, "--out", f"{name}-broken", "--resume")
                whole, broken = self.checkpoint(f"{name}-whole"), self.checkpoint(f"{name}-broken")
                self.assertTrue(whole == broken, "other bits")
                for saved in whole:
                    self.assertNotIn(b'F16"', saved[:saved.index(b"}}")])  # no copy is saved


if __name__ == "__main__":
    mgctest.main()
