"""Programs for GPUs built against the shim of tests/cuda_shim, which runs them on processors."""

import os
import shutil

import mgctest

SHIM = os.path.join(mgctest.SOURCE, "tests/cuda_shim")
RUNTIME = os.path.join(mgctest.BUILD, "lib/mgc/libmgrt_cuda.a")
LIBRARIES = [os.path.join(mgctest.BUILD, "shim", name) for name in ("libmgrt_shim.a", "libcuda_shim.a")]


class Case(mgctest.Case):
    def both(self, path, *options, gpu=(), **device):
        """The programs ./cpu and ./gpu of a model; `gpu`: options of the second alone."""
        self.compiles(path, *options, "-o", "cpu")
        self.gpu(path, *options, *gpu, **device)

    def gpu(self, path, *options, device=("--device", "h200")):
        options += device
        self.compiles(path, *options, "--emit=c", "-o", "program.c")
        self.compiles(path, *options, "--emit=cuda", "-o", "kernels.cu")
        self.write("image.c", "const unsigned char mg_cuda_image[1];")
        self.host = self.host_kernels(path, *options)
        self.link(*self.host)

    def host_kernels(self, path, *options):
        """The file with the kernels of a program's host, if it has some: a source tree has it, which mgc writes where CUDA is."""
        if b"mg_host_launch" not in self.read("program.c"):
            return ()
        if not os.path.exists(RUNTIME):
            self.skipTest("kernels of a GPU's host are in source trees, which need the CUDA Toolkit")
        shutil.rmtree(self.path("source"), ignore_errors=True)
        self.compiles(path, *options, "--emit=source", "-o", "source")
        return ("source/kernels.s",)

    def link(self, *more):
        """The program ./gpu; `more`: further arguments of the linker."""
        root = mgctest.SOURCE
        for argv in (("c++", "-std=c++17", "-O1", "-DMG_SHIM", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
                      "-fsanitize=alignment", "-fsanitize-undefined-trap-on-error", "-include", SHIM + "/cuda_shim.h", "-I" + root,
                      f"-I{root}/kernels/cuda", f"-I{root}/runtime", "-x", "c++", "-c", "kernels.cu", "-o", "kernels.o"),
                     ("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", f"-I{root}/runtime", "-c", "program.c", "image.c"),
                     ("c++", "program.o", "image.o", "kernels.o", *more, "-o", "gpu", *LIBRARIES, "-lm", "-lpthread", "-ldl")):
            r = self.run_program(*argv)
            self.assertEqual(r.returncode, 0, r.stderr.decode(errors="replace")[-4000:])

    def losses(self, program, *argv, seed=1, data="text1.txt", **env):
        out = f"run{len(os.listdir(self.dir))}"
        self.trains(program, "--data", data, "--out", out, *argv, env={"SHIM_SEED": str(seed), **env}, timeout=600)
        return [(l["loss"], l["grad_norm"]) for l in self.metrics(out) if "loss" in l]
