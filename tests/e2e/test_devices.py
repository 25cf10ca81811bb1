"""The descriptions that are shipped: each plans a model that fits, refuses one that does not, and is documented."""

import json
import os
import re

import mgctest
from mgctest import TINY, model

FOLDER = os.path.join(mgctest.SOURCE, "compiler/devices")
NAMES = sorted(f.removesuffix(".json") for f in os.listdir(FOLDER))


def description(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as f:
        return json.load(f)


GPUS = [name for name in NAMES if description(name)["target"] == "cuda"]


class Devices(mgctest.Case):
    def test_a_small_model_fits(self):
        for name in NAMES:
            d = description(name)
            p = json.loads(self.compiles(model("llama_mini.mg"), "--device", name, "--plan=json").out)
            self.assertEqual((d["name"], p["device"]), (name, name))
            if d["memory"] != "host":
                self.assertEqual(p["capacity_bytes"], d["memory"])
            self.assertLess(p["arena_bytes"] + p["scratch_bytes"], p["capacity_bytes"])
            self.assertGreater(p["step_ms"], 0)

    def test_a_large_model_does_not(self):
        """The message has both numbers."""
        for name in NAMES:
            r = self.mgc(model("llama3_405b.mg"), "--device", name, "--check")
            self.assertEqual(r.returncode, 3, r.err)
            said = re.search(r"the plan needs (\d+) bytes \([^)]*\) and the device has (\d+)", r.err)
            self.assertIsNotNone(said, r.err)
            needs, has = int(said[1]), int(said[2])
            self.assertGreater(needs, has)
            if description(name)["memory"] != "host":
                self.assertEqual(has, description(name)["memory"])

    def test_a_larger_card_is_proposed(self):
        """Of those with room the smallest: of the descriptions, not of a list."""
        r = self.mgc(model("llama_mini.mg"), "--device", "rtx5060ti", "-D", "batch=4096", "--microbatch", 4096, "--recompute", "none", "--check")
        self.assertEqual(r.returncode, 3, r.err)
        needs = int(re.search(r"needs (\d+) bytes", r.err)[1])
        room = sorted((description(name)["memory"], name) for name in GPUS if description(name)["memory"] >= needs)
        self.assertTrue(room)
        self.assertIn("--device " + room[0][1], r.err)

    def test_layouts_name_them(self):
        for name in GPUS:
            self.write("m.mg", re.sub(r"device +cpu", "device " + name, TINY))
            self.assertIn(f"device {name}", self.compiles("m.mg", "--plan").out)

    def test_documented(self):
        """docs/devices.md has a row for each, with the numbers that the description has."""
        with open(os.path.join(mgctest.SOURCE, "docs/devices.md"), encoding="utf-8") as f:
            rows = {m[1]: [c.strip() for c in m[2].split("|")] for m in re.finditer(r"(?m)^\| `(\w+)` \|(.*)\|$", f.read())}
        for name in GPUS:
            d, row = description(name), rows[name]
            peak = [float(cell) for cell in row[2].split(", ")]
            for key, value in zip(("bf16", "tf32", "f32", "f64"), peak, strict=True):
                self.assertAlmostEqual(d[f"flops_{key}_per_thread"] * d["threads"] / 1e12, value, delta=value / 100, msg=name + " " + key)
            self.assertEqual((round(float(row[0]) * 1e9), int(row[1])), (d["memory"], d["threads"]), name)
            self.assertAlmostEqual(float(row[3]), d["bandwidth"] / 1e9, delta=1, msg=name)
            self.assertEqual(row[4], f"{d['product_share']}, {d['attention_share']}, {d['attention_grad_share']}", name)
            self.assertEqual(row[5], f"{d.get('product_share_f32', '-')}, {d.get('product_share_tf32', '-')}", name)
            self.assertEqual([float(x) for x in row[6].split(", ")], [d["link_bandwidth"] / 1e9, d["node_ranks"], d["node_bandwidth"] / 1e9], name)
            self.assertEqual(row[7], str(d.get("architecture", "-")), name)

    def test_products_of_a_precision_have_their_own_share(self):
        """Half of the share is twice the time of the products, in that precision alone."""
        good = description("rtx4090")
        for key, precision in (("product_share_f32", "f32"), ("product_share_f64", "f64"), ("product_share_tf32", "tf32")):
            ms = {}
            for share in (0.02, 0.01):
                self.write("d.json", json.dumps({**good, key: share, "launch_seconds": 0}))
                for p in (precision, "bf16"):
                    r = self.compiles(model("llama_mini.mg"), "--device", "./d.json", "--precision", p, "--recompute", "none", "--plan")
                    ms[share, p] = float(re.search(r"(?m)^  product +([\d.]+) ms", r.out)[1])
            self.assertAlmostEqual(ms[0.01, precision] / ms[0.02, precision], 2, delta=0.1, msg=key)
            self.assertEqual(ms[0.01, "bf16"], ms[0.02, "bf16"])

    def test_architecture(self):
        """The kernels are compiled for the card that a description names, else for all; later ones have PTX."""
        if not os.path.exists(os.path.join(mgctest.BUILD, "lib/mgc/libmgrt_cuda.a")):
            self.skipTest("no CUDA Toolkit")
        self.write("m.mg", TINY)
        for name in ("h200", "rtx3090", "rtx4090", "rtx5090", "gh200"):
            self.compiles("m.mg", "--device", name, "--emit=source", "-o", name)
            with open(os.path.join(self.path(name), "Makefile"), encoding="utf-8") as f:
                code = re.search(r"(?m)^CODE .*", f.read())[0]
            self.assertIn("compute_80", re.search(r"compute_80,code=(\S+)", code)[1])
            which = description(name).get("architecture")
            exact = f"sm_{which}" + ("a" if which == 90 else "")
            self.assertEqual(sorted(re.findall(r"sm_\w+", code)), [exact] if which else ["sm_80", "sm_90a"])
        self.compiles("m.mg", "--device", "rtx5090", "-o", "train")


if __name__ == "__main__":
    mgctest.main()
