"""bounds - how long a launch takes at least by each part of a card, and how long it is expected to take.

Some blocks of the grid are run (machine.py): the first, the last and some between, and of each the warps of one quarter of a
multiprocessor. The blocks between are as long as a line between two that were run."""

import heapq
from collections import namedtuple

from . import access, contents, machine, occupancy, order, pipes, timeline

SAMPLES, TRACE, MOST_BLOCKS = 5, 24_000, 200_000
CACHED = 0.8  # of the L2 cache, that blocks find again: by published times of cross-entropy (docs/gpu_bounds.md)
# seconds: by part (PARTS), each a least; expected: by the timeline, or by memory if that takes longer. counts: of instructions, of a
# whole launch. accesses, counts: of the warps that were run, each sum of an instruction and the most of any warp. drawn: instructions of
# memory whose addresses depend on numbers that contents.py drew.
Bound = namedtuple("Bound", "launch kernel occupancy seconds expected limit instructions flops sectors dram accesses counts drawn")
PARTS = ("issue", "float", "integer", "special", "f64", "memory", "shared", "tensor", "l2", "dram")
GUESSES = ["DRAM gives and takes each address once that the blocks of a launch read or write, the L2 cache all others: except what a block "
           "reads again when all that run have touched more than the cache holds",
           "each launch finds an empty L2 cache"]


