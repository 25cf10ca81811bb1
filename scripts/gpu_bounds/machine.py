"""machine - runs the control flow of one warp of a kernel, and counts the instructions that it issues.

Integers, predicates and addresses are computed (operations.py); numbers with a point are unknown. A branch that depends on
something unknown goes both ways, half of its lanes each (the most that it can cost), but:
  - it does not go to a slow path: a way that calls a subroutine, as divisions of unusual numbers do;
  - it does not go back, so a loop that waits for something ends at once.
Lanes part at branches and meet at BSYNC, as BSSY said."""

from . import access, lanes
from .access import Access
from .operands import address_reader, following, predicate_reader, reader, writer
from .operations import make

EVEN = 0x55555555
MOST = 20_000_000  # instructions of a warp
CONTROL = {"BRA", "EXIT", "CALL", "RET", "BSSY", "BSYNC", "BREAK", "BRX", "JMP", "KILL", "RPCMOV"}


class Stuck(Exception):
    """The kernel cannot be run: its text says where and why."""


class Program:
    """A code with its instructions made ready to run."""

    def __init__(self, code):
        self.code = code
        self.steps = [self.step(i, ins) for i, ins in enumerate(code.ins)]

    def step(self, i, ins):
        guard = None
        if ins.guard:
            guard = predicate_reader(("!" if ins.guard[1] else "") + ins.guard[0])
        if ins.op in CONTROL:
            return (guard, None, ins)
        if ins.op in access.GLOBAL + access.SHARED + access.LOCAL:
            return (guard, self.memory(i, ins), ins)
        return (guard, make(ins), ins)

    def memory(self, i, ins):
        texts, size = access.operands(ins), access.width(ins)
        reads = [address_reader(t) for t in texts]
        loads = ins.op in ("LDG", "LDS", "LDSM", "LDL", "ATOMG", "ATOMS", "ATOM", "LD")
        put = None
        if loads:
            to = next((o for o in ins.operands if o[0] == "R" and not o.startswith("R `")), "RZ")
            count = size // 4 if ins.op == "LDSM" else max(1, size // 4)
            put = writer(to, count)
        stores = [reader(ins.operands[-1])] if ins.op == "STS" and size == 4 else None
        spilled = [reader(t) for t in following(ins.operands[-1], size // 4)] if ins.op == "STL" and size >= 4 else []
        also = predicate_reader(ins.operands[-1]) if ins.op == "LDGSTS" and ins.operands[-1].lstrip("!")[0] in "PU" else None

        def run(m, mask):
            if ins.op in access.LOCAL:
                access.note_local(m.access(i), mask, size)
                address = reads[0](m)
                if put:
                    put(m, mask, m.local_load(address, size))
                else:
                    m.local_store(address, mask, size, [r(m) for r in spilled])
            elif ins.op == "LDGSTS":
                on = mask
                if also:
                    t, u = also(m)
                    on = mask & (t | u)
                m.copy(i, ins, reads[0](m), reads[1](m), on, mask, size)
            elif ins.op in access.SHARED:
                address = reads[0](m)
                access.note_shared(m.access(i), ins, address, mask, size)
                if stores:
                    m.shared_store(address, stores[0](m), mask)
                if put:
                    put(m, mask, m.shared_load(address, mask) if ins.op == "LDS" and size == 4 else None)
            else:
                address = reads[0](m)
                m.note(i, ins, address, mask, size)
                if put:
                    put(m, mask, m.contents(address, mask, size))
        return run


class Warp:
    """One warp of a launch. index: of the warp in its block; block: the block's place in the grid."""

    def __init__(self, program, kernel, launch, limits, contents, block, index):
        self.program, self.kernel, self.launch, self.limits, self.fill = program, kernel, launch, limits, contents
        self.block, self.index = block, index
        self.R, self.U, self.P, self.UP = [0] * 256, [0] * 256, [lanes.FALSE] * 7, [lanes.FALSE] * 7
        self.words, self.memory, self.local, self.accesses = {}, {}, {}, {}
        self.counts = [0] * len(program.steps)
        self.trace = []
        block, grid = (0x360, 0x370) if kernel.machine >= 100 else (0, 12)
        for k in range(3):
            self.words[block + 4 * k] = launch.block if k == 0 else 1
            self.words[grid + 4 * k] = launch.grid[k]
        for at in range(0, len(launch.params), 4):
            self.words[kernel.base + at] = int.from_bytes(launch.params[at:at + 4], "little")

    def constant(self, at):
        if at % 4:
            word = self.words.get(at // 4 * 4, 0) | self.words.get(at // 4 * 4 + 4, 0) << 32
            return word >> 8 * (at % 4) & lanes.M
        return self.words.get(at, 0)

    def constant_at(self, register, at):
        return lanes.each(lambda r: self.constant(r + at & lanes.M), register)

    def special(self, name):
        first = 32 * self.index
        values = {"SR_CTAID.X": self.block[0], "SR_CTAID.Y": self.block[1], "SR_CTAID.Z": self.block[2], "SRZ": 0, "SR_CgaCtaId": 0,
                  "SR_TID.Y": 0, "SR_TID.Z": 0, "SR_CgaSize": 1}
        if name in ("SR_TID.X", "SR_TID"):
            return list(range(first, first + 32))
        if name == "SR_LANEID":
            return list(range(32))
        if name in ("SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK"):
            return [{"EQ": 1 << k, "LT": (1 << k) - 1, "LE": (2 << k) - 1, "GT": lanes.M & ~((2 << k) - 1),
                     "GE": lanes.M & ~((1 << k) - 1)}[name[3:5]] for k in range(32)]
        return values.get(name)

    def access(self, i):
        if i not in self.accesses:
            self.accesses[i] = Access()
        return self.accesses[i]

    def note(self, i, ins, address, mask, size):
        try:
            access.note_global(self.access(i), address, mask, size, self.limits)
        except ValueError as e:
            raise Stuck(f"{self.kernel.name}: {ins.at:#06x} {ins.text}: {e}") from None

    def copy(self, i, ins, to, address, there, mask, size):
        """From global to shared memory: an access of each. Lanes whose source is not there store zeros."""
        self.note(i, ins, address, there, size)
        access.note_shared(self.access(("shared", i)), ins, to, mask, size)

    def contents(self, address, mask, size):
        if self.fill is None or address is None:
            return None
        out = []
        for k in range(max(1, size // 4)):
            out.append(lanes.each(lambda a, k=k: self.fill(a + 4 * k), address) if size >= 4 else None)
        return None if out[0] is None else out

    def shared_store(self, address, value, mask):
        a, v = lanes.spread(address), lanes.spread(value)
        for k in range(32):
            if mask >> k & 1 and a[k] is not None:
                self.memory[a[k]] = v[k]

    def shared_load(self, address, mask):
        if address is None:
            return None
        return [lanes.tidy([self.memory.get(a) if mask >> k & 1 and a is not None else None
                            for k, a in enumerate(lanes.spread(address))])]

    def local_store(self, address, mask, size, values):
        """Of each lane its own memory, at the same address; an address that nobody knows, or part of a word, may be anywhere."""
        if address.__class__ is not int or not values:
            self.local.clear()
            return
        for k, value in enumerate(values):
            self.local[address + 4 * k] = lanes.merge(self.local.get(address + 4 * k), value, mask)

    def local_load(self, address, size):
        if address.__class__ is not int or size < 4:
            return None
        return [self.local.get(address + 4 * k) for k in range(size // 4)]

    # ---- control ------------------------------------------------------------------------------------------------------------

    def run(self, trace=0, most=MOST):
        """Runs to the end; with `trace`, the first so many instructions are kept in self.trace. Stuck after `most` of them."""
        steps, index, counts, total = self.program.steps, self.program.code.index, self.counts, 0
        lanes_here = max(0, min(32, self.launch.block - 32 * self.index))
        groups = [(0, (1 << lanes_here) - 1)]  # instruction, lanes: those that run
        barriers, arrived = {}, {}             # of BSSY: lanes that take part; lanes that wait

        def leave(mask):
            for b in list(barriers):
                barriers[b] &= ~mask
                meet(b)

        def meet(b):
            if arrived.get(b, (0, 0))[0] and arrived[b][0] == barriers[b]:
                groups.append((arrived[b][1], arrived[b][0]))
                arrived[b] = (0, 0)

        while groups:
            groups.sort(key=lambda g: -g[0])
            i, mask = groups.pop()
            while groups and groups[-1][0] == i:
                mask |= groups.pop()[1]
            while mask:
                guard, action, ins = steps[i]
                counts[i] += 1
                total += 1
                if total <= trace:
                    self.trace.append(i)
                if total > most:
                    raise Stuck(f"{self.kernel.name}: {ins.at:#06x} {ins.text}: still runs after {most} instructions of a warp")
                if action is not None:
                    if guard is None:
                        action(self, mask)
                    else:
                        t, u = guard(self)
                        if mask & (t | u):
                            self.guarded(action, ins, mask & t, mask & u & ~t)
                    i += 1
                    if groups and groups[-1][0] == i:
                        groups.append((i, mask))
                        break
                    continue
                t, u = guard(self) if guard else lanes.TRUE
                if ins.op == "EXIT":
                    gone = mask & t
                    leave(gone)
                    mask &= ~gone
                    i += 1
                elif ins.op == "BSSY":
                    barriers[ins.operands[0]], arrived[ins.operands[0]] = mask, (0, 0)
                    i += 1
                elif ins.op == "BSYNC":
                    b = ins.operands[0]
                    if guard and not mask & t:
                        i += 1
                        continue
                    if barriers.get(b, 0) & mask != mask:
                        i += 1
                        continue
                    arrived[b] = (arrived.get(b, (0, 0))[0] | mask, i + 1)
                    mask = 0
                    meet(b)
                elif ins.op == "BREAK":
                    b = ins.operands[-1]
                    extra = predicate_reader(ins.operands[0])(self) if len(ins.operands) > 1 else lanes.TRUE
                    barriers[b] = barriers.get(b, 0) & ~(mask & t & extra[0])
                    meet(b)
                    i += 1
                elif ins.op in ("BRA", "CALL"):
                    if len(ins.operands) > 1 and ins.op == "BRA" and "DIV" not in ins.mods:
                        for o in ins.operands[:-1]:
                            if o.lstrip("!")[0] in "PU" and "R" not in o:
                                t, u = lanes.and_((t, u), predicate_reader(o)(self))
                    if "DIV" in ins.mods:
                        t = u = 0
                    go = self.way(i, ins, mask & t, mask & u)
                    if go and go != mask:
                        groups.append((index[ins.target], go))
                        mask &= ~go
                        groups.append((i + 1, mask))
                        break
                    i = index[ins.target] if go else i + 1
                elif ins.op == "RET":
                    to = self.R[int(ins.operands[0].split()[0].lstrip("R"))]
                    for target in set(access.active(to, mask)):
                        groups.append((index[target], sum(1 << k for k in range(32) if mask >> k & 1 and lanes.lane(to, k) == target)))
                    break
                else:
                    raise Stuck(f"{self.kernel.name}: {ins.at:#06x} {ins.text}: no rule for this jump")
        return self

    def guarded(self, action, ins, sure, perhaps):
        """What an instruction writes where its guard is unknown is unknown."""
        if not perhaps:
            action(self, sure)
            return
        if ins.op in access.GLOBAL + access.SHARED + access.LOCAL:
            action(self, sure | perhaps)
            return
        registers, uniform = list(self.R), list(self.U)
        predicates, others = list(self.P), list(self.UP)
        action(self, sure | perhaps)
        for now, old in ((self.R, registers), (self.U, uniform)):
            for k, value in enumerate(old):
                if now[k] is not value and now[k] != value:
                    now[k] = lanes.merge(now[k], None, perhaps)
        for now, old in ((self.P, predicates), (self.UP, others)):
            for k, value in enumerate(old):
                if now[k] != value:
                    now[k] = lanes.merge_predicate(now[k], lanes.UNKNOWN, perhaps)

    def way(self, i, ins, sure, perhaps):
        """The lanes that go where a branch goes."""
        if not perhaps:
            return sure
        to = self.program.code.index[ins.target]
        if ins.op == "CALL" or to <= i:
            return sure
        between = self.program.code.ins[i + 1:to]
        beyond = self.program.code.ins[to:to + 3]
        if any(x.op == "CALL" for x in between):
            return sure | perhaps
        if any(x.op == "CALL" for x in beyond):
            return sure
        return sure | perhaps & EVEN
