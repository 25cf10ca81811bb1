"""What can go wrong, as exceptions: messages of mgc, a run that failed, files that are no checkpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


class Error(Exception):
    """Every exception of this module is one."""


@dataclass(frozen=True)
class Diagnostic:
    """One message of mgc. `code` is "MG0207", or None where a message has none; `file`, `line` and `column` (from 1) are None
    where it is not about a place in a file. `notes` and `helps` are the lines that follow it, without these words."""

    severity: str
    code: str | None
    text: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        code = f"[{self.code}]" if self.code else ""
        return "\n".join([f"{place}{self.severity}{code}: {self.text}", *(f"note: {n}" for n in self.notes),
                          *(f"help: {h}" for h in self.helps)])


HEAD = re.compile(r"(?:mgc|(?P<file>.+?):(?P<line>\d+):(?P<column>\d+)): (?P<severity>error|warning|note)(?:\[(?P<code>MG\d{4})\])?: (?P<text>.*)")


def diagnostics(said: str) -> tuple[Diagnostic, ...]:
    """The errors and warnings of what mgc wrote to standard error. Lines of sources below them are passed over."""
    found: list[dict[str, Any]] = []
    for line in said.splitlines():
        head = HEAD.fullmatch(line)
        if head and head["severity"] != "note":
            found.append({"severity": head["severity"], "code": head["code"], "text": head["text"], "file": head["file"],
                          "line": head["line"] and int(head["line"]), "column": head["column"] and int(head["column"]),
                          "notes": (), "helps": ()})
        elif found and head:
            place = f"{head['file']}:{head['line']}:{head['column']}: " if head["file"] else ""
            found[-1]["notes"] += (place + head["text"],)
        elif found and line.startswith("note: "):
            found[-1]["notes"] += (line[len("note: "):],)
        elif found and line.startswith("help: "):
            found[-1]["helps"] += (line[len("help: "):],)
    return tuple(Diagnostic(**d) for d in found)


class CompileError(Error):
    """mgc refused. `code`, `file`, `line`, `column` and `text` are those of the first error, `diagnostics` has all messages in
    their order, `returncode` is mgc's exit code and `said` all that it wrote to standard error."""

    def __init__(self, returncode: int, said: str) -> None:
        self.returncode, self.said = returncode, said
        self.diagnostics = diagnostics(said)
        first = next((d for d in self.diagnostics if d.severity == "error"), None)
        self.code = first.code if first else None
        self.file = first.file if first else None
        self.line = first.line if first else None
        self.column = first.column if first else None
        self.text = first.text if first else said.strip() or f"mgc ended with exit code {returncode}"
        super().__init__("\n".join(str(d) for d in self.diagnostics if d.severity == "error") or self.text)


class RunError(Error):
    """A program failed: its exit code (README.md of the sources has what each means; below 0 the signal that killed it), and
    the end of what it wrote to standard error."""

    def __init__(self, returncode: int, said: str) -> None:
        self.returncode, self.said = returncode, said
        how = f"was killed by signal {-returncode}" if returncode < 0 else f"ended with exit code {returncode}"
        super().__init__(f"the program {how}" + (f": {said.strip()}" if said.strip() else ""))


class CheckpointError(Error, ValueError):
    """A file is no safetensors file, or a damaged one; the message names it."""
