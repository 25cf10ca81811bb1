"""What transformers' generate() makes of a generation_config.json: golden/generation_config.json. Needs transformers; run by hand.

Of each file the settings that its logits go through, where the model's config is the only one: those of the file, and beneath them what
generate() takes where it says nothing. Without do_sample nothing is drawn, whatever else is said.
"""

import json
import os

import transformers

FILES = [
    {"eos_token_id": 2},  # says nothing of how tokens are chosen
    {"do_sample": True},
    {"do_sample": False},
    {"do_sample": None, "temperature": 0.5},
    {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95},  # Qwen 3
    {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05, "eos_token_id": [3, 2], "pad_token_id": 3},  # Qwen 2.5
    {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "max_length": 4096, "bos_token_id": 1, "eos_token_id": [2, 3]},  # Llama 3: of the 50 likeliest
    {"do_sample": True, "top_k": 0, "min_p": 0.05},
    {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0, "repetition_penalty": 1.0},
    {"temperature": 0.6, "top_p": 0.9},  # no do_sample: said, and not used
    {"do_sample": False, "temperature": 0.6, "repetition_penalty": 1.3},
    {"repetition_penalty": 1.2},
    {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2, "transformers_version": "4.51.0"},
]


def meaning(said):
    config = transformers.GenerationConfig(**said)
    config.update(**config._get_default_generation_params(), defaults_only=True)
    draws = bool(config.do_sample)
    return {"draws": draws, "temperature": config.temperature if draws else 0, "top_k": config.top_k if draws else 0, "top_p": config.top_p if draws else 1,
            "min_p": (config.min_p or 0) if draws else 0, "repetition_penalty": config.repetition_penalty}


if __name__ == "__main__":
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden/generation_config.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps({"file": x, "means": meaning(x)}) for x in FILES) + "\n]\n")
