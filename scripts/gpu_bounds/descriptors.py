"""descriptors - where the fields of the runtime's descriptors lie, read from its headers, so that they say so alone."""

import functools
import os
import re

RUNTIME = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "runtime")
HEADERS = ("abi.h", "abi_types.h")
BYTES = {"mg_dtype": 4, "int": 4, "int32_t": 4, "float": 4, "int64_t": 8, "double": 8, "bool": 1}


@functools.lru_cache(maxsize=None)
def layout(name):
    """(offset of each field, bytes of all), by the alignment that every 64-bit C compiler has: each number at a multiple of its size.
    A struct that is not there, or has a field of another type, is an error."""
    text = ""
    for header in HEADERS:
        with open(os.path.join(RUNTIME, header), encoding="ascii") as file:
            text += re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    body = re.search(rf"typedef struct {name} \{{([^}}]*)\}}", text)
    if not body:
        raise KeyError(f"{name} is in none of {', '.join(HEADERS)}")
    fields, end, most = {}, 0, 1
    for line in filter(None, (s.strip() for s in body[1].split(";"))):
        kind, names = line.split(None, 1)
        size = BYTES[kind]
        most = max(most, size)
        for field, many in re.findall(r"(\w+)\s*(?:\[(\d+)\])?\s*(?:,|$)", names):
            fields[field] = (end + size - 1) // size * size
            end = fields[field] + size * int(many or 1)
    return fields, (end + most - 1) // most * most


def at(name, *fields):
    """Their offsets in bytes."""
    return tuple(layout(name)[0][f] for f in fields)
