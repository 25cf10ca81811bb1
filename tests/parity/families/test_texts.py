"""What families generate from caches against transformers' generate with its cache: test_texts.py FAMILY...

Each case of golden_texts/FAMILY.json (written by generate_texts.py) has the likeliest 40 tokens behind three prompts, and the logits of one
of the texts. Windows are of 5 to 7 tokens, so that their rings are filled many times over. Here the program generates the three texts side by
side in float32, and the one alone with its logits. The first case of every fourth family, in turns, and all cases with MGC_FULL=1.
"""

import array
import json
import os
import sys
import tempfile
import zlib

import test_families as families
import texts
import tiny

LOGITS = 1e-4  # times the norm of a row of logits, or 1


def says(folder, prompts, *more):
    argv = [x for p in prompts for x in ("--prompt", " ".join(map(str, p)))]
    out = families.output(folder, "./gen", "--init", "source", "--sample", texts.TOKENS, "--temperature", 0, *argv, *more)
    return [[int(t) for t in line.split()] for line in out.splitlines() if line and not line.startswith("==")]


def rows_of(path):
    header, begin = tiny.read_header(path)
    rows, vocab = header["logits"]["shape"]
    with open(path, "rb") as f:
        f.seek(begin)
        x = array.array("f", f.read())
    return [list(x[k * vocab:(k + 1) * vocab]) for k in range(rows)]


def off(mine, theirs, norm):
    return max(abs(a - b) for a, b in zip(mine, theirs, strict=True)) / max(1, norm)


def refused(family, name, case):
    """With the place in the source."""
    config, shapes = texts.longer(case)
    with tempfile.TemporaryDirectory(prefix="mgc-texts-") as folder:
        tiny.directory(f"{folder}/source", config, shapes)
        families.tiny_model(folder)
        try:
            families.run(folder, "mgc", "m.mg", "--generate", "--check")
            good = False
        except RuntimeError as e:
            good = "m.mg:" in str(e) and "MG0535" in str(e)
    print(f"{family} {name}: {'is refused' if good else 'is not refused as it should be: FAILED'}", flush=True)
    return good


def check(family, name, case, golden):
    config, shapes = texts.longer(case)
    with tempfile.TemporaryDirectory(prefix="mgc-texts-") as folder:
        tiny.directory(f"{folder}/source", config, shapes)
        try:
            families.tiny_model(folder)
            families.run(folder, "mgc", "m.mg", "--generate", "--sequences", len(texts.LENGTHS), "--prefill", texts.PREFILL, "-D", f"seq={texts.ROOM}",
                         "-o", "gen")
            prompts = texts.prompts(config["vocab_size"])
            together = says(folder, prompts)
            alone = says(folder, prompts[-1:], "--logits", "logits.safetensors")
            rows = rows_of(f"{folder}/logits.safetensors")
        except RuntimeError as e:
            print(f"{family} {name}: FAILED\n{e}")
            return False
    norms = [sum(x * x for x in row)**0.5 for row in rows]
    worst = max(off(rows[k], row, norms[k]) for k, row in zip(texts.WHOLE_ROWS, golden["rows"], strict=True))
    signs = max(off(texts.projections(row), p, n) for row, p, n in zip(rows, golden["signs"], norms, strict=True))
    same = together == golden["texts"] and alone == golden["texts"][-1:]
    good = same and worst < LOGITS and signs < LOGITS * len(rows[0])**0.5
    print(f"{family} {name}: texts {'the same' if same else 'DIFFER'}, logits within {worst:.0e}, on signs {signs:.0e}{'' if good else ' NO'}", flush=True)
    return good


def main():
    good = True
    for family in sys.argv[1:]:
        with open(os.path.join(families.HERE, "golden", family + ".json"), encoding="utf-8") as f:
            cases = json.load(f)
        with open(os.path.join(families.HERE, "golden_texts", family + ".json"), encoding="utf-8") as f:
            goldens = json.load(f)
        full = bool(os.environ.get("MGC_FULL"))
        turn = (zlib.crc32(family.encode()) + 1 + int(os.environ.get("MGC_TURN", "0"))) % 4 == 0  # beside another one that trains
        for i, (name, golden) in enumerate(goldens.items()):
            if full or (turn and i == 0):
                good &= check(family, name, cases[name], golden)
        for name in cases:
            if (family, name) in texts.REFUSED:
                good &= refused(family, name, cases[name])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
