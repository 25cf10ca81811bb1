"""AdamW whose state is kept in bf16, rounded at random: the rule of docs/training.md in numpy, for rules.py.

The bits of an element are 16 of a word of Philox4x32-10 (Salmon, Moraes, Dror, Shaw; 2011): of the block of counter {column / 4, row,
step} the word column % 4, its low half for the first moment and its high half for the second, under the FNV-1a of the parameter's
name. A column is an index along the dim that llama_small.mg stores innermost, a row one along all other dims and the layer."""

import re

import numpy as np
import torch

LAYERS, KV, GROUP, HEAD, HIDDEN, FFN, VOCAB = 2, 2, 2, 8, 32, 48, 256
# Of each parameter the dims of its external form, and which of them is innermost as stored.
FORMS = {"q_proj": ((KV, GROUP, HEAD, HIDDEN), 2), "k_proj": ((KV, HEAD, HIDDEN), 1), "v_proj": ((KV, HEAD, HIDDEN), 1),
         "o_proj": ((HIDDEN, KV, GROUP, HEAD), 0), "gate_proj": ((FFN, HIDDEN), 0), "up_proj": ((FFN, HIDDEN), 0),
         "down_proj": ((HIDDEN, FFN), 0), "embed_tokens": ((VOCAB, HIDDEN), 1), "lm_head": ((VOCAB, HIDDEN), 1)}


def philox(counter, key):
    """The four words of each counter: arrays of 32-bit numbers in 64 bits."""
    c, low = [np.asarray(x, np.uint64) for x in counter], np.uint64(0xffffffff)
    k = [key & 0xffffffff, key >> 32]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xd2511f53), c[2] * np.uint64(0xcd9e8d57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & low]
        k = [(k[0] + 0x9e3779b9) & 0xffffffff, (k[1] + 0xbb67ae85) & 0xffffffff]
    return c


def fnv(text):
    h = 14695981039346656037
    for b in text.encode():
        h = (h ^ b) * 1099511628211 & (1 << 64) - 1
    return h


def words(name, shape, step):
    layer = re.search(r"layers\.(\d+)\.", name)
    dims, inner = next((f for part, f in FORMS.items() if part in name), (tuple(shape), len(shape) - 1))
    index = np.meshgrid(*(np.arange(n) for n in dims), indexing="ij")
    row = np.full(dims, int(layer[1]) if layer else 0)
    for k, n in enumerate(dims):
        if k != inner:
            row = row * n + index[k]
    col = index[inner]
    c = philox((col // 4, row, np.full(dims, step), np.zeros(dims)), fnv("round 0 " + re.sub(r"layers\.\d+\.", "layers.{}.", name)))
    return np.choose(col % 4, c).reshape(shape)


def kept(x, word, half):
    """x in bf16: the upper half of the bits of a float and those 16."""
    bits = x.detach().numpy().astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = bits + (word >> np.uint64(16 * half) & np.uint64(0xffff)) & np.uint64(0xffff0000)
    return torch.from_numpy(bits.astype(np.uint32).view(np.float32).astype(np.float64))


class AdamW:
    def __init__(self, w, betas, eps, decay):
        self.w, self.betas, self.eps, self.decay, self.done = w, betas, eps, decay, 0
        self.param_groups = [{"params": list(w.values()), "lr": 0.0}]
        self.m, self.v = ({n: torch.zeros_like(p) for n, p in w.items()} for _ in range(2))

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        lr = self.param_groups[0]["lr"]
        for n, p in self.w.items():
            m = b1 * self.m[n] + (1 - b1) * p.grad
            v = b2 * self.v[n] + (1 - b2) * p.grad ** 2
            t = self.done + 1
            p.mul_(1 - lr * (self.decay if p.ndim >= 2 else 0))
            p.sub_(lr * m / (1 - b1 ** t) / ((v / (1 - b2 ** t)).sqrt() + self.eps))
            word = words(n, tuple(p.shape), self.done)
            self.m[n], self.v[n] = kept(m, word, 0), kept(v, word, 1)
        self.done += 1
