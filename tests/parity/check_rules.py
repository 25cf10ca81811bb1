"""Every optimizer in emitted programs against golden/rules.json (rules.py): check_rules.py f32|f64 [NAME...]. Some are those
that optimizers.mg declares."""

import json
import os
import re
import shutil
import sys
import tempfile

from check import HERE, MGC, read_safetensors, run, start_from, steps

BOUND = {"f32": 2e-5, "f64": 1e-9}


def compile_rule(folder, rule, precision):
    declared = ""
    with open(os.path.join(HERE, "llama_small.mg"), encoding="utf-8") as f:
        text = f.read().replace("precision f32", f"precision {precision}")
    if rule.get("declared"):
        with open(os.path.join(HERE, "optimizers.mg"), encoding="utf-8") as f:
            declared = f.read()
    text = re.sub(r"optimizer .*", lambda _: f"optimizer {rule['optimizer']}\n    {rule['lines']}", text)
    with open(os.path.join(folder, "rule.mg"), "w", encoding="utf-8") as f:
        f.write(declared + text)
    run(folder, MGC, "rule.mg", "-o", "rule")


def check(name, rule, precision, golden):
    folder = tempfile.mkdtemp(prefix="mgc-rules-")
    try:
        _, (sequences, window), data = golden["batch"]
        for i in range(sequences):
            with open(os.path.join(folder, f"{i:02d}.window"), "wb") as f:
                f.write(data[i * window:(i + 1) * window].tobytes())
        compile_rule(folder, rule, precision)
        start_from(folder, "rule", golden, "run")
        # As many steps as the schedule has, of which the golden ones are the first.
        run(folder, "./rule", "--data", "*.window", "--out", "run", "--resume", "--steps", 20)
        rows = steps(folder, "run")[:len(rule["losses"])]
    finally:
        shutil.rmtree(folder)
    loss = max(abs(r["loss"] - x) for r, x in zip(rows, rule["losses"], strict=True))
    norm = max(abs(r["grad_norm"] - x) / x for r, x in zip(rows, rule["norms"], strict=True))
    good = loss <= BOUND[precision] and norm <= 100 * BOUND[precision]
    print(f"{name} {precision}: {len(rows)} losses off by {loss:.1e}, norms by {norm:.1e}{'' if good else ': DIFFER'}")
    return good


def main():
    precision = sys.argv[1]
    golden = read_safetensors(os.path.join(HERE, "golden/llama_small.safetensors"))
    with open(os.path.join(HERE, "golden/rules.json"), encoding="utf-8") as f:
        rules = json.load(f)
    declared = [n for n in rules if rules[n].get("declared")]
    part = 1 if os.environ.get("MGC_FULL") else 3  # those of a file turn with the commit
    turn = int(os.environ.get("MGC_TURN", "0")) % part
    names = sys.argv[2:] or [n for n in rules if n not in declared or declared.index(n) % part == turn]
    names = [n for n in names if rules[n].get("precision", precision) == precision]
    return 0 if all([check(n, rules[n], precision, golden) for n in names]) else 1


if __name__ == "__main__":
    sys.exit(main())
