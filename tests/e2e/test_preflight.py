"""Preflights: hosts that are network namespaces are started by mgc preflight, and each planted fault is found and named,
with a command that shows it again. mgc commbench writes what was measured, and plans take it."""

import json
import os
import shutil
import stat
import subprocess

import mgctest
import shim
from mgctest import FULL, some

MODEL = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
LAYOUT = """layout three {
    device cpu
    mesh dp = 3, tp = 2
    batch -> dp
    kv_heads, ffn, vocab -> tp
    microbatch 1
}
"""
# Links as slow as those of namespaces of a busy machine are at the worst.
SLOW = {"link_bandwidth": 5e7, "link_seconds": 5e-3, "node_ranks": 2, "node_bandwidth": 5e6, "node_seconds": 2e-2}
CLOCK = """#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym((void *)-1L, "clock_gettime");
    const int failed = real(which, t);
    t->tv_sec += which == CLOCK_REALTIME ? 3600 : 0;
    return failed;
}
"""


def ip(*argv):
    return subprocess.run(["ip", *argv], capture_output=True, check=False).returncode == 0


class Preflight(shim.Case):
    made = 0

    def hosts(self):
        """Three of them; what a file fault-NAME says is done before the ranks of that host begin."""
        if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
            self.skipTest("network namespaces take root and ip")
        Preflight.made += 1
        self.tag = f"mgp{os.getpid() % 10000}{'abcdef'[Preflight.made % 6]}"
        self.net = f"10.97.{(os.getpid() + Preflight.made) % 250}"
        self.addCleanup(ip, "link", "del", f"{self.tag}b")
        good = ip("link", "add", f"{self.tag}b", "type", "bridge") and ip("link", "set", f"{self.tag}b", "up")
        for i in (1, 2, 3):
            h = f"{self.tag}h{i}"
            self.addCleanup(ip, "netns", "del", h)
            good = good and ip("netns", "add", h) and \
                ip("link", "add", f"{self.tag}v{i}", "type", "veth", "peer", "name", "eth0", "netns", h) and \
                ip("link", "set", f"{self.tag}v{i}", "master", f"{self.tag}b", "up") and \
                ip("-n", h, "addr", "add", f"{self.net}.{i}/24", "dev", "eth0") and \
                ip("-n", h, "link", "set", "eth0", "up") and ip("-n", h, "link", "set", "lo", "up")
        if not good:
            self.skipTest("this machine makes no network namespaces")
        agent = self.write("agent", "#!/bin/sh\n# As ssh: a host, a command.\n"
                           f"h={self.tag}h${{1##*.}}; n=node${{1##*.}}; shift\n[ ! -e down-$n ] || {{ echo 'ssh: no route to host' >&2; exit 255; }}\n"
                           "exec ip netns exec \"$h\" unshare --uts --mount sh -c \"hostname $n; mount --bind names /etc/hosts; [ ! -e fault-$n ] || . ./fault-$n; $*\"\n")
        os.chmod(agent, 0o755)
        self.write("names", "127.0.0.1 localhost\n" + "".join(f"{self.net}.{i} node{i}\n" for i in (1, 2, 3)))
        self.names = ",".join(f"{self.net}.{i}" for i in (1, 2, 3))

    def device(self):
        with open(os.path.join(mgctest.SOURCE, "compiler/devices/cpus.json"), encoding="utf-8") as f:
            d = json.load(f)
        self.write("slow.json", json.dumps({**d, **SLOW}))

    def program(self, *more, out="train"):
        self.device()
        self.write("three.mg", LAYOUT)
        self.compiles(MODEL, "--layout", "./three.mg", "-D", "batch=6", "--precision", "f32", "--device", "./slow.json", *more, "-o", out)
        self.text(6000)

    def preflight(self, *argv, command="./train --data text1.txt --hang-after 20", env=None):
        return self.mgc("preflight", command, self.names, *argv, env={"MGC_SSH": self.path("agent"), **(env or {})}, timeout=300)

    # ---- what is planted, and what names it -------------------------------------------------------

    def clock(self):
        self.write("clock.c", CLOCK)
        r = self.run_program("cc", "-shared", "-fPIC", "clock.c", "-o", "clock.so", "-ldl")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.write("fault-node2", "export LD_PRELOAD=$PWD/clock.so\n")
        return "clock: host node2 has a clock that is 3600.", "ssh node2 'date +%s.%N"

    def slow_link(self):
        for where in (["ip", "netns", "exec", f"{self.tag}h3", "tc", "qdisc", "add", "dev", "eth0"],
                      ["tc", "qdisc", "add", "dev", f"{self.tag}v3"]):
            r = subprocess.run([*where, "root", "tbf", "rate", "8mbit", "burst", "16k", "latency", "400ms"], capture_output=True, check=False)
            if r.returncode:
                self.skipTest("tc has no tbf here")
        return "link: from host node", "mgc commbench ./train node1,node3"

    def blocked(self):
        self.assertTrue(ip("-n", f"{self.tag}h3", "route", "add", "prohibit", f"{self.net}.2/32"))
        return f"meeting: host {self.net}.3 has ranks that ended with 69: train: rank", f"cannot be reached from here in 6 s ({self.net}.2 port", f"again: ssh {self.net}.3"

    def other_program(self):
        self.program("-D", "layers=1", out="other")
        self.write("fault-node3", "mount --bind other train\n")
        return "program: host node3 has another program than host node1", "ssh node3 'sha256sum ./train'"

    def full_disk(self):
        self.write("fault-node1", "mkdir -p small; mount -t tmpfs -o size=64k none small\n")
        self.out = "--out small/run"
        return "disk: --out small/run on host node1: 64.00 KiB free, and 4 checkpoints take", "df -h small"

    def little_memory(self):
        self.write("fault-node2", "ulimit -v 75000\n")
        return "memory: host node2 has", "ssh node2 'free -h; ulimit -v'"

    def few_cores(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("this machine has one core")
        one = min(os.sched_getaffinity(0))
        self.write("fault-node3", f"taskset -pc {one} $$ >/dev/null\n")
        return "cores: host node3 gives a rank 1 core", "ssh node3 'nproc'"

    def few_files(self):
        self.write("fault-node2", "ulimit -Sn 70; ulimit -Hn 70\n")
        return f"meeting: host {self.net}.2 has ranks that ended with 78: train: rank", "(ulimit -Hn)"

    def down(self):
        self.write("down-node3", "")
        return f"meeting: host {self.net}.3 cannot be reached, ssh ended with 255: ssh: no route to host", f"again: ssh {self.net}.3 true"

    def no_program(self):
        self.write("fault-node2", "mount -t tmpfs none .; cd /\n")
        return f"meeting: host {self.net}.2 has ranks that ended with 127", f"again: ssh {self.net}.2 ls -l ./train"

    def no_data(self):
        os.remove(self.path("text1.txt"))
        return "text1.txt", "mgc preflight"

    def other_variables(self):
        """In doubt, and no fault."""
        self.write("fault-node2", "export NCCL_ALGO=Tree\n")
        return "[warn] variables: host node2 has NCCL_ALGO=Tree, and host node1 none", "ssh node2 'env"

    def plant(self, fault):
        with self.subTest(fault):
            for name in os.listdir(self.dir):
                if name.startswith(("fault-", "down-")):
                    os.remove(self.path(name))
            self.out = ""
            wanted = getattr(self, fault)()
            r = self.preflight(command=f"./train --data text1.txt --hang-after 6 {self.out}")
            said = r.out + r.err
            self.assertEqual(r.returncode != 0, fault != "other_variables", said)
            for words in wanted:
                self.assertIn(words, said)
            if r.returncode:
                self.assertIn("this shows it again: mgc preflight", r.err)
                self.assertRegex(said, r"MG0642|found what is wrong \(exit (1|65|74|78)\)")
                self.assertNotIn("[FAIL] clock" if fault != "clock" else "[FAIL] link", said)

    def test_faults(self):
        """No fault of one kind is seen as another. Those that change the network are last."""
        self.hosts()
        self.program()
        family = ["clock", "other_program", "full_disk", "little_memory", "few_cores", "few_files", "down", "no_program", "other_variables"]
        for fault in some(family, 3):
            self.plant(fault)
        if FULL:
            self.plant("slow_link")

    def test_blocked(self):
        self.hosts()
        self.program()
        self.plant("blocked")

    def test_slow_link(self):
        self.hosts()
        self.program()
        self.plant("slow_link")

    def test_no_data(self):
        self.hosts()
        self.program()
        self.plant("no_data")

    def test_small_shm(self):
        """An MPI keeps messages of a host's ranks in /dev/shm. Machines are pretended."""
        if os.geteuid() or not shutil.which("mpirun.openmpi") or not shutil.which("unshare"):
            self.skipTest("this takes root, unshare and mpirun.openmpi")
        self.program()
        line = "mount -t tmpfs -o size=1m none /dev/shm && exec mpirun.openmpi --oversubscribe --mca btl self,tcp -n 6 " \
               "./train --data text1.txt --preflight"
        r = self.run_program("unshare", "--mount", "sh", "-c", line, env={
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MGC_FAKE_HOSTS": "3"})
        said = r.stdout.decode()
        self.assertEqual(r.returncode, 1, said + r.stderr.decode())
        self.assertIn("started by mpirun (Open MPI)", said)
        self.assertIn("has 1.00 MiB in /dev/shm, and 32.00 MiB may be needed", said)
        self.assertIn("again: mpirun -n 6 ./train --data text1.txt --preflight", said)

    # ---- what is good -------------------------------------------------------------------------------

    def test_good(self):
        self.hosts()
        self.program()
        r = self.preflight()
        self.assertEqual(r.returncode, 0, r.out + r.err)
        for line in ("6 ranks on 3 hosts", "host node2: ranks 2 ...", "[ok] clocks: at most", "[ok] links: 3 between 3 hosts, none slow",
                     "[ok] collectives: ", "[ok] data: ", "preflight: 0 found wrong, 0 in doubt, 0 left out"):
            self.assertIn(line, r.out)
        self.assertFalse(os.path.exists(self.path("run")))
        r = self.mgc("commbench", "./train", self.names, "--device", "./slow.json", "-o", "mine.json", env={"MGC_SSH": self.path("agent")})
        self.assertEqual(r.returncode, 0, r.err)
        with open(self.path("mine.json"), encoding="utf-8") as f:
            d = json.load(f)
        self.assertEqual(d["node_ranks"], 2)
        self.assertGreater(d["node_bandwidth"], SLOW["node_bandwidth"])
        self.assertLess(d["node_seconds"], SLOW["node_seconds"])
        self.assertIn("links by mgc commbench, 6 ranks on 3 hosts", d["measured"])
        # The plan counts on what was measured: its collectives are shorter.
        plans = [json.loads(self.compiles(MODEL, "--layout", "./three.mg", "-D", "batch=6", "--device", f"./{name}", "--plan=json").out)
                 for name in ("slow.json", "mine.json")]
        self.assertLess(plans[1]["step_ms"], plans[0]["step_ms"])
        self.assertLess(plans[1]["exposed_comm_ms"], plans[0]["exposed_comm_ms"])

    def test_by_itself(self):
        """In a bare start all ranks are on this machine; one rank has nobody to meet. JSON is one line."""
        self.program()
        r = self.trains("./train", "--data", "text1.txt", "--preflight=found.json")
        self.assertIn("6 ranks on 1 host, started by itself", r.out)
        found = json.loads(self.read("found.json"))
        self.assertTrue(found["good"])
        self.assertEqual((found["ranks"], len(found["pairs"]), found["links"]), (6, 15, []))
        self.assertGreater(len(found["collectives"]), 3)
        self.assertTrue(all(c["seconds"] > 0 and c["planned"] > 0 for c in found["collectives"]))
        r = self.trains("./train", "--preflight=-")
        self.assertEqual(r.out.count("\n"), 1)
        self.assertEqual(json.loads(r.out)["ranks"], 6)
        self.write("tiny.mg", mgctest.TINY)
        self.compiles("tiny.mg", "-o", "tiny")
        r = self.trains("./tiny", "--data", "text1.txt", "--preflight")
        self.assertIn("1 rank on 1 host", r.out)
        r = self.mgc("commbench", "./tiny", "-o", "none.json")
        self.assertEqual(r.returncode, 4)
        self.assertIn("MG0644", r.err)
        self.assertFalse(os.path.exists(self.path("none.json")))

    def test_gpus(self):
        """Pairs are NCCL's, and its version is compared; a shim stands for it, and is far slower than a GPU's links."""
        self.text(6000)
        self.write("three.mg", LAYOUT.replace("device cpu", "device h100").replace("dp = 3", "dp = 2"))
        self.gpu(MODEL, "--layout", "./three.mg", "-D", "batch=4", device=())
        r = self.run_program("./gpu", "--data", "text1.txt", "--preflight=found.json", env={"SHIM_GPUS": "4"})
        self.assertIn(r.returncode, (0, 1), r.stderr)
        found = json.loads(self.read("found.json"))
        self.assertEqual((len(found["pairs"]), found["hosts"][0]["gpu"][:5]), (6, "shim,"))
        self.assertRegex(found["hosts"][0]["versions"], r"NCCL \d+\.\d+\.\d+, driver for CUDA")
        self.assertTrue(all(p["rate"] > 0 for p in found["pairs"]))
        self.assertGreater(len(found["collectives"]), 3)
        self.assertGreater(found["measured"]["link_bandwidth"], 0)
        r = self.run_program("./gpu", "--preflight", env={"SHIM_GPUS": "0"})
        self.assertNotEqual(r.returncode, 0)
        self.assertIn(b"[FAIL] GPU: host", r.stdout)
        self.assertIn(b"[skip] collectives", r.stdout)

    def test_started_ranks(self):
        """--launch: a launcher's command is put before the program's. Two programs on one machine are refused there."""
        self.write("many", "#!/bin/sh\nexport MGC_SECRET=0f1e2d3c4b5a69788796a5b4c3d2e1f0 WORLD_SIZE=6 LOCAL_WORLD_SIZE=6 MASTER_ADDR=127.0.0.1 "
                   f"MASTER_PORT={20000 + os.getpid() % 12000} MGC_FAKE_HOSTS=3\n"
                   "for i in 1 2 3 4 5; do RANK=$i LOCAL_RANK=$i \"$@\" & done\nRANK=0 LOCAL_RANK=0 exec \"$@\"\n")
        os.chmod(self.path("many"), stat.S_IRWXU)
        self.program()
        r = self.mgc("preflight", "./train --data text1.txt", "--launch", "./many")
        self.assertEqual(r.returncode, 0, r.out + r.err)
        self.assertIn("6 ranks on 3 hosts, started by torchrun", r.out)
        self.assertIn("[warn] name: two hosts call themselves", r.out)
        r = self.mgc("preflight", "./train --data text1.txt", "--launch", "false")
        self.assertEqual(r.returncode, 4)
        self.assertIn("MG0642", r.err)

    def test_wrong_commands(self):
        self.program()
        for argv, code, word in (
                (["preflight"], 2, "the form is"),
                (["preflight", "./train", "a,b,c", "more"], 2, "the form is"),
                (["preflight", "./train", "a,b,c", "--launch", "srun"], 2, "the form is"),
                (["preflight", "./train", "a,-oProxyCommand=x"], 2, "no name of a host"),
                (["preflight", "./train", "a,a"], 2, "given twice"),
                (["preflight", "./train", "a,b,c,d"], 2, "6 ranks of './train' are not divided by 4 hosts"),
                (["preflight", "true", "a,b"], 2, "does not say how many ranks"),
                (["preflight", "./train", "--plan"], 2, "the form is"),
                (["commbench", "./train", "a", "--device", "nothing"], 2, "nothing"),
                (["fmt", "--launch", "srun", "three.mg"], 2, "the form is")):
            r = self.mgc(*argv)
            self.assertEqual(r.returncode, code, (argv, r.err))
            self.assertIn(word, r.err, argv)
        for argv, word in ((["--preflight="], "needs a file"), (["--preflight", "--dry-run"], "one of them"),
                           (["--preflight", "x"], "--preflight=x")):
            self.assertIn(word, self.trains("./train", *argv, code=2).err)
        self.assertIn("--preflight=nowhere/x.json", self.trains("./train", "--preflight=nowhere/x.json", code=74).err)


if __name__ == "__main__":
    mgctest.main()
