"""Golden numbers for tests/parity: four small models in plain PyTorch, their losses and gradients.

    python3 generate.py        writes golden/{gpt2,llama,mlp,mixtral}_small.{safetensors,json}

Needs torch and numpy; the tests do not: they read what this wrote. Each model is written out here
tensor by tensor, with no module of torch's, from the papers and the names of the published weights;
the .mg file beside it is the same model. The safetensors file holds

    weight.NAME   F32   initial weights; every one random, norms' gains and biases too
    grad.NAME     F64   gradient of the mean loss at those weights, computed in float64
    batch         U8    [sequences, seq + 1] bytes

and the JSON file the loss and 20 steps of AdamW on that one batch in float64: clipped to norm 1,
decayed where rank >= 2, with a cosine schedule, as the train blocks say.
"""

import json
import math
import os
import struct

import numpy
import torch
import torch.nn.functional as F

STEPS = 20
HERE = os.path.dirname(os.path.abspath(__file__))


# ---- the models --------------------------------------------------------------------------------


class Gpt2:
    layers, hidden, heads, head, ffn, vocab, seq, batch = 2, 32, 4, 8, 96, 256, 24, 4

    def shapes(self):
        h = self.hidden
        s = {"wte.weight": (self.vocab, h), "wpe.weight": (self.seq, h)}
        for i in range(self.layers):
            p = f"h.{i}."
            s |= {
                p + "ln_1.weight": (h,), p + "ln_1.bias": (h,),
                p + "attn.c_attn.weight": (h, 3 * h), p + "attn.c_attn.bias": (3 * h,),
                p + "attn.c_proj.weight": (h, h), p + "attn.c_proj.bias": (h,),
                p + "ln_2.weight": (h,), p + "ln_2.bias": (h,),
                p + "mlp.c_fc.weight": (h, self.ffn), p + "mlp.c_fc.bias": (self.ffn,),
                p + "mlp.c_proj.weight": (self.ffn, h), p + "mlp.c_proj.bias": (h,),
            }
        return s | {"ln_f.weight": (h,), "ln_f.bias": (h,)}

    def loss(self, w, tokens):
        def norm(x, name):
            mean = x.mean(-1, keepdim=True)
            var = ((x - mean) ** 2).mean(-1, keepdim=True)
            return (x - mean) / torch.sqrt(var + 1e-5) * w[name + ".weight"] + w[name + ".bias"]

        x, y = tokens[:, :-1], tokens[:, 1:]
        b, t = x.shape
        mask = torch.full((t, t), -math.inf, dtype=w["wte.weight"].dtype).triu(1)
        x = w["wte.weight"][x] + w["wpe.weight"]
        for i in range(self.layers):
            p = f"h.{i}."
            a = norm(x, p + "ln_1") @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"]
            q, k, v = (z.view(b, t, self.heads, self.head).transpose(1, 2)
                       for z in a.split(self.hidden, -1))
            s = q @ k.transpose(-1, -2) / math.sqrt(self.head) + mask
            o = (torch.softmax(s, -1) @ v).transpose(1, 2).reshape(b, t, self.hidden)
            x = x + o @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
            u = norm(x, p + "ln_2") @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"]
            u = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
            x = x + u @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
        z = norm(x, "ln_f") @ w["wte.weight"].T
        return F.cross_entropy(z.reshape(-1, self.vocab), y.reshape(-1))


def gated(u, gate, up, down):
    g = u @ gate.T
    return (g * torch.sigmoid(g) * (u @ up.T)) @ down.T


