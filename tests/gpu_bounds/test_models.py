#!/usr/bin/env python3
"""test_models.py - scripts/gpu-bounds on whole models, where nvcc and nvdisasm are. Every kernel of a step can be run, and none does what
none may do."""

import os
import re
import subprocess
import sys

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "gpu-bounds")
CASES = [["--device", "h100", "gpt2_124m", "--precision", "bf16"], ["--device", "rtx4090", "gpt2_124m", "--precision", "bf16"],
         ["--device", "h100", "llama_mini", "--precision", "bf16"], ["--device", "h100", "mixtral_mini", "--precision", "bf16"]]


def main():
    failed = 0
    for case in CASES:
        r = subprocess.run([sys.executable, TOOL, *case], capture_output=True, text=True, check=False)
        if r.returncode == 77:
            print(r.stdout)
            return 77
        found = set(re.findall(r"^gpu-bounds: (\w+):", r.stderr, re.M))
        good = r.returncode == 0 and not found and re.search(r"^MFU [\d.]+% by machine code", r.stdout, re.M)
        print(f"{'ok  ' if good else 'FAIL'} {' '.join(case)}: {r.returncode}, flagged {sorted(found)}")
        if not good:
            print(r.stderr)
        failed += not good
    return failed != 0


sys.exit(main())
