"""operands - the texts of operands as functions that read or write them. A reader takes the machine and gives lanes (lanes.py)."""

import re

from . import lanes
from .lanes import M, each

REGISTER = re.compile(r"^([-~]?)(\|?)(U?R)(\d+|Z)\|?((?:\.\w+)*)$")
PREDICATE = re.compile(r"^(!?)(U?P)(\d+|T)$")
CONSTANT = re.compile(r"^([-~]?)c\[0x([0-9a-f]+)\]\[(?:(U?R)(\d+|Z)\+?)?(?:0x([0-9a-f]+))?\](?:\.\w+)*$")
NUMBER = re.compile(r"^(-?)0x([0-9a-f]+)$")
ADDRESS = re.compile(r"\[([^\[\]]*)\]$")


def registers(m, file):
    return m.U if file == "UR" else m.R


def reader(text):
    """Of 32 bits. A negated number is not cut to 32 bits: ~x + 1 has a carry where x is 0."""
    if n := NUMBER.match(text):
        value = -int(n.group(2), 16) & M if n.group(1) else int(n.group(2), 16) & M
        return lambda m: value
    if r := REGISTER.match(text):
        sign, absolute, file, number, mods = r.groups()
        if number == "Z":
            value = (M + 1 if sign == "-" else M if sign == "~" else 0)
            return lambda m: value
        i, uniform = int(number), file == "UR"
        if absolute or (mods and any(x in mods for x in (".H", ".B", ".F"))):
            return lambda m: None
        return signed_reader((lambda m: m.U[i]) if uniform else (lambda m: m.R[i]), sign)
    if c := CONSTANT.match(text):
        sign, bank, file, number, offset = c.groups()
        at = int(offset or "0", 16)
        if bank != "0":
            return lambda m: None
        if file is None or number == "Z":
            return signed_reader(lambda m: m.constant(at), sign)
        n = int(number)
        return signed_reader(lambda m: m.constant_at(registers(m, file)[n], at), sign)
    if text in ("PR", "SRZ") or PREDICATE.match(text):
        raise ValueError(text)
    return lambda m: None  # a number with a point


def signed_reader(read, sign):
    if sign == "-":
        return lambda m: each(lambda x: (x ^ M) + 1, read(m))
    if sign == "~":
        return lambda m: each(lambda x: x ^ M, read(m))
    return read


def next_register(text):
    """The operand that holds the high half of a pair."""
    if r := REGISTER.match(text):
        sign, absolute, file, number, mods = r.groups()
        return text if number == "Z" else f"{sign}{absolute}{file}{int(number) + 1}"
    if c := CONSTANT.match(text):
        return re.sub(r"0x([0-9a-f]+)\]$", lambda x: f"0x{int(x.group(1), 16) + 4:x}]", text)
    return "0x0"


def following(text, count):
    """The operands of `count` words, from one on."""
    out = [text]
    while len(out) < count:
        out.append(next_register(out[-1]))
    return out


def wide_reader(text):
    """Of 64 bits: a pair of registers. A number has no high half."""
    sign = text[0] if text[0] in "-~" and not NUMBER.match(text) else ""
    plain = text[len(sign):]
    low, high = reader(plain), reader(next_register(plain))

    def read(m):
        both = each(lambda a, b: a | b << 32, low(m), high(m))
        if sign == "-":
            return each(lambda x: -x & (1 << 64) - 1, both)
        return each(lambda x: x ^ (1 << 64) - 1, both) if sign else both
    return read


def is_predicate(text):
    return PREDICATE.match(text) is not None


def predicate_reader(text):
    negated, file, number = PREDICATE.match(text).groups()
    if number == "T":
        value = lanes.FALSE if negated else lanes.TRUE
        return lambda m: value
    i = int(number)
    if file == "UP":
        return (lambda m: lanes.not_(m.UP[i])) if negated else lambda m: m.UP[i]
    return (lambda m: lanes.not_(m.P[i])) if negated else lambda m: m.P[i]


def address_reader(text):
    """Of a memory operand: [R8.64+UR4+0x10], desc[UR4][R8.64], [R12]. 64 bits wide where its register is."""
    inside, terms = ADDRESS.search(text).group(1), []
    for term in filter(None, inside.split("+")):
        wide = ".64" in term
        plain = term.replace(".64", "").replace(".U32", "").replace(".X16", "").replace(".X8", "").replace(".X4", "")
        scale = 16 if ".X16" in term else 8 if ".X8" in term else 4 if ".X4" in term else 1
        if n := NUMBER.match(plain):
            value = int(n.group(2), 16) * (-1 if n.group(1) else 1)
            terms.append((lambda v: lambda m: v)(value))
        else:
            read = wide_reader(plain) if wide else reader(plain)
            terms.append(read if scale == 1 else (lambda r, s: lambda m: each(lambda x: x * s, r(m)))(read, scale))
    mask = (1 << 64) - 1 if ".64" in inside else M
    # In shared memory an address has 32 bits; a uniform register beside a wide one is wide itself.
    if ".64" in inside:
        terms = [wide_reader(t.replace(".64", "")) if t.startswith("UR") else r
                 for t, r in zip(filter(None, inside.split("+")), terms)]
    if not terms:
        return lambda m: 0
    if len(terms) == 1:
        return lambda m: each(lambda a: a & mask, terms[0](m))
    if len(terms) == 2:
        a, b = terms
        return lambda m: each(lambda x, y: x + y & mask, a(m), b(m))
    a, b, c = terms[:3]
    return lambda m: each(lambda x, y, z: x + y + z & mask, a(m), b(m), c(m))


def register_number(text):
    """(file, number); the number is None for RZ."""
    r = REGISTER.match(text)
    return r.group(3), None if r.group(4) == "Z" else int(r.group(4))


def writer(text, count=1):
    """Writes `count` registers from one on: a function of the machine, the mask of lanes and a list of lanes; of None all are unknown."""
    file, number = register_number(text)
    if number is None:
        return lambda m, mask, values: None
    uniform = file == "UR"

    def write(m, mask, values):
        to = m.U if uniform else m.R
        for k in range(count):
            new = None if values is None else values[k]
            if uniform:
                to[number + k] = next((x for i, x in enumerate(new) if mask >> i & 1), None) if new.__class__ is list else new
            else:
                to[number + k] = new if mask == lanes.ALL else lanes.merge(to[number + k], new, mask)
    return write


def predicate_writer(text):
    _, file, number = PREDICATE.match(text).groups()
    if number == "T":
        return lambda m, mask, value: None
    i = int(number)

    def write(m, mask, value):
        to = m.UP if file == "UP" else m.P
        if file == "UP":
            t, u = value[0] & mask, value[1] & mask
            value = lanes.UNKNOWN if u else lanes.TRUE if t else lanes.FALSE
            to[i] = value
        else:
            to[i] = lanes.merge_predicate(to[i], value, mask)
    return write
