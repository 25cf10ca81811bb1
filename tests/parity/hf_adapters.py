"""An adapter there and back, by hand: mgc tune of a small model of transformers, trained a few steps; PEFT loads the
checkpoint beside the base, transformers the merged export, and both have the logits of the program.

    python3 hf_adapters.py        needs torch, transformers and peft
"""

import os
import subprocess
import sys
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM)

from check import MGC, read_safetensors

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": False}
PROMPT = "the old man and the sea "


def run(folder, *argv):
    r = subprocess.run([str(a) for a in argv], cwd=folder, capture_output=True, check=False)
    if r.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: exit code {r.returncode}\n{r.stderr.decode()}")


def logits(model):
    tokens = torch.tensor([list(PROMPT.encode())])
    with torch.no_grad():
        return model(input_ids=tokens).logits[0, -1]


def mine(folder, out, *argv):
    run(folder, "./train", *argv, "--sample", 1, "--prompt", PROMPT, "--temperature", 0, "--logits", out)
    return torch.tensor(read_safetensors(os.path.join(folder, out))["logits"][2])


def check(name, model, kind, on=("q_proj", "v_proj", "down_proj")):
    folder = tempfile.mkdtemp(prefix="mgc-hf-")
    model.save_pretrained(os.path.join(folder, "base"))
    with open(os.path.join(folder, "book.txt"), "w", encoding="utf-8") as f:
        f.write(PROMPT * 300)
    run(folder, MGC, "tune", "base", f"--{kind}", "rank=4,alpha=8,dropout=0.1", "--on", ",".join(on), "-o", "train",
        "-D", "seq=64", "-D", "batch=4")
    run(folder, "./train", "--init", "base", "--data", "book.txt", "--steps", 20, "--lr", 1e-2, "--out", "run")
    last = os.path.join(folder, "run/ckpt/step-00000020")
    want = mine(folder, "a.safetensors", "--resume", "--out", "run")
    run(folder, "./train", "--resume", "--out", "run", "--export", "merged")
    base = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "base"), dtype=torch.float32)
    before = (logits(base) - want).abs().max()
    theirs = (logits(PeftModel.from_pretrained(base, last).eval()) - want).abs().max()
    merged = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "merged"), dtype=torch.float32)
    whole = (logits(merged) - want).abs().max()
    # and PEFT's own directory, whose B is not zero
    fresh = AutoModelForCausalLM.from_pretrained(os.path.join(folder, "base"), dtype=torch.float32)
    peft = get_peft_model(fresh, LoraConfig(r=4, lora_alpha=8, use_dora=kind == "dora", task_type="CAUSAL_LM",
                                            fan_in_fan_out=name == "gpt2", target_modules=list(on)))
    with torch.no_grad():
        for n, p in peft.named_parameters():
            if "lora_B" in n:
                p.normal_(std=0.1)
    peft.save_pretrained(os.path.join(folder, "theirs"))
    read = (logits(peft.eval()) - mine(folder, "b.safetensors", "--init", "base", "--adapter", "theirs")).abs().max()
    print(f"{name} {kind}: logits of PEFT off by {theirs:.1e}, of the merged model by {whole:.1e}, of PEFT's adapter by {read:.1e} "
          f"(training moved them by {before:.2f})")
    return max(theirs, whole, read) < 1e-4 and before > 0.1


if __name__ == "__main__":
    torch.manual_seed(5)
    good = [check("llama", LlamaForCausalLM(LlamaConfig(**SIZES)), kind) for kind in ("lora", "dora")]
    good.append(check("qwen2", Qwen2ForCausalLM(Qwen2Config(**SIZES)), "lora"))
    phi = Phi3ForCausalLM(Phi3Config(**SIZES, pad_token_id=0))
    good += [check("phi3", phi, kind, ("qkv_proj", "gate_up_proj")) for kind in ("lora", "dora")]
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, n_inner=64))
    good += [check("gpt2", gpt, kind, ("c_attn", "c_proj", "c_fc")) for kind in ("lora", "dora")]
    sys.exit(0 if all(good) else 1)
