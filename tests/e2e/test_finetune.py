"""docs/finetune.md: its commands, one after the other, as a reader gives them. With MGC_FULL as many steps as it says, and the answer."""

import json
import math
import os
import re
import subprocess

import mgctest
import pages
from mgctest import BUILD, FULL, SOURCE


class Finetune(mgctest.Case):
    def test_page(self):
        blocks = [b.text for b in pages.blocks("docs/finetune.md") if b.kind == "sh" and "not run" not in b.says]
        self.assertGreater(len(blocks), 3)
        script = "set -eu\n" + "".join(blocks).replace("build/mgc ", os.path.join(BUILD, "mgc") + " ").replace(
            "examples/", os.path.join(SOURCE, "examples") + "/")
        if not FULL:
            script = re.sub(r"--steps \d+", "--steps 4", script).replace("step-00000200", "step-00000004")
        r = subprocess.run(["sh", "-c", script], cwd=self.dir, capture_output=True, text=True, timeout=3000 if FULL else 500)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("2560 tokens learnt", r.stdout)
        self.assertRegex(r.stdout, r"weights of \S*base_hf: 39 tensors")  # the base's, without those of the adapter
        with open(self.path("tuned/ckpt/step-00000200" if FULL else "tuned/ckpt/step-00000004") + "/adapter_config.json") as f:
            self.assertEqual(json.load(f)["r"], 8)
        losses = [x["loss"] for x in self.metrics("preferred") if "loss" in x]
        self.assertLess(abs(losses[0] - math.log(2)), 1e-6)  # policy and reference are the same
        if FULL:
            self.assertIn("It is blue", r.stdout)
            self.assertLess(losses[-1], 0.6)


if __name__ == "__main__":
    mgctest.main()
