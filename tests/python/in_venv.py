# SPDX-License-Identifier: Apache-2.0
"""Runs a test of the Python package by an interpreter that has it: this one, or that of build/py/venv."""
import os
import pathlib
import sys


def source():
    """Returns the source folder, the first argument. Exits with 77, which skips the test, without the package."""
    folder = pathlib.Path(sys.argv.pop(1)).resolve()
    venv = folder / "build/py/venv"
    if pathlib.Path(sys.prefix).resolve() != venv.resolve() and os.environ.get("ESPALIER_PYTHON_PACKAGE") != "here":
        if not list(venv.glob("lib/python3*/site-packages/espalier/_native*.so")):
            print("skipped: the Python package is not installed in build/py/venv (./dev python)")
            sys.exit(77)
        interpreter = venv / "bin/python3"
        os.execv(interpreter, [str(interpreter), sys.argv[0], str(folder), *sys.argv[1:]])
    return folder
