"""Man pages and completions: what they say of mgc is what mgc does, their form is right, and bash, zsh and fish complete by them."""

import json
import os
import re
import shutil
import subprocess
import time
import unittest

import mgctest
from mgctest import BUILD, FULL, SOURCE, TINY

SHARE = os.path.join(BUILD, "share")
MAN = os.path.join(SHARE, "man/man1")
with open(os.path.join(SHARE, "manual.json"), encoding="utf-8") as f:
    TABLES = json.load(f)
EVERY = {"help", "version", "proposals"}

# Each command with what it needs beside the option that is tried, so that it gets no further than its input, which is not there.
BASE = {
    "": ["gone.mg", "--check"], "explain": ["gone.mg", "name"], "fmt": ["gone.mg"], "import-hf": ["gone"],
    "tune": ["gone", "--lora=rank=4", "-o", "x"], "import-yaml": ["gone.yaml"], "import-ds": ["gone.json"],
    "merge": ["gone", "--base=none", "-o", "x"], "tok": ["gone.txt", "--tokenizer=none.json", "-o", "x"], "gguf": ["gone", "-o", "x"],
    "report": ["gone.json"], "watch": ["gone"], "board": ["gone"], "pipeline": ["gone.csv"],
    "search": ["gone.mg", "--device=cpu", "--ranks=2"], "scale": ["gone.mg", "--device=cpu", "--ranks=2"],
    "calibrate": ["--device=./gone.json"], "preflight": ["./gone"], "commbench": ["./gone"], "diff": ["gone.mg", "gone.mg"], "lsp": [],
    "env": [],
}
# Options that a command takes only with others, or whose meaning depends on them: the words that stand in place of BASE's.
WITH = {
    ("", "output"): ["gone.mg"], ("", "emit"): ["gone.mg"], ("", "with-kernels"): ["gone.mg", "--emit=c"],
    ("", "from"): ["--check"], ("calibrate", "emit"): ["--device=./gone.json", "-o", "x"], ("calibrate", "output"): ["--device=./gone.json"],
    ("board", "bind"): ["gone", "--serve"], ("board", "serve"): ["gone", "--bind=no.address"], ("tune", "dora"): ["gone", "-o", "x"], ("tune", "on"): ["gone", "--lora=rank=4", "-o", "x"],
    ("tune", "with-kernels"): ["gone", "--lora=rank=4", "-o", "x", "--emit=c"], ("tok", "output"): ["gone.txt", "--tokenizer=none.json"],
    ("tok", "tokenizer"): ["gone.txt", "-o", "x"], ("merge", "output"): ["gone", "--base=none"], ("merge", "base"): ["gone", "-o", "x"],
    ("gguf", "output"): ["gone"], ("search", "device"): ["gone.mg", "--ranks=2"], ("search", "ranks"): ["gone.mg", "--device=cpu"],
    ("scale", "device"): ["gone.mg", "--ranks=2"], ("scale", "ranks"): ["gone.mg", "--device=cpu"], ("calibrate", "device"): [],
    ("tune", "output"): ["gone", "--lora=rank=4"], ("tune", "lora"): ["gone", "-o", "x"],
    ("import-hf", "packed"): ["gone"], ("commbench", "device"): ["./gone"],
}
VALUES = {"launch": "'true'", "device": "./gone.json", "ranks": "2", "define": "n=1", "layout": "x", "elastic": "1..2", "output": "x", "print-after": "all",
          "bind": "no.address"}


def value(o):
    """A value that the option takes; None: it is given without one."""
    if o["value"] != "needs":
        return None
    return VALUES.get(o["name"]) or (o["argument"].split("|")[0] if re.fullmatch(r"[a-z0-9_|-]+", o["argument"]) else "1")


