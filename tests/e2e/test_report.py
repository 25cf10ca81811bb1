"""mgc --report: one page that loads nothing, says what the plan says, and works by keyboard, light and dark. What a
browser does with it is seen where there is Chromium; elsewhere those tests skip by name."""

import json
import os
import re
import shutil
import unittest

import mgctest
from browser import Browser
from mgctest import model

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NODE = shutil.which("node") or shutil.which("nodejs")

# Walks through the page as a person without a mouse would, and leaves what was seen in the body's end.
KEYS = """
<script>
"use strict";
addEventListener("load", () => setTimeout(() => {
  const seen = [], shown = () => [...document.querySelectorAll("section")].filter(s => !s.hidden).map(s => s.getAttribute("aria-label")).join();
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  seen.push(shown());
  for (const key of "23456") { press(document.body, key); seen.push(shown()); }
  press(document.querySelector("[role=tab][aria-selected=true]"), "ArrowRight");
  seen.push(shown());
  press(document.body, "2");
  for (const name of ["Timeline", "Memory"]) {
    const canvas = document.querySelector(`section[aria-label=${name}] canvas`), tell = document.querySelector(`section[aria-label=${name}] .tell`);
    press(document.body, name === "Timeline" ? "2" : "3");
    const whole = canvas.toDataURL();
    press(canvas, "n");
    const first = tell.textContent;
    press(canvas, "n");
    seen.push(first !== "" && tell.textContent !== first ? "steps" : "stays");
    press(canvas, "+");
    const near = canvas.toDataURL();
    press(canvas, "ArrowRight");
    seen.push(near !== whole && canvas.toDataURL() !== near ? "moves" : "still");
  }
  document.querySelector("section[aria-label=Program] select").selectedIndex = DIFF;
  document.querySelector("section[aria-label=Program] select").dispatchEvent(new Event("change"));
  seen.push(document.querySelectorAll("section[aria-label=Program] pre .add").length + " added");
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = seen.join("|");
  document.body.append(pre);
}, 300));
</script>
</body>"""

# The same of a pipeline's grid: stepped through, zoomed, moved, and pointed at.
GRID = """
<script>
"use strict";
addEventListener("load", () => setTimeout(() => {
  const seen = [], shown = () => [...document.querySelectorAll("section")].filter(s => !s.hidden).map(s => s.getAttribute("aria-label")).join();
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  press(document.body, "3");
  seen.push(shown());
  const canvas = document.querySelector("section[aria-label=Pipeline] canvas"), tell = document.querySelector("section[aria-label=Pipeline] .tell");
  press(canvas, "p");
  press(canvas, "n");
  press(canvas, "p");
  press(canvas, "n");
  seen.push(tell.textContent);
  press(canvas, "n");
  seen.push(tell.textContent);
  const whole = canvas.toDataURL();
  press(canvas, "+");
  const near = canvas.toDataURL();
  seen.push(near !== whole ? "zooms" : "stays");
  press(canvas, "ArrowLeft");
  seen.push(canvas.toDataURL() !== near ? "moves" : "still");
  press(canvas, "0");
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: box.left + box.width * 0.5, clientY: box.top + 30, bubbles: true}));
  seen.push(tell.textContent);
  press(document.body, "7");
  seen.push(shown());
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = seen.join("|");
  document.body.append(pre);
}, 300));
</script>
</body>"""


def data_of(html):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)[1])


def lines_after(d, k):
    """The program after a pass, of runs of lines that all passes share."""
    runs = d["passes"][k]["runs"]
    return [line for first, n in zip(runs[::2], runs[1::2]) for line in d["lines"][first:first + n]]


