"""Token files as inputs by name: beside tables (a picture and its caption), and several of them (a text and its translation)."""

import array
import random
import struct

import mgctest
from test_data import llmc, megatron
from test_inputs import safetensors

# A caption after its picture: token 0 fills rows up.
CAPTION = """dim batch = 8, pixels = 6, seq = 5, hidden = 8, vocab = 20
model caption(image[batch, pixels], tokens[batch, seq] : token(vocab)) {
    table : param[vocab, hidden]  ~ normal(0.2)
    look  : param[pixels, hidden] ~ normal(0.2)
    x = tanh(table[tokens] + image @ look over pixels)
    answer = next(tokens)
    loss = cross_entropy(x @ table over hidden, answer, select(answer == 0, 0, 1))
}
train { optimizer adamw()  lr 0.01 }
layout {
    device cpu
    mesh dp = 1
    batch -> dp
    microbatch 2
}
"""
PAIRS = """dim batch = 8, source = 4, seq = 5, hidden = 8, vocab = 20, words = 30
model pairs(text[batch, source] : token(vocab), target[batch, seq] : token(words)) {
    from : param[vocab, hidden] ~ normal(0.2)
    into : param[words, hidden] ~ normal(0.2)
    x = tanh(into[target] + mean(from[text], over source))
    answer = next(target)
    loss = cross_entropy(x @ into over hidden, answer, select(answer == 0, 0, 1))
}
train { optimizer adamw()  lr 0.01 }
"""
ROWS = 37


def sentences(seed, most, vocab):
    r = random.Random(seed)
    return [[r.randrange(1, vocab) for _ in range(r.randrange(2, most + 1))] for _ in range(ROWS)]


def filled(rows, n):
    return [row + [0] * (n - len(row)) for row in rows]


def flat(rows):
    return [t for row in rows for t in row]


def table(**inputs):
    return safetensors({name: ("I32", [ROWS, len(rows[0])], array.array("i", flat(rows)).tobytes()) for name, rows in inputs.items()})


class Streams(mgctest.Case):
    def indexed(self, name, rows):
        index, tokens = megatron(rows, 8)
        self.write(name + ".idx", index)
        self.write(name + ".bin", tokens)

    def same(self, program, ways, *more):
        """Runs that read the same rows from other files, and one that is interrupted, end with the same bytes."""
        ends = []
        for i, way in enumerate(ways):
            run = (program, *flat([("--data", w) for w in way]), *more, "--out", f"r{i}")
            if i:
                self.trains(*run, "--steps", 5)
                self.trains(*run, "--steps", 12, "--resume")
            else:
                self.trains(*run, "--steps", 12)
            ends.append((self.read(f"r{i}/ckpt/step-00000012/model.safetensors"), [m.get("val_loss") for m in self.metrics(f"r{i}")][-1]))
        for i, end in enumerate(ends):
            self.assertEqual(end[0], ends[0][0], ways[i])
            self.assertEqual(end[1], ends[0][1], ways[i])

    def picture(self):
        r = random.Random(3)
        return ("F32", [ROWS, 6], struct.pack(f"<{6 * ROWS}f", *(r.gauss(0, 1) for _ in range(6 * ROWS))))

    def test_captions(self):
        rows = sentences(1, 6, 20)
        whole = filled(rows, 6)
        self.write("m.mg", CAPTION)
        self.write("both.safetensors", safetensors({"image": self.picture(), "tokens": (
            "I32", [ROWS, 6], array.array("i", flat(whole)).tobytes())}))
        self.write("image.safetensors", safetensors({"image": self.picture()}))
        self.indexed("words", rows)
        self.write("words.raw", array.array("H", flat(whole)).tobytes())
        self.write("words.llmc", llmc(flat(whole)))
        for i, part in enumerate((rows[:20], rows[20:])):
            self.indexed(f"part{i}", part)
        ways = [("both.safetensors",), ("image.safetensors", "tokens=0:words.bin"), ("tokens=u16:words.raw", "image.safetensors"),
                ("image.safetensors", "tokens=words.llmc"), ("image.safetensors", "tokens=0:part?.bin")]
        self.compiles("m.mg", "-o", "one")
        self.same("./one", ways, "--val-fraction", 0.2)
        self.compiles("m.mg", "-D", "dp=2", "-o", "two")
        self.same("./two", ways[:2], "--val-fraction", 0.2)

    def test_two_streams(self):
        text, target = sentences(1, 4, 20), sentences(2, 6, 30)
        self.write("m.mg", PAIRS)
        self.write("both.safetensors", table(text=filled(text, 4), target=filled(target, 6)))
        self.indexed("en", text)
        self.indexed("de", target)
        self.compiles("m.mg", "-o", "one")
        self.same("./one", [("both.safetensors",), ("text=0:en.bin", "target=0:de.bin")], "--val-fraction", 0.2)

    def test_what_does_not_fit(self):
        rows = sentences(1, 6, 20)
        self.write("m.mg", CAPTION)
        self.compiles("m.mg", "-o", "train")
        self.write("image.safetensors", safetensors({"image": self.picture()}))
        self.indexed("words", rows)
        self.indexed("fewer", rows[:-1])
        self.indexed("longer", rows[:-1] + [[1] * 7])
        self.indexed("other", rows[:-1] + [[20]])
        self.write("odd.raw", array.array("H", [1] * 37).tobytes())
        image = "image.safetensors"
        for data, code, word in (
                ((image, "tokens=0:fewer.bin"), 65, "tokens has 36 records, and the tables 37: record i of each belongs together"),
                ((image, "tokens=0:longer.bin"), 65, "record 36 has 7 tokens; a row of tokens has 6"),
                ((image, "tokens=words.bin"), 65, "say which token fills it up, as in tokens=0:words.bin"),
                ((image, "tokens=0:other.bin"), 65, "is 20; the vocabulary has 20"),
                ((image, "tokens=u16:odd.raw"), 65, "37 tokens and no index: rows of 6 (input tokens) leave 1 over"),
                ((image, "tokens=20:words.bin"), 2, "the token that fills rows up is 0 to 19"),
                ((image, "image=0:words.bin"), 2, "the input image has numbers"),
                ((image, "words=0:words.bin"), 2, "this program has no input 'words'; its inputs are image, tokens"),
                ((image, "0.5:words.bin"), 2, "have no weights"),
                (("tokens=0:words.bin",), 2, "no file has the input 'image'"),
                ((image,), 65, "has no tensor 'tokens'")):
            with self.subTest(data=data):
                r = self.trains("./train", *flat([("--data", d) for d in data]), "--steps", 1, "--out", "none", code=code)
                self.assertIn(word, r.err)


if __name__ == "__main__":
    mgctest.main()
