"""Optimizers that run on the cores of a GPU's host, where state and masters are: by the shim the same bits as on the device, whatever the
order of streams, under layouts of ranks and after a resume; what is chosen, and what is refused."""

import json
import re

import mgctest
import shim
import test_offload

LLAMA, TABLE = test_offload.LLAMA, test_offload.TABLE
HOST = {**test_offload.HOST, "host_bandwidth": 200e9}


@mgctest.in_turns
class OptimizerHost(test_offload.Case):
    def program(self, classes, *options, at="host", **model):
        """./gpu, of the layout `off` with the classes on the host."""
        name = self.model("m.mg", "host", *classes, **model)
        where = ("--optimizer", at) if classes else ()
        self.gpu(name, "--layout", "off", *options, *where, device=("--device", self.device("h200", **HOST)))
        return b"mg_host_launch" in self.read("program.c")

    def same_on_host(self, *options, classes=("state, masters",), seeds=4, data="text1.txt", **model):
        """The program that offloads nothing, and the one whose optimizer is on the host: the same checkpoints."""
        self.text(6000)
        self.assertFalse(self.program((), *options, **model))
        plain = self.train("./gpu", "plain", data=data)
        self.assertTrue(self.program(classes, *options, **model))
        for seed in range(1, 21 if mgctest.FULL else seeds):
            self.assertEqual(self.train("./gpu", f"host{seed}", data=data, SHIM_SEED=str(seed)), plain, seed)

    def test_bf16(self):
        self.same_on_host("--precision", "bf16")

    def test_f32(self):
        self.same_on_host("--precision", "f32", classes=("state",))

    def test_gradients_and_kept(self):
        self.same_on_host("--precision", "bf16", classes=("state, masters, gradients, kept, parameters",))

    def test_narrow(self):
        """State in bf16, rounded at random by the place of an element, and sums of gradients in bf16."""
        self.same_on_host(text=mgctest.kept_in_bf16(LLAMA), classes=("state",))

    def test_windows(self):
        self.same_on_host("--precision", "f32", classes=("state",), text=TABLE, optimizer="adamw(decay = 0.1)", data="u16:text1.txt")

    def test_resumed(self):
        """What one way saved the other goes on with."""
        self.text(6000)
        self.program(("state, masters",), "--precision", "bf16")
        whole = self.train("./gpu", "whole")
        self.trains("./gpu", "--data", "text1.txt", "--out", "part", "--steps", 5)
        self.program(("state, masters",), "--precision", "bf16", at="device")
        self.trains("./gpu", "--data", "text1.txt", "--out", "part", "--steps", self.STEPS, "--resume")
        self.assertEqual(self.checkpoint("part"), whole)

    def differs(self, run, seed, whole):
        """Does ./gpu end, perhaps with numbers that are none, or save something else?"""
        r = self.run_program("./gpu", "--data", "text1.txt", "--out", run, "--steps", self.STEPS, "--save-every", 5, env={"SHIM_SEED": str(seed)})
        return r.returncode != 0 or self.checkpoint(run) != whole

    def test_dropped_wait(self):
        """A program that lacks one wait of those around the host's kernels has other numbers in some order of streams. A wait for the end
        of a loop is left out: the waits within order the host's stream behind all that stood before the loop, so no order shows it."""
        self.text(6000)
        self.program(("state, masters",), "--precision", "bf16")
        whole, text = self.train("./gpu", "whole"), self.read("program.c").decode()
        lines = text.split("\n")
        ends = {re.search(r"\d+", n)[0] for l, n in zip(lines, lines[1:]) if l == "    }" and "mg_record(" in n}
        waits = [i for i, l in enumerate(lines) if "mg_wait(" in l and any("HOST(" in n for n in lines[i:i + 4]) and re.search(r"\d+", l)[0] not in ends]
        self.assertTrue(waits)
        for i in waits if mgctest.FULL else waits[mgctest.TURN % len(waits):][:1]:
            self.write("program.c", "\n".join(lines[:i] + lines[i + 1:]))
            self.link(*self.host)
            self.assertTrue(any(self.differs(f"wait{i}-{seed}", seed, whole) for seed in range(1, 41)), lines[i:i + 4])

    def test_chosen(self):
        """The plan's time decides: the host where its memory is fast beside the link, and the device where it is not."""
        argv = (mgctest.model("llama7b.mg"), "-D", "layers=4", "-D", "batch=8", "-D", "seq=512", "--layout", "./off.mg", "--plan=json")
        self.write("off.mg", "layout off {\n    device h200\n    microbatch 1\n    offload state, masters -> host\n}\n")
        for bandwidth, host in ((400e9, True), (10e9, False)):
            device = self.device("h200", **{**HOST, "host_memory": 1 << 37, "host_bandwidth": bandwidth})
            plans = {at: json.loads(self.compiles(*argv, "--device", device, "--optimizer", at).out) for at in ("auto", "device", "host")}
            seconds = {at: plan["step_ms"] for at, plan in plans.items()}
            self.assertNotIn("host_kernels_ms", plans["device"]["levels"])
            self.assertGreater(plans["host"]["levels"]["host_kernels_ms"], 0)
            self.assertLess(plans["host"]["levels"]["transfer_ms"], plans["device"]["levels"]["transfer_ms"])
            self.assertEqual(seconds["auto"], min(seconds.values()))
            self.assertEqual(seconds["host"] < seconds["device"], host)
            text = self.compiles(*argv[:-1], "--plan", "--device", device).out
            self.assertEqual(bool(re.search(r"\n  optimizer +on the host", text)), host, text)

    def test_refused(self):
        device = self.device("h200", **test_offload.HOST)
        known = json.loads(self.read("device.json"))
        del known["host_bandwidth"]
        self.write("device.json", json.dumps(known))
        for classes, options, message in (
                (("parameters",), ("--optimizer", "host"), "the optimizer is to run on the host, where it has neither state nor masters"),
                (("state",), ("--optimizer", "host"), "how fast 'h200' updates what is on its host is unknown")):
            name = self.model("m.mg", "host", *classes)
            r = self.mgc(name, "--layout", "off", "--device", device, *options, "--check")
            self.assertIn(r.returncode, (1, 3), r.err)
            self.assertIn(message, r.err)
        self.write("bad.mg", self.read(self.model("m.mg", "host", "state")).decode().replace("microbatch 2\n", "microbatch 2\n    optimizer nowhere\n"))
        r = self.mgc("bad.mg", "--layout", "off", "--check")
        self.assertEqual(r.returncode, 1)
        self.assertIn("place of the optimizer", r.err)


if __name__ == "__main__":
    mgctest.main()