class Page(mgctest.Case):
    def page(self, name, *options):
        self.compiles(model(name), *options, "--report", "r.html")
        return self.read("r.html").decode()

    def test_says_what_the_plan_says(self):
        for name, options in (("llama7b.mg", ("--device", "h200")), ("gpt2_124m.mg", ()), ("mlp.mg", ())):
            html = self.page(name, *options)
            self.assertLess(len(html.encode()), 2 << 20)
            self.assertNotRegex(html.split('<script id="data"')[0] + html.rsplit("</script>", 1)[1], r"https?://|src=|@import|url\(")
            d = data_of(html)
            p = json.loads(self.compiles(model(name), *options, "--plan=json").out)
            self.assertAlmostEqual(d["seconds"] * 1e3, p["step_ms"], delta=1e-4 * p["step_ms"])
            self.assertEqual((d["arenas"][0]["bytes"], d["live"]), (p["arena_bytes"], p["live_bound_bytes"]))
            self.assertEqual(dict(d["owners"]), {k: v for k, v in p["memory"].items() if v})
            total = sum(a["time"] for a in d["actions"])
            self.assertGreaterEqual(total, d["seconds"] * 0.9999)
            if not options:  # a GPU's streams run side by side
                self.assertAlmostEqual(total, d["seconds"], delta=1e-4 * total)
            self.assertAlmostEqual(sum(s for _, s in d["by_kind"]), total, delta=1e-4 * total)
            for arena in d["arenas"]:
                for _, _, first, last, offset, size in arena["buffers"]:
                    self.assertTrue(0 <= first <= last < d["action_count"] and 0 <= offset and offset + size <= arena["bytes"])
            self.assertEqual(d["passes"][0]["name"], "lower")
            self.assertEqual(d["passes"][-1]["name"], "host")
            with open(model(name), encoding="utf-8") as f:
                self.assertEqual(d["source"], f.read())
            # Nothing overlaps on a track, and all of it lies inside the step.
            tracks = {}
            for action, start, time, lane, _ in d["slices"]:
                self.assertTrue(0 <= action < len(d["actions"]) and start + time <= d["seconds"] * 1.0001)
                tracks.setdefault(lane, []).append((start, start + time))
            for slices in tracks.values():
                slices.sort()
                for (_, end), (start, _) in zip(slices, slices[1:], strict=False):
                    self.assertGreaterEqual(start, end - 1e-5 * d["seconds"])

    def test_pipeline(self):
        """The grid: each phase once, in its row, no two at a time; idle times are those of the plan."""
        for schedule, ranks, stages in (("1f1b", 4, 4), ("interleaved, chunks = 2", 2, 4), ("zb-h1", 2, 2)):
            self.write("it.mg", f"layout it {{\n    device cpu\n    mesh pp = {ranks}\n    layers -> pp (schedule = {schedule})\n    microbatch 4\n}}\n")
            options = ("--layout", "./it.mg", "-D", "layers=8")
            d = data_of(self.page("llama_mini.mg", *options))
            plan = json.loads(self.compiles(model("llama_mini.mg"), *options, "--plan=json").out)
            p = d["pipeline"]
            self.assertEqual((p["axis"], p["stages"], p["microbatches"], len(p["ranks"])), ("pp", stages, 8, ranks))
            kinds = "FIW" if schedule == "zb-h1" else "FB"
            seen = {(kind, stage, micro) for r in p["ranks"] for kind, stage, micro, _, _ in r["cells"]}
            self.assertEqual(sum(len(r["cells"]) for r in p["ranks"]), len(seen))
            if schedule != "zb-h1":
                self.assertEqual(seen, {(k, s, m) for k in kinds for s in range(stages) for m in range(8)})
            for rank, r in enumerate(p["ranks"]):
                busy, end = 0, p["begin"]
                for _, stage, _, begin, time in r["cells"]:
                    begin, time = begin * 1e-9, time * 1e-9
                    self.assertEqual(stage % ranks, rank)
                    self.assertGreaterEqual(begin, end - 1e-5 * p["step"])
                    busy, end = busy + time, begin + time
                self.assertLessEqual(end, p["begin"] + p["step"] * 1.00001)
                self.assertAlmostEqual(busy, r["busy"], delta=1e-4 * p["step"])
                self.assertAlmostEqual(r["busy"] + r["idle"], p["step"], delta=1e-4 * p["step"])
                self.assertTrue(1 <= r["slots"] <= 8 * stages)
            idle = sum(r["idle"] for r in p["ranks"]) / ranks / d["seconds"]
            self.assertAlmostEqual(idle, plan["bubble"], delta=1e-4)
            self.assertEqual(set(p["colors"]), set("FBIW"))
            # The timeline has every rank, and no slice of a rank's stream overlaps another.
            tracks = {}
            for action, start, time, stream, rank in d["slices"]:
                self.assertTrue(0 <= action < len(d["actions"]) and start + time <= d["seconds"] * 1.0001)
                tracks.setdefault((rank, stream), []).append((start, start + time))
            self.assertEqual({rank for rank, _ in tracks}, set(range(ranks)))
            for slices in tracks.values():
                slices.sort()
                for (_, end), (start, _) in zip(slices, slices[1:], strict=False):
                    self.assertGreaterEqual(start, end - 1e-5 * d["seconds"])

    @unittest.skipUnless(NODE, "Node is not installed")
    def test_grid(self):
        """By keys, wheel and pointer, on a canvas that notes what is drawn."""
        d = data_of(self.page("llama_mini.mg", "-D", "pp=2", "-D", "layers=4", "--microbatch", "8"))
        p, step = d["pipeline"], d["seconds"]
        r = self.run_program(NODE, os.path.join(mgctest.SOURCE, "tests/e2e/page.js"), self.path("r.html"))
        self.assertEqual(r.returncode, 0, r.stderr[-2000:])
        seen = json.loads(r.stdout)
        self.assertEqual(seen["shown"], ["Pipeline"])
        idle = [f"idle {100 * rank['idle'] / step:.1f}%" for rank in p["ranks"]]
        self.assertRegex(seen["first"], r"^F of stage 0, microbatch 0: [\d.]+ to [\d.]+ ms, " + re.escape(idle[0]) + r" \(pp 0\)$")
        self.assertRegex(seen["second"], "^F of stage 0, microbatch 1: ")
        # 1000 pixels are the step: cells lie at their times, in their rows, and are 1 pixel apart.
        cells = [(x, y, w) for x, y, w, _ in seen["whole"]]
        want = [(c[3] * 1e-6 / step, 24 + 30 * rank, c[4] * 1e-6 / step - 1) for rank, r in enumerate(p["ranks"]) for c in r["cells"]]
        self.assertEqual(len(cells), len(want))
        for a, b in zip(cells, want, strict=True):
            for got, right in zip(a, b, strict=True):
                self.assertAlmostEqual(got, right, delta=0.01)
        self.assertLessEqual({"#0000d7", "#008700"}, set(seen["colors"]))  # 20 and 28 of the terminal's
        self.assertGreater(seen["near"][0][2], seen["whole"][0][2])
        self.assertLess(seen["moved"][0][0], seen["near"][0][0] if len(seen["moved"]) == len(seen["near"]) else 1000)
        self.assertGreater(seen["wheeled"][0][2], seen["whole"][0][2])
        self.assertNotEqual(seen["dragged"], seen["wheeled"])
        for k, told in enumerate(seen["hovered"]):
            at = k / 100 * step * 1e9
            under = [c for c in p["ranks"][0]["cells"] if c[3] <= at <= c[3] + c[4]]
            self.assertTrue(told.startswith(f"{under[0][0]} of stage 0, microbatch {under[0][2]}:" if under else seen["second"]), told)
        self.assertEqual(seen["left"], seen["second"])
        self.assertEqual([row[5] for row in seen["table"]], [str(rank["slots"]) for rank in p["ranks"]])

    def test_no_text_ends_the_script(self):
        with open(model("mlp.mg"), encoding="utf-8") as f:
            text = f.read()
        self.write("m.mg", "# </script><script>alert(1)</script> <!-- \n" + text)
        self.compiles("m.mg", "--report", "r.html")
        html = self.read("r.html").decode()
        self.assertEqual(html.count("</script>"), 2)
        self.assertIn("</script><script>alert(1)", data_of(html)["source"])

    def test_refused(self):
        self.assertNotEqual(self.mgc(model("mlp.mg"), "--report", "no/such/r.html").returncode, 0)
        self.assertEqual(self.mgc("fmt", model("mlp.mg"), "--report", "r.html").returncode, 2)
        self.assertEqual(os.listdir(self.dir), [])

    def chromium(self, *argv):
        r = self.run_program(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + self.path("profile"),
                             "--virtual-time-budget=8000", *argv)
        self.assertEqual(r.returncode, 0, r.stderr[-2000:])
        return r.stdout.decode(errors="replace")

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_by_keyboard(self):
        html = self.page("llama_mini.mg")
        d = data_of(html)
        texts = [lines_after(d, k) for k in range(len(d["passes"]))]
        adds = next(i for i, (a, b) in enumerate(zip(texts, texts[1:])) if set(b) - set(a))  # a pass that adds lines
        self.write("keys.html", html.replace("</body>", KEYS.replace("DIFF", str(len(texts) + 1 + adds))))
        dom = self.chromium("--window-size=1000,800", "--dump-dom", "file://" + self.path("keys.html"))
        seen = re.search(r'<pre id="seen">(.*?)</pre>', dom)
        self.assertIsNotNone(seen, dom[-3000:])
        self.assertRegex(seen[1], r"^Summary\|Timeline\|Memory\|Roofline\|Decisions\|Program\|Summary\|"
                                  r"steps\|moves\|steps\|moves\|[1-9]\d* added$")

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_pipeline_by_keyboard(self):
        html = self.page("llama_mini.mg", "-D", "pp=2", "-D", "layers=4", "--microbatch", "8")
        self.write("keys.html", html.replace("</body>", GRID))
        dom = self.chromium("--window-size=1000,800", "--dump-dom", "file://" + self.path("keys.html"))
        seen = re.search(r'<pre id="seen">(.*?)</pre>', dom)
        self.assertIsNotNone(seen, dom[-3000:])
        self.assertRegex(seen[1], r"^Pipeline\|F of stage 0, microbatch 0: [\d.]+ to [\d.]+ ms, idle [\d.]+%.*\|"
                                  r"F of stage 0, microbatch 1: .*\|zooms\|moves\|[FB] of stage [01], microbatch .*\|Program$")

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_opens_with_the_step(self):
        """The first view: three numbers with how sure they are, two layers each way of the loop, the peak; the rest by keys."""
        b = Browser()
        self.addCleanup(b.close)
        b.call("Page.addScriptToEvaluateOnNewDocument", source="window.drawn = []; const was = CanvasRenderingContext2D.prototype.fillText;"
               "CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { window.drawn.push(text); return was.call(this, text, ...at); };")
        for options, way, words in (((), "two layers", ("layers × 4, forward", "layers × 4, backward")),
                                    (("-D", "pp=4", "--microbatch", "8"), "one phase", ("1F0, of 4 such phases", "1B0, of 4 such phases"))):
            d = data_of(self.page("llama_mini.mg", *options))
            b.size(1200, 900)
            b.open("file://" + self.path("r.html"))
            b.wait("window.drawn.length > 0")
            texts = b.eval("window.drawn")
            self.assertTrue(set(words) <= set(texts), texts)
            self.assertEqual(sum(t.endswith(", " + way) for t in set(texts)), 2)
            self.assertTrue(any(t.startswith("peak: ") for t in texts))
            numbers = b.eval("[...document.querySelectorAll('.numbers li')].map(e => [e.querySelector('strong').textContent, e.querySelector('.sure').textContent])")
            self.assertEqual(numbers, [[n["value"], n["sure"]] for n in d["numbers"]])
            self.assertEqual([n[1] for n in numbers], ["calibrated", "proved", "calibrated"])
            pressed = "[...document.querySelectorAll('.bar')[0].querySelectorAll('[aria-pressed]')].map(e => e.getAttribute('aria-pressed')).join()"
            b.eval("document.querySelector('canvas').focus()")
            seen = [b.eval(pressed)]
            for key in "-", "l", "0", "l":
                b.key(key)
                seen.append(b.eval(pressed))
            self.assertEqual(seen, ["true,false", "false,true", "true,false", "false,true", "true,false"])
            b.eval("document.querySelector('summary').click()")
            rows = b.eval("document.querySelectorAll('details tbody tr').length")
            if not options:  # the actions of two layers each way
                layers = [l for l in d["loops"] if l[4] == 4]
                self.assertEqual(rows, sum(any(l[1] - 1e-8 <= s[1] < l[1] + l[2] / 2 - 1e-7 for l in layers) for s in d["slices"]))
            self.assertGreater(rows, 10)
        self.assertEqual(b.said, [])

    def test_how_sure(self):
        """A device of its own says how sure its numbers are, or that it does not."""
        with open(os.path.join(mgctest.BUILD, "lib/mgc/devices/h100.json"), encoding="utf-8") as f:
            device = json.load(f)
        for known, sure, why in (({"known": "measured", "known_by": "a bench"}, "measured", "a bench"), ({}, "guessed", "does not say")):
            self.write("d.json", json.dumps({**{k: v for k, v in device.items() if not k.startswith("known")}, **known}))
            d = data_of(self.page("gpt2_124m.mg", "--device", "./d.json"))
            self.assertEqual(d["numbers"][0]["sure"], sure)
            self.assertIn(why, d["numbers"][0]["why"])
        for wrong in {"known": "sure", "known_by": "x"}, {"known": "guessed"}:
            self.write("d.json", json.dumps({**{k: v for k, v in device.items() if not k.startswith("known")}, **wrong}))
            r = self.mgc(model("gpt2_124m.mg"), "--device", "./d.json", "--check")
            self.assertNotEqual(r.returncode, 0)
            self.assertIn("known", r.err)

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_light_and_dark(self):
        self.page("llama_mini.mg")
        seen = set()
        for dark in False, True:
            for part in "timeline", "memory", "roofline", "decisions", "program":
                scheme = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
                self.chromium(*scheme, "--hide-scrollbars", "--window-size=1200,800", "--screenshot=" + self.path("s.png"),
                              "file://" + self.path("r.html") + "#" + part)
                image = self.read("s.png")
                self.assertGreater(len(image), 20000, part)  # an empty page has 5,000 bytes
                seen.add(image)
        self.assertEqual(len(seen), 10)


if __name__ == "__main__":
    mgctest.main()
