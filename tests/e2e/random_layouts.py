"""Random layouts of a model: a mesh of a few ranks, rules for some of its dims, classes, microbatches, what is computed again and
what is offloaded; and which of the ways of docs/layouts.md a layout has."""

import re
from dataclasses import dataclass, field

AXES = ("dp", "cp", "tp")


@dataclass
class Dims:
    """The dims of a model that a layout may split."""

    groups: list  # of texts: dims that one rule splits together
    seq: str = ""  # the dim of positions, if there is one
    zigzag: bool = False  # whether attention along it may be in zigzag order
    heads: bool = False  # whether an exchange of heads may be asked for, which is refused where no heads divide
    layers: tuple = ()  # dims of repeats, which may be stages
    most_rules: int = 1  # of groups, for an axis
    two_axes: float = 0  # how often such a rule names another axis, too
    thirds: tuple = ("dp", "dp", "cp")  # the axes that may have three ranks
    rows: str = ""  # the dim of experts whose rows are sorted: they may be sent, or matrices gathered
    pads: dict = field(default_factory=dict)  # sizes of dims that are padded where their ranks do not divide them


def mesh_of(r, dims, ranks):
    """Axes and their sizes, in some order; together so many ranks, a power of two or three times one."""
    sizes = {a: 1 for a in AXES}
    if ranks % 3 == 0:
        sizes[r.choice(dims.thirds)] = 3
        ranks //= 3
    while ranks > 1:
        sizes[r.choice(AXES)] *= 2
        ranks //= 2
    mesh = [a for a in AXES if sizes[a] > 1]
    r.shuffle(mesh)
    return {a: sizes[a] for a in mesh}


def rules_of(r, dims, mesh):
    """Rules, of which each axis of the mesh has one at least where the model allows it."""
    split = [a for a in mesh if a != "tp"]
    over = [a for a in split if a == "dp" or r.random() < 0.3]  # cp may split the batch, too
    if len(over) == 2 and r.random() < 0.4:  # neighbours of a batch are on the outer axis
        over.reverse()
    lines = [f"batch -> {', '.join(over)}"] if over else []
    along = [a for a in mesh if a not in over and (a == "cp" or r.random() < 0.5)] if dims.seq else []
    for a in [a for a in mesh if a == "tp" or a not in (*over, *along)]:
        for group in r.sample(dims.groups, r.randint(1, min(dims.most_rules, len(dims.groups)))):
            more = [b for b in mesh if b != a and r.random() < dims.two_axes]
            over_it = [b for b in mesh if b == a or b in more]
            first = len(over_it) == 1 and not any(a in line.split("->")[1].split(", ") for line in lines if "->" in line)
            word = r.choice(("", " (rows)", " (gather)")) if group == dims.rows and first else ""
            lines.append(f"{group} -> {', '.join(over_it)}{word}")
            lines += pads_of(dims, group, mesh, over_it)
    if along:
        ways = ("", " (zigzag)", " (ring)", " (ring, zigzag)", *([" (heads)"] * 2 * dims.heads))
        dealt = [a + r.choice(ways) if a == "cp" and dims.zigzag else a for a in along]
        if len(along) == 2 and dims.heads and r.random() < 0.5:  # a ring of groups that exchange heads
            dealt = [along[0] + r.choice((" (ring)", " (ring, zigzag)")), along[1] + " (heads)"]
        lines.append(f"{dims.seq} -> {', '.join(dealt)}")
    if mesh and r.random() < 0.8:
        classes = ("state", "state, grads", "state, grads, params")[r.randrange(3)]
        lines.append(f"{classes} -> {', '.join(split or mesh)}")
    return lines


def pads_of(dims, group, mesh, over):
    """What has to be asked for: mgc pads a dim by itself where that is little."""
    ranks = 1
    for a in over:
        ranks *= mesh[a]
    found = [(d, size, -size % ranks) for d, size in dims.pads.items() if d in group.split(", ")]
    return [f"pad {d} to {size + more}" for d, size, more in found if more]


