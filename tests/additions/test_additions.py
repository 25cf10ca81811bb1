"""Adding is what docs/house.md says it is. On a copy of the tree: an operation, an optimizer, a collective and a pass are added
as its "To add" says, file by file (the .add files here); the copy is built, the tests that come from the tables
see what was added, and two models train with it. Then each place is forgotten once, and each column of each row: the
build has to fail, or a test where the place is a test or a document, and to name what is missing.

An .add file says of each place where it goes, and after `--` how its absence is found:
    row FILE...         without any one column of the row, one of the files does not compile
    table FILE => RE    the file does not compile with the table of optimizers that is made without the place
    lines               without any one line of the optimizer, its table is not made
    parts               without any one of its settings and states, its table is not made
    moved TO FILE => RE the file does not compile where the place stands behind TO
    compile FILE => RE  the file does not compile, and the compiler says what matches RE
    build TARGET => RE  the target is not built
    test NAME => RE     the test fails
"""

import glob
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("MGC_SOURCE", os.path.join(HERE, "../.."))
BUILD = os.environ.get("MGC_BUILD", os.path.join(SOURCE, "build"))
COPY = os.path.join(BUILD, "additions")
MADE = os.path.join(COPY, "build")
sys.path.insert(0, os.path.join(SOURCE, "tests/parity"))
from check import read_safetensors  # noqa: E402

# At most so many files of the program each takes; and how docs/house.md calls it.
KINDS = {"op": (1, "a pointwise operation"), "optimizer": (1, "an optimizer"),
         "collective": (5, "a collective"), "pass": (2, "a pass")}
# Tests that see what was added, with the targets that they need.
TESTS = {"ir-table": "ir-table", "ir_mesh": "test_ir_mesh", "passes_vjp": "test_passes_vjp",
         "passes_update": "test_passes_update", "passes_text_opposite": "passes-text", "passes_text-itself": "passes-text",
         "codegen_actions": "test_codegen_actions", "codegen_math": "test_codegen_math",
         "runtime.comm": "runtime_test_comm", "cuda_comm_2": "check_comm"}
JOBS = 2  # as many as CMakeLists.txt tells ctest
PROGRAMS = ["mgc", "mgrt", "mgc_llvm_module", "optimizer_table", "follows"]
PRELUDE = "grammar/prelude.mg"
STEPS = 6


class Place:
    def __init__(self, kind, head, body, checks):
        self.kind, self.body, self.checks = kind, body, checks
        self.file, self.how, self.anchor = (head.split(" ", 2) + [""])[:3]
        self.before = self.after = None  # the file without this place alone, and with it

    def __str__(self):
        return f"{self.kind}: {self.file} {self.how} {self.anchor}".rstrip()

    def of(self):
        """program, test or document"""
        return "document" if self.file.endswith(".md") else "test" if self.file.startswith("tests/") else "program"

    def at(self, text):
        """Where the place is in a text: behind the anchors, one after another, by whole lines."""
        at = 0
        for part in self.anchor.split(" > "):
            at = text.find(part, at)
            assert at >= 0, f"{self}: there is no '{part}'"
        return text.rfind("\n", 0, at) + 1 if self.how == "before" else text.index("\n", at) + 1


def read_places(kind):
    with open(os.path.join(HERE, kind + ".add"), encoding="utf-8") as f:
        parts = re.split(r"(?m)^== ", f.read())[1:]
    places = []
    for part in parts:
        head, _, rest = part.partition("\n")
        checks = re.findall(r"(?m)^-- (.*)\n", rest)
        body = rest[sum(len(c) + 4 for c in checks):]
        assert checks, f"{kind}: nothing is said of how {head} is missed"
        places.append(Place(kind, head, re.sub(r"\n\n\Z", "\n", body), checks))
    return places


def path(name):
    return os.path.join(COPY, name)


def read(name):
    with open(path(name), encoding="utf-8") as f:
        return f.read()


def write(name, text):
    """None: there is no such file."""
    if text is None:
        os.unlink(path(name))
        return
    with open(path(name), "w", encoding="utf-8") as f:
        f.write(text)


def run(*argv, cwd=COPY):
    r = subprocess.run([str(a) for a in argv], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       env={**os.environ, "LC_ALL": "C"}, check=False)
    return r.returncode, r.stdout.decode(errors="replace")


def must(*argv, **more):
    code, said = run(*argv, **more)
    if code:
        raise AssertionError(f"{' '.join(map(str, argv))}: exit code {code}\n{said[-6000:]}")
    return said


def build(*targets):
    return run("cmake", "--build", MADE, "-j", JOBS, "--target", *targets)


