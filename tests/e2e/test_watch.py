"""mgc watch: what a run's directory says, in a frame of characters; from outside: made runs, a run that goes on, and,
where there is tmux, a terminal with its keys and sizes."""

import json
import os
import shutil
import subprocess
import time
import unittest

import mgctest

TMUX = shutil.which("tmux")
START = {"step": 0, "event": "start", "time": 1000.0, "resumed": False, "program": "tiny", "compiler": "mgc", "layout": "default",
         "device": "processor", "host": "h", "ranks": 4, "ranks_here": 4, "threads": 1, "steps": 200, "batch": 4, "seq": 8,
         "predicted_step_ms": 40.0, "memory_planned": 64 << 20}


def step(n, **more):
    return {"step": n, "loss": 4 / (1 + 0.05 * n), "grad_norm": 0.5, "lr": 1e-3, "step_ms": 50.0, "tokens_per_s": 640.0, "tokens": 32 * n,
            "time": 1000.0 + 0.05 * n, **more}


def lines(*objects):
    return "".join(json.dumps(o) + "\n" for o in objects)


class Runs(mgctest.Case):
    def run_of(self, name, *objects, text=""):
        os.makedirs(self.path(name), exist_ok=True)
        self.write(f"{name}/metrics.jsonl", lines(*objects) + text)

    def once(self, *runs, code=0, locale="C.UTF-8", size=(80, 24)):
        r = self.mgc("watch", *runs, "--once", env={"LC_ALL": locale, "COLUMNS": str(size[0]), "LINES": str(size[1])})
        self.assertEqual(r.returncode, code, r.err)
        return r.out


