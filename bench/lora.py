#!/usr/bin/env python3
"""LoRA by mgc's program beside PEFT and transformers, on this processor: time, memory, and losses.

    bench/lora.py [BUILD] [--shape 0.5b|56m] [--precision f32|bf16] [--on all|qv] [--seq N] [--batch N] [--conversations]
                  [--rounds N] [--steps N] [--no-compile] [--losses N] [--device cpu.json] [--python P] [--dir DIR]

A model of random weights (of Qwen2.5 0.5B's sizes, or of llama_56m.mg's) and an adapter of rank 16 (B = 0) are made as a
Hugging Face directory, which both sides read. A round has a turn of mgc's program (some steps of a new process, the first
left out) and one of each way of PEFT: eager and by torch.compile, of bf16 with and without autocast, in one process that
waits meanwhile. The ratio is formed in each round, against the fastest of them; numbers are medians.
--conversations: documents of drawn lengths, of which a third is learnt, packed into windows by mgc, beside PEFT with rows
that are padded, and with documents one behind the other. What counts is tokens that are learnt in a second.
--losses N: instead, N steps in float32 of both from the same adapter, and how far losses are apart. Each step has the same
windows, so that the order in which mgc takes them does not count.
--python: that has torch, transformers and peft. --dir: keeps the directory for other runs of the same --shape and --on.
PEFT of 0.5b in f32 takes 6.7 GB with 512 tokens, mgc 3.7 GiB; both are in memory at the same time.
"""

import argparse
import array
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..")
ON = {"all": "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", "qv": "q_proj,v_proj"}
VOCAB = {"0.5b": 151936, "56m": 32000}
WARM = 1  # steps of a turn of mgc's that do not count


def run(*argv):
    r = subprocess.run([str(a) for a in argv], capture_output=True, text=True, check=False)
    if r.returncode:
        sys.exit(f"lora.py: {' '.join(map(str, argv))} ended with {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout


# ---- data --------------------------------------------------------------------------------------

def documents(o, draw):
    """Batches of documents. Full windows: one each. Conversations: as many as fill the windows of a step well."""
    def document(n):
        asked = 2 * n // 3 if o.conversations else 0
        return {"tokens": [draw.randrange(1, VOCAB[o.shape]) for _ in range(n)], "learnt": [i >= asked for i in range(n)]}

    count = 1 if o.losses else 8
    if not o.conversations:
        return [[document(o.seq + 1) for _ in range(o.batch)] for _ in range(count)]
    batches = []
    for _ in range(count):
        batch = []
        for _ in range(o.batch):  # a window: lengths are drawn until it is full
            left = o.seq + 1
            while left > 1:
                n = min(left, max(16, int(draw.lognormvariate(4.6, 0.7))))
                n = left if left - n < 16 else n
                batch.append(document(n))
                left -= n
        batches.append(batch)
    return batches


def write_megatron(name, batches):
    flat = [d for b in batches for d in b]
    lengths = [len(d["tokens"]) for d in flat]
    starts = [4 * sum(lengths[:i]) for i in range(len(flat))]
    with open(f"{name}.bin", "wb") as f:
        for d in flat:
            f.write(array.array("i", d["tokens"]).tobytes())
    with open(f"{name}.bin.weights", "wb") as f:
        f.write(bytes(int(x) for d in flat for x in d["learnt"]))
    with open(f"{name}.idx", "wb") as f:
        f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(flat), len(flat) + 1) + array.array("i", lengths).tobytes()
                + array.array("q", starts).tobytes() + array.array("q", range(len(flat) + 1)).tobytes())


# ---- both sides --------------------------------------------------------------------------------

class Program:
    def __init__(self, o):
        self.o, self.threads = o, str(o.threads)
        lora = ("--lora", "rank=16,alpha=32", "--on", ON[o.on])
        sizes = ("-D", f"seq={o.seq}", "-D", f"batch={o.batch}", "--microbatch", o.batch, "--precision", o.precision,
                 *(("--device", o.device) if o.device else ()))
        run(os.path.join(o.build, "mgc"), "tune", o.dir, *lora, *sizes, "-o", "tune")
        self.plan = json.loads(run(os.path.join(o.build, "mgc"), "tune.mg", *sizes, "--plan=json"))

    def train(self, steps):
        shutil.rmtree("run", ignore_errors=True)
        said = run("./tune", "--init", self.o.dir, "--adapter", f"{self.o.dir}/adapter", "--data", "data.bin", "--threads",
                   self.threads, "--lr", self.o.lr, "--save-every", "0", "--steps", steps, "--out", "run")
        with open("run/metrics.jsonl", encoding="utf-8") as f:
            rows = [x for x in map(json.loads, f) if "step_ms" in x]
        return rows, re.search(r"(?m)^memory: (.*)$", said)[1]

    def turn(self, steps):
        rows, memory = self.train(WARM + steps)
        return [r["step_ms"] for r in rows[WARM:]], memory


