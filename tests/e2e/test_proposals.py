"""Every remedy that a message proposes is applied as --proposals writes it, and does what it is for: its error is
gone, and no other has come."""

import glob
import json
import os
import re
import shlex

import mgctest
from mgctest import SOURCE

ERROR = re.compile(r"^(?:(\S+):(\d+):(\d+)|mgc): error\[(MG\d+)\]", re.M)

# Two towers and a loss that compares each sample with all others.
PAIRS = """dim batch = 24, other = batch, width = 8, inner = width, deep = 4
model pairs(x[batch, width], y[batch, width]) {
    p = x
    repeat deep as "layers.{}" {
        w : param[width, inner] ~ normal(0.2) as "w"
        p = p + tanh(p @ w over width)[inner -> width]
    }
    z = p @ (y[batch -> other]) over width
    loss = mean(log(sum(exp(z), over other)) - sum(p * y, over width))
}
train { optimizer sgd()  lr 1e-2 }
"""

# Layers that add up what they compute.
LAYERS = """dim batch = 36, width = 8, inner = width, deep = 3
model layers(x[batch, width], y[batch, width]) {
    repeat deep as "layers.{}" {
        w : param[width, inner] ~ normal(0.2) as "w"
        gate = tanh(x @ w over width)
        x = x + gate[inner -> width]
    }
    loss = mean((x - y) * (x - y))
}
train { optimizer sgd()  lr 1e-2  precision f32 }
"""

PENALTY = LAYERS.replace("(x - y))\n", "(x - y)) + 0.1 * mean(v * v)\n").replace("    repeat", "    v : param[width] = 1\n    repeat")


# A mean over the batch that the model goes on with.
NORM = LAYERS.replace("gate = tanh(x @ w over width)", "g = tanh(x @ w over width)\n        gate = g - mean(g, over batch)")


def layout(mesh, rules, microbatch, more=""):
    return f"layout {{\n    device cpu\n    mesh {mesh}\n    {rules}\n    microbatch {microbatch}\n    {more}\n}}\n"


INTERLEAVED = "deep -> s (schedule = interleaved, chunks = 2)"
# Cases that the shipped wrong sources do not show: a name, its text, and options.
OWN = [
    ("whole_batch", PAIRS + layout("dp = 3", "batch -> dp", 2), []),
    ("whole_batch_option", PAIRS + layout("dp = 3", "batch -> dp", 8), ["--microbatch", "4"]),
    ("along_the_batch", PAIRS + layout("s = 2", "deep -> s", 2), []),
    ("groups", LAYERS + layout("dp = 4, s = 2", "batch -> dp\n    " + INTERLEAVED, 3), ["-D", "deep=4"]),
    ("groups_of_a_microbatch", LAYERS + layout("s = 2", INTERLEAVED, 12), ["-D", "deep=4"]),
    ("over_the_batch", NORM + layout("dp = 2", "batch -> dp", 9), []),
    ("stages", LAYERS + layout("s = 4", INTERLEAVED.replace("2", "3"), 1), []),
    ("no_tree", LAYERS.replace("f32", "f32(reduce = tree)") + layout("s = 2", "deep -> s", 9), []),
    ("penalty", PENALTY.replace("f32", "f32(reduce = tree)") + layout("dp = 2", "batch -> dp", 9), ["-D", "batch=36"]),
    ("kept", LAYERS + layout("dp = 1", "", 9, "recompute keep [gat]"), []),
    ("short", LAYERS + layout("dp = 1", "", 1, "assert step < 20 us"), ["--device", "cpu2t"]),
    ("misspelt_define", LAYERS, ["-D", "depe=4"]),
    ("misspelt_layout", LAYERS + layout("dp = 1", "", 9).replace("layout", "layout many"), ["--layout", "manny"]),
]
GPIPE = "0F0,0SENDF0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"
PIPELINES = [
    ["interleaved", "--ranks=4", "--microbatches=10"],
    ["interleaved", "--ranks=4", "--microbatches=8", "--chunks=1"],
    ["interleaved", "--ranks=4", "--microbatches=8", "--group=3"],
    ["1f1b", "--ranks=4", "--microbatches=8", "--chunks=2"],
    ["gpipe", "--ranks=64", "--microbatches=4097"],
]
# Those that are expected at least: a code that has none any more has lost them.
CODES = {201, 203, 213, 216, 236, 237, 240, 245, 248, 260, 262, 301, 303, 304, 307, 308, 311, 320, 322, 323, 324, 325,
         326, 327, 332, 333, 334, 335, 336, 339, 340, 342, 344, 522, 523, 524, 552, 581, 582, 583}


def offsets(text):
    at = [0]
    for line in text.splitlines(keepends=True):
        at.append(at[-1] + len(line))
    return at


