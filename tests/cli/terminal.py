#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests terminal features other than answers: the schedule as text at any width, completion scripts, and the manual
page, which is that of docs/man.

usage: terminal.py BINARY SOURCE_DIR [--write]     --write: rewrites docs/man/espalier.1
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
PAGE = SOURCE / "docs" / "man" / "espalier.1"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def run(*words, code=0, **environment):
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LC_ALL", "LC_CTYPE", "LANG")}
    ran = subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=300, env={**plain, **environment})
    expect(ran.returncode == code, f"{' '.join(map(str, words))}: exit {ran.returncode} {ran.stderr[-300:]}")
    return ran.stdout


def grids(folder):
    run("plan", SOURCE / "examples/llama3-8b-on-8xh100.yaml", "--set", "search={memory_margin: 0.05, fix: {pp: 2, tp: 2, micro_batch: 1}}", "-o", folder, "-q")
    plan = folder / "plan.json"
    for columns in (60, 80, 132):
        text = run("simulate", plan, "--grid", "-q", COLUMNS=str(columns))
        rows = [line for line in text.splitlines() if line.startswith("stage ") and ("F0" in line)]
        expect(len(rows) == 2, f"{columns} columns: a row for each of two stages: {text}")
        expect(all(len(line) <= columns for line in text.splitlines()), f"no line is longer than {columns}: {text}")
    wide = run("simulate", plan, "--grid", "--wide", "-q")
    expect("left out" not in wide and "F31" in wide, "--wide shows every column")
    ascii_ = run("simulate", plan, "--grid", "-q", LC_ALL="C")
    expect(ascii_.isascii(), "a locale without UTF-8 gets ASCII")
    expect(run("simulate", plan, "--grid", "--ascii", "-q", LC_ALL="C.UTF-8") == ascii_, "--ascii is the same")
    expect(run("simulate", plan, "--grid", "--json", "-q").startswith("{"), "--json prints JSON whatever else is asked")


def completes(words):
    """Returns the completions of bash for the last of the words."""
    script = ('source <("$0" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _espalier; printf "%s\\n" "${COMPREPLY[@]}"')
    ran = subprocess.run(["bash", "-c", script, BINARY, *words], capture_output=True, text=True, timeout=60, cwd=SOURCE)
    expect(ran.returncode == 0 and not ran.stderr, f"bash: {ran.stderr}")
    return ran.stdout.split()


def completion():
    expect(completes(["espalier", "rep"]) == ["replan", "report"] or set(completes(["espalier", "rep"])) == {"replan", "report"}, "commands")
    expect(completes(["espalier", "report", "--no"]) == ["--no-search"], completes(["espalier", "report", "--no"]))
    expect(set(completes(["espalier", "inspect", "m"])) == {"model"}, completes(["espalier", "inspect", "m"]))
    expect("README.md" in completes(["espalier", "report", "READ"]), "files, where a command takes one")
    for shell, program in (("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")):
        script = run("completion", shell)
        expect("report" in script, f"{shell} knows report")
        if shutil.which(program):
            ran = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, timeout=60)
            expect(ran.returncode == 0, f"{program} -n: {ran.stderr[-300:]}")
    run("completion", "tcsh", code=2)
    run("completion", code=2)


def manual():
    page = run("man")
    if "--write" in sys.argv:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page, encoding="utf-8")
    expect(PAGE.read_text(encoding="utf-8") == page, "docs/man/espalier.1 is what `espalier man` prints: tests/cli/terminal.py BINARY . --write")
    if shutil.which("groff"):
        ran = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", "-ww", str(PAGE)], capture_output=True, text=True, timeout=60)
        expect(ran.returncode == 0 and "espalier report" in ran.stdout, f"groff sets the page: {ran.stderr[-300:]}")


def main():
    with tempfile.TemporaryDirectory() as name:
        grids(pathlib.Path(name))
    completion()
    manual()
    print("terminal:", f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
