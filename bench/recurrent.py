#!/usr/bin/env python3
"""A step of Mamba 2, or of a GRU, beside PyTorch's on this processor, and what a token costs as sequences grow.

    bench/recurrent.py [BUILD] [--gru] [--rounds 3] [--steps 2] [--lengths 1024,4096,...] [--no-torch]
                       [--transformers] [--layers 24] [--threads 2] [--device cpu.json]

The model is models/mamba2.mg with 10.4 million parameters (24 layers of 256, 8 heads of 64, a state of 64), float32: forward,
backward and AdamW. PyTorch is eager, and computes in chunks as well: products within a chunk, states between chunks by one
product, as the paper's short program does. Both have one thread, and take turns. What is said is seconds of the processor, not
of the clock, so that others on the machine are not counted: mgc's from the difference of a longer and a shorter run.
--threads: of both. With more than one it is seconds of the clock, the median of steps behind the first on both sides, so the machine has to be free.
--device: what predicts the step, a description that mgc calibrate wrote here.
--transformers: beside that library's model, which people run. --layers: of both.
--gru: tests/parity/zoo/gru.mg with 10.5 million parameters (1280 units), batch 4, against torch.nn.GRU.
With --lengths: mgc alone, one sequence of each length with 4 layers, predicted and measured.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LAYERS, HIDDEN, HEADS, HEAD, STATE, TAP, VOCAB, SEQ, BATCH = 24, 256, 8, 64, 64, 4, 256, 2048, 2
CHUNK = 64  # PyTorch's
UNITS, ROWS = 1280, 4  # of the GRU
INNER = HEADS * HEAD


# ---- mgc's ---------------------------------------------------------------------------------------

def mamba(layers, seq, batch):
    sizes = {"layers": layers, "hidden": HIDDEN, "heads": HEADS, "head": HEAD, "state": STATE, "seq": seq, "batch": batch}
    return os.path.join(ROOT, "models/mamba2.mg"), sizes, 1


def gru(where):
    with open(os.path.join(ROOT, "tests/parity/zoo/gru.mg")) as f:
        text = f.read().replace("precision f64", "precision f32").replace("sgd(momentum = 0.9)", "adamw(betas = (0.9, 0.95), eps = 1e-8)")
    with open(f"{where}/gru.mg", "w") as f:
        f.write(text.replace("~ normal(0.3)", "~ normal(0.02)"))
    return f"{where}/gru.mg", {"hidden": UNITS, "narrow": UNITS, "vocab": VOCAB, "seq": SEQ, "batch": ROWS}, ROWS


class Program:
    def __init__(self, build, model, threads=1, device=None):
        self.threads = threads
        self.where = tempfile.mkdtemp()
        path, sizes, microbatch = model if model else gru(self.where)
        with open(f"{self.where}/tokens", "wb") as f:
            f.write(os.urandom(max(200_000, 3 * sizes["seq"])))
        args = [f"{build}/bin/mgc", path, "--microbatch", str(microbatch), *(("--device", os.path.abspath(device)) if device else ())]
        for dim, size in sizes.items():
            args += ["-D", f"{dim}={size}"]
        t = time.time()
        plan = subprocess.run([*args, "--plan=json"], check=True, capture_output=True).stdout
        self.planned = time.time() - t
        self.plan = json.loads(plan)
        subprocess.run([*args, "-o", "train"], cwd=self.where, check=True, capture_output=True)

    def seconds(self, steps):
        """Seconds of the processor of a run; with several threads of each step by the clock."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["./train", "--data", "tokens", "--threads", str(self.threads), "--save-every", "0", "--out", f"run-{steps}",
                        "--steps", str(steps), "--lr", "1e-4"], cwd=self.where, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(f"{self.where}/run-{steps}/metrics.jsonl", encoding="utf-8") as f:
            times = [row["step_ms"] / 1e3 for row in map(json.loads, f) if "step_ms" in row]
        subprocess.run(["rm", "-r", f"run-{steps}"], cwd=self.where, check=True)
        if self.threads > 1:
            return times
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def step(self, n):
        if self.threads > 1:
            return statistics.median(self.seconds(1 + n)[1:])
        return (self.seconds(1 + n) - self.seconds(1)) / n


