#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source file states its licence in its first two lines (the second only after a #! line). Prints
each file that does not.

usage: check_spdx.py [ROOT]
"""
import os
import pathlib
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
SUFFIXES = {".h", ".cpp", ".py", ".sh", ".cmake", ".in"}
NAMES = {"dev", "CMakeLists.txt", "run"}
SKIP = {"build", "out", ".git", ".cache", "models", "data", "__pycache__"}


def lacks_licence(path):
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[:2]
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    return not lines or LINE not in lines[0]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files, bad = 0, []
    for folder, names, contents in os.walk(root):
        names[:] = sorted(n for n in names if n not in SKIP)
        for name in sorted(contents):
            path = pathlib.Path(folder) / name
            if path.suffix in SUFFIXES or name in NAMES:
                files += 1
                if lacks_licence(path):
                    bad.append(path.relative_to(root))
    for path in bad:
        print(f"{path}: first line lacks '{LINE}'")
    print(f"check_spdx: {files} files, {len(bad)} without a licence line")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
