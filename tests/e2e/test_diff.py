"""mgc diff: two plans side by side, as text and as a page. The text is golden for two plans that this test writes
itself, so that no price of the planner is in it; of plans that mgc makes each number is compared with --plan=json."""

import copy
import json
import random
import re
import unittest

import mgctest
from browser import CHROMIUM, Browser
from mgctest import TINY, model, some

FIRST = {
    "plan": 1, "mgc": "0.1.0", "model": "m", "layout": "default", "device": "h100", "ranks": 8, "mesh": {"dp": 8, "tp": 1}, "params": 1000000,
    "flops_per_step": 1e12, "arena_bytes": 3 << 30, "scratch_bytes": 0, "capacity_bytes": 8 << 30, "memory": {"params": 1 << 30, "activations": 2 << 30, "grads": 0},
    "step_ms": 400.0, "mfu": 0.4, "recompute": {"policy": "none", "again_ms": 0.0, "ranges": []}, "bubble": 0.0, "exposed_comm_ms": 20.0, "exposed_ms": {"dp": 20.0},
    "parts": {"microbatches": 4, "forward_ms": 30.0, "backward_ms": 60.0, "before_ms": 10.0, "after_ms": 30.0}, "precision": "bf16",
    "collectives": [{"axis": "dp", "kind": "all_reduce", "ranks": 8, "bytes": 1 << 30, "count": 12, "scalars": False, "ms": 50.0, "exposed_ms": 20.0}],
    "tensors": [{"name": "w", "slot": "", "bytes": 1 << 30, "split": []}, {"name": "v", "slot": "", "bytes": 8, "split": []}], "outside": {"bytes": 1 << 30, "items": {}},
    "kept": {"parameters": "f32", "state": "f32"}, "levels": {}, "step": {"sequences": 64, "length": 1024, "at_once": 2, "tokens_per_second": 163840.0},
    "kinds_ms": {"product": 300.0, "kernel": 50.0, "communication": 50.0}, "offloaded": {}, "known": {"step": "calibrated", "by": "steps elsewhere"},
    "numbers": [{"name": "step", "value": "400 ms", "more": "164000 tokens/s", "sure": "calibrated", "why": "steps elsewhere"}],
    "timeline": {"seconds": 0.4, "kinds": ["product", "communication"], "lanes": ["compute", "collectives"], "shown": 2, "depth": 1, "typical": 0,
                 "actions": [{"name": "layers.up", "kind": 0, "class": 0, "line": 0, "times": 8, "time": 0.3, "flops": 1e9, "bytes": 1e6, "backward": False, "again": False, "exposed": 0.0},
                             {"name": "layers.sum", "kind": 1, "class": 1, "line": 0, "times": 8, "time": 0.08, "flops": 0.0, "bytes": 1e6, "backward": False, "again": False, "exposed": 0.01}],
                 "slices": [[0, 0.0, 0.04, 0, 0], [1, 0.03, 0.02, 1, 0], [0, 0.05, 0.04, 0, 0], [1, 0.08, 0.02, 1, 0]], "loops": [["layers", 0.0, 0.4, 0, 8, 0, 0, 3]]},
}


def second():
    p = copy.deepcopy(FIRST)
    p.update(layout="wide", mesh={"dp": 2, "tp": 4}, step_ms=360.0, mfu=0.4444, exposed_comm_ms=5.0, exposed_ms={"tp": 5.0}, arena_bytes=5 << 29)
    p["memory"] = {"params": 1 << 29, "activations": 2 << 30, "grads": 0}
    p["recompute"] = {"policy": "auto", "again_ms": 12.0, "ranges": [{"repeat": "layers", "first": 0, "iterations": 8, "segment": 2, "keep": "q k v"}]}
    p["collectives"] = [{"axis": "tp", "kind": "all_gather", "ranks": 4, "bytes": 2 << 30, "count": 64, "scalars": False, "ms": 40.0, "exposed_ms": 5.0}]
    p["tensors"][0]["split"] = [{"dim": "ffn", "axis": "tp", "rule": "ffn"}]
    p["kinds_ms"] = {"product": 280.0, "kernel": 50.0, "communication": 40.0}
    p["step"]["tokens_per_second"] = 182044.4
    p["levels"] = {"host": {"bytes": 1 << 30, "ranks": 2, "capacity_bytes": 1 << 38}, "exposed_ms": 2.0}
    p["offloaded"] = {"host": {"optimizer": 1 << 30}}
    return p


