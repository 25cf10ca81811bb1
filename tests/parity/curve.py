"""models/llama_mini.mg against PyTorch over a whole run: the same weights, the same batches.

    python3 curve.py DATA [STEPS]      needs torch; writes docs/parity_llama_mini.svg and .json

mgc's program writes its initial weights as a checkpoint; PyTorch reads them, and the windows of DATA
in the program's order (runtime/data/shuffle.c and data.c, written again here), and trains by
torch.optim.AdamW in float32. Rounding differs, so the runs part slowly; the curves may not.
"""

import json
import math
import os
import subprocess
import sys
import tempfile

import torch

import generate
from check import MGC, read_safetensors

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")
MASK = (1 << 64) - 1
PEAK, FLOOR, WARMUP = 3e-3, 3e-4, 40  # as the train block of llama_mini.mg


class Mini(generate.Llama):
    layers, hidden, kv, group, head, ffn, vocab, seq, batch = 4, 160, 5, 2, 16, 432, 256, 128, 32


# ---- the order of windows ----------------------------------------------------------------------


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def permute(key, n, i):
    half = 1
    while half < 32 and (n - 1) >> (2 * half):
        half += 1
    mask = (1 << half) - 1
    while True:
        left, right = i >> half, i & mask
        for turn in range(6):
            left, right = right, left ^ (mix(key ^ mix(right << 8 | turn)) & mask)
        i = left << half | right
        if i < n:
            return i


def window(data, seq, index, seed=0):
    n = max(1, len(data) // seq - 1)
    epoch = mix(mix(seed) ^ (index // n))
    w = permute(epoch, n, index % n)
    slack = len(data) - 1 - n * seq
    phase = mix(epoch + 1) % (min(slack, seq - 1) + 1)
    return data[phase + w * seq:phase + w * seq + seq + 1]


# ---- both runs ---------------------------------------------------------------------------------


def run_mgc(folder, data, steps):
    def run(*argv):
        subprocess.run([str(a) for a in argv], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    run(MGC, os.path.join(ROOT, "models/llama_mini.mg"), "-o", "train")
    run("./train", "--data", data, "--steps", 0, "--out", "run")
    start = read_safetensors(os.path.join(folder, "run/ckpt/step-00000000/model.safetensors"))
    run("./train", "--data", data, "--steps", steps, "--out", "run", "--resume", "--save-every", 0)
    with open(os.path.join(folder, "run/metrics.jsonl"), encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return start, [r["loss"] for r in rows if "grad_norm" in r]


def run_torch(start, data, steps):
    model = Mini()
    w = {n: torch.tensor(v).view(shape).requires_grad_() for n, (_, shape, v) in start.items()}
    assert {n: tuple(t.shape) for n, t in w.items()} == model.shapes()
    groups = [{"params": [t for t in w.values() if t.ndim >= 2], "weight_decay": 0.1},
              {"params": [t for t in w.values() if t.ndim < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(steps):
        r = max(0.0, (step - WARMUP) / max(1, steps - WARMUP))
        lr = FLOOR + (PEAK - FLOOR) * 0.5 * (1 + math.cos(math.pi * r))
        for g in optimizer.param_groups:
            g["lr"] = PEAK * (step + 1) / WARMUP if step < WARMUP else lr
        batch = [list(window(data, model.seq, step * model.batch + i)) for i in range(model.batch)]
        optimizer.zero_grad()
        loss = model.loss(w, torch.tensor(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(w.values(), 1.0)
        losses.append(float(loss.detach()))
        optimizer.step()
        if step % 50 == 0:
            print(f"torch step {step} loss {losses[-1]:.4f}", flush=True)
    return losses


# ---- the result --------------------------------------------------------------------------------


def svg(curves, path):
    width, height, left, bottom = 760, 380, 50, 40
    most = max(max(c) for _, _, c in curves)
    n = max(len(c) for _, _, c in curves)

    def point(i, y):
        return f"{left + (width - left - 20) * i / (n - 1):.1f},{(height - bottom) * (1 - y / most) + 10:.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12"><rect width="100%" height="100%" fill="white"/>']
    for y in range(int(most) + 1):
        at = point(0, y).split(",")[1]
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{at}" y2="{at}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{at}" text-anchor="end">{y}</text>')
    for step in range(0, n + 1, max(1, n // 5)):
        x = point(min(step, n - 1), 0).split(",")[0]
        parts.append(f'<text x="{x}" y="{height - 12}" text-anchor="middle">{step}</text>')
    for k, (name, style, c) in enumerate(curves):
        line = " ".join(point(i, y) for i, y in enumerate(c))
        parts.append(f'<polyline points="{line}" fill="none" {style}/>'
                     f'<line x1="{width - 170}" x2="{width - 140}" y1="{30 + 20 * k}" y2="{30 + 20 * k}" {style}/>'
                     f'<text x="{width - 132}" y="{34 + 20 * k}">{name}</text>')
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(parts) + "\n</svg>\n")


def mean(v):
    return sum(v) / len(v)


def main():
    path, steps = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with open(path, "rb") as f:
        data = f.read()
    with tempfile.TemporaryDirectory(prefix="mgc-curve-") as folder:
        start, mine = run_mgc(folder, path, steps)
    theirs = run_torch(start, data, steps)
    a, b = mean(mine[-100:]), mean(theirs[-100:])
    result = {
        "steps": steps, "torch": torch.__version__,
        "first_losses": [mine[0], theirs[0]], "mean_of_last_100": [a, b], "relative": a / b - 1,
        "first_100_differ_at_most": max(abs(x - y) for x, y in zip(mine[:100], theirs[:100])),
        "all_differ_at_most": max(abs(x - y) for x, y in zip(mine, theirs)),
    }
    print(json.dumps(result, indent=1))
    with open(os.path.join(ROOT, "docs/parity_llama_mini.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    svg([("mgc", 'stroke="#1b6ca8" stroke-width="2.5"', mine),
         ("PyTorch", 'stroke="#e4572e" stroke-width="1"', theirs)],
        os.path.join(ROOT, "docs/parity_llama_mini.svg"))
    return 0 if abs(a / b - 1) <= 0.005 else 1


if __name__ == "__main__":
    sys.exit(main())
