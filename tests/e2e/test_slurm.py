"""A run under SLURM: srun over nodes, scripts/launch/slurm.sbatch, a node that is lost, and the start after it. The nodes
are network namespaces with a slurmd each; SLURM is Debian's slurm-wlm, without which this is skipped."""

import glob
import hashlib
import os

import mgctest
import slurm

MODEL = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
BATCH = os.path.join(mgctest.SOURCE, "scripts/launch/slurm.sbatch")
LAYOUT = """layout four {
    device cpus
    mesh dp = 2, tp = 2
    batch -> dp
    kv_heads, ffn, vocab -> tp
    state, grads -> dp
    microbatch 1
}
"""


class Slurm(mgctest.Case):
    def setUp(self):
        super().setUp()
        why = slurm.missing()
        if why:
            self.skipTest(why)
        self.cluster = slurm.Cluster(self, 3)
        why = self.cluster.open()
        if why:
            self.skipTest(why)
        self.write("four.mg", LAYOUT)
        self.compiles(MODEL, "--layout", "./four.mg", "-D", "batch=8", "--precision", "f32", "-o", "train")
        self.text(6000)

    def command(self, out, steps, *more):
        return ["./train", "--data", "text1.txt", "--out", out, "--threads", "1", "--steps", str(steps), *more]

    def saved(self, out, step):
        found = {}
        for path in glob.glob(self.path(out) + f"/ckpt/step-{step:08d}/*.safetensors"):
            with open(path, "rb") as f:
                found[os.path.basename(path)] = hashlib.sha256(f.read()).hexdigest()
        self.assertEqual(len(found), 2, out)
        return found

    def said(self):
        path = self.path("said")
        return self.read("said").decode(errors="replace") if os.path.exists(path) else ""

    def submit(self, *command):
        return self.cluster.run("sbatch", "--parsable", "-N", "2", "--ntasks-per-node", "2", "-o", "said", BATCH, *command, code=0).strip()

    def state(self, job):
        text = self.cluster.run("scontrol", "show", "job", job)
        return text.split("JobState=")[1].split()[0] if "JobState=" in text else "GONE"

    def test_runs(self):
        """One after the other on one cluster, whose start takes long."""
        run = self.cluster.run
        self.trains(*self.command("bare", 6))

        # srun over both nodes: the same bits, and each node has two ranks.
        env = ["env", "MGC_SECRET=0f1e2d3c4b5a69788796a5b4c3d2e1f0", "MASTER_ADDR=node1", "MGC_PORT=29611"]
        start = [*env, "srun", "-N", "2", "--ntasks-per-node", "2", "--nodelist", "node[1-2]", "--mpi=none"]
        run(*start, *self.command("spread", 6), code=0)
        self.assertEqual(self.saved("spread", 6), self.saved("bare", 6))
        out = run(*start, *self.command("spread", 6), "--preflight", code=0)
        self.assertIn("4 ranks on 2 hosts, started by srun", out)
        self.assertIn("host node2: ranks 2 ...", out)

        # mgc preflight puts the launcher's command before the program's.
        r = self.mgc("preflight", " ".join(self.command("spread", 6)), "--launch", " ".join(start[4:]),
                     env={**self.cluster.env, **dict(e.split("=") for e in env[1:])})
        self.assertEqual(r.returncode, 0, r.out + r.err)
        self.assertIn("again" if "[FAIL]" in r.out else "preflight: 0 found wrong", r.out)

        # A wrong number of tasks is refused with the right command.
        out = self.cluster.case.run_program("srun", "-n", "3", "./train", env=self.cluster.env)
        self.assertNotEqual(out.returncode, 0)
        self.assertIn("this program has 4 ranks, and srun started 3 processes of it; start it by: srun -n 4 ", out.stderr.decode())

        # A batch: the preflight, then the run; a node is lost, and the job goes on on the others, to the same bits.
        steps = 1500
        job = self.submit(*self.command("long", steps, "--save-every", "20", "--hang-after", "30", "--keep", "2"))
        self.cluster.wait(lambda: glob.glob(self.path("long") + "/ckpt/step-*"), 120, "a checkpoint")
        self.assertIn("start 0, on node[1-2]", self.said())
        self.assertIn("preflight: 0 found wrong", self.said())
        self.cluster.kill(2)
        self.cluster.wait(lambda: "start 1, on node[1,3]" in self.said(), 180, f"the second start ({self.said()[-2000:]})")
        self.assertIn("is gone: all ranks end here", self.said())
        self.cluster.wait(lambda: self.state(job) in ("COMPLETED", "FAILED", "GONE"), 300, f"the end ({self.said()[-2000:]})")
        self.assertEqual(self.state(job), "COMPLETED", self.said()[-3000:])
        self.assertIn("resumed from long/ckpt/step-", self.said())
        self.trains(*self.command("alone", steps, "--save-every", "0"), timeout=600)
        self.assertEqual(self.saved("long", steps), self.saved("alone", steps))


if __name__ == "__main__":
    mgctest.main()
