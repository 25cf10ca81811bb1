"""A training step of PyTorch at its best, for comparison: torch_step.py SIZES.json [f32]; one line of JSON.

torch.compile, scaled_dot_product_attention, fused AdamW, gradients clipped at 1; bf16 by autocast with parameters in
float32, or float32 without TF32. SIZES.json is what scripts/gpu-pack writes; a step is its batch,
`micro` sequences at once, or half as many until they fit.
"""

import json
import statistics
import sys
import time

import torch
from torch import nn

from torch_model import Model

WARM, STEPS = 5, 10


def measured(m, micro, bf16, device):
    """Milliseconds of steps, `micro` sequences at once."""
    torch.manual_seed(0)
    model = Model(m).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    step_of = torch.compile(model)
    tokens = torch.randint(m["vocab"], (m["batch"], m["seq"] + 1), device=device)

    def step():
        for part in tokens.split(micro):
            with torch.autocast(device, torch.bfloat16, enabled=bf16):
                loss = step_of(part) * micro / m["batch"]
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
    return times


def main():
    bf16 = "f32" not in sys.argv[2:]
    with open(sys.argv[1], encoding="utf-8") as f:
        m = json.load(f)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("highest")
    micro = m["micro"]
    while True:
        try:
            times = measured(m, micro, bf16, device)
            break
        except torch.cuda.OutOfMemoryError:
            if micro == 1:
                raise
        micro //= 2  # behind the handler, which holds the tensors
        torch.cuda.empty_cache()
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else 0
    print(json.dumps({"model": m["model"], "by": f"torch {torch.__version__}", "precision": "bf16" if bf16 else "f32", "micro": micro,
                      "step_ms": statistics.median(times[WARM:]), "peak_bytes": memory}))


main()
