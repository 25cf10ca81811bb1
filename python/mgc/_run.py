"""A program that runs, and the lines that it writes into OUT/metrics.jsonl."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Optional

from mgc._errors import RunError

STOPPED = 75  # exit code: it saved and stopped, as it was asked to


class Lines:
    """Lines of a file that grows, each once. A run that is resumed, also by itself, puts a shorter file in the place of this one:
    then lines before the last one given are passed over by their time."""

    def __init__(self, path: str, since: float) -> None:
        self.path, self.since = path, since
        self.began = False
        self.at, self.inode = 0, -1
        self.last: float = 0
        self.same: list[bytes] = []  # the lines given that have that time

    def read(self) -> Iterator[dict[str, Any]]:
        """Those that are new."""
        try:
            with open(self.path, "rb") as f:
                state = os.fstat(f.fileno())
                if state.st_ino != self.inode or state.st_size < self.at:
                    self.inode, self.at = state.st_ino, 0
                f.seek(self.at)
                text = f.read()
        except FileNotFoundError:
            return
        whole = text.rfind(b"\n") + 1
        self.at += whole
        for raw in text[:whole].splitlines():
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and self.is_new(raw, line):
                yield line

    def is_new(self, raw: bytes, line: dict[str, Any]) -> bool:
        when = float(line.get("time") or 0)
        self.began |= line.get("event") == "start" and when >= self.since
        if not self.began or when < max(self.last, self.since) or raw in self.same:
            return False
        if when > self.last:
            self.last, self.same = when, []
        self.same.append(raw)
        return True


class Run:
    """A program at work. Iterate to get each line of its metrics.jsonl as it is written, a dict with the names of docs/watch.md:
    steps have "loss", evaluations "val_loss", lines about the run "event". At the end RunError is raised if it failed.
    Leaving a `with` block stops it."""

    def __init__(self, words: Sequence[str], out: str, env: Mapping[str, str] | None, show: bool) -> None:
        self.words, self.out = tuple(words), out
        self._errors: Optional[IO[bytes]] = None if show else tempfile.TemporaryFile()
        self._said = ""
        self._lines = Lines(os.path.join(out, "metrics.jsonl"), int(time.time() * 1000) / 1000)
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=None if show else subprocess.DEVNULL,
                                        stderr=self._errors, env={**os.environ, **(env or {})})

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while True:
            ended = self.process.poll() is not None
            some = False
            for line in self._lines.read():
                some = True
                yield line
            if ended and not some:
                break
            if not ended:
                time.sleep(0.05)
        self.wait()

    def wait(self) -> int:
        """Waits for its end. The exit code: 0, or 75 if it was stopped and has saved. Raises RunError for all others."""
        code = self.process.wait()
        if self._errors is not None:
            most = 4096
            self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - most))
            self._said = self._errors.read().decode(errors="replace")
            self._errors.close()
            self._errors = None
        if code not in (0, STOPPED):
            raise RunError(code, self._said)
        return code

    def stop(self) -> int:
        """Asks it to save and to stop after this step, and waits for its end. Run it again with resume=True."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def checkpoints(self) -> list[str]:
        """The directories of its checkpoints, the oldest first."""
        folder = os.path.join(self.out, "ckpt")
        try:
            return sorted(os.path.join(folder, name) for name in os.listdir(folder) if re.fullmatch(r"step-\d+", name))
        except FileNotFoundError:
            return []
