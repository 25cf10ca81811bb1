"""Golden numbers of PEFT's adapters: LoRA, rsLoRA with LoRA+'s rates and ranks by module, DoRA, parameters trained whole beside one.

    python3 adapters.py [NAME]     writes golden/adapter_{lora,stable,dora,table,saved}.{safetensors,json}

Needs torch and peft; the tests do not. The base is the Llama of generate.py with random weights, in
float64, and the adapter PEFT's own. The safetensors file holds

    weight.NAME   F32   the base, and the adapter as PEFT saves it; B is random, too
    grad.NAME     F64   gradients of the adapter at those weights
    batch         U8    [sequences, seq + 1] bytes

and the JSON file the loss, 10 steps of AdamW, and the loss after them, of the merged model.
"""

import json
import os
import sys

import numpy
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional as F

from generate import HERE, Llama, write_safetensors

STEPS = 10
PREFIX = "base_model.model."
SETTINGS = {
    "lora": {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj", "down_proj"]},
    "stable": {"r": 4, "lora_alpha": 6, "use_rslora": True, "rank_pattern": {"o_proj": 2}, "alpha_pattern": {"o_proj": 3},
               "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]},
    "dora": {"r": 4, "lora_alpha": 6, "use_dora": True, "target_modules": ["q_proj", "k_proj", "up_proj", "lm_head"]},
    "saved": {"r": 4, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["lm_head", "model.norm"]},
    "table": {"r": 4, "lora_alpha": 6, "target_modules": ["embed_tokens", "q_proj"]},
}
RATIO = {"stable": 4}


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-5) * self.weight


def modules(**children):
    m = nn.Module()
    for name, child in children.items():
        m.add_module(name, child)
    return m


class Twin(nn.Module):
    """generate.py's Llama, its matrices being modules that PEFT wraps (transformers computes norms in float32)."""

    def __init__(self, of):
        super().__init__()
        h, q, kv = of.hidden, of.kv * of.group * of.head, of.kv * of.head
        self.of = of
        layers = [modules(input_layernorm=Norm(h), post_attention_layernorm=Norm(h),
                          self_attn=modules(q_proj=linear(h, q), k_proj=linear(h, kv), v_proj=linear(h, kv), o_proj=linear(q, h)),
                          mlp=modules(gate_proj=linear(h, of.ffn), up_proj=linear(h, of.ffn), down_proj=linear(of.ffn, h)))
                  for _ in range(of.layers)]
        self.model = modules(embed_tokens=nn.Embedding(of.vocab, h), layers=nn.ModuleList(layers), norm=Norm(h))
        self.lm_head = linear(h, of.vocab)

    def attend(self, m, x):
        of = self.of
        heads = lambda z, n: z.view(*z.shape[:2], n, of.head).transpose(1, 2)  # noqa: E731
        q, k = (of.rope(heads(z, n)) for z, n in ((m.q_proj(x), of.kv * of.group), (m.k_proj(x), of.kv)))
        k, v = (z.repeat_interleave(of.group, 1) for z in (k, heads(m.v_proj(x), of.kv)))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return m.o_proj(o.transpose(1, 2).reshape(*x.shape[:2], -1))

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens[:, :-1])
        for layer in self.model.layers:
            x = x + self.attend(layer.self_attn, layer.input_layernorm(x))
            u, m = layer.post_attention_layernorm(x), layer.mlp
            x = x + m.down_proj(F.silu(m.gate_proj(u)) * m.up_proj(u))
        z = self.lm_head(self.model.norm(x))
        return F.cross_entropy(z.reshape(-1, self.of.vocab), tokens[:, 1:].reshape(-1))


def linear(n, m):
    return nn.Linear(n, m, bias=False)


def base(random):
    model = Twin(Llama())
    with torch.no_grad():
        for p in model.parameters():
            x = torch.randn(p.shape, generator=random)
            p.copy_(1 + 0.1 * x if p.dim() == 1 else 0.2 * x)
    return model.double()


def plain(name):
    return name.replace(".default", "").replace("lora_magnitude_vector.weight", "lora_magnitude_vector").replace(".modules_to_save", "")


def groups(model, name):
    out = []
    for n, p in model.named_parameters():
        if p.requires_grad:
            out.append({"params": [p], "lr": 1e-2 * (RATIO.get(name, 1) if "lora_B" in n else 1),
                        "weight_decay": 0.1 if p.dim() >= 2 else 0})
    return out


def generate(name, seed):
    random = torch.Generator().manual_seed(seed)
    model = get_peft_model(base(random), LoraConfig(**SETTINGS[name]))
    trained = {plain(n): p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for n, p in trained.items():
            x = torch.randn(p.shape, generator=random, dtype=torch.float64)
            p.copy_((p * (1 + 0.05 * x) if "magnitude" in n else 0.1 * x).float().double())
    tokens = torch.randint(0, 256, (Llama.batch, Llama.seq + 1), generator=random)
    tokens[:, 1::3] = tokens[:, :1]
    start = {plain(n).replace(".base_layer", ""): p.detach().float().numpy().copy() for n, p in model.named_parameters()}
    start = {n if n in trained else n[len(PREFIX):].replace(".original_module", ""): a for n, a in start.items()}
    optimizer = torch.optim.AdamW(groups(model, name), lr=1e-2, betas=(0.9, 0.95), eps=1e-8)
    losses, grads = [], {}
    model.train()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(tokens)
        loss.backward()
        if step == 0:
            grads = {n: p.grad.numpy().copy() for n, p in trained.items()}
        losses.append(loss.item())
        optimizer.step()
    after = model(tokens).item()
    merged = model.merge_and_unload()(tokens).item()
    assert abs(after - merged) < 1e-12, (after, merged)
    path = os.path.join(HERE, "golden", f"adapter_{name}")
    tensors = {f"weight.{n}": a for n, a in start.items()} | {f"grad.{n}": a for n, a in grads.items()}
    write_safetensors(path + ".safetensors", tensors | {"batch": tokens.numpy().astype(numpy.uint8)})
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump({"beta1": 0.9, "loss": losses[0], "losses": losses, "after": after}, f, indent=1)
        f.write("\n")
    print(name, losses[0], losses[-1], after)


if __name__ == "__main__":
    for i, which in enumerate(SETTINGS):
        if len(sys.argv) < 2 or which in sys.argv[1:]:
            generate(which, 70 + i)
