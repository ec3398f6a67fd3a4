#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mistakes.py BINARY SOURCE_DIR: mistakes of users (tests/mistakes/table.py) get the right exit code, a message that
names the cause, and a suggestion that works.

Whole messages are compared with tests/golden/mistakes.txt; ESPALIER_UPDATE_GOLDEN=1 writes that file. The demands of
a row in the table (exit code, words, a suggestion that works) hold in any case.
"""
import concurrent.futures
import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

BINARY, SOURCE = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tests" / "mistakes"))
import table  # noqa: E402

GOLDEN = SOURCE / "tests" / "golden" / "mistakes.txt"
SECONDS = 900  # wall-clock limit on a loaded machine; it catches hanging commands, not slow ones


def call(folder, words):
    typed = [word.replace("{root}", str(SOURCE)) for word in words]
    return subprocess.run([BINARY, *typed], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)


def write_files(folder):
    for name, content in table.FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.replace("{root}", str(SOURCE)).encode())


def write_plans(folder):
    for stem, words in (("made", ["--tp", "2", "--pp", "2"]), ("three", ["--pp", "4", "--schedule", "zb-h1"])):
        made = call(folder, ["estimate", "job.yaml", *words, "-o", stem])
        if made.returncode != 0:
            sys.exit(f"the good plan cannot be made: {made.stderr.decode()}")
    plan = (folder / "made" / "plan.json").read_text()
    (folder / "pp3.json").write_text((folder / "three" / "plan.json").read_text())
    for name, change in table.PLANS.items():
        text = plan if change is None else plan[:change[0]] if isinstance(change[0], int) else plan.replace(*change)
        if change is not None and text == plan:
            sys.exit(f"{name}: {change[0]!r} is not in the plan")
        (folder / name).write_text(text)


def judged(folder, row):
    """Returns the message of a row, and its fault."""
    name, _, words, code, demanded, *rest = row
    done = call(folder, words)
    message = done.stderr.decode("utf-8", "replace").replace(str(SOURCE), "<source>").replace(os.path.realpath(folder), "<folder>").replace(str(folder), "<folder>")
    problems = []
    if done.returncode != code:
        problems.append(f"{name}: exit code {done.returncode}, not {code}: {message or done.stdout.decode('utf-8', 'replace')[:300]}")
    problems += [f"{name}: no {word!r} in: {message}" for word in demanded if word not in message]
    if done.stdout:
        problems.append(f"{name}: something on stdout beside the message")
    if "hint: " not in message:
        problems.append(f"{name}: no hint in: {message}")
    as_json = call(folder, [*words, "--json"])
    problems += json_problems(name, code, as_json)
    for suggested in rest + figures_suggested(words, message):
        tried = call(folder, suggested)
        if tried.returncode != 0:
            problems.append(f"{name}: the suggestion {' '.join(suggested)} ends with {tried.returncode}: {tried.stderr.decode()}")
    return message, problems


def figures_suggested(words, message):
    """Tries suggested changes of the job whose figures follow from predictions, so that no table can hold them."""
    changes = re.findall(r"(cluster\.memory_limit): (\S+) would fit|(cluster\.nodes)(?:: | = )(\d+)", message)
    pairs = [(a or c, b or d) for a, b, c, d in changes]
    return [[*words, "--set", f"{key}={value}"] for key, value in pairs]


def json_problems(name, code, done):
    try:
        error = json.loads(done.stdout)
    except ValueError:
        return [f"{name}: --json prints no JSON: {done.stdout[:200]!r}"]
    wrong = [key for key in ("where", "found", "expected", "hint") if not isinstance(error.get(key), str)]
    if wrong or error.get("schema") != "espalier.error/1" or error.get("exit_code") != code or done.returncode != code:
        return [f"{name}: --json prints another error: {done.stdout[:300]!r}"]
    return []


def remark_problems(folder, name, words, demanded):
    done = call(folder, words)
    text = done.stderr.decode("utf-8", "replace")
    if done.returncode != 0:
        return [f"{name}: exit code {done.returncode}: {text}"]
    problems = [f"{name}: no {word!r} in: {text}" for word in demanded if word not in text]
    if not demanded and text:
        problems.append(f"{name}: a remark where nothing is to be said: {text}")
    notes = json.loads(call(folder, [*words, "--json"]).stdout).get("notes", [])
    problems += [f"{name}: no {word!r} in the notes of --json: {notes}" for word in demanded if word not in " ".join(notes)]
    if call(folder, [*words, "--quiet"]).stderr:
        problems.append(f"{name}: --quiet is not quiet")
    return problems


def golden_problems(text):
    if os.environ.get("ESPALIER_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
        return []
    expected = GOLDEN.read_text() if GOLDEN.exists() else ""
    lines = list(difflib.unified_diff(expected.splitlines(), text.splitlines(), "expected", "actual", lineterm="", n=1))
    return ["messages changed; if that is meant: ESPALIER_UPDATE_GOLDEN=1 ./dev test -R mistakes\n" + "\n".join(lines)] if lines else []


def main():
    failures, golden = [], []
    names = [row[0] for row in table.MISTAKES]
    assert len(names) == len(set(names)) and len(names) >= 60
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(directory)
        write_files(folder)
        write_plans(folder)
        for row, (message, problems) in zip(table.MISTAKES, pool.map(lambda r: judged(folder, r), table.MISTAKES)):
            golden.append(f"{row[0]}: {row[1]}\n  $ espalier {' '.join(row[2])}  -> {row[3]}\n  {message.rstrip()}\n")
            failures += problems
        for name, words, demanded in table.REMARKS:
            failures += remark_problems(folder, name, words, demanded)
    failures += golden_problems("\n".join(golden))
    for failure in failures:
        print(failure)
    print(f"{len(table.MISTAKES)} mistakes, {len(table.REMARKS)} remarks, {len(failures)} problems")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
