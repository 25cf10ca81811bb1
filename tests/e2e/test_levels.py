"""What is said and measured of levels of memory: in the report, the timelines, explain, the CSV of buffers, and a run's own
bytes of each level beside the planned ones."""

import json
import os
import re
import shutil
import unittest

import mgctest
import shim

LLAMA = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
NODE = shutil.which("node") or shutil.which("nodejs")
ALL = "state, masters, parameters, gradients, kept"
LANES = ["transfers in, from the disk", "transfers out, to the disk"]


@mgctest.in_turns_of(3)
class Levels(shim.Case):
    def model(self, classes=ALL, mesh="dp = 1", level="disk", device="cpu", name="m.mg", more=""):
        with open(LLAMA, encoding="utf-8") as f:
            text = f.read()
        offload = f"    offload {classes} -> {level}\n" if classes else ""
        self.write(name, f"{text}\nlayout off {{\n    device {device}\n    mesh {mesh}\n    batch -> dp\n    microbatch 1\n{offload}{more}}}\n")
        return (name, "--layout", "off", "--precision", "bf16")

    def plan(self, *options):
        return json.loads(self.compiles(*options, "--plan=json").out)

    def transfers(self, *options):
        """Of each fetch and offload of the step: its number."""
        step = re.split(r"(?m)^eval:", self.compiles(*options, "--schedule").out)[0]
        return {int(n): kind for n, kind in re.findall(r"(?m)^ +(\d+) s\d+ (fetch|offload) ", step)}

    def page(self, *options):
        self.compiles(*options, "--report", "r.html")
        html = self.read("r.html").decode()
        return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)[1])

    def check_arena(self, buffers, size):
        """(name, first, behind the last, offset, bytes): inside, and no two there at once over each other."""
        for i, (name, first, last, at, n) in enumerate(buffers):
            self.assertTrue(0 <= first < last and 0 <= at and at + n <= size, name)
            for other, f, b, o, k in buffers[:i]:
                self.assertFalse(first < b and f < last and at < o + k and o < at + n, (name, other))
        self.assertEqual(max(at + n for _, _, _, at, n in buffers), size)

    def test_report(self):
        options = self.model()
        d, p = self.page(*options), self.plan(*options)
        self.assertEqual(d["lanes"], ["compute", *LANES])
        self.assertEqual([a["level"] for a in d["arenas"]], ["device", "disk"])
        self.assertEqual(d["arenas"][1]["bytes"], p["levels"]["disk"]["bytes"])
        self.check_arena([(n, f, b + 1, at, size) for n, _, f, b, at, size in d["arenas"][1]["buffers"]], d["arenas"][1]["bytes"])
        rows = dict(d["summary"])
        self.assertIn("offloaded", rows["on the disk"])
        self.assertIn("in which nothing computes", rows["transfers"])
        for lane, kind in ((1, "fetch"), (2, "offload")):
            here = sorted(s[1:3] for s in d["slices"] if s[3] == lane)
            self.assertTrue(here)
            for (begin, time), (then, _) in zip(here, here[1:], strict=False):
                self.assertGreaterEqual(then, begin + time - 1e-5 * d["seconds"])
            self.assertEqual({d["kinds"][d["actions"][s[0]]["kind"]] for s in d["slices"] if s[3] == lane}, {kind})
        without = self.page(*self.model(""))
        self.assertEqual((without["lanes"], len(without["arenas"])), (["compute"], 1))

    @unittest.skipUnless(NODE, "Node is not installed")
    def test_page(self):
        """Each lane has its name over it and its slices under it; each arena is a picture, which tells of its buffers."""
        d = self.page(*self.model())
        seen = {}
        for part in "Timeline", "Memory":
            r = self.run_program(NODE, os.path.join(mgctest.SOURCE, "tests/e2e/page.js"), self.path("r.html"), part)
            self.assertEqual(r.returncode, 0, r.stderr[-2000:])
            seen[part] = json.loads(r.stdout)
        (timeline,) = seen["Timeline"]
        names = {text: y for text, x, y in timeline["texts"] if x == 2 and text in d["lanes"]}
        self.assertEqual(list(names), d["lanes"])
        for lane, name in enumerate(d["lanes"]):
            drawn = sum(y == names[name] + 3 for _, y, _, _ in timeline["boxes"])
            self.assertEqual(drawn, sum(s[3] == lane for s in d["slices"]), name)
        device, disk = seen["Memory"]
        self.assertTrue(any(text.startswith("peak: ") for text, _, _ in device["texts"]))
        self.assertTrue(any(text.startswith("disk: ") for text, _, _ in disk["texts"]))
        self.assertEqual(len(disk["boxes"]), len(d["arenas"][1]["buffers"]))
        self.assertRegex(disk["told"], r" · \w+ · .* of the disk's arena · actions \d+ to \d+$")

    def test_predicted_timeline(self):
        options = self.model()
        self.compiles(*options, "--trace", "t.json")
        events = json.loads(self.read("t.json"))["traceEvents"]
        tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
        self.assertEqual([n for n in tracks if not n.startswith("loops")], ["compute", *LANES])
        for lane in LANES:
            here = sorted((e["ts"], e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == tracks[lane])
            self.assertTrue(here)
            for (begin, time), (then, _) in zip(here, here[1:], strict=False):
                self.assertGreaterEqual(then, begin + time - 0.01)

    def test_buffers(self):
        """A file for each arena, as MiniMalloc reads it."""
        options = self.model()
        p = self.plan(*options)
        self.compiles(*options, "--memory", "m.csv")
        for name, size in (("m.csv", p["arena_bytes"]), ("m.disk.csv", p["levels"]["disk"]["bytes"])):
            head, *rows = self.read(name).decode().splitlines()
            self.assertEqual(head, "id,lower,upper,size,offset")
            rows = [(r[0], int(r[1]), int(r[2]), int(r[4]), int(r[3])) for r in (row.split(",") for row in rows)]
            self.check_arena(rows, size)
        self.assertFalse(os.path.exists(self.path("m.host.csv")))
        self.assertEqual(self.compiles(*options, "--memory", "-").out.count("id,lower"), 1)
        self.compiles(*self.model(""), "--memory", "n.csv")
        self.assertEqual({f for f in os.listdir(self.dir) if f.startswith("n.")}, {"n.csv"})

    def explained(self, options, name):
        """Of each buffer of that name: its rows."""
        out = self.compiles("explain", *options[:1], name, *options[1:]).out
        return {head: re.findall(r"(?m)^  (\w+) +(.*)$", rows) for head, rows in re.findall(r"(?m)^buffer ([^\n]+)\n((?:  .*\n?)*)", out)}

    def test_explain(self):
        """Each transfer of the step is told of the buffers at its ends, with its bytes, and begins when the timeline says; with stages, too."""
        for stages in False, True:
            self.check_explain((*self.model(mesh="dp = 1" if not stages else "pp = 2, dp = 1\n    layers -> pp"), *(("-D", "layers=4") if stages else ())))

    def test_explain_kept(self):
        """What layers keep for the backward pass lies elsewhere from when it is known until it is read, slice by slice."""
        options = (*self.model(more="    recompute none\n"), "-D", "layers=4")
        kept = [rows for head, rows in self.explained(options, "q").items() if head == "q, an activation" and
                any(row == "lies" and text.startswith("on the disk from ") for row, text in rows)]
        self.assertTrue(kept)
        for rows in kept:
            rows = dict(rows)
            self.assertRegex(rows["offloaded"], r": (\d+) bytes of \d+, 16 times a step, from buffer .* of the device; at .* \(layers\), .* \(micro\)$")
            self.assertRegex(rows["fetched"], r", 16 times a step, to buffer .* of the device; .*, (there until action \d+ ends at .*|read after this iteration)$")

    def first(self, *options):
        """When each action first begins, us."""
        self.compiles(*options, "--trace", "t.json")
        first = {}
        for e in json.loads(self.read("t.json"))["traceEvents"]:
            if e["ph"] == "X" and e["cat"] not in ("loop", "phase", "message"):
                first[e["name"]] = min(e["ts"], first.get(e["name"], e["ts"]))
        return first

    def check_lies(self, lies, rows):
        """A buffer is there while something is transferred from or to it."""
        us = {"us": 1, "ms": 1e3, "s": 1e6}
        m = re.search(r"from ([\d.]+) (m?s) to ([\d.]+) (m?s) of (@\w+)", lies)
        for row, text in rows if m else ():
            at = re.search(r"; at ([\d.]+) (m?s) of (@\w+), for ([\d.]+) (\w+)", text)
            if row in ("fetched", "offloaded") and at and at[3] == m[5]:
                begin = float(at[1]) * us[at[2]]
                self.assertGreaterEqual(begin, float(m[1]) * us[m[2]] - 1, (lies, text))
                self.assertLessEqual(begin + float(at[4]) * us[at[5]], (float(m[3]) * us[m[4]]) * 1.01 + 1, (lies, text))

    def check_explain(self, options):
        told, first = set(), self.first(*options)
        schedule = self.transfers(*options)
        found = self.explained(options, "wq")
        for part in "a parameter", "optimizer state":
            self.assertTrue(any(part in head for head in found), found)
        moves = {"fetched": "fetch", "offloaded": "offload"}
        for head, rows in found.items():
            lies = [text for row, text in rows if row == "lies"]
            self.assertEqual(len(lies), 1, head)
            self.check_lies(lies[0], rows)
            for row, text in rows:
                if row not in moves:
                    continue
                number, size = re.match(r"action (\d+), \S+: (\d+) bytes", text).groups()
                at = re.search(r"action \d+, (\S+): .*; at ([\d.]+) (m?s) of @train", text)
                if at:
                    us = float(at[2]) * (1e3 if at[3] == "ms" else 1e6)
                    self.assertAlmostEqual(us, first[at[1]], delta=1 + 1e-5 * us)
                if "@train" in text:
                    self.assertEqual(schedule[int(number)], moves[row], text)
                    told.add(int(number))
                self.assertGreater(int(size), 0)
        self.assertTrue(told)
        disk = [rows for rows in found.values() if any(row == "lies" and "on the disk" in text for row, text in rows)]
        self.assertGreaterEqual(len(disk), 4)  # master, copy, two states
        for rows in disk:
            self.assertIn("fetched", {row for row, _ in rows})
        self.assertNotIn("lies", {row for rows in self.explained(self.model(""), "wq").values() for row, _ in rows})

    def lines(self, out, level):
        """What a run says of a level: bytes planned and used."""
        units = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
        m = re.search(rf"{level}: planned ([\d.]+) (\w+) \(arena (\d+) bytes, .*\), used ([\d.]+) (\w+).*, 0 bytes over", out)
        self.assertTrue(m, out)
        return float(m[1]) * units[m[2]], int(m[3]), float(m[4]) * units[m[5]]

    def check_run(self, *more, ranks=1, level="disk", program="./train"):
        r = self.trains(program, "--data", "text1.txt", "--steps", 4, "--out", "run", "--trace", "2:3", *more)
        planned, arena, used = self.lines(r.out, level)
        self.assertTrue(arena * 0.99 <= used <= planned, r.out)
        report = self.compiles("report", "run/trace.json").out
        told = re.findall(r"memory of the (\w+): planned (\d+) bytes \(.*\), measured (\d+) \(.*\), (\d+) over", report)
        self.assertEqual([name for name, *_ in told], ["device", level], report)
        for name, planned, measured, over in told:
            self.assertLessEqual(int(measured), int(planned), name)
            self.assertEqual(over, "0")
        return arena, report

    def test_measured(self):
        """A run takes no more of any level than is planned. Its transfers are in lanes of their own, each once, one after the other."""
        options = self.model()
        self.text(6000)
        schedule = self.transfers(*options)
        self.compiles(*options, "-o", "train")
        arena, report = self.check_run()
        self.assertEqual(arena, self.plan(*options)["levels"]["disk"]["bytes"])
        events = json.loads(self.read("run/trace.json"))["traceEvents"]
        tracks = {e["args"]["name"]: e["tid"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(set(tracks), {"measured", "predicted", *(f"{lane}: {t}" for lane in LANES for t in ("measured", "predicted"))})
        for lane, kind in zip(LANES, ("fetch", "offload"), strict=True):
            here = sorted((e for e in events if e["ph"] == "X" and e["tid"] == tracks[f"{lane}: measured"]), key=lambda e: e["ts"])
            self.assertEqual({e["cat"] for e in here}, {kind})
            self.assertEqual({e["args"]["action"] for e in here}, {n for n, k in schedule.items() if k == kind})
            for a, b in zip(here, here[1:], strict=False):
                self.assertGreaterEqual(b["ts"], a["ts"] + a["dur"] - 0.01)
            steps = {e["args"]["step"]: [s for s in here if s["args"]["step"] == e["args"]["step"]] for e in here}
            self.assertEqual(len(steps[2]), len(steps[3]))
            self.assertRegex(report, rf"(?m) {kind}$")
            self.assertEqual(len(here), sum(e["ph"] == "X" and e["tid"] == tracks[f"{lane}: predicted"] for e in events))
        self.assertRegex(report, r"(?m) wait$")

    def test_ranks(self):
        options = self.model("state, masters", "dp = 2")
        self.text(6000)
        self.compiles(*options, "-D", "batch=8", "-o", "train")
        self.check_run("--threads", 1, ranks=2)

    def test_one_microbatch(self):
        """Where the loop over microbatches is one iteration and so is none, the step still has its forward and its backward pass."""
        for classes in "", ALL:
            options = (*self.model(classes), "-D", "batch=1")
            p = self.plan(*options)
            parts = p["parts"]
            self.assertEqual(parts["microbatches"], 1)
            self.assertAlmostEqual(sum(parts[k] for k in ("forward_ms", "backward_ms", "before_ms", "after_ms")), p["step_ms"], delta=1e-3 * p["step_ms"])
            self.assertGreater(parts["backward_ms"], parts["forward_ms"] * 0.5)
            self.assertLess(parts["after_ms"], p["step_ms"] * 0.9)
            self.assertRegex(self.compiles(*options, "--plan").out, r"microbatch .* forward, .* backward; 1 microbatch, and .* outside of it\n")

    def test_way(self):
        """--info says which way transfers take, and MGC_NO_URING is heard."""
        self.compiles(*self.model("state"), "-o", "train")
        told = {}
        for env in {}, {"MGC_NO_URING": "1"}:
            out = self.trains("./train", "--info", env=env).out
            self.assertRegex(out, r"\| offloaded \| \d+ bytes \(.*\) of a rank, to a file \|")
            told[bool(env)] = re.search(r"\| transfers \| (.*) \|", out)[1]
        if told[False].startswith("through the page cache"):
            self.skipTest("the file system of the tests' folder has no direct transfers")
        self.assertEqual(told[True], "one block after the other: MGC_NO_URING is set")
        self.assertIn(told[False], ("several blocks at once, by io_uring", "one block after the other: the system allows no io_uring",
                                    "one block after the other: made without liburing"))
        self.compiles(*self.model(""), "-o", "train")
        self.assertNotRegex(self.trains("./train", "--info").out, r"\| (offloaded|transfers) \|")

    def test_gpu(self):
        """Of a GPU the pinned memory of the host; transfers have lanes there, too."""
        self.text(6000)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/h200.json"), encoding="utf-8") as f:
            self.write("d.json", json.dumps({**json.load(f), "host_memory": 1 << 30, "host_in": 25e9, "host_out": 25e9, "host_both": 40e9, "host_seconds": 1e-5}))
        self.gpu(*self.model("state, parameters", level="host"), device=("--device", "d.json"))
        self.check_run(level="host", program="./gpu")
        tracks = {e["args"]["name"] for e in json.loads(self.read("run/trace.json"))["traceEvents"] if e["name"] == "thread_name"}
        self.assertLessEqual({"transfers in, from the host: measured", "transfers out, to the host: measured"}, tracks)


if __name__ == "__main__":
    mgctest.main()