class Peft:
    """A process of lora_worker.py, idle but when asked."""

    def __init__(self, o, form):
        env = {**os.environ, "OMP_NUM_THREADS": str(o.threads), "MKL_NUM_THREADS": str(o.threads)}
        self.errors = open(f"peft-{form}.txt", "w", encoding="utf-8")
        self.process = subprocess.Popen([o.python, f"{HERE}/lora_worker.py", "run", o.dir, str(o.threads), o.precision, "data.json", form],
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.known = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            with open(self.errors.name, encoding="utf-8") as f:
                sys.exit(f"lora.py: PEFT ended: {f.read()[-2000:]}")
        return json.loads(line)

    def ask(self, *what):
        print(*what, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.errors.close()


def losses(o):
    """Rates are those that mgc's program had, so both have one schedule."""
    program = Program(o)
    mine, _ = program.train(o.losses)
    peft = Peft(o, "flat" if o.conversations else "windows")
    theirs = peft.ask("losses", *(r["lr"] for r in mine))["losses"]
    peft.close()
    apart = [abs(a["loss"] - b) for a, b in zip(mine, theirs, strict=True)]
    print(f"{o.shape}, adapter on {o.on}, {o.batch} x {o.seq}{', conversations' * o.conversations}: {o.losses} steps, "
          f"losses from {theirs[0]:.4f} to {theirs[-1]:.4f}, at most {max(apart):.1e} apart")


def median(v):
    return statistics.median(list(v))


def compare(o, batches):
    program = Program(o)
    modes = ["eager"] + ["compile"] * o.compile
    if o.precision == "bf16":
        modes += [f"{m}-autocast" for m in modes]
    forms = ("padded", "flat") if o.conversations else ("windows",)
    pefts = {form: Peft(o, form) for form in forms}
    mine, theirs, peaks, ratios, memory = [], {}, {}, [], ""
    for n in range(o.rounds):
        ms, memory = program.turn(o.steps)
        mine.append(median(ms))
        now = {}
        for form, mode in ((f, m) for f in forms for m in modes):
            got = pefts[form].ask(mode, o.steps)
            now[form, mode] = median(got["ms"])
            theirs.setdefault((form, mode), []).append(now[form, mode])
            peaks[form, mode] = max(got["peak"], peaks.get((form, mode), 0))
        best = min(now, key=now.get)
        ratios.append(now[best] / mine[-1])
        print(f"round {n + 1}: mgc {mine[-1]:.0f} ms; " + ", ".join(f"{' '.join(k)} {v:.0f}" for k, v in now.items()) + f"; {ratios[-1]:.2f} times",
              file=sys.stderr, flush=True)
    learnt = sum(sum(d["learnt"][1:]) for b in batches for d in b) / len(batches)
    print(f"{pefts[forms[0]].known['versions']}; {pefts[forms[0]].known['trained']} parameters are trained")
    print(f"{learnt:.0f} tokens learnt a step of {o.batch} x {o.seq}, {o.threads} threads, {o.precision}; medians of {o.rounds} rounds\n")
    print("| | ms a step | tokens learnt a second | MiB |\n|---|---|---|---|")
    used = re.search(r"used ([\d.]+) (MiB|GiB)", memory)
    print(f"| mgc | {median(mine):.0f} | {learnt / median(mine) * 1e3:.1f} | {float(used[1]) * (1024 if used[2] == 'GiB' else 1):.0f} |")
    for k, v in theirs.items():
        print(f"| PEFT, {', '.join(k)} | {median(v):.0f} | {learnt / median(v) * 1e3:.1f} | {peaks[k] / 2**20:.0f} |")
    print(f"\nmgc by the fastest of PEFT: {median(ratios):.2f} (each round {', '.join(f'{r:.2f}' for r in ratios)})")
    print(f"predicted {program.plan['step_ms']:.0f} ms; memory {memory}")
    for p in pefts.values():
        p.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--shape", choices=list(VOCAB), default="56m")
    p.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    p.add_argument("--on", choices=list(ON), default="all")
    p.add_argument("--seq", type=int, default=512)
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--conversations", action="store_true")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--losses", type=int, default=0)
    p.add_argument("--lr", default="1e-3", help="at the end of 100 steps of warming up")
    p.add_argument("--device")
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--dir")
    o = p.parse_args()
    if o.losses and o.precision != "f32":
        p.error("losses are compared in f32")
    o.build, o.device = os.path.abspath(o.build), o.device and os.path.abspath(o.device)
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        print(re.search(r"(?m)^model name\s*: (.*)$", f.read())[1])
    with tempfile.TemporaryDirectory() as folder:
        o.dir = os.path.abspath(o.dir or os.path.join(folder, "model"))
        os.chdir(folder)
        if not os.path.exists(f"{o.dir}/adapter"):
            run(o.python, f"{HERE}/lora_worker.py", "make", o.shape, o.dir, ON[o.on])
        batches = documents(o, random.Random(1))
        write_megatron("data", batches)
        with open("data.json", "w", encoding="utf-8") as f:
            json.dump(batches, f)
        if o.losses:
            losses(o)
        else:
            compare(o, batches)


if __name__ == "__main__":
    main()
