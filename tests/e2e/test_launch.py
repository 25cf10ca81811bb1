"""Ranks that a launcher starts: the bits of a bare start under each of them, on one machine and on several, what is
refused, and what happens when a rank dies, stops, or is told to. MPI's launchers are skipped where they are not
installed. Machines are pretended (MGC_FAKE_HOSTS), or network namespaces where the test may make some."""

import glob
import hashlib
import os
import shutil
import signal
import subprocess
import time

import mgctest
from mgctest import FULL, TURN, some

MODEL = os.path.join(mgctest.SOURCE, "tests/parity/llama_small.mg")
LAYOUT = """layout four {
    device cpu
    mesh dp = 2, tp = 2
    batch -> dp
    kv_heads, ffn, vocab -> tp
    seq -> tp
    state, grads -> dp
    microbatch 1
}
"""
EXPERTS = os.path.join(mgctest.SOURCE, "tests/parity/mixtral_small.mg")
LAYOUT_EXPERTS = LAYOUT.replace("tp = 2", "ep = 2").replace("kv_heads, ffn, vocab -> tp\n    seq -> tp", "experts -> ep") \
    .replace("batch -> dp", "batch -> dp, ep").replace("state, grads", "state")
# Variables that would make a launcher of this test's own.
FOREIGN = ("OMPI_", "PMI", "MPI_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "MGC_FAKE_HOSTS",
           "MGC_PORT", "MGC_SECRET")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(FOREIGN)}
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PORT = 20000 + os.getpid() * 4 % 12000  # of this test alone, below those that the system gives away
SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
MPIS = {"openmpi": ("mpirun.openmpi", "--oversubscribe"), "mpich": ("mpirun.mpich",)}

# Faults that take seconds to be noticed are tried with one of them in turn; MGC_FULL=1 takes both.
SAMPLE = some(MPIS)


def torchrun(rank, size, local_rank=None, local_size=None, port=PORT):
    """The environment that torchrun sets; the port is the job's name."""
    return {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank if local_rank is None else local_rank,
            "LOCAL_WORLD_SIZE": local_size or size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}


def tcp(hosts):
    """torchrun's ranks on so many machines, all of which are this one."""
    return lambda rank, size: {**torchrun(rank, size), "MGC_FAKE_HOSTS": hosts, "MGC_SECRET": SECRET}


def srun(rank, size, job=4711):
    return {"SLURM_JOB_ID": job, "SLURM_STEP_ID": 0, "SLURM_PROCID": rank, "SLURM_NTASKS": size, "SLURM_LOCALID": rank,
            "SLURM_STEP_NUM_TASKS": size, "SLURM_NODEID": 0, "SLURM_STEP_TASKS_PER_NODE": size}


def below(pid):
    """The processes that come from one, and itself."""
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                for child in f.read().split():
                    found += below(int(child))
    except OSError:
        pass
    return found


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


