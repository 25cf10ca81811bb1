"""What several ranks offload: each its own part, the same bits as without, on processors (files) and GPUs (the shim: the host's
memory), on one machine and on several; killed and resumed, in other layouts too; and a machine that has no room for all of its ranks."""

import json
import os
import re
import signal
import subprocess
import time

import layouts
import mgctest
import shim
import test_launch
from layouts import EXPERTS, LAYOUTS, SCANS
from mgctest import FULL, TURN, some

PARITY = os.path.join(mgctest.SOURCE, "tests/parity")
LLAMA = os.path.join(PARITY, "llama_small.mg")
MODELS = {**{name: LLAMA for name in LAYOUTS}, **{name: os.path.join(PARITY, "mixtral_small.mg") for name in EXPERTS},
          **{name: os.path.join(mgctest.SOURCE, "models/mamba2.mg") for name in SCANS}}
DEVICES = os.path.join(mgctest.SOURCE, "compiler/devices")
SMALL = {**{name: ("-D", "layers=4") for name in (*LAYOUTS, *EXPERTS)},
         **{name: ("-D", "layers=2", "-D", "hidden=32", "-D", "heads=4", "-D", "head=16", "-D", "state=8", "-D", "seq=32", "-D", "vocab=256")
            for name in SCANS}}
