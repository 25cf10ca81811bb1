"""scripts/gpu-check all, on a pack whose programs are scripts: nvcc, cc and nvidia-smi stand for those of a machine with a
GPU. The order of stages, the stop at the first that fails with what it means and what to send, --from, and the table."""

import json
import os
import re
import shutil
import tarfile

import mgctest

SCRIPTS = os.path.join(mgctest.SOURCE, "scripts")
STAGES = ["machine", "compile", "launch", "kernels", "losses", "zoo", "fp8", "graph", "offload", "nccl", "sanitize", "measure", "bench"]
SMI = """#!/bin/sh
case "$*" in
*name,compute_cap,memory.total,driver_version*) echo "Card 5000, {cap}, 24000 MiB, 580.1" ;;
*memory.free*) echo "Card 5000, {cap}, 24000, {free}, 580.1, 1" ;;
*memory.used*) echo 100 ;;
*) echo "| NVIDIA-SMI 580.1   CUDA Version: {cuda} |" ;;
esac
"""
NVCC = """#!/bin/sh
[ "$1" != --version ] || { echo "Cuda compilation tools, release 13.0, V13.0.1"; exit 0; }
while [ "$1" != -o ]; do shift; done
echo image > "$2"
"""
# Links the program that its folder says: a script; measure_table is compiled.
CC = """#!/bin/sh
case "$*" in
--version) echo "cc 12" ;;
*measure_table.c*) exec /usr/bin/cc "$@" ;;
*) for last; do :; done
   case "$last" in
   *.o) : > "$last" ;;
   *) cp "$FAKE/program" "$last" ;;
   esac ;;
esac
"""
# A program, by its folder's name and its arguments; $FAIL names those that fail.
PROGRAM = '''#!/usr/bin/env -S python3 -SE
import json, os, sys
name = os.path.basename(os.path.dirname(os.path.abspath(sys.argv[0])))
argv = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if name in os.environ.get("FAIL", "").split():
    print("error: CUDA: k_rows: an illegal memory access was encountered", file=sys.stderr)
    sys.exit(1)
if name == "check":
    print("FAIL softmax of 7 columns\\n30 passed, 1 failed" if "wrong" in os.environ.get("FAIL", "") else "31 passed, 0 failed")
    sys.exit(0)
if name == "attention":
    print(json.dumps(dict(what="attention", way="sm_80", backward=False, batch=1, seq=1, kv_heads=1, group=1, head=64, causal=True, ms=1, tflops=5)))
    sys.exit(0)
out, steps = argv.get("--out"), int(argv.get("--steps", 0))
if not out:
    print("| GPU | Card 5000 |\\n| products | cuBLASLt 13.1.0 |")
    sys.exit(0)
os.makedirs(out)
off = "drift" in os.environ.get("FAIL", "") and "--trace" in argv
with open(os.path.join(out, "metrics.jsonl"), "w") as f:
    for i in range(1, steps + 1):
        f.write(json.dumps(dict(step=i, loss=2.0 + 1e-9 * off + 0.05 * (name in os.environ.get("FAIL", "").split("+")), grad_norm=1.0 + 1e-8 * ("norm" in os.environ.get("FAIL", "")), step_ms=4.0,
                           time=4e-3 * i * (1 + ("unaccounted" in os.environ.get("FAIL", ""))))) + "\\n")
if "--trace" in argv:
    long = dict(predicted_us=100, bytes=1e8)
    products = dict(bf16=1.6e10, f16=1.6e10, fp8=3.3e10, tf32=8.5e9, f32=5.4e9, f64=1.28e8)  # FLOPs that an rtx4090 does in 100 us
    rows = [(n, dict(measured_us=us + 8, flops=products.get(n[8:-7], 1e9), **long)) for n, us in [(f"product {p}: large", 125) for p in products]
            + [("attention bf16: head 64, 1024 keys", 200), ("attention gradients bf16: head 64, 1024 keys", 400), ("rows: large", 80), ("update: large", 80)]]
    if name == "host":
        rows = [(n, dict(measured_us=108, flops=0, **long)) for n in ("fetches: large", "offloads: large")]
    if name == "host_updates":
        rows = [("updates on the host: large", dict(measured_us=108, flops=0, **long))]
    rows.append(("copies", dict(measured_us=8, predicted_us=1, flops=0, bytes=0)))
    if name == os.environ.get("UNKNOWN"):
        rows.append(("no such class", dict(measured_us=8, predicted_us=1, flops=0, bytes=0)))
    events = [dict(ph="M", pid=0, tid=0, name="process_name", args=dict(name="p")),
              dict(ph="M", pid=0, tid=0, name="gpu", args=dict(name="Card 5000", capability=89, multiprocessors=100, memory=24 << 30,
                                                              free=23 << 30, gpus=1, driver=13000)),
              dict(ph="X", pid=0, tid=0, cat="step", name="step 9", dur=1, args={})]
    events += [dict(ph="X", pid=0, tid=0, cat="k", name="n", args=dict(action=i, **{"class": n}, **a)) for i, (n, a) in enumerate(rows)]
    json.dump(dict(traceEvents=events), open(os.path.join(out, "trace.json"), "w"))
'''


