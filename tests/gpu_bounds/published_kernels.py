#!/usr/bin/env python3
"""published_kernels - holds what gpu-bounds expects of mgc's kernels against published times of like kernels; no test, run by hand.

    tests/gpu_bounds/published_kernels.py [--markdown] [--parts] [TEXT...]    rows of published_kernels.tsv that have each text

A row is of a kernel that does the work of a class (CLASSES) on `rows` rows of `columns` numbers, and that took `us` microseconds.
For each a small program is made that has this work, and the kernels of mgc that do it are run by gpu-bounds. Two numbers come of it:

- ratio: bytes a second of the published kernel, by those expected of mgc's. The published kernel's bytes are those that the work has
  to move (what it reads and what it writes once, CLASSES); mgc's are those that its kernels do move, by the tool. So it says whether
  a card is as fast as the tool expects, and fusions that differ do not matter.
- time: the published time by the expected one, for the same work. Below 1 mgc's kernels are expected to be slower.

Needs nvcc and nvdisasm, as scripts/gpu-bounds does. --markdown writes the table of docs/gpu_bounds.md."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import namedtuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
from gpu_bounds import bounds, build, cards, machine  # noqa: E402

# times: how often the work reads and writes each number at least, or `bytes` of each row; params, y: of the program, where x has the
# rows; kernels: expressions for the names of mgc's kernels, by pass.
Class = namedtuple("Class", "times bytes params y kernels")
GAIN, BIAS = "gain : param[columns] = 1", "bias : param[columns] = 0"
SECOND = "u : param[small, columns] ~ normal(0.02)"
CLASSES = {
    "rms": Class({"forward": 2, "gradient": 3}, 0, GAIN, "rmsnorm(x, gain, over columns, eps = 1e-5)",
                 {"forward": "[dk]_rmsnorm", "gradient": r"d_rmsnorm_2|d_rmsnorm_param_\w+"}),
    "layer": Class({"forward": 2, "gradient": 3}, 0, GAIN + "\n    " + BIAS, "layernorm(x, gain, bias, over columns, eps = 1e-5)",
                   {"forward": "[dk]_layernorm", "gradient": r"d_layernorm_2|d_layernorm_param_\w+|d_mul_\w+"}),
    "gelu": Class({"forward": 2, "gradient": 3}, 0, "", "gelu_tanh(x)", {"forward": "mg_gelu_[a-z0-9]+", "gradient": "d_gelu_tanh"}),
    "gate": Class({"forward": 3, "gradient": 5}, 0, SECOND, "silu(x) * (wte[tokens] @ u over small)",
                  {"forward": "k_silu", "gradient": "d_silu"}),
    "residual": Class({"forward": 3}, 0, SECOND, "x + wte[tokens] @ u over small", {"forward": "k_one_y"}),
    "rope": Class({"forward": 2, "gradient": 2}, 0, "", "rope(x, along seq, over head, theta = 10000)", {"forward": "k_rope", "gradient": "d_rope"}),
    "embedding": Class({"forward": 2}, 0, "", "x", {"forward": r"mg_gather_\d+"}),
    "cross_entropy": Class({"both": 2}, 0, "", "x", {"both": r"mg_head_rows_\w+"}),
    # llm.c reads gradients (bf16), moments and parameters (f32), and writes moments and parameters (f32, bf16).
    "adamw": Class({"update": 0}, 28, "", "x", {"update": r"k_adamw_?\d*"}),
}
HEAD = 256  # of rope: Liger's benchmark has 32 and 8 heads, together 8192 and 2048 numbers
WIDTH = {"bf16": 2, "f16": 2, "f32": 4}
PLANNED = {"a100_40gb": "a100", "a100_pcie": "a100"}  # mgc plans with the description of this card
PROGRAM = """dim small = {small}, columns = {columns}, vocab = {vocab}, batch = {batch}, seq = {seq}{dims}
model one(tokens[batch, seq] : token(vocab)) {{
    wte : param[vocab, small] ~ normal(0.02)
    w   : param[small, {wide}] ~ normal(0.02)
    v   : param[{wide}, vocab] ~ normal(0.02)
    {params}
    x = wte[tokens] @ w over small
    y = {y}
    loss = cross_entropy(y @ v over {over}, next(tokens))
}}
train {{
    optimizer adamw(betas = (0.9, 0.95), eps = 1e-8, decay = 0.1 where rank >= 2)
    lr        constant(peak = 6e-4)
    clip      1.0
}}
layout {{
    device cpu
    microbatch 1
    recompute auto
}}
"""


def program(row):
    """The text of a program that has the work of a row, and its batch."""
    kind, rows, columns = row["class"], row["rows"], row["columns"]
    of = CLASSES[kind]
    small, vocab, dims, wide = 64, 64, "", ("columns",)
    if kind == "rope":  # a sequence has all positions
        dims, wide, batch = f", heads = {columns // HEAD}, head = {HEAD}", ("heads", "head"), 1
    else:
        batch = next(b for b in range(1, rows + 1) if rows % b == 0 and rows // b <= 1024)
    if kind == "embedding":
        small, columns, vocab = columns, 64, row["vocab"]
    elif kind == "cross_entropy":
        columns, vocab = 64, columns
    elif kind == "adamw":  # one parameter has them all
        small, columns, rows, batch = 1024, rows // 1024, 64, 1
    text = PROGRAM.format(small=small, columns=columns, vocab=vocab, batch=batch, seq=rows // batch, dims=dims, params=of.params, y=of.y,
                          wide=", ".join(wide), over="(heads, head)" if len(wide) > 1 else wide[0])
    return text, batch


class Programs:
    """What was made of programs, for rows that have the same."""

    def __init__(self):
        self.known = {}

    def of(self, row, card):
        text, batch = program(row)
        key = (text, card.name, row["type"])
        if key not in self.known:
            with tempfile.TemporaryDirectory() as folder:
                self.known = {key: made(text, batch, row, card, folder)}  # rows of the same stand together
        return self.known[key]


def made(text, batch, row, card, folder):
    """(kernels, their code, the step) of a program."""
    source, cu, c = (os.path.join(folder, n) for n in ("one.mg", "kernels.cu", "program.c"))
    with open(source, "w", encoding="ascii") as f:
        f.write(text)
    mgc = [os.path.join(build.build_folder(), "mgc"), source, "--device", PLANNED.get(card.name, card.name), "--precision", row["type"],
           "--microbatch", str(batch)]
    build.run([*mgc, "--emit=cuda", "-o", cu])
    build.run([*mgc, "--emit=c", "-o", c])
    kernels, codes = build.machine_code(cu, card.arch, folder)
    return kernels, codes, build.record(c, kernels, card, folder, apart=row["class"] == "gelu")


def launches_of(programs, row, card):
    """The bounds of the kernels of mgc that do the work of a row, each with how often a step launches it."""
    kernels, codes, step = programs.of(row, card)
    wanted = CLASSES[row["class"]].kernels[row["pass"]]
    found = [(bounds.of_launch(machine.Program(codes[l.kernel]), kernels[l.kernel], l, step.memory, card), l.times)
             for l in step.launches if re.fullmatch(wanted, l.kernel)]
    if not found:
        raise build.Failed(f"no kernel is called {wanted}: {sorted({l.kernel for l in step.launches})}")
    return found


def table():
    with open(os.path.join(HERE, "published_kernels.tsv"), encoding="ascii") as f:
        lines = [line.rstrip("\n").split("\t") for line in f]
    for cells in lines[1:]:
        row = dict(zip(lines[0], cells, strict=True))
        row.update((key, int(row[key])) for key in ("rows", "columns", "vocab"))
        yield {**row, "us": float(row["us"])}


def needed(row):
    """Bytes that the work has to move."""
    of = CLASSES[row["class"]]
    return row["rows"] * (of.bytes or row["columns"] * WIDTH[row["type"]] * of.times[row["pass"]])


def card_of(name):
    path = os.path.join(HERE, name + ".json")
    return cards.read(path if os.path.exists(path) else name)


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0], allow_abbrev=False)
    parse.add_argument("--markdown", action="store_true")
    parse.add_argument("--parts", action="store_true", help="the bounds of each kernel")
    parse.add_argument("texts", nargs="*")
    given = parse.parse_args()
    programs, groups = Programs(), {}
    for row in table():
        if not all(re.search(t, "\t".join(str(v) for v in row.values())) for t in given.texts):
            continue
        found = launches_of(programs, row, card_of(row["card"]))
        us = sum(b.expected * n for b, n in found) * 1e6
        published, expected = needed(row) / row["us"] / 1e3, sum(b.dram * n for b, n in found) / us / 1e3
        longest = max(found, key=lambda f: f[0].expected * f[1])[0]
        kind = [row["class"], row["pass"], row["card"], row["type"], row["kernel"]]
        shape, time = f"{row['rows']} x {row['columns']}", row["us"] / us
        groups.setdefault(tuple(kind), []).append(f"{shape}: {published:.0f}, {published / expected:.2f}, {time:.2f}")
        if not given.markdown:
            print("\t".join([*kind, shape, f"{row['us']:g}", f"{published:.0f}", f"{expected:.0f}", longest.limit, f"{published / expected:.2f}",
                             f"{us:.0f}", f"{time:.2f}"]), flush=True)
        if given.parts:
            for b, n in found:
                print(f"    {b.kernel.name} x {n} {b.expected * 1e6:.1f} us, {b.dram / 1e6:.0f} MB",
                      {k: round(v * 1e6, 1) for k, v in b.seconds.items() if v * 1e6 > 0.05})
    if given.markdown:
        for kind, cells in groups.items():
            print("| " + " | ".join(kind) + " | " + "; ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (build.NoTool, build.Failed, machine.Stuck, subprocess.SubprocessError) as e:
        sys.exit(f"published_kernels: {e}")