GOLDEN = """\
A  a.json: layout default on h100, calibrated
B  b.json: layout wide on h100, calibrated
B takes 360 ms a step, 40 ms (10.0%) less than A, and 3.5 GiB of memory, 512 MiB (12.5%) less than A. It trains 1.11 times as many tokens a second.

                            A                                     B                                                B beside A

Time of a step
  step                      400 ms                                360 ms                                           -40 ms, -10.0%
  tokens/s                  164000                                182000                                           +18200, +11.1%
  of the peak FLOP/s        40.0%                                 44.4%                                            +4.4 points
  computed again            0                                     12 ms                                            +12 ms
  the same: microbatches 4, before the microbatches 10 ms, forward of one 30 ms, backward of one 60 ms, after them 30 ms

Time by kind of action
  product                   300 ms                                280 ms                                           -20 ms, -6.7%
  communication             50 ms                                 40 ms                                            -10 ms, -20.0%
  the same: kernel 50 ms

Memory of a rank at the peak
  all                       4 GiB                                 3.5 GiB                                          -512 MiB, -12.5%
  of the device's           50.0%                                 43.8%                                            -6.2 points
  params                    1 GiB                                 512 MiB                                          -512 MiB, -50.0%
  on the host               0                                     1 GiB                                            +1 GiB
  the same: activations 2 GiB, beside the arena 1 GiB

Exposed (nothing computes meanwhile)
  communication             20 ms                                 5 ms                                             -15 ms, -75.0%
  along dp                  20 ms                                 0                                                -20 ms
  along tp                  0                                     5 ms                                             +5 ms
  transfers between levels  0                                     2 ms                                             +2 ms

Messages that a rank sends in a step
  all_reduce along dp       12 x, 1 GiB, 50 ms, 20 ms exposed     -                                                -50 ms
  all_gather along tp       -                                     64 x, 2 GiB, 40 ms, 5 ms exposed                 +40 ms

Layout
  layout                    default                               wide                                             differs
  mesh                      dp 8                                  dp 2, tp 4                                       differs
  ffn over tp               0 tensors                             1 tensor                                         differs
  the same: device h100, ranks 8, parameters 1000000, sequences a step 64, tokens of one 1024, at once 2, precision bf16, kept in parameters f32, state f32

What mgc decided
  recompute                 none                                  auto                                             differs
  layers keep               -                                     layers 0 to 7, 2 at a time, keep q k v           differs
  offloaded to the host     -                                     optimizer 1 GiB                                  differs
"""


