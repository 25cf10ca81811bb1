"""Random layouts of a model: a mesh of a few ranks, rules for some of its dims, classes, microbatches, what is computed again and
what is offloaded."""

from dataclasses import dataclass

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
    lines = [f"batch -> {', '.join(over)}"] if over else []
    along = [a for a in mesh if a not in over and (a == "cp" or r.random() < 0.5)] if dims.seq else []
    for a in [a for a in mesh if a == "tp" or a not in (*over, *along)]:
        for group in r.sample(dims.groups, r.randint(1, min(dims.most_rules, len(dims.groups)))):
            more = [b for b in mesh if b != a and r.random() < dims.two_axes]
            lines.append(f"{group} -> {', '.join(b for b in mesh if b == a or b in more)}")
    if along:
        ways = ("", " (zigzag)", " (ring)", " (ring, zigzag)", *([" (heads)"] * 2 * dims.heads))
        dealt = [a + r.choice(ways) if a == "cp" and dims.zigzag else a for a in along]
        lines.append(f"{dims.seq} -> {', '.join(dealt)}")
    if mesh and r.random() < 0.8:
        classes = ("state", "state, grads", "state, grads, params")[r.randrange(3)]
        lines.append(f"{classes} -> {', '.join(split or mesh)}")
    return lines


def stages_of(r, dims):
    schedule = r.choice(("1f1b", "gpipe", "zb-h1", "interleaved"))
    layers = r.choice(dims.layers)
    chunks = ", chunks = 2" if schedule == "interleaved" else ""
    said = f", stages = {cut_of(r, layers, 4 if chunks else 2)}" if r.random() < 0.4 else ""
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


def text(lines, device="cpu"):
    """The layout as a file has it."""
    level = "disk" if device.startswith("cpu") else "host"
    return "\n    ".join(["layout it {", f"device {device}", *lines]).replace("LEVEL", level) + "\n}\n"
