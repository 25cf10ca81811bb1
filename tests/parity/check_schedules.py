"""The tables of pipelines that mgc makes against those of PyTorch, golden/schedules.json (schedules.py), action by action; and
mgc reads PyTorch's rows and proves them."""

import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MGC = os.path.join(os.environ["MGC_BUILD"], "mgc")


def table(*words):
    return subprocess.run([MGC, "pipeline", *words], check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    with open(os.path.join(HERE, "golden", "schedules.json"), encoding="utf-8") as f:
        golden = json.load(f)
    wrong = 0
    for t in golden:
        numbers = [f"--{name}={t[name]}" for name in ("ranks", "chunks", "microbatches")]
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as f:
            f.write("\n".join(t["rows"]) + "\n")
            f.flush()
            for made in (table(t["kind"], *numbers), table(f.name, *numbers)):
                if made[:t["ranks"]] != t["rows"] or not made[t["ranks"]].endswith("proved"):
                    wrong += 1
                    print(t["kind"], *numbers, "is", *made[:t["ranks"]], "instead of", *t["rows"], sep="\n")
    print(len(golden), "tables,", wrong, "wrong")
    return len(golden) < 50 or wrong > 0


if __name__ == "__main__":
    sys.exit(main())