def columns(text):
    """Where the columns of a row begin and end, as NAME(a, b, ...) in C."""
    begin = at = text.index("(") + 1
    out, deep = [], 0
    for m in re.finditer(r'"[^"]*"|/\*.*?\*/|[(){},]', text[at:]):
        c, at = m.group(), text.index("(") + 1 + m.start()
        if deep == 0 and c in ",)":
            out.append((begin, at))
            begin = at + 1
            if c == ")":
                return out
        deep += (c in "({") - (c in ")}")
    raise AssertionError(f"no row: {text}")


class Additions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        shutil.rmtree(COPY, ignore_errors=True)
        names = must("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=SOURCE)
        for name in filter(None, names.split("\0")):
            if os.path.isfile(os.path.join(SOURCE, name)):
                os.makedirs(os.path.dirname(path(name)), exist_ok=True)
                shutil.copy2(os.path.join(SOURCE, name), path(name))
        cls.places = [p for kind in KINDS for p in read_places(kind)]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(COPY, ignore_errors=True)

    # ---- adding ---------------------------------------------------------------------------------

    def add(self, places):
        for p in places:
            if p.how == "written":  # by a target, when the others are in place
                p.before = read(p.file)
                continue
            if p.how == "new":
                self.assertFalse(os.path.exists(path(p.file)), p)
                write(p.file, p.body)
                continue
            text = read(p.file)
            at = p.at(text)
            write(p.file, text[:at] + p.body + text[at:])

    def without(self, p):
        """The text of a file that lacks this place alone."""
        if p.how in ("new", "written"):
            return p.before
        text = read(p.file)
        at = text.index(p.body, p.at(text) if p.how == "after" else 0)
        return text[:at] + text[at + len(p.body):]

    def configure(self):
        """With the compiler and the settings of the build that this test belongs to, but without optimization."""
        with open(os.path.join(BUILD, "CMakeCache.txt"), encoding="utf-8") as f:
            cache = dict(re.findall(r"(?m)^(\w+):\w+=(.*)$", f.read()))
        same = ["CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER", "CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER",
                "CMAKE_PREFIX_PATH", "LLVM_DIR"]
        must("cmake", "-S", COPY, "-B", MADE, "-G", cache["CMAKE_GENERATOR"], "-DCMAKE_BUILD_TYPE=None",
             "-DCMAKE_C_FLAGS=-O0", "-DCMAKE_CXX_FLAGS=-O0", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
             *[f"-D{k}={cache[k]}" for k in same if cache.get(k)])
        with open(os.path.join(MADE, "compile_commands.json"), encoding="utf-8") as f:
            self.commands = {}
            for c in json.load(f):
                self.commands.setdefault(os.path.relpath(c["file"], COPY), c["command"])

    def test_additions(self):
        began = time.monotonic()
        self.said_in_house()
        self.add(self.places)
        self.configure()
        for targets in ["op-tables"], [*PROGRAMS, *sorted(set(TESTS.values()))]:
            code, said = build(*targets)
            self.assertEqual(code, 0, said[-6000:])
        print(f"built with all that is added: {time.monotonic() - began:.0f} s", flush=True)
        self.tables()
        self.pointwise()
        self.ring()
        print(f"tested and trained: {time.monotonic() - began:.0f} s", flush=True)
        forgotten = self.forget()
        print(f"forgotten {forgotten} times, each time found: {time.monotonic() - began:.0f} s")
        self.counts()

    # ---- counts ---------------------------------------------------------------------------------

    def files(self, kind, of):
        return sorted({p.file for p in self.places if p.kind == kind and p.of() == of})

    def said_in_house(self):
        """docs/house.md names every file that an addition touches."""
        text = read("docs/house.md")
        text = text[text.index("## To add"):]
        for kind, (_, called) in KINDS.items():
            start = text.index(f"- **{called}**")
            said = text[start:text.index("\n- **", start)].replace("FOLDER/NAME", "spmd/opposite").replace("NAME", "opposite")
            for p in self.places:
                if p.kind == kind:
                    self.assertIn(f"`{p.file}`", said, f"docs/house.md does not say that {called} is a change of {p.file}")

    def counts(self):
        for kind, (most, called) in KINDS.items():
            program, tests, documents = (self.files(kind, of) for of in ("program", "test", "document"))
            print(f"{called}: of the program {len(program)} ({', '.join(program)}), "
                  f"of tests {len(tests)} ({', '.join(tests) or 'they come from its row'}), "
                  f"of documents {len(documents)} ({', '.join(documents)})")
            self.assertLessEqual(len(program), most, called)

    # ---- what was added works -------------------------------------------------------------------

    def tables(self):
        names = "|".join(map(re.escape, TESTS))
        said = must("ctest", "--test-dir", MADE, "-j", JOBS, "--output-on-failure", "-R", f"^({names})$")
        self.assertIn(f"100% tests passed, 0 tests failed out of {len(TESTS)}", said)

    def mgc(self, *argv):
        return must(os.path.join(MADE, "mgc"), *argv)

    def losses(self, program, out, steps=STEPS):
        must("./" + program, "--data", "*.window", "--steps", steps, "--out", out, "--threads", 1)
        with open(path(f"{out}/metrics.jsonl"), encoding="utf-8") as f:
            return [m["loss"] for m in map(json.loads, f) if "loss" in m]

    def windows(self, n, length):
        """Sequences of bytes, which make up a batch; the order of a batch changes the order of sums alone."""
        for name in glob.glob(path("*.window")):
            os.unlink(name)
        out = [[(i * i * 7 + 31 * k * i + 13 * k) % 97 + 32 for i in range(length)] for k in range(n)]
        for k, w in enumerate(out):
            with open(path(f"{k}.window"), "wb") as f:
                f.write(bytes(w))
        return out

    def weights(self, out):
        (name,) = glob.glob(path(f"{out}/ckpt/step-00000000/model.safetensors"))
        return {k: (shape, list(v)) for k, (_, shape, v) in read_safetensors(name).items()}

    def pointwise(self):
        """The operation and the optimizer: losses of training by hand, from the same weights."""
        self.windows(4, 9)
        shutil.copy(os.path.join(HERE, "pointwise.mg"), COPY)
        self.mgc("pointwise.mg", "-o", "pointwise")
        self.assertEqual(self.losses("pointwise", "start", 0), [])
        got = self.losses("pointwise", "trained")
        want = by_hand(self.weights("start"), self.windows(4, 9), STEPS)
        self.assertEqual(len(got), STEPS)
        off = max(abs(a - b) for a, b in zip(got, want, strict=True))
        print(f"softsign, adamax: {STEPS} losses off from those by hand by {off:.1e}")
        self.assertLess(off, 1e-9)
        self.assertGreater(got[0] - got[-1], 0.01)

    def ring(self):
        """The collective and the pass: visible in IR and C, and two ranks have the losses of one."""
        self.windows(4, 17)
        shutil.copy(os.path.join(HERE, "ring.mg"), COPY)
        shifts = {name: (text.count(" = ring_shift "), text.count(" = mirror "))
                  for name in ("split_wgrad", "opposite")
                  for text in [self.mgc("ring.mg", "-D", "cp=2", f"--print-after={name}")]}
        self.assertGreater(shifts["split_wgrad"][0], 0)
        self.assertEqual(shifts["opposite"], shifts["split_wgrad"][::-1])
        self.assertIn("ring_shift", self.mgc("ring.mg", "-D", "cp=4", "--print-after=opposite"))
        self.assertIn(".kind = MG_MIRROR", self.mgc("ring.mg", "-D", "cp=2", "--emit=c"))
        self.assertRegex(self.mgc("ring.mg", "-D", "cp=2", "--plan"), r"cp +mirror +\d+ times")
        self.mgc("ring.mg", "-o", "one")
        self.mgc("ring.mg", "-D", "cp=2", "-o", "two")
        one, two = self.losses("one", "run1"), self.losses("two", "run2")
        off = max(abs(a - b) for a, b in zip(one, two, strict=True))
        print(f"mirror, opposite: {len(one)} losses of two ranks off from those of one by {off:.1e}")
        self.assertLess(off, 1e-9)
        self.assertGreater(one[0] - one[-1], 0.01)
        must(os.path.join(MADE, "bin/follows"), path("ring.mg"), "cp=2; seq cp", "cp=2; seq cp~", "cp=2 tp=2; heads tp; seq cp~")

    # ---- forgetting -----------------------------------------------------------------------------

    def compiles(self, file, *more):
        argv = [a for a in shlex.split(self.commands[file]) if os.path.basename(a) != "ccache"]
        argv[argv.index("-o") + 1] = "/dev/null"
        return run(argv[0], *more, *argv[1:], "-S", cwd=MADE)

    def missed(self, what, result, says=""):
        code, said = result
        self.assertNotEqual(code, 0, f"{what}: nobody misses it")
        self.assertRegex(said, says or "error", f"{what}: it is not said what is missing")

    def table(self):
        """The table of optimizers of the prelude as it is now, in a folder that stands for the build's."""
        os.makedirs(os.path.join(MADE, "without/ir"), exist_ok=True)
        return run(os.path.join(MADE, "grammar/optimizer_table"), PRELUDE, os.path.join(MADE, "without/ir/optimizers.def"))

    def forget_in_row(self, p, files):
        for begin, end in columns(p.body):
            begin, end = (begin, end + 1) if p.body[end] == "," else (begin - 1, end)
            text = read(p.file)
            write(p.file, text.replace(p.body, p.body[:begin] + p.body[end:]))
            said = [self.compiles(f) for f in files]
            write(p.file, text)
            self.missed(f"{p}, without '{p.body[begin:end].strip()}'", max(said, key=lambda s: s[0] != 0))
            self.found += 1

    def forget_lines(self, p):
        lines = [line for line in p.body.splitlines(keepends=True) if re.match("[^#\n]", line)]
        self.assertEqual(len(lines), 7)
        for line in lines:
            self.forget_in_table(p, line, p.body.replace(line, ""))

    def forget_parts(self, p):
        parts = re.findall(r'\w+ = (?:\([\d., ]+\)|[\w.-]+)(?=[,)])(?=.*\{)|\w+ as "\w+"', p.body)
        self.assertEqual(len(parts), 5)
        for part in parts:
            self.forget_in_table(p, part, re.sub(rf"{re.escape(part)}, |, {re.escape(part)}", "", p.body, count=1))

    def forget_in_table(self, p, what, body):
        text = read(p.file)
        self.assertNotEqual(body, p.body)
        write(p.file, text.replace(p.body, body))
        result = self.table()
        write(p.file, text)
        self.missed(f"{p}, without {what.strip()}", result, rf"{re.escape(PRELUDE)}:\d+:\d+: error.*")
        self.found += 1

    def forget(self):
        self.found = 0
        for p in self.places:
            for check in p.checks:
                how, _, says = check.partition(" => ")
                how, *what = how.split()
                with self.subTest(place=str(p), check=check):
                    if how == "row":
                        self.forget_in_row(p, what)
                    elif how == "parts":
                        self.forget_parts(p)
                    elif how == "lines":
                        self.forget_lines(p)
                    else:
                        self.forget_place(p, how, " ".join(what), says)
        return self.found

    def forget_place(self, p, how, what, says):
        was, times = read(p.file), os.stat(path(p.file))
        write(p.file, self.without(p))
        if how == "moved":
            behind, what = what.split()
            text = read(p.file)
            at = text.index("\n", text.index(behind)) + 1
            write(p.file, text[:at] + p.body + text[at:])
        if how in ("compile", "moved"):
            result = self.compiles(what)
        elif how == "table":
            code, said = self.table()
            self.assertEqual(code, 0, said)
            result = self.compiles(what, "-I" + os.path.join(MADE, "without"))
        elif how == "build":
            result = build(what)
        else:
            code, said = build(TESTS[what])
            self.assertEqual(code, 0, said[-3000:])
            result = run("ctest", "--test-dir", MADE, "--output-on-failure", "-R", f"^{re.escape(what)}$")
        write(p.file, was)
        if how in ("compile", "moved", "table"):  # nothing was made of it
            os.utime(path(p.file), ns=(times.st_atime_ns, times.st_mtime_ns))
        self.missed(p, result, says)
        self.found += 1


# ---- by hand ------------------------------------------------------------------------------------


def by_hand(weights, windows, steps):
    """Losses of pointwise.mg: its derivative and Adamax written out."""
    lr, beta1, beta2, eps, decay = 1e-2, 0.8, 0.9, 1e-6, 0.1
    (shape_e, embed), (shape_h, head) = weights["embed.weight"], weights["head.weight"]
    vocab, hidden = shape_e
    assert shape_h == [hidden, vocab]
    m = [[0.0] * len(embed), [0.0] * len(head)]
    u = [[0.0] * len(embed), [0.0] * len(head)]
    pairs = [(w[i], w[i + 1]) for w in windows for i in range(len(w) - 1)]
    losses = []
    for step in range(1, steps + 1):
        loss, grads = 0.0, [[0.0] * len(embed), [0.0] * len(head)]
        for token, target in pairs:
            e = embed[token * hidden:(token + 1) * hidden]
            x = [a / (1 + abs(a)) for a in e]
            z = [sum(x[k] * head[k * vocab + c] for k in range(hidden)) for c in range(vocab)]
            top = max(z)
            p = [math.exp(v - top) for v in z]
            total = sum(p)
            loss += (math.log(total) + top - z[target]) / len(pairs)
            d = [v / total / len(pairs) for v in p]
            d[target] -= 1 / len(pairs)
            for k in range(hidden):
                row, gx = k * vocab, 0.0
                for c in range(vocab):
                    gx += d[c] * head[row + c]
                    grads[1][row + c] += d[c] * x[k]
                grads[0][token * hidden + k] += gx / (1 + abs(e[k])) ** 2
        losses.append(loss)
        for w, g, m1, u1 in zip((embed, head), grads, m, u, strict=True):
            for i, was in enumerate(w):
                grad = g[i] + decay * was
                m1[i] = beta1 * m1[i] + (1 - beta1) * grad
                u1[i] = max(beta2 * u1[i], abs(grad) + eps)
                w[i] = was - lr / (1 - beta1 ** step) * m1[i] / u1[i]
    return losses


if __name__ == "__main__":
    unittest.main()