def stages_of(r, dims):
    schedule = r.choice(("1f1b", "gpipe", "zb-h1", "interleaved"))
    layers = r.choice(dims.layers)
    chunks = ", chunks = 2" if schedule == "interleaved" else ""
    chunks += r.choice(("", ", pairs = all", ", pairs = none")) if schedule in ("1f1b", "interleaved") else ""
    said = f", stages = {cut_of(r, layers, 4 if schedule == 'interleaved' else 2)}" if r.random() < 0.4 else ""
    return f"{layers} -> pp (schedule = {schedule}{chunks}{said})"


def cut_of(r, layers, stages):
    """So many layers for each stage, of a dim of any size: one layer in some, the rest in one, none in others."""
    ones = r.randint(0, 1 if r.random() < 0.8 else 2)
    ones = min(ones, stages - 1)
    of = [f"{layers} - {ones}" if ones else layers, *["1"] * ones]
    of += ["0"] * (stages - len(of))
    r.shuffle(of)
    return f"[{', '.join(of)}]"


def offload_of(r):
    """What lies on another level of memory, which text() names: a third of layouts offload something."""
    return [f"offload {r.choice(('state', 'masters', 'state, masters', 'parameters', 'gradients', 'kept', 'state, masters, parameters, gradients, kept'))} -> LEVEL"] if r.random() < 0.33 else []


def draw(r, dims, ranks=(2, 4, 4), stages=0.15):
    """The number of ranks, and the lines of a layout."""
    n = r.choice(ranks)
    if dims.layers and r.random() < stages:
        n = 4 if n == 3 else n  # stages of one layer each
        mesh = mesh_of(r, dims, n // 2)
        lines = [*rules_of(r, dims, mesh), stages_of(r, dims)]
        mesh = {"pp": 2, **mesh} if r.random() < 0.5 else {**mesh, "pp": 2}
    else:
        mesh = mesh_of(r, dims, n)
        lines = rules_of(r, dims, mesh)
    lines += [f"microbatch {r.choice((1, 2, 4))}", f"recompute {r.choice(('auto', 'none', 'all'))}", *offload_of(r)]
    return n, [f"mesh {', '.join(f'{a} = {size}' for a, size in mesh.items())}", *lines]


# Ways that a layout may ask for, and the line that does. Those that plans choose are in no line.
WAYS = {"sequences on ranks": r"^batch ->", "a dim on two axes": r"^(?!mesh|state)\w.*-> [^,(]+(\([^)]*\))?, \w",
        "state in parts": r"^state ->", "state and gradients in parts": r"^state, grads ->",
        "state, gradients and parameters in parts": r"^state, grads, params ->", "three ranks on an axis": r"^mesh .*= 3", "a padded dim": r"^pad ",
        "a ring": r"\(ring", "zigzag order": r"zigzag\)", "heads exchanged": r"-> \w+ \(heads\)", "groups that exchange heads": r"\(ring.*, \w+ \(heads\)",
        "sorted rows sent": r"\(rows\)", "matrices gathered": r"\(gather\)", "gpipe": r"= gpipe", "1f1b": r"= 1f1b", "interleaved": r"= interleaved",
        "zb-h1": r"= zb-h1", "stages that are said": r"stages =", "a stage without a layer": r"stages = .*\b0\b", "pairs": r"pairs = all",
        "several microbatches": r"^microbatch [12]", "all computed again": r"^recompute all", "offload": r"^offload", "kept offloaded": r"^offload .*kept"}


def ways_of(lines):
    return {name for name, form in WAYS.items() if any(re.search(form, line) for line in lines)}


def text(lines, device="cpu"):
    """The layout as a file has it."""
    level = "disk" if device.startswith("cpu") else "host"
    return "\n    ".join(["layout it {", f"device {device}", *lines]).replace("LEVEL", level) + "\n}\n"