class Tables(mgctest.Case):
    def test_commands_take_what_is_said(self):
        """Of each command and option: mgc refuses the command line as such, or gets as far as its input. In turns; all in the full run."""
        os.mkdir(self.path("d"))
        commands = list(TABLES["takes"])
        self.assertEqual(set(commands), {""} | {c["name"] for c in TABLES["commands"]}, "compiler/takes.def has a row for each command")
        self.assertEqual(set(commands), set(BASE), "BASE above says what each command needs beside an option")
        wrong, tried = [], 0
        for command in commands if FULL else mgctest.some(commands, 7):
            for o in TABLES["mgc"]:
                if o["name"] in EVERY:
                    continue
                words = WITH.get((command, o["name"]), BASE[command])
                v = "source" if (command, o["name"]) == ("calibrate", "emit") else value(o)
                option = f"--{o['name']}" + (f"={v}" if v is not None else "")
                r = self.mgc(*([command] if command else []), *words, option, timeout=30)
                refused = r.returncode == 2 and re.search(r"the form is: mgc|is an option of|are options of|is for --generate|does not take|makes no code|continues from a text", r.err) is not None
                taken = o["name"] in TABLES["takes"][command].split()
                if o["name"] in ("sequences", "prefill", "choices") and "for --generate" in r.err:
                    refused = False
                tried += 1
                if taken == refused:
                    wrong.append(f"mgc {command} {option}: compiler/takes.def says it is {'taken' if taken else 'not taken'}: {r.returncode} {r.err[:150]}")
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))
        self.assertGreater(tried, 100)

    def test_exits_and_variables(self):
        """Exit codes are those of --help, and every variable that is read is told, or is one of tests or of launchers."""
        self.write("m.mg", TINY)
        self.assertEqual(self.mgc("m.mg", "-o", "train").returncode, 0)
        for of, argv in ("mgc", [mgctest.MGC]), ("train", ["./train"]):
            said = re.split(r"[Ee]xit(?: codes)?: ", self.trains(*argv, "--help").out)[1].split("\n\n")[0]
            self.assertEqual([e["name"] for e in TABLES["exits"] if e["of"] == of], re.findall(r"(?:^|[,\n])\s*(\d+) ", said))
        read = set()
        for folder, _, names in os.walk(SOURCE):
            if os.path.relpath(folder, SOURCE).split("/")[0] in ("compiler", "runtime", "codegen", "base", "kernels"):
                for name in (n for n in names if n.endswith((".c", ".h"))):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        text = file.read()
                    read |= set(re.findall(r'getenv\("(\w+)"\)', text)) | set(re.findall(r'"(MGC_[A-Z_]+|MASTER_\w+)"', text))
        inner = {"MGC_FAKE_CLOCK", "MGC_FAKE_HOSTS", "MGC_GENERATION", "MGC_SUPERVISOR", "TERM", "PMIX_NAMESPACE", "PMI_FD", "PMI_RANK",
                 "MGC_ABI", "MGC_VERSION"}
        told = {v["name"] for v in TABLES["variables"]}
        self.assertEqual(read - inner - told, set(), "docs/manual/manual.def lacks these variables")
        everything = subprocess.run(["grep", "-rhoE", r'"[A-Z_]{4,}"', *(os.path.join(SOURCE, d) for d in ("compiler", "runtime", "codegen"))],
                                    capture_output=True, text=True, check=True).stdout
        self.assertEqual({v for v in told if f'"{v}"' not in everything}, set(), "nothing reads these variables")

    def test_help_is_the_table(self):
        self.write("m.mg", TINY)
        self.assertEqual(self.mgc("m.mg", "-o", "train").returncode, 0)
        for of, argv in ("mgc", [mgctest.MGC]), ("train", ["./train"]):
            said = set(re.findall(r"(?m)^  (?:-\w[^,\n]*, )?--([a-z0-9-]+)", self.trains(*argv, "--help").out))
            self.assertEqual({o["name"] for o in TABLES[of]}, said)


