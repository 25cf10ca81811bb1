#!/usr/bin/env python3
"""Shipped models under edits by chance: pieces deleted, inserted, moved, names changed, undone. The server answers
every request, the text that it has is the client's, and when all is undone it says what it said at first.

MGC_LSP=PROGRAM is another server, such as one with sanitizers."""

import os
import random
import re
import subprocess
import tempfile
import unittest

from editor import Editor, edited, place, uri_of
from mgctest import FULL, MGC, MODELS, SOURCE, TURN, some

NAMES = ("llama_mini.mg", "mixtral_mini.mg", "gpt2_124m.mg", "deepseek_v3.mg", "whisper.mg", "mamba2.mg", "dit.mg", "llama3_405b.mg")
RENAMED = ("llama_mini.mg", "mixtral_mini.mg", "mlp.mg", "vit.mg", "dit.mg", "llama_packed.mg", "llama_56m.mg", "clip.mg", "whisper.mg",
           "mamba2.mg")
PARITY = os.path.join(SOURCE, "tests/parity")
ZOO = [os.path.join(PARITY, "optimizers.mg"), *(os.path.join(PARITY, "zoo", name) for name in sorted(os.listdir(os.path.join(PARITY, "zoo")))
                                                if name.endswith(".mg"))]
EDITS = 1000 if FULL else 200
PIECES = ["{", "}", "(", ")", "[", "]", ",", "->", "=", " over ", "dim ", "repeat layers {", "\n", "\"", "# ", "é", "\U0001d538", "x", "1e9",
          "layout {", "return ", "@", "optimizer ", "\t", "0" * 200, "((((((((", "x = x\n" * 50]
REQUESTS = ("hover", "definition", "references", "documentHighlight", "documentSymbol", "completion", "prepareRename", "codeLens",
            "formatting", "codeAction", "signatureHelp", "semanticTokens/full")


