"""A run that is killed many times, at moments of chance, ends with the bits of one that is not; with state on a disk, too."""

import json
import os
import random
import signal
import subprocess
import time
import unittest

import mgctest
from mgctest import model



class Kill(mgctest.Case):
    def start(self, program, data, run, steps, every, *more):
        resume = ["--resume"] if os.path.isdir(self.path(run)) else []
        argv = [program, "--data", data, "--out", run, "--steps", steps, "--save-every", every, *more, *resume]
        return subprocess.Popen([str(a) for a in argv], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def ends(self, p, limit):
        self.assertEqual(p.wait(limit), 0, p.stderr.read())
        p.stderr.close()

    def numbers(self, run):
        """The numbers that each step computed, without its times."""
        keep = ("step", "loss", "grad_norm", "lr", "val_loss")
        return [{k: m[k] for k in keep if k in m} for m in self.metrics(run)]

    def checkpoint(self, run, steps):
        folder = f"{run}/ckpt/step-{steps:08d}"
        return {f: self.read(os.path.join(folder, f)) for f in sorted(os.listdir(self.path(folder)))}

    def same_end(self, a, b, steps):
        self.assertEqual(self.numbers(a), self.numbers(b))
        x, y = self.checkpoint(a, steps), self.checkpoint(b, steps)
        for name in ("model.safetensors", "optimizer.safetensors"):
            self.assertTrue(x[name] == y[name], name)  # assertEqual would print them
        self.assertEqual(json.loads(x["state.json"])["step"], steps)

    def broken(self, kills, whole, start, run, share):
        """Starts and kills `kills` times, after up to `share` of the seconds `whole` of an unbroken run, then lets it end."""
        r, late = random.Random(3), 0
        for _ in range(kills):
            p = start(run)
            # Long enough to get somewhere, short enough not to end before the kills do.
            time.sleep(r.uniform(0, share * whole))
            p.send_signal(signal.SIGKILL)
            late += p.wait(60) != -signal.SIGKILL
            p.stderr.close()
        self.assertLess(late, kills / 2, "most runs had ended before they were killed")
        self.ends(start(run), 600 + 10 * whole)

    def test_twenty_kills(self):
        self.compiles(model("llama_mini.mg"), "-D", "layers=2", "-D", "hidden=80", "-D", "head=8", "-D", "batch=4",
                      "-D", "seq=64", "--layout", self.write("l.mg", "layout k : default {\n    microbatch 4\n}\n"),
                      "-o", "train")
        data, steps = self.text(60_000), 160
        start = lambda run: self.start("./train", data, run, steps, 4, "--val-fraction", 0.1, "--eval-every", 40)
        began = time.monotonic()
        self.ends(start("whole"), 300)
        self.broken(20, time.monotonic() - began, start, "broken", 3 / 20)
        self.same_end("whole", "broken", steps)

    @unittest.skipUnless(mgctest.FULL, "takes minutes and gigabytes of a disk")
    def test_fifty_kills_with_state_on_disk(self):
        """GPT-2 of 124M parameters, which has room without: forced to keep state and masters on the disk, and killed 50 times."""
        data, steps = self.text(60_000), 20
        ends = ("plain", ""), ("train", "    offload state, masters -> disk\n")
        for program, line in ends:
            layout = self.write("l.mg", f"layout k : default {{\n    device cpu\n    microbatch 1\n{line}}}\n")
            self.compiles(model("gpt2_124m.mg"), "--layout", layout, "--precision", "bf16", "-D", "seq=64", "-D", "batch=2", "-o", program)
        start = lambda program: lambda run: self.start(program, "u8:" + data, run, steps, 2, "--keep", 1)
        self.ends(start("./plain")("plain_run"), 600)
        began = time.monotonic()
        self.ends(start("./train")("whole"), 600)
        self.same_end("plain_run", "whole", steps)
        self.broken(50, time.monotonic() - began, start("./train"), "broken", 0.1)
        self.same_end("whole", "broken", steps)


if __name__ == "__main__":
    mgctest.main()
