"""The command line: exit codes, refusals, help, commands; nothing is written where something fails."""

import json
import os

import mgctest
from mgctest import MGC, TINY, model


class Options(mgctest.Case):
    def refused(self, *argv, code=2, says=""):
        before = sorted(os.listdir(self.dir))
        r = self.mgc(*argv)
        self.assertEqual(r.returncode, code, r.err)
        self.assertIn(says, r.err)
        self.assertEqual(r.out, "")
        self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_no_command(self):
        """A word that is no command and no file is said to be none; explain lists the parameters of a model."""
        r = self.mgc("serach", "x.mg", "--device", "h100")
        self.assertEqual((r.returncode, "there is no command and no file 'serach'" in r.err, "mgc search" in r.err), (2, True, True))
        self.assertIn("embed.weight [256, 32]", self.compiles("explain", mgctest.model("mlp.mg")).out)

    def test_usage_errors(self):
        f = self.write("m.mg", TINY)
        self.refused(says="no model is given")
        self.refused(f, says="nothing to do")
        self.refused(f, f, "--check", says="one model")
        self.refused(f, "--chek", says="did you mean '--check'?")
        self.refused(f, "-z", says="unknown option '-z'")
        self.refused(f, "--check=yes", says="takes no value")
        self.refused(f, "-o", says="needs a value")
        self.refused(f, "-o", "", says="empty value")
        self.refused(f, "--emit=cobol", says="c|llvm|source|cuda")
        self.refused(f, "--emit=cuda", "-o", "x", says="--emit=cuda is not for device cpu")
        self.refused(f, "--emit=source", says="directory")
        self.refused(f, "--check", "-o", "train", says="--check makes no code")
        self.refused(f, "--plan=xml", says="json")
        self.refused(f, "--print-after=simplfy", says="did you mean 'simplify'?")
        self.refused(f, "-o", "a", "-o", "b", says="given twice")
        self.refused("tok", says="the form is: mgc tok")
        self.refused("--from=x.mgir", "-D", "a=1", "--check", says="in it already")
        self.refused("nowhere.mg", "--check", says="cannot read 'nowhere.mg'")
        self.refused(self.dir, "--check", says="Is a directory")
        self.refused("explain", says="explain CODE")
        self.refused("explain", "MG9999", says="no error has the code")
        self.refused("env", "now", says="the form is")
        self.refused("fmt", f, "-o", "x", says="the form is")

    def test_output_is_a_plain_file(self):
        f = self.write("m.mg", TINY)
        self.refused(f, "-o", self.dir, says="is no plain file")
        self.refused(f, "-o", "/dev/null", says="is no plain file")
        self.refused(f, "-o", "no/such/folder/train", code=4, says="cannot")

    def test_definitions(self):
        f = self.write("m.mg", TINY)
        self.refused(f, "--check", "-D", "hiden=32", code=1, says="did you mean")
        self.refused(f, "--check", "-D", "hidden", code=1)
        self.refused(f, "--check", "-D", "hidden=0", code=1)
        for form in (["-D", "hidden=32"], ["-Dhidden=32"], ["--define", "hidden=32"], ["--define=hidden=32"]):
            r = self.compiles(f, *form, "--print-after=lower")
            self.assertIn("hidden=32", r.out)
            self.assertNotIn("hidden=16", r.out)

    def test_devices(self):
        f = self.write("m.mg", TINY)
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/cpu2t.json"), encoding="utf-8") as d:
            good = json.load(d)
        self.refused(f, "--check", "--device=cpi", says="known devices: a100, b200, cpu, cpu2t, cpus, gb200, gh200, h100, h100_nvl, h200, l40s, rtx3090")
        self.refused(f, "--check", "--device=../cpu", says="unknown device")
        self.refused(f, "--check", "--device=none.json", says="none.json")
        for change, says in (
            ({"memroy": 1}, "unknown key 'memroy'"),
            ({"memory": "lots"}, "'memory' is a whole number"),
            ({"memory": 1.5}, "'memory' is a whole number"),
            ({"memory": -1}, "'memory' lies between"),
            ({"product_share": 2}, "'product_share' lies between"),
            ({"architecture": 8.9}, "'architecture' is a whole number"),
            ({"architecture": 75}, "'architecture' lies between"),
            ({"target": "tpu"}, "no target 'tpu'"),
            ({"threads": True}, "'threads' is a whole number"),
        ):
            self.write("d.json", json.dumps({**good, **change}))
            self.refused(f, "--check", "--device=d.json", says=says)
        for key in good.keys() - {"weights_share", "operations_per_thread"}:  # which may be left out
            self.write("d.json", json.dumps({k: v for k, v in good.items() if k != key}))
            self.refused(f, "--check", "--device=d.json", says=f"'{key}' is missing")
        self.write("d.json", json.dumps(good)[:-1] + ', "memory": 5}')
        self.refused(f, "--check", "--device=d.json", says="duplicate")
        self.write("d.json", "[]")
        self.refused(f, "--check", "--device=d.json", says="one object")
        self.write("d.json", json.dumps(good))
        self.compiles(f, "--check", "--device=d.json")


