"""cubin - what a cubin (ELF) says of its kernels: registers, shared memory, frame, and where parameters lie.

The attributes are those of the sections .nv.info (of all kernels) and .nv.info.KERNEL: a format byte, a name byte and a
half word, which with format 4 is the number of bytes that follow."""

import struct
from collections import namedtuple

# name; machine: 90 for sm_90; registers of a thread; shared: static bytes of a block, without what CUDA reserves; frame: bytes of
# local memory of a thread; base: where parameters begin in constant bank 0; params: (offset, bytes) of each.
Kernel = namedtuple("Kernel", "name machine registers shared frame base params")

REGCOUNT, FRAME_SIZE, PARAM_CBANK, KPARAM_INFO = 0x2F, 0x11, 0x0A, 0x17
SIZED = 4
RESERVED = 1024  # of shared memory for each block, from compute capability 8.0 on


class BadCubin(Exception):
    pass


def sections(data):
    """Name, bytes and size of each section."""
    if data[:4] != b"\x7fELF" or data[4] != 2:
        raise BadCubin("not a 64-bit ELF file")
    at, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, at + size * i) for i in range(count)]
    text = heads[names][4]
    for name, kind, _, _, offset, length, _, info, _, _ in heads:
        word = data[text + name:data.index(b"\0", text + name)].decode()
        yield word, b"" if kind == 8 else data[offset:offset + length], length, info


def attributes(data):
    at = 0
    while at + 4 <= len(data):
        form, name, value = struct.unpack_from("<BBH", data, at)
        at += 4
        payload = data[at:at + value] if form == SIZED else b""
        at += len(payload)
        yield name, payload


def symbols(data):
    table = {name: part for name, part, _, _ in sections(data) if name in (".symtab", ".strtab")}
    text = table[".strtab"]
    found = []
    for at in range(0, len(table[".symtab"]), 24):
        name, = struct.unpack_from("<I", table[".symtab"], at)
        found.append(text[name:text.index(b"\0", name)].decode())
    return found


def kernels(data):
    """The kernels of a cubin, by name."""
    flags, = struct.unpack_from("<I", data, 0x30)
    machine = flags & 0xFF if data[7] < 65 and flags & 0xFF >= 50 else flags >> 8 & 0xFF
    names, found, registers, frames, shared = symbols(data), {}, {}, {}, {}
    parts = list(sections(data))
    for section, part, length, _ in parts:
        if section.startswith(".nv.shared."):
            shared[section[len(".nv.shared."):]] = length
        if section == ".nv.info":
            for name, payload in attributes(part):
                if name in (REGCOUNT, FRAME_SIZE):
                    symbol, value = struct.unpack("<II", payload[:8])
                    (registers if name == REGCOUNT else frames)[names[symbol]] = value
    for section, part, _, _ in parts:
        if not section.startswith(".nv.info."):
            continue
        kernel, base, params = section[len(".nv.info."):], 0, {}
        for name, payload in attributes(part):
            if name == PARAM_CBANK:
                base, = struct.unpack_from("<H", payload, 4)
            if name == KPARAM_INFO:
                _, ordinal, offset, bits = struct.unpack("<IHHI", payload)
                params[ordinal] = (offset, bits >> 18)
        own = shared.get(kernel, 0)
        found[kernel] = Kernel(kernel, machine, registers.get(kernel, 0), own - RESERVED if machine >= 90 and own >= RESERVED else own,
                               frames.get(kernel, 0), base, [params[i] for i in sorted(params)])
    return found
