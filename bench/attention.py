#!/usr/bin/env python3
"""A step of small models whose attention has a window, a cap or a bias, beside PyTorch's on this processor.

    bench/attention.py [BUILD] [--only CASE] [--rounds 5] [--steps 3] [--threads 2] [--no-compile] [--cpu] [--device cpu.json]

Of each case mgc has two programs, one that calls `attention` and one that writes it out. PyTorch has its ways: scores in
memory (eager), scaled_dot_product_attention with the mask or the bias as a tensor, and both compiled. All take turns: a round
is some steps of each. What is said is the median of the rounds' medians, and that of PyTorch's best way by mgc's, round by
round. A model has 4 layers, 8 heads of 32, 512 tokens, a batch of 8, float32: forward, backward and AdamW. `bias` is that of
ALiBi; `learned` is a parameter of each head, query and key, which all layers share. --cpu: seconds of processors, not elapsed
ones, where others use the machine.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LAYERS, HIDDEN, HEADS, HEAD, FFN, VOCAB, SEQ, BATCH = 4, 256, 8, 32, 1024, 256, 512, 8
WINDOW, CAP, WARM = 128, 50, 2

SOURCE = f"""dim layers = {LAYERS}, hidden = {HIDDEN}, heads = {HEADS}, head = {HEAD}, ffn = {FFN}
dim vocab = {VOCAB}, seq = {SEQ}, batch = {BATCH}
block norm(x[hidden]) {{
    gain : param[hidden] = 1
    return rmsnorm(x, gain, over hidden, eps = 1e-5)
}}
block attend(x[hidden]GIVEN) {{
    TIMES
    wq : param[hidden, heads, head] ~ normal(0.02)
    wk : param[hidden, heads, head] ~ normal(0.02)
    wv : param[hidden, heads, head] ~ normal(0.02)
    wo : param[heads, head, hidden] ~ normal(0.02)
    slope = exp(-0.6931471805599453 * (index(heads) + 1))
    q = x @ wq over hidden
    k = x @ wk over hidden
    v = x @ wv over hidden
BODY
    return y @ wo over (heads, head)
}}
block mlp(x[hidden]) {{
    up : param[hidden, ffn] ~ normal(0.02)
    down : param[ffn, hidden] ~ normal(0.02)
    return gelu_tanh(x @ up over hidden) @ down over ffn
}}
model m(tokens[batch, seq] : token(vocab)) {{
    embed : param[vocab, hidden] ~ normal(0.02)
LEARNED    x = embed[tokens]
    repeat layers as "l.{{}}" {{
        x = x + attend(norm(x) as "n1"BIAS) as "a"
        x = x + mlp(norm(x) as "n2") as "f"
    }}
    loss = cross_entropy((norm(x) as "nf") @ embed over hidden, next(tokens))
}}
train {{
    optimizer adamw()
    lr 1e-4
    precision f32
}}
"""
SCORES = "    s = (q @ k[seq -> t] over head) / sqrt(head)\n"
WEIGHED = "    y = softmax(select(index(t) <= index(seq), s, -1e9), over t) @ v[seq -> t] over t"
CASES = {
    "window": {
        "called": f"    y = attention(q, k, v, along seq, over head, causal, window = {WINDOW})",
        "written": SCORES + f"    s = select(index(seq) - index(t) < {WINDOW}, s, -1e9)\n" + WEIGHED},
    "cap": {
        "called": f"    y = attention(q, k, v, along seq, over head, causal, cap = {CAP})",
        "written": SCORES + f"    s = {CAP} * tanh(s / {CAP})\n" + WEIGHED},
    "bias": {
        "called": "    y = attention(q, k[seq -> t], v[seq -> t], along seq, along t, over head, causal,"
                  " bias = slope * (index(t) - index(seq)))",
        "written": SCORES + "    s = s + slope * (index(t) - index(seq))\n" + WEIGHED},
    "learned": {
        "called": "    y = attention(q, k[seq -> t], v[seq -> t], along seq, along t, over head, causal, bias = far)",
        "written": SCORES + "    s = s + far\n" + WEIGHED}}


def median(values):
    return statistics.median(values)


def source(case, body):
    learned = case == "learned"
    text = SOURCE.replace("    TIMES\n", "" if learned else "    dim t = seq\n").replace("GIVEN", ", far" if learned else "")
    text = text.replace("LEARNED", "    far : param[heads, seq, t] ~ normal(0.02)\n" if learned else "")
    text = text.replace('BIAS) as "a"', f'{", far" if learned else ""}) as "a"').replace("BODY", body)
    return f"dim t = {SEQ}\n" + text if learned else text


# ---- mgc's ---------------------------------------------------------------------------------------

class Program:
    def __init__(self, args, case, body):
        self.where, self.threads, self.cpu = tempfile.mkdtemp(), args.threads, args.cpu
        with open(f"{self.where}/m.mg", "w", encoding="utf-8") as f:
            f.write(source(case, body))
        with open(f"{self.where}/tokens", "wb") as f:
            f.write(os.urandom(200_000))
        mgc = [f"{os.path.abspath(args.build)}/bin/mgc", "m.mg", "--device", args.device]
        plan = subprocess.run([*mgc, "--plan=json"], cwd=self.where, check=True, capture_output=True)
        self.predicted = json.loads(plan.stdout)["step_ms"]
        subprocess.run([*mgc, "-o", "train"], cwd=self.where, check=True, capture_output=True)

    def steps(self, n):
        """Milliseconds of each of n steps; of processors: of each on average, by what more steps take."""
        if not self.cpu:
            return self.run(n)
        used = []
        for steps in (0, n):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.run(steps)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return [(used[1] - used[0]) / n * 1e3]

    def run(self, n):
        subprocess.run(["./train", "--data", "tokens", "--threads", str(self.threads), "--save-every", "0", "--out", "run",
                        "--steps", str(WARM + n)], cwd=self.where, check=True, capture_output=True)
        with open(f"{self.where}/run/metrics.jsonl", encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        os.remove(f"{self.where}/run/metrics.jsonl")
        return [r["step_ms"] for r in rows if "step_ms" in r][WARM:]


# ---- PyTorch's -----------------------------------------------------------------------------------

def torch_model(case, way):
    import torch
    import torch.nn.functional as F
    from torch import nn

    at = torch.arange(SEQ)
    back = at[:, None] - at
    seen = (back >= 0) & (back < (WINDOW if case == "window" else SEQ))
    slope = torch.exp(-math.log(2) * (torch.arange(HEADS) + 1.0))
    mask = torch.where(seen, 0.0, -math.inf)
    if case == "bias":
        mask = mask - slope[:, None, None] * back
    far = nn.Parameter(0.02 * torch.randn(HEADS, SEQ, SEQ)) if case == "learned" else None

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(HIDDEN))

        def forward(self, x):
            return F.rms_norm(x, (HIDDEN,), self.gain, 1e-5)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = Norm(), Norm()
            self.qkv = nn.Linear(HIDDEN, 3 * HEADS * HEAD, bias=False)
            self.out = nn.Linear(HEADS * HEAD, HIDDEN, bias=False)
            self.up, self.down = nn.Linear(HIDDEN, FFN, bias=False), nn.Linear(FFN, HIDDEN, bias=False)

        def attend(self, q, k, v):
            if way == "sdpa":
                return F.scaled_dot_product_attention(q, k, v, attn_mask=mask if far is None else mask + far)
            s = q @ k.transpose(-1, -2) / math.sqrt(HEAD)
            if case == "cap":
                s = CAP * torch.tanh(s / CAP)
            return torch.softmax(s + (mask if far is None else mask + far), -1) @ v

        def forward(self, x):
            q, k, v = (t.reshape(BATCH, SEQ, HEADS, HEAD).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
            x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(BATCH, SEQ, HEADS * HEAD))
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.last, self.far = nn.Embedding(VOCAB, HIDDEN), Norm(), far
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

        def forward(self, tokens):
            x = self.embed(tokens[:, :-1])
            for layer in self.layers:
                x = layer(x)
            return F.cross_entropy((self.last(x) @ self.embed.weight.T).view(-1, VOCAB), tokens[:, 1:].reshape(-1))

    return Model()


class Torch:
    def __init__(self, case, way, compiled, threads, cpu):
        import torch

        self.clock = time.process_time if cpu else time.perf_counter

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        model = torch_model(case, way)
        self.model = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.tokens = torch.randint(VOCAB, (BATCH, SEQ + 1))
        self.steps(WARM)

    def steps(self, n):
        times = []
        for _ in range(n):
            begin = self.clock()
            self.model(self.tokens).backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            times.append((self.clock() - begin) * 1e3)
        return times


def measure(case, args):
    ways = {f"mgc {form}": Program(args, case, body) for form, body in CASES[case].items()}
    for way in ["eager"] + (["sdpa"] if case != "cap" else []):
        ways[f"torch {way}"] = Torch(case, way, False, args.threads, args.cpu)
        if args.compile:
            try:
                ways[f"torch {way} compiled"] = Torch(case, way, True, args.threads, args.cpu)
            except Exception as e:  # no compiler that it likes
                print(f"{case}: torch.compile of {way} fails: {str(e).splitlines()[0]}", file=sys.stderr)
    names, rounds = list(ways), []
    for n in range(args.rounds):
        order = names[n % len(names):] + names[:n % len(names)]
        rounds.append({name: median(ways[name].steps(args.steps)) for name in order})
    for name in names:
        print(f"{case:8} {name:24} {median(r[name] for r in rounds):8.1f} ms")
    best = min((n for n in names if n.startswith("torch")), key=lambda n: median(r[n] for r in rounds))
    for form in ("called", "written"):
        ratios = [r[best] / r[f"mgc {form}"] for r in rounds]
        print(f"{case:8} {best} takes {median(ratios):.2f} times as long as mgc {form}"
              f" (rounds {min(ratios):.2f} to {max(ratios):.2f})")
        predicted, is_ = ways[f"mgc {form}"].predicted, median(r[f"mgc {form}"] for r in rounds)
        print(f"{case:8} mgc {form}: predicted {predicted:.1f} ms, {(predicted / is_ - 1) * 100:+.0f}%")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=f"{ROOT}/build")
    p.add_argument("--only", choices=CASES)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--cpu", action="store_true")
    p.add_argument("--device", default="cpu", help="what predicts the step, a description that mgc calibrate wrote here")
    args = p.parse_args()
    args.device = os.path.abspath(args.device) if args.device.endswith(".json") else args.device
    for case in [args.only] if args.only else CASES:
        measure(case, args)


if __name__ == "__main__":
    main()
