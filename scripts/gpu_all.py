"""gpu_all.py - `gpu-check all`: the checks in the order of likeliest failure, up to the first that fails.

A stage is a row of STAGES; it gets its check from scripts/gpu-check. What a stage prints is also in logs/STAGE.txt.
When a stage fails, the archive results.tar.gz has what is needed to find the cause, and `--from STAGE` goes on there.
"""

import collections
import contextlib
import glob
import io
import os
import re
import subprocess
import sys
import tarfile
import time
import traceback

# name: of the stage; minutes: it takes so long, roughly, with nvcc on 8 cores; what: it does;
# means, attempt: if it fails; files: for the archive, beside results.jsonl and logs/.
Stage = collections.namedtuple("Stage", "name minutes what means attempt files")
STAGES = [
    Stage("machine", 0.1, "driver, toolkit, compiler, free memory",
          "the machine lacks something that everything else needs",
          "install what the line above names", []),
    Stage("compile", 1, "the runtime and one small program, by nvcc and cc",
          "this toolkit or C compiler does not take the sources, or a library is not found",
          "CUDA_HOME=/path/to/toolkit; 12.8 or later, with its cuBLASLt", ["programs/mlp/program.c", "programs/mlp/kernels.cu"]),
    Stage("launch", 0.1, "that program describes the GPU and runs one step",
          "the program starts, and the GPU does not run its first kernels",
          "nvidia-smi; the end of dmesg (a line with NVRM or Xid); CUDA_LAUNCH_BLOCKING=1", ["programs/mlp/program.c", "programs/mlp/kernels.cu"]),
    Stage("kernels", 5, "every hand-written kernel against loops in double",
          "a kernel computes something else than its definition, or is not run at all",
          "the lines FAIL name kernels and shapes; MGC_NO_WGMMA=1 leaves out those of sm_90", ["library/library.cu"]),
    Stage("losses", 10, "small programs in f32, bf16, f16 and fp8 against the processor's losses",
          "kernels are right by themselves and a program is not: order, addresses, products or rounding",
          "the first bad model says where: f32 alone, bf16 alone, or all", ["programs/*/losses.json", "programs/*/run/metrics.jsonl"]),
    Stage("zoo", 20, "models of many kinds against PyTorch's losses in f64, and the processor's in bf16",
          "an operation that language models do not have is wrong on a GPU", "the name of the model says of which kind it is",
          ["programs/zoo_*/zoo.json", "programs/zoo_*/run/metrics.jsonl"]),
    Stage("fp8", 5, "1,000 steps in fp8 end within 1% of bf16's losses",
          "numbers of 8 bits lose more than on a processor, or a scale is not that of its tensor",
          "the stage `losses` says whether single steps are right; the kind of scales says which products", ["programs/long_*/run*/metrics.jsonl"]),
    Stage("graph", 1, "CUDA graphs give the losses of single launches, to the bit, through the guard",
          "what is captured is not what is launched, or a graph cannot be made",
          "the driver's version; send both files of losses", ["programs/*/graph/metrics.jsonl", "programs/*/single/metrics.jsonl"]),
    Stage("offload", 2, "what is offloaded to the host, and to a disk, gives the same bits as without; so do updates by the host's cores",
          "a transfer brings other bytes, or comes when they are not there or no longer",
          "the first bad model says what of it: state alone, f32, bf16",
          ["programs/offload_*/offload.json", "programs/offload_*/graph/metrics.jsonl", "programs/offload_*/single/metrics.jsonl"]),
    Stage("nccl", 10, "2 and 4 ranks that take turns on one GPU, by NCCL and by copies through the host",
          "ranks wait for each other, or a collective gives other numbers",
          "NCCL_DEBUG=INFO, in the environment of gpu-check; the stage may be left out: --from sanitize",
          ["programs/ranks_*/ranks.json", "programs/ranks_*/run/metrics.jsonl"]),
    Stage("sanitize", 5, "small programs under compute-sanitizer",
          "a kernel touches memory that is not its own, or races", "the stage may be left out: --from measure", []),
    Stage("measure", 5, "times of actions by class; writes device.json, a description of this GPU",
          "a program of mgc calibrate does not run here, or none of its actions could be measured",
          "another program on the GPU makes times wrong: nvidia-smi",
          ["calibrate/runs", "calibrate/*/run/trace.json", "calibrate/*/run/metrics.jsonl"]),
    Stage("bench", 15, "steps of larger models, attention alone, PyTorch beside them",
          "a large program does not run where small ones did: memory, mostly",
          "the message has what is planned and what is free; gpu-check bench NAME runs one", ["programs/bench_*/run/metrics.jsonl"]),
]
# A message of which more is known than its stage says: pattern, meaning, what to try.
KNOWN = [
    (r"driver is for CUDA", "the driver is older than the toolkit", "a newer driver, or a toolkit of the driver's major version (12.8 or later)"),
    (r"no machine code for this GPU", "no kernels for this card are in the program, and the driver compiles none",
     "a driver of the toolkit's version, or a toolkit that knows this card (nvcc --list-gpu-code)"),
    (r"cannot find -lcublasLt|cuBLASLt \S+ has no algorithm", "the library of products is missing, or offers no algorithm for a product",
     "the toolkit's libcublas package; the line names the product's shape"),
    (r"illegal memory access|misaligned address", "a kernel used an address that is not its own",
     "gpu-check sanitize, which names kernel and line"),
    (r"are free|out of memory", "the GPU has too little free memory", "nvidia-smi shows who has it; another process, or a smaller card than planned for"),
    (r"[Uu]nsupported gpu architecture", "this nvcc does not know an architecture of the pack", "a toolkit of 12.8 or later"),
    (r"does not end within|no end in", "ranks wait for each other", "NCCL_DEBUG=INFO; NCCL_P2P_DISABLE=1 tells whether it is the links"),
    (r"No space left", "the disk is full", "TMPDIR and the folder of the pack need 2 GiB"),
]