class Proposals(mgctest.Case):
    def errors(self, r, texts):
        """The errors as a set: code, file and the byte where each is."""
        found = set()
        for file, line, column, code in ERROR.findall(r.err):
            begin = offsets(texts[file])[int(line) - 1] + int(column) - 1 if file in texts else 0
            found.add((code, file, begin))
        return found

    def compile(self, argv, texts):
        for name, text in texts.items():
            self.write(name, text)
        if os.path.exists(self.path("told.json")):
            os.remove(self.path("told.json"))
        r = self.mgc(*argv, "--proposals", "told.json")
        told = json.loads(self.read("told.json")) if os.path.exists(self.path("told.json")) else []
        return self.errors(r, texts), told, r

    def applied(self, argv, texts, remedy):
        """The command line and the texts with the edits, and where a byte of a text was before them."""
        argv, texts, shifts = list(argv), dict(texts), {}
        for e in reversed(remedy["edits"]):
            if "option" in e:
                argv = self.with_option(argv, e["option"])
            elif e["file"] == "-D":
                k = argv.index("-D") + 1
                argv[k] = argv[k][:e["begin"]] + e["with"] + argv[k][e["end"]:]
            else:
                t = texts[e["file"]].encode()
                texts[e["file"]] = (t[:e["begin"]] + e["with"].encode() + t[e["end"]:]).decode()
                shifts.setdefault(e["file"], []).insert(0, e)

        def before(file, at):
            longer = 0
            for e in shifts.get(file, []):
                size = len(e["with"])
                if at < e["begin"] + longer:
                    break
                if at < e["begin"] + longer + size:
                    return e["begin"]
                longer += size - (e["end"] - e["begin"])
            return at - longer

        return argv, texts, before

    @staticmethod
    def with_option(argv, option):
        name, value = option.split(" ")
        if name == "-D":
            return [*argv, name, value]
        rest, skip = [], False
        for a in argv:
            if not skip and a != name and not a.startswith(name + "="):
                rest.append(a)
            skip = a == name
        return [*rest, name, value]

    def works(self, argv, texts, wrong, remedy):
        argv, texts, before = self.applied(argv, texts, remedy)
        now, _, r = self.compile(argv, texts)
        own = (remedy["code"], remedy["file"] or "", remedy["begin"])
        after = {(code, file, before(file, at)) for code, file, at in now}
        return own not in after and (after <= wrong) and (bool(now) or r.returncode == 0)

    def each(self, argv, texts):
        """The remedies of a source, each of which was applied."""
        wrong, told, r = self.compile(argv, texts)
        self.assertEqual(r.err.count("\nhelp: ") >= len(told), True, r.err)
        for t in told:
            self.assertIn("help: " + t["help"], r.err)
            with self.subTest(argv=argv, help=t["help"]):
                self.assertTrue(self.works(argv, texts, wrong, t), t)
        return wrong, told

    def sources(self):
        """Sources that cause messages, with the options of the tests that they are."""
        for path in sorted(glob.glob(os.path.join(SOURCE, "tests/grammar/errors/*.mg"))):
            yield from self.lines(path, r"# RUN: not %front check (%s.*?) 2>&1")
        for path in sorted(glob.glob(os.path.join(SOURCE, "tests/golden/*.mg"))):
            yield from self.lines(path, r"# RUN: not %mgc (%s.*?) --check 2>&1")

    def lines(self, path, form):
        with open(path, encoding="utf-8", newline="") as f:
            try:
                text = f.read()
            except UnicodeDecodeError:
                return
        for line in re.findall(form, text):
            options = shlex.split(line.replace("%S", os.path.dirname(path)))[1:]
            if not any("%" in o for o in options):
                yield [os.path.basename(path), *options, "--check"], {os.path.basename(path): text}

    def own(self):
        for name, text, options in OWN:
            yield [name + ".mg", *options, "--check"], {name + ".mg": text}
        for argv in PIPELINES:
            yield ["pipeline", *argv], {}
        yield ["pipeline", "t.csv"], {"t.csv": GPIPE}

    def test_each_does_what_it_says(self):
        codes, applied = {}, 0
        for argv, texts in [*self.sources(), *self.own()]:
            _, told = self.each(argv, texts)
            for t in told:
                codes[t["code"]] = codes.get(t["code"], 0) + 1
                applied += 1
        print(f"{applied} remedies applied, of {len(codes)} codes: {codes}")
        self.assertLessEqual({f"MG{c:04}" for c in CODES}, set(codes))

    def test_none_of_a_pipeline_along_the_batch(self):
        """A whole batch as a microbatch is refused there as well: nothing is proposed that has the same end."""
        _, told, r = self.compile(["m.mg", "--check"], {"m.mg": PAIRS + layout("s = 2", "deep -> s", 24)})
        self.assertIn("MG0522", r.err)
        self.assertEqual(told, [])
        self.assertNotIn("help:", r.err)

    def test_a_wrong_one_is_found(self):
        """A remedy that is changed into a wrong one does not pass for a remedy here."""
        argv, texts = ["m.mg", "--check"], {"m.mg": PAIRS + layout("dp = 3", "batch -> dp", 2)}
        wrong, told, _ = self.compile(argv, texts)
        good = next(t for t in told if t["code"] == "MG0216")
        self.assertTrue(self.works(argv, texts, wrong, good))
        for edit in ({"with": "4"}, {"with": "5"}, {"with": "8 8"}, {"begin": 0, "end": 3}):
            bad = {**good, "edits": [{**good["edits"][0], **edit}]}
            self.assertFalse(self.works(argv, texts, wrong, bad), edit)
        self.assertFalse(self.works(argv, texts, wrong, {**good, "edits": [{"option": "--microbatch 6"}]}))


if __name__ == "__main__":
    mgctest.main()
