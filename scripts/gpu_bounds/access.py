"""access - what an instruction of memory costs by the addresses of its lanes: sectors of 32 bytes of global memory, and wavefronts of
shared memory, of which one a cycle passes: 32 banks of 4 bytes.

Accesses of 8 bytes pass in halves of the warp, those of 16 bytes in quarters; lanes that want the same word of a bank share it. Where no
more lanes than a half (a quarter) has want different words, all pass together."""

import re

from . import lanes

SECTOR, BANKS, WORD = 32, 32, 4
GLOBAL = ("LDG", "STG", "LDGSTS", "ATOMG", "RED", "ATOM", "LD", "ST", "REDG")
SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")
LOCAL = ("LDL", "STL")


def width(ins):
    """Bytes of a lane."""
    if ins.op in ("LDSM", "STSM"):
        return 4 * (int(ins.mods[-1]) if ins.mods[-1].isdigit() else 1)
    for name, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("16", 2), ("U8", 1), ("S8", 1), ("8", 1)):
        if name in ins.mods:
            return size
    return 4


def wavefronts(addresses, size):
    """Of the known addresses of the active lanes, in their order; and the least that so many bytes take."""
    each, total = {16: 8, 8: 16}.get(size, 32), 0
    different = sorted(set(addresses))
    order = different if len(different) <= each else addresses
    for at in range(0, len(order), each):
        banks = {}
        for a in order[at:at + each]:
            for word in range(a // WORD, (a + max(size, 1) - 1) // WORD + 1):
                banks.setdefault(word % BANKS, set()).add(word)
        total += max((len(words) for words in banks.values()), default=0)
    words = {w for a in addresses for w in range(a // WORD, (a + size - 1) // WORD + 1)}
    return total, -(-len(words) // BANKS)


def matrices(addresses, count):
    """LDSM and STSM: eight lanes have the addresses of the eight rows of 16 bytes of each of `count` matrices."""
    total = 0
    for k in range(count):
        groups = {}
        for a in set(addresses[8 * k:8 * k + 8]):
            groups.setdefault(a // 16 % 8, set()).add(a // 16)
        total += max((len(g) for g in groups.values()), default=0)
    return total, count


class Access:
    """Sums over the executions of one instruction."""
    __slots__ = ("times", "lanes", "bytes", "sectors", "wavefronts", "least", "unknown", "low", "high")

    def __init__(self):
        self.times = self.lanes = self.bytes = self.sectors = self.wavefronts = self.least = self.unknown = 0
        self.low, self.high = None, 0

    def note(self, address, mask, size):
        """Counts an execution; the number of active lanes, and their addresses, or None where one is not known."""
        n = bin(mask).count("1")
        self.times += 1
        self.lanes += n
        self.bytes += n * size
        known = None if address is None else active(address, mask)
        if known is not None and None in known:
            known = None
        self.unknown += bool(n) and known is None
        return n, known

    def span(self, low, high):
        self.low = low if self.low is None else min(self.low, low)
        self.high = max(self.high, high)


def active(address, mask):
    if address.__class__ is list:
        return [a for k, a in enumerate(address) if mask >> k & 1]
    return [address] * bin(mask).count("1")


def note_global(acc, address, mask, size, limits):
    """Addresses that nobody knows count as neighbours. limits: of the program's memory; a known address outside of it is an error."""
    n, known = acc.note(address, mask, size)
    if not n:
        return
    if known is None:
        acc.sectors += -(-n * size // SECTOR)
        return
    low, high = min(known), max(known) + size
    if not any(a <= low and high <= b for a, b in limits):
        raise ValueError(f"address {low:#x} to {high:#x} is outside of the program's memory")
    if low % size and size > 1:
        raise ValueError(f"address {low:#x} is not a multiple of {size}")
    acc.sectors += len({s for a in known for s in range(a // SECTOR, (a + size - 1) // SECTOR + 1)})
    acc.span(low, high)


def note_local(acc, mask, size):
    """Neighbouring lanes are neighbours in memory, which the L1 cache has: a wavefront for each 128 bytes."""
    acc.note(None, mask, size)
    acc.wavefronts += max(1, size // WORD)
    acc.least += max(1, size // WORD)


def note_shared(acc, ins, address, mask, size):
    n, known = acc.note(address, mask, size)
    if not n:
        return
    if known is None:
        least = max(1, n * size // (BANKS * WORD))
        total = least
    elif ins.op in ("LDSM", "STSM"):
        total, least = matrices(known, size // 4)
    else:
        total, least = wavefronts(known, size)
        least = max(least, 1)
    acc.wavefronts += total
    acc.least += least


def operands(ins):
    """Texts of the memory operands: of LDGSTS the shared one, then the global one."""
    return [o for o in ins.operands if re.search(r"\[", o) and not o.startswith(("c[", "gdesc"))]
