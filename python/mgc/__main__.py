"""The command mgc of the wheel, and python3 -m mgc: becomes the compiler."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from mgc._errors import Error
from mgc._home import command


def main() -> NoReturn:
    try:
        path = command()
        os.execv(path, [path, *sys.argv[1:]])
    except (Error, OSError) as e:
        sys.exit(f"mgc: {e}")


if __name__ == "__main__":
    main()
