#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts a link to a quarter in the middle of a run (tools/testbed): the figures of docs/runtime.md, "Live change".

  live.py FOLDER     four hosts at 400 Mb/s under the profile that ships with the results;
                     the link of host 3 is cut to 100 Mb/s at step 24 of 60

Runs the recommended plan three times: undisturbed, with the cut and `--adapt`, and with the cut alone. Prints the
prediction and the measurement of the move, and the largest difference of a loss from the undisturbed run. Exit code
3: the testbed cannot be built here.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import time

import prediction as p

NAME = "4 hosts, 400 Mb/s"
PROFILE = p.ROOT / "bench/testbed/results/4-hosts-400-mb-s/profile.yaml"
STEPS, CUT_AT, HOST, CUT_TO = 60, 24, 3, 100
# Ranks under a launcher count from 0; a run that adapts prints "step 1 of 60" for the first step.
STEP = re.compile(r"^step (\d+)( of \d+)?\s+loss ([0-9.]+)\s+gradient [0-9.]+\s+([0-9.]+) (ms|s)\b")


def run(plan, cut, *more):
    """Returns losses and seconds by step, the whole output, and the wall-clock seconds from the end of the first step
    to the end of the last."""
    p.bring_up(p.CLUSTERS[NAME])
    words = [sys.executable, p.TESTBED, "run", "--timeout", "300", "--", p.BINARY, "run", str(plan), "--steps", str(STEPS), "--pace", p.PACE, *more]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    losses, seconds, said, first, last = {}, {}, [], None, None
    for line in process.stdout:
        found = STEP.match(line.rstrip())
        said.append(line.rstrip())
        if not found:
            continue
        number = int(found.group(1)) - (1 if found.group(2) else 0)
        losses[number], seconds[number] = float(found.group(3)), float(found.group(4)) * (1e-3 if found.group(5) == "ms" else 1)
        last = time.monotonic()
        first = first or last
        if cut and number == CUT_AT:
            p.testbed("rate", str(CUT_TO), "--host", str(HOST))
    if process.wait() != 0:
        raise p.Failed("\n".join(said[-20:]))
    if not losses:
        raise p.Failed("no steps in what was said:\n" + "\n".join(said[:40]))
    return losses, seconds, said, last - first


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        job = p.job_of(p.CLUSTERS[NAME], folder, PROFILE)
        p.call(p.BINARY, "plan", str(job), "-q", "-o", str(folder / "best"))
        plan = folder / "best" / "plan.json"
        expected, calm, _, whole = run(plan, False)
        print(f"undisturbed: {whole:.1f} s from the first step's end to the last one's, {sorted(calm.values())[len(calm) // 2] * 1e3:.0f} ms a step")
        losses, _, said, moved = run(plan, True, "--adapt", str(folder / "adapt"))
        print(*[line for line in said if not STEP.match(line)], sep="\n")
        stayed_losses, slow, _, stayed = run(plan, True)
        print(f"with --adapt {moved:.1f} s, without {stayed:.1f} s ({sorted(slow.values())[-len(slow) // 4] * 1e3:.0f} ms a step after the cut)")
        print(f"losses: {max(abs(losses[n] / expected[n] - 1) for n in expected):.1e} from the undisturbed run, "
              f"{max(abs(stayed_losses[n] / expected[n] - 1) for n in expected):.1e} of the one that stays; to the digits printed")
        p.testbed("down")
    except p.Failed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
