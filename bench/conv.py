#!/usr/bin/env python3
"""A step of a residual network beside PyTorch's on this processor: convolutions, their gradients, norms, a pool, momentum.

    bench/conv.py [BUILD] [--rounds 5] [--steps 2] [--threads 2] [--batch 16] [--no-compile] [--device cpu.json]

Images of 64 x 64, four stages of 64, 128, 256 and 512 channels with a residual block each, layer norms over channels, float32.
PyTorch's tensors are channels_last, which is its fastest; eager and compiled. All take turns: a round is some steps of each.
What is said is the median over rounds of the steps' median, in milliseconds and in seconds of the processor (of all threads, which
another program on the machine changes less), PyTorch's better way by mgc's, round by round, and the step that mgc predicts.
"""

import argparse
import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SIZE, WIDTHS, CLASSES, ROWS, WARM = 64, (64, 128, 256, 512), 10, 64, 1


def source(batch):
    dims = [f"dim batch = {batch}, colour = 3, down = 3, across = 3, classes = {CLASSES}"]
    for i, width in enumerate(WIDTHS):
        dims.append(f"dim row{i} = {SIZE >> i}, col{i} = {SIZE >> i}, wide{i} = {width}")
    body = ["    h = conv(x, along row0, along col0, over colour, over wide0) as \"stem\""]
    for i in range(len(WIDTHS)):
        at = f"along row{i}, along col{i}"
        if i:
            before = f"along row{i - 1}, along col{i - 1}, {at}, over wide{i - 1}, over wide{i}"
            body.append(f"    z = relu(norm(h, over wide{i - 1}) as \"n{i}\")")
            body.append(f"    h = short(z, {before}) as \"short{i}\"")
            body.append(f"    z = strided(z, {before}) as \"a{i}\"")
        else:
            body.append("    z = conv(relu(norm(h, over wide0) as \"n0\"), along row0, along col0, over wide0, over wide0) as \"a0\"")
        body.append(f"    z = conv(relu(norm(z, over wide{i}) as \"m{i}\"), {at}, over wide{i}, over wide{i}) as \"b{i}\"")
        body.append("    h = h + z")
    last = len(WIDTHS) - 1
    return "\n".join(dims) + f"""
block norm(x, over c) {{
    gain : param[c] = 1
    bias : param[c] = 0
    return layernorm(x, gain, bias, over c, eps = 1e-5)
}}
block conv(x, along r, along c, over d, over o) {{
    dim fresh = o
    w : param[down, across, d, fresh] ~ normal(0.03)
    return (x[r + down - 1, c + across - 1] @ w over (down, across, d))[fresh -> o]
}}
block strided(x, along r, along c, along rr, along cc, over d, over o) {{
    w : param[down, across, d, o] ~ normal(0.03)
    return x[r = 2 * rr + down - 1, c = 2 * cc + across - 1] @ w over (down, across, d)
}}
block short(x, along r, along c, along rr, along cc, over d, over o) {{
    w : param[d, o] ~ normal(0.1)
    return x[r = 2 * rr, c = 2 * cc] @ w over d
}}
model resnet(x[batch, row0, col0, colour], y[batch] : token(classes)) {{
""" + "\n".join(body) + f"""
    head : param[wide{last}, classes] ~ normal(0.1)
    logits = mean(relu(h), over (row{last}, col{last})) @ head over wide{last}
    loss = cross_entropy(logits, y)
}}
train {{
    optimizer sgd(momentum = 0.9)
    lr 1e-3
    precision f32
}}
layout {{
    device cpu
    microbatch {batch}
}}
"""


def median(values):
    return statistics.median(values)


def used(who):
    r = resource.getrusage(who)
    return r.ru_utime + r.ru_stime


