"""mgc calibrate --device: the programs run on the shim by its toolkit, and the description is one that mgc takes; and the
numbers that follow from times are those that the times were made with."""

import json
import os
import re

import mgctest
from mgctest import FULL, MGC, TURN, model

ROOM = mgctest.SOURCE
TOOLKIT = os.path.join(ROOM, "tests/cuda_shim/toolkit")
# A GPU on which everything of a tiny model takes much longer than a launch: what the shim is.
SLOW = {"name": "slow", "target": "cuda", "memory": 16000000000, "threads": 1,
        **{f"flops_{p}_per_thread": 1e7 for p in ("f32", "f64", "tf32", "bf16", "f16", "fp8")},
        "product_share": 0.5, "product_rows": 16, "product_columns": 16,
        "attention": [{"kernels": "flash", "head": 64, "keys": 1024, "forward": 0.3, "gradient": 0.2}],
        "exponentials_per_thread": 1e15, "bandwidth_per_thread": 1e7, "bandwidth": 1e7, "launch_seconds": 1e-7,
        "link_bandwidth": 1e7, "link_seconds": 1e-7, "link_slowdown": 1.2, "node_ranks": 8, "node_bandwidth": 1e6,
        "node_seconds": 1e-5, "streams": 2}
HOST = {"host_memory": 1 << 34, "host_in": 1e7, "host_out": 1e7, "host_both": 2e7, "host_seconds": 1e-7, "host_bandwidth": 1e7}
TINY = [a for d in ("layers=1", "hidden=48", "ffn=96", "vocab=256", "seq=16", "batch=2", "kv_heads=1", "group=1") for a in ("-D", d)]
MEASURED = ("flops_bf16_per_thread", "flops_f16_per_thread", "flops_tf32_per_thread", "flops_f32_per_thread", "flops_f64_per_thread",
            "flops_fp8_per_thread", "product_share", "product_share_fp8", "product_share_tf32", "product_share_f32", "product_share_f64", "bandwidth", "bandwidth_per_thread", "launch_seconds")


@mgctest.in_turns_of(2)
class OnTheShim(mgctest.Case):
    def setUp(self):
        super().setUp()
        home, real = self.path("home"), os.path.join(mgctest.BUILD, "lib/mgc")
        os.mkdir(home)  # a build without a toolkit has no runtime of CUDA programs; the shim's cc leaves it out
        for name in os.listdir(real):
            if name not in ("libmgrt_cuda.a", "nccl"):
                os.symlink(os.path.join(real, name), os.path.join(home, name))
        os.symlink(os.path.join(real, "libmgrt.a"), os.path.join(home, "libmgrt_cuda.a"))  # of this ABI
        self.write("home/nccl", "")
        self.write("slow.json", json.dumps({**SLOW, **HOST}))

    def calibrates(self, *options, code=0, **env):
        env = {"SHIM_SOURCE": ROOM, "SHIM_BUILD": mgctest.BUILD, "MGC_NVCC": TOOLKIT + "/nvcc", "MGC_CC": TOOLKIT + "/cc",
               "MGC_HOME": self.path("home"), **env}
        # Without the limit of memory: the shim's compiler runs below.
        r = self.run_program(MGC, "calibrate", *options, timeout=300, env=env)
        r.err = r.stderr.decode(errors="replace")
        self.assertEqual(r.returncode, code, r.err[-3000:])
        return r.err

    def test_shim(self):
        two = FULL or TURN % 2 == 1
        err = self.calibrates("--device", "./slow.json", *TINY, "-o", "gpu.json", SHIM_GPUS="2" if two else "1", SHIM_SM="90")
        with open(self.path("gpu.json"), encoding="utf-8") as f:
            got = json.load(f)
        for key in (*MEASURED, "host_in", "host_out", "host_both", "host_bandwidth", *(["link_bandwidth"] if two else [])):
            self.assertGreater(got[key], 0)
            self.assertNotEqual(got[key], {**SLOW, **HOST}.get(key), key)
        for key in ("forward", "gradient"):
            self.assertGreater(got["attention"][0][key], 0)
            self.assertNotEqual(got["attention"][0][key], SLOW["attention"][0][key])
        self.assertEqual((got["threads"], got["memory"], got["warpgroups"], got["name"]), (1, 64 << 30, 1, "slow"))
        self.assertEqual({k: got[k] for k in ("link_seconds", "node_bandwidth", "product_rows")},
                         {k: SLOW[k] for k in ("link_seconds", "node_bandwidth", "product_rows")})
        self.assertRegex(got["measured"], r"^shim, 68\.72 of 68\.72 GB free, driver for CUDA 13\.2, by mgc \S+ on \d{4}-\d\d-\d\d; "
                                          r"not measured, as \./slow\.json: .*link_seconds")
        self.assertEqual("link_bandwidth" in got["measured"], not two)
        for line in ("product bf16: large", "attention bf16: head 64, 16 keys", "attention bf16: head 128, 16 keys",
                     "attention gradients bf16: head 64, 16 keys", "attention: f64, head 64, 16 keys", "head ", "rows: large",
                     "update: large", "look-ups", "fetches: large", "offloads: large", "updates on the host: large", "transfers both ways", "launches"):
            self.assertRegex(err, f"(?m)^{line}")
        self.assertEqual(bool(re.search("(?m)^collective: large", err)), two)
        plan = self.compiles(model("llama_mini.mg"), "--device", "./gpu.json", "--plan").out
        self.assertIn("measured     shim, ", plan)
        self.assertGreater(json.loads(self.compiles(model("llama_mini.mg"), "--device", "./gpu.json", "--plan=json").out)["step_ms"], 0)

    def test_refused(self):
        err = self.calibrates("--device", "./slow.json", *TINY, "-o", "gpu.json", code=4, SHIM_NO_GPU="1")
        self.assertIn("launches: error: calibrate was compiled for a GPU: there is no NVIDIA driver", err)
        self.assertIn("error[MG0546]: there is no GPU to measure: a program made for './slow.json' found none that it can use", err)
        self.assertIn("it looked for an NVIDIA driver and a GPU of compute capability 8.0 or later", err)
        self.assertFalse(os.path.exists(self.path("gpu.json")))
        for argv in (["-D", "seq=8"], ["--device", "cpu", "-D", "seq=8"], ["--device", "h200", "--emit=source"],
                     ["--device", "h200", "--emit=c", "-o", "d"], ["--device", "none"], ["--device", "h200", "--precision", "f32"]):
            self.assertTrue(self.calibrates(*argv, code=2), argv)


