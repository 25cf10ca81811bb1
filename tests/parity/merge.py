"""Golden numbers of PEFT's merge_and_unload, for mgc merge.

    python3 merge.py           writes golden/merge_NAME.{safetensors,json}

Needs torch, transformers and peft; the tests do not. The safetensors file has base.NAME, adapter.NAME and second.NAME as
save_pretrained writes them, and merged.NAME; the JSON file what adapter_config.json says. Several adapters are PEFT's
add_weighted_adapter, by concatenation.
"""

import json
import os
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from generate import HERE, write_safetensors

LLAMA = LlamaConfig(vocab_size=24, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
GPT2 = GPT2Config(vocab_size=24, n_positions=8, n_embd=12, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
CASES = {
    "lora": {"target_modules": ["q_proj", "v_proj", "down_proj"]},
    "stable": {"use_rslora": True, "rank_pattern": {"o_proj": 2}, "alpha_pattern": {r"layers\.1\..*o_proj": 3, "k_proj": 5},
               "target_modules": ["q_proj", "k_proj", "o_proj"]},
    "dora": {"use_dora": True, "target_modules": ["q_proj", "up_proj", "lm_head"]},
    "table": {"target_modules": ["embed_tokens", "q_proj"]},
    "whole": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "norm"]},
    "layers": {"target_modules": ["q_proj"], "layers_to_transform": [1]},
    "turned": {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True},
    "turned_dora": {"target_modules": ["c_attn"], "fan_in_fan_out": True, "use_dora": True},
    "weighted": {"target_modules": ["q_proj", "down_proj"]},
}
WEIGHTS = [0.7, 0.3]


def model(name):
    torch.manual_seed(5)
    return GPT2LMHeadModel(GPT2) if name.startswith("turned") else LlamaForCausalLM(LLAMA)


def shaken(m):
    with torch.no_grad():
        for p in m.parameters():
            if p.requires_grad:
                p.add_(0.1 * torch.randn_like(p))
    return m


def saved(m, folder):
    m.save_pretrained(folder)
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as f:
        config = json.load(f)
    return load_file(os.path.join(folder, "adapter_model.safetensors")), {k: v for k, v in config.items() if k != "base_model_name_or_path"}


def generate(name, settings, folder):
    config = {"r": 3, "lora_alpha": 5, **settings}
    model(name).save_pretrained(folder + "/base")
    numbers, said = {"base": load_file(folder + "/base/model.safetensors")}, {}
    numbers["adapter"], said["adapter"] = saved(shaken(get_peft_model(model(name), LoraConfig(**config))), folder + "/adapter")
    whole = PeftModel.from_pretrained(model(name), folder + "/adapter", adapter_name="first")
    if name == "weighted":
        other = {**config, "r": 2, "lora_alpha": 7, "target_modules": ["q_proj", "v_proj"]}
        numbers["second"], said["second"] = saved(shaken(get_peft_model(model(name), LoraConfig(**other))), folder + "/second")
        whole.load_adapter(folder + "/second", adapter_name="second")
        whole.add_weighted_adapter(["first", "second"], WEIGHTS, "both", combination_type="cat")
        whole.set_adapter("both")
        said["weights"] = WEIGHTS
    whole.merge_and_unload().save_pretrained(folder + "/merged")
    numbers["merged"] = load_file(folder + "/merged/model.safetensors")
    tensors = {f"{part}.{k}": v.numpy() for part, all_ in numbers.items() for k, v in all_.items()}
    path = os.path.join(HERE, "golden", f"merge_{name}")
    write_safetensors(path + ".safetensors", tensors)
    with open(path + ".json", "w", encoding="utf-8") as f:
        json.dump(said, f, indent=1, sort_keys=True)
        f.write("\n")
    print(name, len(numbers["adapter"]), "tensors")


if __name__ == "__main__":
    for case, given in CASES.items():
        with tempfile.TemporaryDirectory() as place:
            generate(case, given, place)
