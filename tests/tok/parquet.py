#!/usr/bin/env python3
"""Writes golden/parquet.tar.xz with pyarrow: the same records as Parquet in many ways, and as lines of JSON.

Use: parquet.py. The tests need no pyarrow (tests/e2e/test_parquet.py).
"""

import io
import json
import os
import random
import tarfile

import pyarrow
import pyarrow.parquet

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden/parquet.tar.xz")
WORDS = "a it's \u00e9t\u00e9 \u4e16\u754c \U0001f600 \"x\" back\\slash tab\t line\n {} [] 12345 the quick brown fox".split(" ")
TEXT = pyarrow.schema([("id", pyarrow.int32()), ("text", pyarrow.string()), ("at", pyarrow.timestamp("us")), ("raw", pyarrow.binary())])
PART = pyarrow.struct([("key", pyarrow.string()), ("n", pyarrow.list_(pyarrow.int64()))])
MESSAGE = pyarrow.struct([
    pyarrow.field("role", pyarrow.string(), nullable=False), ("content", pyarrow.string()), ("n", pyarrow.int64()),
    ("u", pyarrow.uint32()), ("x", pyarrow.float64()), ("f", pyarrow.float32()), ("ok", pyarrow.bool_()),
    ("tags", pyarrow.list_(pyarrow.list_(pyarrow.string()))), ("sub", pyarrow.struct([("parts", pyarrow.list_(PART)), ("deep", PART)]))])
CHAT = pyarrow.schema([("messages", pyarrow.list_(MESSAGE)), ("source", pyarrow.string())])
TURN = pyarrow.struct([("from", pyarrow.string()), ("value", pyarrow.string())])
SHARE = pyarrow.schema([("system", pyarrow.string()), ("conversations", pyarrow.list_(TURN))])


def some(r, make, least=0):
    return [make() for _ in range(r.randrange(least, 4))]


def perhaps(r, v):
    return None if r.random() < 0.3 else v


def text(r):
    return " ".join(r.choice(WORDS) for _ in range(r.randrange(8)))


def part(r):
    return {"key": perhaps(r, text(r)), "n": perhaps(r, some(r, lambda: perhaps(r, r.randrange(-2**40, 2**40))))}


def message(r, i):
    return {"role": ("user", "assistant")[i % 2], "content": text(r), "n": perhaps(r, r.randrange(-2**63, 2**63)),
            "u": perhaps(r, r.randrange(2**32)), "x": perhaps(r, r.choice((r.random() * 1e9, 1.0, -1e300, 0.1))),
            "f": perhaps(r, r.randrange(-64, 64) / 16), "ok": perhaps(r, r.random() < 0.5),
            "tags": perhaps(r, some(r, lambda: perhaps(r, some(r, lambda: perhaps(r, r.choice(WORDS)))))),
            "sub": perhaps(r, {"parts": perhaps(r, some(r, lambda: perhaps(r, part(r)))), "deep": perhaps(r, part(r))})}


def share(r):
    turns = [{"from": ("human", "gpt")[i % 2], "value": text(r)} for i in range(2 * r.randrange(1, 3))]
    return {"system": perhaps(r, text(r)), "conversations": turns}


def packed(table, **options):
    f = io.BytesIO()
    pyarrow.parquet.write_table(table, f, **options)
    return f.getvalue()


def main():
    r = random.Random(5)
    sets = {
        "text": (TEXT, [{"id": i, "text": text(r), "at": perhaps(r, i * 10**9), "raw": perhaps(r, b"\xff\x00")} for i in range(40)]),
        "chat": (CHAT, [{"messages": [message(r, i) for i in range(2 * r.randrange(1, 3))], "source": perhaps(r, text(r))} for _ in range(12)]),
        "share": (SHARE, [share(r) for _ in range(20)])}
    files = {}
    for name, (schema, records) in sets.items():
        lines = [json.dumps({k: None if isinstance(v, bytes) else v for k, v in x.items()}) for x in records]
        files[name + ".jsonl"] = "".join(x + "\n" for x in lines).encode()
        table = pyarrow.Table.from_pylist(records, schema=schema)
        for codec in ("NONE", "SNAPPY", "GZIP", "ZSTD"):
            for version in ("1.0", "2.0"):
                for dictionary in (False, True):
                    if name != "chat" or codec in ("NONE", "SNAPPY") or dictionary:
                        files[f"{name}-{codec}-v{version[0]}-{'dict' if dictionary else 'plain'}.parquet"] = packed(
                            table, compression=codec, data_page_version=version, use_dictionary=dictionary, row_group_size=7,
                            data_page_size=64, write_batch_size=3, write_statistics=False, write_page_checksum=dictionary, store_schema=False)
        ways = {("messages.list.element." if name == "chat" else "") + k: v for k, v in (
            {"chat": {"content": "DELTA_BYTE_ARRAY", "x": "BYTE_STREAM_SPLIT", "f": "BYTE_STREAM_SPLIT", "n": "DELTA_BINARY_PACKED", "u": "DELTA_BINARY_PACKED", "role": "DELTA_LENGTH_BYTE_ARRAY"},
             "text": {"text": "DELTA_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"}}.get(name, {})).items()}
        ways = ways or {"conversations.list.element.value": "DELTA_LENGTH_BYTE_ARRAY"}
        files[name + "-delta.parquet"] = packed(table, use_dictionary=False, column_encoding=ways, data_page_version="2.0", store_schema=False)
        files[name + "-legacy.parquet"] = packed(table, use_compliant_nested_type=False, version="1.0", coerce_timestamps="us")
    few = pyarrow.table({"text": ["a", "b"], "x": [1.5, 2.5]})
    files["refused-LZ4.parquet"] = packed(few, compression="LZ4")
    files["refused-BROTLI.parquet"] = packed(few, compression="BROTLI")
    files["refused-INT96.parquet"] = packed(pyarrow.table({"text": ["a"], "t": pyarrow.array([1], pyarrow.timestamp("ns"))}),
                                            use_deprecated_int96_timestamps=True)
    files["refused-map.parquet"] = packed(pyarrow.table({"m": pyarrow.array([[("a", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64()))}))
    files["refused-FIXED.parquet"] = packed(pyarrow.table({"d": pyarrow.array([b"abc"], pyarrow.binary(3))}))
    with tarfile.open(OUT, "w:xz", preset=9) as tar:
        for name, data in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    print(len(files), "files", sum(map(len, files.values())), "bytes", os.path.getsize(OUT), "packed")


main()
