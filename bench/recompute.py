#!/usr/bin/env python3
"""What mgc chooses to keep at less memory, against the best uniform policy that fits it.

    bench/recompute.py [BUILD] [--steps N] [--pairs N]

llama_56m with 100, 50 and 30% of its activation memory (arena less parameters, state, gradients and the
head's work space) and the least there is. A uniform policy treats all layers alike: `none`, `all`, and every
set of `--frontier` by `recompute keep [...]`. Runs are in pairs; ratios are of medians.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MODEL = os.path.join(ROOT, "models/llama_56m.mg")


def run(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)


class Bench:
    def __init__(self, build):
        self.mgc = os.path.join(build, "mgc")
        with open(MODEL, encoding="utf-8") as f:
            self.text = f.read()

    def model(self, setting):
        with open("m.mg", "w", encoding="utf-8") as f:
            f.write(re.sub(r"(?m)^( *)recompute .*", rf"\1{setting}", self.text))
        return "m.mg"

    def plan(self, setting):
        r = run(self.mgc, self.model(setting), "--plan=json")
        return json.loads(r.stdout) if r.returncode == 0 else None

    def head_work(self):
        """Bytes of the buffer that the head's logits live in."""
        run(self.mgc, MODEL, "--memory", "m.csv", "--check")
        with open("m.csv", encoding="utf-8") as f:
            rows = [line.split(",") for line in f]
        return next(int(r[3]) for r in rows if r[0].startswith("logits#"))

    def uniform(self, budget):
        """The uniform policy that is fastest by its plan, of those that fit."""
        out = run(self.mgc, MODEL, "--frontier", "--check").stdout
        sets = re.findall(r"(?m)^ +[\d.]+ \w+ +\S+(?: \w+)?  (\D.*)$", out)
        settings = ["recompute none", "recompute all"]
        settings += [f"recompute keep [{', '.join(dict.fromkeys(s.split()))}, sum]" for s in sets if s != "nothing"]
        plans = [(self.plan(s), s) for s in settings]
        fit = [(p["step_ms"], p["arena_bytes"], s) for p, s in plans
               if p and p["arena_bytes"] + p["scratch_bytes"] <= budget]
        return min(fit) if fit else None

    def build(self, setting, name):
        r = run(self.mgc, self.model(setting), "-o", name)
        assert r.returncode == 0, r.stderr

    @staticmethod
    def step(name, steps):
        r = run(f"./{name}", "--data", "u16:w.bin", "--steps", steps, "--save-every", 0, "--out", "run-" + name)
        assert r.returncode == 0, r.stderr
        with open(f"run-{name}/metrics.jsonl", encoding="utf-8") as f:
            lines = [x for x in map(json.loads, f) if "loss" in x]
        return statistics.median(x["step_ms"] for x in lines[-steps + 1:]), [x["loss"] for x in lines[-steps:]]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--pairs", type=int, default=5)
    a = p.parse_args()
    b = Bench(os.path.abspath(a.build))
    with tempfile.TemporaryDirectory(prefix="mgc-recompute-") as folder:
        os.chdir(folder)
        with open("w.bin", "wb") as f:
            f.write(b"".join(((i * 7919) % 31991).to_bytes(2, "little") for i in range(200_000)))
        usual = b.plan("recompute auto")
        memory = usual["memory"]
        fixed = 2 * memory["params"] + memory["optimizer"] + memory["io"] + memory.get("workspace", 0) + usual["scratch_bytes"]
        fixed += b.head_work()
        activations = usual["arena_bytes"] + usual["scratch_bytes"] - fixed
        floor = run(b.mgc, b.model(f"assert peak < {memory['params'] + memory['optimizer'] + 10 ** 6} B"), "--check").stderr
        least = int(re.search(r"the plan needs (\d+) bytes", floor)[1])
        rows = [("100%", fixed + activations + 1)]
        rows += [(f"{part}%", fixed + activations * part // 100) for part in (50, 30)]
        rows += [(f"{100 * (least - fixed) / activations:.1f}%, the least", least + 1000)]
        losses = None
        print(f"activations {activations / 2**20:.1f} MiB beside {fixed / 2**20:.1f} MiB")
        for name, budget in rows:
            setting = f"assert peak < {budget} B"
            best = b.uniform(budget)
            b.build(setting, "chosen")
            chosen = b.plan(setting)
            ms, other = [], []
            if best:
                b.build(best[2], "uniform")
            for _ in range(a.pairs):
                t, seen = b.step("chosen", a.steps)
                losses = losses or seen
                assert seen == losses, "other losses"
                ms.append(t)
                if best:
                    t, seen = b.step("uniform", a.steps)
                    assert seen == losses, "other losses"
                    other.append(t)
            said = f"{name:18} arena {chosen['arena_bytes'] / 2**20:7.1f} MiB, predicted {chosen['step_ms']:6.0f} ms, " \
                   f"measured {statistics.median(ms):6.0f} ms"
            if best:
                ratio = statistics.median(y / x for x, y in zip(ms, other, strict=True))
                said += f"; best uniform {statistics.median(other):6.0f} ms in {best[1] / 2**20:.1f} MiB ({best[2]}): " \
                        f"{ratio:.3f} of its speed"
            print(said, flush=True)


if __name__ == "__main__":
    main()
