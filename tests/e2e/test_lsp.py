#!/usr/bin/env python3
"""mgc lsp as an editor uses it: messages, diagnostics with proposals, hovers, names, completion, lenses, formatting;
and what no editor sends."""

import os
import re
import signal
import subprocess
import sys
import unittest

from editor import Editor, edited, index, place, uri_of
from mgctest import MGC, MODELS, TINY


def model(name):
    with open(os.path.join(MODELS, name), encoding="utf-8") as f:
        return f.read()


LLAMA = model("llama_mini.mg")


class Session(unittest.TestCase):
    def setUp(self):
        self.e = self.enterContext(Editor(MGC))
        self.path = "/nowhere/a model.mg"

    def here(self, **more):
        return {"textDocument": {"uri": uri_of(self.path)}, **more}


class Protocol(Session):
    def test_life(self):
        self.assertIn("hoverProvider", self.e.capabilities["capabilities"])
        self.assertIsNone(self.e.ask("shutdown"))
        with self.assertRaisesRegex(RuntimeError, "shut down"):
            self.e.ask("textDocument/hover", {})
        self.e.tell("exit", {})
        self.assertEqual(self.e.process.wait(20), 0)

    def test_end_without_shutdown(self):
        self.e.process.stdin.close()
        self.assertEqual(self.e.process.wait(20), 1)

    def test_first_is_initialize(self):
        with Editor(MGC, initialize=False) as e:
            with self.assertRaisesRegex(RuntimeError, "initialize"):
                e.ask("textDocument/hover", {})
            e.ask("initialize", {"capabilities": {}})
            with self.assertRaisesRegex(RuntimeError, "second"):
                e.ask("initialize", {"capabilities": {}})

    def error_of(self, data, number=None):
        self.e.raw(data)
        while True:
            message = self.e.receive()
            self.assertIsNotNone(message, data)
            if "error" in message and message["id"] == number:
                return message["error"]["code"]

    def test_wrong_messages(self):
        def framed(body):
            return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        self.assertEqual(self.error_of(framed(b"{")), -32700)
        self.assertEqual(self.error_of(framed(b"")), -32700)
        self.assertEqual(self.error_of(framed(b'{"jsonrpc": "2.0", "id": 7, "method": "\xff"}')), -32700)
        self.assertEqual(self.error_of(framed(b"[" * 5000)), -32700)
        self.assertEqual(self.error_of(framed(b"[]")), -32600)
        self.assertEqual(self.error_of(framed(b'{"id": 3}'), 3), -32600)
        self.assertEqual(self.error_of(framed(b'{"id": {}, "method": "x"}')), -32600)
        self.assertEqual(self.error_of(framed(b'{"id": "a", "method": "no/such"}'), "a"), -32601)
        self.assertEqual(self.error_of(framed(b'{"id": 4, "method": "textDocument/didOpen"}'), 4), -32601)
        self.assertEqual(self.error_of(framed(b'{"id": 5, "method": "textDocument/hover"}'), 5), -32602)
        self.assertEqual(self.error_of(b"Content-Type: x\r\n\r\n"), -32600)
        self.assertEqual(self.error_of(b"Content-Length: minus\r\n\r\n"), -32600)
        # too short a length: the rest is junk up to the next header
        self.assertEqual(self.error_of(b"Content-Length: 3\r\n\r\n{}   junk\r\n" + framed(b"{")), -32600)
        self.assertEqual(self.error_of(b""), -32700)
        # too long a message is skipped, however it comes
        self.e.raw(b"Content-Length: %d\r\n\r\n" % (129 << 20))
        for _ in range(129):
            self.e.raw(b" " * (1 << 20))
        self.assertEqual(self.error_of(b""), -32600)
        self.e.raw(b"x" * 100000)
        self.e.raw(b"\r\n")
        self.e.tell("no/such", {})
        self.e.tell("$/setTrace", {"value": "off"})
        self.assertEqual(self.e.ask("textDocument/completion", {**self.opened(), "position": place("", 0)})["items"][0]
                         ["label"], "dim")

    def opened(self):
        self.e.open(self.path, "")
        return {"textDocument": {"uri": uri_of(self.path)}}

    def test_answers_of_the_client(self):
        self.e.send({"jsonrpc": "2.0", "id": 1, "result": None})
        self.e.send({"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}})
        self.assertIsNone(self.e.ask("shutdown"))

    def test_cancel(self):
        self.e.open(self.path, LLAMA)
        self.e.tell("$/cancelRequest", {"id": 99})
        number = self.e.request("textDocument/hover", self.e.at(self.path, "hidden"))
        self.e.tell("$/cancelRequest", {"id": number})
        answer = self.e.answer(number)
        self.assertTrue(answer.get("result") or answer["error"]["code"] == -32800, answer)

    def test_changes_that_cannot_be(self):
        self.e.open(self.path, TINY)
        for wrong in ([{"range": {}, "text": "x"}], [{"text": 5}], [{}], "x", None, [None]):
            self.e.open(self.path, TINY)
            self.e.tell("textDocument/didChange", {"textDocument": {"uri": uri_of(self.path), "version": 2},
                                                   "contentChanges": wrong})
            with self.assertRaisesRegex(RuntimeError, "no document"):
                self.e.ask("textDocument/documentSymbol", self.here())
        far = {"line": 1 << 40, "character": 1 << 40}
        self.e.open(self.path, "dim a = 1")
        self.e.tell("textDocument/didChange", {"textDocument": {"uri": uri_of(self.path), "version": 2},
                                               "contentChanges": [{"range": {"start": far, "end": place("", 0)},
                                                                   "text": "dim b = 2"}]})
        self.assertEqual([s["name"] for s in self.e.ask("textDocument/documentSymbol", self.here())], ["b"])

    def test_terminal(self):
        script = f"import pty, sys; sys.exit(pty.spawn([{MGC!r}, 'lsp']) >> 8)"
        r = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("MG0659", r.stdout)
        self.assertEqual(r.returncode, 2)


class Diagnostics(Session):
    def test_as_one_types(self):
        self.e.open(self.path, LLAMA)
        self.assertEqual(self.e.diagnostics(self.path), [])
        at = LLAMA.index("hidden, kv_heads, group, head] ~")
        self.e.change(self.path, at, at + 6, "hiden")
        one, = self.e.diagnostics(self.path)
        self.assertEqual((one["code"], one["severity"], one["source"]), ("MG0203", 1, "mgc"))
        self.assertEqual(one["range"]["start"], place(LLAMA, at))
        # a proposal that was tried comes later, with its edit
        one, = self.e.diagnostics(self.path)
        self.assertIn("did you mean 'hidden'?", one["message"])
        fix, = self.e.ask("textDocument/codeAction", self.here(range=one["range"], context={"diagnostics": [one]}))
        text = edited(self.e.texts[self.path], fix["edit"]["changes"][uri_of(self.path)])
        self.assertEqual(text, LLAMA)
        self.e.replace(self.path, text)
        self.assertEqual(self.e.diagnostics(self.path), [])

    def test_units_of_utf16(self):
        text = "# \U0001d538 and é\n" + TINY.replace("head  : param", "head  : parm").replace("lr  ", "# \U0001d538\n lr ")
        self.e.open(self.path, text)
        one = self.e.diagnostics(self.path)[0]
        self.assertEqual(one["range"]["start"], place(text, text.index("parm")))
        self.e.change(self.path, 2, 3, "\U0001d539\U0001d540")
        self.e.change(self.path, text.index("parm") + 1, text.index("parm") + 5, "param")
        self.assertEqual([d for d in self.e.diagnostics(self.path) if d["severity"] == 1], [])

    def test_related(self):
        self.e.open(self.path, TINY.replace("    x = tanh", "    head = 1\n    x = tanh"))
        one = self.e.diagnostics(self.path)[0]
        note = one["relatedInformation"][0]
        self.assertEqual(note["message"], "declared here")
        self.assertEqual(note["location"]["uri"], uri_of(self.path))

    def test_many_errors(self):
        self.e.open(self.path, "dim a = b c d e f\n" * 500)
        self.assertGreater(len(self.e.diagnostics(self.path)), 20)

    def test_what_a_plan_finds(self):
        text = TINY.replace("recompute  auto", "recompute  auto\n    assert     peak < 1 kB")
        self.e.open(self.path, text)
        self.assertEqual(self.e.diagnostics(self.path), [])
        one, = self.e.diagnostics(self.path)
        self.assertEqual(one["severity"], 1)
        self.assertEqual(index(text, one["range"]["start"]), text.index("peak <"))

    def test_options(self):
        self.e.open(self.path, model("llama3_405b.mg"))
        self.e.diagnostics(self.path)
        self.e.ask("workspace/executeCommand", {"command": "mgc.option", "arguments": [uri_of(self.path), "--layout pod16k"]})
        self.e.diagnostics(self.path)
        self.assertEqual(self.e.diagnostics(self.path), [])
        lenses = self.e.ask("textDocument/codeLens", self.here())
        self.assertTrue(any("16384 ranks" in one["command"]["title"] for one in lenses), lenses)
        self.e.ask("workspace/executeCommand", {"command": "mgc.without", "arguments": [uri_of(self.path)]})
        self.e.ask("workspace/executeCommand", {"command": "mgc.option", "arguments": [uri_of(self.path), "-o train"]})
        self.assertEqual(self.e.diagnostics(self.path)[0]["code"], "MG0658")
        with self.assertRaises(RuntimeError):
            self.e.ask("workspace/executeCommand", {"command": "mgc.option", "arguments": []})
        # an option that mgc proposes is one that the document is planned with
        self.e.ask("workspace/executeCommand", {"command": "mgc.without", "arguments": [uri_of(self.path)]})
        self.e.replace(self.path, TINY.replace("dp = 1", "dp = 3").replace("recompute  auto", "recompute  auto\n    batch -> dp"))
        wrong = [d for d in self.e.diagnostics(self.path, times=2) if d["severity"] == 1][0]
        fixes = self.e.ask("textDocument/codeAction", self.here(range=wrong["range"], context={"diagnostics": [wrong]}))
        options = [f["command"] for f in fixes if "command" in f]
        self.assertIn(f"plan with {options[0]['arguments'][1]}", [f["title"] for f in fixes])
        self.e.ask("workspace/executeCommand", {"command": options[0]["command"], "arguments": options[0]["arguments"]})
        self.assertEqual([d for d in self.e.diagnostics(self.path) if d["severity"] == 1], [])
        with Editor(MGC, ["--device", "h100"], options=["-D batch=8"]) as e:
            e.open(self.path, TINY)
            e.diagnostics(self.path)
            e.diagnostics(self.path)
            lenses = e.ask("textDocument/codeLens", self.here())
            self.assertTrue(any("on h100" in one["command"]["title"] for one in lenses), lenses)
            self.assertIn("batch = 8", e.ask("textDocument/hover", e.at(self.path, "x @ head"))["contents"]["value"])

    def test_layout_that_is_searched(self):
        text = TINY[:TINY.index("layout {")] + "layout auto {\n    device h100 x 2\n}\n"
        self.e.open(self.path, text.replace("seq = 8", "seq = 64").replace("batch = 4", "batch = 16"))
        self.assertEqual(self.e.diagnostics(self.path), [])  # types need no search
        self.assertEqual(self.e.diagnostics(self.path), [])
        lenses = self.e.ask("textDocument/codeLens", self.here())
        self.assertTrue(any("2 ranks" in one["command"]["title"] for one in lenses), lenses)

    def test_compiler_that_fails(self):
        """Its process is killed while it waits to plan: the session goes on, and the next text is looked at anew."""
        self.e.open(self.path, TINY)
        self.assertEqual(self.e.diagnostics(self.path), [])
        with open(f"/proc/{self.e.process.pid}/task/{self.e.process.pid}/children", encoding="ascii") as f:
            child, = f.read().split()
        os.kill(int(child), signal.SIGKILL)
        one, = self.e.diagnostics(self.path)
        self.assertEqual(one["code"], "MG0657")
        self.assertIn("value `x`", self.e.ask("textDocument/hover", self.e.at(self.path, "x @ head"))["contents"]["value"])
        self.e.change(self.path, 0, 0, "#\n")
        self.assertEqual(self.e.diagnostics(self.path), [])

    def test_closed_and_opened_again(self):
        self.e.open(self.path, TINY + "x")
        first = self.e.diagnostics(self.path)
        self.assertTrue(first)
        self.e.close(self.path)
        self.assertEqual(self.e.diagnostics(self.path), [])
        self.e.open(self.path, TINY + "x")
        self.assertEqual(self.e.diagnostics(self.path), first)


class Knowledge(Session):
    def setUp(self):
        super().setUp()
        self.e.open(self.path, LLAMA)

    def hover(self, found, of=0):
        h = self.e.ask("textDocument/hover", self.e.at(self.path, found, of))
        return h and h["contents"]["value"]

    def test_hover(self):
        self.assertIn("f32[batch = 32, seq = 128, kv_heads = 5, group = 2, head = 16], 2.5 MiB", self.hover("q = rope"))
        self.assertIn("value `q`", self.hover("q, k, v, along"))
        self.assertIn("= 160", self.hover("hidden"))
        wq = self.hover("wq :")
        self.assertIn("f32[layers = 4, hidden = 160, kv_heads = 5, group = 2, head = 16]", wq)
        self.assertIn("model.layers.{}.self_attn.q_proj.weight", wq)
        self.assertIn("block rmsnorm(x, gain, over d, eps =)", self.hover("rmsnorm"))
        self.assertIn("next(tokens, by = 1)", self.hover("next("))
        self.assertIn("optimizer adamw", self.hover("adamw"))
        self.assertIn("mesh axis `tp`", self.hover("tp = 1"))
        self.assertIsNone(self.hover("as \"weight\""))
        self.e.diagnostics(self.path, times=2)  # the second has the plan's facts
        self.assertIn("offset", self.hover("wq :"))
        self.assertIn("of a step", self.hover("q = rope"))
        self.assertIn("of a step", self.hover("attend(norm"))

    def test_hover_of_a_text_that_is_wrong(self):
        """Types are those of before, at the places to which the edits have moved them."""
        self.e.diagnostics(self.path)
        was = self.hover("q = rope")
        self.e.change(self.path, 0, 0, "# one\n# two\n")
        end = len(self.e.texts[self.path])
        self.e.change(self.path, end, end, "(")
        self.assertTrue(self.e.diagnostics(self.path))
        now = self.hover("q = rope")
        self.assertIn("before the last change", now)
        self.assertIn("f32[batch = 32, seq = 128, kv_heads = 5, group = 2, head = 16], 2.5 MiB", now)
        self.assertEqual(now.split("\n(types")[0], was.split("- 0")[0].split("\n(types")[0])
        at = self.e.texts[self.path].index("q = rope")
        self.e.change(self.path, at, at, "zz = exp(x)\n    ")  # what was not there has no type
        self.e.diagnostics(self.path)
        self.assertNotIn("f32[batch", self.hover("zz = exp"))
        self.assertIn("f32[batch", self.hover("q = rope"))
        text = self.e.texts[self.path][:-1].replace("zz = exp(x)\n    ", "")
        self.e.replace(self.path, text)
        self.assertEqual(self.e.diagnostics(self.path), [])
        self.assertNotIn("before the last change", self.hover("q = rope"))

    def test_signature(self):
        def given(before, text=None):
            """The form of the call behind a piece of a text, and the parameter that is given there."""
            text = text or LLAMA
            self.e.replace(self.path, text)
            help_ = self.e.ask("textDocument/signatureHelp", {**self.here(), "position": place(text, text.index(before) + len(before))})
            if help_ is None:
                return None
            (one,) = help_["signatures"]
            labels = [one["label"][slice(*p["label"])] for p in one["parameters"]]
            return one["label"], labels[help_["activeParameter"]] if labels else ""
        label, first = given("rmsnorm(")
        self.assertEqual((label[:26], first), ("rmsnorm(x, gain, over d, e", "x"))
        self.assertEqual(given("rmsnorm(x, gain, ")[1], "over d")
        self.assertTrue(given("attention(q, k, ")[0].startswith("attention(q, k, v"))
        self.assertTrue(given("adamw(")[0].startswith("adamw("))
        self.assertTrue(given("cosine(")[0].startswith("cosine(peak =,"))
        text = "dim n = 3\nblock scaled(x, over d, # why\n    by = (1 + 2), twice) {\n    return x\n}\nblock outer(y[n]) {\n    inner : block scaled\n    return %s\n}\n"
        whole = "scaled(x, over d, by = (1 + 2), twice)"
        for call, active in (("scaled(", "x"), ("scaled(y, ", "over d"), ("scaled(y, by = ", "by = (1 + 2)"), ("inner(sum(y, over n), over n, by", "by = (1 + 2)"),
                             ("scaled(y, over n, by = 1, twi", "twice"), ("scaled(exp(y), over n", "over d"), ("scaled(y, over n, by = 1, twice, 5", "twice")):
            self.assertEqual(given("return " + call, text % call), (whole, active), call)
        for before in ("dim vocab = ", "# llama_mini", "    recompute  ", "rope(q, along = head) @ ("):
            if before in LLAMA:
                self.assertIsNone(given(before), before)

    def test_semantic_tokens(self):
        legend = self.e.capabilities["capabilities"]["semanticTokensProvider"]["legend"]
        text = "# \U0001d538\n" + LLAMA
        self.e.replace(self.path, text)
        data = self.e.ask("textDocument/semanticTokens/full", self.here())["data"]
        line = start = 0
        found = {}
        for k in range(0, len(data), 5):
            down, along, size, kind, bits = data[k:k + 5]
            line, start = line + down, along if down else start + along
            at = index(text, {"line": line, "character": start})
            found[at] = (text[at:at + size], legend["tokenTypes"][kind], {m for i, m in enumerate(legend["tokenModifiers"]) if bits >> i & 1})
        for name, kind, bits in (("ffn = 432", "typeParameter", {"declaration", "readonly"}), ("ffn, vocab ->", "typeParameter", {"readonly"}),
                                 ("rmsnorm(", "function", {"defaultLibrary"}), ("attend(x", "function", {"declaration"}), ("wq :", "property", {"declaration"}),
                                 ("llama(tokens", "class", {"declaration"}), ("adamw(", "function", {"defaultLibrary"}), ("tp = 1", "namespace", {"declaration"})):
            word = re.match(r"\w+", name).group()
            self.assertEqual(found[text.index(name)], (word, kind, bits), name)
        places = {index(text, one["range"]["start"]) for one in self.e.ask("textDocument/references", self.e.at(self.path, "ffn = 432", context={"includeDeclaration": True}))}
        self.assertEqual({at for at, (word, *_) in found.items() if word == "ffn"}, places)
        self.e.replace(self.path, "x" * 5 + " = = (")
        self.assertEqual(self.e.ask("textDocument/semanticTokens/full", self.here())["data"], [])

    def test_definition(self):
        def line_of(found, of=0):
            return self.e.ask("textDocument/definition", self.e.at(self.path, found, of))["range"]["start"]["line"]
        self.assertEqual(line_of("attend(norm"), LLAMA[:LLAMA.index("block attend")].count("\n"))
        self.assertEqual(line_of("wq over"), LLAMA[:LLAMA.index("wq :")].count("\n"))
        self.assertEqual(line_of("kv_heads, ffn, vocab ->"), LLAMA[:LLAMA.index("dim layers")].count("\n"))
        self.assertEqual(line_of("tp\n"), LLAMA[:LLAMA.index("mesh ")].count("\n"))
        prelude = self.e.ask("textDocument/definition", self.e.at(self.path, "rmsnorm"))
        with open(prelude["uri"][7:], encoding="utf-8") as f:
            self.assertIn("block rmsnorm", f.readlines()[prelude["range"]["start"]["line"]])
        self.assertIsNone(self.e.ask("textDocument/definition", self.e.at(self.path, "# llama_mini")))

    def test_references(self):
        found = self.e.ask("textDocument/references", self.e.at(self.path, "ffn = 432", context={"includeDeclaration": True}))
        code = "\n".join(line.split("#")[0] for line in LLAMA.split("\n"))
        self.assertEqual(len(found), code.count("ffn"))
        kinds = {h["kind"] for h in self.e.ask("textDocument/documentHighlight", self.e.at(self.path, "x = x + attend"))}
        self.assertEqual(kinds, {2, 3})

    def renamed(self, found, new, of=0):
        edit = self.e.ask("textDocument/rename", self.e.at(self.path, found, of, newName=new))
        return edited(self.e.texts[self.path], edit["changes"][uri_of(self.path)])

    def test_rename(self):
        for found, old, new in [("ffn = 432", "ffn", "inner"), ("swiglu(x", "swiglu", "unit"), ("tp = 1", "tp", "tensor"),
                                ("wq :", "wq", "query")]:
            self.assertEqual(self.renamed(found, new), re.sub(rf"(?<![\w.\"]){old}(?!\w)", new, LLAMA))
        # in the block alone
        text = self.renamed("x[hidden]) {\n    wq", "y")
        begin, end = text.index("block attend"), text.index("block swiglu")
        self.assertEqual(text[:begin] + text[end:], LLAMA[:LLAMA.index("block attend")] + LLAMA[LLAMA.index("block swiglu"):])
        self.assertIn("v = y @ wv over hidden", text)
        for found, new, why in [("ffn = 432", "hidden", "dim already"), ("ffn = 432", "repeat", "reserved"),
                                ("ffn = 432", "q", "value already"), ("ffn = 432", "2d", "letter"),
                                ("q = rope", "seq", "dim already"), ("rmsnorm", "x", "word of the language"),
                                ("swiglu(x", "attend", "block already"), ("loss", "cost", "has to assign"),
                                ("# llama", "x", "no name")]:
            with self.assertRaisesRegex(RuntimeError, why):
                self.renamed(found, new)
        self.assertEqual(self.e.ask("textDocument/prepareRename", self.e.at(self.path, "ffn ="))["placeholder"], "ffn")

    def test_rename_in_texts_and_settings(self):
        text = TINY.replace('as "embed.weight"', 'as "embed.{vocab}.weight"').replace("recompute  auto", "recompute  keep [x]")
        self.e.replace(self.path, text)
        self.assertEqual(self.renamed("vocab = 256", "words"), text.replace("vocab", "words"))
        self.assertIn("keep [y]", self.renamed("x = tanh", "y"))

    def test_work_of_answers(self):
        """Answers from the text are cheap: processor time of the server alone, many times what it takes."""
        self.e.replace(self.path, model("llama3_405b.mg"))
        self.e.diagnostics(self.path)
        for _ in range(50):
            for method in ("hover", "definition", "completion", "documentHighlight", "prepareRename"):
                self.e.ask("textDocument/" + method, self.e.at(self.path, "wq over"))
        with open(f"/proc/{self.e.process.pid}/stat", encoding="ascii") as f:
            user, system = f.read().rsplit(")", 1)[1].split()[11:13]
        self.assertLess((int(user) + int(system)) / os.sysconf("SC_CLK_TCK"), 10)

    def test_rename_of_arguments(self):
        text = """dim a = 2, n = 3
block scaled(x, over d, by = 1, twice) {
    return sum(x, over d) * by * (1 + twice)
}
block outer(x[n]) {
    inner : block scaled
    return inner(x, over n, by = 2, twice) + scaled(x, over n, by = a)
}
"""
        self.e.replace(self.path, text)
        self.assertEqual(self.renamed("by = 1", "times"), re.sub(r"\bby\b", "times", text))
        self.assertEqual(self.renamed("twice)", "double"), text.replace("twice", "double"))
        self.assertEqual(self.renamed("inner :", "one"), text.replace("inner", "one"))
        self.assertEqual(self.renamed("scaled(x, over n, by", "made"), text.replace("scaled", "made"))
        self.assertEqual(self.renamed("d, by = 1", "e"), text.replace("over d", "over e"))

    def test_rename_of_settings(self):
        text = """setting 0 <= rho < 1

optimizer _heavy(rho = 0.9, centered = 0) {
    state m
    state v where centered != 0
    m = rho * m + g
    p = p - lr * m * (1 - centered)
}

train {
    optimizer _heavy(rho = 0.5)
}
"""
        self.e.replace(self.path, text)
        self.assertEqual(self.renamed("rho = 0.9", "r"), re.sub(r"\brho\b", "r", text))
        self.assertEqual(self.renamed("centered != 0", "c"), text.replace("centered", "c"))
        self.assertEqual(self.renamed("_heavy(rho = 0.5", "light"), text.replace("_heavy", "light"))
        self.assertEqual(self.renamed("m = rho", "mean"), re.sub(r"\bm\b", "mean", text))
        for found, why in (("p = p", "changes"), ("g\n", "no name")):
            with self.assertRaisesRegex(RuntimeError, why):
                self.renamed(found, "q")

    def labels(self, before, text=None):
        """What is offered behind a piece of a text."""
        text = text or LLAMA
        self.e.replace(self.path, text)
        params = {"textDocument": {"uri": uri_of(self.path)}, "position": place(text, text.index(before) + len(before))}
        return {item["label"] for item in self.e.ask("textDocument/completion", params)["items"]}

    def test_completion(self):
        def with_(old, new):
            return LLAMA.replace(old, new, 1)
        self.assertLessEqual({"dim", "block", "layout", "optimizer"}, self.labels("dim vocab = 256, seq = 128, batch = 32\n"))
        self.assertLessEqual({"hidden", "seq"}, self.labels("x @ wq over "))
        self.assertNotIn("rmsnorm", self.labels("x @ wq over "))
        self.assertLessEqual({"wq", "x", "hidden", "rope", "swiglu", "exp"}, self.labels("    q = ", with_("q = rope", "q = \n    qq = rope")))
        self.assertNotIn("gate", self.labels("    q = ", with_("q = rope", "q = \n    qq = rope")))
        self.assertLessEqual({"eps", "over"}, self.labels("rmsnorm(x, gain, "))
        self.assertLessEqual({"causal", "window", "scale"}, self.labels("attention(q, k, v, "))
        self.assertLessEqual({"optimizer", "lr", "clip", "precision", "adapter"}, self.labels("clip      1.0\n"))
        self.assertLessEqual({"adamw", "sgd", "muon"}, self.labels("    optimizer "))
        self.assertLessEqual({"betas", "eps", "decay", "state"}, self.labels("optimizer adamw("))
        self.assertEqual({"constant", "cosine", "wsd"} - self.labels("    lr        "), set())
        self.assertEqual({"peak", "warmup", "steps", "floor"}, self.labels("cosine("))
        self.assertLessEqual({"device", "mesh", "microbatch", "hidden", "state"}, self.labels("recompute  auto\n"))
        self.assertLessEqual({"dp", "tp", "pp", "cp"}, self.labels("kv_heads, ffn, vocab -> "))
        self.assertLessEqual({"h100", "cpu"}, self.labels("    device "))
        self.assertLessEqual({"auto", "none", "keep"}, self.labels("    recompute  "))
        self.assertLessEqual({"schedule", "chunks"}, self.labels("layers               -> pp ("))
        self.assertLessEqual({"1f1b", "gpipe"}, self.labels("(schedule = "))
        self.assertLessEqual({"layers"}, self.labels("    repeat "))
        self.assertLessEqual({"param", "block"}, self.labels("    wq : "))
        self.assertLessEqual({"hidden", "head"}, self.labels("wq : param["))
        self.assertEqual(self.labels('as "weig'), set())
        self.assertEqual(self.labels("# llama_mi"), set())

    def test_lenses(self):
        self.e.diagnostics(self.path, times=2)
        lenses = self.e.ask("textDocument/codeLens", self.here())
        by_line = {one["range"]["start"]["line"]: one["command"]["title"] for one in lenses}
        attend = by_line[LLAMA[:LLAMA.index("block attend")].count("\n")]
        self.assertRegex(attend, r"of a step \(\d+\.\d%\): forward .*, back .* \| 307 k parameters")
        whole = by_line[LLAMA[:LLAMA.index("model llama")].count("\n")]
        self.assertIn("step", whole)
        shares = [float(t.split("(")[1].split("%")[0]) for t in by_line.values() if "of a step (" in t]
        self.assertTrue(0 < sum(shares) <= 100.5 and len(shares) == 3, by_line)
        self.e.change(self.path, 0, 0, "#\n")
        lenses = self.e.ask("textDocument/codeLens", self.here())
        self.assertTrue(any("before the last change" in one["command"]["title"] for one in lenses))

    def test_symbols(self):
        names = {s["name"]: s for s in self.e.ask("textDocument/documentSymbol", self.here())}
        self.assertLessEqual({"layers", "norm", "attend", "swiglu", "llama", "train", "layout"}, set(names))
        self.assertEqual([c["name"] for c in names["attend"]["children"]], ["wq", "wk", "wv", "wo", "q", "k", "v"])
        with Editor(MGC, capabilities={"workspace": {}}) as e:
            e.open(self.path, LLAMA)
            flat = e.ask("textDocument/documentSymbol", self.here())
            self.assertIn("wq", {s["name"] for s in flat})
            self.assertTrue(all("location" in s for s in flat))

    def test_format(self):
        messy = LLAMA.replace("    v = x @ wv over hidden", "  v=x@wv over   hidden")
        self.e.replace(self.path, messy)
        options = {"tabSize": 4, "insertSpaces": True}
        edits = self.e.ask("textDocument/formatting", self.here(options=options))
        self.assertEqual(edited(messy, edits), LLAMA)
        self.assertLess(len(edits[0]["newText"]), 200)
        self.e.replace(self.path, LLAMA)
        self.assertEqual(self.e.ask("textDocument/formatting", self.here(options=options)), [])
        self.e.replace(self.path, LLAMA + "(")
        with self.assertRaisesRegex(RuntimeError, "canonical"):
            self.e.ask("textDocument/formatting", self.here(options=options))


if __name__ == "__main__":
    unittest.main()
