#!/usr/bin/env python3
"""replay.py - launches of shipped models at full size, run with the kernels' PTX in the interpreter of tests/ptx (replay.cc); and the
faults that are planted for it. Without nvcc: 77.

    replay.py [TEXT...]   the cases of models.py that have all of these texts, with all their kernels
    replay.py --some      for continuous integration: one small model, without attention, which takes nvcc long"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from models import CASES, on, text  # noqa: E402
from recorded import BUILD, SOURCE, Program, compute_capability, run  # noqa: E402

USUAL = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")
NVCC = os.environ.get("MGC_NVCC") or shutil.which("nvcc") or (USUAL if os.path.exists(USUAL) else None)
ATTENTION = r"^MG_(FLASH|ATTENTION)\w*\(.*\)$"
SOME = [on("mlp", "h100"), on("gpt2_124m", "h100"), on("mixtral_mini", "h100"), on("llama_mini", "h100")]
# Cases whose kernels and sizes are those of others: of gpt2_124m on an h200, and for b200, whose kernels are those of sm_80.
LEFT_OUT = ("gpt2_124m --device h200", "b200")


def compiled(program, whole):
    source = program.read("kernels.cu")
    if not whole:
        source = re.sub(ATTENTION, "", source, flags=re.M)
    arch = compute_capability(program.device)
    run([NVCC, "-ptx", "-O3", "-std=c++17", f"-arch=sm_{arch}{'a' if arch == 90 else ''}", f"-I{SOURCE}/kernels/cuda", f"-I{SOURCE}/runtime",
         program.write("some.cu", source), "-o", program.path("kernels.ptx")])


def replay(program, ptx="kernels.ptx", contracts="contracts"):
    r = subprocess.run([os.path.join(BUILD, "bin/record-replay"), *map(program.path, (ptx, "calls", contracts))], capture_output=True, text=True,
                       check=False)
    if r.returncode not in (0, 1):
        raise RuntimeError(r.stderr)
    return r.returncode, r.stdout.strip()


def planted(program):
    """Contracts that name a word too little of what is written, and products that keep 16 bits: they have to be found."""
    lines = program.read("contracts").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("pointer w "))
    word = lines[at].split()
    word[3] = str(int(word[3]) - int(word[4]))
    program.write("less", "\n".join([*lines[:at], " ".join(word), *lines[at + 1:]]) + "\n")
    yield "a contract that is too small", replay(program, contracts="less")[0]
    less = re.sub(r"(mul\.lo\.s64\s*(%rd\d+),.*;)", r"\1 shl.b64 \2, \2, 48; shr.s64 \2, \2, 48;", program.read("kernels.ptx"))
    program.write("less.ptx", less)
    yield "products of 16 bits", replay(program, ptx="less.ptx")[0]


def check(case, whole, faults):
    if case.fewer:
        case = case._replace(options=(*case.options, "-D", f"batch={case.fewer}"))
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mgc-test-") as folder:
        program = Program(case, folder)
        program.record(case.ranks[-1])
        if not whole:
            calls = program.read("calls").splitlines(keepends=True)
            program.write("calls", "".join(c for c in calls if not re.match(r"launch \S+ \S+ mg_(flash\w*|attention)_", c)))
        compiled(program, whole)
        code, said = replay(program)
        print(f"{text(case)}: {said}", flush=True)
        failed += code
        for what, found in planted(program) if faults else ():
            print(f"{text(case)}: {what}: {'found' if found else 'NOT FOUND'}", flush=True)
            failed += not found
    return failed


def main():
    if not NVCC:
        print("there is no nvcc")
        return 77
    if sys.argv[1:] == ["--some"]:
        return check(SOME[int(os.environ.get("MGC_TURN", "0")) % len(SOME)], False, True) != 0
    cases = [c for c in CASES if all(t in text(c) for t in sys.argv[1:]) and not any(t in text(c) for t in LEFT_OUT)]
    return sum(check(c, True, i == 0) for i, c in enumerate(cases)) != 0 or not cases


if __name__ == "__main__":
    sys.exit(main())
