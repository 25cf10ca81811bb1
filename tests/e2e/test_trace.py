"""Timelines of pipelines, predicted and measured: what they say of ranks fits together, and fits the plan."""

import json
import os

import mgctest
from mgctest import model

SLACK = 0.003  # microseconds: times are written to a nanosecond
LAYOUTS = {"1f1b": 4, "gpipe": 4, "interleaved, chunks = 2": 2, "zb-h1": 4}


def layout(schedule, ranks, mesh="", rules=""):
    return (f"layout it {{\n    device cpu\n    mesh pp = {ranks}{mesh}\n    layers -> pp (schedule = {schedule})\n"
            f"{rules}    microbatch 4\n}}\n")


class Predicted(mgctest.Case):
    def events(self, *options):
        self.compiles(model("llama_mini.mg"), *options, "--trace", "t.json", "--check")
        return json.loads(self.read("t.json"))["traceEvents"]

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


if __name__ == "__main__":
    mgctest.main()
