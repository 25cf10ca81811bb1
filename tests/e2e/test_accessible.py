"""Pages of mgc for everybody: the report, mgc diff and mgc board by accessible.py's rules, light and dark, wide and 400
pixels narrow; and the rules find each fault that is planted. Skips by name where there is no Chromium."""

import unittest

import accessible
import mgctest
from browser import CHROMIUM, Browser
from mgctest import model
from test_watch import START, Runs, step

# A fault, and what finds it.
PLANTED = [
    ("document.documentElement.lang = ''", "3.1.1"),
    ("document.title = ''", "2.4.2"),
    ("document.querySelector('h2').outerHTML = '<h4>One step</h4>'", "1.3.1"),
    ("document.querySelector('#line').style.color = '#aaaaaa'", "1.4.3"),
    ("document.querySelector('.bar button').setAttribute('aria-label', ' '); document.querySelectorAll('.bar button').forEach(b => { b.textContent = ''; b.title = ''; b.removeAttribute('aria-label'); })", "4.1.2"),
    ("document.querySelector('canvas').tabIndex = 2", "2.4.3"),
    ("document.head.append(Object.assign(document.createElement('style'), {textContent: '* { outline: none !important; }'}))", "2.4.7"),
    ("document.querySelector('canvas').addEventListener('keydown', e => { if (e.key === 'Tab') e.preventDefault(); })", "2.1.2"),
    ("document.querySelector('main').append(Object.assign(document.createElement('div'), {style: 'width:3000px', textContent: 'wide'}))", "1.4.10"),
    ("document.body.append('outside')", "in no landmark"),
    ("document.querySelector('.bar button').style.cssText = 'min-height:0;height:12px;padding:0'", "2.5.8"),
    ("document.querySelector('h1').animate([{opacity: 0.5}, {opacity: 1}], {duration: 1e6})", "2.3.3"),
    ("document.querySelector('[role=tab]').setAttribute('aria-controls', 'nowhere')", "aria-controls"),
]


@unittest.skipUnless(CHROMIUM, "Chromium is not installed")
class Accessible(Runs):
    def setUp(self):
        super().setUp()
        self.browser = Browser()
        self.addCleanup(self.browser.close)

    def open(self, page, width, dark):
        self.browser.size(width, 800, dark=dark)
        self.browser.open("file://" + self.path(page))

    def report(self):
        self.compiles(model("llama_mini.mg"), "-D", "dp=2", "-D", "tp=2", "--report", "r.html")

    def test_report(self):
        self.report()
        for width, dark in (1280, False), (1280, True), (400, False), (400, True):
            self.open("r.html", width, dark)
            for i in range(6):
                self.browser.eval(f"document.querySelectorAll('[role=tab]')[{i}].click()")
                self.assertEqual(accessible.faults(self.browser, keys=(width, dark) == (400, False) or i == 0), [], (width, dark, i))
        self.assertEqual(self.browser.said, [])

    def test_pipeline(self):
        self.compiles(model("llama_mini.mg"), "-D", "pp=2", "-D", "layers=4", "--microbatch", "8", "--report", "r.html")
        self.open("r.html", 400, True)
        for i in 0, 2:
            self.browser.eval(f"document.querySelectorAll('[role=tab]')[{i}].click()")
            self.assertEqual(accessible.faults(self.browser), [], i)

    def test_diff(self):
        self.compiles("diff", model("llama_mini.mg"), f"{model('llama_mini.mg')} -D tp=2", "--report", "d.html")
        for width, dark in (1280, False), (400, True):
            self.open("d.html", width, dark)
            self.assertEqual(accessible.faults(self.browser), [], (width, dark))
        self.assertEqual(self.browser.said, [])

    def test_board(self):
        self.run_of("a", START, *(step(n) for n in range(1, 41)))
        self.compiles("board", "a", "-o", "p.html")
        for width, dark in (1280, False), (400, True):
            self.open("p.html", width, dark)
            self.assertEqual(accessible.faults(self.browser), [], (width, dark))

    def test_faults_are_found(self):
        self.report()
        for fault, found in PLANTED:
            self.open("r.html", 900, False)
            self.browser.eval(f"(() => {{ {fault}; }})()")
            seen = accessible.faults(self.browser, keys=found in ("2.4.7", "2.1.2"))
            self.assertTrue(any(found in s for s in seen), (fault, seen))


if __name__ == "__main__":
    mgctest.main()
