"""Attention of PyTorch for comparison: torch_attention.py, shapes as lines of JSON on its input; answers likewise.

Each shape is what bench/cuda_attention.c prints: batch, seq, kv_heads, group, head, causal. In bf16, forward and its
gradients, by each of FlashAttention's and cuDNN's kernels that takes the shape; keys and values are repeated for the
group before, which is not timed. On a processor, by the one that there is, to see that it runs.
"""

import json
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

WARM, RUNS = 3, 20
GPU = torch.cuda.is_available()
WAYS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION} if GPU else {"math": SDPBackend.MATH}


def milliseconds(work):
    times = []
    for _ in range(WARM + RUNS):
        if GPU:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            begin = time.perf_counter()
            work()
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times[WARM:])


def measured(s, way):
    """Milliseconds forward, and of the gradients."""
    heads = s["kv_heads"] * s["group"]
    size = (s["batch"], heads, s["seq"], s["head"])
    q, k, v, dout = (torch.randn(size, device="cuda" if GPU else "cpu", dtype=torch.bfloat16) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    with sdpa_kernel(WAYS[way]):
        forward = milliseconds(lambda: scaled_dot_product_attention(q, k, v, is_causal=s["causal"]))
        o = scaled_dot_product_attention(q, k, v, is_causal=s["causal"])
        return forward, milliseconds(lambda: torch.autograd.grad(o, (q, k, v), dout, retain_graph=True))


def main():
    torch.manual_seed(0)
    for line in sys.stdin:
        s = json.loads(line)
        flops = s["seq"] ** 2 * s["head"] * s["batch"] * s["kv_heads"] * s["group"] * (0.5 if s["causal"] else 1)
        for way in WAYS:
            try:
                both = measured(s, way)
            except RuntimeError as e:  # no kernel of this kind for the shape
                print(json.dumps({**s, "way": f"torch {way}", "failed": str(e).splitlines()[0]}), flush=True)
                continue
            for backward, ms in enumerate(both):
                print(json.dumps({**s, "way": f"torch {way}", "backward": bool(backward), "ms": ms,
                                  "tflops": flops * (10 if backward else 4) / ms * 1e-9}), flush=True)


main()
