# SPDX-License-Identifier: Apache-2.0
"""The command line: the binary that lies in the package."""
from __future__ import annotations

import os
import pathlib
import sys


def path() -> pathlib.Path:
    """Where the binary is."""
    return pathlib.Path(__file__).parent / "bin" / "espalier"


def main() -> None:
    """Becomes the binary: the same process, its exit code, its signals."""
    binary = str(path())
    os.execv(binary, [binary, *sys.argv[1:]])