class Diff(mgctest.Case):
    def plans(self, a=FIRST, b=None):
        self.write("a.json", json.dumps(a))
        self.write("b.json", json.dumps(b or second()))

    def test_golden(self):
        self.plans()
        out = self.compiles("diff", "a.json", "b.json").out
        squeezed = [re.sub(" {2,}", "  ", text) for text in (out, GOLDEN)]  # columns are below
        self.assertEqual(*squeezed)
        at = {line.index(word) for line in out.splitlines() for word in ("360 ms ", "182000", "44.4%", "wide ", "auto ") if line.startswith("  ") and word in line and "takes" not in line}
        self.assertEqual(len(at), 1, "B's cells are below each other")

    def test_itself(self):
        """A model as a file and as a model is the same plan."""
        options = ("-D", "dp=2", "-D", "layers=3")
        self.write("a.json", self.compiles(model("llama_mini.mg"), *options, "--plan=json").out)
        out = self.compiles("diff", "a.json", f"{model('llama_mini.mg')} -D dp=2", "-D", "layers=3").out
        self.assertIn("as long as A", out)
        self.assertIn("as much as A", out)
        for part in re.split(r"\n\n", out)[2:]:
            rows = part.strip().splitlines()
            self.assertTrue(len(rows) == 2 and rows[1].startswith("  all the same: "), part)

    def test_says_what_the_plans_say(self):
        sides = {"A": ("-D", "dp=4"), "B": ("-D", "tp=2", "--recompute", "all")}
        p = {k: json.loads(self.compiles(model("llama_56m.mg"), *o, "--device", "h100", "--plan=json").out) for k, o in sides.items()}
        out = self.compiles("diff", *(f"{model('llama_56m.mg')} {' '.join(o)}" for o in sides.values()), "--device", "h100").out
        scale = {"s": 1e3, "ms": 1, "us": 1e-3, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

        def row(name):
            (line,) = re.findall(rf"(?m)^  {name} {{2,}}(.*)$", out)
            cells = re.split(r" {2,}", line)
            return [float(c.split()[0]) * scale[c.split()[1]] if " " in c else float(c) for c in cells[:2]]
        for name, of in (("step", lambda q: q["step_ms"]), ("computed again", lambda q: q["recompute"]["again_ms"]), ("product", lambda q: q["kinds_ms"]["product"]),
                         ("activations", lambda q: q["memory"]["activations"])):
            for got, plan in zip(row(name), p.values(), strict=True):
                self.assertAlmostEqual(got, of(plan), delta=0.006 * max(1e-9, of(plan)), msg=name)
        self.assertRegex(out, r"(?m)^  mesh +dp 4 +tp 2 +differs$")
        self.assertRegex(out, r"(?m)^  recompute +\w+ +all +differs$")

    def test_plan_json(self):
        """What was added for it agrees with the rest of the plan."""
        for name, options in (("llama_mini.mg", ("-D", "dp=2", "-D", "tp=2")), ("llama_mini.mg", ("-D", "pp=4", "-D", "layers=8", "--microbatch", "4"))):
            p = json.loads(self.compiles(model(name), *options, "--plan=json").out)
            t = p["timeline"]
            self.assertEqual(p["plan"], 1)
            self.assertAlmostEqual(t["seconds"] * 1e3, p["step_ms"], delta=1e-6 * p["step_ms"])
            step = p["step"]
            self.assertAlmostEqual(step["tokens_per_second"] * p["step_ms"] / 1e3, step["sequences"] * step["length"], delta=1e-3)
            self.assertAlmostEqual(sum(p["kinds_ms"].values()), 1e3 * sum(a["time"] for a in t["actions"]), delta=1e-4 * p["step_ms"])
            told = {r["rank"] for r in t.get("ranks", [])} or {t["typical"]}
            self.assertIn(t["typical"], told)
            self.assertEqual({s[4] for s in t["slices"]}, told)
            self.assertEqual({s[5] for s in t["loops"]}, told)
            self.assertTrue(all(s[1] + s[2] <= t["seconds"] * 1.000001 for s in t["slices"]))
            self.assertEqual([n["name"] for n in p["numbers"]], ["step", "peak memory", "of the peak FLOP/s"])

    def pipelines(self, *sides):
        sides = [f"{model('llama_mini.mg')} {s}" for s in sides]
        out = self.compiles("diff", *sides, "--microbatch", "4", "--report", "d.html").out
        plans = [json.loads(self.compiles(*s.split(), "--microbatch", "4", "--plan=json").out) for s in sides]
        part = re.search(r"(?s)Computing, by rank of the pipeline\n(.*?)(\n\n|$)", out)
        return plans, {re.split(r" {2,}", line.strip())[0]: re.split(r" {2,}", line.strip())[1:] for line in part.group(1).splitlines()} if part else {}

    def test_ranks_of_pipelines(self):
        """Each rank that differs has a row, and a timeline on the page."""
        plans, rows = self.pipelines("-D pp=4 -D layers=8", "-D pp=4 -D layers=10")
        self.assertEqual(list(rows), ["pp 0", "pp 1 to 2", "pp 3"])
        for name, at in (("pp 0", 0), ("pp 1 to 2", 1), ("pp 3", 2)):
            for got, p in zip(rows[name], plans, strict=False):
                of = p["timeline"]["ranks"][at]
                self.assertEqual(of["name"], name)
                self.assertAlmostEqual(float(got.split()[0]), of["computes"] * 1e3, delta=0.6)
        # the middle has three layers of ten, the others two: as much more as a layer is of two
        a, b = (p["timeline"]["ranks"][1]["computes"] for p in plans)
        self.assertAlmostEqual(b / a, 1.5, delta=0.02)
        _, rows = self.pipelines("-D pp=4 -D layers=8", "-D pp=2 -D layers=8")
        self.assertEqual(list(rows), ["the first", "a typical one", "the last"])
        _, rows = self.pipelines("-D pp=4 -D layers=8", "-D layers=8")
        self.assertEqual(rows, {})
        # the data of that page pairs each rank with the step of the side without a pipeline
        data = json.loads(re.search(r'(?s)<script id="data" type="application/json">(.*?)</script>', self.read("d.html").decode()).group(1))
        self.assertEqual(data["stages"], [["pp 0", 0, 0], ["pp 1 to 2", 1, 0], ["pp 3", 3, 0]])

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_page_of_pipelines(self):
        self.pipelines("-D pp=4 -D layers=8", "-D pp=4 -D layers=10")
        b = Browser()
        self.addCleanup(b.close)
        b.size(1200, 900)
        b.open("file://" + self.path("d.html"))
        self.assertEqual(b.eval("[...document.querySelectorAll('.bar select option')].map(o => o.textContent)"), ["pp 0", "pp 1 to 2", "pp 3"])
        self.assertEqual(b.eval("document.querySelector('.bar select').value"), "1")  # what most do
        pictures = "[...document.querySelectorAll('canvas')].map(c => c.toDataURL())"
        seen = []
        for stage in "012":
            b.eval(f"(s => {{ s.value = '{stage}'; s.dispatchEvent(new Event('change')); }})(document.querySelector('.bar select'))")
            seen.append((tuple(b.eval(pictures)), b.eval("[...document.querySelectorAll('h3')].map(h => h.textContent).filter(t => t.includes(', pp'))")))
        self.assertEqual(len({p for p, _ in seen}), 3)
        self.assertTrue(all(len(heads) == 2 and heads[0].endswith(name) for (_, heads), name in zip(seen, ("pp 0", "pp 1 to 2", "pp 3"), strict=True)), seen[0][1])
        self.assertEqual(b.said, [])

    def test_exposed(self):
        """What the lanes show as exposed is what the plan counts: of loops, what their first iterations have, times all."""
        p = json.loads(self.compiles(model("llama_56m.mg"), "-D", "tp=4", "--device", "h100", "--plan=json").out)
        t = p["timeline"]
        self.assertGreater(p["exposed_comm_ms"], 0)
        computes = sorted((s[1], s[1] + s[2]) for s in t["slices"] if t["actions"][s[0]]["class"] == 0)
        seen = set()
        for action, begin, time, _, _ in t["slices"]:
            a = t["actions"][action]
            if a["class"] != 1 or action in seen:
                continue
            seen.add(action)
            at, alone = begin, 0.0
            for b, e in computes:
                if e > at and b < begin + time:
                    alone += max(0.0, min(b, begin + time) - at)
                    at = max(at, e)
            alone += max(0.0, begin + time - at)
            self.assertAlmostEqual(alone, a["exposed"], delta=2e-6 * t["seconds"], msg=a["name"])

    def test_refused(self):
        self.write("m.mg", TINY)
        self.write("other.mg", TINY.replace("model tiny", "model other"))
        self.plans()
        no_format, odd = {k: v for k, v in FIRST.items() if k != "plan"}, {**FIRST, "plan": 2, "mgc": "9.0"}
        self.write("old.json", json.dumps(no_format))
        self.write("new.json", json.dumps(odd))
        self.write("text.json", "hello")
        self.write("empty.json", "")
        self.write("list.json", "[1]")
        self.write("half.json", json.dumps(FIRST)[:900])
        for sides, code, says in (
                (("a.json", "nosuch.json"), 2, "MG0560.*nosuch.json"), (("a.json", "text.json"), 1, "MG0660.*no JSON: line 1"), (("a.json", "empty.json"), 1, "MG0660"),
                (("a.json", "half.json"), 1, "MG0660.*no JSON"), (("list.json", "a.json"), 1, "MG0660.*no object"), (("a.json", "old.json"), 1, "MG0660.*older mgc"),
                (("a.json", "new.json"), 1, r"MG0660.*format 2, of mgc 9\.0.*format 1"), (("m.mg", "other.mg"), 1, "MG0661.*'tiny'.*'other'"), (("a.json", "m.mg"), 1, "MG0661"),
                (("a.json",), 2, "the form is"), (("a.json", "b.json", "b.json"), 2, "the form is"), (("a.json", "b.json", "-D", "x=1"), 2, "MG0662.*take no options"),
                (("a.json", "b.json -D x=1"), 2, "MG0662.*takes no options"), (("m.mg", "m.mg --emit=c"), 2, "MG0662.*--emit"), (("m.mg", "m.mg --bogus"), 2, "--bogus"),
                (("m.mg", "m.mg 'x"), 2, "MG0662.*quote"), (("m.mg", ""), 2, "MG0662"), (("m.mg", "m.mg other.mg"), 2, "MG0662.*one model"), (("m.mg", "m.mg -D nosuch=1"), 1, "nosuch"),
                (("m.mg", "m.mg -D hidden=99999999999"), None, "MG0662|MG0"), (("m.mg", "m.mg", "--generate"), 2, "MG0662.*generates"), (("m.mg", "m.mg", "--check"), 2, "the form is"),
                (("a.json", "b.json", "--report", "no/such/d.html"), 4, "MG0543")):
            r = self.mgc("diff", *sides)
            self.assertTrue(r.returncode == code if code is not None else 0 < r.returncode < 5, (sides, r.returncode, r.err))
            self.assertRegex(r.err, says)
            self.assertEqual(r.out, "", sides)

    def test_options_of_sides(self):
        self.write("it m.mg", TINY)
        out = self.compiles("diff", "it m.mg", "'it m.mg' -D hidden=32", "-D", "seq=16").out
        self.assertRegex(out, r"(?m)^  parameters +8192 +16384")
        self.assertIn("tokens of one 16", out)

    def test_no_byte_reaches_the_terminal(self):
        p = copy.deepcopy(FIRST)
        p["layout"] = "a\x1b[2Jb"
        p["memory"] = {"par\x1b[31mams": 5}
        self.plans(p)
        out = self.compiles("diff", "a.json", "b.json", "--report", "d.html").out
        self.assertNotIn("\x1b", out)
        self.assertIn("\\x1b[2J", out)

    def test_hostile(self):
        """Plans with a value of another kind anywhere are compared or refused."""
        def places(v, at=()):
            yield at
            for k in (v if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ()):
                yield from places(v[k], (*at, k))
        def pipelined():
            p = second()
            p["timeline"]["ranks"] = [{"name": f"pp {k}", "first": k, "last": k, "rank": k, "computes": 1.0} for k in range(2)]
            return p
        r = random.Random(mgctest.TURN)
        every = [p for p in places(pipelined()) if p]
        for at in r.sample(every, len(every) if mgctest.FULL else 40):
            for odd in some([None, -1, 1e300, "", "</script>", [], {}, True, [[[]]]], 2, r.randrange(9)):
                p = pipelined()
                v = p
                for k in at[:-1]:
                    v = v[k]
                v[at[-1]] = odd
                self.plans(FIRST, p)
                got = self.mgc("diff", "a.json", "b.json", "--report", "d.html")
                self.assertIn(got.returncode, (0, 1), (at, odd, got.err[-500:]))
                self.assertTrue(got.returncode == 0 or "MG066" in got.err, (at, odd, got.err))

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_page(self):
        self.plans()
        self.compiles("diff", "a.json", "b.json", "--report", "d.html")
        html = self.read("d.html").decode()
        self.assertNotRegex(html.split('<script id="data"')[0] + html.rsplit("</script>", 1)[1], r"https?://|src=|@import|url\(")
        b = Browser()
        self.addCleanup(b.close)
        b.size(1200, 900)
        b.open("file://" + self.path("d.html"))
        self.assertEqual([b.eval("document.querySelector('h1').textContent"), b.eval("document.querySelector('h2').textContent")], ["Two plans of m", "Differences"])
        self.assertIn("B takes 360 ms a step", b.eval("document.querySelector('#verdict').textContent"))
        rows = b.eval("[...document.querySelector('table').querySelectorAll('tbody tr')].map(tr => [...tr.children].map(td => td.textContent))")
        self.assertEqual(rows[0], ["Memory of a rank at the peak: params", "1 GiB", "512 MiB", "-512 MiB, -50.0%"])  # the largest first: an eighth
        self.assertIn(["mesh", "dp 8", "dp 2, tp 4", "differs"], rows)
        # Both charts have one window: a key in one moves both.
        pictures = "[...document.querySelectorAll('canvas')].map(c => c.toDataURL())"
        whole = b.eval(pictures)
        self.assertEqual(len(whole), 2)
        b.eval("document.querySelector('canvas').focus()")
        b.key("+")
        near = b.eval(pictures)
        self.assertTrue(near[0] != whole[0] and near[1] != whole[1])
        b.key("0")
        self.assertEqual(b.eval(pictures), whole)
        b.key("n")
        self.assertRegex(b.eval("document.querySelector('.tell').textContent"), r"^up|^layers")
        b.eval("[...document.querySelectorAll('.bar button')].find(b => b.textContent === 'Two layers forward').click()")
        self.assertNotEqual(b.eval(pictures), whole)
        self.assertEqual(b.said, [])


if __name__ == "__main__":
    mgctest.main()
