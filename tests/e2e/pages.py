"""The pages of docs/ and README.md as tests read them: blocks with what is said of them, headings, links.

A block has a kind behind its ```: `sh` commands, `mg` a source, `mg part` a part of one, or `text`, `c`, `json`, `python`: not run. Comments right before a
block say how it is tested:

    <!-- not run: WHY -->               sh: and text that shows commands
    <!-- not checked: WHY -->           mg part
    <!-- setup: COMMANDS -->            sh: commands that run before it
    <!-- run all but lines with: A, B -->  sh
    <!-- exit: N -->                    sh: it ends with N
    <!-- in: bash -->                   sh: by another shell than sh
    <!-- output -->                    text: it is in what the sh block before it printed
    <!-- file: NAME -->                 mg: it is written to NAME, for commands of the page
    <!-- around: TEXT -->               mg part: TEXT is a program, with the block in the place of a line `...`, its Nth line in that of
                                        `(line N)`, each of its lines in turn in that of `(either line)`; ===== begins another program
    <!-- in the train block of: FILE -->   mg part
    <!-- beside: FILE -->               mg part: layouts and others behind what FILE has

The `mg` blocks of a page are one program. A program that says nothing of training is checked with the shortest train block."""

import os
import re
import subprocess

from mgctest import SOURCE

KINDS = {"sh", "mg", "mg part", "text", "c", "json", "python"}
SAYS = {"not run", "not checked", "setup", "run all but lines with", "exit", "in", "output", "file", "around", "in the train block of", "beside"}


class Block:
    def __init__(self, page, line, kind, text, says):
        self.page, self.line, self.kind, self.text, self.says = page, line, kind, text, says

    def __str__(self):
        return f"{self.page}:{self.line}"


def names(*patterns):
    """Pages of the project, from its root."""
    git = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns]
    out = subprocess.run(git, cwd=SOURCE, capture_output=True, check=True).stdout.decode()
    return sorted({f for f in out.split("\0") if f and os.path.isfile(os.path.join(SOURCE, f))})


def of_docs():
    return ["README.md", *names("docs/*.md")]


def read(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        return f.read()


def blocks(page):
    found, says, lines, at = [], {}, read(page).split("\n"), 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("<!--"):
            begin = at
            while "-->" not in lines[at]:
                at += 1
            inner = "\n".join(lines[begin:at + 1]).strip()[4:-3].strip()
            kind, _, text = inner.partition(":")
            says[kind] = text.strip("\n") if "\n" in text else text.strip()
        elif line.startswith("```"):
            begin = at
            at += 1
            while not lines[at].startswith("```"):
                at += 1
            found.append(Block(page, begin + 1, line[3:].strip(), "\n".join(lines[begin + 1:at]) + "\n", says))
            says = {}
        elif line.strip():
            says = {}
        at += 1
    return found


def prose(page):
    """The text without blocks and comments."""
    text = re.sub(r"(?ms)^```.*?^```$", "", read(page))
    return re.sub(r"(?s)<!--.*?-->", "", text)


def slug(heading):
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page):
    all_of, seen = set(), {}
    for heading in re.findall(r"(?m)^#{1,6} +(.+?)\s*$", prose(page)):
        name = slug(heading)
        n = seen.get(name, 0)
        seen[name] = n + 1
        all_of.add(f"{name}-{n}" if n else name)
    return all_of


def links(page):
    """Targets of [text](target) and ![text](target), outside of code."""
    return re.findall(r"\]\(([^()\s]+(?:\([^()\s]*\))?[^()\s]*)\)", re.sub(r"`[^`\n]*`", "", prose(page)))


def trained(text):
    return text if re.search(r"(?m)^train\b", text) else text + "\ntrain { optimizer sgd()  lr constant(peak = 0.1, steps = 1) }\n"


def programs(block):
    """(name, text, options) of what a block of a model's source is checked as; of `mg` blocks the page's is checked as a whole."""
    lines = [line for line in block.text.split("\n") if line.strip()]

    def line_of(m):
        return m.group(1) + lines[int(m.group(2)) - 1]

    if "around" in block.says:
        for n, text in enumerate(re.split(r"(?m)^=====$", block.says["around"])):
            assert re.search(r"(?m)^\s*(\.\.\.|\(line \d+\)|\(either line\))$", text), f"{block}: around says nothing of the block"
            text = re.sub(r"(?m)^( *)\(line (\d+)\)$", line_of, text)
            text = re.sub(r"(?m)^ *\.\.\.$", lambda _: block.text, text)
            for m, line in enumerate(lines if "(either line)" in text else [""]):
                yield f"{n}-{m}", text.replace("(either line)", line), ()
    elif "in the train block of" in block.says:
        source = read(block.says["in the train block of"])
        text, n = re.subn(r"(?m)^(train \{.*\n(?:.*\n)*?)\}", lambda m: m.group(1) + block.text + "}", source, count=1)
        assert n == 1, f"{block}: {block.says} has no train block"
        yield "train", text, ()
    elif "beside" in block.says:
        text = read(block.says["beside"]) + block.text
        for layout in re.findall(r"(?m)^layout (\w+)", block.text):
            yield layout, text, ("--layout", layout)
