"""A run that is killed twenty times, at moments of chance, ends with the bits of one that is not."""

import json
import os
import random
import signal
import subprocess
import time

import mgctest
from mgctest import model

STEPS, KILLS = 160, 20


class Kill(mgctest.Case):
    def start(self, data, run, resume):
        argv = ["./train", "--data", data, "--val-fraction", "0.1", "--steps", STEPS, "--out", run,
                "--save-every", 4, "--eval-every", 40] + (["--resume"] if resume else [])
        return subprocess.Popen([str(a) for a in argv], cwd=self.dir, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE)

    def numbers(self, run):
        """The numbers that each step computed, without its times."""
        keep = ("step", "loss", "grad_norm", "lr", "val_loss")
        return [{k: m[k] for k in keep if k in m} for m in self.metrics(run)]

    def checkpoint(self, run):
        folder = f"{run}/ckpt/step-{STEPS:08d}"
        return {f: self.read(os.path.join(folder, f)) for f in sorted(os.listdir(self.path(folder)))}

    def test_twenty_kills(self):
        self.compiles(model("llama_mini.mg"), "-D", "layers=2", "-D", "hidden=80", "-D", "head=8", "-D", "batch=4",
                      "-D", "seq=64", "--layout", self.write("l.mg", "layout k : default {\n    microbatch 4\n}\n"),
                      "-o", "train")
        data, r = self.text(60_000), random.Random(3)
        began = time.monotonic()
        p = self.start(data, "whole", False)
        self.assertEqual(p.wait(300), 0, p.stderr.read())
        p.stderr.close()
        whole = time.monotonic() - began
        killed, late = 0, 0
        while killed < KILLS:
            p = self.start(data, "broken", os.path.isdir(self.path("broken")))
            # Long enough to get somewhere, short enough not to end before the kills do.
            time.sleep(r.uniform(0, 3 * whole / KILLS))
            p.send_signal(signal.SIGKILL)
            late += p.wait(60) != -signal.SIGKILL
            p.stderr.close()
            killed += 1
        self.assertLess(late, KILLS, "no run was alive when it was killed")
        p = self.start(data, "broken", True)
        self.assertEqual(p.wait(300), 0, p.stderr.read())
        p.stderr.close()
        self.assertEqual(self.numbers("whole"), self.numbers("broken"))
        a, b = self.checkpoint("whole"), self.checkpoint("broken")
        for name in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(a[name], b[name], name)
        self.assertEqual(json.loads(a["state.json"])["step"], STEPS)


if __name__ == "__main__":
    mgctest.main()
