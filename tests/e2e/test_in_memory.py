"""In-memory checkpoints: a run that saves to no disk before its end goes on after kills of ranks, and of machines with all that is
on them, at random moments, to the bits of an undisturbed one, and loses no more steps than lie between its copies. A copy that
is damaged is refused. Machines are network namespaces where the test may make some, else pretended (MGC_FAKE_HOSTS)."""

import os
import random
import signal
import struct
import time

import mgctest
import test_elastic
import test_launch
from mgctest import TURN
from test_elastic import KILLS, PORT
from test_launch import SECRET, below

EVERY = 20


def keepers(pid):
    """The processes below one that have in-memory checkpoints, with the descriptors of their memory."""
    found = {}
    for p in below(pid):
        try:
            with open(f"/proc/{p}/comm", encoding="utf-8") as f:
                if f.read().strip() != "mgc keeper":
                    continue
            for fd in os.listdir(f"/proc/{p}/fd"):
                if "memfd:mgc copies" in os.readlink(f"/proc/{p}/fd/{fd}"):
                    found.setdefault(p, []).append(f"/proc/{p}/fd/{fd}")
            found.setdefault(p, [])
        except OSError:
            pass
    return found


@mgctest.in_turns_of(3)
class InMemory(test_elastic.Supervised):
    def setUp(self):
        super().setUp()
        self.newest = []

    def kept(self, out):
        """The steps of its in-memory checkpoints, as the log has them."""
        return [m["of"] for m in self.metrics(out, events=True) if m.get("event") == "memory_save"]

    def await_kept(self, out, step, p):
        until = time.monotonic() + 60
        while not os.path.exists(self.path(f"{out}/metrics.jsonl")) or not [s for s in self.kept(out) if s >= step]:
            self.assertLess(time.monotonic(), until, self.all_said())
            self.assertIsNone(p.poll(), self.all_said())
            time.sleep(0.02)

    def await_copied(self, out, since, p):
        """Until a copy was made behind a time: what the log had before may be of a machine that is gone."""
        until = time.monotonic() + 60
        while not [m for m in self.metrics(out, events=True) if m.get("event") == "memory_save" and m["time"] > since]:
            self.assertLess(time.monotonic(), until, self.all_said())
            self.assertIsNone(p.poll(), self.all_said())
            time.sleep(0.02)

    def note_kept(self, out):
        """A kill is about to be: the run has to go on from the newest copy that the log tells of, or a later one."""
        self.newest.append((time.time(), max(self.kept(out), default=0)))

    def check(self, out, want, steps):
        """The bits of the undisturbed run, each step once, and no step lost that a copy had."""
        self.assertEqual(self.saved(out, steps), self.saved(want, steps))
        losses = [[(m["step"], m["loss"]) for m in self.metrics(o) if "loss" in m] for o in (want, out)]
        self.assertEqual(*losses)
        for e in self.events(out):
            done = [step for when, step in self.newest if when < e["time"]]
            self.assertGreaterEqual(e["step"], done[-1] if done else 0, (e, done, self.all_said()))
        print("steps lost:", *[e["lost_steps"] for e in self.events(out)], flush=True)
        self.assertEqual(os.listdir(self.path(f"{out}/ckpt")), [f"step-{steps:08d}"])

    def argv(self, out, steps, *more):
        return self.args(out, steps, "--save-every", 10**6, "--memory-save-every", EVERY, *more)

    # ---- random moments ------------------------------------------------------------------------

    def test_killed_on_one_machine(self):
        steps, r, killed = 150 + 40 * KILLS, random.Random(TURN + 11), []
        self.make("--precision", "f32")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        p = self.begin(self.argv("broken", steps, "--max-restarts", 2 * KILLS, "--hang-after", 1))

        def kill(i):
            ranks = self.await_ranks(p)
            self.note_kept("broken")
            killed.extend(self.end_one(ranks, i, r))

        self.await_kept("broken", EVERY, p)
        self.disturb(p, "broken", steps, kill, r)
        self.ends(p, seconds=600)
        self.check("broken", "whole", steps)
        print(f"{len(killed)} kills on one machine, {len(self.events('broken'))} restarts that are in the log", flush=True)

    def test_killed_on_two_machines(self):
        """Also the machine of RANK 0, which no disk helps: parameters and state are in the memory of the other."""
        steps, r = 150 + 40 * KILLS, random.Random(TURN + 12)
        where = self.machines()
        self.make("--precision", "f32")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        argv = self.argv("broken", steps, "--max-restarts", 3 * KILLS, "--hang-after", 2, "--rejoin", 60)
        m = self.members(where, argv)
        killed = {"rank": 0, "machine": 0}

        def kill(i):
            self.note_kept("broken")
            if i % 2:
                ranks = [pid for p in m.values() for pid in self.ranks_of(p.pid)]
                if ranks:
                    os.kill(r.choice(ranks), signal.SIGKILL)
                    killed["rank"] += 1
                return
            # Both machines have the newest copy again.
            self.await_copied("broken", self.kills[-2][0] if i else 0, m[0])
            self.note_kept("broken")
            gone = r.choice(((0, 1), (2, 3)))
            self.kill_machine(m, gone)
            killed["machine"] += 1
            time.sleep(r.uniform(0, 1))
            m.update(self.members(where, argv, gone))

        self.await_kept("broken", EVERY, m[0])
        self.disturb(m[0], "broken", steps, kill, r, lambda: m[0])
        self.all_end(m, seconds=600)
        self.check("broken", "whole", steps)
        self.assertTrue(all(e["step"] for e in self.events("broken")), self.all_said())
        self.assertEqual([pid for p in m.values() for pid in keepers(p.pid)], [])
        print(f"killed: {killed}, {len(self.events('broken'))} restarts that are in the log", flush=True)

    # ---- what else may be ----------------------------------------------------------------------

    def damage(self, pid):
        """Flips a bit in the middle of each copy that a supervisor's keeper has."""
        n = 0
        for found in keepers(pid).values():
            for path in found:
                with open(path, "r+b", buffering=0) as f:
                    size = os.fstat(f.fileno()).st_size
                    if size:
                        f.seek(size // 2)
                        byte = f.read(1)[0]
                        f.seek(size // 2)
                        f.write(bytes([byte ^ 16]))
                        n += 1
        self.assertGreater(n, 0)

    def stop_damage_kill(self, whose, all_of_them):
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for p in all_of_them:
                for pid in self.ranks_of(p.pid):
                    os.kill(pid, how)
            if how == signal.SIGSTOP:
                self.damage(whose.pid)

    def test_damaged(self):
        """A copy of which one bit is wrong is refused: that of another machine is taken, and else the disk's."""
        steps = 4000
        self.make("--precision", "f32", "-D", "dp=2")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        # Alone: the disk's.
        p = self.begin(self.args("alone", steps, "--save-every", 10**6, "--memory-save-every", 50, "--max-restarts", 3))
        self.await_kept("alone", 50, p)
        os.kill(p.pid, signal.SIGUSR1)
        while not [n for n in os.listdir(self.path("alone/ckpt") if os.path.exists(self.path("alone/ckpt")) else ".") if n.startswith("step-")]:
            self.assertIsNone(p.poll(), self.all_said())
            time.sleep(0.02)
        (disk,) = [int(n[5:]) for n in os.listdir(self.path("alone/ckpt")) if n.startswith("step-")]
        self.await_kept("alone", disk + 1, p)
        self.stop_damage_kill(p, [p])
        said = self.ends(p)
        self.assertTrue("of what is in memory is damaged" in said, self.all_said())
        (event,) = self.events("alone")
        self.assertEqual(event["step"], disk)
        self.assertEqual(self.saved("alone", steps), self.saved("whole", steps))
        # Of two machines: the other one's copy.
        env = lambda rank: {**test_launch.torchrun(rank, 2, port=PORT), "MGC_SECRET": SECRET, "MGC_FAKE_HOSTS": 2}
        argv = self.args("two", steps, "--save-every", 10**6, "--memory-save-every", 50, "--max-restarts", 3)
        m = {rank: self.begin(argv, env(rank)) for rank in range(2)}
        self.await_kept("two", 100, m[0])
        self.stop_damage_kill(m[TURN % 2], list(m.values()))
        self.all_end(m)
        (event,) = self.events("two")
        self.assertGreaterEqual(event["step"], 100)
        self.assertEqual(event["step"] % 50, 0)
        self.assertEqual(self.saved("two", steps), self.saved("whole", steps))

    def test_shrinks(self):
        """A machine that does not come back: the rest goes on from memory, on another mesh."""
        gone = ((2, 3), (0, 1))[TURN % 2]
        steps = 1000
        where = self.machines()
        self.make("--precision", "f64", "--elastic", "1..4")
        self.ends(self.begin(self.args("whole", steps, "--ranks", 4)))
        argv = self.argv("less", steps, "--max-restarts", 3, "--rejoin", 2)
        m = self.members(where, argv)
        self.await_kept("less", 50, m[0])
        self.kill_machine(m, gone)
        for rank in gone:
            del m[rank]
        self.all_end(m)
        (event,) = self.events("less")
        self.assertEqual(event["mesh"], "dp=2")
        self.assertGreaterEqual(event["step"], 50)
        for a, b in zip(self.numbers("whole", steps), self.numbers("less", steps)):
            self.assertLess(abs(a - b), 1e-9)

    def test_out_is_not_shared(self):
        """A machine that does not see the run's directory has its part in memory all the same."""
        steps = 1500
        self.make("--precision", "f32", "-D", "dp=2")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        os.mkdir(self.path("other"))
        argv = self.argv("mine", steps, "--max-restarts", 3, "--rejoin", 60)
        there = [os.path.abspath(self.path("train")), "--data", self.path("text1.txt"), *argv[3:]]
        env = lambda rank: {**test_launch.torchrun(rank, 2, port=PORT), "MGC_SECRET": SECRET, "MGC_FAKE_HOSTS": 2}
        m = {0: self.begin(argv, env(0)), 1: self.begin(["sh", "-c", 'cd other; exec "$@"', "sh", *there], env(1))}
        self.await_kept("mine", 3 * EVERY, m[0])
        self.note_kept("mine")
        self.kill_machine(m, (1,))
        m[1] = self.begin(["sh", "-c", 'cd other; exec "$@"', "sh", *there], env(1))
        self.all_end(m)
        self.check("mine", "whole", steps)
        self.assertGreater(self.events("mine")[0]["step"], 0)
        self.assertFalse(os.path.exists(self.path("other/mine")))

    def test_a_keeper_is_gone(self):
        """The process with the memory is killed: the run goes on, another one takes its place, and the next copies are there."""
        steps = 3000
        self.make("--precision", "f32", "-D", "dp=2")
        self.ends(self.begin(self.args("whole", steps)), seconds=600)
        p = self.begin(self.argv("kept", steps, "--max-restarts", 3))
        self.await_kept("kept", EVERY, p)
        for pid in keepers(p.pid):
            os.kill(pid, signal.SIGKILL)
        at = self.steps("kept")
        self.await_kept("kept", at + 3 * EVERY, p)
        os.kill(self.ranks_of(p.pid)[1], signal.SIGKILL)
        said = self.ends(p)
        self.assertIn("the process that had in-memory checkpoints is gone (Killed)", said)
        self.check("kept", "whole", steps)
        (event,) = self.events("kept")
        self.assertGreater(event["step"], at)

    def test_what_is_said_and_refused(self):
        self.make("--precision", "f32", "-D", "dp=2")
        r = self.run_it(self.args("said", 40, "--memory-save-every", 5, "--max-restarts", 1))
        size = sum(os.path.getsize(self.path(f"said/ckpt/step-00000040/{n}.safetensors")) for n in ("model", "optimizer"))
        (bytes_,) = {m["bytes"] for m in self.metrics("said", events=True) if m.get("event") == "memory_save"}
        header = 0
        for n in ("model", "optimizer"):
            with open(self.path(f"said/ckpt/step-00000040/{n}.safetensors"), "rb") as f:
                header += 8 + struct.unpack("<Q", f.read(8))[0]
        self.assertEqual(bytes_, size - header)
        self.assertIn("in-memory checkpoints every 5 steps: ", r.out)
        self.assertIn("to the supervisor; another machine has none", r.out)
        self.assertRegex(r.out, r"in-memory checkpoints: \d+, for which steps stood still")
        for argv, says in ((("--memory-save-every", 5), "--memory-save-every is for --max-restarts N"),
                           (("--memory-save-every", 5, "--max-restarts", 1, "--save", "blocking"), "leave --save blocking out")):
            self.assertIn(says, self.run_it(self.args("no", 5, *argv), code=2).err)


if __name__ == "__main__":
    mgctest.main()
