"""Versions of CUDA: a toolkit that is too old for programs or for a card, and a driver that is too old for a program, are
told of with both versions and what to do. nvcc is a script here, the driver the shim's."""

import json
import os

import mgctest
import shim
from mgctest import TINY

FAKE = """#!/bin/sh
case "$1" in
--version) printf '%s\\n' "{said}" ;;
--list-gpu-code) printf 'sm_80\\nsm_90\\nsm_90a\\nsm_100\\nsm_120\\n' ;;
*) echo compiled >&2; exit 3 ;;
esac
"""


class Toolkit(mgctest.Case):
    """What mgc says of nvcc: it is asked before it compiles."""

    def setUp(self):
        super().setUp()
        self.write("m.mg", TINY)
        home, real = self.path("home"), os.path.join(mgctest.BUILD, "lib/mgc")
        os.mkdir(home)  # a build without a toolkit has no runtime of CUDA programs
        for name in os.listdir(real):
            if name != "libmgrt_cuda.a":
                os.symlink(os.path.join(real, name), os.path.join(home, name))
        os.symlink(os.path.join(real, "libmgrt.a"), os.path.join(home, "libmgrt_cuda.a"))  # of this ABI

    def links(self, said, *options, code=4):
        os.chmod(self.write("nvcc", FAKE.format(said=said)), 0o755)
        r = self.mgc("m.mg", *options, "-o", "train", env={"MGC_NVCC": "./nvcc", "MGC_HOME": self.path("home")})
        self.assertEqual(r.returncode, code, r.err)
        self.assertFalse(os.path.exists(self.path("train")))
        return r.err

    def test_releases(self):
        for release in ("11.8", "12.0", "12.6", "9.2"):
            err = self.links(f"Cuda compilation tools, release {release}, V{release}.85", "--device", "h100")
            self.assertIn(f"error[MG0545]: './nvcc' is of CUDA {release}; programs need 12.8", err)
            self.assertIn("install a CUDA Toolkit of 12.8 or later", err)
            self.assertNotIn("compiled", err)
        for release in ("12.8", "12.10", "13.0", "14.2"):
            err = self.links(f"Cuda compilation tools, release {release}, V{release}.85", "--device", "h100")
            self.assertNotIn("MG0545", err)
            self.assertIn("compiled", err)
            self.assertIn("'./nvcc' failed with status 3", err)
        for said in ("", "release", "release x.y", "gcc 12.2"):
            self.assertIn("'./nvcc --version' names no release", self.links(said, "--device", "h100"))

    def test_architectures(self):
        """A card that nvcc has no code for; without `architecture` the driver compiles PTX."""
        good = "Cuda compilation tools, release 12.8, V12.8.93"
        self.assertIn("compiled", self.links(good, "--device", "rtx5090"))
        with open(os.path.join(mgctest.BUILD, "lib/mgc/devices/rtx5090.json"), encoding="utf-8") as f:
            card = json.load(f)
        for number in (103, 121, 99, 900):
            card["architecture"] = number
            self.write("card.json", json.dumps(card))
            err = self.links(good, "--device", "./card.json")
            self.assertRegex(err, r"error\[MG0545\]: './nvcc' of CUDA 12.8 makes no code for compute capability "
                                  rf"{number // 10}\.{number % 10}, the architecture of device")
            self.assertIn("leave `architecture` out of the description", err)
            self.assertNotIn("compiled", err)
        del card["architecture"]
        self.write("card.json", json.dumps(card))
        self.assertIn("compiled", self.links(good, "--device", "./card.json"))

    def test_no_nvcc(self):
        r = self.mgc("m.mg", "--device", "h100", "-o", "train", env={"MGC_NVCC": "./none", "MGC_HOME": self.path("home")})
        self.assertEqual(r.returncode, 4)
        self.assertIn("error[MG0542]: cannot run './none'", r.err)
        self.write("nvcc", "#!/bin/sh\nexit 4\n")
        os.chmod(self.path("nvcc"), 0o755)
        r = self.mgc("m.mg", "--device", "h100", "-o", "train", env={"MGC_NVCC": "./nvcc", "MGC_HOME": self.path("home")})
        self.assertIn("error[MG0542]: './nvcc --version' failed with status 4", r.err)


class Driver(shim.Case):
    def says(self, code, **env):
        env = {k: str(v) for k, v in env.items()}
        r = self.trains("./gpu", "--data", "text1.txt", "--steps", 2, "--out", "run" + str(len(os.listdir(self.dir))), env=env, code=code)
        if code:
            self.assertEqual(r.err.count("\n"), 1, r.err)
        return r.err

    def test_driver(self):
        self.write("m.mg", TINY)
        self.text(3000)
        self.gpu("m.mg")
        for driver, has in ((12040, "12.4"), (12090, "12.9")):
            err = self.says(77, SHIM_DRIVER=driver)
            self.assertIn(f"the driver is for CUDA {has}, and the program was made with CUDA 13.2: install a driver for CUDA 13.0 (R580) "
                          "or later, or make mgc and the program with a CUDA Toolkit of version 12 (12.8 or later)", err)
        err = self.says(77, SHIM_DRIVER=11080)
        self.assertIn("the driver is for CUDA 11.8", err)
        self.assertNotIn("or make", err)
        self.assertIn("there is no NVIDIA driver", self.says(77, SHIM_NO_GPU=1))
        self.assertIn("there is no NVIDIA driver", self.says(77, SHIM_DRIVER=0))
        for good in (13000, 13010, 13020, 14000):
            self.says(0, SHIM_DRIVER=good)
        r = self.trains("./gpu", "--info", env={"SHIM_DRIVER": "12040"})
        self.assertIn("| GPU | none: the driver is for CUDA 12.4", r.out)
        self.assertIn("driver for CUDA 13.1", self.trains("./gpu", "--info", env={"SHIM_DRIVER": "13010"}).out)

    def test_ptx(self):
        """A card whose machine code is not in the program needs a driver that compiles the program's PTX."""
        self.write("m.mg", TINY)
        self.text(3000)
        self.gpu("m.mg")
        for sm in (80, 86, 90):
            self.says(0, SHIM_SM=sm, SHIM_DRIVER=13000)
        err = self.says(1, SHIM_SM=120, SHIM_DRIVER=13010)
        self.assertIn("no machine code for this GPU, and the driver, for CUDA 13.1, cannot compile the PTX of CUDA 13.2: install a driver for "
                      "CUDA 13.2 or later, or compile the model for a device whose description names this GPU's `architecture`", err)
        err = self.says(77, SHIM_SM=75)
        self.assertIn("compute capability 7.5; its kernels need 8.0 or later", err)
        self.assertIn("[FAIL] GPU: none: shim has compute capability 7.5", self.trains("./gpu", "--data", "text1.txt", "--dry-run",
                                                                                      env={"SHIM_SM": "75"}, code=77).out)
        for sm in (86, 90, 120):
            self.says(0, SHIM_SM=sm)

    def test_other_runtime(self):
        self.write("m.mg", TINY)
        self.text(3000)
        self.gpu("m.mg")
        err = self.says(1, SHIM_RUNTIME=12090)
        self.assertIn("was linked with CUDA 12.9, but mgc's runtime was made with CUDA 13.2: link it with a CUDA Toolkit of version 13, or "
                      "make mgc with 12.9", err)
        self.says(0, SHIM_RUNTIME=13020)


if __name__ == "__main__":
    mgctest.main()
