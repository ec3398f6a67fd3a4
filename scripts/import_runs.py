#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies published training runs into data/runs: records as they are, without null fields, one a line, stable key order.

usage: import_runs.py FROM [TO]     FROM: a folder of *.jsonl with the fields of docs/file-formats.md, "Measured runs"

Sources whose licence keeps them out of the product are left out by name (see data/README.md); give their folder to
`./dev accuracy --data` instead.
"""
import json
import pathlib
import sys

# Share-alike or of a licence that was not read.
NOT_SHIPPED = ("playbook", "stas00")


def without_nulls(value):
    if isinstance(value, dict):
        cleaned = {k: without_nulls(v) for k, v in value.items() if v is not None}
        return {k: v for k, v in cleaned.items() if v != {}}
    return value


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parent.parent / "data" / "runs")
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
        if any(word in path.name for word in NOT_SHIPPED):
            print(f"{path.name}: not shipped")
            continue
        lines = [json.dumps(without_nulls(json.loads(line)), separators=(",", ":"), ensure_ascii=False)
                 for line in path.read_text().splitlines() if line.strip()]
        (target / path.name).write_text("\n".join(lines) + "\n")
        print(f"{path.name}: {len(lines)} records")


if __name__ == "__main__":
    main()
