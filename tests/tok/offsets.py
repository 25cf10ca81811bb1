"""Masks of tokens by transformers, and by mgc tok: offsets.py [N].

With the tokenizers of golden/ (byte-level with merges; NFC; Llama 2's normalizer and byte fallback) and a
template with `generation` blocks, N (2000) random conversations get the same tokens and the same weights
as apply_chat_template(return_assistant_tokens_mask=True) gives. offsets.py --golden writes golden/masks.json, 24 of
them, for tests/e2e/test_chat.py. Needs transformers.
"""

import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import chat  # noqa: E402

MGC = os.path.join(os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build")), "mgc")
TEMPLATE = ("{% for m in messages %}{{ '<s>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
            "{% else %}{{ m.content }}{% endif %}{{ '</s>\n' if loop.index is odd else ' ' }}{% endfor %}")
PARTS = ["é", "e\u0301", "\u1100\u1161\u11a8", "ｶﾞ", "ﬁ", "한", "word", " ", "  ", "\n", "東京", "🙂", "'s", "12345", "\u0301", "q\u0323\u0307", "<|endoftext|>", "\t"]


def text(r):
    return "".join(r.choice(PARTS) for _ in range(r.randrange(0, 12))) if r.random() < 0.6 else chat.text(r)


def golden():
    from transformers import PreTrainedTokenizerFast
    r = random.Random(8)
    talks = [[{"role": x, "content": text(r) or "empty"} for _ in range(r.randrange(1, 3)) for x in ("user", "assistant")] for _ in range(24)]
    out = {"template": TEMPLATE, "talks": talks, "of": {}}
    for name in ("gpt2", "llama3", "llama2"):
        t = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, "golden", name + ".json"))
        t.chat_template = TEMPLATE
        all_of = [t.apply_chat_template(m, tokenize=True, return_dict=True, return_assistant_tokens_mask=True) for m in talks]
        out["of"][name] = [[list(x["input_ids"]), list(x["assistant_masks"])] for x in all_of]
    with open(os.path.join(HERE, "golden/masks.json"), "w", encoding="ascii") as f:
        json.dump(out, f)
        f.write("\n")


def main():
    from transformers import PreTrainedTokenizerFast
    if sys.argv[1:] == ["--golden"]:
        golden()
        return
    r, n = random.Random(3), int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    # An answer of nothing has no token; transformers gives it the one at its place.
    talks = [[{"role": x, "content": text(r) or "empty"} for _ in range(r.randrange(1, 4)) for x in ("user", "assistant")] for _ in range(n)]
    for name in ("gpt2", "llama3", "llama2"):
        path = os.path.join(HERE, "golden", name + ".json")
        with tempfile.TemporaryDirectory() as d:
            with open(path, encoding="utf-8") as f:
                spec = json.load(f)
            if name == "llama3":  # and what changes length: compatibility
                spec["normalizer"] = {"type": "NFKC"}
            with open(f"{d}/tokenizer.json", "w", encoding="utf-8") as f:
                json.dump(spec, f)
            with open(f"{d}/chat_template.jinja", "w", encoding="utf-8") as f:
                f.write(TEMPLATE)
            with open(f"{d}/a.jsonl", "w", encoding="utf-8") as f:
                f.writelines(json.dumps({"messages": m}) + "\n" for m in talks)
            subprocess.run([MGC, "tok", "--tokenizer", f"{d}/tokenizer.json", "-o", f"{d}/o", f"{d}/a.jsonl"], check=True, capture_output=True)
            with open(f"{d}/o.idx", "rb") as f:
                index = f.read()
            (k,) = struct.unpack_from("<Q", index, 18)
            lengths = array.array("i", index[34:34 + 4 * k])
            with open(f"{d}/o.bin", "rb") as f:
                ids = array.array("H", f.read())
            with open(f"{d}/o.bin.weights", "rb") as f:
                weights = f.read()
            t = PreTrainedTokenizerFast(tokenizer_file=f"{d}/tokenizer.json")
            t.chat_template = TEMPLATE
            at = tokens = differ = masks = 0
            for m, length in zip(talks, lengths, strict=True):
                x = t.apply_chat_template(m, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
                mine = list(ids[at:at + length]), list(weights[at:at + length])
                at += length
                tokens += length
                differ += mine[0] != x["input_ids"]
                masks += mine[0] == x["input_ids"] and mine[1] != x["assistant_masks"]
            print(f"| {name} | {n} conversations | {tokens} tokens | {differ} differ in tokens | {masks} in masks |", flush=True)


if __name__ == "__main__":
    main()
