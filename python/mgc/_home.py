"""Where the command mgc is: inside of this package, as a wheel has it, or in PATH."""

from __future__ import annotations

import os
import shutil
import subprocess

from mgc._errors import Error

PACKAGED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prefix", "bin", "mgc")


def command() -> str:
    """The path of mgc: that of this package; else that of $MGC_COMMAND, or the first one in PATH. Raises Error if there is none."""
    if os.path.exists(PACKAGED):
        return PACKAGED
    given = os.environ.get("MGC_COMMAND")
    found = given if given else shutil.which("mgc")
    if not found:
        raise Error("mgc is neither in this package nor in PATH; $MGC_COMMAND may name it")
    return found


def version() -> str:
    """The version of the command, such as "0.1.0"."""
    said = subprocess.run([command(), "--version"], capture_output=True, text=True, check=True).stdout
    return said.split()[1]