class Edits(unittest.TestCase):
    def edit(self, rng, text):
        """(begin, end, new): an edit by chance."""
        kind = rng.randrange(5)
        begin = rng.randrange(len(text) + 1)
        end = min(len(text), begin + int(rng.expovariate(1 / 20)))
        if kind == 0:
            return begin, end, ""
        if kind == 1:
            return begin, begin, rng.choice(PIECES)
        if kind == 2:  # what stands elsewhere
            other = rng.randrange(len(text) + 1)
            return begin, end, text[other:other + 30]
        words = [m.span() for m in re.finditer(r"[A-Za-z_]\w*", text)] or [(0, 0)]
        at, other = rng.choice(words), rng.choice(words)
        return *at, text[slice(*other)] if kind == 3 else text[slice(*at)] + "_"

    def ask_something(self, e, rng, path):
        text = e.texts[path]
        method = rng.choice(REQUESTS)
        where = place(text, rng.randrange(len(text) + 1))
        number = e.request("textDocument/" + method, {
            "textDocument": {"uri": uri_of(path)}, "position": where, "range": {"start": where, "end": where},
            "context": {"diagnostics": []}, "options": {}})
        if rng.random() < 0.2:
            e.tell("$/cancelRequest", {"id": number})
        answer = e.answer(number)
        self.assertTrue("result" in answer or answer["error"]["code"] in (-32800, -32803), (method, answer))
        return method, answer.get("result")

    def rename(self, e, rng, path):
        """A rename, if there is one: by the server, as an edit of the whole text."""
        text = e.texts[path]
        where = place(text, rng.randrange(len(text) + 1))
        answer = e.answer(e.request("textDocument/rename", {"textDocument": {"uri": uri_of(path)}, "position": where,
                                                            "newName": f"renamed{rng.randrange(100)}"}))
        edits = (answer.get("result") or {}).get("changes", {}).get(uri_of(path), [])
        return (0, len(text), edited(text, edits)) if edits else None

    def one_model(self, name, seed, count):
        rng = random.Random(seed)
        with open(os.path.join(MODELS, name), encoding="utf-8") as f:
            text = f.read()
        path, undo = f"/nowhere/{name}", []
        with Editor(os.environ.get("MGC_LSP", MGC)) as e:
            e.open(path, text)
            first = e.diagnostics(path)
            for _ in range(count):
                old = e.texts[path]
                if undo and rng.random() < 0.2:
                    begin, end, new = undo.pop()
                    e.change(path, begin, end, new)
                else:
                    done = self.rename(e, rng, path) if rng.random() < 0.15 else None
                    begin, end, new = done or self.edit(rng, old)
                    e.change(path, begin, end, new)
                    undo.append((begin, begin + len(new), old[begin:end]))
                if rng.random() < 0.05:  # closed, and opened as it is
                    e.close(path)
                    e.open(path, e.texts[path])
                for _ in range(rng.randrange(3)):
                    method, result = self.ask_something(e, rng, path)
                    if method == "formatting" and result is not None:
                        edited(e.texts[path], result)
                if rng.random() < 0.1:
                    e.diagnostics(path)
            while undo:
                e.change(path, *undo.pop())
            self.assertEqual(e.texts[path], text)
            self.assertEqual(e.diagnostics(path), first)
            # the text is the client's: the outline is that of a server which was given it whole
            outline = e.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri_of(path)}})
            e.open("/nowhere/other.mg", text)
            self.assertEqual(e.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri_of("/nowhere/other.mg")}}), outline)
            self.assertIsNone(e.process.poll())
            self.assertNotIn("MG0657", repr(e.messages))  # no process of the compiler has failed
            e.ask("shutdown")
            e.tell("exit", {})
            self.assertEqual(e.process.wait(60), 0, e.process.stderr.read())

    def summary(self, path):
        """What mgc says of a program, which has the names of the model and the layout alone."""
        r = subprocess.run([MGC, path, "--check"], capture_output=True, text=True, timeout=300, check=False)
        return r.returncode, r.stderr if r.returncode else r.stdout

    def test_renamed_programs(self):
        """A name that is changed everywhere is that of the same program."""
        with tempfile.TemporaryDirectory() as folder, Editor(os.environ.get("MGC_LSP", MGC)) as e:
            for k, name in enumerate(some(RENAMED, 5)):
                rng = random.Random(TURN + k)
                with open(os.path.join(MODELS, name), encoding="utf-8") as f:
                    text = f.read()
                path = os.path.join(folder, name)
                e.open(path, text)
                outline = e.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri_of(path)}})
                names = [s for s in outline if s["detail"] in ("dim", "const", "block", "optimizer")]
                names += [c for s in outline if s["detail"] in ("block", "model") for c in s["children"] if c["name"] != "loss"]
                with open(path, "w", encoding="utf-8") as f:
                    f.write(text)
                before, worked = self.summary(path), 0
                self.assertEqual(before[0], 0, before)
                for s in names if FULL else rng.sample(names, 6):
                    with self.subTest(model=name, name=s["name"], seed=TURN + k):
                        answer = e.answer(e.request("textDocument/rename", {
                            "textDocument": {"uri": uri_of(path)}, "position": s["selectionRange"]["start"], "newName": "other_name"}))
                        edits = answer.get("result", {}).get("changes", {}).get(uri_of(path), [])
                        worked += bool(edits)
                        with open(path, "w", encoding="utf-8") as f:
                            f.write(edited(text, edits))
                        self.assertEqual(self.summary(path), before)
                self.assertGreaterEqual(worked, 4)

    def test_renamed_sources(self):
        """A name by chance, of models with all that the language has, changed everywhere: no error comes or goes."""
        def errors(path):
            return sum(d["severity"] == 1 for d in e.diagnostics(path))
        with Editor(os.environ.get("MGC_LSP", MGC)) as e:
            worked = 0
            for k, path in enumerate(some(ZOO, 12)):
                rng = random.Random(TURN + k)
                with open(path, encoding="utf-8") as f:
                    text = f.read()
                e.open(path, text)
                before = errors(path)
                for m in rng.sample(list(re.finditer(r"[A-Za-z_]\w*", text)), 8):
                    answer = e.answer(e.request("textDocument/rename", {
                        "textDocument": {"uri": uri_of(path)}, "position": place(text, m.start()), "newName": "other_name"}))
                    if "error" in answer:
                        continue
                    worked += 1
                    e.replace(path, edited(text, answer["result"]["changes"][uri_of(path)]))
                    self.assertEqual(errors(path), before, (path, m.group(), TURN + k))
                    e.replace(path, text)
                    errors(path)
                e.close(path)
            self.assertGreater(worked, 10)

    def test_by_chance(self):
        names = some(NAMES, 4)
        for k, name in enumerate(names):
            with self.subTest(name=name, seed=TURN + k):
                self.one_model(name, TURN + k, EDITS // len(names))


if __name__ == "__main__":
    unittest.main()
