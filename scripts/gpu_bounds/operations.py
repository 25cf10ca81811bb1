"""operations - integer instructions of SASS as functions of lanes.

Only what decides which instructions run and which addresses they use is computed: integers, predicates, and the reciprocals that
divisions of integers begin with. All other results are unknown. make(ins) gives a function of the machine and the mask of lanes.
NVIDIA documents names alone of these instructions; what they do is inferred from code whose meaning is known, and is tested on
such code (tests/gpu_bounds), where every address must be inside of the program's memory."""

import math
import struct

from . import lanes
from .lanes import M, each, signed
from .operands import (is_predicate, predicate_reader, predicate_writer, reader, register_number, wide_reader, writer)


def split(operands):
    """Destination, predicates written, sources, predicates read at the end."""
    to, rest = operands[0], operands[1:]
    outs = []
    while rest and is_predicate(rest[0]) and not rest[0].startswith("!"):
        outs.append(rest.pop(0))
    ins = []
    while rest and is_predicate(rest[-1]):
        ins.insert(0, rest.pop())
    return to, outs, rest, ins


def write_sum(to, outs, total, wide=False):
    """A sum with carries: the first predicate is whether there is one, the second whether there are two."""
    put, carry = writer(to, 2 if wide else 1), [predicate_writer(o) for o in outs]
    bits = 64 if wide else 32

    def run(m, mask):
        x = total(m)
        if wide:
            put(m, mask, None if x is None else [each(lambda v: v & M, x), each(lambda v: v >> 32 & M, x)])
        else:
            put(m, mask, [each(lambda v: v & M, x)])
        for k, c in enumerate(carry):
            c(m, mask, lanes.mask_of(each(lambda v: int(v >> bits > k), x)))
    return run


def carries(ins):
    reads = [predicate_reader(p) for p in ins]
    if not reads:
        return lambda m: 0
    if len(reads) == 1:
        return lambda m: lanes.bits_of(reads[0](m))
    return lambda m: each(lambda a, b: a + b, lanes.bits_of(reads[0](m)), lanes.bits_of(reads[1](m)))


def add3(i):
    to, outs, rest, ins = split(i.operands)
    if "64" in i.mods:
        wide = [wide_reader(r) for r in rest if r not in ("RZ", "URZ")]
        return write_sum(to, outs, lambda m: each(lambda *x: sum(x) & (1 << 64) - 1, *(w(m) for w in wide)), wide=True)
    sources, carry = [reader(r) for r in rest] + [lambda m: 0] * (3 - len(rest)), carries(ins)
    a, b, c = sources
    return write_sum(to, outs, lambda m: each(lambda x, y, z, k: x + y + z + k, a(m), b(m), c(m), carry(m)))


def multiply(i):
    to, outs, rest, ins = split(i.operands)
    wide, high, unsigned = "WIDE" in i.mods, "HI" in i.mods, "U32" in i.mods
    a, b = reader(rest[0]), reader(rest[1])
    c = wide_reader(rest[2]) if wide or high else reader(rest[2])
    carry = carries(ins)
    if wide or high:
        def product(x, y, z, k):
            x, y = x & M, y & M
            if not unsigned:
                return (signed(x) * signed(y) & (1 << 64) - 1) + z + k
            return x * y + z + k
        total = lambda m: each(product, a(m), b(m), c(m), carry(m))
        if wide:
            return write_sum(to, outs, total, wide=True)
        put = writer(to)
        return lambda m, mask: put(m, mask, [each(lambda v: v >> 32 & M, total(m))])
    if "X" in i.mods:  # only ever a sum
        return write_sum(to, outs, lambda m: each(lambda x, y, z, k: (x * y & M) + z + k, a(m), b(m), c(m), carry(m)))
    return write_sum(to, outs, lambda m: each(lambda x, y, z: (x * y & M) + z, a(m), b(m), c(m)))


def lea(i):
    to, outs, rest, ins = split(i.operands)
    carry, high, extend = carries(ins), "HI" in i.mods, "SX32" in i.mods
    a, b = reader(rest[0]), reader(rest[1])
    shift = int(rest[-1], 16)
    if not high:
        return write_sum(to, outs, lambda m: each(lambda x, y, k: (x << shift & M) + y + k, a(m), b(m), carry(m)))
    c = (lambda m: each(lambda x: M if x >> 31 else 0, a(m))) if extend else reader(rest[2])
    return write_sum(to, outs, lambda m: each(lambda x, y, z, k: ((z << 32 | x & M) << shift >> 32 & M) + y + k,
                                              a(m), b(m), c(m), carry(m)))


