#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies published training runs into data/runs. Records stay as they are, without null fields, one a line.

usage: import_runs.py FROM [TO]
       import_runs.py --check [DIR]

FROM is a folder of *.jsonl with the fields of docs/file-formats.md, "Measured runs". --check compares the records of DIR
(default data/runs) with what a copy writes.

The program itself reads the text of a record, by data/dictionary/records.yaml. Sources whose licence prevents shipping
are left out of data/runs by name (see data/README.md); give their folder to `./dev accuracy --data`.
"""
import json
import pathlib
import sys

RUNS = pathlib.Path(__file__).resolve().parent.parent / "data" / "runs"

# Share-alike, or with a licence that was not read.
NOT_SHIPPED = ("playbook", "stas00")


def without_nulls(value):
    if isinstance(value, dict):
        cleaned = {k: without_nulls(v) for k, v in value.items() if v is not None}
        return {k: v for k, v in cleaned.items() if v != {}}
    return value


def records_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def text_of(records):
    return "".join(json.dumps(without_nulls(r), separators=(",", ":"), ensure_ascii=False) + "\n" for r in records)


def check(folder):
    changed = [path.name for path in sorted(folder.glob("*.jsonl")) if text_of(records_of(path)) != path.read_text()]
    for name in changed:
        print(f"{name}: not as a copy writes it; run scripts/import_runs.py {folder} {folder}")
    return 1 if changed else 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--check":
        sys.exit(check(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else RUNS))
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
        if target.resolve() == RUNS and any(word in path.name for word in NOT_SHIPPED):
            print(f"{path.name}: not shipped")
            continue
        records = records_of(path)
        (target / path.name).write_text(text_of(records))
        print(f"{path.name}: {len(records)} records")


if __name__ == "__main__":
    main()
