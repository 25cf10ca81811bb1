"""The page of mgc board in headless Chromium: by keys and pointer, light and dark, narrow and wide, and as a server
keeps it up to date. Nothing may be said on the console. Skips by name where there is no Chromium."""

import re
import shutil
import subprocess
import unittest

import mgctest
from browser import CHROMIUM, Browser
from test_watch import START, Runs, step

LARGE = "document.querySelector('.plot')"
PATHS = f"[...{LARGE}.querySelectorAll('path')].map(p => p.getAttribute('d'))"
TELL = "document.querySelector('.tell').textContent"


@unittest.skipUnless(CHROMIUM, "Chromium is not installed")
class Seen(Runs):
    def setUp(self):
        super().setUp()
        waits = {"0": 4.0, "1": 30.0}
        self.name = "<img src=x onerror=document.title='x'>"
        events = [{"step": 30, "event": "alert", "time": 1001.5, "kind": "slow", "text": "<b>rank 1</b> is slow"}, {**START, "step": 60, "resumed": True}]
        steps = [step(n, wait_ms=waits) for n in range(1, 101)]
        evals = [{"step": n, "val_loss": 5 / (1 + 0.02 * n), "time": 1000.0 + 0.05 * n} for n in (20, 40, 60, 80, 100)]
        self.run_of(self.name, START, *steps[:30], events[0], *steps[30:60], events[1], *steps[60:], *evals)
        self.run_of("second", {**START, "steps": 60, "time": 2000.0}, *(step(n, step_ms=25.0, time=2000.0 + 0.025 * n) for n in range(1, 61)))
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def press(self, *keys):
        self.browser.eval(LARGE + ".focus()")
        for k in keys:
            self.browser.key(k)

    def open(self, *runs):
        self.compiles("board", *runs, "-o", "p.html")
        self.browser.size(1280, 900)
        self.browser.open("file://" + self.path("p.html"))

    def test_page(self):
        b = self.browser
        self.open(self.name, "second")
        self.assertEqual(b.eval("document.querySelectorAll('script').length"), 2)
        self.assertIn(self.name, b.eval("document.querySelector('h1').textContent"))
        self.assertNotEqual(b.eval("document.title"), "x")
        # A curve each, evaluations dotted, and marks of the alert and the second start.
        self.assertEqual(b.eval(f"{LARGE}.querySelectorAll('svg g path').length"), 3)
        marks = b.eval(f"[...{LARGE}.querySelectorAll('path title')].map(t => t.textContent)")
        self.assertEqual(marks, [f"{self.name}: alert at step 30: slow: <b>rank 1</b> is slow", f"{self.name}: start at step 60: resumed after step 60"])
        # The curve lies where its numbers say.
        first = b.eval(PATHS)[0]
        points = [tuple(map(float, p.split())) for p in re.split("[ML]", first)[1:]]
        self.assertEqual(len(points), 100)
        xs = [p[0] for p in points]
        for n, x in enumerate(xs):
            self.assertAlmostEqual(x, xs[0] + n * (xs[-1] - xs[0]) / 99, delta=0.11)
        low, high = points[-1][1], points[0][1]
        for n, (_, y) in enumerate(points):
            want, a, z = (step(k)["loss"] for k in (n + 1, 100, 1))
            self.assertAlmostEqual(y, low + (want - a) / (z - a) * (high - low), delta=0.11)
        # Keys.
        self.press("ArrowRight", "ArrowRight")
        self.assertIn("step 2", b.eval(TELL))
        self.assertIn("3.6364", b.eval(TELL))
        self.press("End")
        self.assertIn("step 100", b.eval(TELL))
        whole = b.eval(PATHS)
        self.press("+")
        near = b.eval(PATHS)
        self.assertNotEqual(whole, near)
        self.press("0")
        self.assertEqual(b.eval(PATHS), whole)
        # The pointer tells, and a stretch that is drawn is shown large.
        box = b.eval(f"(r => [r.left, r.top, r.width, r.height])({LARGE}.getBoundingClientRect())")
        b.mouse("mouseMoved", box[0] + box[2] / 2, box[1] + box[3] / 2)
        told = int(re.match(r"step (\d+)", b.eval(TELL))[1])
        self.assertTrue(45 <= told <= 50, told)
        b.mouse("mousePressed", box[0] + box[2] * 0.3, box[1] + 100)
        b.mouse("mouseMoved", box[0] + box[2] * 0.6, box[1] + 100)
        b.mouse("mouseReleased", box[0] + box[2] * 0.6, box[1] + 100)
        self.assertNotEqual(b.eval(PATHS), whole)
        self.press("0")
        self.assertEqual(b.eval(PATHS), whole)
        # Choices: another axis, a logarithm, smoothing, another number, a run less.
        change = "(e, v) => { e[e.type === 'checkbox' ? 'checked' : 'value'] = v; e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change')); }"
        b.eval(f"({change})(document.getElementById('axis'), 'time')")
        ends = [float(d.split("L")[-1].split()[0]) for d in b.eval(PATHS)[:2]]
        start = b.eval(f"+{LARGE}.querySelector('clipPath rect').getAttribute('x')")
        self.assertAlmostEqual((ends[1] - start) / (ends[0] - start), 1.5 / 5, delta=0.02)  # 60 steps of 25 ms beside 100 of 50
        b.eval(f"({change})(document.getElementById('axis'), 'tokens')")
        ends = [float(d.split("L")[-1].split()[0]) for d in b.eval(PATHS)[:2]]
        self.assertAlmostEqual((ends[1] - start) / (ends[0] - start), 0.6, delta=0.02)
        b.eval(f"({change})(document.getElementById('axis'), 'step')")
        b.eval(f"({change})(document.querySelector('.controls input[type=checkbox]'), true)")
        self.assertNotEqual(b.eval(PATHS), whole)
        b.eval(f"({change})(document.querySelector('.controls input[type=checkbox]'), false)")
        b.eval(f"({change})(document.querySelector('input[type=range]'), '0.8')")
        self.assertEqual(b.eval(f"{LARGE}.querySelectorAll('path.raw').length"), 2)
        b.eval(f"({change})(document.querySelector('input[type=range]'), '0')")
        b.eval(f"({change})(document.getElementById('metric'), 'step_ms')")
        self.assertIn("step_ms", b.eval(f"{LARGE}.querySelector('svg').getAttribute('aria-label')"))
        b.eval(f"({change})(document.getElementById('metric'), 'loss')")
        b.eval("document.querySelector('.legend input').click()")
        self.assertEqual(b.eval(f"{LARGE}.querySelectorAll('svg g path').length"), 1)
        b.eval("document.querySelector('.legend input').click()")
        # Tables: runs, events, waits, the curve's numbers.
        text = b.eval("document.querySelector('main').innerText")
        for said in ("slow: <b>rank 1</b> is slow", "100 of 200", "1.25", "0.63", "64.0 MiB", "4.00 ms", "8.0%", "died"):
            self.assertIn(said, text)
        b.eval("document.querySelector('details').open = true")
        rows = b.eval("[...document.querySelectorAll('details tr')].map(r => [...r.children].map(c => c.textContent))")
        self.assertEqual(rows[0], ["step", self.name, "second"])
        self.assertIn(["1", "3.8095", "3.8095"], rows)
        self.assertIn("0.66667", rows[-1])
        self.assertEqual(b.said, [])

    def test_every_size_light_and_dark(self):
        b, seen = self.browser, set()
        self.open(self.name, "second")
        for width in 400, 1280:
            for dark in False, True:
                b.size(width, 900, dark)
                b.eval("new Promise(r => setTimeout(r, 200))")
                self.assertLessEqual(b.eval("document.documentElement.scrollWidth"), width)  # tables alone go further
                self.assertLessEqual(b.eval(f"Math.abs({LARGE}.querySelector('svg').viewBox.baseVal.width - {LARGE}.clientWidth)"), 1)
                back, text = (re.findall(r"\d+", b.eval(f"getComputedStyle(document.body).{k}")) for k in ("backgroundColor", "color"))
                self.assertEqual(int(back[0]) < int(text[0]), dark)
                seen.add(b.picture())
        self.assertEqual(len(seen), 4)
        self.assertEqual(b.said, [])

    def test_names_of_parts(self):
        """What can be used has a name, and is reached by Tab."""
        b = self.browser
        self.open(self.name)
        bad = b.eval("[...document.querySelectorAll('select, input, button')].filter(e => !(e.labels && e.labels.length && e.closest('label').textContent.trim()) && !e.textContent.trim()).length")
        self.assertEqual(bad, 0)
        self.assertEqual(b.eval("[...document.querySelectorAll('svg')].filter(s => !s.getAttribute('aria-label')).length"), 0)
        reached = set()
        for _ in range(25):
            b.key("Tab")
            reached.add(b.eval("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
        for name in "metric", "axis", "plot", "SUMMARY", "BUTTON":
            self.assertIn(name, reached)

    def test_server(self):
        p = subprocess.Popen([mgctest.MGC, "board", self.name, "second", "later", "--serve"], cwd=self.dir, stdout=subprocess.PIPE)
        self.addCleanup(lambda: (p.kill(), p.wait(), p.stdout.close()))
        url = p.stdout.readline().decode().strip()
        b = self.browser
        b.size(1000, 900)
        b.open(url)
        self.assertIn("follows the runs", b.eval("document.getElementById('state').textContent"))
        self.assertEqual(b.eval(f"{LARGE}.querySelectorAll('svg g path').length"), 3)
        self.run_of("later", {**START, "program": "newest"}, step(1), step(2), {"step": 2, "curvature": 7})
        b.wait("document.querySelector('main').innerText.includes('newest')")
        self.assertEqual(b.eval(f"{LARGE}.querySelectorAll('svg g path').length"), 4)
        b.wait("[...document.getElementById('metric').options].some(o => o.value === 'curvature')")
        self.press("End")
        shutil.rmtree(self.path("second"))
        b.wait("document.querySelector('main').innerText.includes('not begun')")
        self.assertIn("step 100", b.eval(TELL))  # what was chosen stays
        self.assertEqual(b.said, [])
        p.terminate()
        self.assertEqual(p.wait(20), 0)
        b.wait("document.getElementById('state').textContent.includes('does not answer')")
        self.assertTrue(all("ERR_CONNECTION_REFUSED" in s for s in b.said), b.said)


if __name__ == "__main__":
    mgctest.main()
