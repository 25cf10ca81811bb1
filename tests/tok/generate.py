"""Golden tokens for mgc tok: generate.py TEXT writes golden/; generate.py TEXT --compare measures.

Needs the package tokenizers; the test (tests/e2e/test_tok.py) does not. Three kinds of tokenizer are
trained on TEXT and on mixed texts (code, Chinese, emoji, control and white space characters of every
kind): byte-level with GPT-2's pattern; byte-level with Llama 3's pattern, NFC, ignored merges and a
template; and byte fallback without any split, as Llama 2's. --compare encodes 8 MB of such texts with
both, and prints how many documents differ and how long each took.
"""

import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
MGC = os.path.join(os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build")), "mgc")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
ODD = [*range(1, 32), 0x7F, 0x85, 0xA0, 0x180E, 0x1680, 0x2028, 0x2029, 0x202F, 0x3000, 0xE9, 0x65, 0x301, 0x17F,
       0x2019, 0x27, 0x73, 0xFEFF, 0xFFFD, 0xAC00, 0x1100, 0x1161, 0x11A8, 0x660, 0xBD, 0x2160, 13, 10, 9, 32, 32, 49]
EMOJI = [*range(0x1F600, 0x1F650), *range(0x1F1E6, 0x1F200), 0x200D, 0xFE0F, 0x1F3FB, 32, 65]


def documents(text, code, n, seed):
    r = random.Random(seed)
    chinese = [chr(r.randrange(0x4E00, 0x9FA5)) for _ in range(300)]
    out = []
    for _ in range(n):
        kind = r.random()
        if kind < 0.5:
            at = r.randrange(len(text) - 700)
            d = text[at:at + r.randrange(700)]
        elif kind < 0.75:
            at = r.randrange(len(code) - 700)
            d = code[at:at + r.randrange(700)]
        elif kind < 0.87:
            d = "".join(r.choice(chinese) for _ in range(r.randrange(150)))
        elif kind < 0.93:
            d = "".join(chr(r.choice(EMOJI)) for _ in range(r.randrange(60)))
        else:
            d = "".join(chr(r.choice(ODD)) for _ in range(r.randrange(100)))
        if r.random() < 0.08:
            d += r.choice(["<|endoftext|>", " <|endoftext|>\n", "</s>", "<s> x"]) + d[:20]
        out.append(d)
    return out


def train(texts, size):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    gpt2 = Tokenizer(models.BPE())
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    gpt2.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"],
                                                        initial_alphabet=alphabet, show_progress=False))
    llama3 = Tokenizer(models.BPE(ignore_merges=True))
    llama3.normalizer = normalizers.NFC()
    llama3.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    llama3.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 1)])])
    llama3.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                                          special_tokens=["<|endoftext|>", "<|begin|>"],
                                                          initial_alphabet=alphabet))
    llama2 = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    llama2.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    plain = [t.replace("\n", " ") for t in texts if t.isascii()]
    llama2.train_from_iterator(plain, trainers.BpeTrainer(
        vocab_size=size + 256, show_progress=False, max_token_length=16,
        special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]))
    llama2.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return {"gpt2": gpt2, "llama3": llama3, "llama2": llama2}


def with_words(name):
    """A tokenizer of golden/ with added tokens that have to stand alone, and such that take space."""
    t = Tokenizer.from_file(os.path.join(HERE, "golden", name + ".json"))
    t.add_tokens([AddedToken("the", single_word=True), AddedToken("he", single_word=True, lstrip=True),
                  AddedToken("in", single_word=True, rstrip=True), AddedToken("if (", single_word=True, normalized=False),
                  AddedToken("é", single_word=True)])
    return t


def write_lines(path, texts):
    with open(path, "w", encoding="utf-8") as f:
        for i, t in enumerate(texts):
            f.write(json.dumps({"text": t}, ensure_ascii=i % 2 == 0) + "\n")


def compare(tokenizers, texts):
    size = sum(len(t.encode()) for t in texts)
    with tempfile.TemporaryDirectory() as folder:
        lines = os.path.join(folder, "texts.jsonl")
        write_lines(lines, texts)
        for name, t in tokenizers.items():
            t.save(os.path.join(folder, name + ".json"))
            times = []
            for k in range(5):
                begin = time.perf_counter()
                theirs = t.encode_batch(texts)
                middle = time.perf_counter()
                out = os.path.join(folder, f"{name}{k}")
                subprocess.run([MGC, "tok", "--tokenizer", f"{folder}/{name}.json", "-o", out, lines], check=True,
                               capture_output=True)
                times.append((middle - begin, time.perf_counter() - middle))
            with open(out + ".idx", "rb") as f:
                index = f.read()
            (n,) = struct.unpack_from("<Q", index, 18)
            lengths = array.array("i", index[34:34 + 4 * n])
            with open(out + ".bin", "rb") as f:
                ids = array.array("H", f.read())
            at = differ = 0
            for w, k in zip(theirs, lengths, strict=True):
                differ += list(ids[at:at + k]) != w.ids
                at += k
            ratio = sorted(a / b for a, b in times)[2]
            print(f"| {name} | {size / 1e6:.1f} MB, {len(texts)} documents | {at} | {differ} | "
                  f"{times[2][0]:.2f} s | {times[2][1]:.2f} s | {ratio:.2f} |", flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8", errors="replace") as f:
        text = f.read()
    code = ""
    for file in ("runtime/data/data.c", "grammar/mg.y", "tests/parity/check.py", "grammar/prelude.mg"):
        with open(os.path.join(HERE, "../..", file), encoding="utf-8") as f:
            code += f.read()
    if "--compare" in sys.argv:
        print("| kind | texts | tokens | documents that differ | tokenizers | mgc | times as fast |\n"
              "|---|---|---|---|---|---|---|")
        compare({**train(documents(text, code, 8000, 1), 4000), "words": with_words("gpt2"), "words, NFC": with_words("llama3")},
                documents(text, code, 24000, 2))
        return
    texts = documents(text, code, 160, 3)
    write_lines(os.path.join(HERE, "golden/texts.jsonl"), texts)
    for name, t in train(documents(text, code, 3000, 4), 700).items():
        t.save(os.path.join(HERE, f"golden/{name}.json"), pretty=False)
        with open(os.path.join(HERE, f"golden/{name}.ids"), "w", encoding="ascii") as f:
            for w in t.encode_batch(texts):
                f.write(" ".join(map(str, w.ids)) + "\n")


if __name__ == "__main__":
    main()
