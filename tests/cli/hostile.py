#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py BINARY SOURCE_DIR: every reader meets the hostile corpus of tests/hostile and must end in
an orderly way.

Each command runs with 2 GiB of address space and 20 seconds of processor time, which does not depend on the load of
the machine. A rejected file gives exit code 3, a message with the place (line:column or JSON path) and a hint. No
case may crash, hang, run out of memory or print an internal error.

A sanitizer maps terabytes of shadow memory. A binary built with one (ESPALIER_SANITIZE, set by CTest) is therefore
limited in resident memory instead, and gets more of it and of time.
"""
import concurrent.futures
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

BINARY, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(SOURCE, "tests", "hostile"))
sys.dont_write_bytecode = True
import hostile  # noqa: E402

COMMANDS = {
    "model": ["inspect", "model"],
    "cluster": ["inspect", "cluster"],
    "job": ["plan", "--threads", "1", "-o", "OUT"],
    "plan": ["check"],
    "runs": ["validate"],
}
# Lists orderly exit codes of files that may be accepted: planned, nothing fits, a check failed.
ORDERLY = {"model": {0, 3}, "cluster": {0, 3}, "job": {0, 3, 4}, "plan": {0, 3, 5}, "runs": {0, 3}}
SANITIZED = bool(os.environ.get("ESPALIER_SANITIZE"))
ADDRESS_SPACE = resource.RLIM_INFINITY if SANITIZED else 2 << 30
RESIDENT_MIB = 6 << 10
SECONDS = 200 if SANITIZED else 20  # processor time
MOST_SECONDS = 900  # wall-clock limit for commands that wait without computing
PLACE = re.compile(r":\d+:\d+|\$[.\[]|\(\$\)|line \d+")


def environment():
    """Returns the environment of this process. The sanitizers' own limit on resident memory replaces the limit on
    address space, which they cannot run in."""
    names = ("ASAN_OPTIONS", "TSAN_OPTIONS") if SANITIZED else ()
    return os.environ | {name: f"{os.environ.get(name, '')}:hard_rss_limit_mb={RESIDENT_MIB}" for name in names}


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def run(kind, path, out):
    command = [BINARY] + [out if word == "OUT" else word for word in COMMANDS[kind]] + [path]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS, preexec_fn=limit_memory, cwd=out,
                          env=environment())


def problem_of(kind, case, out):
    """Returns the fault of the answer, or None."""
    try:
        done = run(kind, case.path, out)
    except subprocess.TimeoutExpired:
        return f"no answer within {MOST_SECONDS} s"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"no answer within {SECONDS} s of processor time"
    message = done.stderr.decode("utf-8", "replace")
    shown = message.strip()[:400] or done.stdout.decode("utf-8", "replace").strip()[:200]
    if done.returncode not in ORDERLY[kind]:
        return f"exit code {done.returncode}: {shown}"
    if len(message) > 20000:
        return f"a message of {len(message)} characters"
    if case.refused and done.returncode != 3 and not (kind == "plan" and done.returncode == 5):
        return f"taken (exit code {done.returncode}): {shown}"
    if done.returncode != 3:
        return None
    if case.located and not PLACE.search(message):
        return f"no place in: {shown}"
    if os.path.basename(case.path) not in message:
        return f"the file is not named in: {shown}"
    if "hint:" not in message:
        return f"no hint in: {shown}"
    return None


def made_plan(directory):
    """Creates a real plan to damage, and proves that the undamaged documents are accepted."""
    for kind in ("model", "cluster", "job"):
        path = f"{directory}/good-{kind}.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(hostile.valid(kind), file)
        done = run(kind, path, directory)
        if done.returncode != 0:
            sys.exit(f"the good {kind} is refused: {done.stderr.decode()}")
    with open(f"{directory}/plan.json", encoding="utf-8") as file:
        return json.load(file)


def main():
    failures, count = [], 0
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plan = made_plan(directory)
        for kind in hostile.KINDS:
            folder = f"{directory}/{kind}"
            os.makedirs(folder)
            corpus = list(hostile.cases(kind, folder, plan))
            count += len(corpus)
            answers = pool.map(lambda case, kind=kind: problem_of(kind, case, directory), corpus)
            failures += [f"{kind}/{case.name}: {problem}" for case, problem in zip(corpus, answers) if problem]
            for case in corpus:
                if case.name.startswith("large"):
                    os.remove(case.path)
    for failure in failures:
        print(failure)
    print(f"{count} hostile files, {len(failures)} answered wrongly")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
