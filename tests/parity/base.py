"""Golden numbers of a base in NF4 (QLoRA) and in int8: a Llama of transformers whose layers' matrices are what bitsandbytes' NF4 with
double quantisation, or its int8 with an absmax a row (LLM.int8's weights), makes of them, with PEFT's LoRA beside.

    python3 base.py        writes golden/base_{nf4,int8}.{safetensors,json}

Needs torch, transformers, peft and bitsandbytes; the tests do not. The matrices are quantised from bf16 and dequantised in f32 by
bitsandbytes (quantize_4bit, dequantize_4bit; int8_vectorwise_quant, int8_vectorwise_dequant); the model then computes in float64 (but angles of rope, which transformers has in
float32). A matrix of 320 blocks has two nested scales, and one with rows of 5 blocks has them change within a row. The files are as those
of adapters.py, except that the base is BF16, and is there as it was before it was quantised.
"""

import json
import os

import bitsandbytes.functional as functional
import numpy
import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

from adapters import PREFIX, plain
from generate import HERE, write_safetensors

STEPS, BATCH, SEQ = 20, 4, 24
CONFIG = LlamaConfig(hidden_size=64, intermediate_size=320, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                     vocab_size=256, max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False,
                     attn_implementation="sdpa")
LORA = LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])


def norm(self, x):
    """transformers computes norms in float32."""
    return x / torch.sqrt((x**2).mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


def int8(w):
    codes, absmax, _ = functional.int8_vectorwise_quant(w.float())
    return functional.int8_vectorwise_dequant(codes, absmax)


def nf4(w):
    """The absmax get the nearest codes, as on a GPU: bitsandbytes' kernel for floats on a processor gives a number that is within 3e-5 of
    the middle of two either of them. For float64 it compares with all."""
    q, state = functional.quantize_4bit(w.float(), blocksize=64, compress_statistics=True, quant_type="nf4")
    off = w.float().reshape(-1, 64).abs().amax(1) - state.offset
    state.absmax = torch.ops.bitsandbytes.quantize_blockwise(off.double(), state.state2.code, 256)[0]
    return functional.dequantize_4bit(q, state)


def base(random, quantised):
    """The model, and the weights that it was made of."""
    modeling_llama.LlamaRMSNorm.forward = norm
    model, start = LlamaForCausalLM(CONFIG), {}
    with torch.no_grad():
        for n, p in model.named_parameters():
            x = torch.randn(p.shape, generator=random)
            x = (1 + 0.1 * x if p.dim() == 1 else 0.2 * x).bfloat16()
            start[n] = x.view(torch.int16).numpy().view(numpy.uint16)
            p.copy_(quantised(x) if "_proj" in n else x)
    return model.double(), start


def loss_of(model, tokens):
    z = model(input_ids=tokens[:, :-1]).logits
    return F.cross_entropy(z.reshape(-1, CONFIG.vocab_size), tokens[:, 1:].reshape(-1))


def golden(quantised):
    random = torch.Generator().manual_seed(80)
    model, start = base(random, quantised)
    model = get_peft_model(model, LORA)
    trained = {plain(n): p for n, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        for p in trained.values():
            p.copy_((0.1 * torch.randn(p.shape, generator=random)).double())
    start |= {n: p.detach().float().numpy().copy() for n, p in trained.items()}
    tokens = torch.randint(0, 256, (BATCH, SEQ + 1), generator=random)
    tokens[:, 1::3] = tokens[:, :1]
    optimizer = torch.optim.AdamW(trained.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    losses, grads = [], {}
    model.train()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        if step == 0:
            grads = {n: p.grad.numpy().copy() for n, p in trained.items()}
        losses.append(loss.item())
        optimizer.step()
    assert all(n.startswith(PREFIX) for n in trained)
    path = os.path.join(HERE, "golden", "base_" + quantised.__name__)
    tensors = {f"weight.{n}": a for n, a in start.items()} | {f"grad.{n}": a.astype(numpy.float32) for n, a in grads.items()}
    write_safetensors(path + ".safetensors", tensors | {"batch": tokens.numpy().astype(numpy.uint8)})
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump({"beta1": 0.9, "loss": losses[0], "losses": losses}, f, indent=1)
        f.write("\n")
    print(losses[0], losses[-1])


if __name__ == "__main__":
    golden(nf4)
    golden(int8)
