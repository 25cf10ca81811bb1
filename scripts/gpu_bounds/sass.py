"""sass - the text of nvdisasm -c -hex as instructions, and their basic blocks and loops."""

import re

LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;(?:\s*/\* 0x([0-9a-f]{16}) \*/)?")
SECOND = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/\s*$")
GUARD = re.compile(r"^@(!?)(U?P(?:\d+|T))\s+")


class Ins:
    """One instruction. op: IMAD; mods: what follows its dots; operands: texts; target: the address it jumps to."""

    def __init__(self, at, text):
        self.at, self.text, self.target = at, text, None
        guard = GUARD.match(text)
        self.guard = (guard.group(2), bool(guard.group(1))) if guard else None  # predicate, negated
        text = text[guard.end():] if guard else text
        name, _, rest = text.partition(" ")
        self.op, *self.mods = name.split(".")
        self.operands = [o.strip() for o in rest.split(",")] if rest.strip() else []
        self.stall, self.write, self.read, self.wait = 1, 7, 7, 0

    def control(self, high):
        """The scheduling fields of the second word: cycles until the next issue, barriers set (7: none), barriers waited for."""
        self.stall, self.write, self.read, self.wait = high >> 41 & 15, high >> 46 & 7, high >> 49 & 7, high >> 52 & 63

    def has(self, mod):
        return mod in self.mods


class Code:
    """The instructions of one section: a kernel and the subroutines that it calls."""

    def __init__(self, name):
        self.name, self.ins, self.labels, self.index = name, [], {}, {}

    def finish(self):
        for i, ins in enumerate(self.ins):
            self.index[ins.at] = i
            if ins.operands and (m := re.match(r"`\((.*)\)$", ins.operands[-1])) and m.group(1) in self.labels:
                ins.target = self.labels[m.group(1)]
        return self


def parse(text):
    """name: Code of each .text section."""
    found, code = {}, None
    for line in text.splitlines():
        if m := re.match(r"^\.text\.(\S+):", line):
            code = found[m.group(1)] = Code(m.group(1))
        elif code is None:
            continue
        elif m := LINE.match(line):
            code.ins.append(Ins(int(m.group(1), 16), m.group(2)))
        elif m := SECOND.match(line):
            code.ins[-1].control(int(m.group(1), 16))
        elif m := re.match(r"^(\S+):", line):
            code.labels[m.group(1)] = code.ins[-1].at + 16 if code.ins else 0
    return {name: c.finish() for name, c in found.items() if c.ins}


ENDS = ("BRA", "EXIT", "RET", "BRX", "JMP")


def blocks(code):
    """Basic blocks: pairs of the first instruction's index and the one after the last."""
    first = {0}
    for i, ins in enumerate(code.ins):
        if ins.target is not None and ins.op in ("BRA", "CALL", "BSSY"):
            first.add(code.index[ins.target])
        if ins.op in ENDS or ins.op == "CALL":
            first.add(i + 1)
    cuts = sorted(i for i in first if i < len(code.ins)) + [len(code.ins)]
    return list(zip(cuts, cuts[1:]))


def successors(code):
    """For each block, the numbers of the blocks that may follow."""
    cut = blocks(code)
    number = {first: n for n, (first, _) in enumerate(cut)}
    follow = []
    for n, (_, end) in enumerate(cut):
        last, to = code.ins[end - 1], set()
        if last.target is not None and last.op == "BRA":
            to.add(number[code.index[last.target]])
        always = last.guard is None and last.op in ENDS and (last.op != "BRA" or len(last.operands) == 1) and "DIV" not in last.mods
        if not always and n + 1 < len(cut):
            to.add(n + 1)
        follow.append(to)
    return follow


def loops(code):
    """Sets of instructions, one for each loop: what can be on a way from a branch target back to the branch behind it. A branch to
    itself behind the end of the code is no loop."""
    cut, follow = blocks(code), successors(code)
    before = [set() for _ in cut]
    for n, to in enumerate(follow):
        for t in to:
            before[t].add(n)
    found = []
    for n, to in enumerate(follow):
        for head in to:
            if head > n or (head == n and cut[n][1] - cut[n][0] == 1):
                continue
            inside, open_ = {head, n}, [n] if n != head else []
            while open_:
                for b in before[open_.pop()]:
                    if b not in inside and b >= head:
                        inside.add(b)
                        open_.append(b)
            found.append({i for b in inside for i in range(*cut[b])})
    return found
