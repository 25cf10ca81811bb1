"""Timelines of pipelines, predicted and measured: what they say of ranks fits together, and fits the plan."""

import json
import os
import re
import statistics

import mgctest
import test_launch
from mgctest import model

SLACK = 0.003  # microseconds: times are written to a nanosecond
LAYOUTS = {"1f1b": 4, "gpipe": 4, "interleaved, chunks = 2": 2, "zb-h1": 4}


def layout(schedule, ranks, mesh="", rules=""):
    return (f"layout it {{\n    device cpu\n    mesh pp = {ranks}{mesh}\n    layers -> pp (schedule = {schedule})\n"
            f"{rules}    microbatch 4\n}}\n")

FAST = 3.25  # seconds: by how much the clock of a pretended machine is ahead of another's


class Tracks(mgctest.Case):
    def check_tracks(self, events):
        """On a track slices lie beside each other or in each other."""
        tracks = {}
        for e in events:
            if e["ph"] == "X":
                tracks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -e["dur"]))
        for slices in tracks.values():
            slices.sort()
            open_ones = []
            for begin, minus in slices:
                while open_ones and open_ones[-1] <= begin + SLACK:
                    open_ones.pop()
                if open_ones:
                    self.assertLessEqual(begin - minus, open_ones[-1] + SLACK)
                open_ones.append(begin - minus)


class Predicted(Tracks):
    def events(self, *options):
        self.compiles(model("llama_mini.mg"), *options, "--trace", "t.json", "--check")
        return json.loads(self.read("t.json"))["traceEvents"]

    def check_phases(self, events, plan, ranks, micro):
        phases = {(e["args"]["stage"], e["args"]["kind"], e["args"]["microbatch"]): e for e in events if e.get("cat") == "phase"}
        stages = 1 + max(s for s, _, _ in phases)
        begin = {k: e["ts"] for k, e in phases.items()}
        end = {k: e["ts"] + e["dur"] for k, e in phases.items()}
        self.assertEqual({(s, m) for s, k, m in phases if k == "F"}, {(s, m) for s in range(stages) for m in range(micro)})
        for (stage, kind, m), e in phases.items():
            self.assertEqual(e["pid"], stage % ranks)
            if kind == "F" and stage:
                self.assertGreaterEqual(begin[stage, kind, m], end[stage - 1, kind, m] - SLACK)
            if kind in "BI":
                self.assertGreaterEqual(begin[stage, kind, m], end[stage, "F", m] - SLACK)
                if stage < stages - 1:
                    after = next(end[stage + 1, k, m] for k in "BI" if (stage + 1, k, m) in end)
                    self.assertGreaterEqual(begin[stage, kind, m], after - SLACK)
            if kind == "W":
                self.assertGreaterEqual(begin[stage, kind, m], end[stage, "I", m] - SLACK)
        step = max(end.values()) - min(begin.values())
        idle = [step - sum(e["dur"] for e in phases.values() if e["pid"] == r) for r in range(ranks)]
        self.assertGreaterEqual(min(idle), -1)
        self.assertAlmostEqual(sum(idle) / ranks / 1e3, plan["bubble"] * plan["step_ms"], delta=1e-4 * plan["step_ms"])
        return phases

    def check_actions(self, events, phases):
        """The actions and loops of the first microbatch fill its phases; before and after the loop there are some, too."""
        first = min(e["ts"] for e in phases.values())
        for p in phases.values():
            inside = [e for e in events if e["ph"] == "X" and e["pid"] == p["pid"] and e["cat"] in ("forward", "backward", "loop")
                      and e["ts"] >= p["ts"] - SLACK and e["ts"] + e["dur"] <= p["ts"] + p["dur"] + SLACK]
            self.assertEqual(bool(inside), p["args"]["microbatch"] == 0)
            if inside:
                outer = [e for e in inside if e["cat"] != "loop" or e["tid"] == min(x["tid"] for x in inside if x["cat"] == "loop")]
                self.assertLess(max(e["ts"] + e["dur"] for e in outer), p["ts"] + p["dur"] + SLACK)
                self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in outer), p["ts"] + p["dur"], delta=0.01)
        for rank in {p["pid"] for p in phases.values()}:
            ends = max(p["ts"] + p["dur"] for p in phases.values())
            alone = [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["cat"] in ("forward", "backward")]
            self.assertTrue(any(e["ts"] < first for e in alone))
            self.assertTrue(any(e["ts"] > ends - SLACK for e in alone))

    def check_arrows(self, events):
        """Each send has its receive, which ends with it; arrows go on in time, to the neighbour."""
        sends = {e["id"]: e for e in events if e["ph"] == "s"}
        receives = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(sends.keys(), receives.keys())
        self.assertEqual(len(sends), sum(e.get("cat") == "message" and e["ph"] == "X" for e in events) / 2)
        for k, e in sends.items():
            self.assertNotEqual(e["pid"], receives[k]["pid"])
            self.assertLess(e["ts"], receives[k]["ts"])
        return sends

    def test_schedules(self):
        for schedule, ranks in LAYOUTS.items():
            with self.subTest(schedule=schedule):
                self.write("it.mg", layout(schedule, ranks))
                options = ("--layout", "./it.mg", "-D", "layers=8")
                events = self.events(*options)
                plan = json.loads(self.compiles(model("llama_mini.mg"), *options, "--plan=json").out)
                self.check_tracks(events)
                phases = self.check_phases(events, plan, ranks, 8)
                self.check_actions(events, phases)
                self.assertTrue(self.check_arrows(events))
                self.assertEqual({e["pid"] for e in events}, set(range(ranks)))
                last = max(e["ts"] + e["dur"] for e in events if e["ph"] == "X")
                self.assertAlmostEqual(last / 1e3, plan["step_ms"], delta=1e-3 * plan["step_ms"])
                names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
                self.assertEqual(len(names), ranks)
                self.assertIn("pp 0: stage", names[0])

    def test_long(self):
        """Of a step of many microbatches what is shown is bounded, and the rest is said."""
        self.write("it.mg", layout("1f1b", 4).replace("microbatch 4", "microbatch 1"))
        events = self.events("--layout", "./it.mg", "-D", "layers=4", "-D", "batch=16384")
        self.assertLess(os.path.getsize(self.path("t.json")), 24 << 20)
        self.check_tracks(events)
        self.assertTrue(self.check_arrows(events))
        rest = [e for e in events if e["name"].endswith("more phases")]
        self.assertEqual(sorted(e["pid"] for e in rest), [0, 1, 2, 3])
        for rank in range(4):
            shown = sum(e.get("cat") == "phase" and e["pid"] == rank for e in events) - 1
            self.assertEqual(shown + int(rest[rank]["name"].split()[0]), 2 * 16384)

    def test_gpu(self):
        """With several streams, too, tracks are tracks."""
        self.write("it.mg", layout("1f1b", 2, ", dp = 2", "    batch -> dp\n    state, params, grads -> dp\n").replace("device cpu", "device h200"))
        events = self.events("--layout", "./it.mg", "-D", "layers=8")
        self.check_tracks(events)
        self.assertTrue(self.check_arrows(events))


