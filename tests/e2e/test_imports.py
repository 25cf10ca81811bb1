"""Settings of other programs: mgc import-yaml of LLaMA-Factory's files and mgc import-ds of DeepSpeed's. Files in the form of the
documented examples are imported, and their commands run on a small model; every key has a line; what is unknown, of another type, or
has no counterpart is said with its place; what is no YAML at all harms nothing."""

import json
import math
import os
import random
import re
import shutil
import subprocess

import mgctest
from mgctest import FULL, SOURCE, some

BYTES = os.path.join(SOURCE, "examples/finetune/bytes")
COMMON = {"model_name_or_path": "hub", "template": "llama3", "dataset": "talks", "cutoff_len": 64, "output_dir": "saves",
          "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2, "learning_rate": "1.0e-4", "do_train": "true",
          "logging_steps": 1, "save_steps": 2, "plot_loss": "true", "overwrite_output_dir": "true", "report_to": "none"}
LORA = {"stage": "sft", "finetuning_type": "lora", "lora_rank": 8, "lora_target": "all"}
SHORT = {"max_steps": 3}
PAIRS = {"dataset": "pairs"}

# Cases by name: keys, ranks, and what model.mg or run.sh have.
CASES = {
    "lora_sft": ({**LORA, "num_train_epochs": 0.2, "lr_scheduler_type": "cosine", "warmup_ratio": 0.1, "bf16": "true",
                  "ddp_timeout": 180000000, "val_size": 0.1, "eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 1,
                  "preprocessing_num_workers": 16, "dataloader_num_workers": 4, "resume_from_checkpoint": "null"}, 1,
                 ["adapter   lora(rank = 8, alpha = 16) on", "cosine(peak = 0.0001", "precision bf16", "clip      1", "--val-fraction 0.1"]),
    "full_z3": ({**SHORT, "stage": "sft", "finetuning_type": "full", "deepspeed": "ds_z3.json", "learning_rate": "1.0e-5", "bf16": "true"}, 2,
                ["state, grads, params -> dp", "dim vocab = 256, seq = 64, batch = 4", "precision bf16"]),
    "pretrain": ({**SHORT, "stage": "pt", "finetuning_type": "full", "dataset": "pages", "template": None, "weight_decay": 0.1}, 1,
                 ["decay = 0.1 where rank >= 2", "--json-key 'body'"]),
    "pretrain_apart": ({**SHORT, "stage": "pt", "finetuning_type": "lora", "packing": "false", "dataset": "pages", "template": None}, 1,
                       ["document_start"]),
    "freeze": ({**SHORT, "stage": "sft", "finetuning_type": "freeze", "freeze_trainable_layers": 1, "freeze_trainable_modules": "mlp",
                "freeze_extra_modules": "[lm_head]"}, 1, ['frozen    where "model.layers.{0-2}.mlp.up_proj.weight"', "select(l < 3, x, x)"]),
    "freeze_first": ({**SHORT, "stage": "sft", "finetuning_type": "freeze", "freeze_trainable_layers": -2}, 1,
                     ['frozen    where "model.layers.{2-3}.mlp.up_proj.weight"', 'frozen    where "lm_head.weight"']),
    "dora_plus": ({**LORA, **SHORT, "use_dora": "true", "loraplus_lr_ratio": 16.0, "lora_alpha": 32, "lora_dropout": 0.05,
                   "lora_target": "q_proj,v_proj", "lr_scheduler_type": "constant_with_warmup", "warmup_steps": 1}, 1,
                  ["adapter   dora(rank = 8, alpha = 32, dropout = 0.05, ratio = 16) on \"*.q_proj.weight\", \"*.v_proj.weight\"",
                   "constant(peak"]),
    "rslora_8bit": ({**LORA, **SHORT, "use_rslora": "true", "optim": "adamw_8bit", "fp16": "true", "train_on_prompt": "true"}, 1,
                    ["rank_stabilized = 1", "state = dynamic8", "precision f16(scale = 65536", "--train-on all"]),
    "full_pure": ({**SHORT, "stage": "sft", "finetuning_type": "full", "pure_bf16": "true", "mask_history": "true", "lr_scheduler_type": "cosine_with_min_lr",
                   "lr_scheduler_kwargs": "{min_lr: 1.0e-5}", "fsdp": "full_shard auto_wrap"}, 2,
                  ["master = bf16", "state = bf16", "--train-on last", "floor = 1e-05", "state, grads, params -> dp"]),
    "mixed": ({**LORA, **SHORT, "dataset": "talks,tasks", "mix_strategy": "interleave_under", "interleave_probs": "0.7,0.3", "max_samples": None}, 1,
              ['0.7:"$here"/talks.bin', '0.3:"$here"/tasks.bin', "--format alpaca"]),
    "epochs": ({**LORA, "num_train_epochs": 0.3, "val_size": 20, "eval_strategy": "epoch", "save_strategy": "epoch", "early_stopping_steps": 3,
                "load_best_model_at_end": "true", "metric_for_best_model": "eval_loss", "dataset": "shared"}, 1,
               ["--patience 3", "--format sharegpt", '--save-every "$epoch"']),
    "held": ({**LORA, **SHORT, "eval_dataset": "tasks", "eval_strategy": "steps", "eval_steps": 0.5, "max_samples": 50, "neat_packing": "true",
              "packing": "true", "train_from_scratch": "true"}, 1, ['--val "$here"/tasks_held.bin', "head -n 50"]),
    "beside": ({**LORA, **SHORT, "additional_target": "lm_head,model.norm", "weight_decay": 0.01}, 1,
               ['adapter   whole() on "lm_head.weight"', 'decay     0 where "model.norm.weight"', "decay = 0.01)"]),
    "lion": ({**SHORT, "stage": "sft", "finetuning_type": "full", "optim": "lion_32bit", "deepspeed": "ds_z2.json", "tf32": "true",
              "disable_gradient_checkpointing": "true"}, 2, ["lion(betas", "state, grads -> dp", "recompute  none"]),
    "dpo": ({**LORA, **SHORT, **PAIRS, "stage": "dpo", "pref_beta": 0.1, "pref_loss": "sigmoid", "dpo_label_smoothing": 0.1, "val_size": 0.1, "eval_strategy": "steps",
             "eval_steps": 2}, 1, ["const beta = 0.1, smoothing = 0.1", "adapter   lora(rank = 8", 'chosen=0:"$here"/pairs.chosen.bin']),
    "dpo_full": ({**PAIRS, "stage": "dpo", "finetuning_type": "full", "num_train_epochs": 0.2, "dataset": "pairs,talked", "ref_model": "hub", "warmup_ratio": 0.1,
                  "pref_ftx": 0.0}, 2, ["follows policy by 1", "const beta = 0.1", "--data chosen=0:\"$here\"/talked.chosen.bin"]),
    "ipo": ({**LORA, **SHORT, **PAIRS, "stage": "dpo", "pref_loss": "ipo", "pref_beta": 0.2, "val_size": 20, "eval_strategy": "steps", "eval_steps": 2}, 1,
            ["const beta = 0.2", "rows in"]),
    "orpo": ({**LORA, **SHORT, **PAIRS, "stage": "dpo", "pref_loss": "orpo"}, 1, ["const beta = 0.1", "model llama_orpo"]),
    "simpo": ({**LORA, **SHORT, **PAIRS, "stage": "dpo", "pref_loss": "simpo", "simpo_gamma": 0.7}, 1, ["const beta = 0.1, gamma = 0.7"]),
    "kto": ({**LORA, **SHORT, "stage": "kto", "dataset": "marked", "kto_chosen_weight": 1.5, "kto_rejected_weight": 0.5, "pref_beta": 0.1}, 2,
            ["good_weight = 1.5, bad_weight = 0.5", "microbatch 2", 'good=u8:"$here"/marked.labels']),
    "rm": ({**LORA, **SHORT, **PAIRS, "stage": "rm", "eval_dataset": "talked", "eval_strategy": "steps", "eval_steps": 2}, 1,
           ['adapter   whole() on "score.weight"', "--init 'hub' --new 'score.weight'", "--without 'lm_head.weight'", '--val chosen=0:"$here"/talked_held.chosen.bin']),
    "rm_full": ({**SHORT, **PAIRS, "stage": "rm", "finetuning_type": "full", "deepspeed": "ds_z3.json", "bf16": "true"}, 2, ["state, grads, params -> dp"]),
    "qlora": ({**LORA, **SHORT, "model_name_or_path": "even", "quantization_bit": 4, "quantization_method": "bnb", "double_quantization": "true",
               "quantization_type": "nf4"}, 1, ["lora(rank = 8, alpha = 16, base = nf4) on"]),
    "lora_8bit": ({**LORA, **SHORT, "quantization_bit": 8, "quantization_method": "bnb"}, 1, ["lora(rank = 8, alpha = 16, base = int8) on"]),
    "qlora_dpo": ({**LORA, **SHORT, **PAIRS, "stage": "dpo", "model_name_or_path": "even", "quantization_bit": 4}, 1, ["base = nf4) on", "const beta = 0.1"]),
}
FIRST = {"dpo": math.log(2), "dpo_full": math.log(2), "qlora_dpo": math.log(2), "ipo": 1 / 0.2 ** 2 / 4}  # losses where policy and reference are the same
INFO = {
    "pairs": {"file_name": "pairs.jsonl", "ranking": True, "columns": {"prompt": "instruction", "query": "input", "chosen": "chosen", "rejected": "rejected"}},
    "talked": {"file_name": "talked.jsonl", "ranking": True, "formatting": "sharegpt", "columns": {"messages": "conversations", "chosen": "chosen", "rejected": "rejected"}},
    "marked": {"file_name": "marked.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages", "kto_tag": "label"},
               "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
    "talks": {"file_name": "talks.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"},
              "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}},
    "shared": {"file_name": "shared.json", "formatting": "sharegpt"},
    "tasks": {"file_name": "tasks.jsonl"},
    "pages": {"file_name": "pages.jsonl", "columns": {"prompt": "body"}},
    "far": {"hf_hub_url": "someone/something"},
    "renamed": {"file_name": "tasks.jsonl", "columns": {"prompt": "question", "response": "output"}},
    "seen": {"file_name": "tasks.jsonl", "columns": {"images": "pictures"}},
}
Z3 = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
      "zero_allow_untested_optimizer": True, "bf16": {"enabled": "auto"},
      "fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000, "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
      "zero_optimization": {"stage": 3, "overlap_comm": False, "contiguous_gradients": True, "sub_group_size": 1e9, "reduce_bucket_size": "auto",
                            "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto",
                            "stage3_gather_16bit_weights_on_model_save": True, "offload_optimizer": {"device": "cpu", "pin_memory": True}}}


