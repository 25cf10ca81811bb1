"""PEFT beside transformers on the processor, a few steps at a time, for bench/lora.py.

    lora_worker.py make SHAPE DIR ON         a model of random weights, and an adapter (B = 0) of rank 16 in DIR/adapter
    lora_worker.py run DIR THREADS f32|bf16 DATA.json FORM

FORM of a step's sequences: `windows` (full), `padded` (a row for each document, as long as the longest) or `flat` (documents
one behind the other in one row, with positions that begin anew). It reads lines "MODE STEPS" and answers each with
a line of JSON: {"ms": [each step], "peak": bytes resident at most}. MODE is eager or compile; of bf16 also autocast and
compile-autocast: the base is in bf16 either way, as people load it. A line "losses LR LR ..." answers with the loss of a
step at each of these rates, of batches in the order of DATA.
"""

import json
import os
import sys
import time

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from torch_worker import forget_peak, resident

SHAPES = {
    "0.5b": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config, {
        "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
        "num_key_value_heads": 2, "rope_theta": 1e6, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "use_sliding_window": False}),
    "56m": (transformers.LlamaForCausalLM, transformers.LlamaConfig, {
        "vocab_size": 32000, "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "num_attention_heads": 8,
        "num_key_value_heads": 4, "rope_theta": 1e4, "rms_norm_eps": 1e-5, "tie_word_embeddings": False}),
}


def make(shape, folder, on):
    torch.manual_seed(0)
    model, config, sizes = SHAPES[shape]
    made = model(config(max_position_embeddings=4096, pad_token_id=0, bos_token_id=None, eos_token_id=None, **sizes))
    made.save_pretrained(folder)
    adapted = get_peft_model(made, LoraConfig(r=16, lora_alpha=32, task_type="CAUSAL_LM", target_modules=on.split(",")))
    adapted.save_pretrained(os.path.join(folder, "adapter"))


def padded(documents):
    """Rows of one document each: what is beyond its end is masked, and counts nothing."""
    longest = max(len(d["tokens"]) for d in documents) - 1
    rows = {"input_ids": [], "shift_labels": [], "attention_mask": []}
    for d in documents:
        n, t = len(d["tokens"]) - 1, d["tokens"]
        rows["input_ids"].append(t[:-1] + [0] * (longest - n))
        rows["shift_labels"].append(labels(d) + [-100] * (longest - n))
        rows["attention_mask"].append([1] * n + [0] * (longest - n))
    if all(all(r) for r in rows["attention_mask"]):
        del rows["attention_mask"]  # which lets attention be causal alone
    return {k: torch.tensor(v) for k, v in rows.items()}


def labels(d):
    return [t if learnt else -100 for t, learnt in zip(d["tokens"][1:], d["learnt"][1:], strict=True)]


def flat(documents):
    """As transformers' DataCollatorWithFlattening: attention finds documents by their positions."""
    return {"input_ids": torch.tensor([[t for d in documents for t in d["tokens"][:-1]]]),
            "shift_labels": torch.tensor([[t for d in documents for t in labels(d)]]),
            "position_ids": torch.tensor([[i for d in documents for i in range(len(d["tokens"]) - 1)]])}


class Trainer:
    def __init__(self, folder, dtype, batches, form):
        base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
        self.model = PeftModel.from_pretrained(base, os.path.join(folder, "adapter"), is_trainable=True)
        self.model.train()
        self.called = {False: self.model}
        self.trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=1e-6, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
        self.batches = [(flat if form == "flat" else padded)(b) for b in batches]
        self.at = 0
        self.warm = set()

    def step(self, compiled=False, autocast=False):
        if compiled and compiled not in self.called:
            self.called[compiled] = torch.compile(self.model)
        inputs = self.batches[self.at % len(self.batches)]
        self.at += 1
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = self.called[compiled](**inputs, labels=inputs["shift_labels"], use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item(), (time.perf_counter() - begin) * 1e3

    def timed(self, mode, n):
        how = {"compiled": "compile" in mode, "autocast": "autocast" in mode}
        for _ in range(1 if mode in self.warm else 2):
            self.step(**how)
        self.warm.add(mode)
        forget_peak()
        ms = [self.step(**how)[1] for _ in range(n)]
        return {"ms": ms, "peak": resident("VmHWM")}

    def losses(self, rates):
        found = []
        for lr in rates:
            for g in self.optimizer.param_groups:
                g["lr"] = lr
            found.append(self.step()[0])
        return {"losses": found}


def run(folder, threads, precision, data, form):
    torch.set_num_threads(int(threads))
    with open(data, encoding="utf-8") as f:
        batches = json.load(f)
    t = Trainer(folder, {"f32": torch.float32, "bf16": torch.bfloat16}[precision], batches, form)
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    print(json.dumps({"versions": versions, "trained": sum(p.numel() for p in t.trained)}), flush=True)
    for line in sys.stdin:
        mode, *rest = line.split()
        answer = t.losses(map(float, rest)) if mode == "losses" else t.timed(mode, int(rest[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    {"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])
