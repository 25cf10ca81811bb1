"""What a layout offloads to another level of memory: the same bits as without, on processors (a file) and GPUs (the shim: the host's
memory); killed and resumed too; and what is refused."""

import json
import os
import re
import signal
import subprocess
import time

import mgctest
import shim

LLAMA = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
DEVICES = os.path.join(mgctest.SOURCE, "compiler/devices")
# A table of more than one piece, and what no repeat stacks.
TABLE = """dim batch = 4, seq = 8, hidden = 64, wide = 64, vocab = 140000
model table(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1)
    out   : param[hidden, wide]  ~ normal(0.1)
    x = tanh(embed[tokens] @ out over hidden)
    loss = mean(x * x)
}
"""

HOST = {"host_memory": 1 << 34, "host_in": 25e9, "host_out": 25e9, "host_both": 40e9, "host_seconds": 1e-5}
DISK = {"disk_memory": 1 << 36, "disk_in": 3e9, "disk_out": 2e9, "disk_both": 3e9, "disk_seconds": 1e-4}


class Case(shim.Case):
    """Models with a layout that offloads, and what their programs leave behind."""
    STEPS = 12

    def model(self, name, level, *classes, base=LLAMA, text=None, precision=None, optimizer=None):
        """The model with a layout `off` that offloads classes: to the level, or where they say ("state -> disk")."""
        if text is None:
            with open(base, encoding="utf-8") as f:
                text = f.read()
        if optimizer:
            text += f"train {{ optimizer {optimizer}  lr 0.01 {'precision ' + precision if precision else ''} }}\n"
        lines = "".join(f"    offload {c if '->' in c else f'{c} -> {level}'}\n" for c in classes)
        self.write(name, text + "\nlayout off {\n    device cpu\n    mesh dp = 1\n    batch -> dp\n    microbatch 2\n" + lines + "}\n")
        return name

    def device(self, name, **fields):
        with open(os.path.join(DEVICES, name + ".json"), encoding="utf-8") as f:
            d = json.load(f)
        d.update(fields)
        self.write("device.json", json.dumps(d))
        return "./device.json"

    def checkpoint(self, run, step=STEPS):
        folder = f"{run}/ckpt/step-{step:08d}/"
        return [self.read(folder + name) for name in ("model.safetensors", "optimizer.safetensors")]

    def train(self, program, run, *more, data="text1.txt", **env):
        self.trains(program, "--data", data, "--out", run, "--steps", self.STEPS, "--save-every", 5, *more, env=env, timeout=600)
        return self.checkpoint(run)


