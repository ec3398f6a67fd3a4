# SPDX-License-Identifier: Apache-2.0
"""Runs the command line, whose binary is in the package."""
from __future__ import annotations

import os
import pathlib
import sys


def path() -> pathlib.Path:
    """Returns the path of the binary."""
    return pathlib.Path(__file__).parent / "bin" / "espalier"


def main() -> None:
    """Replaces this process by the binary, which keeps its exit code and signals."""
    binary = str(path())
    os.execv(binary, [binary, *sys.argv[1:]])