class Llama:
    layers, hidden, kv, group, head, ffn, vocab, seq, batch = 2, 32, 2, 2, 8, 48, 256, 24, 4
    theta = 10000.0

    def shapes(self):
        h, q = self.hidden, self.kv * self.group * self.head
        s = {"model.embed_tokens.weight": (self.vocab, h)}
        for i in range(self.layers):
            p = f"model.layers.{i}."
            s |= {
                p + "input_layernorm.weight": (h,),
                p + "self_attn.q_proj.weight": (q, h),
                p + "self_attn.k_proj.weight": (self.kv * self.head, h),
                p + "self_attn.v_proj.weight": (self.kv * self.head, h),
                p + "self_attn.o_proj.weight": (h, q),
                p + "post_attention_layernorm.weight": (h,),
            } | self.unit_shapes(p)
        return s | {"model.norm.weight": (h,), "lm_head.weight": (self.vocab, h)}

    def unit_shapes(self, p):
        return {
            p + "mlp.gate_proj.weight": (self.ffn, self.hidden),
            p + "mlp.up_proj.weight": (self.ffn, self.hidden),
            p + "mlp.down_proj.weight": (self.hidden, self.ffn),
        }

    def unit(self, w, p, u):
        """The second half of a layer, and what it adds to the loss."""
        return gated(u, *(w[p + f"mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))), 0

    def rope(self, x):  # (batch, heads, seq, head): halves of a head turn together
        half = self.head // 2
        rate = self.theta ** (-torch.arange(half, dtype=torch.float64) / half)
        angle = torch.arange(x.shape[2], dtype=torch.float64)[:, None] * rate
        c, s = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * c - b * s, b * c + a * s), -1)

    def loss(self, w, tokens):
        def norm(x, name):
            return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-5) * w[name + ".weight"]

        def heads(x, n):
            return x.view(*x.shape[:2], n, self.head).transpose(1, 2)

        x, y = tokens[:, :-1], tokens[:, 1:]
        b, t = x.shape
        added = 0
        x = w["model.embed_tokens.weight"][x]
        mask = torch.full((t, t), -math.inf, dtype=x.dtype).triu(1)
        for i in range(self.layers):
            p = f"model.layers.{i}."
            a = norm(x, p + "input_layernorm")
            q = self.rope(heads(a @ w[p + "self_attn.q_proj.weight"].T, self.kv * self.group))
            k = self.rope(heads(a @ w[p + "self_attn.k_proj.weight"].T, self.kv))
            v = heads(a @ w[p + "self_attn.v_proj.weight"].T, self.kv)
            k, v = (z.repeat_interleave(self.group, 1) for z in (k, v))
            s = q @ k.transpose(-1, -2) / math.sqrt(self.head) + mask
            o = (torch.softmax(s, -1) @ v).transpose(1, 2).reshape(b, t, -1)
            x = x + o @ w[p + "self_attn.o_proj.weight"].T
            u, more = self.unit(w, p, norm(x, p + "post_attention_layernorm"))
            x = x + u
            added = added + more
        z = norm(x, "model.norm") @ w["lm_head.weight"].T
        return F.cross_entropy(z.reshape(-1, self.vocab), y.reshape(-1)) + added


class Mixtral(Llama):
    """Experts with so many slots for a sequence: whoever comes too late is not computed."""

    ffn, experts, best, slots, balancing = 40, 4, 2, 12, 0.02

    def unit_shapes(self, p):
        s = {p + "block_sparse_moe.gate.weight": (self.experts, self.hidden)}
        for e in range(self.experts):
            q = p + f"block_sparse_moe.experts.{e}."
            s |= {q + "w1.weight": (self.ffn, self.hidden), q + "w3.weight": (self.ffn, self.hidden),
                  q + "w2.weight": (self.hidden, self.ffn)}
        return s

    def unit(self, w, p, u):
        p += "block_sparse_moe."
        score = torch.softmax(u @ w[p + "gate.weight"].T, -1)
        share, chosen = torch.topk(score, self.best)
        share = share / share.sum(-1, keepdim=True)
        experts = [[w[p + f"experts.{e}.{n}.weight"] for n in ("w1", "w3", "w2")] for e in range(self.experts)]
        rows = []
        for b in range(len(u)):
            taken = [0] * self.experts
            for t in range(u.shape[1]):
                row = torch.zeros_like(u[b, t])
                for k, e in enumerate(chosen[b, t].tolist()):
                    taken[e] += 1
                    if taken[e] <= self.slots:
                        row = row + share[b, t, k] * gated(u[b, t], *experts[e])
                rows.append(row)
        used = F.one_hot(chosen, self.experts).to(u.dtype).sum(2).mean(1)
        uneven = self.experts * (used * score.mean(1)).sum(-1).mean()
        return torch.stack(rows).reshape(u.shape), self.balancing / self.layers * uneven


