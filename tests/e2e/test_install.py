"""Installed somewhere else, mgc finds what it comes with, from any folder and by any link."""

import os
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
        perhaps = {f"lib/mgc/{f}" for f in ("libmgrt_cuda.a", "nccl", "aarch64/libmgrt.a", "aarch64/libmgrt_cuda.a", "aarch64/nccl")}
        self.assertEqual(files - perhaps,
                         {"bin/mgc", "lib/mgc/libmgrt.a", "lib/mgc/libmgc_llvm.so", "lib/mgc/libmgc_watch.so", "lib/mgc/include/abi.h", "lib/mgc/include/abi_types.h", "lib/mgc/include/launches.h", "lib/mgc/include/half.h", "lib/mgc/include/fp8.h", "lib/mgc/include/dynamic8.h", "lib/mgc/include/nf4.h",
                          "lib/mgc/prelude.mg", "lib/mgc/calibrate.mg", "lib/mgc/calibrate_scan.mg", "lib/mgc/report.html", "lib/mgc/board.html", *("lib/mgc/devices/" + d for d in os.listdir(os.path.join(mgctest.SOURCE, "compiler/devices"))),
                          *("lib/mgc/" + os.path.relpath(os.path.join(d, f), mgctest.MODELS) for d, _, names in os.walk(os.path.join(mgctest.MODELS, "hf")) for f in names),
                          *(f"lib/mgc/cuda/{f}" for f in os.listdir(os.path.join(mgctest.SOURCE, "kernels/cuda")) if f != "instances_some.h")})

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
        self.assertIn(b"no-such-cc", r.stderr)
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train", env={"MGC_CC": "false"})
        self.assertEqual(r.returncode, 4)
        self.assertEqual(sorted(os.listdir(self.dir)), ["far", "m.mg"])

    def test_an_old_output_stays_where_the_new_one_fails(self):
        self.write("train", "precious")
        r = self.run_program(self.mgc_path, "m.mg", "-o", "train", env={"MGC_CC": "false"})
        self.assertEqual(r.returncode, 4)
        self.assertEqual(self.read("train"), b"precious")


if __name__ == "__main__":
    mgctest.main()