def logic(x, y, z, table):
    out = 0
    for k in range(8):
        if table >> k & 1:
            out |= (x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z)
    return out & M


KNOWN = {0xC0: lambda x, y, z: x & y, 0xFC: lambda x, y, z: x | y, 0x3C: lambda x, y, z: x ^ y,
         0xF8: lambda x, y, z: x | y & z, 0xFE: lambda x, y, z: x | y | z, 0x96: lambda x, y, z: x ^ y ^ z,
         0x33: lambda x, y, z: ~y & M, 0x80: lambda x, y, z: x & y & z, 0x0C: lambda x, y, z: ~x & y & M,
         0x30: lambda x, y, z: x & ~y & M}


def lop3(i):
    operands = list(i.operands)
    out = predicate_writer(operands.pop(0)) if is_predicate(operands[0]) else None
    to, _, rest, ins = split(operands)
    a, b, c = (reader(r) for r in rest[:3])
    table = int(rest[3], 16)
    f = KNOWN.get(table) or (lambda x, y, z: logic(x, y, z, table))
    put, also = writer(to), predicate_reader(ins[0]) if ins else None
    absorbs = {0xC0: "and", 0xFC: "or"}.get(table)

    def run(m, mask):
        x, y, z = a(m), b(m), c(m)
        if absorbs == "and" and (x == 0 or y == 0):
            value = 0
        else:
            value = each(f, x, y, 0 if absorbs else z)
        put(m, mask, [value])
        if out:
            p = lanes.mask_of(each(lambda v: int(v != 0), value))
            out(m, mask, lanes.or_(p, also(m)) if also else p)
    return run


def plop3(i):
    texts = [o for o in i.operands if is_predicate(o)]
    outs, reads = [predicate_writer(o) for o in texts[:2]], [predicate_reader(o) for o in texts[2:5]]
    tables = [int(o, 16) for o in i.operands if o.startswith("0x")]

    def run(m, mask):
        p = [lanes.bits_of(r(m)) for r in reads]
        for table, out in zip(tables, outs):
            value = known_logic(table, p)
            out(m, mask, lanes.mask_of(value))
    return run


def known_logic(table, p):
    """Of predicates; known also where an unknown one does not matter."""
    columns = zip(*(lanes.spread(x) for x in p))
    out = []
    for row in columns:
        may = {table >> (a << 2 | b << 1 | c) & 1 for a in ([0, 1] if row[0] is None else [row[0]])
               for b in ([0, 1] if row[1] is None else [row[1]]) for c in ([0, 1] if row[2] is None else [row[2]])}
        out.append(may.pop() if len(may) == 1 else None)
    return lanes.tidy(out)


