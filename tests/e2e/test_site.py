"""The site in headless Chromium, from its files: its search finds every option and code, and no page is wider than its window. Skips by name
where Sphinx, its theme or Chromium is not installed (scripts/setup --site). Pictures of some pages go to build/site-pictures."""

import json
import os
import subprocess
import tempfile
import unittest

import mgctest
import pages
from browser import CHROMIUM, Browser
from mgctest import BUILD, FULL, SOURCE

PYTHON = "/usr/bin/python3"
HAVE = os.path.exists(PYTHON) and not subprocess.run([PYTHON, "-c", "import sphinx, myst_parser, furo"], capture_output=True, check=False).returncode
PICTURED = ["index", "tutorial/first_model", "explain/plan", "explain/proof", "language", "reference/mgc", "reference/errors", "migrate/megatron", "glossary"]
# The hits that the page of a search shows: (title, address from the site's root).
FOUND = """[...document.querySelectorAll('#search-results li a')].map(a => [a.textContent, a.getAttribute('href')])"""


@unittest.skipUnless(HAVE, "Sphinx, MyST or Furo is not installed (scripts/setup --site)")
class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="mgc-test-site-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.site = os.path.join(cls.folder.name, "site")
        r = subprocess.run([os.path.join(SOURCE, "scripts/site"), "--build", BUILD, "--to", cls.site], capture_output=True, text=True, check=False)
        assert r.returncode == 0, r.stderr + r.stdout
        with open(os.path.join(BUILD, "share/manual.json"), encoding="utf-8") as f:
            cls.tables = json.load(f)

    def test_folders_of_others_stay(self):
        other = os.path.join(self.folder.name, "other")
        os.mkdir(other)
        with open(os.path.join(other, "precious"), "w", encoding="utf-8"):
            pass
        for argv, words in (["--to", other], "is no site"), (["--build", other], "there is no"):
            r = subprocess.run([os.path.join(SOURCE, "scripts/site"), *(["--build", BUILD] if "--build" not in argv else []), *argv],
                               capture_output=True, text=True, check=False)
            self.assertEqual((r.returncode, words in r.stderr), (1, True), r.stderr)
        self.assertEqual(os.listdir(other), ["precious"])

    def html(self):
        return [os.path.relpath(os.path.join(d, f), self.site) for d, _, names in os.walk(self.site) for f in names
                if f.endswith(".html") and not d.startswith(os.path.join(self.site, "_"))]

    def test_every_page_is_there(self):
        have = {p[:-len(".html")] for p in self.html()}
        want = {p[len("docs/"):-len(".md")] for p in pages.names("docs/*.md")}
        written = {"mgc", "train", "commands", "errors", "environment", "functions", "abi", "descriptions", "changelog"}
        self.assertEqual(have, want | {"reference/" + n for n in written} | {"search", "genindex"})

    def test_nothing_is_loaded_from_elsewhere(self):
        for page in self.html():
            with open(os.path.join(self.site, page), encoding="utf-8") as f:
                text = f.read()
            for tag in ("<script src=\"http", "<link rel=\"stylesheet\" type=\"text/css\" href=\"http", "<img src=\"http", "@import"):
                self.assertNotIn(tag, text, page)

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_widths(self):
        b = Browser()
        self.addCleanup(b.close)
        pictures = os.path.join(BUILD, "site-pictures")
        os.makedirs(pictures, exist_ok=True)
        wrong, seen = [], set()
        of = sorted(self.html()) if FULL else [p + ".html" for p in PICTURED]
        for width in 400, 1280:
            b.size(width, 900)
            for page in of:
                b.open("file://" + os.path.join(self.site, page))
                wide = b.eval("document.documentElement.scrollWidth")
                if wide > width:
                    who = b.eval(f"[...document.querySelectorAll('article *')].filter(e => e.getBoundingClientRect().right > {width}"
                                 " && !e.closest('.table-wrapper, .highlight, pre')).slice(0, 3).map(e => e.outerHTML.slice(0, 120))")
                    wrong.append(f"{page}: {wide} wide in a window of {width}: {who}")
                if page[:-len(".html")] in PICTURED:
                    picture = b.picture()
                    seen.add(picture)
                    with open(os.path.join(pictures, f"{page[:-len('.html')].replace('/', '-')}-{width}.png"), "wb") as f:
                        f.write(picture)
        self.assertEqual(wrong, [])
        self.assertEqual(len(seen), 2 * len(PICTURED))
        self.assertEqual(b.said, [])

    @unittest.skipUnless(CHROMIUM, "Chromium is not installed")
    def test_search(self):
        """Each option and code is found, at its own place, among the first ten; in turns, all in the full run."""
        b = Browser()
        self.addCleanup(b.close)
        b.size(1000, 900)
        wanted = [(f"--{o['name']}", f"reference/{of}.html#{o['name']}") for of in ("mgc", "train") for o in self.tables[of]]
        wanted += [(f"MG{c['number']:04d}", f"reference/errors.html#mg{c['number']:04d}") for c in self.tables["codes"]]
        if not FULL:
            wanted = mgctest.some(wanted, 30)
        wrong = []
        for words, place in wanted:
            b.open("file://" + os.path.join(self.site, "search.html") + "?q=" + words)
            b.wait("document.querySelector('#search-results .search-summary') && "
                   "!/Searching|Preparing/.test(document.querySelector('#search-results').innerText)")
            found = [href for _, href in b.eval(FOUND)]
            if place not in found[:10]:
                wrong.append(f"{words}: {found[:5]}")
        self.assertEqual(wrong, [])
        # A word that is nowhere is not found.
        b.open("file://" + os.path.join(self.site, "search.html") + "?q=qwxyzzy")
        b.wait("/did not match/.test(document.querySelector('#search-results').innerText)")
        self.assertEqual(b.said, [])


if __name__ == "__main__":
    mgctest.main()
