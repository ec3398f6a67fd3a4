#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the dictionaries of data/dictionary with the frameworks that they describe.

In every run, each row must be in tests/golden/dictionary.tsv, so that no row changes unnoticed, and
docs/framework-keys.md is made of the same rows. Where the frameworks are installed (./dev parsers), each flag and key
of their own parsers must be a row. Type, default and spellings must match; the counts are printed.

usage: known_keys.py REPOSITORY [--write]      exit code 77: checked without the frameworks
"""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
WRITE = "--write" in sys.argv
PYTHON = pathlib.Path(os.environ.get("ESPALIER_ENGINES_PYTHON", str(ROOT / ".cache" / "engines" / "venv" / "bin" / "python")))
VERDICTS = ("reads", "noted", "effect", "changes", "refused", "alias")
HEADINGS = {"reads": "read", "noted": "read: as it is predicted", "effect": "without effect", "changes": "known, not modelled", "refused": "refused", "alias": "another key"}
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def flow(text):
    """Parses a flow mapping of YAML in one line, in the notation of the dictionaries."""
    at = 0

    def skip():
        nonlocal at
        while at < len(text) and text[at] in " ,":
            at += 1

    def scalar(stops):
        nonlocal at
        if text[at] == '"':
            end, out = at + 1, ""
            while text[end] != '"':
                end += text[end] == "\\"
                out += text[end]
                end += 1
            at = end + 1
            return out
        end = min(i for i in (text.find(s, at) for s in stops) if i >= 0)
        out, at = text[at:end].strip(), end
        return out

    def value():
        nonlocal at
        if text[at] != "[":
            return scalar((", ", "}"))
        at += 1
        items = []
        skip()
        while text[at] != "]":
            items.append(scalar((",", "]")))
            skip()
        at += 1
        return items

    assert text[at] == "{", text
    at += 1
    out = {}
    skip()
    while text[at] != "}":
        key = scalar((":",))
        at += 2
        out[key] = value()
        skip()
    return out


def table(path):
    out = {"rows": [], "reasons": {}}
    for line in path.read_text().splitlines():
        if line.startswith("  - {class:"):
            row = flow(line[4:])
            out["reasons"][row["class"]] = row
        elif line.startswith("  - {key:"):
            out["rows"].append(flow(line[4:]))
        elif line and line[0] not in " #" and not line.endswith(":"):
            key, _, rest = line.partition(": ")
            out[key] = rest.strip('"')
    return out


FILES = sorted(path for path in (ROOT / "data" / "dictionary").glob("*.yaml") if path.stem != "records")
TABLES = {path.stem: table(path) for path in FILES}


def verdict_of(row):
    return next(v for v in VERDICTS if v in row)


def golden():
    lines = []
    for name, data in TABLES.items():
        for row in data["rows"]:
            lines.append("\t".join([name, *(f"{key}={','.join(v) if isinstance(v, list) else v}" for key, v in row.items())]))
    return "\n".join(lines) + "\n"


def sentence_of(data, row):
    verdict = verdict_of(row)
    text = data["reasons"][row["effect"]]["why"] if verdict == "effect" else row[verdict]
    parts = [f"`{text}`" if verdict in ("reads", "alias") else text]
    if row.get("unless"):
        parts.append("unless " + ", ".join(f"`{v}`" for v in row["unless"]))
    if row.get("with"):
        parts.append(f"with `{row['with']}` alone")
    if row.get("asserts"):
        parts.append("asserted: " + row["asserts"])
    return "; ".join(parts).replace("|", "\\|")


def page():
    out = ["# Keys of frameworks", "",
           "After this page you can look up how `import` and `improve` interpret each key of a framework.",
           "", "`tests/imports/known_keys.py . --write` generates it from [`data/dictionary`](../data/dictionary/megatron.yaml), whose files name the source",
           "of each reason. It lists each key that `import config` and `improve` read, with [its kind](imports.md#what-becomes-of-a-key).", ""]
    for name, data in TABLES.items():
        out += [f"## {data['framework']} {data['version']}", ""]
        for verdict in VERDICTS:
            rows = [row for row in data["rows"] if verdict_of(row) == verdict]
            if not rows:
                continue
            out += [f"**{HEADINGS[verdict].capitalize()}** ({len(rows)})", "", "| key | default | meaning |", "| --- | --- | --- |"]
            for row in rows:
                default = row.get("default", "–")
                out.append(f"| `{row['key']}` | {'–' if default == '–' else f'`{default}`' if default else 'empty'} | {sentence_of(data, row)} |".replace("`[]`", "`[ ]`"))
            out.append("")
    return "\n".join(out)


def committed(path, text):
    if WRITE:
        path.write_text(text)
    expect(path.exists() and path.read_text() == text, f"{path.name} is not what the dictionaries say: run {sys.argv[0]} {sys.argv[1]} --write")


# ---- installed packages ---------------------------------------------------------------------------------------------

def installed():
    stand_ins = PYTHON.parents[1] / "stand-ins"
    libraries = [str(stand_ins), *(str(p) for p in PYTHON.parents[1].glob("lib/python3*/site-packages/nvidia/*/lib"))]
    ran = subprocess.run([str(PYTHON), str(ROOT / "tests" / "engines" / "list_keys.py")], capture_output=True, text=True, timeout=500,
                         env={**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "DS_ACCELERATOR": "cpu"})
    lines = [line for line in ran.stdout.splitlines() if line.startswith("{")]
    expect(len(lines) == 1, f"no list of keys: {ran.stderr[-600:]}")
    return json.loads(lines[0]) if len(lines) == 1 else {}


def names_of(row):
    flags = [flag[2:].replace("-", "_") for flag in row.get("flags", [])]
    return {row["key"], *row.get("names", []), *flags}


def same_default(row, default):
    if "default" not in row:
        return True
    return row["default"] == default or (default in ("None", "") and row["default"] in ("None", ""))


def compare(name, keys):
    rows = {n: row for row in TABLES[name]["rows"] for n in names_of(row)}
    unknown = [key["key"] for key in keys if key["key"] not in rows]
    expect(not unknown, f"{name}: unknown: {unknown}")
    counts = dict.fromkeys(VERDICTS, 0)
    for key in keys:
        row = rows.get(key["key"])
        if row is None:
            continue
        counts[verdict_of(row)] += 1
        for flag in key.get("flags", []):
            expect(rows.get(flag[2:].replace("-", "_")) is row, f"{name}: {flag} is not a spelling of {row['key']}")
        if "default" in key and not key["key"].endswith("_deprecated"):
            expect(same_default(row, key["default"]), f"{name}: {row['key']}: default {row.get('default')}, the package has {key['default']}")
    read, nothing, others = counts["reads"] + counts["noted"] + counts["alias"], counts["effect"], counts["changes"]
    print(f"{name}: {len(keys)} keys: {read} read, {nothing} without effect, {counts['refused']} refused, {others} known and not modelled, {len(unknown)} unknown")


committed(ROOT / "tests" / "golden" / "dictionary.tsv", golden())
committed(ROOT / "docs" / "framework-keys.md", page())
if PYTHON.exists():
    for name, keys in installed().items():
        compare(name, keys)
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0 if PYTHON.exists() else 77)
