"""Tensors of safetensors files, as arrays of numpy that lie in the files (memory maps)."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mgc._errors import CheckpointError

if TYPE_CHECKING:
    import numpy

HEADER_MOST = 100_000_000  # bytes, as the format has it

# The format's types: numpy's name, and bytes of a number. numpy has no bf16 and no numbers of 8 bits: those are read as they are stored.
TYPES = {"F64": ("<f8", 8), "F32": ("<f4", 4), "F16": ("<f2", 2), "BF16": ("<u2", 2), "I64": ("<i8", 8), "I32": ("<i4", 4), "I16": ("<i2", 2),
         "I8": ("i1", 1), "U64": ("<u8", 8), "U32": ("<u4", 4), "U16": ("<u2", 2), "U8": ("u1", 1), "BOOL": ("?", 1),
         "F8_E4M3": ("u1", 1), "F8_E5M2": ("u1", 1), "F8_E8M0": ("u1", 1)}


@dataclass(frozen=True)
class Place:
    """One tensor: its type as the format names it, its shape, and its first byte in the file."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    begin: int


def read_header(path: str) -> tuple[dict[str, Place], dict[str, str]]:
    """Tensors and metadata of a file. All numbers are checked against the size of the file."""

    def wrong(why: str) -> CheckpointError:
        return CheckpointError(f"{path}: {why}")

    try:
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            head = f.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else HEADER_MOST + 1
            if length > min(HEADER_MOST, size - 8):
                raise wrong("this is no safetensors file, or it is cut off")
            text = f.read(length)
    except OSError as e:
        raise wrong(e.strerror or str(e)) from None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong("its header is no JSON") from None
    if not isinstance(header, dict):
        raise wrong("its header is no object")
    metadata = header.pop("__metadata__", {})
    places: dict[str, Place] = {}
    for name, t in header.items():
        try:
            dtype, shape, (begin, end) = t["dtype"], tuple(t["shape"]), t["data_offsets"]
            good = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        except (TypeError, KeyError, ValueError):
            raise wrong(f"'{name}' has no dtype, shape and data_offsets") from None
        if not isinstance(dtype, str) or dtype not in TYPES:
            raise wrong(f"'{name}' is of type {dtype!r}, which is not known")
        if not good or end > size - 8 - length or end - begin != math.prod(shape) * TYPES[dtype][1]:
            raise wrong(f"'{name}' has bytes {begin} to {end}, which are not those of its shape {list(shape)}, or outside of the file")
        places[name] = Place(path, dtype, shape, 8 + length + begin)
    return places, metadata if isinstance(metadata, dict) else {}


class Tensors(Mapping[str, "numpy.ndarray[Any, Any]"]):
    """Tensors by name. Names, types and shapes take no numpy; an array is mapped when it is asked for, and read as it is used.

    A tensor of bf16 becomes a copy in float32, which holds each bf16 exactly. Numbers of 8 bits (F8_E4M3, ...) have no array but
    that of raw()."""

    def __init__(self, places: dict[str, Place], metadata: dict[str, str]) -> None:
        self._places, self.metadata = places, metadata

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<mgc.Tensors: {len(self)}>"

    def dtype(self, name: str) -> str:
        """The type as the file names it: "F32", "BF16", ..."""
        return self._places[name].dtype

    def shape(self, name: str) -> tuple[int, ...]:
        return self._places[name].shape

    def raw(self, name: str) -> numpy.ndarray[Any, Any]:
        """The stored numbers, read only and not copied: bf16 as uint16, numbers of 8 bits as uint8."""
        import numpy
        p = self._places[name]
        kind = numpy.dtype(TYPES[p.dtype][0])
        if 0 in p.shape:
            return numpy.empty(p.shape, kind)
        return numpy.memmap(p.path, kind, "r", p.begin, p.shape if p.shape else (1,)).reshape(p.shape)

    def __getitem__(self, name: str) -> numpy.ndarray[Any, Any]:
        import numpy
        dtype, stored = self._places[name].dtype, self.raw(name)
        if dtype == "BF16":
            return (stored.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)
        if dtype.startswith("F8"):
            raise CheckpointError(f"'{name}' is of type {dtype}, which numpy does not have: raw({name!r}) gives its bytes")
        return stored


def files_of(path: str, part: str) -> list[str]:
    """The files of a part of a directory: one, or those that its index names."""
    index = os.path.join(path, f"{part}.safetensors.index.json")
    if not os.path.exists(index):
        return [os.path.join(path, f"{part}.safetensors")]
    try:
        with open(index, encoding="utf-8") as f:
            names = sorted(set(json.load(f)["weight_map"].values()))
        if not all(isinstance(n, str) and os.path.basename(n) == n for n in names):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{index}: this is no index of files beside it") from None
    return [os.path.join(path, n) for n in names]


def load(path: str | os.PathLike[str], part: str = "model") -> Tensors:
    """The tensors of a checkpoint (run/ckpt/step-00000400), an export or a Hugging Face directory, or of one safetensors file.
    `part`: of a directory "model", or "optimizer". Raises CheckpointError where a file is missing or damaged."""
    path = os.fspath(path)
    places: dict[str, Place] = {}
    metadata: dict[str, str] = {}
    for file in files_of(path, part) if os.path.isdir(path) else [path]:
        these, about = read_header(file)
        twice = places.keys() & these.keys()
        if twice:
            raise CheckpointError(f"{file}: '{min(twice)}' is in another file, too")
        places.update(these)
        metadata.update(about)
    return Tensors(places, metadata)
