"""A model that PyTorch trains on the processor, a few steps at a time, for bench/cpu.py.

    torch_worker.py SIZES.json eager|compile|products THREADS f32|bf16

As fast as it is usually made: scaled_dot_product_attention, fused AdamW, the whole batch at once, and torch.compile or
not; in bf16 under autocast, parameters and the optimiser in float32. It makes its model, warms up and says so in a line of JSON; then answers each line that it reads with one. The line
is a number of steps: {"ms": [each step], "peak": bytes that were resident at most since it was warm, "cpu": seconds of all
threads}. Or, of `products`, which has no model, a file of lines "ta tb m n k": {"rows": [[seconds of torch.mm at the median,
at best], ...], "cpu": as before}.
"""

import json
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from torch_model import Model

WARM = 2
WINDOW = 0.15  # seconds of a product


def resident(field):
    with open("/proc/self/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field)) * 1024


def forget_peak():
    """From here on VmHWM is of what comes: what compiling took does not count against the steps."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as f:
            f.write("5")
    except OSError:
        pass


def seconds(work, window):
    times, start = [], time.perf_counter()
    work()
    while len(times) < 3 or time.perf_counter() - start < window:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), min(times)


def faster_grouping(m):
    """Which way to share key heads is faster here, forward and backward."""
    if m["group"] == 1:
        return "native"
    b, s, head, kv, heads = m["batch"], m["seq"], m["head"], m["kv_heads"], m["kv_heads"] * m["group"]
    q, k, v = (torch.randn(b, s, n, head).transpose(1, 2).requires_grad_() for n in (heads, kv, kv))

    def attend(repeat):
        kk, vv = (t.repeat_interleave(heads // kv, 1) for t in (k, v)) if repeat else (k, v)
        y = F.scaled_dot_product_attention(q, kk, vv, is_causal=True, enable_gqa=not repeat)
        y.backward(torch.ones_like(y))
    return "repeat" if seconds(lambda: attend(True), 0.5)[0] < seconds(lambda: attend(False), 0.5)[0] else "native"


class Trainer:
    def __init__(self, m, compiled, dtype):
        self.dtype = dtype
        torch.manual_seed(0)
        self.grouped = faster_grouping(m)
        self.model = Model(m, self.grouped)
        for p in self.model.parameters():
            if p.dim() > 1:  # as mgc's models begin: wide logits would bring subnormal numbers, which are slow
                nn.init.normal_(p, std=0.02)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        self.loss_of = torch.compile(self.model) if compiled else self.model
        self.tokens = torch.randint(m["vocab"], (m["batch"], m["seq"] + 1))

    def step(self):
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == torch.bfloat16):
            loss = self.loss_of(self.tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        loss.item()
        return (time.perf_counter() - begin) * 1e3


def products(path, dtype):
    rows = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            ta, tb, m, n, k = map(int, line.split())
            a = torch.rand((k, m) if ta else (m, k)).to(dtype)
            b = torch.rand((n, k) if tb else (k, n)).to(dtype)
            c = torch.zeros(m, n, dtype=dtype)
            rows.append(seconds(lambda a=a.t() if ta else a, b=b.t() if tb else b, c=c: torch.mm(a, b, out=c), WINDOW))
    return rows


def say(**what):
    print(json.dumps(what), flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        m = json.load(f)
    torch.set_num_threads(int(sys.argv[3]))
    known = {"torch": torch.__version__, "imported": resident("VmHWM"),
             "libraries": re.findall(r"(?m)^ *- (.*(?:Math Kernel|MKL-DNN|oneDNN|OneDNN).*)$", torch.__config__.show())}
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[4]]
    if sys.argv[2] == "products":
        say(**known)
        for line in sys.stdin:
            begin = time.process_time()
            say(rows=products(line.strip(), dtype), cpu=time.process_time() - begin)
        return
    t = Trainer(m, sys.argv[2] == "compile", dtype)
    for _ in range(WARM):
        t.step()
    forget_peak()
    say(**known, grouped=t.grouped, params=sum(p.numel() for p in t.model.parameters()), tokens=m["batch"] * m["seq"])
    for line in sys.stdin:
        begin = time.process_time()
        say(ms=[t.step() for _ in range(int(line))], peak=resident("VmHWM"), cpu=time.process_time() - begin)


if __name__ == "__main__":
    main()