class Sample:
    """One block that was run: cycles of a multiprocessor by pipe, for the whole block."""

    def __init__(self, program, kernel, launch, limits, fill, block, card):
        self.block, self.threads, warps = block, launch.block, -(-launch.block // 32)
        self.which = range(0, warps, pipes.QUARTERS) if warps >= pipes.QUARTERS else range(warps)
        self.warps = [machine.Warp(program, kernel, launch, limits, fill, block, w).run(TRACE) for w in self.which]
        self.scale = warps / len(self.warps)
        self.cycles = dict.fromkeys(PARTS, 0.0)
        self.flops = self.sectors = 0
        ins = program.code.ins
        for w in self.warps:
            for i, n in enumerate(w.counts):
                if not n:
                    continue
                pipe, cost = pipes.pipe_of(ins[i], card.machine)
                self.cycles["issue"] += n / pipes.QUARTERS
                if cost:
                    self.cycles[pipe] += n * cost / pipes.QUARTERS
                if ins[i].op in ("HGMMA", "HMMA"):
                    self.cycles["tensor"] += n * pipes.tensor_cycles(ins[i], card.machine, card.flops) / pipes.QUARTERS
                    self.cycles["shared"] += n * pipes.tensor_shared(ins[i]) / pipes.QUARTERS
                    self.flops += n * pipes.shape(ins[i]) / (pipes.QUARTERS if ins[i].op == "HGMMA" else 1)
            for i, a in w.accesses.items():
                self.cycles["shared"] += a.wavefronts
                self.sectors += a.sectors
        for part in self.cycles:
            self.cycles[part] *= self.scale
        self.flops *= self.scale
        self.sectors *= self.scale
        self.instructions = sum(sum(w.counts) for w in self.warps) * self.scale

    def wavefronts(self):
        """Of one execution of each instruction, on average."""
        total = {}
        for w in self.warps:
            for i, a in w.accesses.items():
                if a.times and a.wavefronts:
                    index = i[1] if isinstance(i, tuple) else i
                    times, fronts = total.get(index, (0, 0))
                    total[index] = (times + a.times, fronts + a.wavefronts)
        return {i: fronts / times for i, (times, fronts) in total.items()}

    def expected(self, program, card, together):
        """Cycles until `together` blocks on one multiprocessor are done."""
        costs = timeline.Costs(program, card.machine, card.flops, self.wavefronts())
        warps = -(-self.threads // 32)
        copies = together
        if warps < pipes.QUARTERS:  # all of them were run, and each is in a quarter of its own
            copies = max(1, -(-together // pipes.QUARTERS))
        lengths = [sum(w.counts) for w in self.warps]
        kept = min(1, TRACE / max(lengths))  # of a long way the first part
        return timeline.run(costs, [w.trace[:max(1, int(n * kept))] for w, n in zip(self.warps, lengths)], copies) / kept


def sample_blocks(grid, count):
    """From the first block to the last, so that together they span what all blocks touch."""
    at = lambda k, n: round(k * (n - 1) / (count - 1))
    return sorted({(at(k, grid[0]), at(k, grid[1]), 0) for k in range(count)})


def between(samples, values, x):
    """The value at block x, on the line between two samples."""
    for (a, va), (b, vb) in zip(zip(samples, values), zip(samples[1:], values[1:])):
        if x <= b:
            return va + (vb - va) * (x - a) / max(1, b - a)
    return values[-1]


def schedule(lengths, places):
    """When the last of some blocks ends, that begin in their order, each where a place is free."""
    if len(lengths) <= places:
        return max(lengths)
    ends = lengths[:places]
    heapq.heapify(ends)
    for n in lengths[places:]:
        heapq.heapreplace(ends, ends[0] + n)
    return max(ends)


def all_blocks(grid, xs, values):
    """Of each block in the order in which blocks begin."""
    columns = grid.columns(MOST_BLOCKS)
    value = [between(xs, values, x) for x in range(max(columns) + 1)]
    return [value[x] for x in columns]


def footprint(program, samples, sectors):
    """Bytes that memory itself has to give and to take: of loads (of stores) whose ranges of addresses overlap, what they transfer
    together or the range that they touch, whichever is less. What is read and written counts twice."""
    touched = {i for s in samples for w in s.warps for i in w.accesses}
    stores = {i for i in touched if program.code.ins[i[1] if isinstance(i, tuple) else i].op.startswith("ST")}
    share = lambda which: sum(a.sectors for s in samples for w in s.warps for i, a in w.accesses.items() if i in which)
    all_ = share(touched) or 1
    return sum(once(samples, which, sectors * share(which) / all_) for which in (touched - stores, stores))


def once(samples, which, sectors):
    spans = {}
    for s in samples:
        for w in s.warps:
            for i, a in w.accesses.items():
                if i in which and a.low is not None:
                    low, high, total = spans.get(i, (a.low, a.high, 0))
                    spans[i] = (min(low, a.low), max(high, a.high), total + a.sectors)
    total = sum(t for _, _, t in spans.values()) or 1
    out, parts = 0.0, sorted(spans.values())
    while parts:
        low, high, mine = parts.pop(0)
        while parts and parts[0][0] < high:
            _, h, t = parts.pop(0)
            high, mine = max(high, h), mine + t
        out += min(mine / total * sectors * access.SECTOR, high - low)
    return out


def merged(spans):
    """[low, high, bytes] of ranges that overlap, put together."""
    out = []
    for low, high, n in sorted(spans):
        if out and low < out[-1][1]:
            out[-1][1:] = [max(out[-1][1], high), out[-1][2] + n]
        else:
            out.append([low, high, n])
    return out


def own_ranges(program, sample):
    """What a block loads: [low, high, bytes]; bytes are more than the range where it reads something again."""
    loads = [(a.low, a.high, a.sectors * access.SECTOR * sample.scale) for w in sample.warps for i, a in w.accesses.items()
             if a.low is not None and program.code.ins[i[1] if isinstance(i, tuple) else i].op.startswith("LD")]
    return merged(loads)


def read_again(program, samples, resident, card):
    """Bytes of each sample's block that it reads from DRAM once more. What it alone reads, and reads again, is no longer in the L2 cache
    if the blocks that run at the same time, `resident`, have more of it than the cache keeps: then by the share that is too much."""
    ranges, out = [own_ranges(program, s) for s in samples], []
    for mine in ranges:
        others = [r for r in ranges if r is not mine]
        alone = [r for r in mine if not any(low < r[1] and r[0] < high for o in others for low, high, _ in o)]
        held = sum(min(n, high - low) for low, high, n in alone) * resident
        again = sum(max(0, n - (high - low)) for low, high, n in alone)
        out.append(again * max(0, 1 - CACHED * card.cache / held) if held else 0)
    return out


def drawn(program, kernel, launch, limits, sample):
    """The instructions whose addresses nobody knows without contents."""
    warp = machine.Warp(program, kernel, launch, limits, None, sample.block, sample.which[0])
    try:
        warp.run(most=2 * max(sum(w.counts) for w in sample.warps))
    except machine.Stuck:
        pass  # a loop that ends by such a number
    return {i[1] if isinstance(i, tuple) else i for i, a in warp.accesses.items() if a.unknown}


def of_launch(program, kernel, launch, limits, card, count=SAMPLES):
    """count: of the blocks that are run, at least two."""
    fill = contents.of(kernel, launch)
    held = occupancy.of(card.machine, launch.block, kernel.registers, kernel.shared + launch.shared)
    if not held.blocks:
        raise machine.Stuck(f"{kernel.name}: cannot be launched: {held.limit}")
    grid = order.of(kernel, launch)
    blocks = grid.count
    picked = sample_blocks(grid.size, count)
    samples = [Sample(program, kernel, launch, limits, fill, grid.block(x, y), card) for x, y, _ in picked]
    if any(i.op in ("HMMA", "HGMMA") for i in program.code.ins) and not any(s.flops for s in samples):
        raise machine.Stuck(f"{kernel.name}: none of its products is reached: a number that decides which is not known")
    xs = [x for x, _, _ in picked]
    some = sorted({round(k * (grid.size[0] - 1) / 63) for k in range(64)})
    mean = lambda f: sum(between(xs, [f(s) for s in samples], x) for x in some) / len(some)
    together = min(held.blocks, -(-blocks // card.processors))
    busy = {part: mean(lambda s, part=part: s.cycles[part]) for part in PARTS}
    spread = max(blocks / card.processors, 1)
    seconds = {part: busy[part] * spread / card.clock for part in PARTS if part not in ("l2", "dram")}
    sectors = mean(lambda s: s.sectors) * blocks
    again = dict(zip(map(id, samples), read_again(program, samples, min(blocks, card.processors * together), card)))
    dram = footprint(program, samples, sectors) + mean(lambda s: again[id(s)]) * blocks
    seconds["l2"] = sectors * access.SECTOR / card.l2
    seconds["dram"] = dram / card.bandwidth
    lengths = [s.expected(program, card, together) for s in samples]
    every = all_blocks(grid, xs, lengths)
    line = schedule(every, card.processors * together) * max(1, blocks / len(every)) / card.clock
    expected = max(line, seconds["l2"], seconds["dram"])
    limit = max(seconds, key=seconds.get)
    return Bound(launch, kernel, held, seconds, expected, limit, mean(lambda s: s.instructions) * blocks, mean(lambda s: s.flops) * blocks,
                 sectors, dram, [w.accesses for s in samples for w in s.warps], [max(c) for c in zip(*(w.counts for s in samples for w in s.warps))],
                 drawn(program, kernel, launch, limits, samples[0]) if fill else set())
