"""Ids to text, as they come, against the texts of Hugging Face's tokenizers (tests/tok/decode.py)."""

import gzip
import json
import os
import subprocess

import mgctest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tok/golden")
DECODE = os.path.join(mgctest.BUILD, "bin/tok_decode")


class Decode(mgctest.Case):
    def tokenizer(self, name):
        if name in self.kinds:
            return self.kinds[name]["tokenizer"]
        with open(os.path.join(GOLDEN, name + ".json"), encoding="utf-8") as f:
            return json.load(f)

    def pieces(self, tokenizer, ids, code=0):
        self.write("t.json", json.dumps(tokenizer))
        r = subprocess.run([DECODE, os.path.join(self.dir, "t.json")], input="".join(json.dumps(s) + "\n" for s in ids),
                           capture_output=True, text=True)
        self.assertEqual(r.returncode, code, r.stderr)
        return [json.loads(line) for line in r.stdout.split("\n")[:-1]] if not code else r.stdout

    def setUp(self):
        super().setUp()
        with gzip.open(os.path.join(GOLDEN, "kinds.json.gz")) as f:
            self.kinds = json.load(f)["kinds"]

    def test_golden(self):
        """The pieces of each sequence joined are its text, whole characters each (JSON has no others)."""
        with gzip.open(os.path.join(GOLDEN, "decode.json.gz")) as f:
            golden = json.load(f)
        self.assertGreater(len(golden), 100)
        for case in golden:
            with self.subTest(case["tokenizer"], decoder=case["name"]):
                pieces = self.pieces({**self.tokenizer(case["tokenizer"]), "decoder": case["decoder"]}, case["ids"])
                self.assertEqual(["".join(p) for p in pieces], case["texts"])
                self.assertEqual([len(p) for p in pieces], [len(s) + 1 for s in case["ids"]])

    def test_pieces(self):
        """A character comes with its last byte; a run of <0x..> with the token behind it; a stop's white space at the end not at all."""
        gpt2 = {"model": {"type": "BPE", "vocab": {"a": 0, "Ġb": 1, "â": 2, "Ĥ": 3, "¬": 4}, "merges": []}, "decoder": {"type": "ByteLevel"},
                "pre_tokenizer": {"type": "ByteLevel"}}
        self.assertEqual(self.pieces(gpt2, [[0, 1, 2, 3, 4, 2, 0, 3]]), [["a", " b", "", "", "€", "", "\ufffda", "\ufffd", ""]])
        some = {"model": {"type": "WordLevel", "vocab": {"▁a": 0, "<0xE2>": 1, "<0x82>": 2, "<0xAC>": 3, "x": 4}, "unk_token": "x"}}
        steps = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                 {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
        some["decoder"] = {"type": "Sequence", "decoders": steps}
        self.assertEqual(self.pieces(some, [[0, 0, 1, 2, 3, 4, 1, 2, 4]]), [["a", " a", "", "", "", "€x", "", "", "\ufffd\ufffdx", ""]])

    def test_special(self):
        """Special tokens have no text, added ones that are not special have theirs; ids that no token has are left out."""
        t = {"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "b"}, "decoder": {"type": "Fuse"},
             "added_tokens": [{"id": 2, "content": "<s>", "special": True}, {"id": 3, "content": "<think>", "special": False}]}
        self.assertEqual(self.pieces(t, [[2, 0, 3, 1, 9, 2]]), [["", "a", "<think>", "b", "", "", ""]])

    def test_refused(self):
        t = {"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
        self.assertIn("'CTC' is not built", self.pieces({**t, "decoder": {"type": "CTC"}}, [], code=1))
        self.assertIn("64 steps", self.pieces({**t, "decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}] * 65}}, [], code=1))
        self.assertIn("BPEDecoder has no text", self.pieces({**t, "decoder": {"type": "BPEDecoder", "suffix": ""}}, [], code=1))
        regex = {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}
        self.assertIn("Replace has no text", self.pieces({**t, "decoder": regex}, [], code=1))


if __name__ == "__main__":
    mgctest.main()
