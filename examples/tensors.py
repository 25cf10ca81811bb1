"""Safetensors files by the standard library alone: a length, a header of JSON, the numbers."""

import array
import json
import struct

KINDS = {"F32": "f", "F64": "d", "I32": "i", "U8": "B"}


def write(path, tensors):
    """tensors: name -> (type, shape, array.array), the type one of KINDS."""
    header, at = {}, 0
    for name, (kind, shape, values) in tensors.items():
        size = len(values) * values.itemsize
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, values in tensors.values():
            values.tofile(f)


def read(path):
    """name -> (shape, array.array)."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, end = (8 + size + place for place in entry["data_offsets"])
            tensors[name] = entry["shape"], array.array(KINDS[entry["dtype"]], data[first:end])
    return tensors
