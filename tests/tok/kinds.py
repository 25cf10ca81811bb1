"""Tokenizers of every kind that mgc tok reads beside tests/tok/generate.py's: kinds.py TEXT writes golden/kinds.json.

kinds.py TEXT --compare N encodes N texts of many scripts with each, by the package tokenizers and by mgc tok, and prints
how many differ. Texts have emoji, combining marks, characters without width, white space of every kind, controls, long
runs and random characters. Needs the packages tokenizers and (for SentencePiece's map) sentencepiece and protobuf.
"""

import array
import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
MGC = os.path.join(os.environ.get("MGC_BUILD", os.path.join(HERE, "../../build")), "mgc")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
ALPHABETS = ["abcdefghij klmnop QRSTUVWXYZ .,;:!?'\"()-", "äöüßéèêñçøåÆŒİıÀÉ ", "абвгдежз АБВГДЕ ёЁ ", "αβγδεζ ΑΒΓΣς ά ",
             "مرحبا العالم ١٢٣ ", "שלום עולם ", "नमस्ते दुनिया १२ ", "สวัสดีชาวโลก ", "你好世界，。「」 ", "こんにちは カタカナ ｶﾅ ",
             "안녕하세요 한국어 ", "0123456789 ½²³Ⅷ① ", "👍🏽👩‍👩‍👧🇩🇪🇫🇷❤️😀 ", "ﬁﬂ㎏㍿ＡＢＣ １２３ ™ ", "a\u0301e\u0308\u0327o\u0323\u0302 ",
             "\u200b\u200c\u200d\u2060\ufeff\u00ad ab", "\t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u3000 x",
             "".join(map(chr, range(1, 32))) + "\x7f\x8f\x9f ab", "\u1100\u1161\u11a8\uac00 ", "ก็ำ ไ ", "▁ _ ", "\u0600\u06dd1\u0903 \r\n"]


def random_text(r, words):
    out = []
    for _ in range(r.randrange(1, 9)):
        kind = r.random()
        if kind < 0.35:
            out.append(" ".join(r.choice(words) for _ in range(r.randrange(12))))
        elif kind < 0.8:
            a = r.choice(ALPHABETS)
            out.append("".join(r.choice(a) for _ in range(r.randrange(30))))
        elif kind < 0.87:
            out.append(r.choice(r.choice(ALPHABETS)) * r.choice((3, 20, 120)))
        elif kind < 0.93:
            c = [r.randrange(1, 0x30000) for _ in range(r.randrange(12))]
            out.append("".join(chr(x) for x in c if unicodedata.category(chr(x)) not in ("Cs", "Cn", "Co")))
        else:
            out.append(r.choice(["[MASK]", "<mask>", " <mask> ", "[CLS]", "</s>", "<s>", "``a''", "New York", "newyork", "Éa"]))
        if r.random() < 0.5:
            out.append(r.choice([" ", "  ", "\n", "\u3000"]))
    return "".join(out)