class Mlp:
    embed, hidden, vocab, seq, batch = 12, 40, 256, 8, 16

    def shapes(self):
        return {
            "embed.weight": (self.vocab, self.embed),
            "fc1.weight": (self.hidden, self.seq * self.embed), "fc1.bias": (self.hidden,),
            "fc2.weight": (self.vocab, self.hidden), "fc2.bias": (self.vocab,),
        }

    def loss(self, w, tokens):
        x = w["embed.weight"][tokens[:, :-1]].reshape(len(tokens), -1)
        h = torch.tanh(x @ w["fc1.weight"].T + w["fc1.bias"])
        return F.cross_entropy(h @ w["fc2.weight"].T + w["fc2.bias"], tokens[:, -1])


# ---- training ----------------------------------------------------------------------------------

PEAK, FLOOR, WARMUP = 3e-3, 3e-4, 5
BETAS, EPS, DECAY, CLIP = (0.9, 0.95), 1e-8, 0.1, 1.0


def rate(step):
    if step < WARMUP:
        return PEAK * (step + 1) / WARMUP
    r = min(1.0, (step - WARMUP) / max(1, STEPS - WARMUP))
    return FLOOR + (PEAK - FLOOR) * 0.5 * (1 + math.cos(math.pi * r))


def train(model, start, tokens, dtype):
    """Losses (before each update, and after the last) and gradient norms of STEPS steps."""
    w = {n: t.to(dtype).clone().requires_grad_() for n, t in start.items()}
    groups = [
        {"params": [t for t in w.values() if t.ndim >= 2], "weight_decay": DECAY},
        {"params": [t for t in w.values() if t.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=BETAS, eps=EPS)
    losses, norms = [], []
    for step in range(STEPS):
        for g in optimizer.param_groups:
            g["lr"] = rate(step)
        optimizer.zero_grad()
        loss = model.loss(w, tokens)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(w.values(), CLIP)))
        losses.append(float(loss.detach()))
        optimizer.step()
    return losses, norms


def gradients(model, start, tokens):
    w = {n: t.double().requires_grad_() for n, t in start.items()}
    loss = model.loss(w, tokens)
    loss.backward()
    return float(loss.detach()), {n: t.grad for n, t in w.items()}


# ---- files -------------------------------------------------------------------------------------

NAMES = {"float32": "F32", "float64": "F64", "uint8": "U8", "uint16": "BF16"}


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].itemsize))  # keeps alignment
    for name, a in tensors.items():
        header[name] = {"dtype": NAMES[str(a.dtype)], "shape": list(a.shape),
                        "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(numpy.ascontiguousarray(a).tobytes())


def generate(name, model, seed):
    random = torch.Generator().manual_seed(seed)
    start = {}
    for n, shape in model.shapes().items():
        x = torch.randn(shape, generator=random)
        gain = len(shape) == 1 and n.endswith(".weight")
        start[n] = 1 + 0.1 * x if gain else x * (0.1 if len(shape) == 1 else 0.2)
    tokens = torch.randint(0, 256, (model.batch, model.seq + 1), generator=random)
    tokens[:, 1::3] = tokens[:, :1]  # so that attention has something to find
    loss, grad = gradients(model, start, tokens)
    losses, norms = train(model, start, tokens, torch.float64)
    losses32, _ = train(model, start, tokens, torch.float32)
    tensors = {"batch": tokens.numpy().astype("uint8")}
    tensors |= {"weight." + n: t.numpy() for n, t in start.items()}
    tensors |= {"grad." + n: t.numpy() for n, t in grad.items()}
    write_safetensors(f"{HERE}/golden/{name}.safetensors", tensors)
    with open(f"{HERE}/golden/{name}.json", "w") as f:
        json.dump({"loss": loss, "losses": losses, "norms": norms, "losses_f32": losses32,
                   "beta1": BETAS[0]}, f, indent=1)
        f.write("\n")
    print(name, "loss", loss, "->", losses[-1], "norm", norms[0], "->", norms[-1],
          "f32 differs by", max(abs(a - b) for a, b in zip(losses, losses32)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    generate("gpt2_small", Gpt2(), 1)
    generate("llama_small", Llama(), 2)
    generate("mlp_small", Mlp(), 3)
    generate("mixtral_small", Mixtral(), 4)
