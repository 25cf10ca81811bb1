"""A cluster of SLURM in a folder: munged, slurmctld and a slurmd on each of some hosts, which are network namespaces."""

import os
import shutil
import subprocess
import time

NEEDS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "ip", "unshare")
CONF = """ClusterName=mgc
SlurmctldHost=ctl({net}.254)
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmdPort={next}
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/ctl.pid
SlurmdPidFile={dir}/%n.pid
SlurmctldLogFile={dir}/ctl.log
SlurmdLogFile={dir}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,sched_min_interval=1000000
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
SlurmdTimeout=8
KillWait=5
ReturnToService=2
JobRequeue=1
MessageTimeout=30
"""


def path_of(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def missing():
    """Why there can be none, or None."""
    lacks = [n for n in NEEDS if not path_of(n)]
    return f"not installed: {', '.join(lacks)} (scripts/setup --clusters)" if lacks else "it takes root" if os.geteuid() else None


class Cluster:
    def __init__(self, case, nodes):
        self.case, self.nodes, self.started = case, nodes, {}
        self.tag, self.net = f"mgs{os.getpid() % 10000}", f"10.96.{os.getpid() % 250}"
        self.dir = case.path("slurm")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "MGC_", "OMPI_", "PMI"))}
        self.env.update(SLURM_CONF=f"{self.dir}/slurm.conf", PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        for d in ("", "munge", "state"):
            os.makedirs(os.path.join(self.dir, d))
        os.chmod(case.dir, 0o755)
        os.chmod(self.dir, 0o755)

    def ip(self, *argv):
        return subprocess.run(["ip", *argv], capture_output=True, env=self.env, check=False).returncode == 0

    def make_hosts(self):
        bridge = f"{self.tag}b"
        self.case.addCleanup(self.ip, "link", "del", bridge)
        good = self.ip("link", "add", bridge, "type", "bridge") and self.ip("addr", "add", f"{self.net}.254/24", "dev", bridge) and \
            self.ip("link", "set", bridge, "up")
        for i in range(1, self.nodes + 1):
            h = f"{self.tag}h{i}"
            self.case.addCleanup(self.ip, "netns", "del", h)
            good = good and self.ip("netns", "add", h) and \
                self.ip("link", "add", f"{self.tag}v{i}", "type", "veth", "peer", "name", "eth0", "netns", h) and \
                self.ip("link", "set", f"{self.tag}v{i}", "master", bridge, "up") and \
                self.ip("-n", h, "addr", "add", f"{self.net}.{i}/24", "dev", "eth0") and \
                self.ip("-n", h, "link", "set", "eth0", "up") and self.ip("-n", h, "link", "set", "lo", "up")
        return good

    def start(self, name, argv, host=None):
        """As a host of that name, which finds all others by name."""
        inside = ["unshare", "--uts", "--mount", "sh", "-c",
                  f"hostname {name}; mount --bind {self.dir}/names /etc/hosts; exec \"$@\"", "sh", *argv]
        with open(f"{self.dir}/{name}.out", "wb") as out:
            p = subprocess.Popen([*(["ip", "netns", "exec", host] if host else []), *inside], env=self.env, cwd=self.dir,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        self.case.addCleanup(self.stop, name)
        self.started[name] = p

    def stop(self, name):
        p = self.started[name]
        p.kill()
        p.wait()

    def processes(self, node):
        r = subprocess.run(["ip", "netns", "pids", f"{self.tag}h{node}"], capture_output=True, env=self.env, check=False)
        return [int(w) for w in r.stdout.split()]

    def kill(self, node):
        """All that runs on it."""
        for pid in self.processes(node):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

    def open(self):
        """None, or why it cannot be."""
        if not self.make_hosts():
            return "this machine makes no network namespaces"
        port = 20000 + os.getpid() * 2 % 12000
        nodes = "".join(f"NodeName=node{i} NodeAddr={self.net}.{i} CPUs=4 State=UNKNOWN\n" for i in range(1, self.nodes + 1))
        for name, text in (
                ("slurm.conf", CONF.format(dir=self.dir, net=self.net, port=port, next=port + 1) + nodes +
                 f"PartitionName=all Nodes=node[1-{self.nodes}] Default=YES MaxTime=INFINITE State=UP\n"),
                ("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainCores=no\n"),
                ("names", f"127.0.0.1 localhost\n{self.net}.254 ctl\n" +
                 "".join(f"{self.net}.{i} node{i}\n" for i in range(1, self.nodes + 1)))):
            with open(os.path.join(self.dir, name), "w", encoding="ascii") as f:
                f.write(text)
        with open(f"{self.dir}/munge/key", "wb", opener=lambda p, flags: os.open(p, flags, 0o600)) as f:
            f.write(os.urandom(1024))
        self.start("munge", ["munged", "--force", "--foreground", f"--socket={self.dir}/munge/socket", f"--key-file={self.dir}/munge/key",
                             f"--log-file={self.dir}/munge/log", f"--pid-file={self.dir}/munge/pid", f"--seed-file={self.dir}/munge/seed"])
        self.wait(lambda: os.path.exists(f"{self.dir}/munge/socket"), 30, "munged")
        self.start("ctl", ["slurmctld", "-D", "-c"])
        for i in range(1, self.nodes + 1):
            self.case.addCleanup(self.kill, i)
            os.makedirs(f"{self.dir}/spool-node{i}")
            self.start(f"node{i}", ["slurmd", "-D", "-N", f"node{i}"], f"{self.tag}h{i}")
        self.wait(lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(self.nodes), 60, "all nodes")
        return None

    def wait(self, what, seconds, name):
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                self.case.fail(f"{name} did not come in {seconds} s:\n{self.logs()}")
            time.sleep(0.3)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.dir)):
            if name.endswith((".out", ".log")):
                with open(f"{self.dir}/{name}", encoding="utf-8", errors="replace") as f:
                    text += f"== {name}\n{f.read()[-1500:]}\n"
        return text

    def run(self, *argv, code=None):
        r = subprocess.run(argv, cwd=self.case.dir, env=self.env, capture_output=True, timeout=300, check=False)
        if code is not None:
            self.case.assertEqual(r.returncode, code, r.stdout[-3000:].decode(errors="replace") + r.stderr[-3000:].decode(errors="replace") +
                                  (self.logs() if r.returncode != code else ""))
        return r.stdout.decode(errors="replace")
