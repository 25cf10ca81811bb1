"""launches - reads what tests/record wrote down: the launches of one step of a program. Those that differ in their pointers alone are
one."""

from collections import namedtuple

# action: its number; times: in a step; grid: three numbers; block: threads; shared: dynamic bytes; params: as in constant bank 0.
Launch = namedtuple("Launch", "action kernel times grid block shared params")
Other = namedtuple("Other", "action what times bytes")  # set, copy (bytes read and written), product
Step = namedtuple("Step", "memory actions launches others")  # memory: (from, to) of each allocation; actions: (kind, name) by number
DEVICE_TO_DEVICE = "3"


def place(kernel, data):
    """Parameters one after another, at their offsets. The recorder and nvcc agree on their bytes."""
    if len(data) != sum(n for _, n in kernel.params):
        raise ValueError(f"{kernel.name} has other parameters than tests/record/parameters.c says")
    out, at = bytearray(max((o + n for o, n in kernel.params), default=0)), 0
    for offset, size in kernel.params:
        out[offset:offset + size] = data[at:at + size]
        at += size
    return bytes(out)


def read(lines, kernels):
    memory, actions, launches, others = [], {}, {}, {}
    began = False
    for line in lines:
        what, action, *word = line.split()
        if what == "action":
            actions[int(action)] = (word[0], " ".join(word[1:]))
        elif what in ("malloc", "pin"):
            memory.append((int(word[0]), int(word[0]) + int(word[1])))
        elif what == "program":
            began = True
        elif what == "launch" and began:
            key = (action, *word[1:9])  # all but the stream and the parameters
            launches.setdefault(key, [0, word[9]])[0] += 1
        elif began and (what in ("product", "set") or what == "copy" and word[4] == DEVICE_TO_DEVICE):
            moved = 2 * int(word[3]) if what == "copy" else int(word[2]) if what == "set" else 0
            others[int(action), what, moved] = others.get((int(action), what, moved), 0) + 1
    steps = [Launch(int(a), k, times, (int(x), int(y), int(z)), int(bx) * int(by) * int(bz), int(shared),
                    place(kernels[k], b"" if data == "-" else bytes.fromhex(data)))
             for (a, k, x, y, z, bx, by, bz, shared), (times, data) in launches.items()]
    return Step(memory, actions, steps, [Other(a, what, times, float(moved)) for (a, what, moved), times in others.items()])
