"""Golden texts of families, from transformers' generate with its cache: generate_texts.py [FAMILY...]. Needs torch and transformers; run by hand.

The models are those of golden/, in float64. Of each of the prompts of texts.py: the likeliest tokens that follow, and of the last prompt
the logits that they are chosen by.
"""

import json
import os
import sys
import tempfile

import generate
import test_families as mgc
import texts
import tiny
import torch
import transformers as hf

LEAST = 2e-5  # between the two largest logits of each token: both programs see which one is larger


def generated(model, prompt, cached):
    """Tokens, logits."""
    out = model.generate(torch.tensor([prompt]), max_new_tokens=texts.TOKENS, do_sample=False, use_cache=cached, return_dict_in_generate=True,
                         output_logits=True, eos_token_id=None, pad_token_id=0)
    rows = torch.stack(out.logits)[:, 0].double()
    first, second = rows.topk(2).values.T
    if float((first - second).min()) < LEAST:
        raise RuntimeError(f"a token is as likely as another one: {float((first - second).min()):.1e}")
    tokens = out.sequences[0, len(prompt):].tolist()
    assert tokens == rows.argmax(-1).tolist() and len(tokens) == texts.TOKENS
    return tokens, rows.tolist()


def golden(case, cached):
    config, shapes = texts.longer(case)
    with tempfile.TemporaryDirectory() as folder, generate.all_in_float64():
        tiny.directory(f"{folder}/exact", config, shapes, "F64")
        model = hf.AutoModelForCausalLM.from_pretrained(f"{folder}/exact", dtype=torch.float64, **generate.PLAIN).eval()
        both = [generated(model, p, cached) for p in texts.prompts(config["vocab_size"])]
    rows = both[-1][1]
    return {"texts": [tokens for tokens, _ in both], "rows": [[round(x, 8) for x in rows[k]] for k in texts.WHOLE_ROWS],
            "signs": [[round(x, 8) for x in texts.projections(row)] for row in rows]}


def main():
    torch.set_num_threads(1)
    hf.logging.set_verbosity_error()
    hf.utils.logging.disable_progress_bar()
    for family in sys.argv[1:] or sorted(f[:-5] for f in os.listdir(os.path.join(mgc.HERE, "golden")) if f != "published.json"):
        with open(os.path.join(mgc.HERE, "golden", family + ".json"), encoding="utf-8") as f:
            cases = json.load(f)
        found = {}
        for name, case in cases.items():
            if (family, name) not in texts.BY_LENGTH | texts.REFUSED:
                print(family, name, flush=True)
                found[name] = golden(case, (family, name) not in texts.UNCACHED)
        with open(os.path.join(mgc.HERE, "golden_texts", family + ".json"), "w", encoding="utf-8") as f:
            f.write(json.dumps(found, separators=(",", ":")).replace("},", "},\n").replace("]],", "]],\n") + "\n")


if __name__ == "__main__":
    main()
