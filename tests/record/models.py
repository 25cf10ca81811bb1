#!/usr/bin/env python3
"""models.py - every shipped model at full size, and small ones under all layouts of tests/e2e/layouts.py, recorded and checked
(recorded.py); prints the table of docs/gpu.md.

    models.py [TEXT...]      the cases that have all of these texts
    models.py --some         for continuous integration: the pipeline of 405 billion parameters, one other model with fewer
                             microbatches, and one layout; which, MGC_TURN says"""

import math
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../e2e")]
import layouts  # noqa: E402
from recorded import Case, Program  # noqa: E402


def on(model, device, *more, **how):
    return Case(model, ("--device", device, *more), **how)


def layout(model, name, *more, **how):
    return Case(model, ("--layout", name, *more), **how)


# 256 ranks are the most that a program has: data parallelism of 2 in place of 128, and as many microbatches a rank.
POD = ("-D", "dp=2", "-D", "batch=32", "--device", "h200")
SMALL = ["mlp", "gpt2_124m", "llama_mini", "llama_56m", "mixtral_mini", "gemma2", "gemma3", "deepseek", "qwen2_0_5b", "qwen3_0_6b", "vit", "clip",
         "whisper", "mamba2", "bamba", "deepseek_v3", "dit"]
CASES = [
    *(on(m, "h100") for m in SMALL),
    *(on(m, d, "--precision", p) for m, d, p in (("gpt2_124m", "a100", "f16"), ("gpt2_124m", "rtx4090", "bf16"), ("mlp", "h100", "f64"),
                                                ("gpt2_124m", "h100", "tf32"), ("llama_mini", "a100", "f32"), ("mixtral_mini", "b200", "f32"))),
    on("gpt2_124m", "h100", environment={"RECORD_APART": "1"}),
    on("gpt2_124m", "h200"),
    on("llama7b", "h200", fewer=4),
    layout("llama7b", "node8", ranks=(0, 7), fewer=8),
    layout("llama7b", "node8_zero3", ranks=(3,), fewer=32),
    layout("llama7b", "node8_tp8", ranks=(5,), fewer=4),
    layout("llama3_8b", "node8", ranks=(0, 7), fewer=32),
    layout("mistral_7b", "node8", ranks=(1,), fewer=8),
    layout("mixtral_8x7b", "node8", ranks=(0, 7), fewer=32),
    layout("mixtral_8x7b", "node64", ranks=(63,)),
    layout("mixtral_8x7b_dropless", "node8", ranks=(0, 7), fewer=32),
    on("llama7b", "h100", "-D", "pp=4", "-D", "tp=2", "-D", "batch=16", "--microbatch", "1", ranks=(0, 3, 7)),
    layout("llama3_405b", "pod16k", *POD, ranks=(0, 123, 255)),
]


def small(name, device="h200", more=()):
    """A small model under a layout whose name is that of its file: its first and its last rank."""
    experts = name in layouts.EXPERTS
    mesh = (layouts.LAYOUTS | layouts.EXPERTS)[name][0]
    model = os.path.join(HERE, "../parity", "mixtral_small.mg" if experts else "llama_small.mg")
    options = ("-D", "batch=8", "--precision", "bf16", *(() if experts else ("-D", "layers=4")), *more)
    last = math.prod(int(size) for size in re.findall(r"= (\d+)", mesh)) - 1
    of = layouts.text(name, device, "kv_heads").replace(f"layout {name} ", "layout small ")
    return Case(model, options, ranks=(0, last), layout=of)


# Of the last the ranks exchange through the memory of their host.
LAYOUTS = [*(small(name) for name in layouts.LAYOUTS | layouts.EXPERTS),
           *(small(name, "rtx4090", ("--collectives", "copies")) for name in ("dp2", "dp4_zero3", "dp2_tp2_sp", "cp2_zigzag"))]


def text(case):
    return " ".join((os.path.basename(case.model), *case.options, *(f"{k}={v}" for k, v in case.environment.items())))


def rows(case, ranks=None):
    """A row of the table for each rank, and what was found."""
    with tempfile.TemporaryDirectory(prefix="mgc-test-") as folder:
        program = Program(case, folder)
        for rank in ranks or case.ranks:
            r = program.check(rank)
            mesh = re.findall(r"mesh (.*)", case.layout)
            options = " ".join((*case.options, *mesh, *(f"`{k}={v}`" for k, v in case.environment.items())))
            seconds = sum(program.seconds.values()) + r.seconds
            yield (f"| {os.path.basename(case.model)} | {options} | {program.device} | {rank} | {r.launches} | {r.calls} | {r.nodes} | {seconds:.1f} | "
                   f"{r.findings} |"), r


def some():
    """Cases and their ranks, for this turn."""
    turn = int(os.environ.get("MGC_TURN", "0"))
    *others, last = CASES
    one = others[turn % len(others)]
    if one.fewer:
        one = one._replace(options=(*one.options, "-D", f"batch={one.fewer}"))
    return [(c, [c.ranks[turn % len(c.ranks)]]) for c in (one, LAYOUTS[turn % len(LAYOUTS)], last)]


def main():
    failed = 0
    texts = sys.argv[1:]
    cases = some() if texts == ["--some"] else [(c, c.ranks) for c in CASES + LAYOUTS if all(t in text(c) for t in texts)]
    print("| model | options | device | rank | kernels | calls run | nodes | seconds | findings |\n|---|---|---|---|---|---|---|---|---|")
    for case, ranks in cases:
        for row, r in rows(case, ranks):
            print(row, flush=True)
            if r.findings or not r.launches:
                failed += 1
                print(r.text, file=sys.stderr, flush=True)
    return failed != 0 or not cases


if __name__ == "__main__":
    sys.exit(main())