class Once(Runs):
    def test_says_what_the_lines_say(self):
        waits = {"0": 1.0, "1": 20.0, "2": 3.0, "3": 30.0}
        steps = [step(n) for n in range(1, 100)] + [step(100, wait_ms=waits, memory_used=32 << 20)]
        evals = [{"step": n, "val_loss": 5 / (1 + 0.02 * n), "val_accuracy": 0.25, "time": 1001.0} for n in (50, 100)]
        alert = {"step": 80, "event": "alert", "time": 1004.0, "kind": "straggler", "rank": 3, "late": [1, 2]}
        kept = [{"step": 20 * i, "event": "memory_save", "time": 1000.0 + i, "of": 20 * i - 2, "bytes": 5, "stopped_ms": 0.5, "sent_ms": 9.0}
                for i in (1, 2)]  # curves, and no events
        self.run_of("run", START, *steps[:50], *kept, evals[0], *steps[50:80], alert, *steps[80:], evals[1])
        self.write("run/.lock", "")
        os.makedirs(self.path("run/ckpt/step-00000090"))
        self.write("run/ckpt/step-00000090/model.safetensors", b"x" * 2048)
        for size in (80, 24), (200, 50), (132, 30), (50, 12):
            out = self.once("run", size=size)
            rows = out.split("\n")[:-1]
            self.assertEqual(len(rows), size[1])
            self.assertLessEqual(max(map(len, rows)), size[0])
            self.assertIn("step 100 of 200", rows[0])
            self.assertIn("died", rows[0])  # it has a start, no end, and nobody holds the lock
            self.assertIn("50%", rows[1])
        out = self.once("run")
        for said in (f"0.6667, lately {sum(s['loss'] for s in steps[80:]) / 20:.4f}", "1.6667, least 1.6667 at 100", "50 ms, predicted 40: 1.25x", "640 tok/s",
                     "32 MiB of 64 MiB planned", "step 90, ", "2 KiB", "4, starts 1, alerts 1", "alert: kind straggler, rank 3",
                     "of 4 ranks"):
            self.assertIn(said, out)
        ranks = [r.split()[1] for r in self.once("run", size=(200, 50)).split("\n") for r in [r[158:]] if r.startswith("rank")]
        self.assertEqual(ranks, ["0", "2", "1", "3"])  # the one that the others wait for is the first
        axis = next(r for r in out.split("\n") if "──!" in r)
        self.assertAlmostEqual(axis.index("!"), 11 + 0.8 * 67, delta=1.5)

    def test_shape_of_the_curve(self):
        """A loss that falls in a line is drawn from the upper left to the lower right, and one that only rises not so."""
        for name, of, first in (("down", lambda n: 100 - n, True), ("up", lambda n: n, False)):
            self.run_of(name, *({"step": n, "loss": of(n)} for n in range(101)))
            for locale in "C.UTF-8", "C":
                rows = self.once(name, locale=locale, size=(100, 30)).split("\n")
                dots = [i for i, r in enumerate(rows) for c in r[11:14] if "\u2800" < c < "\u2900" or c in "':."]
                ends = [i for i, r in enumerate(rows) for c in r[95:99] if "\u2800" < c < "\u2900" or c in "':."]
                dots, ends = [i for i in dots if 7 <= i < 27], [i for i in ends if 7 <= i < 27]
                self.assertTrue(dots and ends)
                self.assertEqual(max(dots) < min(ends), first, (name, locale))

    def test_ascii_alone(self):
        self.run_of("run", {**START, "program": "größe\u202e\x1b[31m"}, step(1), step(2))
        out = self.once("run", locale="C")
        self.assertTrue(out.isascii())
        self.assertNotIn("\x1b", self.once("run"))
        self.assertNotIn("\u202e", self.once("run"))
        self.assertIn("größe", self.once("run"))

    def test_states(self):
        end = {"step": 2, "event": "end", "time": 1001.0, "why": "done"}
        for name, objects, said in (("done", (START, step(1), step(2), end), "done"), ("stopped", (START, step(1), {**end, "why": "stopped"}), "stopped"),
                                    ("failed", (START, {**end, "why": "failed"}), "failed"), ("died", (START, step(1)), "died"),
                                    ("again", (START, end, {**START, "step": 2, "resumed": True}), "died"), ("old", (step(1),), "ended"), ("none", (), "ended")):
            self.run_of(name, *objects)
            self.assertIn(f" {said}  ", self.once(name).split("\n")[0] + "  ", name)

    def test_hostile_lines(self):
        """No line is trusted: what cannot be read is counted, and the rest is shown."""
        bad = ["", "{", "[1, 2]", '{"step": 3, "loss": NaN}', '{"step": 1e999}', "null", '"x"', "\x00\xff", '{"loss": 1}', '{"step": "a", "loss": 1}',
               "[" * 100000, '{"step": 4, "loss": ' + "9" * 400 + "}", "x" * (3 << 20), '{"step": -1e300, "loss": 1}']
        many = {f"key{i}": i for i in range(1000)}
        waits = {"x": 1, "-1": 2, "99999999999999999999": 3, "3": "a", "2": 1e300, "1": -5}
        self.run_of("run", START, step(1), text="\n".join(bad) + "\n" + lines(
            step(2, wait_ms=waits), {"step": 5, "loss": None, **many}, {"step": 6, "event": "x" * 1000, "k" * 5000: "v" * 5000}, {"event": "alert"}, step(7))
            + '{"step":8,"lo')
        for size in (80, 24), (1000, 1000), (1, 1), (51, 13), (112, 12):
            out = self.once("run", size=size)
            if size[0] >= 80:
                self.assertIn("lines unreadable", out)
                self.assertIn("step 7 of 200", out)
        self.write("run/metrics.jsonl", os.urandom(100000))
        self.once("run")

    def test_long_run(self):
        """A million steps take bounded memory, and a spike of one of them is seen."""
        os.makedirs(self.path("long"))
        with open(self.path("long/metrics.jsonl"), "w", encoding="utf-8") as f:
            for n in range(1, 300001):
                f.write(f'{{"step":{n},"loss":{40 if n == 150000 else 2},"lr":0.1}}\n')
        r = self.run_program("sh", "-c", f"ulimit -v 400000; exec {mgctest.MGC} watch long --once", env={"LC_ALL": "C.UTF-8"})
        self.assertEqual(r.returncode, 0, r.stderr)
        rows = r.stdout.decode().split("\n")
        self.assertTrue(rows[7].startswith("       2.1"), rows[7])  # the range is that of the others
        dots = [i for i, c in enumerate(rows[7]) if "\u2800" < c < "\u2900"]
        self.assertTrue(len(dots) in (1, 2) and 43 < dots[0] < 47, rows[7])

    def test_refused(self):
        os.mkdir(self.path("empty"))
        self.write("file", "")
        for argv in (["none"], ["empty"], ["file"], ["file", "none"]):
            r = self.mgc("watch", *argv, "--once")
            self.assertEqual(r.returncode, 2)
            self.assertIn("MG0650", r.err)
        self.run_of("run", step(1))
        os.mkfifo(self.path("empty/metrics.jsonl"))
        self.assertIn("not begun", self.once("empty"))  # a pipe is no file of a run, and nobody waits for its other end
        r = self.run_program(mgctest.MGC, "watch", "run")
        self.assertEqual((r.returncode, b"MG0651" in r.stderr), (2, True))
        for argv in (["watch"], ["watch", "run", "--serve"], ["watch", "run", "-o", "x"], ["fmt", "x.mg", "--once"], ["x.mg", "--once"], ["board", "run", "--once"]):
            self.assertEqual(self.mgc(*argv).returncode, 2, argv)

    def test_several(self):
        self.run_of("a", step(1))
        self.run_of("sub/a", step(2))
        heads = [row for row in self.once("a", "sub/a").split("\n") if "ended" in row]
        self.assertEqual([h.split()[:2] for h in heads], [["1/2", "a"], ["2/2", "sub/a"]])