class GpuCheck(mgctest.Case):
    def setUp(self):
        super().setUp()
        pack = self.path("pack")
        for folder in ("tools", "toolkit", "pack/src/bench", "pack/src/base", "pack/src/runtime", "pack/src/kernels"):
            os.makedirs(self.path(folder))
        for name in ("gpu-check", "gpu_all.py"):
            shutil.copy(os.path.join(SCRIPTS, name), pack)
        for name in ("bench/measure_table.c", "base/measured.c", "base/measured.h", "base/classes.def"):
            shutil.copy(os.path.join(mgctest.SOURCE, name), os.path.join(pack, "src", name))
        self.write("pack/src/runtime/main.c", "")
        for name in ("philox.c", "output.c"):
            self.write("pack/src/kernels/" + name, "")
        for name in ("check_kernels", "check_attention", "check_attention_cases", "check_conv", "check_grouped", "check_tiles", "check", "program"):
            self.write(f"pack/src/{name}.c", "")
        os.makedirs(self.path("pack/src/tests/cuda"))
        for name in ("check_kernels", "check_attention", "check_attention_cases", "check_conv", "check_grouped", "check_tiles", "check", "program"):
            self.write(f"pack/src/tests/cuda/{name}.c", "")
        self.write("pack/src/bench/cuda_attention.c", "")
        self.write("pack/text", "text")
        for name in ("mlp", "llama_small", "gpt2_f16", "llama_heads64_bf16", "bench_tiny"):
            self.folder_of("pack/programs/" + name)
            if name != "bench_tiny":
                self.write(f"pack/programs/{name}/losses.json", json.dumps({"data": "text", "losses": [2.0] * 20, "bound": 1e-4}))
        for name in ("offload_tiny", "offload_tiny_none"):
            self.folder_of("pack/programs/" + name)
        self.write("pack/programs/offload_tiny/offload.json", json.dumps({"data": "text", "losses": [2.0] * 4, "bound": 1e-4}))
        self.folder_of("pack/programs/zoo_tiny_f64")
        self.write("pack/programs/zoo_tiny_f64/zoo.json", json.dumps(
            {"argv": ["--data", "numbers"], "losses": [2.0] * 4, "norms": [1.0] * 4, "bounds": [1e-9, 1e-9]}))
        for kind in ("bf16", "fp8"):
            self.folder_of("pack/programs/long_tiny_" + kind)
            self.write(f"pack/programs/long_tiny_{kind}/long.json", json.dumps({"data": "text", "steps": 120, "model": "tiny", "kind": kind}))
        self.write("pack/programs/bench_tiny/program.c", "x = { .predicted_ms = 3.5, .flops = 1e9, .arena_bytes = 1000, }")
        self.write("pack/programs/bench_tiny/bench.json", json.dumps(
            {"data": "text", "model": "tiny", "kind": "llama", "layers": 1, "hidden": 8, "kv_heads": 1, "group": 1, "head": 8, "ffn": 8,
             "vocab": 8, "seq": 8, "batch": 1, "tied": False}))
        # One with more on the host than PyTorch or a trace would be good for.
        self.folder_of("pack/programs/bench_far")
        self.write("pack/programs/bench_far/program.c",
                   "x = { .predicted_ms = 3.5, .flops = 1e9, .arena_bytes = 1000, .level_bytes = {0, 7000, 0}, }")
        self.write("pack/programs/bench_far/bench.json", json.dumps(
            {"data": "text", "model": "far", "seq": 8, "batch": 2, "steps": 4, "traced": False}))
        for name in ("launches", "bf16", "host", "host_updates", "link"):
            self.folder_of("pack/calibrate/" + name)
        self.write("pack/calibrate/host/program.c", "x = { .predicted_ms = 8.0, }")
        self.write("pack/calibrate/runs", "".join(f"{n} --data u16:./tokens --steps 10 --trace 9:10\n" for n in ("launches", "bf16", "host", "host_updates", "link")))
        shutil.copy(os.path.join(mgctest.SOURCE, "compiler/devices/rtx4090.json"), self.path("pack/calibrate/device.json"))
        self.tools()

    def folder_of(self, name):
        os.makedirs(self.path(name))
        for file in ("program.c", "kernels.cu"):
            self.write(f"{name}/{file}", "")

    def tools(self, cap="8.9", free=23000, cuda="13.0"):
        for name, text in (("tools/nvidia-smi", SMI.format(cap=cap, free=free, cuda=cuda)), ("tools/nvcc", NVCC), ("tools/cc", CC), ("program", PROGRAM)):
            os.chmod(self.write(name, text), 0o755)

    def check(self, *argv, code=0, **env):
        env = {"PATH": self.path("tools") + ":" + os.environ["PATH"], "CUDA_HOME": self.path("toolkit"), "FAKE": self.dir,
               "NCCL_HOME": self.path("none"), "PYTHONDONTWRITEBYTECODE": "1", **env}
        r = self.run_program(self.path("pack/gpu-check"), *argv, env=env)
        out = r.stdout.decode() + r.stderr.decode()
        self.assertEqual(r.returncode, code, out[-3000:])
        return out

    def began(self, out):
        return re.findall(r"(?m)^== (\w+): ", out)

    def test_all(self):
        out = self.check("all")
        ran = [s for s in STAGES if s not in ("nccl", "sanitize")]
        if shutil.which("compute-sanitizer"):
            ran.insert(ran.index("measure"), "sanitize")
        self.assertEqual(self.began(out), ran)
        before = out[:out.index("== machine")]
        self.assertEqual(re.findall(r"(?m)^  (\w+) +[\d.]+  ", before), STAGES)
        self.assertRegex(before, r"(?m)^  nccl +10  - there is no NCCL")
        self.assertRegex(before, r"(?m)^  together +\d+$")
        # The table, predicted beside measured, with the key that follows; then the larger model's.
        table = out[out.rindex("Card 5000, predicted with the description rtx4090"):]
        self.assertRegex(table, r"(?m)^product bf16: large +1 +100\.0 +125\.0 +\+25% .* product_share$")
        self.assertRegex(table, r"(?m)^attention gradients bf16: head 64, 1024 keys +1 +100\.0 +400\.0 +\+300% .* attention\.gradient$")
        self.assertRegex(table, r"(?m)^launches +- +4\.0 +363\.6 ")
        self.assertIn("\ntiny\nclass ", table)
        self.assertNotIn("\nfar\n", table)
        self.assertRegex(out, r"(?m)^check bench  model far .* tokens_per_s 4000\.0 .* planned_host_bytes 7000  measured_host_bytes -?\d+$")
        with open(self.path("pack/device.json"), encoding="utf-8") as f:
            got = json.load(f)
        with open(self.path("pack/calibrate/device.json"), encoding="utf-8") as f:
            was = json.load(f)
        self.assertEqual((got["threads"], got["memory"], got["architecture"]), (100, 24 << 30, 89))
        self.assertAlmostEqual(got["bandwidth"], was["bandwidth"] * 100 / 80, delta=1e9)
        for new, old in zip(got["attention"], was["attention"], strict=True):
            factor = 128 / 2 if new["kernels"] in ("flash", "flash_sm90") else 1
            peak = "flops_bf16_per_thread" if factor > 1 else "name"
            self.assertAlmostEqual(new["forward"] * (got[peak] * 100 if factor > 1 else 1),
                                   old["forward"] * (was[peak] * factor if factor > 1 else 1), delta=5e10 if factor > 1 else 1e-12)
        self.assertAlmostEqual(got["launch_seconds"], 3.636e-4, delta=1e-7)
        for key, factor in (("host_in", 1), ("host_out", 1), ("host_both", 2)):
            self.assertAlmostEqual(got[key], was[key] * factor, delta=1e7)
        self.assertIn("by gpu-check on", got["measured"])
        p = json.loads(self.compiles(mgctest.model("llama_mini.mg"), "--device", "./pack/device.json", "--plan=json").out)
        self.assertGreater(p["step_ms"], 0)
        self.assertIn("gpu-results/table.txt", self.archived())
        report = self.compiles("report", "pack/calibrate/bf16/run/trace.json").out
        self.assertRegex(report, r"(?m)^by class, of a step; 8\.0 us of each action, the shortest's, are not counted$")
        self.assertRegex(report, r"(?m)^product bf16: large +1 +100\.0 +125\.0 +\+25% ")

    def archived(self):
        with tarfile.open(self.path("pack/results.tar.gz")) as f:
            return f.getnames()

    def test_stop_and_go_on(self):
        out = self.check("all", code=1, FAIL="gpt2_f16")
        self.assertEqual(self.began(out), STAGES[:STAGES.index("losses") + 1])
        self.assertIn(f"gpu-check: stopped at losses, 5 of {len(STAGES)}", out)
        self.assertIn("it means   a kernel used an address that is not its own", out)
        self.assertIn("try        gpu-check sanitize, which names kernel and line", out)
        self.assertIn("go on      gpu-check all --from losses", out)
        inside = self.archived()
        for name in ("machine.txt", "results.jsonl", "logs/losses.txt", "programs/llama_small/losses.json"):
            self.assertIn("gpu-results/" + name, inside)
            self.assertIn(name.split("/")[0], out[out.index("  send"):])
        self.assertIn("illegal memory access", self.read("pack/logs/losses.txt").decode())
        out = self.check("all", "--from", "losses")
        self.assertEqual(self.began(out)[:2], ["losses", "zoo"])
        self.assertRegex(out, r"(?m)^  launch +0\.1  - before --from$")

    def test_keeps_going(self):
        """All stages run; what failed is named at the end, and explained where it failed."""
        out = self.check("all", "--keep-going", code=1, FAIL="gpt2_f16 bench_tiny")
        self.assertEqual(self.began(out)[-1], "bench")
        self.assertRegex(out, r"losses: FAILED, \d+ s\n  it means   a kernel used an address that is not its own\n  try ")
        self.assertRegex(out, r"\ngpu-check: failed: losses, graph, bench; send \S+/results.tar.gz\n$")
        self.assertIn("gpu-results/programs/llama_small/losses.json", self.archived())

    def test_built_elsewhere(self):
        """What `build CAPABILITY` made is not made again on a machine with such a GPU, whatever the files' times; on another it is."""
        smi = self.read("tools/nvidia-smi").decode()
        self.write("tools/nvidia-smi", "#!/bin/sh\nexit 9\n")
        self.assertRegex(self.check("build", "8.9"), r"check build +executables 18")
        for folder, _, files in os.walk(self.path("pack")):
            for i, file in enumerate(files):
                os.utime(os.path.join(folder, file), (1e9 - i, 1e9 - i))
        self.write("tools/nvidia-smi", smi)
        self.write("tools/nvcc", NVCC.replace("while", "echo no nvcc >&2; exit 1; while"))
        self.assertIn("check losses  model mlp", self.check("losses"))
        self.tools(cap="9.0")
        self.write("tools/nvcc", NVCC.replace("while", "echo no nvcc >&2; exit 1; while"))
        self.assertIn("no nvcc", self.check("losses", code=1))

    def test_sources(self):
        """No function of the packed runtime has two definitions, of which a library would give a program the first: those of
        processors stay behind."""
        r = self.run_program(os.path.join(SCRIPTS, "gpu-pack"), "--sources", "--to", self.path("sources"))
        self.assertEqual(r.returncode, 0, r.stderr)
        where = {}
        for folder, _, files in os.walk(self.path("sources/src/runtime")):
            for file in files:
                if file.endswith(".c"):
                    with open(os.path.join(folder, file), encoding="utf-8") as f:
                        for name in re.findall(r"(?m)^(?!static)\w[\w \*]*?\b(\w+)\([^;{}]*\)\n\{", f.read()):
                            where.setdefault(name, []).append(file)
        self.assertIn("mg_fetch", where)
        self.assertGreater(len(where), 300)
        self.assertEqual({name: files for name, files in where.items() if len(files) > 1}, {})

    def test_what_fails(self):
        """A stage that fails by its own finding, each with what the stage means."""
        for fail, stage, said in (("wrong", "kernels", "FAIL softmax of 7 columns"), ("zoo_tiny_f64", "zoo", "zoo_tiny_f64: "),
                                  ("norm", "zoo", "good False"), ("+long_tiny_fp8", "fp8", "off 0.025"), ("long_tiny_bf16", "fp8", "good False"), ("drift", "graph", "good False"),
                                  ("drift", "offload", "same False"), ("offload_tiny_none", "offload", "offload_tiny_none: "),
                                  ("mlp", "launch", "illegal memory access"), ("bench_tiny", "bench", "illegal memory access"),
                                  ("unaccounted", "bench", "by their own account took"),
                                  ("bf16", "measure", "gpu-check: bf16: ")):
            with self.subTest(fail):
                out = self.check("all", "--from", stage, code=1, FAIL=fail)
                if fail == "mlp":
                    self.assertIn("it means   a kernel used an address that is not its own", out)
                if stage == "graph":  # nothing of what is known by its message
                    self.assertIn("it means   what is captured is not what is launched", out)
                self.assertIn(f"stopped at {stage}, {STAGES.index(stage) + 1} of {len(STAGES)}", out)
                self.assertIn(said, out)
                self.assertRegex(out, r"(?m)^  it means   \w.*\n  try        \w.*\n  send       \S+/results.tar.gz, which has ")
        os.remove(self.path("pack/calibrate/runs"))
        out = self.check("all", "--from", "measure", code=1)  # what nobody expected is a failure of its stage, too
        self.assertRegex(out, rf"(?s)FileNotFoundError.*stopped at measure, 12 of {len(STAGES)}")
        self.write("pack/calibrate/runs", "bf16 --data u16:./tokens --steps 10 --trace 9:10\n")
        out = self.check("measure", code=1, UNKNOWN="bf16")
        self.assertIn("its class is not in classes.def", out)

    def test_machine(self):
        for more, said in (({"cap": "7.5"}, "compute capability 7.5; kernels need 8.0"), ({"free": 900}, "900 of 24000 MiB are free"),
                           ({"cuda": "12.4"}, "the driver is for CUDA (12, 4), the toolkit is (13, 0)")):
            self.tools(**more)
            out = self.check("all", code=1)
            self.assertEqual(self.began(out), ["machine"])
            self.assertIn(said, out)
            self.assertIn(f"stopped at machine, 1 of {len(STAGES)}", out)

    def test_packs_no_such_stage(self):
        """Before anything of an earlier package is removed."""
        os.makedirs(self.path("earlier"))
        r = self.run_program(os.path.join(SCRIPTS, "gpu-pack"), "--stages", "fp8,lunch", "--to", self.path("earlier"))
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"no stage lunch has programs: losses, fp8,", r.stderr)
        self.assertTrue(os.path.isdir(self.path("earlier")))

    def test_refused(self):
        self.assertIn("there is no stage lunch: machine, compile, launch,", self.check("all", "--from", "lunch", code=2))
        for argv in (("all", "losses"), ("losses", "--keep-going"), ("build", "ninety"), ("kernels", "9.0")):
            self.check(*argv, code=2)
        self.write("tools/nvidia-smi", "#!/bin/sh\nexit 9\n")
        self.assertEqual(self.check("all", code=77), "gpu-check: there is no GPU here\n")

    def test_document(self):
        """docs/first_gpu_run.md has every stage, and every failure that gpu-check explains."""
        with open(os.path.join(mgctest.SOURCE, "docs/first_gpu_run.md"), encoding="utf-8") as f:
            text = " ".join(f.read().split())
        import importlib.util
        spec = importlib.util.spec_from_file_location("gpu_all", os.path.join(SCRIPTS, "gpu_all.py"))
        gpu_all = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(gpu_all)
        self.assertEqual([s.name for s in gpu_all.STAGES], STAGES)
        for s in gpu_all.STAGES:
            for part in (f"| `{s.name}` |", s.means, s.attempt):
                self.assertIn(part, text)
        for _, means, attempt in gpu_all.KNOWN:
            self.assertIn(f"| {means} | {attempt} |", text)


if __name__ == "__main__":
    mgctest.main()
