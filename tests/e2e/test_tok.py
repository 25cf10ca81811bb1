"""mgc tok against the golden tokens of Hugging Face's tokenizers (tests/tok/generate.py)."""

import array
import gzip
import json
import os
import random
import signal
import struct
import subprocess
import time

import mgctest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tok/golden")
TINY = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "<u>": 3}, "merges": ["a b"], "unk_token": "<u>"}}


@mgctest.in_turns_of(2)
class Tok(mgctest.Case):
    def tok(self, tokenizer, *files, out="out", code=0, options=()):
        r = self.mgc("tok", "--tokenizer", tokenizer, "-o", out, *options, *files)
        self.assertEqual(r.returncode, code, r.err)
        return r

    def tokens(self, out="out"):
        """The ids of each document."""
        index = self.read(out + ".idx")
        self.assertEqual(index[:17], b"MMIDIDX\0\0" + struct.pack("<Q", 1))
        n, ends = struct.unpack_from("<QQ", index, 18)
        self.assertEqual((index[17], ends), (8, n + 1))
        lengths = array.array("i", index[34:34 + 4 * n])
        ids, at, documents = array.array("H", self.read(out + ".bin")), 0, []
        self.assertEqual(len(ids), sum(lengths))
        for k in lengths:
            documents.append(list(ids[at:at + k]))
            at += k
        return documents

    def golden(self, name):
        with open(os.path.join(GOLDEN, name + ".ids"), encoding="ascii") as f:
            return [[int(x) for x in line.split()] for line in f]

    def test_golden(self):
        for name in ("gpt2", "llama3", "llama2"):
            with self.subTest(name):
                self.tok(os.path.join(GOLDEN, name + ".json"), os.path.join(GOLDEN, "texts.jsonl"), out=name)
                self.assertEqual(self.tokens(name), self.golden(name))
                self.assertEqual(sorted(f for f in os.listdir(self.dir) if f.startswith(name)),
                                 [name + ".bin", name + ".idx"])

    def test_golden_kinds(self):
        """Of each kind of model, normalizer, pre-tokenizer and post-processor (tests/tok/kinds.py)."""
        with gzip.open(os.path.join(GOLDEN, "kinds.json.gz")) as f:
            golden = json.load(f)
        self.write("texts.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in golden["texts"]))
        for name, kind in golden["kinds"].items():
            with self.subTest(name):
                self.write("t.json", json.dumps(kind["tokenizer"]))
                self.tok("t.json", "texts.jsonl", out=name)
                self.assertEqual(self.tokens(name), kind["ids"])

    def test_long_texts(self):
        """A long text is encoded by all cores at once: the ids are those of one core, of texts that leave no good place to cut."""
        r = random.Random(7)
        with gzip.open(os.path.join(GOLDEN, "kinds.json.gz")) as f:
            golden = json.load(f)
        with open(os.path.join(GOLDEN, "texts.jsonl"), encoding="utf-8") as f:
            some = [json.loads(line)["text"] for line in f]
        every = some + golden["texts"]
        self.write("a.txt", "".join(r.choice(every) for _ in range(1500)))
        self.write("b.txt", "a" * 200_000 + " " * 200_000 + "1" * 99_999 + "\r\n" * 50_000 + "x")
        self.write("c.txt", "".join(r.choice((" ", "\n", "'s", "12345", "e\u0301", "\u4e16", "  a", "it's")) for _ in range(250_000)))
        self.write("d.txt", "".join(r.choice(some) * r.choice((1, 1, 90)) for _ in range(150)))
        self.write("e.txt", "".join(r.choice((" a b", "\u2581", "\u2581\u2581x", "\n\n", "\u4e16\u754c", "\U0001f600", " the", "qz ", "\u0e01")) for _ in range(120_000)))
        files = "a.txt", "b.txt", "c.txt", "d.txt", "e.txt"
        kinds = [os.path.join(GOLDEN, x + ".json") for x in ("gpt2", "llama2", "llama3")]
        for name, kind in golden["kinds"].items():
            self.write(name + ".json", json.dumps(kind["tokenizer"]))
            kinds.append(name + ".json")
        one = sorted(os.sched_getaffinity(0))[:1]
        for kind in kinds:
            with self.subTest(kind):
                self.tok(kind, *files, out="all")
                subprocess.run([mgctest.MGC, "tok", "--tokenizer", kind, "-o", "one", *files], cwd=self.dir, check=True,
                               stdout=subprocess.DEVNULL, preexec_fn=lambda: os.sched_setaffinity(0, one))
                for end in (".bin", ".idx"):
                    self.assertEqual(self.read("all" + end), self.read("one" + end))

    def test_a_text_is_a_document(self):
        with open(os.path.join(GOLDEN, "texts.jsonl"), encoding="utf-8") as f:
            text = json.loads(f.readline())["text"]
        self.write("a.txt", text.encode())
        self.write("empty.txt", b"")
        for name in ("gpt2", "llama3", "llama2"):
            self.tok(os.path.join(GOLDEN, name + ".json"), "a.txt", "empty.txt", "a.txt", out=name)
            first, empty, again = self.tokens(name)
            self.assertEqual(first, self.golden(name)[0])
            self.assertEqual(first, again)
            self.assertLessEqual(len(empty), 1)

    def test_trains_on_it(self):
        self.tok(os.path.join(GOLDEN, "gpt2.json"), os.path.join(GOLDEN, "texts.jsonl"), options=("--eod", "<|endoftext|>"))
        self.assertTrue(all(d[-1] == 0 for d in self.tokens()))
        self.write("tiny.mg", mgctest.TINY)
        self.compiles("tiny.mg", "-D", "vocab=700", "-o", "train")
        self.trains("./train", "--data", "out.bin", "--steps", 3, "--out", "r")

    def test_prompts(self):
        """A prompt and the text after it are each tokenized by itself; the prompt's tokens weigh nothing."""
        name = os.path.join(GOLDEN, "gpt2.json")
        ids = self.golden("gpt2")
        with open(os.path.join(GOLDEN, "texts.jsonl"), encoding="utf-8") as f:
            texts = [json.loads(line)["text"] for line in f][:40]
        pairs = [(i, (i * 7 + 3) % 40) for i in range(40)]
        self.write("chat.jsonl", "".join(json.dumps({"q": texts[i], "a": texts[k]}) + "\n" for i, k in pairs))
        options = ("--json-key", "a", "--json-prompt", "q", "--eod", "<|endoftext|>")
        self.tok(name, "chat.jsonl", options=options)
        self.assertEqual(self.tokens(), [ids[i] + ids[k] + [0] for i, k in pairs])
        weights = b"".join(bytes(len(ids[i])) + b"\1" * (len(ids[k]) + 1) for i, k in pairs)
        self.assertEqual(self.read("out.bin.weights"), weights)
        self.assertEqual(sorted(f for f in os.listdir(self.dir) if f.startswith("out")),
                         ["out.bin", "out.bin.weights", "out.idx"])
        self.write("tiny.mg", mgctest.TINY.replace(": token(vocab))", ": token(vocab), weight[batch, seq])")
                   .replace("next(tokens))", "next(tokens), weight)"))
        self.compiles("tiny.mg", "-D", "vocab=700", "-o", "train")
        self.trains("./train", "--data", "out.bin", "--steps", 3, "--out", "r")
        self.write("none.jsonl", json.dumps({"a": "x"}) + "\n")
        self.assertIn("no text under the key 'q'", self.tok(name, "none.jsonl", options=options, code=1).err)
        self.write("a.txt", "x")
        self.assertIn("is no .json, .jsonl or .parquet", self.tok(name, "a.txt", options=options, code=4).err)

    def test_killed_and_again(self):
        r = random.Random(1)
        with open(os.path.join(GOLDEN, "texts.jsonl"), encoding="utf-8") as f:
            lines = f.read()
        self.write("many.jsonl", lines * 600)  # several batches
        prompt = ("--json-prompt", "text")
        tokenizer = os.path.join(GOLDEN, "llama3.json")
        self.tok(tokenizer, "many.jsonl", "many.jsonl", out="whole", options=prompt)
        for _ in range(6):
            p = subprocess.Popen([mgctest.MGC, "tok", "--tokenizer", tokenizer, "-o", "parts", *prompt, "many.jsonl", "many.jsonl"],
                                 cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(r.uniform(0.05, 0.8))
            p.send_signal(signal.SIGKILL)
            p.wait()
        self.tok(tokenizer, "many.jsonl", "many.jsonl", out="parts", options=prompt)
        for end in (".bin", ".idx", ".bin.weights"):
            self.assertEqual(self.read("whole" + end), self.read("parts" + end))
        self.assertFalse([f for f in os.listdir(self.dir) if ".part" in f])

    def test_not_utf8(self):
        """Bytes that are no UTF-8 become U+FFFD, as Python's errors='replace' has it."""
        raw = b"a\xffb\xe2\x82c\xf0\x9f\x98\xed\xa0\x80\xc0\xafd\xf5"
        self.write("a.txt", raw)
        self.write("b.txt", raw.decode(errors="replace").encode())
        self.tok(os.path.join(GOLDEN, "gpt2.json"), "a.txt", "b.txt")
        a, b = self.tokens()
        self.assertEqual(a, b)

    def test_marks_and_nothing(self):
        """The mark before UTF-8 is none of the JSON's; a corpus of nothing, and a folder for a tokenizer, are said."""
        record = '{"text": "ab"}'
        self.write("tokenizer.json", json.dumps(TINY))
        for name, text in (("lines.jsonl", f"\ufeff{record}\n{record}\n"), ("array.json", f"\ufeff[{record}, {record}]")):
            self.write(name, text.encode())
            self.tok("tokenizer.json", name)
            self.assertEqual(self.tokens(), [[2], [2]])
        self.write("none.jsonl", "\n\n")
        r = self.tok("tokenizer.json", "none.jsonl", out="none", code=1)
        self.assertIn("none.jsonl: no record, so there is nothing to learn", r.err)
        self.assertFalse(os.path.exists(self.path("none.bin")))
        self.assertIn("help: --tokenizer ./tokenizer.json", self.tok(".", "lines.jsonl", code=1).err)

    def test_small_model(self):
        self.write("t.json", json.dumps(TINY))
        self.write("a.txt", "abbaabx" + "ab" * 100)
        self.tok("t.json", "a.txt")
        self.assertEqual(self.tokens(), [[2, 1, 0, 2, 3] + [2] * 100])

    def test_single_word(self):
        """An added token that has to stand alone is none within a word, nor beside a mark or a digit."""
        added = [{"id": 4, "content": "ab", "single_word": True}, {"id": 5, "content": "-", "special": True}]
        self.write("t.json", json.dumps({**TINY, "model": {**TINY["model"], "merges": []}, "added_tokens": added}))
        self.write("a.txt", "ab-abb-bab-ab\u0301-ab1-ab_-ab")
        self.tok("t.json", "a.txt")
        self.assertEqual(self.tokens(), [[4, 5, 0, 1, 1, 5, 1, 0, 1, 5, 0, 1, 3, 5, 0, 1, 3, 5, 0, 1, 3, 5, 4]])

    def test_refused(self):
        self.write("a.txt", "ab")
        base = json.dumps(TINY)
        cases = [("", "MG0572"), ("{", "MG0572"), ("[]", "no JSON object"), ("[" * 100000, "MG0572"), ("{}", "model.vocab")]
        for change, word in (({"normalizer": {"type": "ByteLevel"}}, "'ByteLevel' is not built"),
                             ({"normalizer": {"type": "Replace", "pattern": {"Regex": "a"}, "content": ""}}, "patterns of Regex"),
                             ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "that is no map"),
                             ({"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "UnicodeScripts"}},
                              "'UnicodeScripts' is not built"),
                             ({"post_processor": {"type": "RobertaProcessing"}}, "has an id that is none"),
                             ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[a[b]]"}, "behavior": "Isolated"}},
                              "PCRE2 reads otherwise"),
                             ({"normalizer": {"type": "Strip", "strip_left": True}, "added_tokens": [{"id": 5, "content": " "}]},
                              "leaves nothing"),
                             ({"model": {"type": "Unigram", "vocab": [["a", 0.0]]}}, "model.unk_id"),
                             ({"model": {"type": "Unigram", "vocab": [["a"]], "unk_id": 0}}, "no token and score"),
                             ({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "u"}}, "model.unk_token"),
                             ({"model": {"type": "Other", "vocab": {"a": 0}}}, "is Other: built are"),
                             ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"}},
                              "is no pattern"),
                             ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\h"}, "behavior": "Isolated"}},
                              "PCRE2 reads otherwise"),
                             ({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "a"},
                                                 "behavior": "Melted"}}, "'Melted' is not built"),
                             ({"added_tokens": [{"id": -1, "content": "x"}]}, "without content or id"),
                             ({"model": {"type": "WordPiece", "vocab": {"a": 0}}}, "unknown words would have no token"),
                             ({"model": {"type": "BPE", "vocab": {"a": 2 ** 40}, "merges": []}}, "has no id"),
                             ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]}}, "not all in the vocabulary"),
                             ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["aa"]}}, "is no merge"),
                             ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]}}, "no pair"),
                             ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": 0.1}}, "draws other tokens each time"),
                             ({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "u"}}, "unk_token")):
            cases.append((json.dumps({**TINY, **change}), word))
        for text, word in cases:
            self.write("t.json", text)
            self.assertIn(word, self.tok("t.json", "a.txt", code=1).err)
        self.write("t.json", base)
        for line, word in (('{"text": 3}', "no text under the key 'text'"), ("{", "MG0574"), ("[1]", "no JSON object")):
            self.write("b.jsonl", '{"text": "ab"}\n' + line + "\n")
            error = self.tok("t.json", "b.jsonl", code=1).err
            self.assertIn("b.jsonl:2: ", error)
            self.assertIn(word, error)
        self.assertIn("No such file", self.tok("t.json", "nothing", code=4).err)
        self.tok("t.json", code=2)
        self.assertIn("has no token", self.tok("t.json", "a.txt", options=("--eod", "x"), code=1).err)
        self.assertEqual(self.mgc("fmt", "--eod", "x", "a.mg").returncode, 2)


if __name__ == "__main__":
    mgctest.main()
