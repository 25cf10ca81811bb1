"""The commands of docs/ and README.md, page by page, as a reader gives them, in a folder where build/, models/, examples/ and scripts/ lie.
Without MGC_FULL runs are short: --steps N is 4 (or 8 with --resume), and every third page is taken. With it N is at most 100, so that all pages
together take some minutes of processors, which are said block by block."""

import contextlib
import os
import re
import resource
import signal
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


def not_long(text):
    """The same without the steps in which a model only learns more."""
    return re.sub(r"--steps (\d+)", lambda m: f"--steps {min(100, int(m.group(1)))}", text)


def run(words, timeout=3000, **more):
    """Its output and exit code. What it has started ends with it, also when it takes too long."""
    p = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, start_new_session=True, **more)
    try:
        out, err = p.communicate(timeout=timeout)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()
    return subprocess.CompletedProcess(words, p.returncode, out, err)


def commands(block):
    left = [w.strip() for w in block.says.get("run all but lines with", "").split(",") if w.strip()]
    lines = [line for line in block.text.split("\n") if not any(w in line for w in left)]
    for w in left:
        assert w in block.text, f"{block}: no line has '{w}'"
    return "\n".join(lines)


def work():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Commands(mgctest.Case):
    def page(self, page):
        for name in "models", "examples", "scripts":
            os.symlink(os.path.join(SOURCE, name), self.path(name))
        os.symlink(BUILD, self.path("build"))
        env = {**os.environ, "PATH": BUILD + ":" + os.environ["PATH"], "HOME": self.dir}
        printed = ""
        for b in pages.blocks(page):
            if "output" in b.says:
                self.assertIn(b.text, printed, str(b))
            if "file" in b.says:
                self.write(b.says["file"], b.text)
            if b.kind != "sh" or "not run" in b.says:
                continue
            text = b.says.get("setup", "") + "\n" + (not_long if FULL else short)(commands(b))
            shell, used = b.says.get("in", "sh"), work()
            r = run([shell, "-euc", text], cwd=self.dir, env=env)
            printed = r.stdout + r.stderr
            if FULL:
                print(f"{work() - used:6.1f} s of processors: {b}", file=sys.stderr)
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
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what runs ends, too
    mgctest.main()