class Pages(unittest.TestCase):
    def test_pages(self):
        want = {"mgc.1", "mgc-train.1"} | {f"mgc-{c}.1" for c in TABLES["takes"] if c}
        self.assertEqual(set(os.listdir(MAN)), want)
        for name in want:
            with open(os.path.join(MAN, name), encoding="utf-8") as file:
                text = file.read()
            for part in "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO":
                self.assertIn(f".SH {part}\n", text, name)
            self.assertFalse(re.search(r"(?m)^'", text), f"{name}: a line that troff reads as a request")

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_reads_them(self):
        for name in sorted(os.listdir(MAN)):
            r = subprocess.run(["man", "--warnings", "-l", "-E", "UTF-8", "-Z", os.path.join(MAN, name)], capture_output=True, check=False,
                               env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"})
            self.assertEqual((r.returncode, r.stderr.decode()), (0, ""), name)
        shown = subprocess.run(["man", "-l", os.path.join(MAN, "mgc-tok.1")], capture_output=True, text=True, check=True,
                               env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"}).stdout
        self.assertIn("--train-on=assistant|last|all", re.sub(".\b", "", shown))

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_reads_them(self):
        for name in sorted(os.listdir(MAN)):
            r = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", os.path.join(MAN, name)], capture_output=True, text=True, check=False)
            said = [line for line in r.stdout.split("\n") if line and "missing date" not in line]
            self.assertEqual(said, [], name)


class Completion(mgctest.Case):
    """Lines that a person has typed, and what Tab offers."""

    def bash(self, *words):
        script = f""". {SHARE}/completions/mgc.bash
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
spec=$(complete -p "${{1##*/}}"); spec=${{spec#*-F }}; "${{spec%% *}}" "$1" "${{@: -1}}" "${{@: -2:1}}" 2>&1
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        r = self.run_program("bash", "--norc", "-uc", script, "bash", *words)
        self.assertEqual(r.stderr, b"")
        return [w for w in r.stdout.decode().split("\n") if w]

    def check(self, complete):
        self.write("model.mg", "")
        self.write("corpus.bin", "")
        os.mkdir(self.path("weights"))
        tok = {"--" + o for o in TABLES["takes"]["tok"].split()}
        self.assertLessEqual({o for o in tok if o.startswith("--to")}, set(complete("mgc", "tok", "--to")))
        self.assertNotIn("--topology", complete("mgc", "tok", "--to"))
        self.assertNotIn("--tokenizer", complete("mgc", "search", "--to"))
        self.assertIn("--tokens", complete("mgc", "search", "--to"))
        self.assertIn("--plan", [w.split("=")[0] for w in complete("mgc", "model.mg", "--pl")])
        self.assertLessEqual({"search", "scale"}, set(complete("mgc", "s")))
        self.assertIn("MG0207", complete("mgc", "explain", "MG020"))
        self.assertNotIn("MG0310", complete("mgc", "explain", "MG020"))
        self.assertIn("model.mg", complete("mgc", "mo"))
        self.assertLessEqual({"h100", "h200"}, set(complete("mgc", "model.mg", "--device", "h")))
        self.assertIn("--max-restarts", complete("train", "--max-r"))
        self.assertNotIn("--tokens", complete("train", "--tok"))

    def test_bash(self):
        self.check(self.bash)
        self.assertEqual(set(self.bash("mgc", "model.mg", "--recompute", "")), {"auto", "none", "all"})
        self.assertEqual(set(self.bash("mgc", "model.mg", "--emit", "=", "c")), {"c", "cuda"})
        self.assertEqual(self.bash("mgc", "model.mg", "--plan", "=", ""), ["json"])
        self.assertIn("model.mg", self.bash("mgc", "--plan", ""))  # a value of --plan stands behind '=' alone
        self.assertEqual(self.bash("./train", "--init", "wei"), ["weights"])
        self.assertEqual(self.bash("./train", "--save", "b"), ["beside", "blocking"])
        self.assertEqual(self.bash("./train", "--data", "=", "cor"), ["corpus.bin"])
        self.assertEqual(self.bash("./train", "--steps", ""), [])
        self.assertEqual(self.bash("mgc", "-o", "wei"), ["weights"])
        self.assertNotIn("search", self.bash("mgc", "model.mg", ""))

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish(self):
        def fish(*words):
            line = " ".join(words)
            r = self.run_program("fish", "--no-config", "-c", f"source {SHARE}/completions/mgc.fish; complete -C {json.dumps(line)}",
                                 env={"HOME": self.dir})
            self.assertEqual(r.stderr, b"")
            return [w.split("\t")[0] for w in r.stdout.decode().split("\n") if w]
        self.check(fish)
        self.assertEqual(set(fish("mgc", "model.mg", "--recompute", "")), {"auto", "none", "all"})

    @unittest.skipUnless(shutil.which("zsh") and shutil.which("tmux"), "zsh or tmux is not installed")
    def test_zsh(self):
        """As a person sees it, in a terminal."""
        r = self.run_program("zsh", "-n", f"{SHARE}/completions/_mgc")
        self.assertEqual((r.returncode, r.stderr), (0, b""))
        self.write("model.mg", "")
        self.write("train", "")
        os.chmod(self.path("train"), 0o755)
        tmux = ["tmux", "-L", f"mgc-test-{os.getpid()}", "-f", "/dev/null"]
        self.run_program(*tmux, "new-session", "-d", "-x", "180", "-y", "50", "zsh -f", env={"HOME": self.dir, "TERM": "xterm", "LC_ALL": "C.UTF-8"})
        self.addCleanup(self.run_program, *tmux, "kill-server")

        def wait(what, until):
            end = time.monotonic() + 60
            while time.monotonic() < end:
                screen = self.run_program(*tmux, "capture-pane", "-p").stdout.decode()
                if until(screen):
                    return screen
                time.sleep(0.2)
            return self.fail(f"{what} is not seen:\n{screen}")

        def seen(*words):
            return wait(words, lambda screen: all(w in screen for w in words))

        def keys(*what):
            self.assertEqual(self.run_program(*tmux, "send-keys", *what).returncode, 0)

        def tab(line, *words):
            keys("C-u")  # not C-c, which takes with it what is typed right behind
            keys("C-l")
            wait("an empty screen", lambda screen: screen.strip() == ">")
            keys("-l", line)
            keys("Tab")
            return seen(*words)
        keys(f"fpath=({SHARE}/completions $fpath); autoload -Uz compinit; compinit -u -D; setopt no_list_beep list_ambiguous; PS1='> '; print REA''DY", "Enter")
        seen("READY")
        self.assertNotIn("--tokens", tab("mgc tok --to", "--tokenizer", "--too-long", "at their end"))
        self.assertNotIn("--tokenizer", tab("mgc search x --to", "--tokens"))
        tab("mgc s", "search", "scale")
        tab("mgc explain MG020", "MG0207", "MG0201")
        tab("mgc model.mg --recompute=", "auto", "none", "all")
        tab("mgc model.mg --device h", "h100", "h200")
        tab("mgc mo", "model.mg")
        tab("./train --max-r", "--max-restarts")


if __name__ == "__main__":
    mgctest.main()
