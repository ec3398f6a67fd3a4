#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that Ctrl-C ends a search that would take hours, also an exhaustive one, with exit code 130 and the best plan
so far if there is one.

usage: interrupts.py BINARY SOURCE_DIR
"""
import pathlib
import signal
import subprocess
import sys
import time

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
failures = []


def interrupted(*words):
    """Returns exit code and both streams of a command that is interrupted after a second or two; None if it
    does not end."""
    process = subprocess.Popen([BINARY, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        process.kill()
        return None
    return process.returncode, out, err


def main():
    for example, words in (("llama3-70b-on-64xh100", ("--exhaustive", "--threads", 1)), ("llama3.1-405b-on-16384xh100", ("--exhaustive",)),
                           ("llama3.1-405b-on-16384xh100", ("--no-rule", "bound", "--no-rule", "layer-bound", "--no-rule", "schedule-bound", "--threads", 1))):
        ended = interrupted("plan", SOURCE / "examples" / f"{example}.yaml", *words)
        if ended is None or ended[0] != 130 or "interrupted" not in ended[2]:
            failures.append(f"{example} {words}: {ended}")
            print("FAILED", failures[-1])
    print("interrupts:", f"{len(failures)} failures" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
