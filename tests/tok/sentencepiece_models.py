"""Models of SentencePiece of the kinds that mgc tok reads: sentencepiece_models.py TEXT writes golden/sentencepiece.json.gz.

sentencepiece_models.py TEXT --compare N encodes N texts of many scripts with each, by the package sentencepiece and by
mgc tok, and prints how many differ. The texts are those of kinds.py. Needs the packages sentencepiece and tokenizers.
"""

import base64
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import kinds
import sentencepiece

HERE = os.path.dirname(os.path.abspath(__file__))
USER = ["<mask>", "New York", "\u2581\u2581", "\n\n", "<sep>", "12"]
ROWS = [("Ａ", "A"), ("ﬁ", "fi"), ("\u3000", " "), ("\t", " "), ("\u200b", ""), ("a\u0301", "á"), ("½", "1⁄2"), ("½x", "h"), ("ｶ", "カ"), ("\x07", "")]
WHAT = {
    "llama": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
              "split_digits": True, "allow_whitespace_only_pieces": True},
    "gemma": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
              "add_dummy_prefix": False, "user_defined_symbols": USER, "allow_whitespace_only_pieces": True},
    "bpe": {"model_type": "bpe", "normalization_rule_tsv": "rows.tsv", "user_defined_symbols": USER[:3], "control_symbols": ["<pad>"]},
    "across": {"model_type": "bpe", "split_by_whitespace": False, "normalization_rule_name": "identity"},
    "unigram": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_tsv": "rows.tsv", "user_defined_symbols": USER,
              "remove_extra_whitespaces": False},
    "suffix": {"model_type": "unigram", "treat_whitespace_as_suffix": True, "normalization_rule_name": "identity"},
    "plain": {"model_type": "unigram", "add_dummy_prefix": False, "split_by_whitespace": False, "normalization_rule_tsv": "rows.tsv",
              "unk_surface": "?"},
}
REFUSED = {k: {"model_type": k, "normalization_rule_name": "identity"} for k in ("word", "char")}


def train(options, sentences, size):
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=made, minloglevel=2, num_threads=1, hard_vocab_limit=False,
        **({} if options["model_type"] == "char" else {"vocab_size": size}), character_coverage=0.98, **options)
    return made.getvalue()


def models(texts, size, small):
    """With a small map of characters instead of SentencePiece's own, which is a quarter of a megabyte."""
    lines = [line for t in texts for line in t.splitlines() if 0 < len(line) < 2000]
    with open("rows.tsv", "w", encoding="utf-8") as f:
        f.write("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in ROWS))
    own = {"unigram": {"model_type": "unigram", "normalization_rule_tsv": "rows.tsv"}} if small else {}
    return {name: train(o, lines, size) for name, o in {**WHAT, **REFUSED, **own}.items()}


def some_texts(texts, n, seed):
    r = random.Random(seed)
    words = " ".join(texts[:400]).split()
    extra = USER + ["  ", "   ", "½x½", "\u2581", "New  York"]
    return ["".join(kinds.random_text(r, words) + (r.choice(extra) if r.random() < 0.4 else "") for _ in range(r.randrange(1, 3))) for _ in range(n)]


def encode(model, texts):
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [sp.encode(t) for t in texts], sp


def compare(made, texts):
    with open("texts.jsonl", "w", encoding="utf-8") as f:
        f.write("".join(json.dumps({"text": t}) + "\n" for t in texts))
    for name in WHAT:
        with open(name + ".model", "wb") as f:
            f.write(made[name])
        began = time.process_time()
        theirs, _ = encode(made[name], texts)
        took = time.process_time() - began
        subprocess.run([kinds.MGC, "tok", "--tokenizer", name + ".model", "-o", name, "texts.jsonl"], check=True, stdout=subprocess.DEVNULL)
        mine = kinds.read_ids(name)
        differ = [i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
        print(f"{name}: {sum(map(len, theirs))} tokens, {len(differ)} of {len(texts)} texts differ ({took:.1f} s of sentencepiece)",
              *(f"{texts[i]!r}: {mine[i]} and {theirs[i]}" for i in differ[:2]), sep="\n    ", flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        text = f.read()
    texts = [text[i:i + 300] for i in range(0, min(len(text), 300_000), 300)]
    with open(HERE + "/golden/texts.jsonl", encoding="utf-8") as f:
        texts += [json.loads(line)["text"] for line in f]
    os.chdir(tempfile.mkdtemp())
    if "--compare" in sys.argv:
        compare(models(texts, 2000, False), some_texts(texts, int(sys.argv[-1]), 1))
        return
    made, few = models(texts, 480, True), some_texts(texts, 40, 2)
    golden = {"texts": few, "refused": {k: base64.b64encode(made[k]).decode() for k in REFUSED}, "kinds": {}}
    for name in WHAT:
        ids, sp = encode(made[name], few)
        golden["kinds"][name] = {"model": base64.b64encode(made[name]).decode(), "ids": ids, "decoded": [sp.decode(x) for x in ids]}
    with gzip.GzipFile(HERE + "/golden/sentencepiece.json.gz", "wb", mtime=0) as f:
        f.write(json.dumps(golden, ensure_ascii=False).encode())


if __name__ == "__main__":
    main()
