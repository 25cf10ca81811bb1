"""build - from a model to the machine code of its kernels and the launches of a step, with mgc, nvcc, nvdisasm and cc.

The runtime that is linked is the one of the tests, against the shim's headers (build/shim/libmgrt_shim.a); in place of the CUDA
runtime is what only writes calls down (tests/record)."""

import json
import os
import re
import shutil
import subprocess
from collections import namedtuple

from . import cubin, launches, machine, sass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# kernels, programs: by name; step: launches; seconds: of the plan, by action; plan: of --plan=json.
Model = namedtuple("Model", "name kernels programs step seconds plan")
UNIT = {"us": 1e-6, "ms": 1e-3, "s": 1, "ns": 1e-9}


class NoTool(Exception):
    """A tool is missing: its text says which, and how to name one."""


class Failed(Exception):
    pass


def build_folder():
    return os.environ.get("MGC_BUILD", os.path.join(ROOT, "build"))


def tool(name, variable):
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    given, usual = os.environ.get(variable), os.path.join(home, "bin", name)
    found = given or shutil.which(name) or (usual if os.path.exists(usual) else None)
    if not found or not shutil.which(found):
        raise NoTool(f"there is no {name}: put it into PATH or $CUDA_HOME/bin, or name it in {variable}")
    return found


def run(argv):
    r = subprocess.run(argv, capture_output=True, text=True, check=False)
    if r.returncode:
        raise Failed(f"{os.path.basename(argv[0])} failed ({r.returncode}): {' '.join(argv)}\n{r.stderr}")
    return r.stdout


def machine_code(source, arch, folder):
    """The kernels of a .cu file and their programs, by name."""
    out = os.path.join(folder, "kernels.cubin")
    run([tool("nvcc", "MGC_NVCC"), "-cubin", "-O3", "-std=c++17", "-arch=" + arch, f"-I{ROOT}/kernels/cuda", f"-I{ROOT}/runtime", source, "-o", out])
    with open(out, "rb") as f:
        kernels = cubin.kernels(f.read())
    codes = sass.parse(run([tool("nvdisasm", "MGC_NVDISASM"), "-c", "-hex", out]))
    return kernels, codes


def record(source, kernels, card, folder, apart=False):
    """The launches of a step of an emitted program."""
    program, out = (os.path.join(folder, n) for n in ("record", "calls"))
    libraries = [os.path.join(build_folder(), "shim", f"lib{n}.a") for n in ("record", "mgrt_shim")]
    for library in libraries:
        if not os.path.exists(library):
            raise NoTool(f"there is no {library}: ninja -C build record mgrt_shim")
    run([os.environ.get("CC", "cc"), "-O0", "-w", f"-I{ROOT}/runtime", source, *libraries, *libraries, "-lm", "-lpthread", "-ldl", "-o", program])
    environment = dict(os.environ, RECORD_SM=str(card.machine), **({"RECORD_APART": "1"} if apart else {}))
    r = subprocess.run([program, out, "0", "0"], capture_output=True, text=True, env=environment, check=False)
    if r.returncode:
        raise Failed(f"the recorded program failed ({r.returncode}):\n{r.stderr}")
    with open(out, encoding="ascii") as f:
        return launches.read(f, kernels)


def planned_seconds(schedule):
    """By action."""
    found = {}
    for line in schedule.splitlines():
        if m := re.match(r"\s*(\d+) s\d+ \w+ .*? ([\d.]+) (us|ms|s|ns) ", line):
            found[int(m.group(1))] = float(m.group(2)) * UNIT[m.group(3)]
    return found


def model(name, options, card, folder, apart=False):
    """name: of models/ or a file; options: of mgc."""
    for needed in (("nvcc", "MGC_NVCC"), ("nvdisasm", "MGC_NVDISASM")):
        tool(*needed)  # before all that takes long
    path = name if name.endswith(".mg") else os.path.join(ROOT, "models", name + ".mg")
    mgc = [os.path.join(build_folder(), "mgc"), path, "--device", card.name, *options]
    cu, c = os.path.join(folder, "kernels.cu"), os.path.join(folder, "program.c")
    run([*mgc, "--emit=cuda", "-o", cu])
    run([*mgc, "--emit=c", "-o", c])
    kernels, codes = machine_code(cu, card.arch, folder)
    step = record(c, kernels, card, folder, apart)
    used = {l.kernel for l in step.launches}
    return Model(os.path.basename(path).removesuffix(".mg"), kernels, {n: machine.Program(codes[n]) for n in used}, step,
                 planned_seconds(run([*mgc, "--schedule"])), json.loads(run([*mgc, "--plan=json"])))