# ---- PyTorch's -----------------------------------------------------------------------------------

def torch_gru(threads):
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, UNITS)
            self.rnn = nn.GRU(UNITS, UNITS, batch_first=True)
            self.head = nn.Linear(UNITS, VOCAB, bias=False)

        def forward(self, t):
            h, _ = self.rnn(self.embed(t[:, :-1]))
            return F.cross_entropy(self.head(h).flatten(0, 1), t[:, 1:].flatten())

    return timed(torch, Model(), ROWS, threads)


def timed(torch, model, rows, threads):
    """Seconds that a step takes, of the processor or (several threads) of the clock; the first is not counted."""
    torch.set_num_threads(threads)
    clock = time.perf_counter if threads > 1 else time.process_time
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, VOCAB, (rows, SEQ + 1))

    def steps(n):
        times = []
        for _ in range(1 + n):
            t = clock()
            optimizer.zero_grad()
            model(tokens).backward()
            optimizer.step()
            times.append(clock() - t)
        return statistics.median(times[1:])

    return steps


def transformers_mamba(layers, threads):
    import torch
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.Mamba2ForCausalLM(transformers.Mamba2Config(
                hidden_size=HIDDEN, num_hidden_layers=layers, num_heads=HEADS, head_dim=HEAD, state_size=STATE, expand=INNER // HIDDEN,
                n_groups=1, vocab_size=VOCAB, conv_kernel=TAP, chunk_size=CHUNK, tie_word_embeddings=True, use_cache=False))

        def forward(self, t):
            return self.model(input_ids=t[:, :-1], labels=t[:, :-1]).loss

    return timed(torch, Model(), BATCH, threads)


