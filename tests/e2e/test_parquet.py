"""mgc tok of Parquet that pyarrow wrote (tests/tok/parquet.py): the records are those of the same lines of JSON."""

import json
import os
import random
import subprocess
import tarfile

import mgctest
from test_chat import byte_tokenizer

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tok/golden/parquet.tar.xz")
ROWS = os.path.join(mgctest.BUILD, "bin/parquet_rows")
# All that a message says, so that each of its columns counts.
ALL = "{% for m in messages %}{{ m | tojson }}{% endfor %}"


class ParquetFiles(mgctest.Case):
    def setUp(self):
        super().setUp()
        with tarfile.open(GOLDEN) as tar:
            self.files = {m.name: tar.extractfile(m).read() for m in tar}
        for name, data in self.files.items():
            self.write(name, data)
        self.write("tokenizer.json", json.dumps(byte_tokenizer()))
        self.write("tokenizer_config.json", json.dumps({"chat_template": ALL}))

    def of(self, kind):
        return [n for n in self.files if n.startswith(kind + "-")]

    def tok(self, *files, out="out", code=0, options=()):
        r = self.mgc("tok", "--tokenizer", "tokenizer.json", "-o", out, *options, *files)
        self.assertEqual(r.returncode, code, r.err)
        return r

    def rows(self, *files, skip=0):
        """Of each file its rows, and what is wrong with it."""
        r = subprocess.run([ROWS, str(skip), *files], cwd=self.dir, capture_output=True, timeout=300)
        self.assertEqual(r.returncode, 0, r.stderr)
        found, some = [], []
        for line in r.stdout.split(b"\n")[:-1]:
            if line.startswith(b"-"):
                found.append((some, line[1:].decode()))
                some = []
            else:
                some.append(json.loads(line))
        return found

    def test_same_bytes(self):
        """Codecs, versions of pages, dictionaries, deltas, groups of rows: the tokens of the lines, as the formats are found by themselves."""
        for kind in ("text", "chat", "share"):
            options = ("--train-on", "all") if kind != "text" else ()
            self.tok(kind + ".jsonl", out=kind, options=options)
            self.assertGreater(len(self.read(kind + ".bin")), 1000)
            for name in self.of(kind):
                with self.subTest(name):
                    self.tok(name, options=options)
                    for end in (".bin", ".idx") + ((".bin.weights",) if options else ()):
                        self.assertEqual(self.read("out" + end), self.read(kind + end))

    def test_same_records(self):
        for kind, n in (("text", 17), ("chat", 3), ("share", 10)):
            want = [json.loads(line) for line in self.files[kind + ".jsonl"].splitlines()]
            if kind == "text":
                self.assertTrue(any(w["at"] for w in want))
            for skip in (0, 1, 7, 8, n, len(want) - 1, len(want)):
                for name, (got, why) in zip(self.of(kind), self.rows(*self.of(kind), skip=skip), strict=True):
                    with self.subTest(name):
                        self.assertEqual((got, why), (want[skip:], ""))
            ((got, why),) = self.rows(self.of(kind)[0], skip=len(want) + 1)
            self.assertIn("shorter", why)

    def test_refused(self):
        for name, word in (("LZ4", "LZ4"), ("BROTLI", "BROTLI"), ("INT96", "'t' is of type INT96"),
                           ("map", "'m' is a map"), ("FIXED", "'d' is of type FIXED_LEN_BYTE_ARRAY")):
            with self.subTest(name):
                r = self.tok(f"refused-{name}.parquet", code=4, options=("--format", "text"))
                self.assertIn(word, r.err)
                self.assertIn(f"refused-{name}.parquet", r.err)
        data = self.files["text-NONE-v1-plain.parquet"]
        for name, bytes_, word in (("a.parquet", data[:-1], "no Parquet file"), ("a.parquet", data[:-4] + b"PARE", "encrypted"),
                                   ("a.parquet", data[:-8] + b"\xff\xff\xff\x7fPAR1", "damaged"), ("a.parquet", b"", "no Parquet file"),
                                   ("a.parquet.gz", data, "unpack it")):
            with self.subTest(word):
                self.write(name, bytes_)
                self.assertIn(word, self.tok(name, code=4, options=("--format", "text")).err)

    def test_a_record_by_its_number(self):
        self.assertIn("text-NONE-v1-plain.parquet: record 1: no text under the key 'at'",
                      self.tok("text-NONE-v1-plain.parquet", code=1, options=("--json-key", "at")).err)

    def test_damaged(self):
        """Copies cut short, and with bytes flipped: read, or refused with a reason, never a crash; a sum shows a changed page."""
        r = random.Random(3)
        names = [n for n in self.files if n.endswith(".parquet")]
        some = []
        for i in range(300):
            data = bytearray(self.files[r.choice(names)])
            tail = r.random() < 0.5  # in the footer
            for _ in range(r.choice((1, 1, 2, 8))):
                data[-r.randrange(1, min(len(data), 1500)) if tail else r.randrange(len(data))] = r.choice((0, 255, r.randrange(256)))
            if not i % 5:
                at = r.randrange(len(data))
                del data[at:at + r.randrange(1, 64)]
            if not i % 7:
                del data[r.randrange(len(data)):]
            self.write(f"d{i}.parquet", bytes(data))
            some.append(f"d{i}.parquet")
        found = self.read_each(some)
        self.assertGreater(sum(why != "" for why in found), 100)
        data = bytearray(self.files["text-ZSTD-v2-dict.parquet"])
        data[40] ^= 1
        self.write("sum.parquet", bytes(data))
        self.assertIn("damaged", self.tok("sum.parquet", code=4).err)

    def read_each(self, files):
        """What is wrong with each, of which the rows may be no JSON."""
        r = subprocess.run([ROWS, "0", *files], cwd=self.dir, capture_output=True, timeout=600)
        self.assertEqual(r.returncode, 0, r.stderr[-3000:])
        found = [line[1:] for line in r.stdout.split(b"\n") if line.startswith(b"-")]
        self.assertEqual(len(found), len(files))
        return [f.decode(errors="replace") for f in found]


if __name__ == "__main__":
    mgctest.main()
