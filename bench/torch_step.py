"""A training step of PyTorch at its best, for comparison: torch_step.py SIZES.json [f32]; one line of JSON.

torch.compile, scaled_dot_product_attention, fused AdamW, gradients clipped at 1; bf16 by autocast with parameters in
float32, or float32 without TF32. SIZES.json is what scripts/gpu-pack writes; a step is its batch, one sequence at once.
"""

import json
import statistics
import sys
import time

import torch
from torch import nn

from torch_model import Model

WARM, STEPS = 5, 10


def main():
    bf16 = "f32" not in sys.argv[2:]
    with open(sys.argv[1], encoding="utf-8") as f:
        m = json.load(f)
    batch = m["batch"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    model = Model(m).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    step_of = torch.compile(model)
    tokens = torch.randint(m["vocab"], (batch, m["seq"] + 1), device=device)

    def step():
        for part in tokens.split(1):
            with torch.autocast(device, torch.bfloat16, enabled=bf16):
                loss = step_of(part) / batch
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    times = []
    for _ in range(WARM + STEPS):
        begin = time.perf_counter()
        step()
        times.append((time.perf_counter() - begin) * 1e3)
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(json.dumps({"model": m["model"], "by": f"torch {torch.__version__}", "precision": "bf16" if bf16 else "f32",
                      "step_ms": statistics.median(times[WARM:]), "peak_bytes": memory}))


main()
