"""Common parts of the end-to-end tests: mgc, programs, scratch folders. The standard library only."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("MGC_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.environ.get("MGC_BUILD", os.path.join(SOURCE, "build"))
MGC = os.path.join(BUILD, "mgc")
MODELS = os.path.join(SOURCE, "models")
SHIPPED = sorted(name for name in os.listdir(MODELS) if name.endswith(".mg"))

# The sample of a large family turns with the commit (scripts/test); the full run takes all of it.
FULL = bool(os.environ.get("MGC_FULL"))
TURN = int(os.environ.get("MGC_TURN", "0"))


def in_turns_of(turns):
    """A class of which CI runs every so manieth test; which ones turns with the commit, but not as what tests
    choose by TURN does. MGC_FULL=1 runs all, and so does a test's name on the command line."""
    def chosen(cls):
        for i, name in enumerate(sorted(n for n in vars(cls) if n.startswith("test_"))):
            if not FULL and len(sys.argv) < 2 and (i + TURN // 7) % turns:
                delattr(cls, name)
        return cls
    return chosen


def in_turns(cls):
    """Every fifth."""
    return in_turns_of(5)(cls)


def some(family, n=1, turn=TURN):
    """One member of each nth part of a family, not always the same of them, each in some turn; in the full run all."""
    family = list(family)
    cut = [k * len(family) // n for k in range(n + 1)]
    return family if FULL else [family[a + (turn + k) % (b - a)] for k, (a, b) in enumerate(zip(cut, cut[1:]))]


# A model of one product on bytes: it compiles in no time.
TINY = """dim hidden = 16, vocab = 256, seq = 8, batch = 4

model tiny(tokens[batch, seq] : token(vocab)) {
    embed : param[vocab, hidden] ~ normal(0.1) as "embed.weight"
    head  : param[hidden, vocab] ~ normal(0.1) as "head.weight"
    x = tanh(embed[tokens])
    loss = cross_entropy(x @ head over hidden, next(tokens))
}

train {
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        cosine(peak = 1e-2, warmup = 5, steps = 50, floor = 1e-3)
    clip      1.0
    precision f32
}

layout {
    device     cpu
    mesh       pp = 1, dp = 1, cp = 1, tp = 1
    microbatch 4
    recompute  auto
}
"""


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def kept_in_bf16(path, reduce="bf16"):
    """A model of tests/parity that keeps state, parameters and sums of gradients in bf16."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    kept = re.sub(r"precision +f32", f"precision bf16(master = bf16, reduce = {reduce})", text.replace("adamw(", "adamw(state = bf16, "))
    assert kept.count("bf16") == 4, path
    return kept


SORTED_ROWS = """    z = dispatch(x, chosen, seq -> rows)
    up = grouped(z, w1, chosen, experts -> rows, over hidden)
    y = grouped(silu(up) * grouped(z, w3, chosen, experts -> rows, over hidden), w2, chosen, experts -> rows, over ffn)
    return combine(y, chosen, share / sum(share, over best), rows -> seq)
"""


def dropless(text, precision="f64"):
    """A Mixtral with slots, without these."""
    new, n = re.subn(r"(?s)    z = dispatch\(.*?-> seq\)\n", lambda m: SORTED_ROWS, text)
    new, dims = re.subn(r"slot = [^\n]*", "rows = best * seq", new)
    assert (n, dims) == (1, 1)
    return new.replace("precision f32", f"precision {precision}")


def model(name):
    return os.path.join(MODELS, name)


def few(name):
    """Options that make a shipped model of 400 billion parameters fit a device of 2 TiB."""
    return ("-D", "layers=2") if "405b" in name else ()


class Case(unittest.TestCase):
    """A test with a folder of its own, which is the working folder of what it runs."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="mgc-test-")
        self.addCleanup(self.folder.cleanup)
        self.dir = self.folder.name

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "wb" if isinstance(text, bytes) else "w") as f:
            f.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def run_program(self, *argv, timeout=120, env=None, preexec=None):
        return subprocess.run([str(a) for a in argv], cwd=self.dir, capture_output=True, timeout=timeout,
                              env={**os.environ, **(env or {})}, preexec_fn=preexec, check=False)

    def mgc(self, *argv, **more):
        """Runs mgc under a limit of memory; it must end by itself, whatever it is given."""
        r = self.run_program(MGC, *argv, preexec=limit_memory, **more)
        self.assertGreaterEqual(r.returncode, 0, f"mgc died of a signal: {r.stderr[-2000:]}")
        r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
        return r

    def work(self, *argv, runs=5):
        """The least processor time of some runs of mgc: what it takes on a machine that is not busy."""
        least = None
        for _ in range(runs):
            p = subprocess.Popen([MGC, *argv], cwd=self.dir, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = status
            self.assertEqual(status, 0)
            seconds = usage.ru_utime + usage.ru_stime
            least = seconds if least is None else min(least, seconds)
        return least

    def compiles(self, *argv, **more):
        r = self.mgc(*argv, **more)
        self.assertEqual(r.returncode, 0, r.err[-4000:])
        return r

    def refuses_each(self, text, changes):
        """Each text with a change (from, to) has an error of that code."""
        for change, code in changes:
            self.assertIn(change[0], text)
            self.write("wrong.mg", text.replace(*change))
            r = self.mgc("wrong.mg", "--check")
            self.assertNotEqual(r.returncode, 0, change)
            self.assertIn(code, r.err + r.out, change)

    def compiles_in_c(self, program, *argv):
        """A program whose kernels are in its C, made by the line in its head, without a warning."""
        self.compiles(*argv, "--emit=c", "--with-kernels", "-o", f"{program}.c")
        (line,) = re.findall(r"^ \*     (cc .*)$", self.read(f"{program}.c").decode(), re.M)
        home = os.path.join(BUILD, "lib/mgc")
        line = line.replace("HOME", home).replace("FILE.c", f"{program}.c").replace("train", program)
        r = self.run_program(*line.split(), "-Wall", "-Wextra", "-Werror")
        self.assertEqual((r.returncode, r.stderr), (0, b""), r.stderr[:4000])

    def trains(self, *argv, code=0, **more):
        """`code`: the exit code that it must have, or those that it may have."""
        r = self.run_program(*argv, **more)
        r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
        self.assertIn(r.returncode, code if isinstance(code, tuple) else (code,), r.err[-4000:] + r.out[-1000:])
        return r

    def metrics(self, run, events=False):
        """The lines of metrics.jsonl that have numbers of a step, or those about the run itself."""
        with open(os.path.join(self.dir, run, "metrics.jsonl"), encoding="utf-8") as f:
            return [line for line in map(json.loads, f) if ("event" in line) == events]

    def text(self, size, seed=1):
        """A file of English-looking bytes, the same for the same seed."""
        import random
        r = random.Random(seed)
        words = ["".join(r.choice("etaoinshrdlu") for _ in range(r.randint(1, 8))) for _ in range(200)]
        out = []
        while sum(len(w) + 1 for w in out) < size:
            out += r.choices(words, k=50)
        return self.write(f"text{seed}.txt", " ".join(out)[:size])


main = unittest.main