def torch_mamba(layers, threads):
    import torch
    import torch.nn.functional as F
    from torch import nn

    def sums(a):
        """exp of the sums of a from j + 1 to i: [..., i, j], 0 above the diagonal."""
        upto = a.cumsum(-1)
        below = torch.ones(a.shape[-1], a.shape[-1], dtype=torch.bool).tril()
        return (upto[..., :, None] - upto[..., None, :]).masked_fill(~below, float("-inf")).exp()

    def chunked(x, a, k, q):
        """x: [batch, seq, heads, head]; a, logarithms: [batch, seq, heads]; k, q: [batch, seq, state]."""
        b, n = x.shape[0], x.shape[1] // CHUNK
        x = x.view(b, n, CHUNK, HEADS, HEAD).permute(0, 3, 1, 2, 4)  # batch, heads, chunk, position, head
        a = a.view(b, n, CHUNK, HEADS).permute(0, 3, 1, 2)
        k, q = k.view(b, 1, n, CHUNK, STATE), q.view(b, 1, n, CHUNK, STATE)
        upto = a.cumsum(-1)
        y = ((q @ k.transpose(-1, -2)) * sums(a)) @ x
        adds = k.transpose(-1, -2) @ (x * (upto[..., -1:] - upto).exp()[..., None])  # state, head
        between = sums(F.pad(upto[..., -1], (1, 0)))[..., :-1, 1:]  # what enters chunk i of what j added
        enters = (between @ adds.flatten(-2)).view_as(adds)
        y = y + (q @ enters) * upto.exp()[..., None]
        return y.permute(0, 2, 3, 1, 4).reshape(b, n * CHUNK, HEADS, HEAD)

    class Norm(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(n))

        def forward(self, x):
            return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)

    class Mixer(nn.Module):
        def __init__(self):
            super().__init__()
            mixed = INNER + 2 * STATE
            self.parts = [INNER, mixed, HEADS]
            self.norm, self.out_norm = Norm(HIDDEN), Norm(INNER)
            self.win = nn.Linear(HIDDEN, sum(self.parts), bias=False)
            self.conv = nn.Conv1d(mixed, mixed, TAP, groups=mixed, padding=TAP - 1)
            self.bd = nn.Parameter(torch.empty(HEADS).uniform_(-6.9, -2.3))
            self.rate = nn.Parameter(torch.empty(HEADS).uniform_(0, 2.77))
            self.skip = nn.Parameter(torch.ones(HEADS))
            self.wo = nn.Linear(INNER, HIDDEN, bias=False)

        def forward(self, x):
            z, c, r = self.win(self.norm(x)).split(self.parts, -1)
            c = F.silu(self.conv(c.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
            u, k, q = c.split([INNER, STATE, STATE], -1)
            u = u.unflatten(-1, (HEADS, HEAD))
            dt = F.softplus(r + self.bd)
            y = chunked(u * dt[..., None], -self.rate.exp() * dt, k, q) + self.skip[:, None] * u
            return x + self.wo(self.out_norm(y.flatten(-2) * F.silu(z)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCAB, HIDDEN)
            self.layers = nn.ModuleList(Mixer() for _ in range(layers))
            self.norm = Norm(HIDDEN)

        def forward(self, t):
            x = self.embed(t[:, :-1])
            for layer in self.layers:
                x = layer(x)
            return F.cross_entropy((self.norm(x) @ self.embed.weight.T).flatten(0, 1), t[:, 1:].flatten())

    def agrees():
        """The sums in chunks are those of one position after the other."""
        x, a = torch.randn(1, 2 * CHUNK, HEADS, HEAD), -torch.rand(1, 2 * CHUNK, HEADS)
        k, q = torch.randn(1, 2 * CHUNK, STATE), torch.randn(1, 2 * CHUNK, STATE)
        h, y = torch.zeros(1, HEADS, STATE, HEAD), []
        for t in range(2 * CHUNK):
            h = a[:, t].exp()[..., None, None] * h + k[:, t, None, :, None] * x[:, t, :, None, :]
            y.append(torch.einsum("bs,bhsd->bhd", q[:, t], h))
        return torch.allclose(chunked(x, a, k, q), torch.stack(y, 1), rtol=1e-3, atol=1e-3)

    if not agrees():
        sys.exit("PyTorch's chunks are wrong")
    return timed(torch, Model(), BATCH, threads)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    p.add_argument("--gru", action="store_true")
    p.add_argument("--transformers", action="store_true")
    p.add_argument("--layers", type=int, default=LAYERS)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--lengths", default="")
    p.add_argument("--no-torch", action="store_true")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--device")
    o = p.parse_args()
    o.build = os.path.abspath(o.build)
    if (o.gru or o.lengths) and (o.transformers or o.layers != LAYERS or (o.gru and o.lengths)):
        p.error("--gru and --lengths stand alone")
    if o.lengths:
        print("| tokens | planned in s | predicted s | CPU s a step | us a token |\n|---|---|---|---|---|")
        for seq in map(int, o.lengths.split(",")):
            program = Program(o.build, mamba(4, seq, 1), o.threads, o.device)
            s = program.step(o.steps)
            print(f"| {seq} | {program.planned:.2f} | {program.plan['step_ms'] / 1e3:.3f} | {s:.3f} | {s / seq * 1e6:.1f} |",
                  flush=True)
        return
    program = Program(o.build, None if o.gru else mamba(o.layers, SEQ, BATCH), o.threads, o.device)
    torch_steps = None
    if not o.no_torch:
        theirs = transformers_mamba if o.transformers else torch_mamba
        torch_steps = torch_gru(o.threads) if o.gru else theirs(o.layers, o.threads)
    mine, pairs = [], []
    for _ in range(o.rounds):
        mine.append(program.step(o.steps))
        if torch_steps:
            theirs = torch_steps(o.steps)
            pairs.append(theirs / mine[-1])
            print(f"mgc {mine[-1]:.3f} s, PyTorch {theirs:.3f} s: {pairs[-1]:.2f} times", flush=True)
    of = f"with {o.threads} threads" if o.threads > 1 else "of one processor"
    print(f"mgc: {statistics.median(mine):.3f} s {of} a step; predicted {program.plan['step_ms'] / 1e3:.3f} s with the machine's threads")
    if pairs:
        print(f"PyTorch by mgc: {statistics.median(pairs):.2f} (each round {', '.join(f'{r:.2f}' for r in pairs)})")


if __name__ == "__main__":
    main()
