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
    """Its command line and variables; empty if it is gone, or has in-memory checkpoints alone."""
    try:
        with open(f"/proc/{pid}/comm", "rb") as f:
            if f.read() == b"mgc keeper\n":
                return b"", b""
        with open(f"/proc/{pid}/cmdline", "rb") as f, open(f"/proc/{pid}/environ", "rb") as g:
            return f.read(), g.read()
    except OSError:
        return b"", b""


class Supervised(mgctest.Case):
    """Runs that have supervisors, and how they are disturbed and compared."""
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
        self.logs, self.kills = [], []
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

    def has_new(self, out, since):
        """Was a step logged behind a time?"""
        try:
            with open(self.path(f"{out}/metrics.jsonl"), "rb") as f:
                lines = f.read().splitlines()
            return os.stat(self.path(f"{out}/metrics.jsonl")).st_mtime > since and b'"loss"' in lines[-1]
        except (OSError, IndexError):
            return False

    def await_new(self, out, since, p, seconds=60):
        until = time.monotonic() + seconds
        while not self.has_new(out, since):
            if p.poll() is not None or time.monotonic() > until:
                self.fail("no new step: " + self.all_said())
            time.sleep(0.02)

    def saved(self, out, step):
        found = {}
        for name in ("model", "optimizer"):
            with open(self.path(f"{out}/ckpt/step-{step:08d}/{name}.safetensors"), "rb") as f:
                found[name] = hashlib.sha256(f.read()).hexdigest()
        return found

    def events(self, out):
        if not os.path.exists(self.path(f"{out}/metrics.jsonl")):
            return []
        return [m for m in self.metrics(out, events=True) if m.get("event") == "restart"]

    def check_same(self, out, want, steps, every):
        """The bits of the undisturbed run at the end, its losses, each once, and at most `every` steps lost at a time, beside those
        that were made while a checkpoint was being written: the next one waits for it, so these are no more than `every`, too."""
        every *= 2
        self.assertEqual(self.saved(out, steps), self.saved(want, steps))
        losses = [[(m["step"], m["loss"]) for m in self.metrics(o) if "loss" in m] for o in (want, out)]
        self.assertEqual(*losses)
        aside = {n: os.listdir(self.path(f"{out}/{n}/ckpt")) for n in os.listdir(self.path(out)) if n.startswith("previous")}
        why = [line for f in self.logs for line in self.said_by(f).split("\n") if re.search("moved to|passed over|set aside", line)]
        self.assertEqual(aside, {}, (why, self.kills))
        for e in self.events(out):
            if e["lost_steps"] is not None:
                self.assertLessEqual(e["lost_steps"], every, e)
            done = [step for when, step in self.kills if when < e["time"]]
            if done:
                self.assertGreaterEqual(e["step"], done[-1] - every, (e, done))

    def ranks_of(self, supervisor):
        """The processes below a supervisor that are ranks: the first, and those that it started."""
        found = below(supervisor)[1:]
        return [pid for pid in found if b"--resume" in of_process(pid)[0] or b"--data" in of_process(pid)[0]]

    def await_ranks(self, p):
        """The ranks below a supervisor, as soon as there are some."""
        while not (ranks := self.ranks_of(p.pid)):
            self.assertIsNone(p.poll(), self.all_said())
            time.sleep(0.01)
        return ranks

    @staticmethod
    def end_one(ranks, i, r):
        """Kills one of them, or stops it, every third time: a list of the signal, which is empty where the rank had ended."""
        how = signal.SIGSTOP if i % 3 == 2 else signal.SIGKILL
        try:
            os.kill(r.choice(ranks), how)
            return [how]
        except OSError:
            return []

    def disturb(self, p, out, steps, kill, r, now=None):
        """Kills so often, at moments drawn over the run's steps; some soon after the one before, while the run begins again: but no
        third one before a step, behind which a run ends, as it does where it ends by itself."""
        without = 0
        for i, at in enumerate(sorted(r.sample(range(2, steps - steps // 10), KILLS))):
            if i and without < 2 and r.random() < 0.25:
                time.sleep(r.uniform(0, 0.6))
            else:
                self.await_steps(out, at, now() if now else p)
                time.sleep(r.uniform(0, 0.02))
            if i and without >= 2:
                self.await_new(out, self.kills[-1][0], now() if now else p)
            step = self.steps(out)
            without = 0 if not self.kills or self.has_new(out, self.kills[-1][0]) else without + 1
            self.kills.append((time.time(), step))
            kill(i)

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

    def numbers(self, out, step):
        with open(self.path(f"{out}/ckpt/step-{step:08d}/model.safetensors"), "rb") as f:
            size, = struct.unpack("<Q", f.read(8))
            header = json.loads(f.read(size))
            self.assertEqual({t["dtype"] for n, t in header.items() if n != "__metadata__"}, {"F64"})
            data = f.read()
        return struct.unpack(f"<{len(data) // 8}d", data)


@mgctest.in_turns_of(5)
class Elastic(Supervised):
    # ---- one machine ---------------------------------------------------------------------------

    def test_killed_on_one_machine(self):
        """Ranks are killed, or stopped, at random moments; also the one that reads data and saves."""
        steps, every, r, killed = 150 + 40 * KILLS, 10, random.Random(TURN + 1), []
        self.make("--precision", "f32")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        p = self.begin(self.args("broken", steps, "--save-every", every, "--max-restarts", 2 * KILLS, "--hang-after", 1))

        self.disturb(p, "broken", steps, lambda i: killed.extend(self.end_one(self.await_ranks(p), i, r)), r)
        said = self.ends(p, seconds=600)
        self.check_same("broken", "whole", steps, every)
        self.assertGreater(len(killed), KILLS * 3 // 4)
        self.assertGreater(len(re.findall(r": restart \d+ of", said)), KILLS // 2, self.all_said())
        print(f"{len(killed)} kills on one machine, {len(self.events('broken'))} restarts that are in the log", flush=True)

    # ---- several machines ----------------------------------------------------------------------

    def test_killed_on_two_machines(self):
        """Ranks, and machines with all their processes, which come back; also that of RANK 0."""
        steps, every, r = 150 + 40 * KILLS, 10, random.Random(TURN + 2)
        where = self.machines()
        self.make("--precision", "f32")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        # Now and then both machines are gone at once, and no supervisor remembers the run: --resume does.
        argv = self.args("broken", steps, "--save-every", every, "--max-restarts", 3 * KILLS, "--hang-after", 2, "--rejoin", 60, "--resume")
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
            steps, out = 1000, f"less{gone[0]}"
            self.ends(self.begin(self.args("whole", steps, "--ranks", 4)))
            argv = self.args(out, steps, "--save-every", 20, "--max-restarts", 3, "--rejoin", 2)
            m = self.members(where, argv)
            self.await_steps(out, 50, m[0])
            self.kill_machine(m, gone)
            for rank in gone:
                del m[rank]
            until = time.monotonic() + 60
            while not self.events(out):
                self.assertLess(time.monotonic(), until, self.all_said())
                time.sleep(0.05)
            self.assertGreaterEqual(self.events(out)[0]["step"], 20)  # that of step 40 may be under way
            self.assertFalse(os.path.exists(self.path(f"{out}/previous-1")))
            # Another restart waits for nobody.
            self.await_steps(out, self.events(out)[0]["step"] + 30, next(iter(m.values())))
            began = time.monotonic()
            for pid in self.ranks_of(max(m.items())[1].pid):
                os.kill(pid, signal.SIGKILL)
            while len(self.events(out)) < 2 and time.monotonic() < began + 60:
                time.sleep(0.05)
            self.all_end(m)
            self.assertEqual([(e["ranks"], e["mesh"], e["restart"]) for e in self.events(out)], [(2, "dp=2", 1), (2, "dp=2", 2)])
            for a, b in zip(self.numbers("whole", steps), self.numbers(out, steps)):
                self.assertLess(abs(a - b), 1e-9)

    def test_grows(self):
        """A machine comes back after the run has gone on without it: from its next save on the run has all ranks again."""
        gone = (2, 3)  # that of RANK 0 would find nobody: its coordinator is another's by then
        steps, where = 2500, self.machines()
        self.make("--precision", "f64", "--elastic", "1..4")
        self.ends(self.begin(self.args("whole", steps, "--ranks", 4)))
        argv = self.args("more", steps, "--save-every", 50, "--max-restarts", 3, "--rejoin", 1)
        m = self.members(where, argv)
        self.await_steps("more", 60, m[0])
        self.kill_machine(m, gone)
        for rank in gone:
            del m[rank]
        for n in range(2):
            until = time.monotonic() + 60
            while len(self.events("more")) <= n:
                self.assertLess(time.monotonic(), until, self.all_said())
                time.sleep(0.05)
            if not n:
                back = self.members(where, argv, gone)
        self.all_end(m)
        events = self.events("more")
        self.assertEqual([e["ranks"] for e in events][0], 2)
        self.assertGreater(events[-1]["ranks"], 2, self.all_said())
        self.assertEqual(events[-1]["lost_steps"], 0)
        self.assertIn("there can be more ranks", events[-1]["cause"])
        for a, b in zip(self.numbers("whole", steps), self.numbers("more", steps)):
            self.assertLess(abs(a - b), 1e-7)
        for p in back.values():
            p.wait(60)

    def test_spare(self):
        """A process more than ranks waits, and takes the place of one that is gone for good."""
        self.make("--precision", "f32", "-D", "dp=2")
        steps = 2000
        self.ends(self.begin(self.args("whole", steps)))
        argv = self.args("spared", steps, "--save-every", 20, "--max-restarts", 3, "--rejoin", 60)
        m = {rank: self.begin(argv, {**test_launch.torchrun(rank, 3, port=PORT), "MGC_SECRET": SECRET}) for rank in range(3)}
        self.await_steps("spared", 50, m[0])
        self.assertEqual([len(self.ranks_of(m[rank].pid)) for rank in (1, 2)], [1, 0])
        # Another process that takes itself for one of them is sent away, and disturbs nobody.
        double = self.begin([*argv[:-1], "1"], {**test_launch.torchrun(1, 3, port=PORT), "MGC_SECRET": SECRET})
        self.assertIn("no other supervisor has answered in 1 s", self.ends(double, 69))
        self.assertIn("another one is the supervisor of RANK 1 already", self.said(m[0]))
        self.assertEqual(self.events("spared"), [])
        self.kill_machine(m, (1,))
        del m[1]
        self.all_end(m)
        self.check_same("spared", "whole", steps, 20)
        self.assertEqual([e["ranks"] for e in self.events("spared")], [2])

    def test_out_is_not_shared(self):
        """A machine that does not see the run's directory does not go on with what it has under that name."""
        self.make("--precision", "f32", "-D", "dp=2", "--elastic", "1..2")
        argv = self.args("mine", 100000, "--save-every", 20, "--max-restarts", 3, "--rejoin", 1)
        os.mkdir(self.path("other"))
        # An earlier run under the same name, which is another's.
        self.run_it(self.args("other/mine", 40, "--save-every", 20, "--ranks", 1))
        there = [os.path.abspath(self.path("train")), "--data", self.path("text1.txt"), *argv[3:]]
        env = lambda rank: {**test_launch.torchrun(rank, 2, port=PORT), "MGC_SECRET": SECRET}
        m = {0: self.begin(argv, env(0)), 1: self.begin(["sh", "-c", 'cd other; exec "$@"', "sh", *there], env(1))}
        self.await_steps("mine", 50, m[0])
        self.kill_machine(m, (0,))
        self.assertIn("none of the machines that are left sees the directory of --out", self.ends(m[1], 78))
        self.assertEqual(sorted(os.listdir(self.path("other/mine/ckpt"))), ["step-00000020", "step-00000040"])
        self.assertFalse(os.path.exists(self.path("other/mine/previous-1")))

    def coordinator(self, supervisor):
        """The process that lets ranks begin: a child without the variables of a rank."""
        found = [pid for pid in below(supervisor)[1:] if b"--data" in of_process(pid)[0] and b"MGC_GENERATION" not in of_process(pid)[1]]
        return found[0] if found else None

    def test_the_coordinator_is_lost(self):
        """The ranks go on, and another one learns all it needs from the members; also if it is stopped."""
        self.make("--precision", "f32", "-D", "dp=2")
        steps = 2000
        self.ends(self.begin(self.args("whole", steps)))
        for how in (signal.SIGKILL, signal.SIGSTOP) if FULL else (signal.SIGKILL,):
            out = f"lost{int(how)}"
            argv = self.args(out, steps, "--save-every", 20, "--max-restarts", 5, "--rejoin", 60)
            m = {rank: self.begin(argv, {**test_launch.torchrun(rank, 2, port=PORT), "MGC_SECRET": SECRET}) for rank in range(2)}
            self.await_steps(out, 30, m[0])
            first = self.coordinator(m[0].pid)
            os.kill(first, how)
            if how == signal.SIGKILL:  # one that is stopped is found by its silence, after the rank that is killed below
                until = time.monotonic() + 60
                while self.coordinator(m[0].pid) in (None, first):
                    self.assertLess(time.monotonic(), until, self.all_said())
                    time.sleep(0.05)
                self.await_steps(out, self.steps(out) + 20, m[0])
            self.assertEqual(self.events(out), [])
            for pid in self.ranks_of(m[1].pid):
                os.kill(pid, signal.SIGKILL)
            self.all_end(m)
            self.check_same(out, "whole", steps, 20)
            self.assertEqual([e["restart"] for e in self.events(out)], [1])

    def test_what_ends_several(self):
        """A signal, bad data, too many restarts, another secret; each process ends, and says why where one has to."""
        self.make("--precision", "f32", "-D", "dp=2")
        where = lambda rank, secret=SECRET, more={}: {**test_launch.torchrun(rank, 2, port=PORT), "MGC_SECRET": secret, **more}

        def begin(out, *more, data="text1.txt"):
            argv = ["./train", "--data", data, "--steps", "100000", "--out", out, "--threads", "1", *more]
            return {rank: self.begin(argv, where(rank)) for rank in range(2)}

        # Under srun, with torchrun's variables beside its own, and told to stop as SLURM would: all of them.
        argv = self.args("stopped", 100000, "--max-restarts", 3, "--grace", 60)
        m = {rank: self.begin(argv, where(rank, more=test_launch.srun(rank, 2))) for rank in range(2)}
        self.await_steps("stopped", 20, m[0])
        for p in m.values():
            p.send_signal(signal.SIGTERM)
        self.all_end(m, {0: 75, 1: 0})
        self.assertEqual(len(os.listdir(self.path("stopped/ckpt"))), 1)
        # Bad data is the leader's to find.
        said = self.all_end(begin("no", "--max-restarts", "3", data="nothing"), 65)
        self.assertNotIn("restart", said[0] + said[1])
        # No restart is allowed, or one.
        for most in (0, 1):
            out = f"most{most}"
            m = begin(out, "--max-restarts", str(most), "--save-every", "10", "--log-every", "1")
            for n in range(most + 1):
                self.await_steps(out, 30 * (n + 1) + max([e["step"] for e in self.events(out)], default=0), m[0])
                os.kill(self.ranks_of(m[1].pid)[0], signal.SIGKILL)
                until = time.monotonic() + 30
                while n < most and not self.events(out):
                    self.assertLess(time.monotonic(), until, self.all_said())
                    time.sleep(0.02)
            said = self.all_end(m, 69)
            self.assertIn(f"the run was started again {most} times, as often as --max-restarts says", said[0])
            self.assertIn("rank 1 was ended by signal 9 (Killed)", said[0])
        # A supervisor that has another secret is let in nowhere, and the run begins without it.
        argv = self.args("secret", 30, "--max-restarts", 3, "--rejoin", 30)
        stranger = self.begin(["./train", *argv[1:-1], "1"], where(1, "5" + SECRET[1:]))
        first = self.begin(argv, where(0))
        until = time.monotonic() + 30
        while "was sent away" not in self.said(first):
            self.assertLess(time.monotonic(), until, self.all_said())
            time.sleep(0.05)
        self.assertIn("it has another MGC_SECRET", self.said(first))
        self.all_end({0: first, 1: self.begin(argv, where(1))})
        self.assertIn("no other supervisor has answered in 1 s", self.ends(stranger, 69))
        # A supervisor that is alone says for whom it waits.
        said = self.ends(self.begin(self.args("alone", 30, "--max-restarts", 3, "--rejoin", 1), where(0)), 69)
        self.assertIn("the supervisor of RANK 1 has not come within --rejoin 1 s, and this program takes 2 ranks", said)

    def test_a_network_is_cut(self):
        """Each half takes the other for gone; one of them goes on, and no other writes to its directory."""
        try:
            tag, net, _ = self.hosts()
        except unittest.SkipTest:
            self.skipTest("this machine makes no network namespaces")
        self.make("--precision", "f64", "--elastic", "1..4")
        steps = 3000
        argv = self.args("cut", steps, "--save-every", 20, "--max-restarts", 3, "--rejoin", 2)
        m = {}
        for rank in range(4):
            env = {**test_launch.torchrun(rank, 4, rank % 2, 2, PORT), "MASTER_ADDR": net.replace(".0/24", ".1"), "MGC_SECRET": SECRET}
            m[rank] = self.begin(["ip", "netns", "exec", f"{tag}h{1 + rank // 2}", *argv], env)
        self.await_steps("cut", 50, m[0])
        subprocess.run(["ip", "link", "set", f"{tag}v2", "down"], check=True)
        codes = []
        for rank, p in m.items():
            p.wait(120)
            codes.append(p.returncode)
        self.assertEqual(sorted(codes[:2] + codes[2:]).count(0), 2, (codes, self.all_said()))
        self.assertEqual((codes[0], codes[2]) if codes[0] == 0 else (codes[2], codes[0]), (codes[1] if codes[0] == 0 else codes[3], 1),
                         (codes, self.all_said()))
        self.assertIn("another program is writing to cut", self.all_said())
        (event,) = self.events("cut")
        self.assertEqual(event["ranks"], 2)
        self.assertEqual(self.steps("cut"), steps)

    def test_programs_of_several_ranks(self):
        """One executable has them all: by --ranks, and by the number of processes; what is refused."""
        self.make("--precision", "f64", "--elastic", "dp=1..4")
        for n in (1, 2, 4):
            self.run_it(self.args(f"n{n}", 5, "--ranks", n))
        for rank, p in enumerate([self.begin(self.args("by2", 5), test_launch.torchrun(r, 2, port=PORT)) for r in range(2)]):
            self.ends(p)
        want = self.numbers("n1", 5)
        for out in ("n2", "n4"):
            for a, b in zip(want, self.numbers(out, 5)):
                self.assertLess(abs(a - b), 1e-9)
        self.assertEqual(self.saved("by2", 5), self.saved("n2", 5))
        # A run goes on as another of them.
        self.run_it(self.args("n1", 8, "--ranks", 4, "--resume"))
        r = self.run_it(self.args("no", 5, "--ranks", 3), code=2)
        self.assertIn("--ranks 3: this program was compiled for 1, 2 or 4", r.err)
        said = self.ends(self.begin(self.args("no", 5), test_launch.torchrun(0, 3, port=PORT)), 78)
        self.assertIn("this program takes 1, 2 or 4 ranks, and torchrun started 3 processes of it", said)
        # A file that was damaged, or cut off, says so, or is the program of the most ranks alone.
        whole = self.read("train")
        for at in (len(whole) - 60, len(whole) - 200000):
            self.write("train", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
            self.assertIn("damaged: compile it again", self.run_it(self.args("no", 5, "--ranks", 1), code=78).err)
        self.write("train", whole[:-100000])
        self.assertIn("was compiled for 4;", self.run_it(self.args("no", 5, "--ranks", 1), code=2).err)

    def test_ranges(self):
        self.write("dps.mg", LAYOUT)
        base = [MODEL, "--layout", "./dps.mg", "-D", "batch=8", "--elastic"]
        r = self.compiles(*base, "1..4", "--plan")
        rows = [line.split() for line in r.out.splitlines()[1:]]
        self.assertEqual([row[:2] for row in rows], [["1", "one"], ["2", "dp=2"], ["not", "dp=3"], ["4", "dp=4"]])
        self.assertIn("'batch' of 8 is not split evenly on 3 ranks", r.out)
        one = self.compiles(MODEL, "--layout", "./dps.mg", "-D", "batch=8", "-D", "dp=2", "--check").out
        self.assertIn(" ".join(rows[1][2:4]), one)  # the memory of the plan that is made alone
        for words, code, says in ((["3..3", "--check"], 1, "MG0626"), (["3..x", "--check"], 2, "is no range of ranks"),
                                  (["4..2", "--check"], 2, "a range counts up"), (["0..2", "--check"], 2, "a range counts up"),
                                  (["=1..2", "--check"], 2, "is no range of ranks"), (["no=1..2", "--check"], 1, "MG0626"),
                                  (["1..999", "--check"], 2, "of at most 256"), (["1..2"], 2, "nothing to do"),
                                  (["1..2", "--schedule"], 2, "--schedule is of one program"),
                                  (["1..2", "--emit=c", "-o", "x.c"], 2, "--emit is of one program")):
            r = self.mgc(*base, *words)
            self.assertEqual(r.returncode, code, (words, r.err))
            self.assertIn(says, r.err, words)
        r = self.mgc(MODEL, "--elastic", "1..2", "--check")
        self.assertEqual(r.returncode, 1)
        self.assertIn("MG0625", r.err)
        for words in (("fmt", MODEL), ("explain", MODEL, "wq"), ("env",)):
            self.assertEqual(self.mgc(*words, "--elastic", "1..2").returncode, 2, words)
        # A source that is wrong is told of once, and its remedies are tried without the range.
        r = self.mgc(MODEL, "--layout", "./dps.mg", "-D", "batch=9", "--elastic", "1..4", "--check")
        self.assertEqual((r.returncode, r.out), (1, ""))
        self.assertIn("MG0332", r.err)


if __name__ == "__main__":
    mgctest.main()
