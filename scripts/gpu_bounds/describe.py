"""describe - the table of attention of a device description, from the machine code of its kernels.

Each row is what a card measured (MEASURED), or else the rate that bounds.py expects of the kernels of mgc, times the factor of their class (FACTORS): published rates of other
kernels by those that are expected of their machine code (docs/gpu_bounds.md). Shapes are those of the published tables: 16384
positions, heads times their size 2048, a causal mask."""

import json
import os
import re

from . import bounds, build, cards, machine

# Published rate by expected rate. No kernel of tf32 or of float32 was found: that of flash is assumed.
FACTORS = {"flash_sm90": (0.82, 0.82), "flash": (0.91, 0.87), "flash_tf32": (0.91, 0.87), "flash_f32": (0.91, 0.87)}
# MEASURED has what an H100 measured, forward and gradient, of its peak: bench/results/h100.md, "Attention alone" (causal; heads of 64 with 64 sequences of
# 1024 and 4 of 4096, of 128 with 4 of 1024 and 4096, and one of 16384).
MEASURED = {90: {("flash_sm90", 64, 1024): (0.269, 0.214), ("flash_sm90", 64, 4096): (0.362, 0.274), ("flash_sm90", 128, 1024): (0.276, 0.227),
                 ("flash_sm90", 128, 4096): (0.44, 0.383), ("flash_sm90", 128, 16384): (0.516, 0.43)}}
POSITIONS, HIDDEN = 16384, 2048
LENGTHS, FEW = (512, 1024, 4096), (1024,)
BLOCKS = 3  # that are run: under a mask a block takes as long as it is far from the first
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attention.mg")
PRECISION = {"flash_tf32": "tf32", "flash_f32": "f32"}
PEAK = {"flash_tf32": "flops_tf32_per_thread", "flash_f32": "flops_f32_per_thread"}


def wanted(card):
    """(class, head, lengths) of the rows of a card."""
    best = "flash_sm90" if card.description.get("warpgroups") else "flash"
    lengths = (*LENGTHS, 16384) if best == "flash_sm90" else LENGTHS
    longer = [(best, 192, lengths)] if best == "flash_sm90" else []
    return [(best, 64, lengths), (best, 128, lengths), *longer, ("flash", 256, FEW), ("flash_tf32", 128, FEW), ("flash_f32", 128, FEW)]


class Attention:
    """The machine code of the kernels of a class and a head, which is the same for all lengths."""

    def __init__(self, card, kernels, head, folder):
        self.card, self.kernels, self.head, self.folder = card, kernels, head, folder
        self.code = None

    def step(self, keys):
        options = ["--precision", PRECISION.get(self.kernels, "bf16"), "-D", f"seq={keys}", "-D", f"batch={POSITIONS // keys}",
                   "--microbatch", str(POSITIONS // keys), "-D", f"head={self.head}", "-D", f"heads={HIDDEN // self.head}"]
        mgc = [os.path.join(build.build_folder(), "mgc"), MODEL, "--device", self.card.path, *options]
        source, program = os.path.join(self.folder, "kernels.cu"), os.path.join(self.folder, "program.c")
        build.run([*mgc, "--emit=c", "-o", program])
        if self.code is None:
            build.run([*mgc, "--emit=cuda", "-o", source])
            self.code = build.machine_code(source, self.card.arch, self.folder)
        return build.record(program, self.code[0], self.card, self.folder)

    def share(self, keys):
        """Of the peak of these numbers, forward and in the gradient, as machine code alone says."""
        step, (kernels, codes) = self.step(keys), self.code
        prefix = "mg_flash90_" if self.kernels == "flash_sm90" else "mg_flash_"
        seconds = {"attention": 0.0, "attention_grad": 0.0}
        for launch in step.launches:
            kind = step.actions[launch.action][0]
            if kind not in seconds:
                continue
            if not launch.kernel.startswith((prefix, "mg_flash_delta")):
                raise build.Failed(f"attention of {self.kernels} with heads of {self.head} takes {launch.kernel}")
            found = bounds.of_launch(machine.Program(codes[launch.kernel]), kernels[launch.kernel], launch, step.memory, self.card, BLOCKS)
            seconds[kind] += found.expected
        pairs = POSITIONS * (HIDDEN // self.head) * keys / 2
        peak = self.card.description[PEAK.get(self.kernels, "flops_bf16_per_thread")] * self.card.processors
        return pairs * 4 * self.head / seconds["attention"] / peak, pairs * 10 * self.head / seconds["attention_grad"] / peak


def capped(card, kernels, share):
    """No more than the library's products reach: what lowers their clock lowers that of attention, too."""
    of = card.description
    own = of.get("product_share_" + PRECISION[kernels]) if kernels in PRECISION else None
    return round(min(share, own or of["product_share"]), 3)


def rows(card, folder):
    """Rows of the description, in its order."""
    for kernels, head, lengths in wanted(card):
        attention, factor = Attention(card, kernels, head, folder), FACTORS[kernels]
        for keys in lengths:
            share = MEASURED.get(card.machine, {}).get((kernels, head, keys))
            share = share or [capped(card, kernels, s * f) for s, f in zip(attention.share(keys), factor)]
            row = {"kernels": kernels, "head": head, "keys": keys, **dict(zip(("forward", "gradient"), share))}
            yield row


def write(path, table):
    """Puts the table into a description in the place of the one that it has; the rest of its text stays."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lines = ",\n".join("    " + json.dumps(row) for row in table)
    new, n = re.subn(r'"attention": \[.*?\n  \]', lambda _: f'"attention": [\n{lines}\n  ]', text, flags=re.S)
    if n != 1:
        raise ValueError(f'{path}: no list "attention" that ends on a line of its own')
    json.loads(new)
    with open(path, "w", encoding="utf-8") as f:
        f.write(new)


def descriptions(names, folder, say=print):
    """Writes them all. Cards of as many multiprocessors that do as much in a cycle have the same shares of their peaks."""
    known = {}
    for name in names:
        card = cards.read(name)
        key = (card.machine, card.flops, card.processors, bool(card.description.get("warpgroups")))
        if key not in known:
            known[key] = list(rows(card, folder))
        for row in known[key]:
            say(f"{card.name} {json.dumps(row)}")
        write(card.path, known[key])
