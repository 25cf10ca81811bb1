"""Texts of ids, by the package tokenizers: decode.py writes golden/decode.json.gz, of each kind of decoder.

decode.py --compare N decodes N sequences with each by the package and by the library of mgc (build/bin/tok_decode), and
says how many differ.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile

from tokenizers import Tokenizer, decoders

HERE = os.path.dirname(os.path.abspath(__file__))
DECODE = os.path.join(os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build")), "bin/tok_decode")


def llama():
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])


# Of each tokenizer the decoders that files of its kind have, and some that none has.
SEQUENCES = {
    "bytes": decoders.ByteLevel(), "llama": llama(), "gemma": decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
    "metaspace": decoders.Metaspace(), "never": decoders.Metaspace(prepend_scheme="never"), "words": decoders.WordPiece(),
    "unclean": decoders.WordPiece(prefix="", cleanup=False), "suffix": decoders.BPEDecoder(suffix="e"), "fallback": decoders.ByteFallback(),
    "fuse": decoders.Fuse(), "strip": decoders.Strip("a", 2, 0), "twice": decoders.Sequence([decoders.Fuse(), decoders.Replace("aa", "b"), decoders.Replace("ab", "")]),
    "ends": decoders.Sequence([decoders.Fuse(), decoders.Strip("e", 1, 2)]), "late": decoders.Sequence([decoders.ByteLevel(), decoders.WordPiece("t", True)]),
    "both": decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse(), decoders.ByteLevel()]), "none": None}


def tokenizers():
    with gzip.open(os.path.join(HERE, "golden/kinds.json.gz")) as f:
        golden = json.load(f)
    for name in ("gpt2", "llama2", "llama3"):
        with open(os.path.join(HERE, "golden", name + ".json"), encoding="utf-8") as f:
            yield name, json.load(f), golden["texts"]
    for name, kind in golden["kinds"].items():
        yield name, kind["tokenizer"], golden["texts"]


def sequences(r, t, texts, n):
    size = t.get_vocab_size()
    fallback = [i for x, i in t.get_vocab().items() if x.startswith("<0x")] or [0]
    for k in range(n):
        kind = k % 4
        if kind == 0:
            yield t.encode(r.choice(texts)).ids[:200]
        elif kind == 1:
            yield [r.randrange(size + 3) for _ in range(r.randrange(40))]
        elif kind == 2:
            yield [r.choice((r.choice(fallback), r.randrange(size))) for _ in range(r.randrange(30))]
        else:
            yield t.encode("".join(r.choice(["é", "世界", "👍🏽", " a", "aab", "ee", "don't .", "\u200b", "\n"]) for _ in range(r.randrange(20)))).ids


def cases(n, seed):
    """(tokenizer, decoder, its json, sequences, their texts)."""
    r = random.Random(seed)
    for name, made, texts in tokenizers():
        for decoder, of in SEQUENCES.items():
            t = Tokenizer.from_str(json.dumps(made))
            t.decoder = of
            ids = list(sequences(r, t, texts, n))
            said = []
            for s in ids:
                try:
                    said.append(t.decode(s))
                except BaseException:  # Strip of the package fails on a text shorter than what it strips
                    said.append(None)
            yield name, decoder, json.loads(t.to_str())["decoder"], made, [s for s, x in zip(ids, said) if x is not None], [x for x in said if x is not None]


def decoded(made, decoder, ids):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "t.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({**made, "decoder": decoder}, f)
        r = subprocess.run([DECODE, path], input="".join(json.dumps(s) + "\n" for s in ids), capture_output=True, text=True, check=True)
    return ["".join(json.loads(line)) for line in r.stdout.split("\n")[:-1]]


def main():
    if len(sys.argv) == 3:
        bad = all_ = 0
        for name, decoder, spec, made, ids, texts in cases(int(sys.argv[2]), 11):
            ours = decoded(made, spec, ids)
            wrong = [i for i, (a, b) in enumerate(zip(ours, texts, strict=True)) if a != b]
            all_ += len(ids)
            bad += len(wrong)
            for i in wrong[:1]:
                print(name, decoder, ids[i], repr(ours[i]), repr(texts[i]))
        print(f"{bad} of {all_} differ")
        return
    golden = [{"tokenizer": n, "name": d, "decoder": s, "ids": i, "texts": t} for n, d, s, _, i, t in cases(4, 5)]
    with open(os.path.join(HERE, "golden/decode.json.gz"), "wb") as f:
        f.write(gzip.compress(json.dumps(golden, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0))


main()