class Commands(mgctest.Case):
    def test_help_names_every_option(self):
        r = self.compiles("--help")
        for option in ("--output", "--emit", "--check", "--define", "--layout", "--device", "--plan",
                       "--precision", "--microbatch", "--recompute", "--time-passes", "--schedule", "--trace", "--memory",
                       "--print-after", "--from", "--version", "explain", "fmt", "env"):
            self.assertIn(option, r.out)
        self.assertTrue(all(len(line) <= 110 for line in r.out.splitlines()))
        self.assertEqual(self.compiles("--version").out.split()[0], "mgc")

    def test_time_passes(self):
        r = self.compiles(model("mlp.mg"), "--check", "--time-passes")
        rows = [line.split() for line in r.err.splitlines()]
        self.assertEqual([row[0] for row in rows[:2]] + [rows[-1][0]], ["read", "elaborate", "all"])
        self.assertTrue({"fuse", "schedule", "place", "check"} <= {row[0] for row in rows})
        self.assertAlmostEqual(sum(float(row[1]) for row in rows[:-1]), float(rows[-1][1]), delta=0.02)

    def test_every_code_is_explained(self):
        with open(os.path.join(mgctest.SOURCE, "compiler/errors.def"), encoding="utf-8") as f:
            codes = [line.split("(")[1].split(",")[0] for line in f if line.startswith("ERROR(")]
        self.assertGreater(len(codes), 20)
        for code in codes:
            r = self.compiles("explain", f"MG{int(code):04d}")
            self.assertTrue(r.out.startswith(f"MG{int(code):04d}: "))
            self.assertGreater(len(r.out.splitlines()), 2)
        self.assertEqual(self.compiles("explain", codes[0]).out, self.compiles("explain", "mg" + codes[0]).out)

    def test_fmt(self):
        f = self.write("m.mg", TINY.replace("hidden = 16, vocab", "hidden=16 ,   vocab"))
        os.chmod(f, 0o640)
        self.assertEqual(self.mgc("fmt", "--check", f).returncode, 1)
        self.compiles("fmt", f)
        self.assertEqual(self.read("m.mg").decode(), TINY)
        self.assertEqual(os.stat(f).st_mode & 0o777, 0o640)
        self.assertEqual(self.compiles("fmt", "--check", f).out, "")
        bad = self.write("bad.mg", "model {")
        self.assertEqual(self.mgc("fmt", bad).returncode, 1)
        self.assertEqual(self.read("bad.mg"), b"model {")
        self.assertEqual(sorted(os.listdir(self.dir)), ["bad.mg", "m.mg"])

    def test_shipped_models_are_in_the_one_form(self):
        for name in mgctest.SHIPPED:
            self.compiles("fmt", "--check", model(name))

    def test_env(self):
        r = self.compiles("env")
        self.assertIn("LLVM 19.", r.out)
        self.assertIn("lib/mgc", r.out)
        self.assertNotIn("missing", r.out)
        for name in ("mgc", "home", "system", "kernels", "compiler", "cuda", "processor", "memory", "device cpu"):
            self.assertRegex(r.out, f"(?m)^{name} +[^ ]")
        r = self.compiles("env", env={"MALLOC_ARENA_MAX": "3", "MGC_CC": "nobody"})
        self.assertIn("MALLOC_ARENA_MAX=3", r.out)
        self.assertIn("nobody (MGC_CC): does not run", r.out)
        r = self.mgc("env", env={"MGC_HOME": self.dir})
        self.assertEqual(r.returncode, 4)
        self.assertIn("libmgrt.a is missing", r.out)

    def test_explain_a_parameter(self):
        r = self.compiles("explain", model("llama_mini.mg"), "wq")
        for word in ("parameter layers.self_attn.wq", "model.layers.{}.self_attn.q_proj.weight [160, 160]",
                     "llama_mini.mg:15", "layers=4, hidden=160", "read by", "offset", "of the arena"):
            self.assertIn(word, r.out)
        self.assertEqual(self.mgc("explain", model("llama_mini.mg"), "nobody").returncode, 2)

    def test_messages_go_to_stderr_and_results_to_stdout(self):
        f = self.write("m.mg", TINY.replace("tanh", "tahn"))
        r = self.mgc(f, "--check")
        self.assertEqual((r.returncode, r.out), (1, ""))
        self.assertRegex(r.err, r"m\.mg:6:9: error\[MG02\d\d\]: .*tahn")
        self.assertNotIn("\033", r.err)
        self.assertIn("^", r.err)

    def test_full_device(self):
        r = self.run_program("sh", "-c", f'"{MGC}" --help >/dev/full')
        self.assertEqual(r.returncode, 4)
        self.assertIn(b"standard output", r.stderr)


if __name__ == "__main__":
    mgctest.main()