class Tee(io.TextIOBase):
    """Standard output, and a file beside it."""

    def __init__(self, *to):
        super().__init__()
        self.to = to

    def write(self, text):
        for f in self.to:
            f.write(text)
            f.flush()
        return len(text)


def explained(stage, said):
    """Lines: what a failure means, and what to try."""
    means, attempt = next(((m, a) for pattern, m, a in KNOWN if re.search(pattern, said)), (stage.means, stage.attempt))
    return [f"  it means   {means}", f"  try        {attempt}"]


def archive(path, stages):
    """results.tar.gz: results, logs, and the files of these stages. Returns what is in it."""
    names = ["results.jsonl", "machine.txt", "table.txt", "device.json", "logs"]
    names += [pattern for stage in stages for pattern in stage.files]
    found = sorted({os.path.relpath(f, path()) for name in names for f in glob.glob(path(name))})
    with tarfile.open(path("results.tar.gz"), "w:gz") as out:
        for name in found:
            out.add(path(name), arcname=os.path.join("gpu-results", name))
    return found


def announce(stages, reasons):
    print("gpu-check all: minutes, roughly")
    for stage in STAGES:
        note = "before --from" if stage not in stages else reasons.get(stage.name, "")
        print(f"  {stage.name:<10} {stage.minutes:>5}  {'- ' + note if note else stage.what}")
    print(f"  {'together':<10} {sum(s.minutes for s in stages if s.name not in reasons):>5.0f}", flush=True)


def run_stage(stage, check, path):
    """True if it is good; what it said otherwise."""
    os.makedirs(path("logs"), exist_ok=True)
    failed, began = False, time.time()
    with open(path("logs", stage.name + ".txt"), "w", encoding="utf-8") as log, contextlib.redirect_stdout(Tee(sys.stdout, log)):
        try:
            failed = bool(check())
        except SystemExit as e:
            failed = e.code not in (0, None)
            print(e.code)
        except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError):  # a file that is not there, output that is not as usual
            failed = True
            print(traceback.format_exc())
        print(f"{stage.name}: {'FAILED' if failed else 'good'}, {time.time() - began:.0f} s")
    with open(path("logs", stage.name + ".txt"), encoding="utf-8") as log:
        return failed, log.read()


def run_all(checks, reasons, path, first, keep_going):
    """Runs all stages from `first` on, up to the first that fails, or all of them; reasons: why a stage is left out, by name.
    The exit code."""
    names = [s.name for s in STAGES]
    if first and first not in names:
        print(f"gpu-check: there is no stage {first}: {', '.join(names)}")
        return 2
    stages = STAGES[names.index(first) if first else 0:]
    announce(stages, reasons)
    bad = []
    for stage in stages:
        if stage.name in reasons:
            continue
        print(f"\n== {stage.name}: {stage.what}", flush=True)
        failed, said = run_stage(stage, checks[stage.name], path)
        bad += [stage] if failed else []
        if failed and keep_going:
            print("\n".join(explained(stage, said)))
        elif failed:
            inside = archive(path, [stage])
            print("\n".join([f"\ngpu-check: stopped at {stage.name}, {names.index(stage.name) + 1} of {len(names)}", *explained(stage, said),
                             f"  send       {path('results.tar.gz')}, which has {', '.join(inside)}",
                             f"  go on      gpu-check all --from {stage.name}"]))
            return 1
    if os.path.exists(path("table.txt")):
        with open(path("table.txt"), encoding="utf-8") as f:
            print("\n" + f.read(), end="")
    archive(path, STAGES)
    if bad:
        print(f"\ngpu-check: failed: {', '.join(s.name for s in bad)}; send {path('results.tar.gz')}")
        return 1
    print(f"\ngpu-check: all is good; send {path('results.tar.gz')}; {path('device.json')} is the description of this GPU, "
          "for mgc --device ./device.json")
    return 0
