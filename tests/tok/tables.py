"""The character classes of text/tok_tables.c, asked of the package tokenizers: tables.py > tok_tables.c.

Its parts have tables of several versions of Unicode, so each class is what the part that uses it does with every code
point, and no version of a library's table.
"""

import unicodedata

from tokenizers import normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
clean = normalizers.BertNormalizer(True, False, False, False).normalize_str
bert_marks = normalizers.BertNormalizer(False, False, True, False).normalize_str
strip = normalizers.StripAccents().normalize_str
lower = normalizers.Lowercase().normalize_str
nfkd = normalizers.NFKD().normalize_str
nfd = normalizers.NFD().normalize_str


def newer(c):
    """Whether tables of today decompose, reorder or compose a character that the package's leave alone."""
    x = chr(c)
    moves = unicodedata.combining(x) not in (0, 240) and nfkd("a\u0345" + x) == "a\u0345" + x
    return c == 0x11930 or moves or any(
        unicodedata.normalize(form, x) != x and mine(x) == x for form, mine in (("NFD", nfd), ("NFKD", nfkd)))


def cuts(part):
    """Whether the part cuts around a character between two letters."""
    return lambda c: len(part.pre_tokenize_str("a" + chr(c) + "a")) > 1


SETS = [
    ("space", cuts(pre_tokenizers.WhitespaceSplit())),
    ("removed", lambda c: clean(chr(c)) == ""),
    ("mark", lambda c: strip(chr(c)) == ""),
    ("nonspacing", lambda c: bert_marks("a" + chr(c)) == "a"),
    ("punctuation", cuts(pre_tokenizers.Punctuation())),
    ("number", cuts(pre_tokenizers.Digits())),
    ("newer", newer),
    ("word", lambda c: not cuts(pre_tokenizers.Whitespace())(c)),
]


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def steps():
    """Rows of first, last, step, difference: characters that become one other."""
    out = []
    for c in POINTS:
        low = lower(chr(c))
        if low == chr(c) or len(low) != 1:
            continue
        by = ord(low) - c
        last = out[-1] if out else None
        if last and last[3] == by and c - last[1] in (1, 2) and last[2] in (0, c - last[1]):
            last[1:3] = c, c - last[1]
        else:
            out.append([c, c, 0, by])
    return out


def rows(items, width):
    for i in range(0, len(items), width):
        print("    " + ", ".join(items[i:i + width]) + ",")


def main():
    assert [c for c in POINTS if len(lower(chr(c))) != 1] == [0x130] and lower("\u0130") == "i\u0307"
    print("/* tok_tables.c - classes of characters, as the package tokenizers has them: made by tests/tok/tables.py. */\n"
          '#include "text/tok_class.h"\n\n// clang-format off')
    for name, test in SETS:
        print(f"static const TokRange {name}[] = {{")
        rows([f"{{{a:#x}, {b:#x}}}" for a, b in ranges([c for c in POINTS if test(c)])], 8)
        print("};")
    print("const TokLower tok_lower_rows[] = {")
    lows = [f"{{{a:#x}, {b:#x}, {s or 1}, {d}}}" for a, b, s, d in steps()]
    rows(lows, 5)
    print(f"}};\nconst size_t tok_lower_count = {len(lows)};")
    print("#define SET(name) {name, sizeof name / sizeof *name}\nconst TokSet tok_set[] = {")
    rows([f"SET({name})" for name, _ in SETS], 4)
    print("};")


if __name__ == "__main__":
    main()
