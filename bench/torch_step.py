"""A training step of PyTorch at its best, for comparison: torch_step.py SIZES.json [f32]; one line of JSON.

torch.compile, scaled_dot_product_attention, fused AdamW, gradients clipped at 1; bf16 by autocast with parameters in
float32, or float32 without TF32. SIZES.json is what scripts/gpu-pack writes; a step is its batch, one sequence at once.
"""

import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

WARM, STEPS = 5, 10


class Block(nn.Module):
    def __init__(self, hidden, heads, kv, head, ffn, kind):
        super().__init__()
        self.heads, self.kv, self.head, self.kind = heads, kv, head, kind
        bias = kind == "gpt2"
        norm = nn.LayerNorm if bias else nn.RMSNorm
        self.norm1, self.norm2 = norm(hidden, eps=1e-5), norm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv) * head, bias=bias)
        self.out = nn.Linear(heads * head, hidden, bias=bias)
        self.up = nn.Linear(hidden, ffn if bias else 2 * ffn, bias=bias)
        self.down = nn.Linear(ffn, hidden, bias=bias)

    def forward(self, x, turn):
        b, s, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).split([self.heads * self.head, self.kv * self.head, self.kv * self.head], -1)
        q = q.view(b, s, self.heads, self.head).transpose(1, 2)
        k, v = (t.view(b, s, self.kv, self.head).transpose(1, 2) for t in (k, v))
        if turn is not None:
            q, k = (t * turn[0] + torch.cat((-t[..., t.shape[-1] // 2:], t[..., :t.shape[-1] // 2]), -1) * turn[1]
                    for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.kv != self.heads)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, -1))
        h = self.up(self.norm2(x))
        if self.kind == "gpt2":
            h = F.gelu(h, approximate="tanh")
        else:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, m):
        super().__init__()
        layers, hidden, head, seq, kind = m["layers"], m["hidden"], m["head"], m["seq"], m["kind"]
        kv, heads, ffn, vocab = m["kv_heads"], m["kv_heads"] * m["group"], m["ffn"], m["vocab"]
        self.embed = nn.Embedding(vocab, hidden)
        self.pos = nn.Parameter(torch.zeros(seq, hidden)) if kind == "gpt2" else None
        self.blocks = nn.ModuleList(Block(hidden, heads, kv, head, ffn, kind) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden) if kind == "gpt2" else nn.RMSNorm(hidden, eps=1e-5)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if m["tied"]:
            self.head.weight = self.embed.weight
        angle = torch.outer(torch.arange(seq), 10000.0 ** (-torch.arange(0, head, 2) / head)).repeat(1, 2)
        self.register_buffer("turn", torch.stack((angle.cos(), angle.sin())) if kind != "gpt2" else None)

    def forward(self, tokens):
        x = self.embed(tokens[:, :-1])
        if self.pos is not None:
            x = x + self.pos
        for b in self.blocks:
            x = b(x, self.turn)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), tokens[:, 1:].flatten())


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
