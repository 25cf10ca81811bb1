"""Golden files of objectives, from TRL's trainers: generate.py [CASE...]. Needs torch, transformers, peft, trl and datasets; run by hand.

A golden file has the rows of the one batch that all steps train on, as the trainer collates them, the loss and of each gradient its norm
and its product with random signs, both of the trainer's own `compute_loss` in float64, and the losses of STEPS steps that the trainer does.
"""

import json
import os
import random
import sys
import tempfile

import cases
import datasets
import peft
import tiny
import torch
import transformers as hf
import trl
from tokenizers import Tokenizer, models, pre_tokenizers
from trl.experimental import cpo, orpo

HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = "reference."


def all_in_float64():
    """What is computed in float32 whatever a model's type is is float64, too."""
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)


def in_float32():
    torch.float32 = torch.float = F32
    torch.Tensor.float = FLOAT
    torch.set_default_dtype(F32)


datasets.fingerprint.Hasher.hash = staticmethod(lambda _: f"{random.getrandbits(64):016x}")  # nothing is kept, so nothing has to be found again
F32, FLOAT = torch.float32, torch.Tensor.float


def tokenizer():
    words = {w: i for i, w in enumerate(["<pad>", "<bos>", "<eos>"] + [f"w{i}" for i in range(3, cases.CONFIG["vocab_size"])])}
    t = Tokenizer(models.WordLevel(words, unk_token="<pad>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<pad>")


def pairs(seed, prompt):
    draw = random.Random(seed)

    def words(low, high):
        return " ".join(f"w{draw.randrange(3, cases.CONFIG['vocab_size'])}" for _ in range(draw.randrange(low, high)))

    return [{"prompt": words(*prompt) + " " if prompt[1] > 1 else "", "chosen": words(2, 8), "rejected": words(2, 8)} for _ in range(cases.BATCH)]


def parameters(prefix=""):
    """A model whose weights follow from its names, behind the prefix."""
    model = hf.AutoModelForCausalLM.from_config(hf.LlamaConfig(**{k: v for k, v in cases.CONFIG.items() if k != "model_type"}))
    return fill(model, prefix)


def classifier(labels):
    config = hf.LlamaConfig(**{k: v for k, v in cases.CONFIG.items() if k != "model_type"}, num_labels=labels)
    return fill(hf.AutoModelForSequenceClassification.from_config(config))


def fill(model, prefix=""):
    for n, p in model.named_parameters():
        base = 1 if p.ndim < 2 else 0
        p.data = torch.tensor(list(tiny.weights(prefix + n, list(p.shape), base)), dtype=F32).view(p.shape)
    return model


def settings(folder, kind, **more):
    return kind(output_dir=f"{folder}/run", per_device_train_batch_size=cases.BATCH, learning_rate=cases.RATE, lr_scheduler_type="constant",
                max_steps=cases.STEPS, logging_steps=1, save_strategy="no", report_to=[], optim="adamw_torch", adam_beta2=0.95, adam_epsilon=1e-8,
                weight_decay=0.0, max_grad_norm=1.0, use_cpu=True, bf16=False, gradient_checkpointing=False, disable_tqdm=True,
                dataloader_pin_memory=False, **more)


def options(name):
    return {k: float(v) for k, v in (x.split("=") for x in cases.CASES[name].split(",")[1:]) if v != "stored"}


def plain(name, kind, o):
    """Rows of a classifier, or of a student beside its teacher's logits."""
    draw, vocab, rows = random.Random(name), cases.CONFIG["vocab_size"], []
    for _ in range(cases.BATCH):
        n = draw.randrange(4, 11)
        row = {"input_ids": [draw.randrange(3, vocab) for _ in range(n)] + [0] * (10 - n)}
        row["attention_mask"] = [1] * n + [0] * (10 - n)
        if kind == "classify":
            row["labels"] = draw.randrange(int(o["labels"]))
        else:
            row["mask"] = [0, 0] + [1] * (n - 2) + [2] * (10 - n)
            row["teacher"] = [[draw.randrange(-40, 41) / 16 for _ in range(vocab)] for _ in range(9)]
            row["share"], row["temperature"] = o["share"], o["temperature"]
        rows.append(row)
    return rows


def collated(rows):
    return {k: torch.tensor([r[k] for r in rows]) for k in rows[0]}


class Plain(hf.Trainer):
    """transformers' own loss of a classifier; of a student the mean of both losses over the targets with the mark 1."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        if "labels" in inputs:
            return model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=inputs["labels"]).loss
        logits, f = model(input_ids=inputs["input_ids"]).logits[:, :-1], torch.nn.functional
        learnt, share, t = inputs["mask"][:, 1:] == 1, float(cases.CASES["distill"].split("share=")[1]), float(inputs["temperature"][0])
        own, aim = f.log_softmax(logits[learnt] / t, -1), f.log_softmax(inputs["teacher"].to(logits.dtype)[learnt] / t, -1)
        apart = f.kl_div(own, aim, log_target=True, reduction="batchmean") * t * t
        return share * apart + (1 - share) * f.cross_entropy(logits[learnt], inputs["input_ids"][:, 1:][learnt])


def trainer_of(name, folder, model, reference):
    o, lora = options(name), name.endswith("_lora")
    kind = cases.CASES[name].split(",")[0]
    rows = pairs(name, (1, 1) if kind == "orpo" else (1, 5))
    data = datasets.Dataset.from_list(rows)
    head = {"task_type": "SEQ_CLS", "modules_to_save": list(cases.HEAD)} if kind in ("reward", "classify") else {"task_type": "CAUSAL_LM"}
    adapter = peft.LoraConfig(r=cases.RANK, lora_alpha=cases.ALPHA, target_modules=list(cases.ADAPTED), **head) if lora else None
    common = {"train_dataset": data, "processing_class": tokenizer(), "peft_config": adapter}
    if kind in ("dpo", "ipo"):
        args = settings(folder, trl.DPOConfig, beta=o["beta"], loss_type=["sigmoid" if kind == "dpo" else "ipo"])
        return trl.DPOTrainer(model=model, ref_model=None if lora else reference, args=args, **common)
    if kind == "kto":
        draw = random.Random(name)
        flat = [{"prompt": r["prompt"], "completion": r[k], "label": k == "chosen"} for r in rows for k in [draw.choice(("chosen", "rejected"))]]
        flat[0]["label"], flat[1]["label"] = True, False
        common["train_dataset"] = datasets.Dataset.from_list(flat)
        args = settings(folder, trl.KTOConfig, beta=o["beta"], desirable_weight=o.get("good_weight", 1.0), undesirable_weight=o.get("bad_weight", 1.0))
        return trl.KTOTrainer(model=model, ref_model=None if lora else reference, args=args, **common)
    if kind == "simpo":
        args = settings(folder, cpo.CPOConfig, beta=o["beta"], loss_type="simpo", simpo_gamma=o["gamma"], cpo_alpha=0.0,
                        label_smoothing=o.get("smoothing", 0.0), max_length=24)
        return cpo.CPOTrainer(model=model, args=args, **common)
    if kind == "reward":
        args = settings(folder, trl.RewardConfig, center_rewards_coefficient=o.get("center"))
        return trl.RewardTrainer(model=model, args=args, **common)
    if kind in ("classify", "distill"):
        return Plain(model=peft.get_peft_model(model, adapter) if lora else model, args=settings(folder, hf.TrainingArguments, remove_unused_columns=False),
                     train_dataset=datasets.Dataset.from_list(plain(name, kind, o)), data_collator=collated)
    args = settings(folder, orpo.ORPOConfig, beta=o["beta"], max_length=24)
    return orpo.ORPOTrainer(model=model, args=args, **common)


def rows_of(batch):
    if "labels" in batch and "attention_mask" in batch:
        return {"tokens": batch["input_ids"].tolist(), "target": [[int(x)] for x in batch["labels"]]}
    if "teacher" in batch:
        return {k: batch[v].tolist() for k, v in (("tokens", "input_ids"), ("mask", "mask"), ("teacher", "teacher"))}
    if "chosen_input_ids" not in batch and "completion_mask" not in batch and "KL_input_ids" not in batch:  # of rewards
        marks = torch.where(batch["attention_mask"] == 1, 1, 2)
        (a, b), (c, d) = batch["input_ids"].chunk(2), marks.chunk(2)
        return {"chosen": a.tolist(), "chosen_mask": c.tolist(), "rejected": b.tolist(), "rejected_mask": d.tolist()}
    if "KL_input_ids" in batch:
        marks = {k: torch.where(batch[a + "attention_mask"] == 1, batch[a + "completion_mask"], 2) for k, a in (("mask", ""), ("other_mask", "KL_"))}
        return {"tokens": batch["input_ids"].tolist(), "other": batch["KL_input_ids"].tolist(), "good": [[int(x)] for x in batch["label"]],
                **{k: v.tolist() for k, v in marks.items()}}
    if "completion_mask" in batch:
        marks = torch.where(batch["attention_mask"] == 1, batch["completion_mask"], 2)
        (a, b), (c, d) = batch["input_ids"].chunk(2), marks.chunk(2)
        return {"chosen": a.tolist(), "chosen_mask": c.tolist(), "rejected": b.tolist(), "rejected_mask": d.tolist()}
    rows = {}
    for k in ("chosen", "rejected"):
        real, learnt = batch[k + "_attention_mask"] == 1, batch[k + "_labels"] != -100
        rows[k], rows[k + "_mask"] = batch[k + "_input_ids"].tolist(), torch.where(real, learnt.long(), 2).tolist()
    return rows


def stored_reference(model, batch):
    """Log probabilities of the chosen and the rejected answer of each pair."""
    with torch.no_grad():
        each = torch.nn.functional.log_softmax(model(batch["input_ids"]).logits[:, :-1], -1)
    each = each.gather(-1, batch["input_ids"][:, 1:, None])[..., 0]
    both = (each * (batch["completion_mask"][:, 1:] == 1)).sum(-1).chunk(2)
    return torch.stack(both, 1).tolist()


def file_name(n):
    """Of a parameter of PEFT's model: as adapters' files have it, where `modules_to_save` are as they are in the model."""
    return n.replace(".modules_to_save.default", "").replace(".default", "")


def gradients(model):
    found = {}
    for n, p in model.named_parameters():
        if p.grad is not None:
            n, g = file_name(n), p.grad.double().flatten()
            found[n] = [float(g.norm()), float((g * torch.tensor(tiny.signs(n, len(g)), dtype=torch.float64)).sum())]
    return found


def golden(name):
    with tempfile.TemporaryDirectory() as folder:
        kind, reference = cases.CASES[name].split(",")[0], parameters(REFERENCE)
        model = classifier(3 if kind == "classify" else 1) if kind in ("classify", "reward") else parameters()
        trainer = trainer_of(name, folder, model, reference)
        if name.endswith("_lora"):
            for n, p in trainer.model.named_parameters():
                if "lora_" in n or ".modules_to_save." in n:
                    short = file_name(n)
                    p.data = torch.tensor(list(tiny.weights(short, list(p.shape), 0)), dtype=F32).view(p.shape)
        begun = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
        batch = next(iter(trainer.get_train_dataloader()))
        rows = rows_of(batch)
        trainer.train()
        losses = [x["loss"] for x in trainer.state.log_history if "loss" in x]
        for n, p in trainer.model.named_parameters():
            p.data = begun[n].double()
            p.grad = None
        if getattr(trainer, "ref_model", None) is not None:
            trainer.ref_model.double()
        trainer.model.eval()
        all_in_float64()
        try:
            for m in [*trainer.model.modules(), *(trainer.ref_model.modules() if getattr(trainer, "ref_model", None) is not None else ())]:
                if hasattr(m, "inv_freq"):
                    d = m.inv_freq.numel() * 2
                    m.inv_freq = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.float64) / d))
            if "reference=stored" in cases.CASES[name]:
                rows["reference"] = stored_reference(trainer.ref_model, batch)
            loss = trainer.compute_loss(trainer.model, batch)
            loss.backward()
            shapes = {file_name(n): [list(p.shape), 1 if p.ndim < 2 else 0] for n, p in trainer.model.named_parameters()
                      if ".original_module." not in n}
            out = {"rows": rows, "loss": float(loss), "gradients": gradients(trainer.model), "losses": losses, "shapes": shapes}
        finally:
            in_float32()
    with open(f"{HERE}/golden/{name}.json", "w", encoding="utf-8") as f:
        json.dump(out, f, separators=(",", ":"))
        f.write("\n")
    print(name, trainer.state.log_history[0].get("kl"), loss.dtype, float(loss), losses[:3], losses[-1], {k: len(v[0]) for k, v in rows.items()}, flush=True)


if __name__ == "__main__":
    os.makedirs(f"{HERE}/golden", exist_ok=True)
    for case in sys.argv[1:] or cases.CASES:
        golden(case)
