"""Parts of tensors: strided and dilated convolutions, a fused projection cut in three, a branch without a gradient."""

import torch
import torch.nn.functional as F

from .twin import Twin, kind, rms, rope


def before(x, n):
    """(batch, seq, hidden), each position that of n before it."""
    return F.pad(x, (0, 0, n, 0))[:, :x.shape[1]]


@kind
class Parts(Twin):
    layers, hidden, heads, head, rot = 2, 16, 2, 6, 4
    vocab, seq, batch = 32, 8, 4

    def shapes(self):
        h, inner = self.hidden, self.heads * self.head
        s = {"embed.weight": (self.vocab, h), "norm.weight": (h,)}
        for i in range(self.layers):
            s |= {f"{i}.ln.weight": (h,), f"{i}.attn.qkv.weight": (3 * inner, h), f"{i}.attn.o.weight": (h, inner),
                  f"{i}.past.conv.weight": (h, h, 3), f"{i}.past.far.weight": (h, 3)}
        return s

    def attend(self, x, w, n):
        def heads(t):
            return t.reshape(*t.shape[:2], self.heads, self.head).transpose(1, 2)

        def turned(t):
            return torch.cat((rope(t[..., :self.rot]), t[..., self.rot:]), -1)

        q, k, v = map(heads, (x @ w[n + ".qkv.weight"].T).chunk(3, -1))
        y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        return y.transpose(1, 2).flatten(2) @ w[n + ".o.weight"].T

    def past(self, x, w, n):
        t = x.transpose(1, 2)
        y = F.conv1d(F.pad(t, (2, 0)), w[n + ".conv.weight"].flip(-1), stride=2).transpose(1, 2)
        far = F.conv1d(F.pad(t, (5, 0)), w[n + ".far.weight"].flip(-1)[:, None], dilation=2, groups=self.hidden)
        fade = torch.exp(-0.5 * (torch.arange(y.shape[1], dtype=x.dtype) % 2))
        return F.silu(y * fade[:, None]).repeat_interleave(2, 1) + far[..., :self.seq].transpose(1, 2)

    def loss(self, w, d):
        tokens = d["tokens"]
        x = w["embed.weight"][tokens[:, :-1]]
        for i in range(self.layers):
            h = rms(x, w[f"{i}.ln.weight"])
            x = x + self.attend(h, w, f"{i}.attn") + self.past(h, w, f"{i}.past") + 0.5 * before(h, 1) * h.detach()
        logits = rms(x, w["norm.weight"]) @ w["embed.weight"].T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