@mgctest.in_turns_of(2)
class Launch(mgctest.Case):
    hosts_made = 0

    def make(self, *more, model=MODEL, layout=LAYOUT):
        self.write("four.mg", layout)
        self.compiles(model, "--layout", "./four.mg", "-D", "batch=8", "--precision", "f32", "-o", "train", *more)
        self.text(6000)

    def args(self, out, steps=6, *more):
        return ["./train", "--data", "text1.txt", "--steps", str(steps), "--out", out, "--threads", "1", *map(str, more)]

    def mpirun(self, kind):
        if not shutil.which(MPIS[kind][0]):
            self.skipTest(f"{MPIS[kind][0]} is not installed")
        return [*MPIS[kind], "-n", "4"]

    def run_it(self, argv, env=None, code=0):
        r = subprocess.run(argv, cwd=self.dir, env={**CLEAN, **ROOT, **(env or {})}, capture_output=True, timeout=120, check=False)
        r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
        if code is not None:
            self.assertEqual(r.returncode, code, r.err[-3000:] + r.out[-1000:])
        return r

    def start(self, argv, env=None):
        p = subprocess.Popen(argv, cwd=self.dir, env={**CLEAN, **ROOT, **{k: str(v) for k, v in (env or {}).items()}},
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.kill)
        return p

    def by_hand(self, variables, argv, size=4, code=0):
        """One process a rank, as a launcher would start them; what each says, by rank."""
        p = [self.start(argv, variables(rank, size)) for rank in range(size)]
        said = [q.communicate(timeout=120)[0].decode(errors="replace") for q in p]
        for rank, q in enumerate(p):
            if code is not None:
                self.assertEqual(q.returncode, code, f"rank {rank}: {said[rank]}")
        return said

    def on(self, kind, argv, hosts=1):
        """A job on so many pretended machines, by one of the MPIs or by TCP; what it says."""
        if kind == "tcp":
            said = self.by_hand(tcp(hosts) if hosts > 1 else torchrun, argv)
            self.assertEqual(said[1:], ["", "", ""])
            return said[0]
        return self.run_it([*self.mpirun(kind), *argv], {"MGC_FAKE_HOSTS": str(hosts)} if hosts > 1 else {}).out

    def saved(self, out, step=6):
        found = {}
        for path in glob.glob(self.path(out) + f"/ckpt/step-{step:08d}/*.safetensors"):
            with open(path, "rb") as f:
                found[os.path.basename(path)] = hashlib.sha256(f.read()).hexdigest()
        self.assertEqual(len(found), 2, out)
        return found

    def check_same(self, out, text=None):
        """A run that ended as the bare one did, and of which one rank spoke."""
        self.assertEqual(self.saved(out), self.saved("bare"), out)
        losses = [[m["loss"] for m in self.metrics(o) if "loss" in m] for o in ("bare", out)]
        self.assertEqual(*losses)
        if text is not None:
            self.assertEqual(text.count("6 steps in"), 1, text)

    # ---- the same bits -------------------------------------------------------------------------

    def test_by_hand(self):
        """The environments of torchrun and srun on one machine, and of an srun without MPI on two."""
        meets = {"MGC_FAKE_HOSTS": 2, "MGC_SECRET": SECRET, "MASTER_ADDR": "localhost", "MGC_PORT": PORT + 2}
        self.make()
        self.run_it(self.args("bare"))
        for name, variables in (("torchrun", torchrun), ("srun", srun), ("two", lambda r, n: {**srun(r, n), **meets})):
            said = self.by_hand(variables, self.args(name))
            self.check_same(name, said[0])
            self.assertEqual(said[1:], ["", "", ""])

    def same_bits(self, kind):
        """Under a launcher on two of one, two and four machines; --eval and --sample too; resumed from each other's checkpoints."""
        self.make()
        more = ("--val-fraction", 0.1, "--eval-every", 3, "--sample", 5, "--prompt", "In", "--save-every", 3)
        bare = self.run_it(self.args("bare", 6, *more))
        for hosts in some((1, 2, 4), 2):
            out = f"hosts{hosts}"
            said = self.on(kind, self.args(out, 6, *more), hosts)
            self.check_same(out, said)
            vals = [[m["val_loss"] for m in self.metrics(o) if "val_loss" in m] for o in ("bare", out)]
            self.assertEqual(*vals)
            self.assertEqual(said[-5:], bare.out[-5:])
            if hosts == 4 and not FULL:
                continue
            # A bare start resumes its checkpoint, and it resumes that of a bare start.
            for saved, resumed in ((out, "bare"), ("bare", out)):
                shutil.copytree(self.path(saved), self.path("again"))
                shutil.rmtree(self.path("again/ckpt/step-00000006"))
                again = self.args("again", 6, "--resume", "--val-fraction", 0.1)
                if resumed == "bare":
                    self.run_it(again)
                else:
                    self.on(kind, again, hosts)
                self.check_same("again")
                shutil.rmtree(self.path("again"))

    def test_openmpi(self):
        self.same_bits("openmpi")

    def test_mpich(self):
        self.same_bits("mpich")

    def test_tcp(self):
        self.same_bits("tcp")

    def chunks(self, kind):
        """Tensors that go to other machines in several messages; experts, which only some ranks have."""
        for more in some(({}, {"model": EXPERTS, "layout": LAYOUT_EXPERTS}), turn=TURN + [*MPIS, "tcp"].index(kind)):
            self.make(*([] if more else ["-D", "ffn=8192", "-D", "layers=1"]), **more)
            self.run_it(self.args("bare", 2))
            for hosts in (2, 4) if FULL else (2,):
                out = f"hosts{hosts}"
                self.on(kind, self.args(out, 2), hosts)
                self.assertEqual(self.saved(out, 2), self.saved("bare", 2))
                shutil.rmtree(self.path(out))
            shutil.rmtree(self.path("bare"))

    def test_chunks_openmpi(self):
        self.chunks("openmpi")

    def test_chunks_mpich(self):
        self.chunks("mpich")

    def test_chunks_tcp(self):
        self.chunks("tcp")

    # ---- machines that are network namespaces ----------------------------------------------------

    def hosts(self):
        """Two of them, with names and addresses, and a program that starts others there; or a skip."""
        Launch.hosts_made += 1  # the kernel takes its time with those that were
        tag = f"mgc{os.getpid() % 10000}{'abcdef'[Launch.hosts_made % 6]}"
        net = 100 + (os.getpid() + Launch.hosts_made) % 100
        def ip(*argv):
            return subprocess.run(["ip", *argv], capture_output=True, check=False).returncode == 0
        if os.geteuid() or not shutil.which("ip") or not shutil.which("unshare"):
            self.skipTest("network namespaces take root and ip")
        for i in (1, 2):
            self.addCleanup(ip, "netns", "del", f"{tag}h{i}")
        self.addCleanup(ip, "link", "del", f"{tag}b")
        good = ip("link", "add", f"{tag}b", "type", "bridge") and ip("addr", "add", f"10.99.{net}.254/24", "dev", f"{tag}b")
        good = good and ip("link", "set", f"{tag}b", "up")
        for i in (1, 2):
            h = f"{tag}h{i}"
            good = good and ip("netns", "add", h) and \
                ip("link", "add", f"{tag}v{i}", "type", "veth", "peer", "name", "eth0", "netns", h) and \
                ip("link", "set", f"{tag}v{i}", "master", f"{tag}b", "up") and \
                ip("-n", h, "addr", "add", f"10.99.{net}.{i}/24", "dev", "eth0") and \
                ip("-n", h, "addr", "add", f"fd99:{net}::{i}/64", "dev", "eth0", "nodad") and \
                ip("-n", h, "addr", "add", f"fe80::{i}/64", "dev", "eth0", "nodad") and \
                ip("-n", h, "link", "set", "eth0", "up") and ip("-n", h, "link", "set", "lo", "up")
        if not good:
            self.skipTest("this machine makes no network namespaces")
        agent = self.write("agent", "#!/bin/sh\n# As ssh: a host, a command.\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
                           "h=$1; shift\nexec ip netns exec \"$h\" unshare --uts sh -c \"hostname $h; $*\"\n")
        os.chmod(agent, 0o755)
        return tag, f"10.99.{net}.0/24", agent

    def test_namespaces_openmpi(self):
        self.mpirun("openmpi")
        tag, net, agent = self.hosts()
        self.make()
        self.run_it(self.args("bare"))
        self.write("hosts", f"{tag}h1 slots=2\n{tag}h2 slots=2\n")
        mca = {"plm": "rsh", "plm_rsh_agent": agent, "oob_tcp_if_include": net, "btl_tcp_if_include": net,
               "btl": "self,vader,tcp", "pml": "ob1"}
        for by in ("slot", "node"):  # ranks 0 and 1 side by side, or 0 and 2
            start = ["mpirun.openmpi", "--hostfile", "hosts", *(w for k, v in mca.items() for w in ("--mca", k, v)),
                     "--map-by", by, "-n", "4"]
            r = self.run_it([*start, *self.args(f"by-{by}")])
            self.check_same(f"by-{by}", r.out)

    def test_namespaces_mpich(self):
        self.mpirun("mpich")
        tag, _, agent = self.hosts()
        self.make()
        self.run_it(self.args("bare"))
        start = ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", agent, "-hosts", f"{tag}h1,{tag}h2", "-iface", f"{tag}b",
                 "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0", "-n", "4", "-ppn", "2"]
        r = self.run_it([*start, *self.args("spread")])
        self.check_same("spread", r.out)

    def in_namespaces(self, tag, address, argv):
        """torchrun's ranks, two in each; those of the second come a little later."""
        started = []
        for rank in range(4):
            host = f"{tag}h{1 + rank // 2}"
            variables = {**torchrun(rank, 4, rank % 2, 2), "MASTER_ADDR": address, "MGC_SECRET": SECRET}
            started.append(self.start(["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$@"',
                                       "sh", *argv], variables))
            time.sleep(0.3 if rank == 1 else 0)
        return started

    def test_namespaces_tcp(self):
        tag, net, _ = self.hosts()
        self.make()
        self.run_it(self.args("bare"))
        for i, address in enumerate((net.replace(".0/24", ".1"), f"fd99:{net.split('.')[2]}::1", "fe80::1%eth0")):
            p = self.in_namespaces(tag, address, self.args(f"spread{i}"))
            said = [q.communicate(timeout=60)[0].decode(errors="replace") for q in p]
            self.assertEqual([q.returncode for q in p], [0] * 4, said)
            self.check_same(f"spread{i}", said[0])
            self.assertEqual(said[1:], [""] * 3)

    def test_a_machine_vanishes(self):
        """Nothing says that its ranks are gone; each side names one of the other."""
        tag, net, _ = self.hosts()
        self.make()
        p = self.in_namespaces(tag, net.replace(".0/24", ".1"), self.args("long", 10000000, "--log-every", 10))
        ranks = self.await_ranks(p)
        subprocess.run(["ip", "link", "set", f"{tag}v2", "down"], check=True)
        began = time.monotonic()
        said = [q.communicate(timeout=60)[0].decode(errors="replace") for q in p]
        self.assertLess(time.monotonic() - began, 6)
        self.gone(ranks)
        for rank, q in enumerate(p):
            self.assertEqual(q.returncode, 69, said[rank])
            self.assertRegex(said[rank], f"rank {rank}: error: rank [{'01' if rank > 1 else '23'}] is gone")

    # ---- what is refused ---------------------------------------------------------------------------

    def test_wrong_sizes(self):
        self.make()
        for variables, command in ((torchrun, "torchrun --nproc-per-node 4 --no-python ./train"), (srun, "srun -n 4 ./train")):
            said = self.by_hand(variables, self.args("no"), size=3, code=78)
            self.assertIn("this program has 4 ranks", said[0])
            self.assertIn("started 3 processes", said[0])
            self.assertIn(command, said[0])
            self.assertEqual(said[1:], ["", ""])
        for kind in MPIS:
            if shutil.which(MPIS[kind][0]):
                r = self.run_it([*MPIS[kind], "-n", "2", *self.args("no")], code=None)
                self.assertNotEqual(r.returncode, 0)
                self.assertIn("this program has 4 ranks", r.err)
                self.assertIn("mpirun -n 4 ./train", r.err)
                if kind == "openmpi":
                    self.assertEqual(r.returncode, 78)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_one_rank(self):
        """A program of one rank runs under a launcher of one process, and not under one of two."""
        self.compiles(MODEL, "-D", "batch=8", "-o", "train")
        self.text(6000)
        self.by_hand(torchrun, self.args("one"), size=1)
        said = self.by_hand(torchrun, self.args("no"), size=2, code=78)
        self.assertIn("this program has 1 rank, and torchrun started 2 processes of it; start it by: ./train", said[0])

    def test_bad_environments(self):
        self.make()
        for env, words in (
                ({"RANK": "0"}, "WORLD_SIZE is not set"),
                ({**torchrun(0, 4), "RANK": "four"}, "RANK is 'four'"),
                ({**torchrun(0, 4), "RANK": "4"}, "ranks count from 0 to 3"),
                ({**torchrun(0, 4), "LOCAL_WORLD_SIZE": "5"}, "one machine has more than all"),
                ({k: v for k, v in torchrun(0, 4).items() if k != "MASTER_PORT"}, "MASTER_PORT is not"),
                ({**torchrun(0, 4), "PMI_RANK": "1", "PMI_SIZE": "4"}, "say that this is rank 1 of 4"),
                ({**torchrun(0, 4, 0, 2), "MGC_SECRET": "12"}, "has 2 hexadecimal digits, and 32 are wanted"),
                ({**torchrun(0, 4, 0, 2), "MGC_SECRET": SECRET, "MASTER_ADDR": "0.0.0.0"}, "stands for every address"),
                ({**torchrun(0, 4, 0, 2), "MGC_SECRET": SECRET, "MGC_PORT": "0"}, "MGC_PORT is '0': a port"),
                (torchrun(0, 4, 0, 2), "MGC_SECRET, which is not set: export MGC_SECRET=$(openssl rand -hex 16)")):
            r = self.run_it(self.args("no"), {k: str(v) for k, v in env.items()}, code=78)
            self.assertIn(words, r.err)
        self.assertFalse(os.path.exists(self.path("no")))

    def test_shells_of_slurm(self):
        """Variables of SLURM that no srun set: the program starts its ranks itself."""
        self.make()
        self.run_it(self.args("bare"))
        batch = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_LOCALID": "0"}
        for name, more in (("batch", {}), ("interactive", {"SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}),
                           ("pty", {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PTY_PORT": "4000"})):
            self.run_it(self.args(name), {**batch, **more})
            self.check_same(name)

    def test_errors_of_the_leader(self):
        """It alone speaks, and all end with its code; bad usage too."""
        self.make()
        said = self.by_hand(torchrun, ["./train", "--data", "nothing-here", "--out", "no"], code=65)
        self.assertIn("rank 0: error", said[0])
        self.assertEqual(said[1:], ["", "", ""])
        said = self.by_hand(torchrun, ["./train", "--stpes", "3"], code=2)
        self.assertIn("did you mean --steps", said[0])
        self.assertEqual(said[1:], ["", "", ""])

        said = self.by_hand(tcp(2), ["./train", "--data", "nothing-here", "--out", "no"], code=65)
        self.assertIn("rank 0: error", said[0])
        self.assertEqual(said[1:], ["", "", ""])

    def test_secrets(self):
        """Ranks on several machines without one, and on a machine that has another."""
        self.make()
        argv = self.args("no", 6, "--hang-after", 1)
        said = self.by_hand(lambda rank, size: {**torchrun(rank, size), "MGC_FAKE_HOSTS": 2}, argv, code=78)
        self.assertIn("export MGC_SECRET=$(openssl rand -hex 16)", said[0])
        self.assertEqual(said[1:], ["", "", ""])
        other = SECRET.replace("0f", "0e")
        p = [self.start(argv, {**tcp(2)(rank, 4), **({"MGC_SECRET": other} if rank > 1 else {})}) for rank in range(4)]
        said = [q.communicate(timeout=60)[0].decode(errors="replace") for q in p]
        self.assertEqual([q.returncode for q in p], [69, 69, 78, 78], said)
        self.assertIn("has it another one?", said[0])
        self.assertIn("rank 2, 3 has not come in 1 s", said[0])
        for rank in (2, 3):
            self.assertIn(f"rank {rank}: error: rank 0 (127.0.0.1 port {PORT + 1}) has another MGC_SECRET", said[rank])
        self.assertFalse(any(SECRET in text or other in text for text in said))
        self.assertFalse(os.path.exists(self.path("no")))

    def test_missing_and_other_ranks(self):
        self.make()
        argv = self.args("no", 6, "--hang-after", 1)
        p = [self.start(argv, torchrun(rank, 4)) for rank in (0, 1, 3)]
        for q in p:
            self.assertEqual(q.wait(30), 69)
        self.assertIn(b"rank 2 has not come in 1 s", p[0].stdout.read())
        self.write("other.mg", LAYOUT.replace("seq -> tp", "").replace("four", "other"))
        self.compiles(MODEL, "--layout", "./other.mg", "-D", "batch=8", "--precision", "f32", "-o", "other")
        p = [self.start(argv if rank else ["./other", *argv[1:]], torchrun(rank, 4)) for rank in range(4)]
        self.assertEqual(p[0].wait(30), 78)
        self.assertIn(b"runs another program", p[0].stdout.read())
        for q in p[1:]:
            self.assertNotEqual(q.wait(30), 0)

    # ---- ends ----------------------------------------------------------------------------------------

    def long(self, launcher, env=None):
        """A run without end, whose ranks train: processes started, ranks by number, text after the end."""
        argv = self.args("long", 10000000, "--hang-after", 1, "--log-every", 10)
        if launcher == "torchrun":
            started = [self.start(argv, {**torchrun(rank, 4), **(env or {})}) for rank in range(4)]
        else:
            started = [self.start([*launcher, *argv], env)]
        return started, self.await_ranks(started)

    def await_ranks(self, started):
        """The ranks that were started in "long", by number, once they train."""
        for _ in range(400):
            time.sleep(0.05)
            ranks = sorted({q for p in started for q in below(p.pid) if self.is_rank(q)})
            if os.path.exists(self.path("long/metrics.jsonl")) and b'"loss"' in self.read("long/metrics.jsonl") \
                    and len(ranks) == 4:
                break
        else:
            self.fail("it does not start")
        for pid in ranks:
            self.addCleanup(self.end, pid)
        return ranks

    def is_rank(self, pid):
        try:
            return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(self.path("train"))
        except OSError:
            return False

    def end(self, pid):
        if self.is_rank(pid):
            os.kill(pid, signal.SIGKILL)

    def gone(self, pids):
        for _ in range(100):
            if not any(runs(pid) for pid in pids):
                return
            time.sleep(0.05)
        self.fail("some ranks are still there")

    def launchers(self):
        """The bare start; torchrun's and an MPI's, on one machine or on two."""
        yield [], {}
        for env in some(({}, {"MGC_FAKE_HOSTS": "2", "MGC_SECRET": SECRET})):
            yield "torchrun", env
        for kind in SAMPLE:
            if shutil.which(MPIS[kind][0]):
                for env in some(({}, {"MGC_FAKE_HOSTS": "2"}), turn=TURN // len(MPIS)):
                    yield self.mpirun(kind), env

    def failure(self, number, signum, words, limit):
        for launcher, env in self.launchers():
            # MPICH's launcher kills all ranks as soon as one is gone: they race it to say why.
            tries = 5 if launcher and "mpich" in launcher[0] and signum == signal.SIGKILL else 1
            with self.subTest(launcher=launcher, env=env):
                while self.fails(launcher, env, number, signum, words, limit) and tries > 0:
                    tries -= 1
                self.assertGreater(tries, 0, "nobody said why")

    def fails(self, launcher, env, number, signum, words, limit):
        """True if the job ended as it should, but for what a launcher's ranks say of it."""
        shutil.rmtree(self.path("long"), ignore_errors=True)
        started, ranks = self.long(launcher, env)
        began = time.monotonic()
        os.kill(ranks[number], signum)
        codes = [p.wait(20) for p in started]
        self.assertLess(time.monotonic() - began, limit)
        self.gone(ranks)
        said = [p.stdout.read().decode(errors="replace") for p in started]
        if launcher == "torchrun":
            for rank in range(4):
                if rank != number:
                    self.assertEqual(codes[rank], 69, said[rank])
                    self.assertIn(f"rank {rank}: error: rank {number} {words}", said[rank])
            return False
        if not launcher:
            self.assertEqual(codes, [69 if number else -9], said)
            self.assertIn(f"error: rank {number} {words}", said[0])
            return False
        self.assertNotEqual(codes, [0])
        return f"error: rank {number} {words}" not in said[0]

    def test_a_rank_dies(self):
        """All end within five seconds, and say which."""
        self.make()
        self.failure(2, signal.SIGKILL, "is gone", 5)

    def test_a_rank_hangs(self):
        """It is named with what the others wait in; a stopped process does not outlive them."""
        self.make()
        self.failure(1, signal.SIGSTOP, "hangs: its process has not run for 1 s", 10)
        said = self.hung_words(0, "torchrun")
        self.assertRegex(said, r"rank 0 hangs: .*; the others wait in action \d+, \S+ \(communication")

    def test_whoever_finds_out_is_held_up(self):
        """In saying it, by a pipe that is full, until rank 0, with which all ranks of a bare start end, has heard of it."""
        self.make()
        for k in range(12 if FULL else 3):
            shutil.rmtree(self.path("long"), ignore_errors=True)
            out, to = os.pipe()
            with subprocess.Popen(self.args("long", 10000000, "--hang-after", 1), cwd=self.dir, env=CLEAN,
                                  stdout=subprocess.DEVNULL, stderr=to) as p, open(out, "rb") as said:
                self.addCleanup(p.kill)
                ranks = self.await_ranks([p])
                os.set_blocking(to, False)
                try:
                    while os.write(to, b"." * 256):
                        pass
                except BlockingIOError:
                    os.set_blocking(to, True)
                os.close(to)
                os.kill(ranks[1], signal.SIGSTOP)
                time.sleep(1.8)
                self.assertIn(b"error: rank 1 hangs: its process has not run for 1 s", said.read().lstrip(b"."), k)
                self.assertEqual(p.wait(10), 69)
            self.gone(ranks)

    def hung_words(self, number, launcher, env=None):
        """The messages of the others; a stopped process which they cannot reach ends when it goes on."""
        shutil.rmtree(self.path("long"), ignore_errors=True)
        started, ranks = self.long(launcher, env)
        os.kill(ranks[number], signal.SIGSTOP)
        said = "".join(p.communicate(timeout=20)[0].decode(errors="replace") for i, p in enumerate(started)
                       if launcher != "torchrun" or i != number)
        if launcher == "torchrun" and env:
            os.kill(ranks[number], signal.SIGCONT)
            self.assertEqual(started[number].wait(5), 69)
        self.gone(ranks)
        return said

    def test_a_machine_hangs(self):
        """A rank alone on its machine: the others ask each other whom they wait for, and name that one."""
        self.make()
        for kind in (*SAMPLE, "tcp"):
            with self.subTest(kind=kind):
                start = "torchrun" if kind == "tcp" else self.mpirun(kind)
                said = self.hung_words(2, start, {"MGC_FAKE_HOSTS": "4", "MGC_SECRET": SECRET})
                self.assertRegex(said, r"rank 2 hangs: on another machine.*; the others wait in action")
                self.assertNotRegex(said, r"rank [013] hangs")

    def test_suspended_as_a_whole(self):
        """Ranks that all stand still for longer than the limit go on."""
        self.make()
        started, ranks = self.long("torchrun")
        for pid in ranks:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(2)
        for pid in ranks:
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.5)
        self.assertTrue(all(runs(pid) for pid in ranks))
        started[0].terminate()
        self.assertEqual([p.wait(10) for p in started], [75, 0, 0, 0])

    def test_told_to_stop(self):
        """SIGTERM to the launcher saves; the bare start ends with 75."""
        self.make()
        for launcher, env in self.launchers():
            with self.subTest(launcher=launcher, env=env):
                shutil.rmtree(self.path("long"), ignore_errors=True)
                started, ranks = self.long(launcher, env)
                for p in started:
                    p.terminate()
                codes = [p.wait(20) for p in started]
                self.assertEqual(codes[0] if not launcher or launcher == "torchrun" else 75, 75)
                self.gone(ranks)
                self.assertTrue(glob.glob(self.path("long/ckpt/step-*")))

    def test_the_launcher_dies(self):
        """Then the ranks save and end by themselves."""
        self.make()
        for kind in SAMPLE:
            with self.subTest(kind=kind):
                shutil.rmtree(self.path("long"), ignore_errors=True)
                started, ranks = self.long(self.mpirun(kind))
                started[0].kill()
                self.gone(ranks)
                if kind == "openmpi":
                    self.assertTrue(glob.glob(self.path("long/ckpt/step-*")))

    def test_nothing_is_left(self):
        """Shared memory has no name, whether a job ends or is killed."""
        self.make()

        def named():
            """Beside those that Open MPI names by a host, which another test may have called mgc."""
            return {f for f in os.listdir("/dev/shm") if "mgc" in f and not f.startswith("vader_segment.")}

        started, ranks = self.long("torchrun")
        self.assertEqual(named(), set())
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)
        for p in started:
            p.wait(10)
        self.assertEqual(named(), set())
        self.by_hand(torchrun, self.args("after"))  # the name is free again


if __name__ == "__main__":
    mgctest.main()