@mgctest.in_turns
class Offload(Case):
    def same(self, *options, **model):
        """Programs with and without: all losses and all that they save are the same bytes."""
        self.text(6000)
        ends = []
        first = len(os.listdir(self.dir))
        each = (("state",), ("state", "masters"), ("parameters",), ("gradients",), ("kept",))
        for classes in ((), *mgctest.some(each), ("state", "masters", "parameters", "gradients", "kept")):
            name = self.model("m.mg", "disk", *classes, **model)
            self.compiles(name, "--layout", "off", *options, "-o", "train")
            run = f"run{first}-{len(ends)}"
            ends.append((self.train("./train", run), [(l["loss"], l["grad_norm"]) for l in self.metrics(run) if "loss" in l]))
            self.assertEqual(ends[-1], ends[0], classes)

    def test_f32(self):
        self.same("--precision", "f32")

    def test_bf16(self):
        self.same("--precision", "bf16")

    def test_gpt2(self):
        self.same("--precision", "bf16", base=os.path.join(mgctest.SOURCE, "tests/parity/gpt2_small.mg"))

    def test_narrow_state(self):
        """State in bf16, whose rounding depends on the place of an element in all of its tensor."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        self.assertIn("adamw(", text)
        self.same("--precision", "bf16", text=text.replace("adamw(", "adamw(state = bf16, "))

    def test_narrow_sums(self):
        """All that training keeps in bf16: state, parameters, and sums of gradients, which each microbatch rounds."""
        for reduce in ("bf16", "bf16_nearest"):
            self.same(text=mgctest.kept_in_bf16(LLAMA, reduce))

    def test_windows(self):
        """A tensor that no repeat stacks is updated in windows."""
        self.text(6000)
        ends = []
        for classes in ((), ("state",)):
            name = self.model("m.mg", "disk", *classes, text=TABLE, optimizer="adamw(decay = 0.1)")
            self.compiles(name, "--layout", "off", "-o", "train")
            r = self.mgc(name, "--layout", "off", "--schedule")
            self.assertEqual(r.out.count(" offload "), 6 if classes else 0)  # two windows of two states, and the small tensor's
            ends.append(self.train("./train", f"run{len(ends)}", data="u16:text1.txt"))
        self.assertEqual(ends[0], ends[1])

    def test_windows_in_blocks(self):
        """The same of state in 8 bits, whose blocks are rows."""
        self.text(6000)
        ends = []
        for classes in ((), ("state",)):
            name = self.model("m.mg", "disk", *classes, text=TABLE.replace("hidden = 64", "hidden = 256"),
                              optimizer="adamw(decay = 0.1, state = dynamic8)")
            self.compiles(name, "--layout", "off", "-o", "train")
            ends.append(self.train("./train", f"run{len(ends)}", data="u16:text1.txt"))
        self.assertEqual(ends[0], ends[1])

    def test_fp8(self):
        """Parameters in bf16 that are rounded to fp8 and updated: what both read is widened for each."""
        kept = mgctest.kept_in_bf16(LLAMA)
        self.same(text=kept.replace("precision bf16(", "precision fp8("))
        self.assertIn("precision fp8(master = bf16", self.read("m.mg").decode())
        argv = (mgctest.model("qwen2.5_1.5b.mg"), "--layout", "./off.mg", "--device", self.device("h200", **{**HOST, "host_memory": 1 << 37}),
                "--precision", "fp8", "--plan=json")
        plans = []
        for line in ("none", "state -> host", "state, masters -> host"):
            self.write("off.mg", f"layout off : default {{\n    device h200\n    microbatch 1\n    recompute all\n    offload {line}\n}}\n")
            plans.append(json.loads(self.compiles(*argv).out))
        less = plans[0]["arena_bytes"] - plans[1]["arena_bytes"]
        # All of the state, but for the pieces at hand: no wide copy of all layers comes in its place.
        self.assertGreater(less, 0.7 * plans[1]["levels"]["host"]["bytes"])
        # Layers read numbers of fp8 alone, so what these are made of leaves as masters do, all but the table.
        halves = 2 * (plans[0]["params"] - 151936 * 1536)
        self.assertGreater(plans[1]["arena_bytes"] - plans[2]["arena_bytes"], 0.9 * halves)

    def test_killed_and_resumed(self):
        self.text(6000)
        self.compiles(self.model("m.mg", "disk", "state, masters"), "--layout", "off", "--precision", "bf16", "-o", "train")
        whole = self.train("./train", "whole")
        argv = [self.path("train"), "--data", "text1.txt", "--steps", str(self.STEPS), "--save-every", "5", "--out", "cut"]
        p = subprocess.Popen(argv, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        until = time.monotonic() + 60
        while not os.path.isdir(self.path("cut/ckpt/step-00000005")) and time.monotonic() < until:
            time.sleep(0.001)
        os.killpg(p.pid, signal.SIGKILL)
        p.wait(60)
        left = {name for name in os.listdir(self.dir) if "offload" in name}
        self.assertEqual(left, set())  # the file had no name
        self.assertEqual(self.train("./train", "cut", "--resume"), whole)
        # and without, from the same checkpoints
        self.compiles(self.model("m.mg", "disk"), "--layout", "off", "--precision", "bf16", "-o", "plain")
        self.trains("./plain", "--data", "text1.txt", "--out", "cut2", "--steps", 5)
        self.trains("./train", "--data", "text1.txt", "--out", "cut2", "--steps", self.STEPS, "--resume")
        self.assertEqual(self.checkpoint("cut2"), whole)

    def test_gpu(self):
        """As without, whatever the order in which streams run."""
        self.text(6000)
        device = self.device("h200", **HOST)
        seeds = 21 if mgctest.FULL else 4
        for text in mgctest.some((None, mgctest.kept_in_bf16(LLAMA))):
            ends = []
            for classes in ((), ("state, masters, parameters, gradients, kept",)):
                self.gpu(self.model("m.mg", "host", *classes, text=text), "--layout", "off", "--precision", "bf16", device=("--device", device))
                for seed in range(1, seeds if classes else 2):
                    ends.append(self.train("./gpu", f"gpu{text is None}{len(ends)}", SHIM_SEED=str(seed)))
                    self.assertEqual(ends[-1], ends[0], (classes, seed))
            self.assertIn("mg_fetch(", self.read("program.c").decode())

    def test_gpu_disk(self):
        """A disk below the host of a GPU: as without, whatever the order in which streams run; killed and resumed, too."""
        self.text(6000)
        device = self.device("h200", **HOST, **DISK)
        seeds = 21 if mgctest.FULL else 4
        ends = []
        ways = (("state, masters -> disk", "parameters, kept -> host"), ("state, masters, parameters, gradients, kept -> disk",))
        for classes in ((), *mgctest.some(ways)):
            self.gpu(self.model("m.mg", "host", *classes), "--layout", "off", "--precision", "bf16", device=("--device", device))
            for seed in range(1, seeds if classes else 2):
                ends.append(self.train("./gpu", f"disk{len(ends)}", SHIM_SEED=str(seed)))
                self.assertEqual(ends[-1], ends[0], (classes, seed))
        self.assertIn("MG_FAR(2, ", self.read("program.c").decode())
        out = self.trains("./gpu", "--data", "text1.txt", "--out", "disk1", "--steps", self.STEPS + 2, "--resume").out
        self.assertRegex(out, r"disk: planned .* \(arena \d+ bytes, beside it at most \d+\), used .*, 0 bytes over")
        self.assertRegex(out, r"host: planned .* 0 bytes over")
        r = self.run_program("./gpu", "--data", "text1.txt", "--out", "nowhere", "--steps", "1", "--offload-dir", "/proc")
        self.assertEqual(r.returncode, 74, r.stderr)
        self.assertIn(b"no file to offload to can be made in '/proc'", r.stderr)

    def test_gpu_small_host(self):
        """What the host has no room for goes to the disk, what moves once a step first; without a disk it does not fit."""
        size = (mgctest.model("llama_mini.mg"), "-D", "layers=8", "-D", "hidden=1024", "-D", "kv_heads=32", "-D", "group=2", "-D",
                "ffn=4096", "--microbatch", "1", "--plan=json")
        r = self.compiles(*size, "--device", self.device("h200", memory=3 << 30, **HOST, **DISK))
        self.assertIn("note: offload masters -> host: without", r.err)  # half of the state's bytes, and enough
        memory = int(2.2 * (1 << 30))
        roomy = self.compiles(*size, "--device", self.device("h200", memory=memory, **HOST, **DISK))
        self.assertNotIn("disk", json.loads(roomy.out)["levels"])
        for host, on_disk, on_host in ((800 << 20, "state", "; masters -> host"), (300 << 20, "state, masters", "")):
            small = {**HOST, "host_memory": host}
            r = self.compiles(*size, "--device", self.device("h200", memory=memory, **small, **DISK))
            self.assertIn(f"note: offload {on_disk} -> disk{on_host}: without, the plan needs", r.err)
            levels = json.loads(r.out)["levels"]
            self.assertGreater(levels["disk"]["bytes"], 1e9)
            self.assertLess(levels.get("host", {"bytes": 0})["bytes"] + (128 << 20), host)
            text = self.compiles(*size[:-1], "--plan", "--device", "./device.json").out
            self.assertRegex(text, r"  host +\d+ MiB of \d+ MiB, offloaded \(128 MiB of it for transfers of the disk\)")
            r = self.mgc(*size, "--device", self.device("h200", memory=memory, **small))
            self.assertEqual(r.returncode, 3)
            self.assertIn("of the host's", r.err)
        r = self.mgc(*size, "--device", self.device("h200", memory=memory, **{**HOST, "host_memory": 100 << 20}, **DISK))
        self.assertEqual(r.returncode, 3)  # no room for what the disk's transfers go through
        self.assertRegex(r.err, r"\d+ bytes \(128 MiB\) of the host's 104857600")

    def test_auto(self):
        """Nothing leaves a device that has room; else the fastest that fits does, and is said, and nothing fits without."""
        levels = {**HOST, "host_memory": 1 << 36}
        size = ("-D", "layers=8", "-D", "hidden=1024", "-D", "kv_heads=32", "-D", "group=2", "-D", "ffn=4096", "--microbatch", "1")
        plans = {}
        for memory in (3 << 30, 1 << 36):
            d = self.device("h200", memory=memory, **levels)
            r = self.compiles(mgctest.model("llama_mini.mg"), *size, "--device", d, "--offload", "auto", "--plan=json")
            plans[memory] = json.loads(r.out)["levels"]
        self.assertEqual(plans[1 << 36], {})
        self.assertGreater(plans[3 << 30]["host"]["bytes"], 4e8)
        d = self.device("h200", memory=3 << 30, **levels)
        r = self.mgc(mgctest.model("llama_mini.mg"), *size, "--device", d, "--offload", "none", "--plan")
        self.assertEqual(r.returncode, 3)
        self.assertRegex(r.err, r"help: --offload auto: \d+ bytes")
        self.compiles(mgctest.model("llama_mini.mg"), *size, "--device", d, "--offload", "auto", "--print-after", "precision")
        self.write("auto.mg", self.read(self.model("m.mg", "host")).decode().replace("microbatch 2\n}", "microbatch 2\n    offload auto\n}"))
        self.compiles("auto.mg", "--layout", "off", "--plan")
        r = self.mgc("auto.mg", "--layout", "off", "--device", self.device("cpu2t"), "--plan")  # no other level: nothing to choose
        self.assertEqual(r.returncode, 0, r.err)

    def test_nothing_said(self):
        """What does not fit otherwise is offloaded as by `offload auto`, and that is said; what fits is as with `offload none`; what
        fits in no way is refused, and what is missing is said."""
        levels = {**HOST, "host_memory": 1 << 36}
        size = (mgctest.model("llama_mini.mg"), "-D", "layers=8", "-D", "hidden=1024", "-D", "kv_heads=32", "-D", "group=2", "-D",
                "ffn=4096", "--microbatch", "1", "--plan=json")
        for recompute in "auto", "none":
            small = (*size, "--recompute", recompute, "--device", self.device("h200", memory=3 << 30, **levels))
            r = self.compiles(*small)
            note = re.search(r"note: offload (.+) -> host: without, the plan needs (\d+) bytes .* and the device 'h200' has (\d+) \(3 GiB\)", r.err)
            self.assertIsNotNone(note, r.err)
            self.assertGreater(int(note[2]), int(note[3]))
            self.assertEqual(int(note[3]), 3 << 30)
            self.assertEqual(r.out, self.compiles(*small, "--offload", "auto").out)
            self.assertEqual(self.mgc(*small, "--offload", "none").returncode, 3)
        # To the byte: with as much as it needs nothing leaves, whatever is computed again for that.
        large = self.compiles(*size, "--device", self.device("h200", **levels))
        self.assertNotIn("note:", large.err)
        self.assertEqual(large.out, self.compiles(*size, "--device", "./device.json", "--offload", "none").out)
        plan = json.loads(large.out)
        less = plan["arena_bytes"] + plan["scratch_bytes"] + plan["outside"]["bytes"] - 1
        r = self.compiles(*size, "--device", self.device("h200", memory=less, **levels))
        self.assertEqual((json.loads(r.out)["levels"], r.err), ({}, ""))
        r = self.mgc(*size, "--device", self.device("h200", memory=3 << 30, **{**levels, "host_memory": 1 << 20}))
        self.assertEqual(r.returncode, 3)
        self.assertIn("error[MG0550]", r.err)
        self.assertRegex(r.err, r"note: offloaded it needs at least \d+ bytes .* of the device's \d+ .*, \d+ .* of the host's 1048576 \(1 MiB\)")

    def test_whole(self):
        """Rules that sum along the dim that is cut, or multiply matrices: tensors come as a whole where they must."""
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        for rule in ("muon(", "adafactor("):
            other = re.sub(r"adamw\(.*? where rank >= 2\)", rule + ")", text)
            self.assertIn(rule, other)
            self.same("--precision", "bf16", text=other)

    def test_one_microbatch(self):
        """Sums of gradients that one loop stores and the update's fetches: each is planned, and a loop that updates stays one."""
        for device, level in (("cpu", "disk"), ("h100", "host")):
            text = f"layout off {{\n    device {device}\n    microbatch 1\n    offload state, masters, parameters, gradients, kept -> {level}\n}}\n"
            self.write("one.mg", text)
            self.compiles(mgctest.model("llama7b.mg"), "--layout", "./one.mg", "-D", "batch=1", "-D", "seq=512", "--precision", "bf16", "--check")

    def test_one_block_after_the_other(self):
        """Where the system has no io_uring: the same bytes."""
        self.text(6000)
        self.compiles(self.model("m.mg", "disk", "state", "parameters"), "--layout", "off", "--precision", "f32", "-o", "train")
        self.assertEqual(self.train("./train", "plain", MGC_NO_URING="1"), self.train("./train", "rings"))

    def refused(self, expected, name, *options, code=1):
        r = self.mgc(name, "--layout", "off", *options)
        self.assertEqual(r.returncode, code, r.err)
        self.assertIn(expected, r.err)

    def test_refused(self):
        self.refused("MG0556", self.model("m.mg", "host", "state"), "--plan")  # a processor has no such level
        self.refused("'cpu' is a processor, whose programs offload to a disk", "m.mg", "--plan")
        self.model("m.mg", "disk", "state", "kept")
        self.refused("'h200' has no disk to offload to: its description has no 'disk_memory'", "m.mg", "--device", "h200", "--plan")
        self.refused("help: offload to 'host'", "m.mg", "--device", "h200", "--plan")
        self.compiles(self.model("m.mg", "host", "state", "kept"), "--layout", "off", "--device", "h200", "--plan")
        self.model("m.mg", "disk", "state")
        self.refused("'cpu2t' has no disk to offload to: its description has no 'disk_memory'", "m.mg", "--device", "cpu2t", "--plan")
        self.refused("help: --offload none", "m.mg", "--device", "cpu2t", "--plan")
        small = self.device("h200", **{**HOST, "host_memory": 1 << 20})
        self.refused("MG0556", self.model("m.mg", "host", "state"), "--device", small, "--plan", "-D", "ffn=9000")
        for line, what in (("offload state -> moon", "moon"), ("offload states -> host", "states"), ("offload all", "all"),
                           ("offload state -> host, disk", "one level")):
            self.write("bad.mg", self.read(self.model("m.mg", "host")).decode().replace("microbatch 2", line))
            r = self.mgc("bad.mg", "--layout", "off", "--plan")
            self.assertIn("MG0346", r.err)
            self.assertIn(what, r.err)
        other = self.device("cpu2t", host_memory=1 << 30)
        self.refused("'host_memory' is of target", "m.mg", "--device", other, "--plan", code=2)
        with open(os.path.join(DEVICES, "h200.json"), encoding="utf-8") as f:
            d = json.load(f)
        self.write("device.json", json.dumps({**{k: v for k, v in d.items() if not k.startswith("host_")}, **DISK}))
        self.refused("'host_memory' is missing: a GPU reaches a disk through its host", "m.mg", "--device", "./device.json", "--plan", code=2)
        half = self.device("cpu2t", disk_memory=1 << 30)
        self.refused("'disk_seconds' is missing, where there is 'disk_memory'", "m.mg", "--device", half, "--plan", code=2)

    def test_no_room(self):
        self.text(6000)
        self.compiles(self.model("m.mg", "disk", "state"), "--layout", "off", "-o", "train")
        r = self.run_program("./train", "--data", "text1.txt", "--offload-dir", "nowhere")
        self.assertEqual(r.returncode, 74)
        self.assertIn(b"--offload-dir names another directory", r.stderr)


if __name__ == "__main__":
    mgctest.main()