def charsmap(small):
    """SentencePiece's own map nmt_nfkc, or a few rows of one."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    rows = [("Ａ", "A"), ("Ｂ", "B"), ("１", "1"), ("ﬁ", "fi"), ("ﬂ", "fl"), ("㎏", "kg"), ("\u3000", " "), ("\t", " "), ("\n", " "),
            ("\u200b", ""), ("a\u0301", "á"), ("e\u0308", "ë"), ("™", "TM"), ("½", "1⁄2"), ("\x07", ""), ("ｶ", "カ"), ("\r\n", " ")]
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/r.tsv", "w", encoding="utf-8") as f:
            f.writelines(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rows)
        named = {"normalization_rule_tsv": d + "/r.tsv"} if small else {"normalization_rule_name": "nmt_nfkc"}
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["some words of no matter"] * 30), model_writer=out,
                                                 vocab_size=24, model_type="unigram", minloglevel=2, hard_vocab_limit=False, **named)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def unigram(texts, size, normalizer, pre, special, unk, add=(), fallback=False):
    t = Tokenizer(models.Unigram())
    t.normalizer, t.pre_tokenizer = normalizer, pre
    plain = [t for t in texts if max(map(ord, t), default=0) < 0x500]  # others are unknown
    t.train_from_iterator(plain, trainers.UnigramTrainer(vocab_size=size + 300 + len(add), show_progress=False, special_tokens=special + list(add),
                                                         unk_token=unk))
    if fallback:
        m = json.loads(t.to_str())
        m["model"]["byte_fallback"] = True
        t = Tokenizer.from_str(json.dumps(m))
    return t


def kinds(texts, size, small):
    """Of the shapes of BERT (two), T5, XLM-R, ALBERT, Gemma's fallback, CLIP, GPT-1, RoBERTa, and each part that is left."""
    s = normalizers.Sequence
    out = {}
    for name, lower in (("bert", True), ("bert_cased", False)):
        t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100 if lower else 12))
        t.normalizer = normalizers.BertNormalizer(lowercase=lower)
        t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, show_progress=False,
                                                               special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
        t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)) if lower else processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        t.add_tokens([AddedToken("New York", normalized=True), AddedToken("Éa", normalized=True, single_word=True)])
        out[name] = t
    smap = normalizers.Precompiled(charsmap(small))
    meta = pre_tokenizers.Metaspace
    out["t5"] = unigram(texts, size, smap, pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta()]),
                        ["<pad>", "</s>", "<unk>"], "<unk>")
    out["t5"].post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    out["xlmr"] = unigram(texts, size, s([smap, normalizers.Replace("  ", " ")]), meta(prepend_scheme="first"),
                          ["<s>", "<pad>", "</s>", "<unk>"], "<unk>")
    out["xlmr"].add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    out["xlmr"].post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    out["albert"] = unigram(texts, size, s([normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(),
                                            normalizers.StripAccents(), normalizers.Lowercase(), smap]),
                            pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), meta()]), ["<unk>", "[CLS]", "[SEP]"], "<unk>")
    out["fallback"] = unigram(texts, size, s([normalizers.Nmt(), normalizers.Strip(), normalizers.NFKC()]), meta(), ["<unk>"], "<unk>",
                              [f"<0x{b:02X}>" for b in range(256)], True)
    clip = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    clip.normalizer = s([normalizers.NFC(), normalizers.Lowercase()])
    clip.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    clip.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, end_of_word_suffix="</w>",
                                                        special_tokens=["<unk>", "<s>", "</s>"],
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    clip.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    out["clip"] = clip
    prefix = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True))
    prefix.pre_tokenizer = pre_tokenizers.Whitespace()
    prefix.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, show_progress=False, continuing_subword_prefix="##",
                                                          special_tokens=["<unk>"]))
    out["prefix"] = prefix
    for name, pre in (("punctuation", pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit(" "),
                                                               pre_tokenizers.Punctuation("contiguous"),
                                                               pre_tokenizers.Digits(individual_digits=True)])),
                      ("previous", pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\s"), "merged_with_previous"),
                                                            pre_tokenizers.Split("a", "merged_with_next"),
                                                            pre_tokenizers.Split(Regex(r"^.|.$|\*"), "isolated")])),
                      ("empty", pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.Digits(),
                                                         pre_tokenizers.Split(Regex("x*"), "isolated")]))):
        t = Tokenizer(models.WordLevel(unk_token="<unk>"))
        t.pre_tokenizer = pre
        if name == "previous":
            t.normalizer = s([normalizers.NFD(), normalizers.Strip(left=True, right=False), normalizers.Prepend("_")])
        t.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=3 * size, show_progress=False, special_tokens=["<unk>"]))
        t.add_tokens([AddedToken("the", single_word=True, normalized=True), AddedToken("<mask>", rstrip=True, special=True),
                      AddedToken("newyork", lstrip=True)])
        out[name] = t
    return out


def read_ids(name):
    """The ids of each document of NAME.bin."""
    with open(name + ".idx", "rb") as f:
        index = f.read()
    (n,) = struct.unpack_from("<Q", index, 18)
    with open(name + ".bin", "rb") as f:
        ids, at, out = array.array("H", f.read()), 0, []
    for k in array.array("i", index[34:34 + 4 * n]):
        out.append(list(ids[at:at + k]))
        at += k
    return out


def ids_of(spec, texts):
    with tempfile.TemporaryDirectory() as d:
        with open(d + "/t.json", "w", encoding="utf-8") as f:
            f.write(spec)
        with open(d + "/a.jsonl", "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"text": t}) + "\n" for t in texts)
        subprocess.run([MGC, "tok", "--tokenizer", d + "/t.json", "-o", d + "/o", d + "/a.jsonl"], check=True, stdout=subprocess.DEVNULL)
        return read_ids(d + "/o")


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        words = f.read()[:400_000].split()
    compare = "--compare" in sys.argv
    r = random.Random(5)
    train = [random_text(r, words) for _ in range(4000)]
    n = int(sys.argv[-1]) if compare else 60
    r = random.Random(6)
    texts = [random_text(r, words) for _ in range(n)]
    out = {"texts": texts, "kinds": {}}
    for name, t in kinds(train, 3000 if compare else 300, not compare).items():
        theirs = [e.ids for e in t.encode_batch(texts)]
        out["kinds"][name] = {"tokenizer": json.loads(t.to_str()), "ids": theirs}
        if not compare:
            continue
        mine = ids_of(t.to_str(), texts)
        bad = [i for i in range(n) if theirs[i] != mine[i]]
        print(f"| {name} | {n} texts | {sum(map(len, theirs))} tokens | {len(bad)} differ |", flush=True)
        for i in bad[:2] if "-v" in sys.argv else []:
            print(ascii(texts[i]), t.encode(texts[i]).tokens, [t.id_to_token(x) for x in mine[i]], sep="\n")
    if not compare:
        with gzip.GzipFile(os.path.join(HERE, "golden/kinds.json.gz"), "wb", mtime=0) as f:
            f.write(json.dumps(out).encode())


if __name__ == "__main__":
    main()