@mgctest.in_turns_of(2)
class Numbers(mgctest.Case):
    """The same programs under two descriptions: their predictions by one are taken as measurements, and compared with
    those of the other."""

    def setUp(self):
        super().setUp()
        r = self.run_program("cc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + ROOM, ROOM + "/bench/measure_table.c",
                             ROOM + "/base/measured.c", "-lm", "-o", "measure_table")
        self.assertEqual(r.returncode, 0, r.stderr)

    def actions(self, device, name):
        """{way: {(name, class, flops, bytes): us}} of the program's actions: what both descriptions have is compared."""
        self.write(name + ".json", json.dumps(device))
        self.compiles("calibrate", "--device", f"./{name}.json", "--emit=source", "-o", name)
        found = {}
        with open(self.path(name + "/runs"), encoding="utf-8") as f:
            ways = [line.split()[0] for line in f]
        for way in ways:
            text = self.read(f"{name}/{way}/program.c").decode()
            classes = dict(re.findall(r'(?m)^    \[(\d+)\] = "(\w[^"]*)",$', text[text.index("classes[] = {"):]))
            rows = re.findall(r'(?m)^    \[(\d+)\] = \w+\("([^"]*)"(?:, "\w+")?, [^,]+, ([-\d.e+]+), ([-\d.e+]+), ([-\d.e+]+)', text)
            found[way] = {(name, classes[i], flops, moved): float(us) for i, name, us, flops, moved in rows if i in classes}
        self.assertGreater(len(found["bf16"]), 40)
        return found

    def table(self, lines, code=0):
        self.write("lines", "\n".join(lines) + "\n")
        r = self.run_program("sh", "-c", "./measure_table <lines")
        self.assertEqual(r.returncode, code, r.stderr)
        return r.stdout.decode() + r.stderr.decode()

    def test_they_are_recovered(self):
        with open(os.path.join(mgctest.BUILD, "lib/mgc/devices/h200.json"), encoding="utf-8") as f:
            base = json.load(f)
        true = {**base, "product_share": 0.6, "product_share_f32": 0.9, "product_share_tf32": 0.5, "product_share_f64": 0.8, "product_share_fp8": 0.5,
                "attention": [{**row, "forward": row["forward"] * 0.8, "gradient": row["gradient"] * 1.2}
                              if row["kernels"].startswith("flash_sm90") or row["kernels"] == "flash" else row for row in base["attention"]],
                "bandwidth": 3e12, "bandwidth_per_thread": 3e12 / 132,
                "link_bandwidth": 200e9, "host_in": 20e9, "host_out": 22e9, "host_bandwidth": 300e9, "flops_f16_per_thread": 6000e9}
        old, new = self.actions(base, "old"), self.actions(true, "new")
        lines = [f"base {k} {v}" for k, v in base.items() if isinstance(v, (int, float))]
        for way, rows in old.items():
            self.assertGreater(len(rows.keys() & new[way].keys()), 0.8 * len(rows))
            if way != "launches":
                lines += ["run 1", "action 1 7 1 0 0 copies"]  # whose time is what tracing costs
                lines += [f"action 1 {new[way][key] + 7} {us} {key[2]} {key[3]} {key[1]}" for key, us in rows.items() if key in new[way]]
                lines.append("end")
        said = self.table([*lines, "launches 0.01 2000", "transfers 0.2 0.1", "numbers 132"])
        got = {w[1]: float(w[2]) for w in map(str.split, said.splitlines()) if w[:1] == ["number"]}
        self.assertEqual(set(got), {*MEASURED, "link_bandwidth", "host_in", "host_out", "host_both", "host_bandwidth", "attention.forward", "attention.gradient"})
        want = {"launch_seconds": 5e-6, "host_both": true["host_both"] / 2,
                **{k: true[k] for k in ("bandwidth", "bandwidth_per_thread", "link_bandwidth", "host_in", "host_out", "host_bandwidth")}}
        for p, share in (("bf16", ""), ("f16", ""), ("tf32", "_tf32"), ("f32", "_f32"), ("f64", "_f64"), ("fp8", "_fp8")):
            rate, share = f"flops_{p}_per_thread", "product_share" + share
            want[p] = true[rate] * true[share]
            got[p] = got[rate] * got[share]
            self.assertTrue(0.9 < got[share] < 1.3)  # of the fastest product, which has no wave that is full
        for key, factor in (("attention.forward", 0.8), ("attention.gradient", 1.2)):
            want[key] = factor * true["flops_bf16_per_thread"]
            got[key] *= got["flops_bf16_per_thread"]
        off = {k: got[k] / v - 1 for k, v in want.items()}
        self.assertLess(max(map(abs, off.values())), 0.03, off)
        self.assertRegex(said, r"(?m)^launches +- +4\.0 +5\.0 +\+25%.* launch_seconds$")
        self.assertRegex(said, r"(?m)^transfers both ways +- +100000\.0 +200000\.0 +\+100%.* host_both$")
        self.assertRegex(said, r"(?m)^product bf16: large .* product_share$")
        self.assertRegex(said, r"(?m)^(product bf16: small|rows: small) .* -$")

    def test_no_host(self):
        """A card without memory to offload to, or without fp8: nothing is to be measured of it."""
        self.write("slow.json", json.dumps({k: v for k, v in SLOW.items() if k != "flops_fp8_per_thread"}))
        self.compiles("calibrate", "--device", "./slow.json", "--emit=source", "-o", "slow")
        self.assertNotIn("host", self.read("slow/runs").decode())
        self.assertNotIn("fp8", self.read("slow/runs").decode())

    def test_what_is_missing_is_0(self):
        """No action of a class, or none that is longer than launches: no number; and a class that is not in the table."""
        base = ["base launch_seconds 1e-6", "base bandwidth 1e12", "base threads 1"]
        long, short = "action 1 200 100 0 1e8 rows: large", "action 1 200 3.9 0 1e8 rows: large"
        for action, value in ((long, 0.5e12), (short, 0)):
            said = self.table([*base, "run 1", "action 1 0 1 0 0 copies", action, "end", "numbers 1"])
            self.assertIn(f"number bandwidth {value:g} rows".replace("e+", "e+"), said)
            self.assertIn("number attention.forward 0 attention bf16", said)
        self.assertIn("its class is not in classes.def: action 1 1 1 1 1 row kernels",
                      self.table([*base, "run 1", "action 1 1 1 1 1 row kernels"], code=1))


if __name__ == "__main__":
    mgctest.main()
