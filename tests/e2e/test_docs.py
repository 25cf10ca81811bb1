"""Pages: each block is of a kind and run, or says why not; sources compile; links lead somewhere. (Commands: test_docs_run.py.)"""

import os
import re
import unittest

import mgctest
import pages
from mgctest import SOURCE

# Lines of a block that only shows text, and yet a reader would type.
COMMAND = re.compile(r"(?m)^ *(\$ |(build/)?mgc (?! )|\./(train|gen)\b|scripts/\w|mpirun |srun |sbatch |torchrun |python3? )")
URL = re.compile(r"https?://[a-z0-9][a-z0-9.-]*\.[a-z]{2,}(:\d+)?(/[^\s<>\"]*)?(#\S*)?$", re.I)


def wrong_blocks(page):
    for b in pages.blocks(page):
        if b.kind not in pages.KINDS:
            yield f"{b}: a block begins with ``` and one of {', '.join(sorted(pages.KINDS))}, not '{b.kind}' (tests/e2e/pages.py)"
        for s in b.says:
            if s not in pages.SAYS:
                yield f"{b}: '{s}' is not known of blocks"
        for s in "not run", "not checked":
            if s in b.says and len(b.says[s]) < 5:
                yield f"{b}: {s}, and does not say why"
        if b.kind == "text" and "not run" not in b.says and COMMAND.search(b.text):
            yield f"{b}: shows commands that are not run, and does not say why"
        if b.kind == "mg part" and "not checked" not in b.says and not list(pages.programs(b)):
            yield f"{b}: a part of a source is checked with what is around it, or says why not"


def wrong_links(page):
    made = pages.read("docs/site/pictures.py")
    for link in pages.links(page):
        if re.match(r"[a-z]+:", link):
            if not URL.match(link):
                yield f"{page}: {link} is no address"
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if "/pictures/" in target and f'"{os.path.basename(target)}"' in made:
            continue
        if not os.path.exists(os.path.join(SOURCE, target)):
            yield f"{page}: there is no {target}"
        elif anchor and target.endswith(".md") and anchor not in pages.anchors(target):
            yield f"{page}: {target} has no #{anchor}"


class Blocks(mgctest.Case):
    def test_kinds(self):
        """Each block has a kind, and what is said of it is known."""
        self.assertEqual([w for page in pages.of_docs() for w in wrong_blocks(page)], [])

    def test_sources(self):
        checked = 0
        for page in pages.of_docs():
            blocks = pages.blocks(page)
            whole = "".join(b.text for b in blocks if b.kind == "mg")
            cases = [("whole", whole, ())] if whole else []
            for b in blocks:
                if b.kind == "mg part" and "not checked" not in b.says:
                    cases += [(f"line {b.line}, {name}", text, options) for name, text, options in pages.programs(b)]
            for name, text, options in cases:
                with self.subTest(page=page, block=name):
                    self.write("m.mg", pages.trained(text))
                    r = self.mgc("m.mg", "--check", *options)
                    self.assertEqual(r.returncode, 0, r.err + text)
                    checked += 1
        self.assertGreater(checked, 20)


class Links(unittest.TestCase):
    def test_links(self):
        every = pages.names("*.md")
        self.assertEqual([w for page in every for w in wrong_links(page)], [])
        self.assertGreater(sum(len(pages.links(page)) for page in every), 100)

    def test_every_page_is_reached(self):
        """Every page of docs/ is in the site's navigation, once, and the navigation names no other."""
        listed = re.findall(r"(?m)^    (\S+)", pages.read("docs/site/navigation"))
        self.assertEqual(sorted(listed), sorted(set(listed)))
        have = {p[len("docs/"):-len(".md")] for p in pages.names("docs/*.md")}
        self.assertEqual({p for p in listed if not p.startswith("reference/")} | {"index"}, have)


PLANTED = """# A page

## A part of it

[right](#a-part-of-it), [wrong](#no-such-part), [gone](gone.md), [address](https:/one.slash), `[code](no-link.md)`

```
no kind
```

```text
build/mgc m.mg -o train
```

<!-- not run: -->
```sh
./train
```

<!-- sometimes: perhaps -->
```sh
true
```

```mg part
y = x
```
"""


class Itself(mgctest.Case):
    def test_what_is_wrong_is_found(self):
        page = self.write("page.md", PLANTED)
        found = "\n".join([*wrong_blocks(page), *wrong_links(page)])
        for words in (":7: a block begins", ":11: shows commands", ":16: not run, and does not say why", ":21: 'sometimes' is not known",
                      ":25: a part of a source", "has no #no-such-part", "there is no " + self.path("gone.md"), "https:/one.slash is no address"):
            self.assertIn(words, found)
        self.assertEqual(found.count("\n") + 1, 8, found)


if __name__ == "__main__":
    mgctest.main()
