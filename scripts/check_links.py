#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every relative link in a Markdown page leads to a file, and every #anchor to a heading. Prints each
that does not.

usage: check_links.py [ROOT]
"""
import os
import pathlib
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SKIP = {"build", "out", ".git", ".cache"}


def anchor(heading):
    """Returns the anchor that GitHub gives a heading."""
    text = re.sub(r"[`*_]", "", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path):
    return {anchor(line.lstrip("#")) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    pages = []
    for folder, names, contents in os.walk(root):
        names[:] = sorted(n for n in names if n not in SKIP)
        pages += [pathlib.Path(folder) / name for name in sorted(contents) if name.endswith(".md")]
    links, bad = 0, []
    for page in pages:
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" in target or target.startswith("mailto:"):
                continue
            links += 1
            name, _, fragment = target.partition("#")
            goal = (page.parent / name) if name else page
            if not goal.exists():
                bad.append(f"{page.relative_to(root)}: no file {target}")
            elif fragment and goal.suffix == ".md" and fragment not in anchors(goal):
                bad.append(f"{page.relative_to(root)}: no heading {target}")
    for line in bad:
        print(line)
    print(f"check_links: {len(pages)} pages, {links} links, {len(bad)} broken")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
