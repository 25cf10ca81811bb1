"""The models of models/gpt2_124m.mg and models/llama_*.mg as PyTorch has them, by their sizes alone.

bench/torch_step.py trains them on a GPU, bench/torch_worker.py on a processor. Sizes are a dict: kind (gpt2 or llama),
layers, hidden, kv_heads, group, head, ffn, vocab, seq, tied. `grouped` says how shared key heads reach attention:
"native" by enable_gqa, "repeat" as copies; which is faster depends on the device.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads, kv, head, ffn, kind, grouped):
        super().__init__()
        self.heads, self.kv, self.head, self.kind, self.grouped = heads, kv, head, kind, grouped
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
        if self.grouped == "repeat" and self.kv != self.heads:
            k, v = (t.repeat_interleave(self.heads // self.kv, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] != self.heads)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, -1))
        h = self.up(self.norm2(x))
        if self.kind == "gpt2":
            h = F.gelu(h, approximate="tanh")
        else:
            gate, up = h.chunk(2, -1)
            h = F.silu(gate) * up
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self, m, grouped="native"):
        super().__init__()
        layers, hidden, head, seq, kind = m["layers"], m["hidden"], m["head"], m["seq"], m["kind"]
        kv, heads, ffn, vocab = m["kv_heads"], m["kv_heads"] * m["group"], m["ffn"], m["vocab"]
        self.embed = nn.Embedding(vocab, hidden)
        self.pos = nn.Parameter(torch.zeros(seq, hidden)) if kind == "gpt2" else None
        self.blocks = nn.ModuleList(Block(hidden, heads, kv, head, ffn, kind, grouped) for _ in range(layers))
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
