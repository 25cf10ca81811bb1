"""Checkpoints of programs that offload, written beside the steps: the bytes of those that steps wait for, of a disk below a processor
and of the host of a GPU (the shim), of one rank and of several, on one machine and on several."""

import shutil

import mgctest
import shim
import test_launch
import test_offload
import test_offload_ranks
from mgctest import TURN, some
from test_saving import BESIDE, Saving

READ = "; steps wait while the copy is read from the disk"


class OfOne(test_offload.Case):
    STEPS, same, tree = 6, Saving.same, Saving.tree

    def both(self, program, **env):
        for way in ("blocking", "beside"):
            said = self.trains(program, "--data", "text1.txt", "--out", way, "--steps", 6, "--save-every", 2, "--keep", 0, "--threads", 1,
                               "--save", way, env=env, timeout=300).out
            self.assertEqual(BESIDE in said, way == "beside", said)
            self.assertIn(" 0 bytes over", said)
        self.same("blocking", "beside")
        for way in ("blocking", "beside"):
            shutil.rmtree(self.path(way))
        return said

    def test_disk(self):
        self.text(6000)
        self.compiles(self.model("m.mg", "disk", *some(("state, masters", "state, masters, parameters"), 1)), "--layout", "off", "--precision",
                      "bf16", "-o", "train")
        self.assertIn(READ, self.both("./train"))

    def test_gpu(self):
        self.text(6000)
        device = self.device("h200", **test_offload.HOST, **test_offload.DISK)
        for level in some(("host", "disk"), 1):
            self.gpu(self.model("m.mg", level, "state, masters"), "--layout", "off", "--precision", "bf16", device=("--device", device))
            self.assertEqual(READ in self.both("./gpu", SHIM_SEED=str(TURN)), level == "disk")


class OfSeveral(test_offload_ranks.Ranks):
    same, tree, both = Saving.same, Saving.tree, OfOne.both

    def test_disk(self):
        self.text(6000)
        for name in some(("dp2_zero1", "zero3_tp2", "pp2_zero1"), 1):
            self.make(name, "state, masters")
            self.both("./train")

    def test_machines(self):
        """Each machine reads its ranks' disks, and writes its part."""
        self.text(6000)
        self.make("dp2_zero1", "state, masters")
        argv = ["./train", "--data", "text1.txt", "--steps", "6", "--save-every", "2", "--keep", "0", "--threads", "1", "--out"]
        self.trains(*argv, "blocking", "--save", "blocking")
        ranks = [self.start([*argv, "beside"], test_launch.tcp(2)(rank, 2)) for rank in range(2)]
        said = [p.communicate(timeout=240)[0].decode(errors="replace") for p in ranks]
        self.assertEqual([p.returncode for p in ranks], [0, 0], said)
        self.assertIn(BESIDE, said[0])
        self.same("blocking", "beside")

    def test_gpus(self):
        self.text(6000)
        device = self.with_host(disk_memory=1 << 36, disk_in=3e9, disk_out=2e9, disk_both=3e9, disk_seconds=1e-4)
        name = some(("dp2_zero1", "zero3_tp2", "pp2_zero1"), 1)[0]
        self.make(name, "state, masters", device=device, level=some(("host", "disk"), 1)[0])
        self.both("./train", SHIM_GPUS="8", SHIM_SEED=str(TURN))


for name in [n for n in dir(OfSeveral) if n.startswith("test_") and n not in vars(OfSeveral)]:
    setattr(OfSeveral, name, None)  # of the class that it takes its programs from


if __name__ == "__main__":
    mgctest.main()
