"""Texts that tiny models of each family go on with: what their goldens and their test share."""

import random

import tiny

ROOM, TOKENS, PREFILL = 64, 40, 8  # positions of a text; tokens that are generated; of a prompt at once
LENGTHS = (3, 24, 11)  # of prompts, that are generated side by side
WHOLE_ROWS = (0, 17, TOKENS - 1)  # tokens of which all logits are in the golden file

# transformers turns each key by the frequencies of the length that the text had when it was new: not what the model is over its window.
BY_LENGTH = {("llama", "dynamic"), ("llama", "longrope"), ("llama", "longrope-short"), ("phi3", "longrope")}
# With its cache transformers' steps are not within time_step_limit, and its logits off by 0.1 from those without it, which are the golden ones.
UNCACHED = {("mamba2", "limits")}
# Dropout of what the softmax gives, of scores under a cap: attention is written out, and its softmax no attention that pass attention knows.
REFUSED = {("gemma2", "dropout")}


def prompts(vocab):
    draw = random.Random(ROOM)
    return [[draw.randrange(4, vocab) for _ in range(n)] for n in LENGTHS]


def projections(row):
    """Of logits on two vectors of random signs."""
    return [sum(s * x for s, x in zip(tiny.signs(f"logits {k}", len(row)), row)) for k in range(2)]


def longer(case):
    """The config and the shapes of a golden case, with room for a text where there is a parameter for each position."""
    config, shapes = dict(case["config"]), dict(case["tensors"])
    if "n_positions" in config:
        config["n_positions"] = ROOM
    for name, (shape, base) in shapes.items():
        if name.endswith("wpe.weight"):
            shapes[name] = [[ROOM, shape[1]], base]
    return config, shapes