class Measured(Tracks):
    start = test_launch.Launch.start
    by_hand = test_launch.Launch.by_hand
    LAYOUT = """layout four {
    device cpu
    mesh pp = 2, dp = 2
    layers -> pp (schedule = 1f1b)
    batch -> dp
    microbatch 1
}
"""

    OPTIONS = ("--layout", "./four.mg", "-D", "batch=8", "-D", "layers=4")

    def make(self, layout=LAYOUT):
        self.write("four.mg", layout)
        self.compiles(test_launch.MODEL, *self.OPTIONS, "-o", "train")
        self.text(6000)

    def args(self, out):
        return ["./train", "--data", "text1.txt", "--steps", "6", "--out", out, "--threads", "1", "--trace", "3:5"]

    def trace(self, out):
        """Events, and of each rank what is said of it."""
        events = json.loads(self.read(out + "/trace.json"))["traceEvents"]
        ranks = {e["pid"]: e["args"] for e in events if e["name"] == "process_name"}
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        self.check_tracks([e for e in events if e["tid"] == 0])
        for rank in ranks:
            for track in 0, 1:
                steps = [e["name"] for e in events if e.get("cat") == "step" and (e["pid"], e["tid"]) == (rank, track)]
                self.assertEqual(steps, ["step 3", "step 4", "step 5"])
            actions = [e for e in events if e["pid"] == rank and "action" in e.get("args", {})]
            self.assertEqual({e["args"]["step"] for e in actions}, {3, 4, 5})
            self.assertEqual(ranks[rank]["left_out"], 0)
        return events, ranks

    def check_phases(self, events, ranks, slack):
        """A phase of a stage begins when those that it needs have ended, whatever process says so (us)."""
        found = {}
        for e in events:
            if e.get("cat") == "phase":
                a = e["args"]
                found[e["pid"], e["tid"], a["step"], a["stage"], a["kind"], a["microbatch"]] = e
        self.assertEqual(len(found), 4 * 2 * 3 * 2 * 4)
        for (rank, track, step, stage, kind, m), e in found.items():
            self.assertEqual(stage, rank // 2)
            self.assertEqual(ranks[rank]["place"], stage)
            before = None
            if kind == "F" and stage:
                before = found[rank - 2, track, step, 0, "F", m]
            elif kind == "B":
                before = found[rank, track, step, 1, "F", m] if stage else found[rank + 2, track, step, 1, "B", m]
            if before:
                # The predicted ones are laid out from where each rank's step began.
                if track == 0 or before["pid"] == rank:
                    self.assertGreaterEqual(e["ts"], before["ts"] + before["dur"] - slack - SLACK)

    def ends_apart(self, events):
        """Of the collectives of all four ranks: by how much their ends differ, in the middle of all of them, us."""
        ends = {}
        for e in events:
            if e.get("cat") == "communication" and e["tid"] == 0:
                ends.setdefault((e["args"]["step"], e["args"]["action"]), {}).setdefault(e["pid"], []).append(e["ts"] + e["dur"])
        apart = []
        for by_rank in ends.values():
            if len(by_rank) == 4 and len({len(x) for x in by_rank.values()}) == 1:
                apart += [max(x) - min(x) for x in zip(*by_rank.values(), strict=True)]
        self.assertTrue(apart)
        return statistics.median(apart)

    def test_one_machine(self):
        self.make()
        self.trains(*self.args("run"))
        events, ranks = self.trace("run")
        self.assertEqual({r["clock_error_us"] for r in ranks.values()}, {0})
        self.check_phases(events, ranks, 0)
        self.assertLess(self.ends_apart(events), 1e5)
        self.check_report("run", events)

    def check_report(self, out, events):
        text = self.compiles("report", out + "/trace.json").out
        self.assertIn("4 ranks, whose steps are", text)
        lines = [line.split() for line in text.splitlines() if line.startswith(("    0 (   2)", "    1 (   2)"))]
        self.assertEqual(len(lines), 2)
        for place, line in enumerate(lines):
            phases = sum(e["dur"] for e in events if e.get("cat") == "phase" and e["tid"] == 0 and e["pid"] // 2 == place)
            self.assertAlmostEqual(float(line[4]), phases / 1e3 / 6, delta=0.002)
            predicted = sum(e["dur"] for e in events if e.get("cat") == "phase" and e["tid"] == 1 and e["pid"] // 2 == place)
            self.assertAlmostEqual(float(line[5]), predicted / 1e3 / 6, delta=0.002)

    def test_pretended_machines(self):
        """Over TCP, and the second machine's clock is seconds ahead: what is told has one time all the same."""
        self.make()
        hosts = test_launch.tcp(2)
        said = self.by_hand(lambda rank, size: {**hosts(rank, size), "MGC_FAKE_CLOCK": FAST if rank >= 2 else 0}, self.args("tcp"))
        self.assertEqual(said[1:], ["", "", ""])
        events, ranks = self.trace("tcp")
        error = max(r["clock_error_us"] for r in ranks.values())
        for rank, r in ranks.items():
            self.assertEqual(r["clock_error_us"] > 0, rank >= 2)
            self.assertLess(abs(r["clock_ahead_us"] - (FAST * 1e6 if rank >= 2 else 0)), r["clock_error_us"] + SLACK)
        self.assertLess(error, 1e5)
        self.check_phases(events, ranks, error)
        self.assertLess(self.ends_apart(events), 1e5 + error)
        self.check_report("tcp", events)

    def check_kinds(self, events):
        """An action is of the kind that the schedule says, by the same name."""
        schedule = self.compiles(test_launch.MODEL, *self.OPTIONS, "--schedule").out
        kinds = {int(n): kind for n, kind in re.findall(r"(?m)^ +(\d+) s\d+ (\w+) ", schedule)}
        found = {(e["args"]["action"], e["cat"]) for e in events if "action" in e.get("args", {})}
        self.assertLessEqual({"product", "attention_grad", "communication"}, {kind for _, kind in found})
        self.assertEqual(found, {(n, kinds[n]) for n, _ in found})

    def test_without_stages(self):
        """Other layouts have all ranks in a trace, too."""
        self.make(test_launch.LAYOUT)
        self.trains(*self.args("run"))
        events, ranks = self.trace("run")
        self.assertFalse([e for e in events if e.get("cat") in ("phase", "message")])
        self.assertIn("llama, rank 3: dp 1, tp 1", ranks[3]["name"])
        self.check_kinds(events)
        self.assertLess(self.ends_apart([e for e in events if "args" in e]), 1e5)

    def test_stopped(self):
        """The steps that were asked for come later than the end: nothing is written, and nobody waits."""
        self.make()
        r = self.trains(*self.args("run")[:-1], "30:40")
        self.assertIn(b"none of these steps ran", r.stderr)
        self.assertFalse(os.path.exists(self.path("run/trace.json")))


if __name__ == "__main__":
    mgctest.main()