class Imports(mgctest.Case):
    def setUp(self):
        super().setUp()
        shutil.copytree(BYTES, self.path("hub"))
        os.mkdir(self.path("data"))
        self.write("data/dataset_info.json", json.dumps(INFO))
        words = ["sky", "grass", "sea", "milk", "night"]
        talks = [[{"role": "user", "content": f"What of the {w}, {i}?"}, {"role": "assistant", "content": f"It is {w}ish."}]
                 for i in range(30) for w in words]
        self.write("data/talks.jsonl", "".join(json.dumps({"messages": t}) + "\n" for t in talks))
        names = {"user": "human", "assistant": "gpt"}
        self.write("data/shared.json", json.dumps([{"conversations": [{"from": names[m["role"]], "value": m["content"]} for m in t]} for t in talks]))
        self.write("data/tasks.jsonl", "".join(json.dumps({"instruction": t[0]["content"], "input": "", "output": t[1]["content"]}) + "\n" for t in talks))
        self.write("data/pages.jsonl", "".join(json.dumps({"body": " ".join(m["content"] for m in t) * 3}) + "\n" for t in talks))
        self.write("data/pairs.jsonl", "".join(json.dumps({"instruction": t[0]["content"], "input": "", "chosen": t[1]["content"], "rejected": "No."}) + "\n" for t in talks))
        said = lambda text: {"from": "gpt", "value": text}  # noqa: E731
        self.write("data/talked.jsonl", "".join(json.dumps({"conversations": [{"from": "human", "value": t[0]["content"]}], "chosen": said(t[1]["content"]),
                                                            "rejected": said("Never.")}) + "\n" for t in talks))
        self.write("data/marked.jsonl", "".join(json.dumps({"messages": t, "label": i % 2 == 0}) + "\n" for i, t in enumerate(talks)))
        self.write("ds_z3.json", json.dumps(Z3, indent=2))
        self.write("ds_z2.json", json.dumps({**Z3, "zero_optimization": {"stage": 2}}))

    def weights(self):
        self.compiles("import-hf", "hub", "-o", "hub.mg")
        self.compiles("hub.mg", "-o", "hub.out")
        self.trains("./hub.out", "--export", "hub2")
        shutil.copy(self.path("hub2/model.safetensors"), self.path("hub/model.safetensors"))

    def even(self):
        """A model whose rows have whole blocks of NF4."""
        shutil.copytree(self.path("hub"), self.path("even"))
        config = json.loads(self.read("hub/config.json"))
        self.write("even/config.json", json.dumps({**config, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}))
        os.remove(self.path("even/model.safetensors"))
        self.compiles("import-hf", "even", "-o", "even.mg")
        self.compiles("even.mg", "-o", "even.out")
        self.trains("./even.out", "--export", "even2")
        shutil.copy(self.path("even2/model.safetensors"), self.path("even/model.safetensors"))

    def yaml(self, name, keys):
        keys = {k: v for k, v in keys.items() if v is not None}
        self.write(f"{name}.yaml", f"### {name}\n" + "".join(f"{k}: {v}\n" for k, v in keys.items()))
        return keys

    def test_examples(self):
        """Each is imported, its commands run for some steps, and all its keys have a line with their place."""
        self.weights()
        self.even()
        for name in some(CASES, 6):
            keys, ranks, has = CASES[name]
            keys = self.yaml(name, {**COMMON, **keys, "output_dir": f"saves/{name}"})
            with self.subTest(name=name):
                r = self.mgc("import-yaml", f"{name}.yaml", f"--ranks={ranks}")
                self.assertEqual(r.returncode, 0, r.err)
                lines = {m[2]: int(m[1]) for m in (re.match(rf"{name}\.yaml:(\d+):1: (\S+): .+ (->|- n)", line) for line in r.out.splitlines()) if m}
                for at, key in enumerate(keys):
                    if key != "lr_scheduler_kwargs":
                        self.assertEqual(lines.get(key), at + 2, key)
                self.assertEqual(self.read(f"{name}/report.txt").decode(), r.out)
                text = self.read(f"{name}/model.mg").decode() + self.read(f"{name}/run.sh").decode()
                for part in has:
                    self.assertIn(part, text)
                run = subprocess.run(["sh", f"{name}/run.sh", "--threads", "1"], cwd=self.dir, env={**os.environ, "MGC": mgctest.MGC},
                                     capture_output=True, text=True, timeout=300)
                self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
                folders = os.listdir(self.path(f"saves/{name}/ckpt"))
                steps = 3 if "max_steps" in keys else max(int(f[5:]) for f in folders)
                self.assertIn(f"step-{steps:08d}", folders)
                self.assertGreaterEqual(steps, 2)
                losses = [x["loss"] for x in self.metrics(f"saves/{name}") if "loss" in x]
                if name in FIRST:
                    self.assertAlmostEqual(losses[0], FIRST[name], places=4)
                elif name == "kto":  # half the mean weight of four answers, as they are drawn
                    self.assertIn(round(losses[0], 4), (0.25, 0.375, 0.5, 0.625, 0.75))
                self.assertEqual(len(losses), steps)

    def test_rates(self):
        """The rates of the run are the schedule's that the file says."""
        self.weights()
        self.yaml("rates", {**COMMON, **LORA, "max_steps": 6, "lr_scheduler_type": "linear", "warmup_steps": 2, "learning_rate": "1e-3", "max_grad_norm": 0.5})
        self.assertEqual(self.mgc("import-yaml", "rates.yaml").returncode, 0)
        subprocess.run(["sh", "rates/run.sh"], cwd=self.dir, env={**os.environ, "MGC": mgctest.MGC}, check=True, capture_output=True, timeout=300)
        rates = [line["lr"] for line in self.metrics("saves") if "lr" in line]
        for got, want in zip(rates, [0.5, 1, 1, 0.75, 0.5, 0.25], strict=True):
            self.assertAlmostEqual(got, want * 1e-3, places=9)

    def refused(self, keys, says, name="bad", code=1, words=()):
        self.yaml(name, {**COMMON, **LORA, **SHORT, **keys})
        r = self.mgc("import-yaml", f"{name}.yaml", *words)
        self.assertEqual(r.returncode, code, r.err + r.out)
        self.assertIn(says, r.err)
        self.assertEqual(os.path.exists(self.path(f"{name}/run.sh")), code == 0)
        return r

    def test_refused(self):
        """With file, line and caret, and nothing is written."""
        r = self.refused({"lora_rnak": 8}, "no key that mgc knows: 'lora_rnak'")
        self.assertIn("did you mean 'lora_rank'?", r.err)
        self.assertRegex(r.err, r"bad\.yaml:\d+:1: error\[MG0616\][^\n]*\n +\d+ \| lora_rnak: 8\n +\| \^~~~~~~~~\n")
        self.refused({"lora_rank": "eight"}, "'lora_rank' is a whole number, and this is not")
        self.refused({"bf16": '"true"'}, "'bf16' is true or false, and this is not")
        self.refused({"learning_rate": "[1, 2]"}, "'learning_rate' is a number, and this is not")
        dpo = {"stage": "dpo", "dataset": "pairs"}
        self.refused({"stage": "ppo"}, "'stage' has no counterpart: proximal policy optimization")
        self.refused({**dpo, "pref_loss": "hinge"}, "'pref_loss' has no counterpart: the loss 'hinge': of those there are sigmoid, ipo, orpo and simpo")
        self.refused({**dpo, "pref_loss": "dpop"}, "'dpop' is no loss: sigmoid, hinge, ipo, kto_pair, orpo or simpo")
        self.refused({**dpo, "pref_loss": "ipo", "dpo_label_smoothing": 0.1}, "smoothing is for pref_loss sigmoid, and this is ipo")
        self.refused({**dpo, "pref_ftx": 0.1}, "'pref_ftx' has no counterpart: the loss of the chosen answers")
        self.refused({**dpo, "pref_bco_weight": 1}, "'pref_bco_weight' has no counterpart")
        self.refused({**dpo, "ld_alpha": 0.5}, "'ld_alpha' has no counterpart")
        self.refused({**dpo, "ref_model": "data"}, "'ref_model' has no counterpart: a reference that is another model")
        self.refused({**dpo, "ref_model": "hub", "ref_model_adapters": "x"}, "'ref_model_adapters' has no counterpart")
        self.refused({**dpo, "ref_model": "hub", "ref_model_quantization_bit": 4}, "'ref_model_quantization_bit' has no counterpart")
        self.refused({**dpo, "dataset": "talks"}, "no pairs (ranking: true) at a stage that reads pairs")
        self.refused({"dataset": "pairs"}, "'ranking' has no counterpart: pairs at a stage that does not read them")
        self.refused({**dpo, "dataset": "pairs,talked", "mix_strategy": "interleave_under", "interleave_probs": "0.5,0.5"}, "shares of rows that are read by name")
        self.refused({"quantization_bit": 3}, "'quantization_bit' has no counterpart: a base of 3 bits: 4 and 8 are built")
        self.refused({"quantization_bit": 4, "quantization_method": "hqq"}, "'quantization_method' has no counterpart: weights as 'hqq' has them")
        self.refused({"quantization_bit": 4, "quantization_type": "fp4"}, "'quantization_type' has no counterpart: numbers as 'fp4' has them")
        self.refused({"quantization_bit": 4, "double_quantization": "false"}, "'double_quantization' has no counterpart")
        self.refused({"quantization_bit": 8, "finetuning_type": "full"}, "a base in fewer bits is frozen: finetuning_type lora")
        self.refused({"neftune_noise_alpha": 5}, "'neftune_noise_alpha' has no counterpart")
        self.refused({"use_galore": "true"}, "'use_galore' has no counterpart")
        self.refused({"optim": "adamw_4bit"}, "'optim' has no counterpart")
        self.refused({"lr_scheduler_type": "reduce_lr_on_plateau"}, "'lr_scheduler_type' has no counterpart")
        self.refused({"label_smoothing_factor": 0.1}, "'label_smoothing_factor' has no counterpart")
        self.refused({"finetuning_type": "lorra"}, "'lorra' is no type")
        self.refused({"model_name_or_path": "meta-llama/Meta-Llama-3-8B-Instruct"}, "is no directory with a config.json")
        self.refused({"dataset": "nowhere"}, "'nowhere' is no dataset of data/dataset_info.json")
        self.refused({"dataset": "far"}, "lies elsewhere")
        self.refused({"dataset": "renamed"}, "jq -c '.instruction = .question'")
        self.refused({"dataset": "seen"}, "'columns.images' has no counterpart")
        self.refused({"deepspeed": "nowhere.json"}, "'nowhere.json' is no file")
        self.refused({"fp16": "true", "bf16": "true"}, "fp16 and bf16 are both said")
        self.refused({"additional_target": "heads"}, "'heads' names no module of the model")
        self.refused({"lora_target": "qproj"}, "this names no parameter of the model")
        self.refused({"per_device_train_batch_size": 0}, "a batch of 0 * 2 sequences")
        self.write("ds_z3.json", json.dumps({**Z3, "gradient_accumulation_steps": 4, "gradient_clipping": 0.3}))
        r = self.refused({"deepspeed": "ds_z3.json"}, "'gradient_accumulation_steps' is 4 here and 2 by the training arguments")
        self.assertIn("'gradient_clipping' is 0.3 here and 1 by the training arguments", r.err)

    def test_allowed(self):
        """What has no counterpart is then a warning, and the commands are there; words stand in place of the file's."""
        r = self.refused({"neftune_noise_alpha": 5}, "warning[MG0617]", code=0, words=("--allow-missing", "lora_rank=4", "lora_alpha=9"))
        self.assertIn("command line:1:1: lora_rank: 4 ->", r.out)
        self.assertIn("lora(rank = 4, alpha = 9)", self.read("bad/model.mg").decode())

    def test_merge(self):
        """A file of an export is a merge; an adapter of a run goes on, or into the base."""
        self.weights()
        self.yaml("first", {**COMMON, **LORA, **SHORT, "output_dir": "saves/first"})
        self.assertEqual(self.mgc("import-yaml", "first.yaml").returncode, 0)
        run = lambda name: subprocess.run(["sh", f"{name}/run.sh"], cwd=self.dir, env={**os.environ, "MGC": mgctest.MGC},  # noqa: E731
                                          check=True, capture_output=True, timeout=300)
        run("first")
        adapter = "saves/first/ckpt/step-00000003"
        self.write("export.yaml", f"model_name_or_path: hub\nadapter_name_or_path: {adapter}\ntemplate: llama3\ntrust_remote_code: true\n"
                                  "export_dir: merged\nexport_size: 5\nexport_device: cpu\nexport_legacy_format: false\n")
        r = self.mgc("import-yaml", "export.yaml", "quantization_bit=4")
        self.assertIn("a merge is into the weights as they are", r.err)
        r = self.mgc("import-yaml", "export.yaml")
        self.assertEqual(r.returncode, 0, r.err)
        run("export")
        self.trains("./first/train", "--init", "hub", "--adapter", adapter, "--export", "exported")
        self.assertEqual(self.numbers("merged/model.safetensors"), self.numbers("exported/model.safetensors"))
        for anew in ("true", "false"):
            self.yaml("again", {**COMMON, **LORA, **SHORT, "adapter_name_or_path": adapter, "create_new_adapter": anew, "output_dir": "saves/again"})
            self.assertEqual(self.mgc("import-yaml", "again.yaml").returncode, 0)
            run("again")
            shutil.rmtree(self.path("again"))

    def numbers(self, path):
        data = self.read(path)
        n = int.from_bytes(data[:8], "little")
        return {k: (t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]])
                for k, t in json.loads(data[8:8 + n]).items() if k != "__metadata__"}

    def test_hostile(self):
        """Whatever the file is, mgc ends with an error of its own."""
        good = self.yaml("good", {**COMMON, **LORA, **SHORT}) and self.read("good.yaml")
        files = [b"", b"\t", b"a:\n\tb: 1\n", b"a: 1\na: 2\n", b"x: &a [1]\ny: *a\n", b"--- 1\n--- 2\n", b"- 1\n- 2\n", b"\xff\xfe a", b"a: !!python/object:os.system x\n",
                 b"{" * 5000, b"[" * 5000, b"a: " + b"[" * 200 + b"]" * 200, b"stage: sft\n" * 3, b"? [a]\n: b\n", b"a: \"\\0\"\n", b"stage: {a: b}\n",
                 b"dataset: [[a]]\n", b"lora_rank: 99999999999999999999999\n", b"cutoff_len: -5\n", "stage: 日本\n".encode(), b"x" * (2 << 20), b"a: |\n  b\n c\n",
                 b"<<: {stage: sft}\n", b"num_train_epochs: nan\n", b"learning_rate: 1e999\n", good.replace(b"hub", b"/dev/null"), good.replace(b"talks", b"/dev/zero")]
        draw = random.Random(mgctest.TURN)
        for _ in range(300 if FULL else 40):
            data = bytearray(good)
            for _ in range(draw.randrange(1, 6)):
                at = draw.randrange(len(data))
                data[at:at + draw.randrange(4)] = bytes(draw.choice(b"\x00\t\n :-[]{}\"'&*!|>%@`#,0e9\xc3\xa9") for _ in range(draw.randrange(4)))
            files.append(bytes(data))
        for data in files:
            self.write("hostile.yaml", data)
            r = self.mgc("import-yaml", "hostile.yaml", "-o", "hostile")
            with self.subTest(data=data[:200]):
                self.assertIn(r.returncode, (0, 1, 2))
                self.assertTrue(r.returncode == 0 or "error" in r.err)
            self.write("hostile.json", data)
            r = self.mgc("import-ds", "hostile.json")
            with self.subTest(json=data[:200]):
                self.assertIn(r.returncode, (0, 1, 2))

    def test_deepspeed(self):
        """Layouts that plan; sizes that do not agree, with both numbers; levels that the device has or not."""
        r = self.mgc("import-ds", "ds_z3.json", "--ranks=8", "--device", "h100", "-o", "layout.mg")
        self.assertEqual(r.returncode, 0, r.err)
        self.assertIn("ds_z3.json:28:7: zero_optimization.offload_optimizer.device: cpu -> offload state, masters -> host", r.out)
        self.write("tiny.mg", mgctest.TINY)
        self.compiles("tiny.mg", "--layout", "./layout.mg", "-D", "batch=64", "--check")
        for change, ranks, says in (({"stage": 0}, 4, "mesh   dp = 4"), ({"stage": 1}, 4, "state -> dp"), ({"stage": 2}, 4, "state, grads -> dp"),
                                    ({"stage": 3, "zero_hpz_partition_size": 2}, 4, "params       -> near"),
                                    ({"stage": 3, "mics_shard_size": 2}, 4, "state, grads, params -> near")):
            self.write("z.json", json.dumps({"zero_optimization": change, "train_batch_size": 16, "gradient_accumulation_steps": 2}))
            r = self.mgc("import-ds", "z.json", f"--ranks={ranks}", "-o", "z.mg")
            self.assertEqual(r.returncode, 0, r.err)
            self.assertIn(says, self.read("z.mg").decode())
            self.compiles("tiny.mg", "--layout", "./z.mg", "-D", "batch=16", "--check")
        for config, says in (({"train_batch_size": 30, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2},
                              "train_batch_size is 30, and 4 a microbatch * 2 microbatches * 1 ranks is 8"),
                             ({"zero_optimization": {"stage": 4}}, "stage 4: there are 0, 1, 2 and 3"),
                             ({"zero_optimization": {"stag": 2}}, "did you mean 'zero_optimization.stage'?"),
                             ({"zero_optimization": {"stage": 2, "offload_param": {"device": "nvme"}}}, "offload_param needs stage 3"),
                             ({"optimizer": {"type": "OneBitAdam"}}, "'optimizer.type' has no counterpart"),
                             ({"zero_optimization": {"stage": 3, "zero_quantized_gradients": True}}, "'zero_optimization.zero_quantized_gradients' has no counterpart"),
                             ({"curriculum_learning": {"enabled": True}}, "'curriculum_learning' has no counterpart")):
            self.write("bad.json", json.dumps(config))
            r = self.mgc("import-ds", "bad.json")
            self.assertEqual(r.returncode, 1, r.out)
            self.assertIn(says, r.err)

    def test_deepspeed_training(self):
        """Its optimizer, schedule and scale of the loss."""
        self.write("o.json", json.dumps({
            "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 0.5,
            "fp16": {"enabled": True, "initial_scale_power": 12, "loss_scale_window": 500, "hysteresis": 3},
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}},
            "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 200, "warmup_num_steps": 20, "warmup_type": "linear", "cos_min_ratio": 0.01}}}))
        r = self.mgc("import-ds", "o.json")
        self.assertEqual(r.returncode, 0, r.err)
        for part in ("optimizer adamw(betas = (0.9, 0.95), eps = 1e-08, decay = 0.1)", "warmup_cosine(peak = 0.0003", "floor = 3e-06, log = 0)", "clip      0.5",
                     "precision f16(scale = 4096, least = 1, window = 500, hysteresis = 3)", "-D batch=2", "--steps 200", "const steps = 200, warmup = 20"):
            self.assertIn(part, r.out)


if __name__ == "__main__":
    mgctest.main()
