"""mgc calibrate measures this machine, and its description is one that mgc takes."""

import json
import os

import mgctest
from mgctest import model


class Calibrate(mgctest.Case):
    def test_calibrate(self):
        self.compiles("calibrate", "-o", "cpu.json", timeout=600)
        with open(self.path("cpu.json"), encoding="utf-8") as f:
            d = json.load(f)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/cpu.json"), encoding="utf-8") as f:
            self.assertEqual(list(d), list(json.load(f)))
        for share in "product_share", "attention_share", "attention_grad_share":
            self.assertTrue(0.05 <= d[share] <= 1)
        # Anything from an old laptop under load to a new server: not a number out of the air.
        self.assertTrue(1e9 < d["flops_f32_per_thread"] < 1e12)
        self.assertTrue(0.5 < d["flops_f32_per_thread"] / d["flops_f64_per_thread"] < 8)
        for half in "flops_bf16_per_thread", "flops_f16_per_thread":
            self.assertTrue(0.1 < d[half] / d["flops_f32_per_thread"] < 12, d)
        self.assertTrue(1e9 < d["bandwidth"] < 1e12)
        self.assertTrue(1e7 < d["exponentials_per_thread"] < 1e12)
        # Additions of generated kernels are at most a vector unit's, and functions of some ten of them are counted in them.
        self.assertTrue(1e8 < d["operations_per_thread"] < 1e12)
        p = json.loads(self.compiles(model("llama_mini.mg"), "--device", "./cpu.json", "--plan=json").out)
        self.assertTrue(10 < p["step_ms"] < 10000)
        self.assertEqual(os.listdir(self.dir), ["cpu.json"])

    def test_refused(self):
        for argv in ("calibrate", "x"), ("calibrate", "--plan"), ("calibrate", "-o", "."):
            self.assertEqual(self.mgc(*argv).returncode, 2, argv)
        self.write("cc", "#!/bin/sh\nexit 1\n")
        os.chmod(self.path("cc"), 0o755)
        r = self.mgc("calibrate", "-o", "d.json", env={"MGC_CC": self.path("cc")})
        self.assertEqual(r.returncode, 4)
        self.assertEqual(os.listdir(self.dir), ["cc"])


class Report(mgctest.Case):
    def test_report(self):
        self.write("tiny.mg", mgctest.TINY)
        self.compiles("tiny.mg", "-o", "t")
        self.trains("./t", "--data", self.text(4000), "--steps", 6, "--trace", "2:5", "--out", "run")
        out = self.compiles("report", "run/trace.json").out
        self.assertRegex(out, r"^4 steps; a step measured [\d.]+ ms, predicted [\d.]+ ms: [+-][\d.]+%\n")
        with open(self.path("run/trace.json"), encoding="utf-8") as f:
            slices = [e for e in json.load(f)["traceEvents"] if e["ph"] == "X" and e["tid"] == 0 and e["cat"] != "step"]
        for kind in {e["cat"] for e in slices}:
            ms = sum(e["args"]["measured_us"] for e in slices if e["cat"] == kind) / 4000
            self.assertIn(f"{ms:11.3f}", out)
        self.write("not.json", "{")
        self.write("empty.json", "{}")
        for bad in "not.json", "empty.json", "none.json", ".":
            self.assertEqual(self.mgc("report", bad).returncode, 2, bad)

    def test_memory_is_told(self):
        """Resident memory is the arena and little else."""
        self.compiles(model("llama_mini.mg"), "-o", "t")
        r = self.trains("./t", "--data", self.text(40000), "--steps", 2, "--out", "run")
        arena, used = r.out.split("(arena ")[1].split(" bytes")[0], r.out.split("), used ")[1].split(" MiB")[0]
        over = float(used) * 2**20 - int(arena)
        self.assertTrue(-(2**20) < over <= 60 * 2**20, r.out[-400:])


if __name__ == "__main__":
    mgctest.main()
