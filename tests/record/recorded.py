"""recorded - a model's program for a GPU, compiled, recorded as one rank and checked. It needs mgc, a C compiler and the build's
librecord.a, and no GPU."""

import json
import os
import re
import subprocess
import time
from collections import namedtuple

import kernel_text

SOURCE = os.environ.get("MGC_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.environ.get("MGC_BUILD", os.path.join(SOURCE, "build"))
CHECK = os.path.join(BUILD, "bin/record-check")
RUNS = 3  # plain, captured, as graphs
# options: of mgc; ranks: those that are recorded; environment: of the recorder; fewer: a batch of fewer microbatches, or 0; layout: the
# text of a layout's file, or "".
Case = namedtuple("Case", "model options ranks environment fewer layout", defaults=((0,), {}, 0, ""))
Result = namedtuple("Result", "calls launches nodes findings text seconds")


def run(argv, **more):
    r = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    if r.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {r.returncode}\n{r.stderr[-4000:]}")
    return r.stdout


def compute_capability(device):
    path = device if device.endswith(".json") else os.path.join(SOURCE, "compiler/devices", device + ".json")
    with open(path, encoding="utf-8") as f:
        of = json.load(f)
    return int(of.get("architecture", {"a100": 80, "b200": 100}.get(of["name"].lower().split()[-1], 90)))


def actions_at(schedule):
    """The number of the first action at or behind each position of the step. Lines of loops, their ends and phases are positions, too."""
    found, waiting = [], 0
    for line in re.split(r"^eval:", schedule, maxsplit=1, flags=re.M)[0].splitlines()[1:]:
        if m := re.match(r"\s*(\d+) s\d+ ", line):
            found += [int(m.group(1))] * (waiting + 1)
            waiting = 0
        elif re.match(r"\s*(loop \S+ x \d+|phase \w+|end$)", line):
            waiting += 1
    last = found[-1] + 1 if found else 0
    return found + [last] * (waiting + 1)


def buffers(memory, schedule):
    """mgc --memory with actions in place of positions."""
    at = actions_at(schedule)
    lines = [memory.splitlines()[0]]
    for line in memory.splitlines()[1:]:
        name, lower, upper, *rest = line.rsplit(",", 4)
        lines.append(",".join([name, str(at[int(lower)]), str(at[min(int(upper), len(at) - 1)]), *rest]))
    return "\n".join(lines) + "\n"


class Program:
    """A case's program in a folder."""

    def __init__(self, case, folder):
        self.case, self.folder = case, folder
        more = ("--layout", self.write("small.mg", case.layout)) if case.layout else ()
        path = case.model if case.model.endswith(".mg") else os.path.join(SOURCE, "models", case.model + ".mg")
        self.mgc = [os.path.join(BUILD, "mgc"), path, *case.options, *more]
        self.seconds = {}
        self.emit()
        self.compile()

    def path(self, name):
        return os.path.join(self.folder, name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return f.read()

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def emit(self):
        began = time.time()
        run([*self.mgc, "--emit=c", "-o", self.path("program.c"), "--memory", self.path("memory.csv")])
        run([*self.mgc, "--emit=cuda", "-o", self.path("kernels.cu")])
        schedule = run([*self.mgc, "--schedule"])
        self.device = re.search(r"device[\s*]+(\S+)\.\s", self.read("program.c")).group(1)
        self.write("buffers.csv", buffers(self.read("memory.csv"), schedule))
        self.seconds["mgc"] = time.time() - began
        began = time.time()
        self.contracts(kernel_text.read(self.read("kernels.cu"), self.read("program.c")))
        self.seconds["text"] = time.time() - began

    def contracts(self, kernels):
        self.problems = [f"{k.name}: {p}" for k in kernels for p in k.problems]
        with open(self.path("contracts"), "w", encoding="utf-8") as f:
            kernel_text.write(kernels, f)

    def compile(self):
        """An int that overflows in the program ends it."""
        began = time.time()
        libraries = [os.path.join(BUILD, "shim", f"lib{n}.a") for n in ("record", "mgrt_shim")]
        run([os.environ.get("CC", "cc"), "-O0", "-w", "-fsanitize=signed-integer-overflow", "-fsanitize-undefined-trap-on-error",
             f"-I{SOURCE}/runtime", self.path("program.c"), *libraries, *libraries, "-lm", "-lpthread", "-ldl", "-o", self.path("record")])
        self.seconds["cc"] = time.time() - began

    def recorder(self, rank, out, stdout=None):
        environment = {**os.environ, "RECORD_SM": str(compute_capability(self.device)), **self.case.environment}
        return subprocess.Popen([self.path("record"), out, str(rank), str(RUNS)], env=environment, stdout=stdout, stderr=subprocess.PIPE)

    def check_argv(self, recording):
        return [CHECK, recording, "--capability", str(compute_capability(self.device)), "--kernels", self.path("contracts"),
                "--buffers", self.path("buffers.csv")]

    def record(self, rank):
        """The path of a recording."""
        p = self.recorder(rank, self.path("calls"))
        err = p.communicate()[1].decode()
        if p.returncode:
            raise RuntimeError(f"the recorded program: {p.returncode}\n{err}")
        return self.path("calls")

    def check(self, rank):
        """Records and checks a rank, both at once."""
        began = time.time()
        recording = self.recorder(rank, "/dev/stdout", subprocess.PIPE)
        checker = subprocess.run(self.check_argv("-"), stdin=recording.stdout, capture_output=True, text=True, check=False)
        recording.stdout.close()
        err = recording.communicate()[1].decode()
        if recording.returncode or checker.returncode not in (0, 1):
            raise RuntimeError(f"the recorded program: {recording.returncode}, the check: {checker.returncode}\n{err}{checker.stderr}")
        return self.result(checker.stdout, time.time() - began)

    def result(self, text, seconds=0.0):
        last = text.splitlines()[-1]
        _, launches, calls, nodes, findings = map(int, re.findall(r"\d+", last))
        text = "\n".join([*text.splitlines()[:-1], *(f"text: {p}" for p in self.problems)])
        return Result(calls, launches, nodes, findings + len(self.problems), text, seconds)
