"""report - the table of a model's kernels, and the time of its step by them."""

from collections import defaultdict

from . import bounds, cards, pipes, timeline

GUESSES = cards.GUESSES + pipes.GUESSES + timeline.GUESSES + bounds.GUESSES + [
    "where a branch depends on data a warp goes both ways; tables of indices hold numbers drawn evenly (machine.py, contents.py)",
    "products are the plan's (product_share): their kernels are the library's; it has an algorithm with each epilogue (see --apart)",
    "actions run one after another: nothing runs beside anything else; with streams, as the plan says what one takes from the other"]


def of_model(model, card, say=lambda *_: None):
    """The bound of each different launch, by its index in model.step.launches."""
    known, found = {}, []
    for launch in model.step.launches:
        key = (launch.kernel, launch.grid, launch.block, launch.shared, without_pointers(model, launch))
        if key not in known:
            say(launch.kernel)
            known[key] = bounds.of_launch(model.programs[launch.kernel], model.kernels[launch.kernel], launch, model.step.memory, card)
        found.append(known[key]._replace(launch=launch))
    return found


def without_pointers(model, launch):
    """Parameters, of a pointer into the program's memory only what it is a multiple of."""
    out, params = [], launch.params
    for at in range(0, len(params), 8):
        word = int.from_bytes(params[at:at + 8], "little")
        inside = any(a <= word < b for a, b in model.step.memory)
        out.append(word % 256 if inside else word)
    return tuple(out)


def step_seconds(model, found, card):
    """Seconds of a step by kind of action: what the machine code says, else what the plan says; and of the plan alone. Third: by how
    much actions together are longer than in the plan."""
    launch = card.description["launch_seconds"]
    calls, code, sent, moved = defaultdict(int), defaultdict(float), defaultdict(float), defaultdict(float)
    for b in found:
        code[b.launch.action] += b.expected * b.launch.times
        moved[b.launch.action] += b.dram / card.bandwidth * b.launch.times
        calls[b.launch.action] = max(calls[b.launch.action], b.launch.times)
    products = set()
    for o in model.step.others:
        if o.what == "product":
            products.add(o.action)
        else:
            sent[o.action] += o.times * o.bytes / card.bandwidth
        calls[o.action] = max(calls[o.action], o.times)
    ours, plans, longer = defaultdict(float), defaultdict(float), 0.0
    for action, (kind, _) in model.step.actions.items():
        if action not in calls:
            continue
        runs = runs_of(model, action, calls[action], kind)
        plan = model.seconds.get(action, 0) * runs
        plans[kind] += plan
        if action in products:  # the plan's seconds of a head have its kernel in them, by the bytes that it moves
            mine = plan + code[action] - (moved[action] if kind.startswith("head") else 0)
        else:
            mine = max(code[action] + sent[action], launch * runs)
        ours[kind] += mine
        longer += max(0, mine - plan)
    return ours, plans, longer


def runs_of(model, action, calls, kind):
    """How often an action runs in a step: a head launches once for each chunk of rows, a convolution for each of its parts."""
    if kind not in ("head", "head_loss", "scatter_add", "convolution"):
        return calls
    return min([calls] + [o.times for o in model.step.others if o.action == action] +
               [l.times for l in model.step.launches if l.action == action])


def number(x):
    return f"{x * 1e6:.1f}" if x < 1 else f"{x * 1e6:.0f}"


def table(model, found, card):
    """Lines: a kernel each, those that take most of a step first."""
    total = defaultdict(lambda: [0.0, 0, None])
    for b in found:
        key = (b.launch.kernel, b.launch.grid)
        row = total[key]
        row[0] += b.expected * b.launch.times
        row[1] += b.launch.times
        row[2] = b
    yield f"| {'kernel':28} | grid | blocks a multiprocessor | times | bound, us | by | next | expected, us | TFLOP/s | ms a step |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for (name, grid), (seconds, times, b) in sorted(total.items(), key=lambda x: -x[1][0]):
        parts = sorted(b.seconds.items(), key=lambda x: -x[1])
        rate = f"{b.flops / b.expected / 1e12:.0f}" if b.flops else ""
        yield (f"| `{name}` | {' x '.join(str(g) for g in grid if g > 1) or 1} | {b.occupancy.blocks}, {b.occupancy.limit} | {times} "
               f"| {number(parts[0][1])} | {parts[0][0]} | {parts[1][0]} {number(parts[1][1])} | {number(b.expected)} | {rate} | {seconds * 1e3:.3f} |")


def summary(model, found, card):
    ours, plans, longer = step_seconds(model, found, card)
    flops, both = model.plan["flops_per_step"] / model.plan["ranks"], (sum(ours.values()), sum(plans.values()))
    peak = card.flops * card.clock * card.processors
    yield "| actions | by machine code, ms | the plan, ms |"
    yield "|---|---|---|"
    for kind in sorted(ours, key=lambda k: -ours[k]):
        yield f"| {kind} | {ours[kind] * 1e3:.2f} | {plans[kind] * 1e3:.2f} |"
    yield f"| all, one after another | {both[0] * 1e3:.2f} | {both[1] * 1e3:.2f} |"
    yield f"MFU {flops / peak / both[0]:.1%} by machine code, {flops / peak / both[1]:.1%} by the plan's actions"
    step = model.plan["step_ms"] * 1e-3
    # The order in the streams is fixed, so a step grows by no more than its actions do.
    yield (f"with the plan's streams: {step * 1e3:.1f} ms by the plan, MFU {flops / peak / step:.1%}; at most {(step + longer) * 1e3:.1f} ms "
           f"with what actions take longer by machine code, MFU {flops / peak / (step + longer):.1%}")
