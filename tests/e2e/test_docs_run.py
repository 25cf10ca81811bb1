"""The commands of docs/ and README.md, page by page, as a reader gives them, in a folder where build/, models/, examples/ and scripts/ lie.
Without MGC_FULL runs are short: --steps N is 4 (or 8 with --resume)."""

import os
import re
import subprocess
import sys
import unittest

import mgctest
import pages
from mgctest import BUILD, FULL, SOURCE

OWN = {"docs/finetune.md"}  # test_finetune.py looks at its numbers, too


def short(text):
    """The same with few steps; a run that goes on has a few more."""
    def steps(m):
        return m.group(1) + ("8" if "--resume" in m.group(0) else "4") + m.group(2)

    text = re.sub(r"(?m)^(.*--steps )\d+(.*)$", steps, text)
    text = re.sub(r"step-000\d{5}", "step-00000004", text)
    text = re.sub(r"--trace \d+:\d+", "--trace 3:4", text)
    return re.sub(r"(--(?:eval|save)-every )\d+\b(?!m)", r"\g<1>2", text)


def commands(block):
    left = [w.strip() for w in block.says.get("run all but lines with", "").split(",") if w.strip()]
    lines = [line for line in block.text.split("\n") if not any(w in line for w in left)]
    for w in left:
        assert w in block.text, f"{block}: no line has '{w}'"
    return "\n".join(lines)


class Commands(mgctest.Case):
    def page(self, page):
        for name in "models", "examples", "scripts":
            os.symlink(os.path.join(SOURCE, name), self.path(name))
        os.symlink(BUILD, self.path("build"))
        env = {**os.environ, "PATH": BUILD + ":" + os.environ["PATH"], "HOME": self.dir}
        for b in pages.blocks(page):
            if "file" in b.says:
                self.write(b.says["file"], b.text)
            if b.kind != "sh" or "not run" in b.says:
                continue
            text = b.says.get("setup", "") + "\n" + (commands(b) if FULL else short(commands(b)))
            shell = b.says.get("in", "sh")
            r = subprocess.run([shell, "-euc", text], cwd=self.dir, env=env, capture_output=True, text=True, timeout=550,
                               stdin=subprocess.DEVNULL, check=False)
            self.assertEqual(r.returncode, int(b.says.get("exit", "0")), f"{b}\n{text}\n{r.stdout[-3000:]}\n{r.stderr[-3000:]}")


def add(page):
    name = "test_" + re.sub(r"\W", "_", page[:-len(".md")].replace("docs/", ""))
    setattr(Commands, name, lambda self: self.page(page))


for each in pages.of_docs():
    if each not in OWN and any(b.kind == "sh" and "not run" not in b.says for b in pages.blocks(each)):
        add(each)
if not FULL and len(sys.argv) < 2:
    mgctest.in_turns_of(3)(Commands)


class Something(unittest.TestCase):
    def test_there_are_commands(self):
        self.assertGreater(sum(n.startswith("test_") for n in vars(Commands)), 5)


if __name__ == "__main__":
    mgctest.main()
