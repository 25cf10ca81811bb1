"""Installed somewhere else, mgc finds what it comes with, from any folder and by any link, and can be removed again."""

import os
import re
import shutil

import mgctest
from mgctest import TINY


class Install(mgctest.Case):
    def setUp(self):
        super().setUp()
        r = self.run_program("cmake", "--install", mgctest.BUILD, "--prefix", self.path("far/away"))
        self.assertEqual(r.returncode, 0, r.stderr)
        self.write("m.mg", TINY)
        self.mgc_path = self.path("far/away/bin/mgc")

    def build_and_train(self, mgc, out, **more):
        r = self.run_program(mgc, "m.mg", "-o", out, **more)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.trains("./" + out, "--data", self.text(4000), "--steps", 2)

    def test_layout(self):
        files = {os.path.relpath(os.path.join(d, f), self.path("far/away"))
                 for d, _, names in os.walk(self.path("far/away")) for f in names}
        # Only where there is a CUDA Toolkit, NCCL, a compiler for aarch64.
        manual = {f for f in files if f.startswith(("share/man/", "share/bash-completion/", "share/zsh/", "share/fish/"))}
        self.assertLessEqual({"share/man/man1/mgc.1", "share/man/man1/mgc-train.1", "share/man/man1/mgc-tok.1", "share/bash-completion/completions/mgc",
                              "share/zsh/site-functions/_mgc", "share/fish/vendor_completions.d/mgc.fish"}, manual)
        perhaps = {f"share/doc/mgc/licences/{library}" for library in ("jansson", "pcre2", "utf8proc", "liburing")}
        perhaps |= {f"lib/mgc/{f}" for f in ("libmgrt_cuda.a", "nccl", "aarch64/libmgrt.a", "aarch64/libmgrt_cuda.a", "aarch64/nccl")}
        self.assertEqual(files - perhaps, manual |
                         {"bin/mgc", "lib/mgc/libmgrt.a", "lib/mgc/libmgc_llvm.so", "lib/mgc/libmgc_watch.so", "lib/mgc/include/abi.h", "lib/mgc/include/abi_types.h", "lib/mgc/include/launches.h", "lib/mgc/include/half.h", "lib/mgc/include/fp8.h", "lib/mgc/include/dynamic8.h", "lib/mgc/include/nf4.h",
                          "lib/mgc/installed.txt", "share/doc/mgc/README.md", "share/doc/mgc/CHANGELOG.md", "share/doc/mgc/LICENSE", "share/doc/mgc/THIRD_PARTY_NOTICES.md", "share/doc/mgc/copyright", "lib/mgc/prelude.mg",
                          *("share/mgc/models/" + m for m in mgctest.SHIPPED),
                          *("share/doc/mgc/docs/" + os.path.relpath(os.path.join(d, f), os.path.join(mgctest.SOURCE, "docs"))
                            for d, _, names in os.walk(os.path.join(mgctest.SOURCE, "docs")) for f in names if f.endswith((".md", ".png", ".svg"))),
                          "lib/mgc/calibrate.mg", "lib/mgc/calibrate_scan.mg", "lib/mgc/calibrate_functions.mg", "lib/mgc/report.html", "lib/mgc/board.html", "lib/mgc/diff.html", *("lib/mgc/devices/" + d for d in os.listdir(os.path.join(mgctest.SOURCE, "compiler/devices"))),
                          *("lib/mgc/" + os.path.relpath(os.path.join(d, f), mgctest.MODELS) for d, _, names in os.walk(os.path.join(mgctest.MODELS, "hf")) for f in names),
                          *(f"lib/mgc/cuda/{f}" for f in os.listdir(os.path.join(mgctest.SOURCE, "kernels/cuda")) if f != "instances_some.h")})

    def test_no_path_of_the_build(self):
        """Nothing that is installed holds the folder of the sources or of the build."""
        for d, _, names in os.walk(self.path("far/away")):
            for path in (os.path.join(d, n) for n in names):
                with open(path, "rb") as f:
                    data = f.read()
                for folder in (mgctest.SOURCE, mgctest.BUILD):
                    self.assertNotIn(os.path.realpath(folder).encode(), data, path)

    def test_uninstall(self):
        """All of it goes, and nothing else: neither what others put beside it nor what a list outside of the prefix names."""
        uninstall = os.path.join(mgctest.SOURCE, "scripts/uninstall")
        prefix = self.path("far/away")
        other = self.write("far/away/lib/mgc/devices/mine.json", "{}")
        precious = self.write("precious", "")
        installed = os.path.join(prefix, "lib/mgc/installed.txt")
        with open(installed, encoding="utf-8") as f:
            files = f.read()
        for wrong in ("../../precious\n", f"{precious}\n", "\n"):
            self.write("far/away/lib/mgc/installed.txt", files + wrong)
            r = self.run_program(uninstall, prefix)
            self.assertEqual((r.returncode, os.path.exists(precious), os.path.exists(self.mgc_path)), (1, True, True), r.stderr)
        self.write("far/away/lib/mgc/installed.txt", files)
        r = self.run_program(uninstall, prefix)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual([os.path.join(d, n) for d, _, names in os.walk(prefix) for n in names], [other])
        self.assertFalse(os.path.exists(os.path.join(prefix, "share/mgc")))
        self.assertEqual(self.run_program(uninstall, prefix).returncode, 1)
        self.assertEqual(self.run_program(uninstall).returncode, 2)

    def test_shipped_models(self):
        """models/NAME.mg is that of the installation where there is none here; one that is here is taken."""
        r = self.run_program(self.mgc_path, "models/mlp.mg", "--emit=c")
        self.assertEqual(r.returncode, 0, r.stderr)
        real = os.path.realpath(self.path("far/away/share/mgc/models/mlp.mg"))
        self.assertIn(f"note: there is no 'models/mlp.mg' here; it is '{real}', which mgc comes with".encode(), r.stderr)
        self.assertEqual(self.run_program(self.mgc_path, "explain", "models/mlp.mg", "w1").returncode, 0)
        os.mkdir(self.path("models"))
        self.write("models/mlp.mg", "model wrong")
        r = self.run_program(self.mgc_path, "models/mlp.mg", "--check")
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"models/mlp.mg:1:", r.stderr)
        for none in ("none.mg", "../m.mg", "hf/llama/model.mg"):
            r = self.run_program(self.mgc_path, "models/" + none, "--check")
            self.assertEqual(r.returncode, 0 if ".." in none else 2, r.stderr)
            self.assertNotIn(b"note", r.stderr)
        r = self.run_program(self.mgc_path, "fmt", "models/gpt2_124m.mg")  # which would write there
        self.assertEqual(r.returncode, 2, r.stderr)

    def other_abi(self, number):
        """The library defines this in place of the name of its ABI; the number that it had."""
        library = self.path("far/away/lib/mgc/libmgrt.a")
        with open(os.path.join(mgctest.SOURCE, "runtime/abi.h"), encoding="utf-8") as f:
            (own,) = re.findall(r"(?m)^#define MG_ABI +(\d+)", f.read())
        r = self.run_program("objcopy", "--redefine-sym", f"mg_runtime_abi_{own}={number}", library)
        self.assertEqual(r.returncode, 0, r.stderr)
        return own

    def test_another_runtime(self):
        own = self.other_abi("mg_runtime_abi_7")
        for options in (("-o", "train"), ("--emit=source", "-o", "tree")):
            r = self.run_program(self.mgc_path, "m.mg", *options)
            self.assertEqual(r.returncode, 4, r.stderr)
            self.assertIn(f"far/away/lib/mgc/libmgrt.a' is of ABI 7; this mgc makes programs for ABI {own}".encode(), r.stderr)
            self.assertIn(b"error[MG0654]", r.stderr)
        self.assertEqual(sorted(os.listdir(self.dir)), ["far", "m.mg"])

    def test_a_library_without_an_abi(self):
        self.other_abi("something")
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train")
        self.assertIn(b"libmgrt.a' says no ABI of a runtime", r.stderr)
        for damaged in (b"", b"!<arch>\n", b"!<arch>\n" + b"/" + b" " * 47 + b"99999999  `\n", os.urandom(4096)):
            self.write("far/away/lib/mgc/libmgrt.a", damaged)
            r = self.run_program(self.mgc_path, "m.mg", "-o", "train")
            self.assertEqual(r.returncode, 4, r.stderr)
            self.assertIn(b"MG0654", r.stderr)

    def test_another_header(self):
        header = "far/away/lib/mgc/include/abi.h"
        text = self.read(header).decode()
        self.write(header, re.sub(r"(?m)^(#define MG_ABI +)\d+", r"\g<1>6", text))
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train")
        self.assertEqual(r.returncode, 4)
        self.assertIn(b"include/abi.h' is of ABI 6", r.stderr)

    def test_linkers_refuse_another_runtime(self):
        """A source tree that is built with another library than its own."""
        r = self.run_program(self.mgc_path, "m.mg", "--emit=source", "-o", "tree")
        self.assertEqual(r.returncode, 0, r.stderr)
        own = self.other_abi("mg_runtime_abi_7")
        shutil.copy(self.path("far/away/lib/mgc/libmgrt.a"), self.path("tree/libmgrt.a"))
        r = self.run_program("make", "-C", "tree")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn(f"mg_runtime_abi_{own}", r.stderr.decode())

    def test_moved(self):
        """The whole prefix can move, and nothing of the build tree is needed."""
        shutil.move(self.path("far"), self.path("further"))
        self.build_and_train(self.path("further/away/bin/mgc"), "train")

    def test_through_a_link(self):
        os.symlink(self.mgc_path, self.path("compiler"))
        self.build_and_train("./compiler", "train")

    def test_by_home(self):
        shutil.copy(self.mgc_path, self.path("alone"))
        r = self.run_program("./alone", "m.mg", "-o", "train")
        self.assertEqual(r.returncode, 2)  # it finds no device
        self.assertIn(b"no descriptions were found", r.stderr)
        self.build_and_train("./alone", "train", env={"MGC_HOME": self.path("far/away/lib/mgc")})

    def test_families(self):
        """Templates of families come along; without them no model is imported, and the message says where they were looked for."""
        os.mkdir(self.path("hf"))
        self.write("hf/config.json", '{"model_type": "llama"}')
        self.assertEqual(self.run_program(self.mgc_path, "import-hf", "hf", "-o", "x.mg").returncode, 0)
        shutil.rmtree(self.path("far/away/lib/mgc/hf"))
        r = self.run_program(self.mgc_path, "import-hf", "hf", "-o", "y.mg")
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"no templates of families were found in", r.stderr)

    def test_missing_runtime(self):
        os.remove(self.path("far/away/lib/mgc/libmgrt.a"))
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train")
        self.assertEqual(r.returncode, 4)
        self.assertIn(b"libmgrt.a' is missing: programs are linked with it", r.stderr)
        self.assertFalse(os.path.exists(self.path("train")))

    def test_missing_kernels(self):
        os.remove(self.path("far/away/lib/mgc/libmgc_llvm.so"))
        r = self.run_program(self.mgc_path, "m.mg", "--check")
        self.assertEqual(r.returncode, 0, r.stderr)
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train")
        self.assertEqual(r.returncode, 4)
        self.assertIn(b"MG0564", r.stderr)

    def test_missing_screen(self):
        """Without what brings ncurses and libmicrohttpd a run is still shown as text and as a page."""
        os.remove(self.path("far/away/lib/mgc/libmgc_watch.so"))
        os.mkdir(self.path("run"))
        self.write("run/metrics.jsonl", '{"step":1,"loss":2.5}\n')
        r = self.run_program(self.mgc_path, "board", "run", "--serve")
        self.assertEqual((r.returncode, b"MG0652" in r.stderr), (4, True))
        self.assertIn(b"2.5000", self.run_program(self.mgc_path, "watch", "run", "--once").stdout)
        self.assertIn(b"<!doctype html>", self.run_program(self.mgc_path, "board", "run").stdout)

    def test_missing_compiler(self):
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train", env={"MGC_CC": "no-such-cc"})
        self.assertEqual(r.returncode, 4)
        self.assertIn(b"error[MG0598]: no C compiler: 'no-such-cc' cannot be run: No such file or directory", r.stderr)
        self.assertIn(b"apt-get install gcc libc6-dev", r.stderr)
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train", env={"MGC_CC": "false"})
        self.assertEqual(r.returncode, 4)
        self.assertIn(b"error[MG0599]: 'false' makes no program of any C", r.stderr)
        # One that makes programs, but not this one.
        picky = self.write("picky", "#!/bin/sh\ncase $* in *program.c*) exit 3; esac\nexec cc \"$@\"\n")
        os.chmod(picky, 0o755)
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train", env={"MGC_CC": picky})
        self.assertIn(b"error[MG0542]", r.stderr)
        self.assertIn(b"failed with status 3", r.stderr)
        os.remove(picky)
        self.assertEqual(sorted(os.listdir(self.dir)), ["far", "m.mg"])

    def test_an_old_output_stays_where_the_new_one_fails(self):
        self.write("train", "precious")
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train", env={"MGC_CC": "false"})
        self.assertEqual(r.returncode, 4)
        self.assertEqual(self.read("train"), b"precious")


if __name__ == "__main__":
    mgctest.main()
