"""A model as mgc sees it: its plan, and the program that is built of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Union

from mgc._errors import CompileError, Diagnostic, diagnostics
from mgc._home import command
from mgc._run import Run

PathLike = Union[str, "os.PathLike[str]"]
Number = Union[int, float, str]


def as_options(given: Mapping[str, Any]) -> list[str]:
    """Options of a command by their names, with _ for -: True is an option without an argument, False and None leave it out, and a
    list repeats it."""
    words: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is True:
                words.append(option)
            elif one is not None and one is not False:
                words.append(f"{option}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    return words


def call(words: Sequence[str]) -> tuple[str, tuple[Diagnostic, ...]]:
    """What mgc writes to standard output, and its warnings. Raises CompileError where it does not end with 0."""
    done = subprocess.run([command(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CompileError(done.returncode, done.stderr)
    return done.stdout, diagnostics(done.stderr)


class Executable:
    """A program that mgc made, as a file: mgc.Executable("train") stands for one that is there already."""

    def __init__(self, path: PathLike) -> None:
        self.path = os.path.abspath(path)

    def __repr__(self) -> str:
        return f"mgc.Executable({self.path!r})"

    def run(self, *arguments: str, out: PathLike = "run", launcher: Sequence[str] = (), env: Mapping[str, str] | None = None,
            show: bool = False, **options: Any) -> Run:
        """Starts it. `options` are those of `./train --help`: run(data="book.txt", val_fraction=0.05, steps=400, resume=True);
        `arguments` go to it as they are. `launcher` stands before it: ("mpirun", "-n", "2"). `env` is added to the environment.
        `show` lets it write to the terminal. It runs beside this process: iterate over the result, or wait for it."""
        words = [*launcher, self.path, *as_options({"out": out, **options}), *arguments]
        return Run(words, os.fspath(out), env, show)


class Program:
    """A model with its options, planned. mgc.compile makes it."""

    def __init__(self, source: PathLike, options: Sequence[str]) -> None:
        self.source, self.options = os.fspath(source), tuple(options)
        said, self.warnings = call([self.source, *self.options, "--plan=json"])
        self._said = said

    def __repr__(self) -> str:
        return f"<mgc.Program {self.plan['model']} of {self.source}>"

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan, by the names of docs/plan.md: "step_ms", "arena_bytes", "memory", "tensors", ..."""
        plan: dict[str, Any] = json.loads(self._said)
        return plan

    def build(self, out: PathLike) -> Executable:
        """Makes the executable `out`, which takes a C compiler. Raises CompileError, and leaves a file of that name as it was."""
        call([self.source, *self.options, "-o", os.fspath(out)])
        return Executable(out)


def compile(source: PathLike, *arguments: str, D: Mapping[str, Number] | None = None, device: PathLike | None = None,
            layout: PathLike | None = None, **options: Any) -> Program:
    """Compiles a model as far as its plan, which is proved. D overrides dims, constants and sizes of the mesh: D={"layers": 8, "tp": 2}.
    `options` are those of `mgc --help` (precision="bf16", microbatch=4, generate=True), `arguments` go to mgc as they are.
    Raises CompileError with the messages where mgc refuses."""
    words = as_options({"define": [f"{name}={value}" for name, value in (D or {}).items()], "device": device, "layout": layout, **options})
    return Program(source, [*words, *arguments])
