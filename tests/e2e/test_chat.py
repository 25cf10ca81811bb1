"""mgc tok on conversations: formats, packed files, masks, lengths, pairs, labels, resuming."""

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
RENDER = os.path.join(mgctest.BUILD, "bin/jinja_render")
ADDED = ["<|im_start|>", "<|im_end|>", "<s>", "</s>", "<think>", "</think>"]
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
# As Qwen3's: thinking goes from earlier answers, and the last answer has it, perhaps empty.
THINKING = ("{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
            "{% endif %}{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% set c = m.content %}"
            "{% if m.role == 'assistant' %}{% set t = '' %}{% if '</think>' in c %}{% set t = c.split('</think>')[0].split('<think>')[-1]"
            ".strip('\n') %}{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}{% if loop.index0 > ns.last %}"
            "{{ '<think>\n' + t + '\n</think>\n\n' }}{% endif %}{% endif %}{{ c + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Zürich?"}, {"role": "assistant", "content": "Ja"}]


def byte_tokenizer():
    """Ids below 256 are bytes."""
    vocab, n = {}, 256
    for b in range(256):
        itself = 0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE
        vocab[chr(b if itself else n)] = b
        n += not itself
    return {"model": {"type": "BPE", "vocab": vocab, "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            "added_tokens": [{"id": 256 + i, "content": c, "special": True} for i, c in enumerate(ADDED)]}


def lines(records):
    return "".join(json.dumps(r) + "\n" for r in records)


class Chat(mgctest.Case):
    def setUp(self):
        super().setUp()
        self.write("tokenizer.json", json.dumps(byte_tokenizer()))
        self.template(CHATML)

    def template(self, text):
        self.write("tokenizer_config.json", json.dumps(
            {"model_max_length": 10**30, "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "chat_template": text}))

    def tok(self, *files, out="out", code=0, options=()):
        r = self.mgc("tok", "--tokenizer", "tokenizer.json", "-o", out, *options, *files)
        self.assertEqual(r.returncode, code, r.err)
        return r

    def documents(self, out="out", weights=None):
        """Each document's text, with what is learnt in braces."""
        index = self.read(out + ".idx")
        (n,) = struct.unpack_from("<Q", index, 18)
        ids, weights, at, texts = array.array("H", self.read(out + ".bin")), self.read(weights or out + ".bin.weights"), 0, []
        self.assertEqual(len(ids), len(weights))
        for k in array.array("i", index[34:34 + 4 * n]):
            text, on = b"", 0
            for i, w in zip(ids[at:at + k], weights[at:at + k], strict=True):
                text += (b"{" if w else b"}") if w != on else b""
                text += bytes([i]) if i < 256 else ADDED[i - 256].encode()
                on = w
            texts.append((text + (b"}" if on else b"")).decode())
            at += k
        return texts

    def one(self, record, **more):
        self.write("a.jsonl", lines([record]))
        self.tok("a.jsonl", **more)
        (text,) = self.documents()
        return text

    WHOLE = ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{Hello<|im_end|>}\n"
             "<|im_start|>user\nZürich?<|im_end|>\n<|im_start|>assistant\n{Ja<|im_end|>}\n")

    def test_formats(self):
        turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}, {"from": "human", "value": "Zürich?"},
                 {"from": "gpt", "value": "Ja"}]
        parts = [dict(m, content=[{"type": "text", "text": c} for c in (m["content"][:1], m["content"][1:])]) for m in TALK]
        for record in ({"messages": TALK}, {"messages": parts}, {"conversations": turns, "system": "Be brief."},
                       {"instruction": "Zürich?", "input": "", "output": "Ja", "system": "Be brief.", "history": [["Hi", "Hello"]]}):
            with self.subTest(record):
                self.assertEqual(self.one(record), self.WHOLE)
        self.assertIn("{x<|im_end|>}", self.one({"instruction": "a", "input": "b", "output": "x"}))
        self.assertIn("user\na\nb<|im_end|>", self.documents()[0])

    def test_files(self):
        """An array, lines, packed or not, of records and of texts; some members and frames in one file."""
        records = [{"messages": [TALK[1], dict(TALK[2], content="é" * i + '"}]{\\')]} for i in range(40)]
        self.write("a.jsonl", lines(records))
        self.tok("a.jsonl", out="lines")
        text = json.dumps(records, indent=1).encode()
        self.write("a.json", b" \n" + text + b"\n")
        self.write("b.json.gz", gzip.compress(text))
        half = lines(records[:20]).encode(), lines(records[20:]).encode()
        self.write("c.jsonl.gz", gzip.compress(half[0]) + gzip.compress(half[1]))
        for name, data in (("d.jsonl", half), ("e.json", (text,))):
            packed = b""
            for part in data:
                packed += subprocess.run(["zstd", "-c", "-q"], input=part, capture_output=True, check=True).stdout
            self.write(name + ".zst", packed)
        for name in ("a.json", "b.json.gz", "c.jsonl.gz", "d.jsonl.zst", "e.json.zst"):
            with self.subTest(name):
                self.tok(name)
                for end in (".bin", ".idx", ".bin.weights"):
                    self.assertEqual(self.read("out" + end), self.read("lines" + end))
        self.write("t.txt.gz", gzip.compress(b"some text"))
        self.write("t.txt", b"some text")
        self.tok("t.txt.gz", "t.txt", out="t")
        self.assertEqual(self.read("t.bin"), array.array("H", list(b"some text" * 2)).tobytes())
        whole = gzip.compress(text)
        for name, data, word in (("f.json.gz", whole[:-20], "ends early"), ("f.json.gz", text, "no gzip"),
                                 ("f.json.zst", self.read("e.json.zst")[:-9], "ends early"), ("f.json", text[:-9], "inside of a record"),
                                 ("f.json", b"{}", "named .jsonl"), ("f.json", text + b"x", "follows the array"),
                                 ("f.json", b"[{} {}]", "is expected behind a record"), ("f.parquet", b"PAR1", "Parquet")):
            with self.subTest(name + word):
                self.write(name, data)
                self.assertIn(word, self.tok(name, code=4, options=("--format", "text")).err)

    def test_train_on(self):
        self.assertEqual(self.one({"messages": TALK}, options=("--train-on", "last")),
                         self.WHOLE.replace("{Hello<|im_end|>}", "Hello<|im_end|>"))
        self.assertEqual(self.one({"messages": TALK}, options=("--train-on", "all")),
                         "{" + self.WHOLE.replace("{", "").replace("}", "") + "}")
        light = [dict(TALK[2], weight=0) if i == 2 else m for i, m in enumerate(TALK)]
        self.assertEqual(self.one({"messages": light}), self.WHOLE.replace("{Hello<|im_end|>}", "Hello<|im_end|>"))

    def test_generation(self):
        self.template(CHATML.replace("m.content + '<|im_end|>\n' }}",
                                     "'' }}{% generation %}{{ m.content }}{% endgeneration %}{{ '<|im_end|>\n' }}")
                      .replace("{% generation %}", "{% if m.role == 'assistant' %}{% generation %}")
                      .replace("{% endgeneration %}", "{% endgeneration %}{% else %}{{ m.content }}{% endif %}"))
        marked = self.WHOLE.replace("Hello<|im_end|>}", "Hello}<|im_end|>").replace("Ja<|im_end|>}", "Ja}<|im_end|>")
        self.assertEqual(self.one({"messages": TALK}), marked)
        self.assertEqual(self.one({"messages": TALK}, options=("--train-on", "last")), marked.replace("{Hello}", "Hello"))

    def test_thinking(self):
        """A template that rewrites earlier answers: what is learnt is found all the same."""
        self.template(THINKING)
        talk = [dict(m) for m in TALK]
        talk[2]["content"] = "<think>\nhm\n</think>\n\nHello"
        talk[4]["content"] = "<think>\nso\n</think>\n\nJa"
        want = self.WHOLE.replace("{Ja", "{<think>\nso\n</think>\n\nJa")
        self.assertEqual(self.one({"messages": talk}), want)
        self.assertEqual(self.one({"messages": TALK}), self.WHOLE.replace("{Ja", "{<think>\n\n</think>\n\nJa"))

    def test_rearranged(self):
        """Templates whose earlier text changes when messages follow: a system's words go to the last question (Mistral), and the
        whole ends with a token unless an answer is asked for (Phi)."""
        self.template("{% set system = messages[0].content %}<s>{% for m in messages[1:] %}{% if m.role == 'user' %}[{{ system + ': ' "
                      "if loop.index0 >= messages | length - 3 }}{{ m.content }}]<think>{% else %} {{ m.content }}</s>{% endif %}{% endfor %}")
        self.assertEqual(self.one({"messages": TALK}), "<s>[Hi]<think> {Hello</s>}[Be brief.: Zürich?]<think> {Ja</s>}"
                         .replace("[Be brief.: Zürich?]<think> {Ja", "[Be brief.: Zürich?]<think>{ Ja"))
        self.template(CHATML.replace("{% endif %}", "{% else %}{{ eos_token }}{% endif %}"))
        self.assertEqual(self.one({"messages": TALK}), self.WHOLE.replace("{Ja<|im_end|>}\n", "{Ja<|im_end|>\n</s>}"))

    def test_not_found(self):
        """A template that numbers its messages from the end: no prefix is one, and nothing is guessed."""
        self.template("{% for m in messages %}{{ m.role ~ loop.revindex ~ m.content }}{% endfor %}")
        self.write("a.jsonl", lines([{"messages": TALK}]))
        self.assertIn("a.jsonl:1: the answer of message 3 cannot be found", self.tok("a.jsonl", code=1).err)
        self.template("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}")
        self.assertIn("does not write the content", self.tok("a.jsonl", code=1).err)

    def test_length(self):
        long = [TALK[1], dict(TALK[2], content="x" * 100)]
        self.write("a.jsonl", lines([{"messages": TALK[1:3]}, {"messages": long}, {"messages": TALK[1:3]}]))
        r = self.tok("a.jsonl", options=("--max-length", "40", "--too-long", "drop"))
        self.assertEqual(len(self.documents()), 2)
        self.assertIn("0 documents cut, 1 dropped", r.out)
        r = self.tok("a.jsonl", options=("--max-length", "40"))
        self.assertIn("1 documents cut, 0 dropped", r.out)
        self.assertIn("3 answers, ", r.out)
        self.assertEqual(len(self.documents()[1].replace("<|im_start|>", "1").replace("<|im_end|>", "1")), 40 + 2)
        r = self.tok("a.jsonl", out="none", code=1, options=("--max-length", "10"))  # no answer is left
        self.assertIn("3 records were dropped: --max-length is below all of them", r.err)
        self.assertFalse([f for f in os.listdir(self.dir) if f.startswith("none")])

    def test_pairs(self):
        user, good, bad = TALK[1], dict(TALK[2], content="yes"), dict(TALK[2], content="no, no")
        for record in ({"prompt": [user], "chosen": [good], "rejected": [bad]},
                       {"chosen": [user, good], "rejected": [user, bad]},
                       {"prompt": "Hi", "chosen": "yes", "rejected": "no, no"},
                       {"prompt": "Hi", "chosen": [user, good], "rejected": [user, bad]},
                       {"instruction": "Hi", "chosen": "yes", "rejected": "no, no"},
                       {"conversations": [{"from": "human", "value": "Hi"}], "chosen": {"from": "gpt", "value": "yes"},
                        "rejected": {"from": "gpt", "value": "no, no"}}):
            with self.subTest(record):
                self.write("a.jsonl", lines([record] * 3))
                self.tok("a.jsonl")
                prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
                self.assertEqual(self.documents("out.chosen", "out.chosen.weights.bin"), [prompt + "{yes<|im_end|>}\n"] * 3)
                self.assertEqual(self.documents("out.rejected", "out.rejected.weights.bin"), [prompt + "{no, no<|im_end|>}\n"] * 3)
        self.write("m.mg", mgctest.TINY.replace("tokens[batch, seq] : token(vocab)",
                                                "tokens[batch, seq] : token(vocab), mask[batch, seq] : token(marks)")
                   .replace("dim hidden", "dim marks = 2, hidden")
                   .replace("next(tokens))", "next(tokens), select(next(mask) == 0, 0, 1))"))
        self.compiles("m.mg", "-D", "vocab=262", "-D", "seq=64", "-o", "train")
        self.trains("./train", "--data", "tokens=0:out.chosen.bin", "--data", "mask=0:out.chosen.weights.bin", "--steps", 2, "--out", "r")

    def test_labels(self):
        records = [{"messages": TALK, "label": i % 3 == 0} for i in range(10)]
        self.write("a.jsonl", lines(records))
        self.tok("a.jsonl")
        self.assertEqual(self.read("out.labels"), bytes(i % 3 == 0 for i in range(10)))
        self.assertEqual(self.documents("out", "out.weights.bin"), [self.WHOLE.replace("{Hello<|im_end|>}", "Hello<|im_end|>")] * 10)
        records = [{"prompt": p, "completion": c, "label": True} for p, c in (("Hi", "yes"), ("Oh", "no"), ("Hi", "not at all"))]
        self.write("b.jsonl", lines(records))
        self.tok("b.jsonl", out="b")
        turn = "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n{%s<|im_end|>}\n"
        self.assertEqual(self.documents("b.other", "b.other.weights.bin"),
                         [turn % x for x in (("Hi", "not at all"), ("Oh", "yes"), ("Hi", "no"))])
        self.write("b.jsonl", lines([dict(records[0], prompt="Hi" * 5), dict(records[2], prompt="Oh")]))
        self.tok("b.jsonl", out="b", options=("--max-length", "33"))  # which all records keep, and not both prompt and answer of two
        self.assertEqual(self.documents("b.other", "b.other.weights.bin")[0], turn.split("{", maxsplit=1)[0] % ("Hi" * 5) + "{not }")
        self.write("m.mg", mgctest.TINY.replace("tokens[batch, seq] : token(vocab)", "tokens[batch, seq] : token(vocab), "
                                                "mask[batch, seq] : token(marks), good[batch, one] : token(marks)")
                   .replace("dim hidden", "dim marks = 2, one = 1, hidden")
                   .replace("next(tokens))", "next(tokens), select(next(mask) == 0, 0, 1) * mean(select(good == 0, 0.5, 1), over one))"))
        self.compiles("m.mg", "-D", "vocab=262", "-D", "seq=200", "-o", "train")
        self.trains("./train", "--data", "tokens=0:out.bin", "--data", "mask=0:out.weights.bin", "--data", "good=u8:out.labels",
                    "--steps", 2, "--out", "r")
        self.write("a.jsonl", lines([{"prompt": "Hi", "completion": "yes", "label": True}, {"messages": TALK}]))
        self.assertIn("a.jsonl:2: is a conversation, and the first record", self.tok("a.jsonl", code=1).err)

    def test_killed_and_again(self):
        r = random.Random(1)
        records = [{"messages": [dict(TALK[1], content="u" * (i % 900)), dict(TALK[2], content="a" * (i % 700))]} for i in range(40000)]
        self.write("many.json.gz", gzip.compress(json.dumps(records).encode(), 1))
        self.write("many.jsonl", lines(records))
        self.tok("many.json.gz", "many.jsonl", out="whole")
        for _ in range(5):
            p = subprocess.Popen([mgctest.MGC, "tok", "--tokenizer", "tokenizer.json", "-o", "parts", "many.json.gz", "many.jsonl"],
                                 cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(r.uniform(0.1, 1.5))
            p.send_signal(signal.SIGKILL)
            p.wait()
        self.tok("many.json.gz", "many.jsonl", out="parts")
        for end in (".bin", ".idx", ".bin.weights"):
            self.assertEqual(self.read("whole" + end), self.read("parts" + end))
        self.assertFalse([f for f in os.listdir(self.dir) if ".part" in f])

    def test_templates_by_name(self):
        named = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": "{{ tools | tojson }}" + CHATML}]
        self.template(named)
        self.assertEqual(self.one({"messages": TALK}), self.WHOLE)
        self.assertEqual(self.one({"messages": TALK, "tools": [{"b": "é"}]}), '[{"b": "é"}]' + self.WHOLE)
        self.assertEqual(self.one({"messages": TALK}, options=("--template-name", "tool_use")), "null" + self.WHOLE)
        self.write("a.jsonl", lines([{"messages": TALK}]))
        self.assertIn("there are: default, tool_use", self.tok("a.jsonl", code=1, options=("--template-name", "x")).err)
        self.write("chat_template.jinja", "{{ bos_token }}" + CHATML)
        self.assertEqual(self.one({"messages": TALK}), "<s>" + self.WHOLE)
        self.write("mine.jinja", "{{ eos_token }}" + CHATML + "\n")
        self.assertEqual(self.one({"messages": TALK}, options=("--chat-template", "mine.jinja")), "</s>" + self.WHOLE)

    def test_calls(self):
        """Arguments of calls reach a template as it takes them: objects for tojson, JSON where it joins texts."""
        call = [{"type": "function", "id": "1", "function": {"name": "f", "arguments": '{"x": 1}'}}]
        talk = [TALK[1], {"role": "assistant", "content": None, "tool_calls": call}, {"role": "tool", "content": "2"},
                {"role": "assistant", "content": "two"}]
        form = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
                "{{ c.function.name + ARGS }}{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
        for args in ("(c.function.arguments | tojson)", "c.function.arguments"):
            self.template(form.replace("ARGS", args))
            self.assertIn('assistant\n{f{"x": 1}<|im_end|>}\n', self.one({"messages": talk}))
            sharegpt = [{"from": "human", "value": "Hi"}, {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
                        {"from": "observation", "value": "2"}, {"from": "gpt", "value": "two"}]
            self.assertIn('assistant\n{f{"x": 1}<|im_end|>}\n', self.one({"conversations": sharegpt, "tools": "[]"}))

    def test_refused(self):
        cases = [({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "a part of type 'image_url'"),
                 ({"messages": [{"content": "x"}]}, "message 1 has no role"), ({"messages": TALK[:2]}, "no answer"),
                 ({"messages": [{"role": "user"}]}, "message 1 has no content"), ({"messages": 3}, "no list under the key 'messages'"),
                 ({"conversations": [{"from": "alien", "value": "x"}]}, "from 'alien'"),
                 ({"instruction": 3, "output": "x"}, "no text under the key 'instruction'"),
                 ({"instruction": "a", "output": "x", "history": [["a"]]}, "turn 1 of the history"),
                 ({"messages": TALK, "tools": "{"}, "the tools are no list"), ({"x": 1}, "its keys are 'x'"),
                 ({"messages": TALK[2:3]}, "nothing comes before it")]
        for record, word in cases:
            with self.subTest(word):
                self.write("a.jsonl", "\n" + lines([record]))
                error = self.tok("a.jsonl", code=1).err
                self.assertIn(word, error)
                self.assertIn("a.jsonl", error)
        self.write("a.jsonl", lines([{"messages": TALK}]))
        for template, place, word in (("x\n{% for %}", "2:8", "name of a variable"), ("{{ a | nothing }}", "1:8", "'nothing' is not built"),
                                      ("{% include 'x' %}", "1:4", "'include' is not built"), ("{{ 'x' ", "1:1", "no end"),
                                      ("{% if x %}", "1:11", "'{% elif %}' is missing")):
            self.template(template)
            error = self.tok("a.jsonl", code=1).err
            self.assertIn(place, error)
            self.assertIn(word, error)
        self.template("{{ messages[0].x.y }}")
        self.assertIn("a.jsonl:1: 'x' is undefined", self.tok("a.jsonl", code=1).err)
        self.template("{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}")
        self.assertRegex(self.tok("a.jsonl", code=1).err, "more than|takes more")
        self.template("{{ raise_exception('not so') }}")
        self.assertIn("the template refuses it: not so", self.tok("a.jsonl", code=1).err)
        self.write("tokenizer_config.json", "{}")
        self.assertIn("no chat template", self.tok("a.jsonl", code=1).err)
        self.tok("a.jsonl", code=2, options=("--too-long", "cut"))
        self.tok("a.jsonl", code=2, options=("--json-key", "x", "--train-on", "last"))
        self.write("a.txt", "x")
        self.template(CHATML)
        self.assertIn("it has no conversations", self.tok("a.txt", code=4, options=("--format", "messages")).err)

    def test_golden_masks(self):
        """Tokens and masks of transformers, where tokens are merged and texts normalized (tests/tok/offsets.py --golden)."""
        with open(os.path.join(GOLDEN, "masks.json"), encoding="ascii") as f:
            golden = json.load(f)
        self.write("a.jsonl", lines({"messages": m} for m in golden["talks"]))
        self.write("t.jinja", golden["template"].encode())
        for name, want in golden["of"].items():
            r = self.mgc("tok", "--tokenizer", os.path.join(GOLDEN, name + ".json"), "--chat-template", "t.jinja", "-o", name, "a.jsonl")
            self.assertEqual(r.returncode, 0, r.err)
            self.assertEqual(list(array.array("H", self.read(name + ".bin"))), [i for ids, _ in want for i in ids])
            self.assertEqual(list(self.read(name + ".bin.weights")), [i for _, mask in want for i in mask])

    def test_golden_templates(self):
        """Constructs of Jinja with the texts that transformers' renderer makes of them (tests/tok/chat.py --golden)."""
        with open(os.path.join(GOLDEN, "chat.json"), encoding="utf-8") as f:
            cases = json.load(f)
        for case in cases:
            self.write("t.jinja", case["template"].encode())
            r = subprocess.run([RENDER, "t.jinja"], cwd=self.dir, input=lines(case["contexts"]), capture_output=True, text=True)
            got = [json.loads(x) for x in r.stdout.split("\n") if x]
            for context, want, have in zip(case["contexts"], case["texts"], got if r.returncode == 0 else got * len(case["texts"]),
                                           strict=True):
                with self.subTest(template=case["template"], context=context):
                    if want is None:
                        self.assertIn("error", have)
                    else:
                        self.assertEqual(have.get("text"), want, have)


if __name__ == "__main__":
    mgctest.main()
