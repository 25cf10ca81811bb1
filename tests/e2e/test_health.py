"""--health: planted faults (a flipped bit in a parameter, its state, a gradient, an activation, on one of several ranks)
are found and named, and end a run before it saves; runs without a fault raise no alert; a slow rank is named.

Faults are planted into the emitted C: at some places of mg_step a bit flips on one rank, in one step, in one of the runs
of that step that --health makes (of replicas 0: all have the same rows, 1: to the guard, 2: the step; of one rank 0, 1)."""

import os
import re
import signal
import subprocess
import time
import unittest

import mgctest
import shim
from mgctest import FULL, TINY, some

PLANT = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int64_t step_now = -1, run_now;
static void begins(const int64_t *step)
{
    static int64_t calls;
    const char *runs = getenv("RUNS"); /* of a step: a GPU has not read its number yet */
    const int64_t now = runs ? calls++ / atoi(runs) : *step;
    run_now = now == step_now ? run_now + 1 : 0;
    step_now = now;
}
static void plant(mg_run *r, const char *place, char *at)
{
    char want[64];
    int rank, run, bit;
    long step, byte;
    const char *fault = getenv("FAULT");
    if (!fault || sscanf(fault, "%63[^:]:%d:%ld:%d:%ld:%d", want, &rank, &step, &run, &byte, &bit) != 6)
        return;
    if (!strcmp(want, place) && mg_place(r, ~0u) == rank && step_now >= step && (run < 0 || (run_now == run && step_now == step)) && (!getenv("ONCE") || open(getenv("ONCE"), O_CREAT | O_EXCL, 0600) >= 0))
        at[byte] ^= (char)(1 << bit);
}
"""

LAYOUTS = {
    "one": "dp = 1",
    "dp2": "dp = 2",
    "dp4": "dp = 4",
    "dp2tp2": "dp = 2, tp = 2",
    "zero1": "dp = 2",
    "zero3": "dp = 2",
    "pp2": "pp = 2, dp = 2",
}
RULES = {"zero1": "    state -> dp\n", "zero3": "    state, grads, params -> dp\n"}


def source(layout):
    rules = "    batch -> dp\n" + ("    hidden -> tp\n" if "tp" in layout else "") + RULES.get(layout, "")
    text = re.sub(r"mesh .*\n", f"mesh {LAYOUTS[layout]}\n" + rules, TINY)
    return text.replace("microbatch 4", "microbatch 1").replace("steps = 50", "steps = 1000")


def planted(text):
    """The emitted C with its places: parameters and state at the start and at the end of a step ("start P_embed"), the
    values of a layer when they were made ("made"), gradients before each collective ("send 0"), and at the guard ("held 0")."""
    macros = re.findall(r"^#define ([PSG]_\w+) \(base", text, re.M)
    kept = [m for m in macros if m[0] in "PS"]
    call = lambda place, macro: f' plant(r, "{place}", {macro});'
    sent = iter(range(99))
    head, step = text.split("void mg_step(mg_run *r)\n", 1)
    step, rest = step.split("\n}\n", 1)
    step = step.replace("char *base = mg_arena(r);\n", "char *base = mg_arena(r);\n    begins((const int64_t *)X_train_step);\n   "
                        + "".join(call(f"start {m}", m) for m in kept) + "\n", 1)
    step = re.sub(r"^( *)(mg_comm\(r, \d+, &\w+, (G_\w+), )", lambda m: f"{m[1]}{call(f'send {next(sent)}', m[3])}\n{m[1]}{m[2]}", step, flags=re.M)
    step = re.sub(r"^( *LAUNCH\(\d+, k_tanh, .*, (A_x)\);)$", lambda m: m[1] + call("made", m[2]), step, flags=re.M)
    before, guard, after = step.partition("    if (!mg_guard")
    used = [m for m in macros if m[0] == "G" and m in after]
    step = "   " + "".join(call(f"held {k}", m) for k, m in enumerate(used)) + "\n"
    step = before + step + guard + after + "\n   " + "".join(call(f"end {m}", m) for m in kept)
    return head.replace('#include "abi.h"\n', '#include "abi.h"\n' + PLANT, 1) + "void mg_step(mg_run *r)\n" + step + "\n}\n" + rest


@mgctest.in_turns_of(4)
class Planted(mgctest.Case):
    STEPS = 12

    def make(self, layout):
        self.write("m.mg", source(layout))
        self.compiles("m.mg", "--emit=c", "--with-kernels", "-o", "plain.c")
        self.write("faulty.c", planted(self.read("plain.c").decode()))
        home = os.path.join(mgctest.BUILD, "lib/mgc")
        r = self.run_program("cc", "-std=c17", "-O1", "-ffp-contract=off", f"-I{home}/include", "faulty.c", f"{home}/libmgrt.a",
                             "-lm", "-lpthread", "-ldl", "-o", layout, timeout=300)
        self.assertEqual(r.returncode, 0, r.stderr.decode()[-3000:])
        self.text(6000)

    def run_with(self, layout, fault, code, *argv, out=None):
        out = out or "run-" + re.sub(r"\W", "-", fault or "clean")
        r = self.trains("./" + layout, "--data", "text1.txt", "--steps", self.STEPS, "--save-every", 1, "--keep", 0, "--threads", 1,
                        "--health=1", "--out", out, *argv, code=code, env={"FAULT": fault}, timeout=300)
        saved = self.path(out + "/ckpt")
        return r, [m for m in self.metrics(out, events=True) if m["event"] == "alert"], sorted(os.listdir(saved)) if os.path.exists(saved) else []

    def finds(self, layout, faults):
        """Faults: what and where, the kinds of alerts of which one must come, what it must name."""
        self.make(layout)
        _, alerts, saved = self.run_with(layout, "", 0)
        self.assertEqual((alerts, len(saved)), ([], self.STEPS))
        for place, rank, run, kinds, names in faults:
            with self.subTest(layout=layout, place=place, rank=rank, run=run):
                r, alerts, saved = self.run_with(layout, f"{place}:{rank}:7:{run}:14:2", 76)
                self.assertIn("bits are wrong", r.err)
                found = [a for a in alerts if a["kind"] in kinds and a["rank"] == rank]
                self.assertTrue(found, alerts)
                self.assertTrue(any(names in a["text"] for a in found), found)
                self.assertEqual({a["step"] for a in alerts} - {7, 8}, set())
                self.assertEqual(saved[-1], "step-00000007")  # step 8, whose number is 7 from 0, is not saved

    def test_replicas(self):
        self.finds("dp2", [
            ("start P_embed", 1, 2, ["memory"], "embed.weight"),
            ("start P_head", 0, 0, ["memory"], "head.weight"),
            ("start S_exp_avg_embed", 1, 2, ["memory"], "exp_avg"),
            ("send 0", 0, 2, ["computation"], "action"),
            ("held 0", 1, 2, ["computation"], "guard"),
            ("end P_embed", 0, 2, ["replica"], "embed.weight"),
            ("made", 1, -1, ["computation"], "action"),
        ])

    def test_vote_of_four(self):
        """The odd one alone is named."""
        faults = [
            ("end P_head", 2, 2, ["replica"], "most others"),
            ("end S_exp_avg_sq_head", 3, 2, ["replica"], "exp_avg_sq"),
            ("made", 1, -1, ["computation"], "other replicas"),
            ("made", 3, 0, ["computation"], "other replicas"),
        ]
        self.finds("dp4", faults)
        for place, rank, run, *_ in faults:
            _, alerts, _ = self.run_with("dp4", f"{place}:{rank}:7:{run}:14:2", 76, out=f"again{rank}{run}")
            self.assertEqual({a["rank"] for a in alerts}, {rank}, alerts)

    def test_parts(self):
        """Ranks that share a part of a tensor compare it, and no others."""
        self.finds("dp2tp2", [
            ("start S_exp_avg_head", 3, 2, ["memory"], "head.weight (exp_avg)"),
            ("end P_embed", 2, 2, ["replica"], "embed.weight"),
            ("send 1", 1, 2, ["computation"], "action"),
            ("made", 0, -1, ["computation"], "action"),
        ])

    def test_what_one_rank_alone_has(self):
        """Of state that no other rank has, and of parameters in parts."""
        self.finds("zero1", [
            ("start S_exp_avg_embed", 0, 2, ["memory"], "embed.weight (exp_avg)"),
            ("start S_exp_avg_sq_head", 1, 2, ["memory"], "head.weight (exp_avg_sq)"),
        ])
        self.finds("zero3", [("start P_head", 1, 2, ["memory"], "head.weight"), ("start S_exp_avg_embed", 0, 2, ["memory"], "exp_avg")])

    def test_one_rank(self):
        self.finds("one", [
            ("start P_embed", 0, 1, ["memory"], "embed.weight"),
            ("start S_exp_avg_head", 0, 1, ["memory"], "exp_avg"),
            ("held 0", 0, 1, ["computation"], "guard"),
            ("made", 0, 0, ["computation"], "action"),
        ])

    def test_resumed(self):
        """After a fault the newest checkpoint goes on to the bits of a run without one; the alert stays in the log."""
        self.make("dp2")
        self.run_with("dp2", "", 0)
        self.run_with("dp2", "end P_head:1:7:2:14:2", 76, out="faulty")
        self.run_with("dp2", "", 0, "--resume", out="faulty")
        for name in ("model", "optimizer"):
            a, b = (self.read(f"{out}/ckpt/step-00000012/{name}.safetensors") for out in ("run-clean", "faulty"))
            self.assertTrue(a == b, name)
        events = [(m["step"], m["kind"]) for m in self.metrics("faulty", events=True) if m.get("event") == "alert"]
        self.assertEqual(events, [(8, "replica"), (8, "replica")])
        self.assertEqual([m["step"] for m in self.metrics("faulty") if "loss" in m], list(range(1, 13)))

    def test_goes_on_if_asked(self):
        self.make("dp2")
        r, alerts, saved = self.run_with("dp2", "end P_embed:1:7:2:14:2", 0, "--health-action", "log")
        self.assertEqual(len(saved), self.STEPS)
        self.assertEqual({a["kind"] for a in alerts}, {"replica"})
        self.assertEqual({a["step"] for a in alerts}, set(range(8, 13)))
        self.assertIn("alert (replica) at step 8: rank 1 (", r.out)
        self.trains("./dp2", "--data", "text1.txt", "--steps", 14, "--resume", "--health=1", "--out", "run-end-P_embed-1-7-2-14-2")

    def test_is_seen_at_the_next_check(self):
        """A replica that differs stays so until a check, and is found before anything is saved."""
        self.make("dp2")
        for argv, step in ((("--health=5", "--save-every", 100), 10), (("--health=100", "--save-every", 9), 9)):
            r, alerts, _ = self.run_with("dp2", "end P_embed:1:5:0:14:2", 76, *argv, out=f"run{step}")
            self.assertEqual({a["step"] for a in alerts}, {step}, r.err)


class FromOutside(mgctest.Case):
    def test_memory_of_a_run(self):
        """A bit of a parameter is flipped through /proc, at a moment of chance, in a program that is as mgc makes it."""
        self.write("m.mg", source("dp2"))
        self.compiles("m.mg", "-o", "dp2")
        self.text(6000)
        for rank in some((0, 1)):
            p = subprocess.Popen(["./dp2", "--data", "text1.txt", "--steps", "10000000", "--threads", "1", "--health=50", "--log-every", "100",
                                  "--out", f"run{rank}"], cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                until = time.monotonic() + 120
                log = self.path(f"run{rank}/metrics.jsonl")
                while time.monotonic() < until and not (os.path.exists(log) and os.path.getsize(log)):
                    time.sleep(0.05)
                with open(f"/proc/{p.pid}/maps", encoding="utf-8") as f:
                    arenas = sorted((int(line.split()[2], 16), int(line.split("-")[0], 16)) for line in f if "/memfd:mgc ranks" in line)
                self.assertEqual(len(arenas), 4)  # what ranks share, an arena for each, a parameter first in it, the copy that is saved
                with open(f"/proc/{p.pid}/mem", "r+b", buffering=0) as f:
                    f.seek(arenas[1 + rank][1] + 14)
                    byte = f.read(1)[0]
                    f.seek(arenas[1 + rank][1] + 14)
                    f.write(bytes([byte ^ 4]))
                _, err = p.communicate(timeout=120)
                self.assertEqual(p.returncode, 76, err)
                # Others on this machine may make a rank of steps this short slow, which is told at any check.
                alerts = [m for m in self.metrics(f"run{rank}", events=True) if m["event"] == "alert" and m["kind"] != "slow"]
                self.assertIn(rank, {m["rank"] for m in alerts if m["kind"] in ("replica", "memory", "computation")}, alerts)
                self.assertEqual(len({m["step"] // 50 for m in alerts}), 1, alerts)
            finally:
                if p.poll() is None:
                    p.kill()
                    p.communicate()


@mgctest.in_turns_of(3)
class Clean(mgctest.Case):
    def clean(self, layout, steps, *argv):
        self.write("m.mg", source(layout))
        self.compiles("m.mg", "-o", layout)
        self.text(6000)
        self.trains("./" + layout, "--data", "text1.txt", "--steps", steps, "--threads", 1, "--out", "run-" + layout, "--log-every", 100,
                    "--val-fraction", 0.1, "--save-every", steps // 4, *argv, timeout=3000)
        self.assertEqual([m for m in self.metrics("run-" + layout, events=True) if m.get("kind") in ("memory", "computation", "replica")], [])

    def test_clean(self):
        """10,000 steps of three layouts, 300 in the sample; each step checked."""
        for layout in ("one", "dp2", "zero1"):
            with self.subTest(layout=layout):
                self.clean(layout, 10000 if FULL else 300, "--health=1")

    def test_same_bits(self):
        """A run that checks has the bits of one that does not."""
        self.write("m.mg", source("dp2"))
        self.compiles("m.mg", "-o", "dp2")
        self.text(6000)
        for out, argv in (("a", ()), ("b", ("--health=2",))):
            self.trains("./dp2", "--data", "text1.txt", "--steps", 20, "--out", out, *argv)
        for name in ("model", "optimizer"):
            a, b = (self.read(f"{out}/ckpt/step-00000020/{name}.safetensors") for out in "ab")
            self.assertTrue(a == b, name)

    def test_several_machines(self):
        """The same over the wire, between machines that are pretended."""
        self.write("m.mg", source("dp4"))
        self.compiles("m.mg", "-o", "dp4")
        self.text(6000)
        port = str(20000 + os.getpid() % 20000)
        ranks = [subprocess.Popen(["./dp4", "--data", "text1.txt", "--steps", "30", "--threads", "1", "--health=3"], cwd=self.dir,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "RANK": str(k), "WORLD_SIZE": "4", "LOCAL_RANK": str(k), "LOCAL_WORLD_SIZE": "4",
                                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "MGC_FAKE_HOSTS": "2",
                                       "MGC_SECRET": "5" * 32}) for k in range(4)]
        ends = [p.communicate(timeout=120)[1] for p in ranks]
        self.assertEqual([p.returncode for p in ranks], [0] * 4, ends)
        self.assertEqual([m for m in self.metrics("run", events=True) if m.get("kind") in ("memory", "computation", "replica")], [])


@mgctest.in_turns_of(2)
class Gpu(shim.Case):
    """Programs of GPUs, by the shim: tensors are hashed through the host, and the guard is behind a captured graph."""

    def test_found(self):
        self.write("m.mg", source("dp2").replace("device     cpu", "device     h200"))
        self.text(6000)
        self.gpu("m.mg", device=())
        run = lambda fault, code, *argv: self.trains(
            "./gpu", "--data", "text1.txt", "--steps", 12, "--out", f"run{code}{fault[:5]}", *argv, code=code, env={"FAULT": fault, "RUNS": "3", "SHIM_GPUS": "2", "SHIM_SEED": "1"}, timeout=300)
        run("", 0, "--health=3")
        run("", 0, "--out", "plain")
        a, b = (self.read(f"{out}/ckpt/step-00000012/optimizer.safetensors") for out in ("run0", "plain"))
        self.assertTrue(a == b)
        text = self.read("program.c").decode()
        self.write("program.c", text.replace(".alike = alike,", ".unordered = true, .alike = alike,"))
        self.link(*self.host)
        self.assertIn("--collectives=unordered", run("", 2, "--health").err)
        self.write("program.c", planted(text))
        self.link(*self.host)
        for fault, rank, kind in (("end P_embed:1:7:2:14:2", 1, "replica"), ("start S_exp_avg_head:0:7:2:14:2", 0, "memory"),
                                  ("held 0:1:7:1:14:2", 1, "computation")):
            run(fault, 76, "--health=1")
            alerts = [m for m in self.metrics(f"run76{fault[:5]}", events=True) if m["event"] == "alert"]
            self.assertIn((kind, rank, 8), [(a["kind"], a["rank"], a["step"]) for a in alerts])


class Slow(shim.Case):
    """A rank that is stopped again and again is named."""

    def named(self, *command, **env):
        """Stops the second rank for 40 of 45 ms, until an alert names it."""
        p = subprocess.Popen([*command, "--data", "text1.txt", "--steps", "1000000", "--log-every", "1000", "--hang-after", "60"], cwd=self.dir,
                             env={**os.environ, **env}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            found, until = [], time.monotonic() + 200
            while not found and time.monotonic() < until and p.poll() is None:
                (child,) = subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, check=False).stdout.split() or (None,)
                for _ in range(10):
                    if child:
                        os.kill(int(child), signal.SIGSTOP)
                        time.sleep(0.04)
                        os.kill(int(child), signal.SIGCONT)
                    time.sleep(0.005)
                if os.path.exists(self.path("run/metrics.jsonl")):
                    found = [m for m in self.metrics("run", events=True) if m.get("kind") == "slow" and m["rank"] == 1]
            self.assertTrue(found, self.read("run/metrics.jsonl")[-2000:])
            self.assertIn("the others wait", found[0]["text"])
            return found[0]["text"]
        finally:
            p.send_signal(signal.SIGTERM)
            p.communicate(timeout=60)

    def test_processors(self):
        self.write("m.mg", source("dp4").replace("dp = 4", "dp = 2").replace("hidden = 16", "hidden = 256"))
        self.compiles("m.mg", "-o", "dp2")
        self.text(6000)
        self.named("./dp2", "--threads", "1", "--health=20")

    def test_gpus(self):
        self.write("m.mg", source("dp2").replace("device     cpu", "device     h200"))
        self.gpu("m.mg", device=())
        self.text(6000)
        self.assertIn("its GPU works", self.named("./gpu", "--health=2", SHIM_GPUS="2", SHIM_SEED="1"))


class Refused(mgctest.Case):
    def test_options(self):
        self.write("m.mg", source("one"))
        self.compiles("m.mg", "-o", "one")
        self.text(6000)
        for argv, says in ((("--health=0",), "a whole number from 1"), (("--health=often",), "a whole number from 1"),
                           (("--health", "--health-action", "pray"), "write log or stop"), (("--health-action", "log"), "--health")):
            r = self.trains("./one", "--data", "text1.txt", *argv, code=2)
            self.assertIn(says, r.err)
        r = self.trains("./one", "--health", "--sample", 5, code=2)
        self.assertIn("needs --data", r.err)


if __name__ == "__main__":
    unittest.main()