class Live(Runs):
    """A program that trains, is stopped and resumed."""

    def setUp(self):
        super().setUp()
        self.write("m.mg", mgctest.TINY)
        self.compiles("m.mg", "-o", "m")
        self.data = self.text(20000)

    def wait_for(self, what, seconds=60):
        for _ in range(int(seconds / 0.1)):
            seen = what()
            if seen:
                return seen
            time.sleep(0.1)
        return self.fail("it does not come")

    def begin(self, *more):
        p = subprocess.Popen(["./m", "--data", self.data, "--steps", "100000000", "--val-fraction", "0.1", "--eval-every", "0",
                              "--threads", "1", "--out", "run", *more], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def head(self):
        return self.once("run").split("\n")[0]

    def test_from_begin_to_end(self):
        p = self.begin()
        self.wait_for(lambda: os.path.exists(self.path("run/metrics.jsonl")) and "loss" in self.read("run/metrics.jsonl").decode())
        self.assertIn("running", self.head())
        self.assertIn("eta", self.once("run"))
        p.terminate()
        self.assertEqual(p.wait(), 75)
        self.assertIn("stopped", self.head())
        (start, end) = self.metrics("run", events=True)
        self.assertEqual((start["event"], start["step"], start["ranks"], start["program"], start["device"]), ("start", 0, 1, "tiny", "processor"))
        self.assertGreater(start["predicted_step_ms"], 0)
        self.assertGreater(start["memory_planned"], 0)
        self.assertEqual((end["event"], end["why"], end["step"]), ("end", "stopped", self.metrics("run")[-1]["step"]))
        p = self.begin("--resume")
        self.wait_for(lambda: "running" in self.head())
        self.wait_for(lambda: self.metrics("run")[-1]["step"] > end["step"])
        p.kill()
        p.wait()
        self.assertIn("died", self.head())
        self.assertIn("resumed after step", self.once("run"))
        self.assertEqual([e["event"] for e in self.metrics("run", events=True)], ["start", "end", "start"])

    def test_ranks(self):
        self.write("m.mg", mgctest.TINY.replace("    microbatch", "    batch -> dp\n    microbatch"))
        self.compiles("m.mg", "-D", "dp=2", "-o", "m")
        self.trains("./m", "--data", self.data, "--steps", "6", "--threads", "1", "--out", "two", "--val-fraction", "0.1", "--eval-every", "3")
        rows = [m for m in self.metrics("two") if "loss" in m]
        for row in rows:
            self.assertEqual(set(row["wait_ms"]), {"0", "1"})
            for ms in row["wait_ms"].values():
                self.assertTrue(0 <= ms, row)
        self.assertGreater(sum(sum(r["wait_ms"].values()) for r in rows), 0)
        self.assertIn("of 2 ranks", self.once("two"))

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_terminal(self):
        def tmux(*argv):
            r = self.run_program(TMUX, "-S", self.path("socket"), "-f", "/dev/null", *argv, env={"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"})
            return r.stdout.decode()

        def screen():
            return tmux("capture-pane", "-p")

        def sees(*texts):
            return self.wait_for(lambda: all(t in screen() for t in texts) and screen(), 30)
        self.addCleanup(tmux, "kill-server")
        tmux("new-session", "-d", "-x", "80", "-y", "24", f"{mgctest.MGC} watch run other 2>err; echo it ended $?; cat")
        sees("waiting for run/metrics.jsonl", "not begun")
        p = self.begin()
        sees("running", "step ", "[loss]", "eta")
        tmux("send-keys", "Tab")
        sees("[grad_norm]")
        tmux("send-keys", "BTab")
        sees("[loss]")
        tmux("send-keys", "l")
        sees("l linear")
        tmux("send-keys", "+", "+")
        sees("(1/4)")
        tmux("send-keys", "?")
        sees("logarithmic scale")
        tmux("send-keys", "?")
        for size in (200, 50), (60, 13), (30, 5), (80, 24):
            tmux("resize-window", "-x", str(size[0]), "-y", str(size[1]))
            self.wait_for(lambda size=size: f"{size[0]}x{size[1]}" in tmux("display-message", "-p", "#{pane_width}x#{pane_height}"))
            sees("at least" if size == (30, 5) else "q quit")
            rows = screen().split("\n")
            self.assertLessEqual(max(map(len, rows)), size[0])
        tmux("send-keys", "n")
        sees("2/2 other", "waiting for other/metrics.jsonl")
        tmux("send-keys", "p")
        sees("1/2 run")
        p.terminate()
        p.wait()
        sees("stopped")
        p = self.begin("--resume")
        sees("running", "starts 2")
        p.kill()
        p.wait()
        sees("died")
        tmux("send-keys", "q")
        sees("it ended 0")
        self.assertEqual(self.read("err"), b"")

    @unittest.skipUnless(TMUX, "tmux is not installed")
    def test_terminal_is_left_as_it_was(self):
        """Without colours, in ASCII, and ended by Ctrl-C; an unknown terminal is refused."""
        self.run_of("run", START, *(step(n) for n in range(1, 50)))

        def tmux(*argv):
            return self.run_program(TMUX, "-S", self.path("socket"), "-f", "/dev/null", *argv, env={"LC_ALL": "C.UTF-8", "TERM": "xterm"}).stdout.decode()
        self.addCleanup(tmux, "kill-server")
        tmux("new-session", "-d", "-x", "80", "-y", "24",
             f"TERM=nonsense {mgctest.MGC} watch run 2>err; TERM=vt100 LC_ALL=C {mgctest.MGC} watch run; stty -a >tty; echo it ended $?; cat")
        self.wait_for(lambda: "step 49 of 200" in tmux("capture-pane", "-p"))
        self.assertTrue(tmux("capture-pane", "-p").isascii())
        self.assertNotRegex(tmux("capture-pane", "-p", "-e"), "\x1b\\[3[0-7]m")
        tmux("send-keys", "C-c")
        self.wait_for(lambda: "it ended 0" in tmux("capture-pane", "-p"))
        self.assertIn(b" echo ", self.read("tty"))
        self.assertIn(b"MG0651", self.read("err"))


if __name__ == "__main__":
    mgctest.main()
