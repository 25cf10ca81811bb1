"""Runs that go on by themselves: ranks, and machines with all that is on them, are killed and stopped at random moments of a
run of four ranks, and it ends with the bits of an undisturbed one; what is not started again; what a signal does; a program
for several numbers of ranks, and a run that shrinks. Machines are network namespaces where the test may make some, else
pretended (MGC_FAKE_HOSTS). MGC_FULL=1 kills a hundred times, as MGC_KILLS says otherwise."""

import hashlib
import json
import os
import random
import re
import signal
import struct
import subprocess
import time
import unittest

import mgctest
import test_launch
from mgctest import FULL, TURN
from test_launch import CLEAN, MODEL, SECRET, below, runs

LAYOUT = """layout dps {
    device cpu
    mesh dp = 4
    batch -> dp
    state, grads -> dp
    microbatch 1
}
"""
KILLS = int(os.environ.get("MGC_KILLS", "100" if FULL else "3"))
PORT = 33000 + os.getpid() * 8 % 12000


def of_process(pid):
    """Its command line and variables; empty if it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f, open(f"/proc/{pid}/environ", "rb") as g:
            return f.read(), g.read()
    except OSError:
        return b"", b""


class Elastic(mgctest.Case):
    run_it, start, hosts = (getattr(test_launch.Launch, f) for f in ("run_it", "start", "hosts"))

    def make(self, *more, layout=LAYOUT, model=MODEL):
        self.write("dps.mg", layout)
        self.compiles(model, "--layout", "./dps.mg", "-D", "batch=8", "-o", "train", *more)
        self.text(6000)

    def args(self, out, steps, *more):
        return ["./train", "--data", "text1.txt", "--steps", str(steps), "--out", out, "--threads", "1", "--log-every", "1",
                *map(str, more)]

    def begin(self, argv, env=None):
        """A process whose output is a file, which nobody has to read."""
        log = open(self.path(f"log{len(self.logs)}"), "wb+")
        self.logs.append(log)
        p = subprocess.Popen(argv, cwd=self.dir, env={**CLEAN, **{k: str(v) for k, v in (env or {}).items()}}, stdout=log,
                             stderr=subprocess.STDOUT)
        p.log = log
        self.addCleanup(self.end, p)
        return p

    def end(self, p):
        for pid in reversed(below(p.pid)) if p.poll() is None else ():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        p.wait()

    def setUp(self):
        super().setUp()
        self.logs = []
        self.addCleanup(lambda: [f.close() for f in self.logs])

    def said(self, p):
        p.log.flush()
        p.log.seek(0)
        return p.log.read().decode(errors="replace")

    def ends(self, p, code=0, seconds=120):
        try:
            p.wait(seconds)
        except subprocess.TimeoutExpired:
            self.fail("it does not end:\n" + self.all_said())
        self.assertEqual(p.returncode, code, self.all_said())
        return self.said(p)

    def all_said(self):
        """What all processes said, without the lines of steps."""
        lines = [line for f in self.logs for line in [f"-- {f.name[-5:]}", *self.said_by(f).split("\n")]]
        return "\n".join(line for line in lines if not line.startswith(("step ", "saved ")))[-8000:]

    def said_by(self, log):
        log.seek(0)
        return log.read().decode(errors="replace")

    def steps(self, out):
        """The last step of the log, or 0."""
        try:
            with open(self.path(f"{out}/metrics.jsonl"), "rb") as f:
                found = re.findall(rb'"step":(\d+)', f.read())
            return int(found[-1]) if found else 0
        except OSError:
            return 0

    def await_steps(self, out, step, p, seconds=60):
        until = time.monotonic() + seconds
        while self.steps(out) < step:
            if p.poll() is not None or time.monotonic() > until:
                self.fail(f"no step {step}, at {self.steps(out)}: " + self.all_said())
            time.sleep(0.02)

    def saved(self, out, step):
        found = {}
        for name in ("model", "optimizer"):
            with open(self.path(f"{out}/ckpt/step-{step:08d}/{name}.safetensors"), "rb") as f:
                found[name] = hashlib.sha256(f.read()).hexdigest()
        return found

    def events(self, out):
        return [m for m in self.metrics(out) if m.get("event") == "restart"]

    def check_same(self, out, want, steps, every):
        """The bits of the undisturbed run at the end, its losses, each once, and at most `every` steps lost at a time."""
        self.assertEqual(self.saved(out, steps), self.saved(want, steps))
        losses = [[(m["step"], m["loss"]) for m in self.metrics(o) if "loss" in m] for o in (want, out)]
        self.assertEqual(*losses)
        for e in self.events(out):
            if e["lost_steps"] is not None:
                self.assertLessEqual(e["lost_steps"], every, e)

    def ranks_of(self, supervisor):
        """The processes below a supervisor that are ranks: the first, and those that it started."""
        found = below(supervisor)[1:]
        return [pid for pid in found if b"--resume" in of_process(pid)[0] or b"--data" in of_process(pid)[0]]

    # ---- one machine ---------------------------------------------------------------------------

    def disturb(self, p, out, steps, kill, r, now=None):
        """Kills so often, at moments drawn over the run's steps; some soon after the one before, while the run begins again."""
        for i, at in enumerate(sorted(r.sample(range(2, steps - steps // 10), KILLS))):
            if i and r.random() < 0.25:
                time.sleep(r.uniform(0, 0.6))
            else:
                self.await_steps(out, at, now() if now else p)
                time.sleep(r.uniform(0, 0.02))
            kill(i)

    def test_killed_on_one_machine(self):
        """Ranks are killed, or stopped, at random moments; also the one that reads data and saves."""
        steps, every, r, killed = 200 + 100 * KILLS, 20, random.Random(TURN + 1), []
        self.make("--precision", "f32")
        self.run_it(self.args("whole", steps, "--save-every", every, "--keep", 2))
        p = self.begin(self.args("broken", steps, "--save-every", every, "--max-restarts", 2 * KILLS, "--hang-after", 1))

        def kill(i):
            ranks = self.ranks_of(p.pid)
            while not ranks:
                self.assertIsNone(p.poll(), self.all_said())
                time.sleep(0.01)
                ranks = self.ranks_of(p.pid)
            victim, how = r.choice(ranks), signal.SIGSTOP if i % 3 == 2 else signal.SIGKILL
            try:
                os.kill(victim, how)
                killed.append(how)
            except OSError:
                pass

        self.disturb(p, "broken", steps, kill, r)
        said = self.ends(p, seconds=300)
        self.check_same("broken", "whole", steps, every)
        self.assertGreater(len(killed), KILLS * 3 // 4)
        self.assertGreater(len(re.findall(r": restart \d+ of", said)), KILLS // 2, self.all_said())
        print(f"{len(killed)} kills on one machine, {len(self.events('broken'))} restarts that are in the log", flush=True)


    # ---- several machines ----------------------------------------------------------------------

    def machines(self):
        """A function that gives the command and the variables of RANK on one of two machines, and their MASTER_ADDR."""
        try:
            tag, net, _ = self.hosts()
            address = net.replace(".0/24", ".1")
            return lambda rank, argv: (["ip", "netns", "exec", f"{tag}h{1 + rank // 2}", *argv],
                                       {**test_launch.torchrun(rank, 4, rank % 2, 2, PORT), "MASTER_ADDR": address, "MGC_SECRET": SECRET})
        except unittest.SkipTest:
            return lambda rank, argv: (argv, {**test_launch.torchrun(rank, 4, port=PORT), "MGC_FAKE_HOSTS": 2, "MGC_SECRET": SECRET})

    def members(self, where, argv, ranks=range(4)):
        return {rank: self.begin(*where(rank, argv)) for rank in ranks}

    def all_end(self, members, code=0, seconds=120):
        said = {rank: self.ends(p, code if isinstance(code, int) else code[rank], seconds) for rank, p in members.items()}
        return said

    def kill_machine(self, members, ranks):
        """All that runs there ends at once, supervisors and ranks."""
        pids = [pid for rank in ranks for pid in below(members[rank].pid)]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for rank in ranks:
            members[rank].wait()

    def test_killed_on_two_machines(self):
        """Ranks, and machines with all their processes, which come back; also that of RANK 0."""
        steps, every, r = 200 + 100 * KILLS, 20, random.Random(TURN + 2)
        where = self.machines()
        self.make("--precision", "f32")
        self.run_it(self.args("whole", steps, "--save-every", every, "--keep", 2))
        argv = self.args("broken", steps, "--save-every", every, "--max-restarts", 3 * KILLS, "--hang-after", 2, "--rejoin", 60)
        m = self.members(where, argv)
        killed = {"rank": 0, "stopped": 0, "machine": 0}

        def kill(i):
            if i % 2 == 0:
                ranks = [pid for p in m.values() for pid in self.ranks_of(p.pid)]
                if ranks:
                    how = "stopped" if i % 6 == 4 else "rank"
                    os.kill(r.choice(ranks), signal.SIGSTOP if how == "stopped" else signal.SIGKILL)
                    killed[how] += 1
                return
            gone = r.choice(((0, 1), (2, 3)))
            self.kill_machine(m, gone)
            killed["machine"] += 1
            time.sleep(r.uniform(0, 1))
            m.update(self.members(where, argv, gone))

        self.disturb(m[0], "broken", steps, kill, r, lambda: m[0])
        self.all_end(m, seconds=600)
        self.check_same("broken", "whole", steps, every)
        print(f"killed: {killed}, {len(self.events('broken'))} restarts that are in the log", flush=True)

    def test_shrinks(self):
        """A machine that does not come back: the run goes on with the ranks of the other, to the same numbers."""
        for gone in ((2, 3), (0, 1)) if FULL else (((2, 3), (0, 1))[TURN % 2],):
            where = self.machines()
            self.make("--precision", "f64", "--elastic", "1..4")
            steps, out = 300, f"less{gone[0]}"
            self.run_it(self.args("whole", steps, "--ranks", 4))
            argv = self.args(out, steps, "--save-every", 20, "--max-restarts", 3, "--rejoin", 2)
            m = self.members(where, argv)
            self.await_steps(out, 50, m[0])
            self.kill_machine(m, gone)
            for rank in gone:
                del m[rank]
            self.all_end(m)
            (event,) = self.events(out)
            self.assertEqual((event["ranks"], event["mesh"], event["restart"]), (2, "dp=2", 1))
            for a, b in zip(self.numbers("whole", steps), self.numbers(out, steps)):
                self.assertLess(abs(a - b), 1e-9)

    def numbers(self, out, step):
        with open(self.path(f"{out}/ckpt/step-{step:08d}/model.safetensors"), "rb") as f:
            size, = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(size))
            self.assertEqual({t["dtype"] for n, t in header.items() if n != "__metadata__"}, {"F64"})
            data = f.read()
        return struct.unpack(f"<{len(data) // 8}d", data)

    def test_spare(self):
        """A process more than ranks waits, and takes the place of one that is gone for good."""
        self.make("--precision", "f32", "-D", "dp=2")
        steps = 300
        self.run_it(self.args("whole", steps))
        argv = self.args("spared", steps, "--save-every", 20, "--max-restarts", 3, "--rejoin", 60)
        m = {rank: self.begin(argv, {**test_launch.torchrun(rank, 3, port=PORT), "MGC_SECRET": SECRET}) for rank in range(3)}
        self.await_steps("spared", 50, m[0])
        self.assertEqual([len(self.ranks_of(m[rank].pid)) for rank in (1, 2)], [1, 0])
        self.kill_machine(m, (1,))
        del m[1]
        self.all_end(m)
        self.check_same("spared", "whole", steps, 20)
        self.assertEqual([e["ranks"] for e in self.events("spared")], [2])

if __name__ == "__main__":
    mgctest.main()
