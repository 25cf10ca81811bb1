"""The Python module: what it gives is what mgc and its programs say, its errors carry code and place, its tensors the bytes of files."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["MGC_SOURCE"], os.environ["MGC_BUILD"]
os.environ["MGC_COMMAND"] = os.path.join(BUILD, "mgc")
sys.path[:0] = [os.path.join(SOURCE, "python"), os.path.join(SOURCE, "tests/e2e")]

import mgc  # noqa: E402
from mgctest import TINY  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="mgc-test-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        self.write("tiny.mg", TINY)
        self.write("text", "all work and no play makes a dull page. " * 200)

    def write(self, name, data):
        with open(name, "wb" if isinstance(data, bytes) else "w") as f:
            f.write(data)

    def read(self, name):
        with open(name, "rb") as f:
            return f.read()

    def safetensors(self, name, tensors, metadata=None):
        """A file of (dtype, shape, bytes) by name."""
        header, data = ({"__metadata__": metadata} if metadata else {}), b""
        for key, (dtype, shape, some) in tensors.items():
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(some)]}
            data += some
        text = json.dumps(header).encode()
        self.write(name, struct.pack("<Q", len(text)) + text + data)


class Compile(Case):
    def test_plan(self):
        """The plan is what the command prints, with overrides."""
        program = mgc.compile("tiny.mg", D={"hidden": 32}, precision="bf16")
        said = subprocess.run([mgc.command(), "tiny.mg", "-D", "hidden=32", "--precision", "bf16", "--plan=json"], capture_output=True, check=True)
        self.assertEqual(program.plan, json.loads(said.stdout))
        self.assertEqual(program.plan["params"], 2 * 256 * 32)
        self.assertEqual(mgc.compile("tiny.mg").plan["params"], 2 * 256 * 16)

    def test_refused(self):
        self.write("wrong.mg", TINY.replace("over hidden", "over hiden"))
        with self.assertRaises(mgc.CompileError) as e:
            mgc.compile("wrong.mg")
        said = subprocess.run([mgc.command(), "wrong.mg", "--check"], capture_output=True, text=True, check=False)
        e = e.exception
        self.assertEqual((e.code, e.file, e.line, e.returncode), ("MG0203", "wrong.mg", 7, said.returncode))
        self.assertEqual(e.column, TINY.splitlines()[6].index("hidden, next") + 1)
        self.assertIn("hiden", e.text)
        self.assertIn(f"wrong.mg:{e.line}:{e.column}: error[MG0203]: {e.text}", said.stderr)

    def test_several(self):
        self.write("wrong.mg", TINY.replace("cosine(", "cosin(").replace("adamw(", "adamv("))
        with self.assertRaises(mgc.CompileError) as e:
            mgc.compile("wrong.mg")
        errors = [d for d in e.exception.diagnostics if d.severity == "error"]
        self.assertEqual([d.line for d in errors], [11, 12])

    def test_notes_and_helps(self):
        self.write("large.mg", TINY.replace("    recompute  auto\n", "    recompute  auto\n    assert peak < 1 KB\n"))
        with self.assertRaises(mgc.CompileError) as e:
            mgc.compile("large.mg")
        (error,) = e.exception.diagnostics
        self.assertEqual((error.code, error.line, e.exception.returncode), ("MG0551", 22, 3))
        self.assertIn("large.mg:4:5: embed: 16384 bytes (16 KiB)", error.notes)
        self.assertTrue(error.helps)
        for text in (*error.notes, *error.helps):
            self.assertIn(text.split(": ", 1)[-1], e.exception.said)

    def test_no_file(self):
        with self.assertRaises(mgc.CompileError) as e:
            mgc.compile("none.mg")
        self.assertEqual((e.exception.code, e.exception.line), ("MG0560", None))

    def test_unknown_option(self):
        with self.assertRaises(mgc.CompileError) as e:
            mgc.compile("tiny.mg", colour="red")
        self.assertEqual(e.exception.returncode, 2)
        self.assertIn("colour", e.exception.text)

    def test_no_command(self):
        old = os.environ.pop("MGC_COMMAND"), os.environ.pop("PATH")
        self.addCleanup(os.environ.update, {"MGC_COMMAND": old[0], "PATH": old[1]})
        with self.assertRaises(mgc.Error):
            mgc.compile("tiny.mg")

    def test_warnings(self):
        """A warning is no error, and is there."""
        self.write("warns.mg", "dim unused = 3\n" + TINY)
        (warning,) = mgc.compile("warns.mg").warnings
        self.assertEqual((warning.severity, warning.code, warning.line, warning.column), ("warning", "MG0290", 1, 5))
        self.assertIn("unused", str(warning))
        self.assertEqual(mgc.compile("tiny.mg").warnings, ())

    def test_version(self):
        with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as f:
            self.assertIn(f"project(mgc VERSION {mgc.version()} ", f.read())
        with open(os.path.join(SOURCE, "CHANGELOG.md"), encoding="utf-8") as f:
            newest = next(line for line in f if line.startswith("## [") and "[Unreleased]" not in line)
        self.assertIn(f"## [{mgc.version()}]", newest)

    def test_as_a_command(self):
        env = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")}
        said = subprocess.run([sys.executable, "-m", "mgc", "--version"], capture_output=True, text=True, check=True, env=env)
        self.assertEqual(said.stdout, f"mgc {mgc.version()}\n")
        said = subprocess.run([sys.executable, "-m", "mgc", "none.mg"], capture_output=True, text=True, check=False, env=env)
        self.assertEqual(said.returncode, 2)


class Runs(Case):
    def program(self):
        return mgc.compile("tiny.mg").build("train")

    def lines(self, out="run"):
        with open(f"{out}/metrics.jsonl", encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def test_lines(self):
        """Each line once, in order, of the run and not of one before in the same directory."""
        train = self.program()
        run = train.run(data="text", steps=30)
        self.assertEqual(list(run), self.lines())
        self.assertEqual([line["step"] for line in self.lines() if "loss" in line], list(range(1, 31)))
        again = train.run(data="text", steps=12, val_fraction=0.2, eval_every=6)
        found = list(again)
        self.assertEqual(found, self.lines())
        self.assertEqual([line["step"] for line in found if "val_loss" in line], [6, 12])
        self.assertEqual((run.wait(), again.checkpoints()), (0, ["run/ckpt/step-00000012"]))

    def test_resumed(self):
        """Of a resumed run its own lines: not those of steps that were done before."""
        train = self.program()
        train.run(data="text", steps=20, save_every=10).wait()
        resumed = list(train.run(data="text", steps=25, resume="run/ckpt/step-00000010"))
        self.assertEqual([line["step"] for line in resumed if "loss" in line], list(range(11, 26)))

    def test_failed(self):
        with self.assertRaises(mgc.RunError) as e:
            for _ in self.program().run(data="none"):
                pass
        self.assertEqual(e.exception.returncode, 65)
        self.assertIn("none", str(e.exception))

    def test_stop(self):
        """It saves, and the rest can be resumed."""
        train = self.program()
        with train.run(data="text", steps=10**8, log_every=50, save_every=10**7) as run:
            for line in run:
                if "loss" in line:
                    break
        self.assertEqual(run.process.returncode, 75)
        self.assertEqual(len(run.checkpoints()), 1)

    def test_options(self):
        from mgc._compile import as_options
        self.assertEqual(as_options({"val_fraction": 0.5, "resume": True, "pin": False, "lr": None, "data": ["a", "b"]}),
                         ["--val-fraction=0.5", "--resume", "--data=a", "--data=b"])


class Tensors(Case):
    def test_header(self):
        """Names, types and shapes take no numpy."""
        self.safetensors("x.safetensors", {"w": ("BF16", [2, 3], bytes(12)), "s": ("F32", [], bytes(4))}, {"format": "pt"})
        x = mgc.load("x.safetensors")
        self.assertEqual((list(x), x.dtype("w"), x.shape("w"), x.shape("s"), x.metadata), (["w", "s"], "BF16", (2, 3), (), {"format": "pt"}))

    def test_damaged(self):
        good = {"w": ("F32", [2, 2], bytes(16))}
        self.safetensors("good.safetensors", good)
        whole = self.read("good.safetensors")
        head = json.loads(whole[8:8 + struct.unpack("<Q", whole[:8])[0]])

        def changed(**t):
            text = json.dumps({"w": {**head["w"], **t}}).encode()
            return struct.pack("<Q", len(text)) + text + bytes(16)

        bad = {"empty": b"", "short": whole[:5], "cut header": whole[:20], "cut data": whole[:-1], "huge": b"\xff" * 16,
               "no json": struct.pack("<Q", 4) + b"nope", "list": struct.pack("<Q", 2) + b"[]", "deep": struct.pack("<Q", 200000) + b"[" * 200000,
               "type": changed(dtype="F33"), "list type": changed(dtype=["F32"]), "negative": changed(shape=[-2, -2]), "shape": changed(shape=[2, 3]),
               "bool": changed(shape=[True, 4]), "float": changed(shape=[2.0, 2]), "outside": changed(data_offsets=[8, 24]),
               "backwards": changed(data_offsets=[16, 0]), "three": changed(data_offsets=[0, 8, 16]), "overflow": changed(shape=[2**40, 2**40])}
        for what, data in bad.items():
            self.write("bad.safetensors", data)
            with self.subTest(what), self.assertRaises(mgc.CheckpointError) as e:
                mgc.load("bad.safetensors")
            self.assertIn("bad.safetensors", str(e.exception))
        with self.assertRaises(mgc.CheckpointError):
            mgc.load("none.safetensors")
        os.mkdir("dir")
        self.write("dir/model.safetensors.index.json", json.dumps({"weight_map": {"w": "../good.safetensors"}}))
        with self.assertRaises(mgc.CheckpointError):
            mgc.load("dir")

    def test_shards(self):
        os.mkdir("dir")
        for i in "ab":
            self.safetensors(f"dir/{i}.safetensors", {i: ("I32", [1], b"\1\0\0\0")})
        self.write("dir/model.safetensors.index.json", json.dumps({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}))
        self.assertEqual(set(mgc.load("dir")), {"a", "b"})
        self.write("dir/b.safetensors", self.read("dir/a.safetensors"))
        with self.assertRaises(mgc.CheckpointError):
            mgc.load("dir")

    @unittest.skipUnless(numpy, "numpy is not installed (python3-numpy)")
    def test_values(self):
        f64 = numpy.linspace(-3, 3, 6).reshape(2, 3)
        bf16 = [0x3F80, 0xC000, 0x7F80, 0x0001, 0x0000, 0x4049]  # 1, -2, infinity, the least, 0, 3.140625
        self.safetensors("x.safetensors", {
            "odd": ("U8", [3], b"abc"), "f64": ("F64", [2, 3], f64.tobytes()), "bf16": ("BF16", [2, 3], struct.pack("<6H", *bf16)),
            "one": ("F32", [], struct.pack("<f", 2.5)), "none": ("F32", [0, 4], b""), "bool": ("BOOL", [2], b"\0\1"), "e4m3": ("F8_E4M3", [1], b"\x38")})
        x = mgc.load("x.safetensors")
        self.assertTrue(numpy.array_equal(x["f64"], f64))  # at an odd place in the file
        self.assertIsInstance(x["odd"].base if not isinstance(x["odd"], numpy.memmap) else x["odd"], numpy.memmap)
        self.assertFalse(x["f64"].flags.writeable)
        self.assertEqual(x["bf16"].dtype, numpy.float32)
        self.assertEqual(x["bf16"].ravel().tolist(), [1, -2, float("inf"), 2.0**-133, 0, 3.140625])
        self.assertEqual(x.raw("bf16").ravel().tolist(), bf16)
        self.assertEqual((x["one"].shape, float(x["one"]), x["none"].shape, x["bool"].tolist()), ((), 2.5, (0, 4), [False, True]))
        self.assertEqual(x.raw("e4m3").tolist(), [0x38])
        with self.assertRaises(mgc.CheckpointError):
            x["e4m3"]

    @unittest.skipUnless(numpy, "numpy is not installed (python3-numpy)")
    def test_checkpoint(self):
        """A checkpoint's loss, computed here by numpy, is the one that the program reports for the next step."""
        train = mgc.compile("tiny.mg").build("train")
        self.write("text", b"ab" * 500)
        run = train.run(data="text", steps=40)
        run.wait()
        x = mgc.load(run.checkpoints()[-1])
        logits = numpy.tanh(x["embed.weight"][[97, 98]].astype(float)) @ x["head.weight"].astype(float)
        odds = numpy.exp(logits - logits.max(1, keepdims=True))
        p = odds / odds.sum(1, keepdims=True)
        expected = -(numpy.log(p[0, 98]) + numpy.log(p[1, 97])) / 2  # a window has as many a's as b's
        (step,) = [line for line in train.run(data="text", steps=41, resume=True) if "loss" in line]
        self.assertAlmostEqual(step["loss"], expected, places=5)
        state = mgc.load(run.checkpoints()[-1], "optimizer")
        self.assertEqual(set(state), {f"{slot}.{name}" for slot in ("exp_avg", "exp_avg_sq") for name in x})
        self.assertEqual(state["exp_avg.embed.weight"].shape, x["embed.weight"].shape)


@unittest.skipUnless(subprocess.run([sys.executable, "-m", "mypy", "--version"], capture_output=True, check=False).returncode == 0, "mypy is not installed")
class Types(unittest.TestCase):
    def test_strict(self):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, os.path.join(SOURCE, "python/mgc")],
                              capture_output=True, text=True, check=False, cwd="/")
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
