"""timeline - how long the warps of one quarter of a multiprocessor take, cycle by cycle.

Machine code says itself how it is scheduled: after how many cycles the next instruction of the warp may issue, and which of six
barriers an instruction of unknown length sets and which it waits for. So instructions issue in order, one a cycle, when their
barriers are clear and their pipe is free. Lengths of what is not fixed are LATENCY, guesses near published microbenchmarks."""

from . import pipes

GUESSES = ["latencies in cycles (timeline.py): LDG and LDGSTS 500, LDS 29, LDSM 33, SHFL 24, MUFU 20, conversions 20, a branch 8, a barrier 20"]
LATENCY = {"LDG": 500, "LDGSTS": 500, "LDS": 29, "LDSM": 33, "SHFL": 24, "MUFU": 20, "F2F": 20, "F2I": 20, "I2F": 20, "S2R": 20, "S2UR": 20,
           "LDC": 30, "ULDC": 30, "STG": 20, "STS": 20, "ATOM": 700, "ATOMG": 700, "ATOMS": 60, "LDL": 200, "STL": 20, "R2UR": 12,
           "POPC": 20, "FLO": 20, "VOTE": 12, "VOTEU": 12, "MATCH": 30}
OTHERS, TAKEN, MEETING, PRODUCT = 16, 8, 20, 30


class Costs:
    """What each instruction of a program costs a quarter, made once for a card. wavefronts: of one execution, by instruction."""

    def __init__(self, program, machine, flops_per_cycle, wavefronts):
        self.rows = []
        for i, ins in enumerate(program.code.ins):
            pipe, cycles = pipes.pipe_of(ins, machine)
            shared = wavefronts.get(i, 0) * pipes.QUARTERS + pipes.tensor_shared(ins)
            tensor = pipes.tensor_cycles(ins, machine, flops_per_cycle) if pipe == "tensor" and ins.op in ("HMMA", "HGMMA") else 0
            kind = {"BAR": 1, "LDGSTS": 2, "LDGDEPBAR": 3, "HGMMA": 5}.get(ins.op, 0)
            if ins.op == "DEPBAR" and ins.operands[:1] == ["SB0"]:
                kind = 4
            if ins.op == "WARPGROUP" and "DEPBAR" in ins.mods:
                kind = 6
            count = int(ins.operands[-1], 16) if kind in (4, 6) else 0
            ends = any(o.startswith("gsb") for o in ins.operands)
            self.rows.append((pipe, cycles, shared, tensor, LATENCY.get(ins.op, OTHERS), kind, count, ends, max(1, ins.stall),
                              ins.write, ins.read, [b for b in range(6) if ins.wait >> b & 1]))


class Line:
    """A warp on its way through its trace."""
    __slots__ = ("trace", "at", "time", "bars", "copies", "open", "groups", "finish", "block")

    def __init__(self, trace, block):
        self.trace, self.block = trace, block
        self.at = self.time = 0
        self.bars = [0] * 6
        self.copies, self.open, self.groups, self.finish = [], 0, [], 0


def run(costs, traces, blocks):
    """Cycles until `blocks` blocks, each of warps with these traces, are done on one quarter."""
    rows = costs.rows
    lines = [Line(t, b) for b in range(blocks) for t in traces if t]
    free = dict.fromkeys(pipes.PIPES, 0.0)
    waiting, members = {}, {b: len([t for t in traces if t]) for b in range(blocks)}
    ready, issue, last = list(lines), 0, 0
    for n, line in enumerate(ready):  # blocks do not begin at the same time
        line.time = n // max(1, len(traces)) * 37
    while ready:
        best, when = None, None
        for line in ready:
            row = rows[line.trace[line.at]]
            time = line.time
            for b in row[11]:
                if line.bars[b] > time:
                    time = line.bars[b]
            if row[1] and free[row[0]] - row[1] > time:
                time = free[row[0]] - row[1]  # a pipe takes one instruction ahead
            if row[3] and free["tensor"] - 2 * row[3] > time and row[5] != 5:
                time = free["tensor"] - 2 * row[3]
            if row[5] == 4 and row[6] < len(line.copies):
                time = max(time, line.copies[-1 - row[6]])
            if row[5] == 6 and row[6] < len(line.groups):
                time = max(time, line.groups[-1 - row[6]] + PRODUCT)
            if when is None or time < when:
                best, when = line, time
                if when <= issue:
                    break
        line, i = best, best.trace[best.at]
        pipe, cycles, shared, tensor, latency, kind, _, ends, stall, write, read, _ = rows[i]
        now = max(when, issue)
        issue = now + 1
        done = now
        if cycles:
            free[pipe] = max(free[pipe], now) + cycles
            done = free[pipe]
        if shared:
            free["shared"] = max(free["shared"], now) + shared
            done = max(done, free["shared"])
        if tensor:
            start = max(free["tensor"], now)
            free["tensor"] = max(start + tensor, free["shared"] if kind == 5 else 0)
            done = free["tensor"]
            line.finish = done
        if write != 7:
            line.bars[write] = max(line.bars[write], done + latency)
        if read != 7:
            line.bars[read] = max(line.bars[read], done + 8)
        if kind == 2:
            line.open = max(line.open, done + latency)
        elif kind == 3:
            line.copies.append(line.open)
            line.open = 0
        elif kind == 5 and ends:
            line.groups.append(line.finish)
        line.time = now + stall
        line.at += 1
        last = max(last, now + 1)
        if line.at == len(line.trace):
            ready.remove(line)
            members[line.block] -= 1
        elif line.trace[line.at] != i + 1:
            line.time += TAKEN
        if kind == 1 and line.at < len(line.trace):
            waiting.setdefault(line.block, []).append(line)
            ready.remove(line)
        held = waiting.get(line.block, [])
        if held and len(held) >= members[line.block]:
            for other in held:
                other.time = max(other.time, now + MEETING)
            ready.extend(held)
            waiting[line.block] = []
    return max([last] + [max(line.finish, line.time) for line in lines])