COMPARE = {"GE": lambda a, b: a >= b, "GT": lambda a, b: a > b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
           "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b}


def isetp(i):
    kind, unsigned, chained = i.mods[0], "U32" in i.mods, "EX" in i.mods
    combine = lanes.or_ if "OR" in i.mods else lanes.and_
    outs = [predicate_writer(o) for o in i.operands[:2]]
    a, b = reader(i.operands[2]), reader(i.operands[3])
    also = predicate_reader(i.operands[4]) if len(i.operands) > 4 else lambda m: lanes.TRUE
    chain = predicate_reader(i.operands[5]) if chained else None
    test = COMPARE[kind]

    def compare(x, y):
        x, y = x & M, y & M
        return int(test(x, y) if unsigned else test(signed(x), signed(y)))

    def compare_high(x, y, low):
        x, y = x & M, y & M
        if x == y:
            return low
        return int(test(x, y) if unsigned else test(signed(x), signed(y)))

    def run(m, mask):
        if chain:
            p = lanes.mask_of(each(compare_high, a(m), b(m), lanes.bits_of(chain(m))))
        else:
            p = lanes.mask_of(each(compare, a(m), b(m)))
        outs[0](m, mask, combine(p, also(m)))
        outs[1](m, mask, combine(lanes.not_(p), also(m)))
    return run


def shift(i):
    to, _, rest, _ = split(i.operands)
    a, s, c = (reader(r) for r in rest[:3])
    right, high = i.mods[0] == "R", "HI" in i.mods
    is_signed, wide, wraps = any(x in i.mods for x in ("S32", "S64")), any(x in i.mods for x in ("U64", "S64")), "W" in i.mods

    def move(low, by, top):
        by = by & (63 if wide else 31) if wraps else min(by, 64 if wide else 32)
        pair = (top & M) << 32 | low & M
        if not right:
            return (pair << by >> 32 if high else pair << by) & M
        if is_signed and pair >> 63:
            pair -= 1 << 64
        return (pair >> 32 >> by if high else pair >> by) & M
    put = writer(to)
    return lambda m, mask: put(m, mask, [each(move, a(m), s(m), c(m))])


def select(i):
    a, b = reader(i.operands[1]), reader(i.operands[2])
    p, put = predicate_reader(i.operands[3]), writer(i.operands[0])
    return lambda m, mask: put(m, mask, [each(lambda k, x, y: (x if k else y) & M, lanes.bits_of(p(m)), a(m), b(m))])


def least(i):
    """VIMNMX and IMNMX: the smaller if the predicate is true; VIADDMNMX: of a + b and c."""
    to, _, rest, ins = split(i.operands)
    sources, p = [reader(r) for r in rest], predicate_reader(ins[-1])
    unsigned, added, put = "U32" in i.mods, i.op == "VIADDMNMX", writer(to)
    key = (lambda x: x & M) if unsigned else lambda x: signed(x & M)

    def run(m, mask):
        v = [s(m) for s in sources]
        first = each(lambda x, y: x + y & M, v[0], v[1]) if added else v[0]
        put(m, mask, [each(lambda k, x, y: (min if k else max)(x & M, y & M, key=key),
                           lanes.bits_of(p(m)), first, v[2] if added else v[1])])
    return run


def permute(i):
    a, s, c = (reader(o) for o in i.operands[1:4])
    put = writer(i.operands[0])

    def pick(x, by, y):
        pair, out = (y & M) << 32 | x & M, 0
        for k in range(4):
            code = by >> 4 * k & 15
            byte = pair >> 8 * (code & 7) & 255
            out |= (byte if code < 8 else 255 * (byte >> 7)) << 8 * k
        return out
    return lambda m, mask: put(m, mask, [each(pick, a(m), s(m), c(m))])


def move(i):
    count = 2 if "64" in i.mods else 1
    read = wide_reader(i.operands[1]) if count == 2 else reader(i.operands[1])
    put = writer(i.operands[0], count)
    if count == 1:
        return lambda m, mask: put(m, mask, [each(lambda x: x & M, read(m))])

    def run(m, mask):
        x = read(m)
        put(m, mask, [each(lambda v: v & M, x), each(lambda v: v >> 32, x)])
    return run


def load_constant(i):
    """LDC and ULDC, of one, two or four words, a byte or a half."""
    size = 8 if "64" in i.mods else 16 if "128" in i.mods else 4
    reads = [reader(i.operands[1])]
    from .operands import next_register
    text = i.operands[1]
    for _ in range(size // 4 - 1):
        text = next_register(text)
        reads.append(reader(text))
    put = writer(i.operands[0], size // 4)
    narrow = 255 if any(x in i.mods for x in ("U8", "S8")) else 65535 if any(x in i.mods for x in ("U16", "S16")) else M
    return lambda m, mask: put(m, mask, [each(lambda x: x & narrow, r(m)) for r in reads])


def special(i):
    count = 1 if i.op != "CS2R" or "32" in i.mods else 2
    put, name = writer(i.operands[0], count), i.operands[1]
    return lambda m, mask: put(m, mask, [m.special(name)] + [0] * (count - 1))


def one(f, wide=False):
    def make(i):
        read, put = (wide_reader if wide else reader)(i.operands[-1]), writer(i.operands[0])
        return lambda m, mask: put(m, mask, [each(f, read(m))])
    return make


def to_float(x, up):
    """The bits of the float next to a whole number; up: not below it."""
    bits = struct.unpack("<I", struct.pack("<f", float(x)))[0] if x < 1 << 64 else 0x5F800000
    value = struct.unpack("<f", struct.pack("<I", bits))[0]
    return bits + 1 if up and int(value) < x else bits


def of_bits(x):
    return struct.unpack("<f", struct.pack("<I", x & M))[0]


def to_bits(x):
    try:
        return struct.unpack("<I", struct.pack("<f", x))[0]
    except OverflowError:
        return 0x7F800000


def from_integer(i):
    """Of a signed number no negative one: only divisions need it, and they convert absolute values."""
    wide = "U64" in i.mods
    if {"F64", "F16", "S64", "S8", "U8", "S16", "U16"} & set(i.mods):
        return unknown(i)

    def convert(x):
        return None if not wide and "U32" not in i.mods and x >> 31 else to_float(x, "RP" in i.mods)
    return one(convert, wide)(i)


def reciprocal(i):
    if i.mods[:1] != ["RCP"]:
        return unknown(i)
    return one(lambda x: to_bits(1 / of_bits(x)) if of_bits(x) else 0x7F800000)(i)


def to_integer(i):
    wide, read = "U64" in i.mods, reader(i.operands[1])
    put = writer(i.operands[0], 2 if wide else 1)
    most = (1 << 64 if wide else 1 << 32) - 1
    if "U32" not in i.mods and not wide:
        return unknown(i)

    def convert(x):
        f = of_bits(x)
        return 0 if math.isnan(f) or f <= 0 else most if f > most else int(f)

    def run(m, mask):
        x = each(convert, read(m))
        put(m, mask, [each(lambda v: v & M, x), each(lambda v: v >> 32, x)][:2 if wide else 1])
    return run


def vote(i):
    """The lanes where a predicate is true, of the active ones; and whether any (all) of them are."""
    reg = next((o for o in i.operands if not is_predicate(o)), None)
    preds = [o for o in i.operands if is_predicate(o)]
    read, out = predicate_reader(preds[-1]), predicate_writer(preds[0]) if len(preds) > 1 else None
    put, every = writer(reg) if reg else None, "ALL" in i.mods

    def run(m, mask):
        t, u = read(m)
        t, u = t & mask, u & mask
        if put:
            put(m, mask, [None if u else t])
        if out:
            hit = t == mask if every else t != 0
            known = hit if not u else (not every and t != 0) or None
            out(m, mask, lanes.mask_of(None if known is None else int(known)))
    return run


def shuffle(i):
    outs = [o for o in i.operands if is_predicate(o)]
    to, a, b, c = (o for o in i.operands if not is_predicate(o))
    read, by, clamp, put, kind = reader(a), reader(b), reader(c), writer(to), i.mods[0]

    def run(m, mask):
        x, y, z = (r(m) for r in (read, by, clamp))
        for o in outs:
            predicate_writer(o)(m, mask, lanes.TRUE)
        if x is None or y is None or z is None:
            return put(m, mask, None)
        x, out = lanes.spread(x), []
        for k in range(lanes.WIDTH):
            step, z_k = lanes.lane(y, k), lanes.lane(z, k)
            if step is None or z_k is None:
                out.append(None)
                continue
            low, top = k & (z_k >> 8), k & (z_k >> 8) | z_k & 31 & ~(z_k >> 8)
            j = (low | step & 31 & ~(z_k >> 8) if kind == "IDX" else k ^ step if kind == "BFLY" else k - step if kind == "UP" else k + step)
            ok = j >= top if kind == "UP" else j <= top
            out.append(x[j] if 0 <= j < lanes.WIDTH and ok else x[k])
        return put(m, mask, [lanes.tidy(out)])
    return run


def match(i):
    regs = [o for o in i.operands if not is_predicate(o)]
    read, put = reader(regs[-1]), writer(regs[0])

    def run(m, mask):
        x = read(m)
        if x is None or (x.__class__ is list and None in x):
            return put(m, mask, None)
        x = lanes.spread(x)
        put(m, mask, [lanes.tidy([sum(1 << j for j in range(32) if mask >> j & 1 and x[j] == x[k]) for k in range(32)])])
        return None
    return run


def pack_predicates(i):
    """P2R: predicates as bits of a register, under a mask; the other bits are those of the third operand."""
    put, base, which = writer(i.operands[0]), reader(i.operands[2]), int(i.operands[3], 16)
    place = {"B1": 8, "B2": 16, "B3": 24}.get(next((x for x in i.mods if x.startswith("B")), ""), 0)

    def run(m, mask):
        x = each(lambda v: v & ~(which << place) & M, base(m))
        for k in range(7):
            if which >> k & 1:
                x = each(lambda v, b, k=k: v | b << k + place, x, lanes.bits_of(m.P[k]))
        put(m, mask, [x])
    return run


def unpack_predicates(i):
    read, which = reader(i.operands[1]), int(i.operands[-1], 16)
    place = {"B1": 8, "B2": 16, "B3": 24}.get(i.operands[1].rpartition(".")[2], 0)
    read = reader(i.operands[1].partition(".")[0])

    def run(m, mask):
        x = read(m)
        for k in range(7):
            if which >> k & 1:
                m.P[k] = lanes.merge_predicate(m.P[k], lanes.mask_of(each(lambda v, k=k: v >> place + k & 1, x)), mask)
    return run


# How many registers an instruction without a rule writes, and with what: nobody knows.
def width(i):
    if i.op == "HGMMA":
        shape = i.mods[0].split("x")
        return int(shape[1]) // (2 if "F32" in i.mods[1:2] else 4)
    if i.op in ("HMMA", "IMMA"):
        return 4 if "F32" in i.mods or i.op == "IMMA" else 2
    if i.op == "DMMA":
        return 4
    if i.op in ("DFMA", "DMUL", "DADD") or (i.op in ("F2F", "I2F") and i.mods[:1] == ["F64"]):
        return 2
    if i.op == "LDSM":
        return int(i.mods[-1]) if i.mods[-1:] and i.mods[-1].isdigit() else 1
    if "128" in i.mods:
        return 4
    return 2 if "64" in i.mods or "WIDE" in i.mods else 1


def unknown(i):
    puts = []
    texts = list(i.operands)
    while texts and is_predicate(texts[0]) and not texts[0].startswith("!"):
        puts.append((predicate_writer(texts.pop(0)), lanes.FALSE if i.op == "FCHK" else lanes.UNKNOWN))
        if i.op not in ("FSETP", "DSETP", "HSETP2", "FCHK"):
            break
    if texts and i.op not in ("FSETP", "DSETP", "HSETP2", "FCHK"):
        try:
            register_number(texts[0])
        except AttributeError:
            texts = []
        if texts:
            puts.append((writer(texts[0], width(i)), None))
            puts += [(predicate_writer(o), lanes.UNKNOWN) for o in texts[1:2] if is_predicate(o) and not o.startswith("!")]

    def run(m, mask):
        for put, value in puts:
            put(m, mask, value)
    return run


def halves(i):
    """HFMA2 of -RZ and RZ: a constant of two halves, the first of them the high one."""
    if [o.split(".")[0] for o in i.operands[1:3]] != ["-RZ", "RZ"] or len(i.operands) < 5:
        return unknown(i)
    try:
        high, low = (struct.unpack("<H", struct.pack("<e", float(o)))[0] for o in i.operands[3:5])
    except ValueError:  # a NaN by its name
        return unknown(i)
    value, put = high << 16 | low, writer(i.operands[0])
    return lambda m, mask: put(m, mask, [value])


def nothing(_):
    return lambda m, mask: None


RULES = {"IADD3": add3, "UIADD3": add3, "VIADD": add3, "IADD": add3, "UVIADD": add3, "IMAD": multiply, "UIMAD": multiply,
         "LEA": lea, "ULEA": lea, "LOP3": lop3, "ULOP3": lop3, "PLOP3": plop3, "UPLOP3": plop3, "ISETP": isetp, "UISETP": isetp,
         "SHF": shift, "USHF": shift, "SEL": select, "USEL": select, "VIMNMX": least, "IMNMX": least, "VIADDMNMX": least,
         "PRMT": permute, "UPRMT": permute, "MOV": move, "UMOV": move, "R2UR": move, "LDC": load_constant, "ULDC": load_constant,
         "LDCU": load_constant, "S2R": special, "S2UR": special, "CS2R": special, "POPC": one(lambda x: bin(x & M).count("1")),
         "UPOPC": one(lambda x: bin(x & M).count("1")), "FLO": one(lambda x: x.bit_length() - 1 & M), "IABS": one(lambda x: abs(signed(x & M))),
         "BREV": one(lambda x: int(f"{x & M:032b}"[::-1], 2)), "I2F": from_integer, "MUFU": reciprocal, "HFMA2": halves, "F2I": to_integer, "VOTE": vote,
         "VOTEU": vote, "SHFL": shuffle, "MATCH": match, "P2R": pack_predicates, "R2P": unpack_predicates}
NOTHING = {"NOP", "BSSY", "BSYNC", "BAR", "DEPBAR", "LDGDEPBAR", "WARPSYNC", "WARPGROUP", "FENCE", "MEMBAR", "ERRBAR", "CCTL", "YIELD",
           "ENDCOLLECTIVE", "CGAERRBAR", "BMOV", "NANOSLEEP", "WARPGROUPSET", "UCGABAR_ARV", "UCGABAR_WAIT", "ELECT", "PREEXIT", "ACQBULK",
           "USETMAXREG", "ARRIVES"}


def make(ins):
    if ins.op in NOTHING:
        return nothing(ins)
    try:
        return RULES.get(ins.op, unknown)(ins)
    except (ValueError, IndexError, AttributeError) as e:
        raise ValueError(f"cannot read '{ins.text}' at {ins.at:#x}") from e
