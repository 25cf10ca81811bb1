"""Recurrences with a state of each channel, or of each head, position after position as their papers write them."""

import torch
import torch.nn.functional as F

from .twin import Twin, kind, next_token, rms


class States(Twin):
    """Layers of one mixer each, whose parameters are part_shapes()."""
    layers, hidden, vocab, seq, batch = 2, 16, 32, 8, 4

    def shapes(self):
        s = {"embed.weight": (self.vocab, self.hidden), "norm.weight": (self.hidden,)}
        for i in range(self.layers):
            s |= {f"{i}.{name}": shape for name, shape in self.part_shapes().items()}
        return s

    def loss(self, w, d):
        x = w["embed.weight"][d["tokens"][:, :-1]]
        for i in range(self.layers):
            p = f"{i}."
            mine = {name[len(p):]: t for name, t in w.items() if name.startswith(p)}
            x = x + self.mixer(rms(x, mine["norm.weight"], 1e-5), mine)
        return next_token(rms(x, w["norm.weight"], 1e-5) @ w["embed.weight"].T, d["tokens"])


@kind
class Mamba(States):
    inner, state, few, tap = 12, 4, 3, 4

    def part_shapes(self):
        h, n = self.hidden, self.inner
        return {"norm.weight": (h,), "x.weight": (n, h), "z.weight": (n, h), "conv.weight": (n, self.tap), "conv.bias": (n,),
                "b.weight": (self.state, n), "c.weight": (self.state, n), "few.weight": (self.few, n), "dt.weight": (n, self.few),
                "dt.bias": (n,), "A_log": (n, self.state), "D.weight": (n,), "out.weight": (h, n)}

    def mixer(self, x, w):
        kernel = w["conv.weight"].flip(-1)[:, None]  # conv1d weighs the oldest first; the taps here begin with the newest
        u = F.conv1d(F.pad((x @ w["x.weight"].T).transpose(1, 2), (self.tap - 1, 0)), kernel, w["conv.bias"], groups=self.inner)
        u = F.silu(u.transpose(1, 2))
        dt = F.softplus(u @ w["few.weight"].T @ w["dt.weight"].T + w["dt.bias"], threshold=1000)
        b, c, a = u @ w["b.weight"].T, u @ w["c.weight"].T, -torch.exp(w["A_log"])
        state, out = torch.zeros(len(x), self.inner, self.state, dtype=x.dtype), []
        for t in range(x.shape[1]):
            state = torch.exp(dt[:, t, :, None] * a) * state + (dt[:, t] * u[:, t])[..., None] * b[:, t, None, :]
            out.append((state * c[:, t, None, :]).sum(-1))
        return ((torch.stack(out, 1) + u * w["D.weight"]) * F.silu(x @ w["z.weight"].T)) @ w["out.weight"].T


@kind
class Rwkv7(States):
    heads, head = 4, 4

    def part_shapes(self):
        h = self.hidden
        s = {"norm.weight": (h,), "decay.bias": (h,), "learn.bias": (h,), "remove.weight": (h,), "out_norm.weight": (h,), "o.weight": (h, h)}
        for n in "rkvgwa":
            s |= {f"{n}.mix": (h,), f"{n}.weight": (h, h)}
        return s

    def mixer(self, x, w):
        before = F.pad(x, (0, 0, 1, -1))
        part = lambda n: torch.lerp(x, before, w[f"{n}.mix"]) @ w[f"{n}.weight"].T
        apart = lambda t: t.unflatten(-1, (self.heads, self.head))
        r, k, v = (apart(part(n)) for n in "rkv")
        fade = apart(torch.exp(-0.606531 * torch.sigmoid(w["decay.bias"] + part("w"))))
        a = apart(torch.sigmoid(w["learn.bias"] + part("a")))
        away = k * apart(w["remove.weight"])
        away = away * torch.rsqrt((away * away).sum(-1, keepdim=True) + 1e-6)
        state, out = torch.zeros(len(x), self.heads, self.head, self.head, dtype=x.dtype), []  # value, key
        for t in range(x.shape[1]):
            turn = torch.diag_embed(fade[:, t]) - away[:, t, :, :, None] * (away[:, t] * a[:, t])[:, :, None, :]
            state = state @ turn + v[:, t, :, :, None] * k[:, t, :, None, :]
            out.append((state @ r[:, t, :, :, None])[..., 0])
        y = torch.stack(out, 1)
        y = F.layer_norm(y, (self.head,), eps=1e-3).flatten(2) * w["out_norm.weight"]
        return (y * torch.sigmoid(part("g"))) @ w["o.weight"].T
