"""Golden files of objectives, from TRL's trainers: generate.py [CASE...]. Needs torch, transformers, peft, trl and datasets; run by hand.

A golden file has the rows of the one batch that all steps train on, as the trainer collates them, the loss and of each gradient its norm
and its product with random signs, both of the trainer's own `compute_loss` in float64, and the losses of STEPS steps that the trainer does.
"""

import contextlib
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
    return {k: float(v) for k, v in (x.split("=") for x in cases.CASES[name].split(",")[1:]) if v != "stored" and k not in ("loss", "kl")}


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


def grpo_rows(name, model, o):
    """Given answers: prompt, answer, advantage; and with several updates what the log probabilities were before, near what they are."""
    draw, vocab, rows = random.Random(name), cases.CONFIG["vocab_size"], []
    for k in range(cases.BATCH):
        prompt, answer = [draw.randrange(3, vocab) for _ in range(draw.randrange(2, 5))], [draw.randrange(3, vocab) for _ in range(draw.randrange(2, 8))]
        row = {"prompt": prompt, "answer": answer, "advantage": [-0.75, 1.25, 0.5, -1.5][k]}
        if o.get("updates", 1) > 1:
            with torch.no_grad():
                logits = model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1:-1] / o.get("temperature", 1.0)
                likely = torch.log_softmax(logits, -1).gather(-1, torch.tensor(answer)[:, None])[:, 0]
            row["old"] = [round(float(x) * 1024 + draw.randrange(-300, 301)) / 1024 for x in likely]
        rows.append(row)
    return rows


class Given:
    """A batch of GRPOTrainer, of given answers: prompts are padded on the left, answers on the right."""

    def __init__(self, name, model, reference):
        self.o, self.reference = options(name), reference
        self.rows = grpo_rows(name, model, self.o)

    def inputs(self, trainer):
        def padded(key, left):
            size = max(len(r[key]) for r in self.rows)
            fill = [(([0] * (size - len(r[key])), r[key])) for r in self.rows]
            ids = [a + b if left else b + a for a, b in fill]
            mask = [[0] * len(a) + [1] * len(b) if left else [1] * len(b) + [0] * len(a) for a, b in fill]
            return torch.tensor(ids), torch.tensor(mask)
        (prompts, prompt_mask), (answers, answer_mask) = padded("prompt", True), padded("answer", False)
        batch = {"prompt_ids": prompts, "prompt_mask": prompt_mask, "completion_ids": answers, "completion_mask": answer_mask,
                 "advantages": torch.tensor([r["advantage"] for r in self.rows]), "num_items_in_batch": answer_mask.sum()}
        if "old" in self.rows[0]:
            batch["old_per_token_logps"] = torch.tensor([r["old"] + [0.0] * (answers.size(1) - len(r["old"])) for r in self.rows])
        if trainer.beta:
            whole, mask = torch.cat([prompts, answers], 1), torch.cat([prompt_mask, answer_mask], 1)
            with torch.no_grad(), trainer.model.disable_adapter() if self.reference is None else contextlib.nullcontext():
                of = trainer.model if self.reference is None else self.reference
                logits = of(input_ids=whole, attention_mask=mask).logits[:, prompts.size(1) - 1:-1] / self.o.get("temperature", 1.0)
                batch["ref_per_token_logps"] = torch.log_softmax(logits, -1).gather(-1, answers[..., None])[..., 0]
        return batch

    def stored(self):
        """The inputs of mgc's program, one token shorter than rows are where they are of targets."""
        size = max(len(r["prompt"]) + len(r["answer"]) for r in self.rows)
        rows = {"tokens": [r["prompt"] + r["answer"] + [0] * (size - len(r["prompt"]) - len(r["answer"])) for r in self.rows],
                "mask": [[0] * len(r["prompt"]) + [1] * len(r["answer"]) + [2] * (size - len(r["prompt"]) - len(r["answer"])) for r in self.rows],
                "advantage": [[r["advantage"]] for r in self.rows]}
        if "old" in self.rows[0]:
            rows["old"] = [[0.0] * (len(r["prompt"]) - 1) + r["old"] + [0.0] * (size - len(r["prompt"]) - len(r["answer"])) for r in self.rows]
        return rows


def grpo_trainer(name, folder, model, adapter):
    """beta comes when it is made, since it would look for the reference's files."""
    o = options(name)
    kind = cases.CASES[name].split("loss=")[1].split(",")[0]
    args = settings(folder, trl.GRPOConfig, num_generations=2, max_completion_length=int(o["tokens"]), loss_type=kind, epsilon=o.get("clip", 0.2),
                    epsilon_high=o.get("clip_high", o.get("clip", 0.2)), temperature=o.get("temperature", 1.0), steps_per_generation=1,
                    use_bias_correction_kl="kl=plain" not in cases.CASES[name])
    data = datasets.Dataset.from_list([{"prompt": "w3 w4"}] * cases.BATCH)
    trainer = trl.GRPOTrainer(model=model, reward_funcs=lambda completions, **_: [0.0] * len(completions), args=args, train_dataset=data,
                              processing_class=tokenizer(), peft_config=adapter)
    trainer.beta = o.get("beta", 0.0)
    return trainer


def trainer_of(name, folder, model, reference):
    o, lora = options(name), name.endswith("_lora")
    kind = cases.CASES[name].split(",")[0]
    rows = pairs(name, (1, 1) if kind == "orpo" else (1, 5))
    data = datasets.Dataset.from_list(rows)
    head = {"task_type": "SEQ_CLS", "modules_to_save": list(cases.HEAD)} if kind in ("reward", "classify") else {"task_type": "CAUSAL_LM"}
    adapter = peft.LoraConfig(r=cases.RANK, lora_alpha=cases.ALPHA, target_modules=list(cases.ADAPTED), **head) if lora else None
    if kind == "grpo":
        return grpo_trainer(name, folder, model, adapter)
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
        if kind == "grpo":
            given = Given(name, trainer.model, None if name.endswith("_lora") else reference)
            batch, rows = given.inputs(trainer), given.stored()
            trainer._prepare_inputs = lambda _: batch
        else:
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
            for m in [*trainer.model.modules(), *reference.modules(), *(trainer.ref_model.modules() if getattr(trainer, "ref_model", None) is not None else ())]:
                if hasattr(m, "inv_freq"):
                    d = m.inv_freq.numel() * 2
                    m.inv_freq = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.float64) / d))
            if "reference=stored" in cases.CASES[name]:
                rows["reference"] = stored_reference(trainer.ref_model, batch)
            if kind == "grpo":
                reference.double()
                batch = {k: v.double() if v.is_floating_point() else v for k, v in given.inputs(trainer).items()}
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
