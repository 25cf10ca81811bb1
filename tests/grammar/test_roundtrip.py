"""Every source of the project through the formatter: the text formatted again is the same, and so are its tree and
its comments.

A file with an error of syntax has no tree (mgc-front ends with 1); all others are compared. Templates of families (models/hf) are no
sources. The golden tests of
diagnostics are part of it, so whatever the language has gained is here.

    test_roundtrip.py MGC_FRONT
"""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    files = sorted(f for d in ("models", "tests", "compiler", "bench") for f in (ROOT / d).rglob("*.mg")
                   if ROOT / "models/hf" not in f.parents)
    compared = 0
    wrong = []
    for f in files:
        ran = subprocess.run([sys.argv[1], "roundtrip", str(f)], capture_output=True, text=True)
        if ran.returncode == 0:
            compared += 1
        elif ran.returncode != 1 or "error[MG01" not in ran.stderr:
            wrong.append(f"{f.relative_to(ROOT)}: exit {ran.returncode}: {ran.stdout.strip() or ran.stderr.strip()}")
    print("\n".join(wrong + [f"{compared} of {len(files)} files compared"]))
    return bool(wrong) or compared < 0.9 * len(files)


sys.exit(main())