class Program:
    def __init__(self, args):
        self.where, self.threads = tempfile.mkdtemp(), args.threads
        self.write("m.mg", source(args.batch).encode())
        pixels = ROWS * SIZE * SIZE * 3
        x = struct.pack(f"<{4096}f", *[(i * 2654435761 % 2000) / 1000 - 1 for i in range(4096)]) * (pixels // 4096)
        y = bytes(i % CLASSES for i in range(ROWS))
        header = json.dumps({"x": {"dtype": "F32", "shape": [ROWS, SIZE, SIZE, 3], "data_offsets": [0, len(x)]},
                             "y": {"dtype": "U8", "shape": [ROWS], "data_offsets": [len(x), len(x) + ROWS]}}).encode()
        self.write("data.safetensors", struct.pack("<Q", len(header)) + header + x + y)
        mgc = [f"{args.build}/bin/mgc", "m.mg", "--device", args.device]
        plan = subprocess.run([*mgc, "--plan=json"], cwd=self.where, check=True, capture_output=True)
        self.predicted = json.loads(plan.stdout)["step_ms"]
        subprocess.run([*mgc, "-o", "train"], cwd=self.where, check=True, capture_output=True)

    def write(self, name, data):
        with open(f"{self.where}/{name}", "wb") as f:
            f.write(data)

    def run(self, n):
        begin = used(resource.RUSAGE_CHILDREN)
        subprocess.run(["./train", "--data", "data.safetensors", "--threads", str(self.threads), "--save-every", "0",
                        "--out", "run", "--steps", str(n)], cwd=self.where, check=True, capture_output=True)
        with open(f"{self.where}/run/metrics.jsonl", encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        os.remove(f"{self.where}/run/metrics.jsonl")
        return [r["step_ms"] for r in rows if "step_ms" in r], used(resource.RUSAGE_CHILDREN) - begin

    def steps(self, n):
        """Milliseconds of each of n steps, and seconds of the processor for each: of the steps that a longer run has more."""
        _, short = self.run(WARM)
        times, long = self.run(WARM + n)
        return times[WARM:], (long - short) / n


def torch_model():
    import torch.nn.functional as F
    from torch import nn

    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.of = nn.LayerNorm(width)

        def forward(self, x):
            return F.relu(self.of(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))

    def conv(into, out, size=3, stride=1):
        return nn.Conv2d(into, out, size, stride, padding=size // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, into, out):
            super().__init__()
            stride = 2 if into != out else 1
            self.n, self.m = Norm(into), Norm(out)
            self.a, self.b = conv(into, out, stride=stride), conv(out, out)
            self.short = conv(into, out, 1, 2) if stride == 2 else None

        def forward(self, h):
            z = self.n(h)
            return (self.short(z) if self.short else h) + self.b(self.m(self.a(z)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = conv(3, WIDTHS[0])
            self.blocks = nn.ModuleList(Block(i, o) for i, o in zip((WIDTHS[0],) + WIDTHS[:-1], WIDTHS))
            self.head = nn.Linear(WIDTHS[-1], CLASSES, bias=False)

        def forward(self, x, y):
            h = self.stem(x)
            for block in self.blocks:
                h = block(h)
            return F.cross_entropy(self.head(F.relu(h).mean((2, 3))), y)

    return Model()


class Torch:
    def __init__(self, args, compiled):
        import torch

        torch.set_num_threads(args.threads)
        torch.manual_seed(0)
        model = torch_model().to(memory_format=torch.channels_last)
        self.model = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.x = torch.randn(args.batch, 3, SIZE, SIZE).to(memory_format=torch.channels_last)
        self.y = torch.randint(CLASSES, (args.batch,))
        self.steps(WARM)

    def steps(self, n):
        times, spent = [], used(resource.RUSAGE_SELF)
        for _ in range(n):
            begin = time.perf_counter()
            self.model(self.x, self.y).backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            times.append((time.perf_counter() - begin) * 1e3)
        return times, (used(resource.RUSAGE_SELF) - spent) / n


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build", nargs="?", default=f"{ROOT}/build")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=2)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--no-compile", dest="compile", action="store_false")
    p.add_argument("--device", default="cpu", help="what predicts the step, a description that mgc calibrate wrote here")
    args = p.parse_args()
    args.device = os.path.abspath(args.device) if args.device.endswith(".json") else args.device
    args.build = os.path.abspath(args.build)
    ways = {"mgc": Program(args), "torch eager": Torch(args, False)}
    if args.compile:
        try:
            ways["torch compiled"] = Torch(args, True)
        except Exception as e:  # no compiler that it likes
            print(f"torch.compile fails: {str(e).splitlines()[0]}", file=sys.stderr)
    names, rounds = list(ways), []
    for n in range(args.rounds):
        order = names[n % len(names):] + names[:n % len(names)]
        rounds.append({name: ways[name].steps(args.steps) for name in order})
    for name in names:
        print(f"{name:16} {median(median(r[name][0]) for r in rounds):8.0f} ms {median(r[name][1] for r in rounds):8.2f} s of the processor")
    for what, of in (("in time", lambda t: median(t[0])), ("in seconds of the processor", lambda t: t[1])):
        best = min(names[1:], key=lambda n: median(of(r[n]) for r in rounds))
        ratios = [of(r[best]) / of(r["mgc"]) for r in rounds]
        print(f"{best} takes {median(ratios):.2f} times as long as mgc {what} (rounds {min(ratios):.2f} to {max(ratios):.2f})")
    predicted, is_ = ways["mgc"].predicted, median(median(r["mgc"][0]) for r in rounds)
    print(f"mgc: predicted {predicted:.0f} ms, {(predicted / is_ - 1) * 100:+.0f}%")


if __name__ == "__main__":
    main()
