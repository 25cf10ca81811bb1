"""launches - reads what record.c wrote down: the launches of one step of a program."""

from collections import namedtuple

# action: its number; times: in a step; grid: three numbers; block: threads; shared: dynamic bytes; params: as in constant bank 0.
Launch = namedtuple("Launch", "action kernel times grid block shared params")
Other = namedtuple("Other", "action what times bytes")  # set, copy (bytes read and written), product
Step = namedtuple("Step", "memory actions launches others")  # memory: (from, to) of each allocation; actions: (kind, name) by number


def place(kernel, data):
    """Parameters one after another, at their offsets."""
    out, at = bytearray(max((o + n for o, n in kernel.params), default=0)), 0
    for offset, size in kernel.params:
        out[offset:offset + size] = data[at:at + size]
        at += size
    return bytes(out)


def read(text, kernels):
    memory, actions, launches, others = [], {}, [], []
    for line in text.splitlines():
        word = line.split(" ")
        if word[0] == "memory":
            memory.append((int(word[1]), int(word[1]) + int(word[2])))
        elif word[0] == "action":
            actions[int(word[1])] = (word[2], " ".join(word[3:]))
        elif word[0] == "launch":
            x, y, z, block, shared = map(int, word[4:9])
            data = b"" if word[9] == "-" else bytes.fromhex(word[9])
            launches.append(Launch(int(word[1]), word[2], int(word[3]), (x, y, z), block, shared, place(kernels[word[2]], data)))
        elif word[0] == "other":
            others.append(Other(int(word[1]), word[2], int(word[3]), float(word[4])))
    return Step(memory, actions, launches, others)
