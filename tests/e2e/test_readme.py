"""README.md is true: it is short, its links lead somewhere, its model is the shipped one, and its commands run as they
stand there, with less data and fewer steps. So do those of docs/commands.md that need nothing but this repository."""

import os
import re
import shlex
import unittest

import mgctest
from mgctest import BUILD, SOURCE

PAGES = ("README.md", "docs/commands.md", "docs/status.md", "docs/diff.md", "docs/house.md")
ELSEWHERE = ("scripts/setup", "scripts/demo", "scripts/test", "cmake ")  # they build what runs here
NEEDS = ("~/", "qwen3.mg", "corpus.bin", "release", "run/ckpt/step-00002000", "llama3_lora_sft.yaml", "preflight", "calibrate", "mpirun", "watch", "board", "report run",
         "search", "--device=h200 -o", "--chat", "F.mg", "transformers")  # files of others, machines, terminals, minutes


def text_of(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        return f.read()


def commands_of(text):
    """Lines of code blocks that are commands, without what is said behind them."""
    for block in re.findall(r"(?ms)^```\n(.*?)^```", text):
        for line in block.splitlines():
            if re.match(r"(build/mgc|\./\w+|scripts/|cmake) ?", line):
                yield re.sub(r" {2,}#.*| # .*", "", line).strip()


class Readme(mgctest.Case):
    def test_is_short_and_begins_with_two_commands(self):
        text = text_of("README.md")
        self.assertLessEqual(text.count("\n"), 120)
        self.assertEqual([c.split()[0] for c in list(commands_of(text))[:2]], ["scripts/demo", "scripts/test"])
        for picture in re.findall(r'(?:srcset|src)="([^"]+)"', text):
            self.assertLess(os.path.getsize(os.path.join(SOURCE, picture)), 64 << 10)

    def test_links(self):
        for page in PAGES:
            text = re.sub(r"(?ms)^```.*?^```", "", text_of(page))
            links = re.findall(r"\]\(([^)#]+)(#[^)]*)?\)", text)
            self.assertTrue(links or page == "docs/diff.md", page)
            for link, _ in links:
                self.assertTrue(os.path.exists(os.path.join(SOURCE, os.path.dirname(page), link)), f"{page}: {link}")

    def test_model(self):
        (shown,) = re.findall(r"(?ms)^```\n(dim .*?)^```", text_of("README.md"))
        shipped = re.sub(r"(?m)^#.*\n", "", text_of("models/mlp.mg"))
        self.assertTrue(shipped.startswith(shown), "the model of README.md is models/mlp.mg")

    def runs(self, page, turns=1):
        """Of commands that make nothing for others, those of the turn."""
        os.symlink(os.path.join(SOURCE, "models"), self.path("models"))
        os.symlink(BUILD, self.path("build"))
        os.rename(self.text(40000), self.path("book.txt"))
        done = []
        for i, command in enumerate(commands_of(text_of(page))):
            if "./" not in command and " -o " not in command and not mgctest.FULL and (i + mgctest.TURN) % turns:
                continue
            if command.startswith(ELSEWHERE) or any(n in command for n in NEEDS):
                continue
            for argv in ([*shlex.split(c)] for c in command.split("&&")):
                argv = ["3" if a == "400" else a for a in argv]
                argv[0] = os.path.join(BUILD, "mgc") if argv[0] == "build/mgc" else self.path(argv[0])
                r = self.run_program(*argv, timeout=300)
                self.assertEqual(r.returncode, 0, (command, r.stderr.decode()[-2000:]))
                done.append(command)
        return done

    def test_commands_of_readme(self):
        done = self.runs("README.md")
        self.assertEqual(len(done), 4, done)
        self.assertTrue(os.path.exists(self.path("run/loss.svg")))

    def test_commands(self):
        self.assertGreater(len(self.runs("docs/commands.md", 3)), 18 if mgctest.FULL else 8)


if __name__ == "__main__":
    mgctest.main()