WAYS = ("state", "state, masters")
STEPS = 6
# Free memory and disks as a machine has them that is nearly full.
FULL_MACHINE = r"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
int fstatvfs(int file, struct statvfs *s)
{
    (void)file;
    memset(s, 0, sizeof *s);
    s->f_frsize = 1;
    s->f_bavail = strtoull(getenv("LEFT"), NULL, 10);
    return 0;
}
int posix_fallocate(int file, off_t from, off_t bytes)
{
    (void)file, (void)from, (void)bytes;
    return getenv("TAKEN") ? ENOSPC : 0;
}
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return real(strcmp(path, "/proc/meminfo") ? path : "meminfo", mode);
}
"""


@mgctest.in_turns
class Ranks(shim.Case):
    by_hand, start = test_launch.Launch.by_hand, test_launch.Launch.start

    def make(self, name, way="", device="cpu", precision="bf16", program="train", level="disk", source=None, optimizer="auto"):
        """The program of a layout that offloads classes."""
        more = f"    offload {way} -> {level}\n    optimizer {optimizer}\n" if way else ""
        self.write("it.mg", layouts.text(name, "h200" if device.endswith(".json") else device, more=more))
        options = (source or MODELS.get(name, LLAMA), *SMALL.get(name, SMALL["dp2"]), "-D", "batch=8", "--layout", "./it.mg", "--precision", precision)
        if device != "cpu":
            self.gpu(*options, device=("--device", device))
            os.rename(self.path("gpu"), self.path(program))
        else:
            self.compiles(*options, "-o", program)

    def checkpoint(self, run, step=STEPS):
        return [self.read(f"{run}/ckpt/step-{step:08d}/{name}.safetensors") for name in ("model", "optimizer")]

    def run_it(self, run, *more, program="./train", steps=STEPS, **env):
        self.trains(program, "--data", "text1.txt", "--out", run, "--steps", steps, "--save-every", 3, "--threads", 1, *more, env=env, timeout=600)
        return self.checkpoint(run, steps), [(l["loss"], l["grad_norm"]) for l in self.metrics(run) if "loss" in l]

    def same(self, name, ways=WAYS, **options):
        ends = []
        for k, way in enumerate(("", *ways)):
            self.make(name, way, **options)
            ends.append(self.run_it(f"{name}{k}{options.get('precision', '')}"))
            self.assertEqual(ends[-1], ends[0], (name, way))

    def test_layouts(self):
        """Losses, norms and all that is saved."""
        self.text(6000)
        for k, name in enumerate(some(LAYOUTS, 2 if FULL else 1)):
            with self.subTest(layout=name):
                self.same(name, ways=WAYS if FULL else WAYS[(k + TURN) % 2:][:1])

    def test_all_in_bf16(self):
        """State, parameters and sums of gradients in bf16, all of it offloaded; what is fetched is gathered ahead."""
        self.text(6000)
        for reduce in ("bf16", "bf16_nearest"):
            self.write("llama16.mg", mgctest.kept_in_bf16(LLAMA, reduce))
            for name in some(("dp2_zero3", "dp2_zero1", "zero3_tp2", "pp2_zero1", "pp2_zb_zero3", "pp2_chunks_dp2_zero2")):
                self.same(name, ways=("state, masters, parameters, gradients, kept",), source="./llama16.mg")

    def test_fetched_to_be_gathered(self):
        """Of layers of a parameter that is split and offloaded, the next is fetched and gathered ahead: one value, not two."""
        self.write("it.mg", "layout it {\n    device rtx4090\n    mesh dp = 4\n    batch -> dp\n    state, grads, params -> dp\n    microbatch 8\n"
                   "    offload state, masters, parameters, gradients, kept -> host\n}\n")
        self.compiles(mgctest.model("qwen2.5_7b.mg"), "-D", "layers=2", "--layout", "./it.mg", "--check")

    def test_experts_and_scans(self):
        self.text(6000)
        for name in some({**EXPERTS, **SCANS}):
            with self.subTest(layout=name):
                self.same(name, ways=WAYS[-1:])

    def test_f32(self):
        self.text(6000)
        for name in some(("dp2_zero1", "zero2_tp2_sp", "pp2_zero1")):
            self.same(name, ways=WAYS[:1], precision="f32")

    def test_resumed_elsewhere(self):
        """What one layout saved others go on from, with and without offload, with the bits of runs that never offload."""
        self.text(6000)
        names = ("dp2_zero1", "pp2_tp2_sp", "one", "zero3_tp2")
        names = names[TURN % 4:] + names[:TURN % 4]
        for k, name in enumerate(names[:4 if FULL else 3]):
            for way, program in (("", "plain"), (WAYS[(k + TURN) % 2] if k != 1 else "", "far")):
                self.make(name, way, program=program)
                self.run_it(program + "-run", *(("--resume",) if k else ()), program="./" + program, steps=3 * k + 3)
            self.assertEqual(self.checkpoint("plain-run", 3 * k + 3), self.checkpoint("far-run", 3 * k + 3), names[:k + 1])

    def test_killed(self):
        """A rank is killed: all end, the files are gone, and a run that goes on ends with the bits of one that was not killed."""
        self.text(6000)
        self.make("dp2_zero1", WAYS[1])
        whole = self.run_it("whole")[0]
        p = subprocess.Popen([self.path("train"), "--data", "text1.txt", "--steps", "1000000", "--save-every", "3", "--keep", "0", "--out", "cut",
                              "--threads", "1"], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(p.kill)
        until = time.monotonic() + 60
        while not os.path.isdir(self.path("cut/ckpt/step-00000003")) and time.monotonic() < until:
            time.sleep(0.001)
        with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
            (rank,) = (int(x) for x in f.read().split())
        os.kill((p.pid, rank)[TURN % 2], signal.SIGKILL)
        p.wait(60)
        while test_launch.runs(rank) and time.monotonic() < until:
            time.sleep(0.001)
        for name in os.listdir(self.path("cut/ckpt")):
            if name > "step-00000003":
                subprocess.run(["rm", "-r", self.path("cut/ckpt/" + name)], check=True)
        self.assertEqual(self.run_it("cut", "--resume")[0], whole)

    def test_machines(self):
        """On two machines over TCP, and with a directory for each rank: the bits of a bare start."""
        self.text(6000)
        self.make("dp2_tp2_sp", WAYS[1])
        want = self.run_it("bare")[0]
        for k in range(4):
            os.mkdir(self.path(f"disk{k}"))
        argv = ["./train", "--data", "text1.txt", "--steps", str(STEPS), "--save-every", "3", "--threads", "1"]
        self.by_hand(test_launch.tcp(2), [*argv, "--out", "two", "--offload-dir", "disk0"])
        self.assertEqual(self.checkpoint("two"), want)
        ranks = [self.start([*argv, "--out", "dirs", "--offload-dir", f"disk{k}"], test_launch.torchrun(k, 4)) for k in range(4)]
        for p in ranks:
            self.assertEqual((p.communicate(timeout=120)[0], p.returncode)[1], 0)
        self.assertEqual(self.checkpoint("dirs"), want)
        self.assertEqual([os.listdir(self.path(f"disk{k}")) for k in range(4)], [[]] * 4)

    def preload(self, disk=1 << 40, memory=1 << 40):
        """The environment of a machine that has so many bytes left."""
        if not os.path.exists(self.path("full.so")):
            self.write("full.c", FULL_MACHINE)
            r = self.run_program("cc", "-shared", "-fPIC", "-Wall", "-Werror", "full.c", "-o", "full.so", "-ldl")
            self.assertEqual(r.returncode, 0, r.stderr)
        self.write("meminfo", f"MemAvailable: {memory // 1024} kB\n")
        return {"LD_PRELOAD": self.path("full.so"), "LEFT": str(disk)}

    def short(self, each, where, code, less, **env):
        """With room for all ranks but a few bytes nothing begins, and all numbers are said; --dry-run says the same."""
        few = next(iter(less.values()))
        r = self.trains("./train", "--data", "text1.txt", "--out", "short", "--steps", 1, env={**self.preload(**less), **env}, code=code)
        said = f"2 ranks of this machine offload {2 * each} bytes"
        self.assertRegex(r.err, said + rf" \(.*\) to {where}, where {few} \(.*\) are free")
        self.assertFalse(os.path.exists(self.path("short/metrics.jsonl")))
        r = self.trains("./train", "--data", "text1.txt", "--dry-run", env={**self.preload(**less), **env}, code=code)
        self.assertRegex(r.out, r"\[FAIL\] " + said)
        r = self.trains("./train", "--data", "text1.txt", "--dry-run", env={**self.preload(), **env})
        self.assertRegex(r.out, r"\[ok\] " + said)

    def planned(self, *options):
        return json.loads(self.compiles(*options, "--plan=json").out)["levels"]

    def test_no_room(self):
        self.text(6000)
        self.make("dp2_zero1", WAYS[1])
        each = self.planned(LLAMA, *SMALL["dp2"], "-D", "batch=8", "--layout", "./it.mg", "--precision", "bf16")["disk"]["bytes"]
        self.short(each, r"files in '\.'", 74, {"disk": 2 * each - 1})
        # 69: rank 1 was the first to find it, and rank 0 found rank 1 gone.
        r = self.trains("./train", "--data", "text1.txt", "--out", "short", "--steps", 1, env={**self.preload(), "TAKEN": "1"}, code=(69, 74))
        self.assertRegex(r.err, rf"{each} bytes \(.*\) of a file in '\.' to offload to: No space left on device")
        r = self.trains("./train", "--data", "text1.txt", "--offload-dir", "nowhere", "--dry-run", code=74)
        self.assertIn("--offload-dir names another directory", r.out)

    def with_host(self, **fields):
        with open(os.path.join(DEVICES, "h200.json"), encoding="utf-8") as f:
            d = json.load(f)
        d.update({"host_memory": 1 << 32, "host_in": 25e9, "host_out": 25e9, "host_both": 40e9, "host_seconds": 1e-5, **fields})
        self.write("device.json", json.dumps(d))
        return "./device.json"

    def test_gpus(self):
        """As without, whatever the order in which streams run and ranks arrive."""
        self.text(6000)
        levels = some(("host", "disk"))
        for k, name in enumerate(some(("dp2_zero1", "zero3_tp2", "pp2_zero1", "tp2_pp2_zb"))):
            ends = []
            level = levels[k % len(levels)]
            device = self.with_host(disk_memory=1 << 36, disk_in=3e9, disk_out=2e9, disk_both=3e9, disk_seconds=1e-4)
            for way, optimizer in (("", "auto"), (WAYS[1], "device"), *([(WAYS[1], "host")] if level == "host" else ())):
                self.make(name, way, device=device, level=level, optimizer=optimizer)
                for seed in range(TURN, TURN + (3 if way else 1)):
                    ends.append(self.run_it(f"gpu{name}{len(ends)}", SHIM_GPUS="8", SHIM_SEED=str(seed)))
                    self.assertEqual(ends[-1], ends[0], (name, way, seed))
            # A place that is fetched from lies in the arena of that level.
            text = self.read("program.c").decode()
            far = set(re.findall(rf"#define (\w+)(?:\(i\))? \(MG_FAR\({2 if level == 'disk' else 1}, ", text))
            fetched = re.findall(r"mg_fetch\(r, \d+, [^;]*?, (\w+)(?:\([^;]*?\))?, \d+\);", text)
            self.assertGreater(len(fetched), 2)
            self.assertLessEqual(set(fetched), far)

    def test_dropped_wait(self):
        """Without a wait before a transfer some order of streams gives other bytes, or a graph that does not come together."""
        self.text(6000)
        self.make("dp2_zero1", WAYS[1], device="h200", level="host", precision="f32")
        good = self.run_it("good", SHIM_GPUS="8")
        text = self.read("program.c").decode()
        step = min(text.index(mark) for mark in ("static void eval_", "void mg_eval(") if mark in text)
        waits = [m.start(1) for m in re.finditer(r"(\n *mg_wait\(r, \d+\);)(?=\n *mg_(fetch|offload)\()", text[:step])]
        self.assertGreater(len(waits), 5)
        for k in some(range(len(waits)), 2):
            end = text.index("\n", waits[k] + 1)
            with self.subTest(text[waits[k]:text.index(";", end)].strip(), place=k):
                self.write("program.c", text[:waits[k]] + text[end:])
                for argv in (("cc", "-std=c17", f"-I{mgctest.SOURCE}/runtime", "-c", "program.c"),
                             ("c++", "program.o", "image.o", "kernels.o", *self.host, "-o", "train", *shim.LIBRARIES, "-lm", "-lpthread", "-ldl")):
                    r = self.run_program(*argv)
                    self.assertEqual(r.returncode, 0, r.stderr.decode(errors="replace")[-4000:])
                seen = False
                for seed in range(12):
                    out = f"planted{k}-{seed}"
                    r = self.run_program("./train", "--data", "text1.txt", "--steps", STEPS, "--threads", 1, "--out", out,
                                         env={"SHIM_GPUS": "8", "SHIM_SEED": str(seed)})
                    seen |= r.returncode != 0 or self.checkpoint(out) != good[0]
                    if seen:
                        break
                self.assertTrue(seen)

    def test_gpus_without_room(self):
        self.text(6000)
        self.make("dp2_zero1", WAYS[0], device="h200", level="host")
        page = os.sysconf("SC_PAGESIZE")  # an arena in the memory of the host takes whole pages
        each = -(-int(re.search(r"level_bytes = \{0, (\d+)", self.read("program.c").decode())[1]) // page) * page
        self.short(each, "the memory of the host", 1, {"memory": (2 * each - 1) // 1024 * 1024}, SHIM_GPUS="8")

    def test_shared(self):
        """The ranks of a machine share its memory; asserts are of all of them; --offload auto leaves off what has no room."""
        model = (mgctest.model("llama_mini.mg"), "-D", "layers=8", "-D", "hidden=1024", "-D", "kv_heads=32", "-D", "group=2", "-D", "ffn=4096",
                 "--microbatch", "1")
        text = "layout it {\n    device cpu\n    mesh dp = 4\n    batch -> dp\n    state -> dp\n    microbatch 1\n"

        def lay(*lines):
            self.write("it.mg", text + "".join(f"    {line}\n" for line in lines) + "}\n")

        # An optimizer on the host's cores has the gradients there too; where those have no room, the device has it.
        lay("offload state -> host")
        r = self.compiles(*model, "--layout", "./it.mg", "--device", self.with_host(), "--plan=json")
        both = json.loads(r.out)["levels"]["host"]["bytes"]
        lay("offload state -> host", "optimizer device")
        said = self.planned(*model, "--layout", "./it.mg", "--device", self.with_host())["host"]
        self.assertEqual((said["ranks"], said["capacity_bytes"]), (4, 1 << 32))
        each = said["bytes"]
        self.assertGreater(both, each)
        lay("offload state -> host")
        for memory, bytes_ in ((4 * both, both), (4 * both - 1, each)):
            r = self.compiles(*model, "--layout", "./it.mg", "--device", self.with_host(host_memory=memory), "--plan=json")
            self.assertEqual(json.loads(r.out)["levels"]["host"]["bytes"], bytes_)
        lay("offload state -> host", "optimizer device")
        for ranks, memory, fits in ((4, 4 * each, True), (4, 4 * each - 1, False), (2, 2 * each, True), (2, 2 * each - 1, False)):
            r = self.mgc(*model, "--layout", "./it.mg", "--device", self.with_host(host_memory=memory, node_ranks=ranks), "--plan")
            self.assertEqual(r.returncode, 0 if fits else 1, r.err)
            self.assertIn(f"{ranks} ranks of a machine: " if fits else f"{ranks} ranks of a machine offload {ranks * each} bytes", r.out + r.err)
            self.assertEqual("MG0556" in r.err, not fits)
        for limit, fits in ((4 * each, True), (4 * each - 1, False)):
            lay("offload state -> host", "optimizer device", f"assert host < {limit} B, disk < 1 GB")
            r = self.mgc(*model, "--layout", "./it.mg", "--device", self.with_host(), "--check")
            self.assertEqual(r.returncode, 0 if fits else 3, r.err)
            self.assertEqual("MG0557" in r.err, not fits)
        # As much as the device lacks; nothing where the machine has too little for all ranks.
        lay("recompute all", "optimizer device", "offload auto")
        need = json.loads(self.compiles(*model, "--layout", "./it.mg", "--device", self.with_host(), "--plan=json").out)
        self.assertEqual(need["levels"], {})
        memory = sum(need["memory"].values()) + need["outside"]["bytes"] - each * 3 // 4
        r = self.mgc(*model, "--layout", "./it.mg", "--device", self.with_host(memory=memory), "--plan=json")
        self.assertEqual(json.loads(r.out)["levels"]["host"]["bytes"], each)
        r = self.mgc(*model, "--layout", "./it.mg", "--device", self.with_host(memory=memory, host_memory=4 * each - 1), "--plan=json")
        self.assertEqual(r.returncode, 3)
        lay("recompute all", "optimizer device", "offload none")
        r = self.mgc(*model, "--layout", "./it.mg", "--device", self.with_host(memory=memory), "--plan")
        self.assertRegex(r.err, r"help: --offload auto: \d+ bytes")


if __name__ == "__main__":
    mgctest.main()
