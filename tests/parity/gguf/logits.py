"""Logits of llama.cpp (the package llama-cpp-python) beside those of mgc's own program, of each directory of cases.py, by hand:

    python3 tests/parity/gguf/logits.py MGC

Eight tokens are chosen by the program, the likeliest each time. llama.cpp keeps keys and values in f32 here, not in f16."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile

import cases
import llama_cpp
import numpy as np

PROMPT = [5, 17, 120, 40, 9, 77, 201, 33]


def program(mgc, d, name):
    """The logits of each token after the prompt, and the tokens."""
    run = lambda *argv: subprocess.run(argv, cwd=d, check=True, capture_output=True, text=True).stdout
    run(mgc, "import-hf", "in", "-o", "m.mg")
    run(mgc, "m.mg", "-D", "seq=32", "--precision", "f32", "-o", "m")
    prompt = "".join(map(chr, PROMPT)) if name == "bytes" else " ".join(map(str, PROMPT))
    run("./m", "--init", "in", "--sample", "8", "--prompt", prompt.encode("latin-1"), "--temperature", "0", "--logits", "z", "--threads", "1")
    with open(os.path.join(d, "z"), "rb") as f:
        data = f.read()
    n = struct.unpack_from("<Q", data)[0]
    shape = json.loads(data[8:8 + n])["logits"]["shape"]
    z = np.frombuffer(data[8 + n:], "<f4").reshape(shape)
    return z, PROMPT + [int(i) for i in z.argmax(1)]


def main(mgc):
    for name, type_ in [(n, "f32") for n in cases.CASES] + [("bytes", "q8_0"), ("bytes", "f16")]:
        with tempfile.TemporaryDirectory() as d:
            cases.make(os.path.join(d, "in"), name)
            subprocess.run([mgc, "gguf", "in", "-o", "m.gguf", "--type", type_], cwd=d, check=True, capture_output=True)
            want, tokens = program(mgc, d, name)
            model = llama_cpp.Llama(os.path.join(d, "m.gguf"), n_ctx=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
            model.eval(tokens[:-1])
            got = np.array(model.scores[len(PROMPT) - 1:len(tokens) - 1])
            print(f"{name} {type_}: logits off by {np.abs(got - want).max() / np.abs(want).max():.1e} of the largest, "
                  f"{(got.argmax(1) == want.argmax(1)).mean():.0%} of the likeliest tokens are the same")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
