"""mgc tok and tokenizer.model, against the golden tokens of the package sentencepiece (tests/tok/sentencepiece_models.py)."""

import array
import base64
import gzip
import json
import os
import random
import struct
import subprocess

import mgctest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tok/golden/sentencepiece.json.gz")
DECODE = os.path.join(mgctest.BUILD, "bin/tok_decode")


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def model(pieces, kind=2, **norm):
    """A model of pieces (text, score, kind), written here."""
    out = b"".join(field(1, field(1, t.encode()) + field(2, float(s)) + field(3, k)) for t, s, k in pieces)
    return out + field(2, field(3, kind)) + field(3, b"".join(field(n, v) for n, v in ((3, norm.get("prefix", 1)), (4, norm.get("extra", 1)))))


UNK = ("<unk>", 0, 2)
ABC = [("a", -9, 1), ("b", -9, 1), ("c", -9, 1), ("\u2581", -9, 1)]


class SentencePiece(mgctest.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with gzip.open(GOLDEN) as f:
            cls.golden = json.load(f)

    def model(self, name, data):
        with open(os.path.join(self.dir, name + ".model"), "wb") as f:
            f.write(data)
        return name + ".model"

    def ids(self, name, *files, preexec=None):
        subprocess.run([mgctest.MGC, "tok", "--tokenizer", name, "-o", "out", *files], cwd=self.dir, check=True, stdout=subprocess.DEVNULL,
                       preexec_fn=preexec)
        index, ids, at, documents = self.read("out.idx"), array.array("H", self.read("out.bin")), 0, []
        (n,) = struct.unpack_from("<Q", index, 18)
        for k in array.array("i", index[34:34 + 4 * n]):
            documents.append(list(ids[at:at + k]))
            at += k
        return documents

    def test_golden(self):
        """Unigram and bpe: with byte fallback, user-defined and control pieces, maps, and each way to treat white space."""
        self.write("t.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in self.golden["texts"]))
        for name, kind in self.golden["kinds"].items():
            with self.subTest(name):
                self.assertEqual(self.ids(self.model(name, base64.b64decode(kind["model"])), "t.jsonl"), kind["ids"])

    def test_decoded(self):
        for name, kind in self.golden["kinds"].items():
            path = os.path.join(self.dir, self.model(name, base64.b64decode(kind["model"])))
            lines = subprocess.run([DECODE, path], input="".join(json.dumps(x) + "\n" for x in kind["ids"]), capture_output=True, text=True,
                                   encoding="utf-8", check=True).stdout.split("\n")[:-1]
            mine, theirs = ["".join(json.loads(x)) for x in lines], kind["decoded"]
            if name == "bpe":  # a user-defined piece of two marks at the beginning of a text keeps one or both there
                mine, theirs = ([t.lstrip(" ") for t in x] for x in (mine, theirs))
            with self.subTest(name):
                self.assertEqual(mine, theirs)

    def test_long_text(self):
        """All cores and one core, of a text that is one piece: the same ids."""
        r = random.Random(3)
        self.write("a.txt", "".join(r.choice(self.golden["texts"]) + r.choice((" ", "\n\n", "12", "")) for _ in range(6000)))
        one = sorted(os.sched_getaffinity(0))[:1]
        for name in ("llama", "gemma", "across", "unigram"):
            with self.subTest(name):
                path = self.model(name, base64.b64decode(self.golden["kinds"][name]["model"]))
                self.assertEqual(self.ids(path, "a.txt"), self.ids(path, "a.txt", preexec=lambda: os.sched_setaffinity(0, one)))

    def test_by_hand(self):
        """Pieces of one score merge from the left; a user-defined one merges with nothing; \u2581 is the space."""
        self.write("t.jsonl", "".join(json.dumps({"text": t}) + "\n" for t in ("aba", "a  b", "xx", "", "abcab")))
        pieces = [UNK, *ABC, ("ab", -1, 1), ("ba", -1, 1), ("\u2581a", -2, 1)]
        self.assertEqual(self.ids(self.model("m", model(pieces)), "t.jsonl"), [[4, 5, 1], [7, 4, 2], [4, 0], [], [4, 5, 3, 5]])
        pieces[-1] = ("bc", 0, 4)
        self.assertEqual(self.ids(self.model("m", model(pieces)), "t.jsonl")[-1], [4, 1, 7, 5])

    def test_refused(self):
        cases = {name: base64.b64decode(data) for name, data in self.golden["refused"].items()}
        says = {"word": "is of the kind word", "char": "is of the kind char", "nothing": "is damaged", "cut": "is damaged", "junk": "is damaged",
                "twice": "has the piece 'a' twice", "no_unk": "has no unknown piece", "two": "has two unknown pieces",
                "letters": "has the piece 'xy' and not each of its characters", "unused": "has pieces that are not used",
                "bytes": "falls back to bytes, and has not a piece for each", "score": "is damaged", "kind": "is of a kind that nobody knows",
                "map": "has a map of characters that is damaged"}
        good = model([UNK, *ABC])
        cases |= {"nothing": b"", "cut": good[:-3], "junk": b"\xff" * 99, "twice": model([UNK, *ABC, ABC[0]]), "no_unk": model(ABC),
                  "two": model([UNK, *ABC, UNK]), "letters": model([UNK, *ABC, ("xy", -3, 1)]), "unused": model([UNK, *ABC, ("ab", -3, 5)]),
                  "bytes": good + field(2, field(35, 1)), "score": model([UNK, ("a", float("nan"), 1)]), "kind": model([UNK, *ABC], kind=9),
                  "map": good + field(3, field(2, b"\x04\0\0\0\1\2\3"))}
        self.assertEqual(set(cases), set(says))
        self.write("a.txt", "a")
        for name, data in cases.items():
            with self.subTest(name):
                r = self.mgc("tok", "--tokenizer", self.model(name, data), "-o", "out", "a.txt")
                self.assertEqual(r.returncode, 1, r.err)
                self.assertIn("MG0572", r.err)
                self.assertIn(says[name], r.err)

    def test_damage(self):
        """A model with a changed byte is read or refused: no crash, no hang."""
        data = base64.b64decode(self.golden["kinds"]["bytes"]["model"])
        self.write("a.txt", "New York  12 \u00bdx a\u0301")
        r = random.Random(11)
        for _ in range(40):
            at, bit = r.randrange(len(data)), 1 << r.randrange(8)
            bad = data[:at] + bytes([data[at] ^ bit]) + data[at + 1:]
            code = self.mgc("tok", "--tokenizer", self.model("d", bad), "-o", "out", "a.txt").returncode
            self.assertIn(code, (0, 1), at)

    def test_end_of_text(self):
        """Control pieces are named by --eod, and are in no text."""
        path = self.model("bpe", base64.b64decode(self.golden["kinds"]["bpe"]["model"]))
        self.write("t.jsonl", json.dumps({"text": "</s>"}) + "\n")
        self.mgc("tok", "--tokenizer", path, "--eod", "</s>", "-o", "out", "t.jsonl")
        ids = array.array("H", self.read("out.bin"))
        self.assertEqual(ids[-1], 2)
        self.assertNotIn(2, ids[:-1])


if __name__ == "__main__":
    mgctest.main()
