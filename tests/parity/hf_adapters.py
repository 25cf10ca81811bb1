"""An adapter there and back, by hand: mgc tune of a small model of transformers, trained a few steps; PEFT loads the
checkpoint beside the base, transformers the merged export, and both have the logits of the program.

    python3 hf_adapters.py        needs torch, transformers and peft
"""

import json
import os
import subprocess
import sys
import tempfile

import torch
from peft import AutoPeftModelForSequenceClassification, LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, AutoModelForSequenceClassification, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Phi3Config,
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


def check_head():
    """A classifier: the head beside the adapter is in the files as PEFT's modules_to_save. The next step's loss is that of PEFT's model."""
    folder = tempfile.mkdtemp(prefix="mgc-hf-")
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(os.path.join(folder, "base"))
    tokens, labels = torch.randint(3, 256, (4, 24)), torch.tensor([2, 0, 1, 2])
    for i, n in enumerate((24, 9, 17, 20)):
        tokens[i, n:] = 0
    save_file({"tokens": tokens.to(torch.uint8), "target": labels[:, None].to(torch.uint8)}, os.path.join(folder, "rows.safetensors"))
    run(folder, MGC, "tune", "base", "--objective", "classify,labels=3,pad=0", "--lora", "rank=4,alpha=8", "-o", "train", "-D", "seq=24", "-D", "batch=4")
    run(folder, "./train", "--init", "base", "--new", "score.weight", "--without", "lm_head.weight", "--data", "rows.safetensors", "--steps", 20,
        "--lr", 3e-2, "--out", "run", "--export", "merged")
    run(folder, "./train", "--resume", "--data", "rows.safetensors", "--steps", 21, "--out", "run", "--keep", 0)
    with open(os.path.join(folder, "run/metrics.jsonl"), encoding="utf-8") as f:
        losses = [line["loss"] for line in map(json.loads, f) if "loss" in line]
    last = os.path.join(folder, "run/ckpt/step-00000020")

    def loss(model):
        model.config.pad_token_id = 0
        with torch.no_grad():
            return float(model.eval()(input_ids=tokens, attention_mask=(tokens != 0).long(), labels=labels).loss)

    base = AutoModelForSequenceClassification.from_pretrained(os.path.join(folder, "base"), num_labels=3, dtype=torch.float32)
    theirs = loss(PeftModel.from_pretrained(base, last))
    auto = loss(AutoPeftModelForSequenceClassification.from_pretrained(last, num_labels=3))
    merged = loss(AutoModelForSequenceClassification.from_pretrained(os.path.join(folder, "merged"), dtype=torch.float32))
    print(f"classify: losses {losses[0]:.4f} to {losses[20]:.7f}; PEFT {theirs:.7f}, by its automatic class {auto:.7f}, merged {merged:.7f}")
    return max(abs(x - losses[20]) for x in (theirs, auto, merged)) < 1e-5 and losses[20] < losses[0] / 2


if __name__ == "__main__":
    torch.manual_seed(5)
    good = [check_head()]
    good += [check("llama", LlamaForCausalLM(LlamaConfig(**SIZES)), kind) for kind in ("lora", "dora")]
    good.append(check("qwen2", Qwen2ForCausalLM(Qwen2Config(**SIZES)), "lora"))
    phi = Phi3ForCausalLM(Phi3Config(**SIZES, pad_token_id=0))
    good += [check("phi3", phi, kind, ("qkv_proj", "gate_up_proj")) for kind in ("lora", "dora")]
    gpt = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=64, n_embd=64, n_layer=2, n_head=4, n_inner=64))
    good += [check("gpt2", gpt, kind, ("c_attn", "c_proj", "c_fc")) for kind in ("lora", "dora")]
    sys.exit(0 if all(good) else 1)
