# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a page in order, in its own folder, and returns the output blocks that the page must hold.

A page of docs/learn or docs/how-to is a program:

  ```yaml title="job.yaml"          the file is written before the next command runs (any language)
  ```sh                             the commands are run by bash; each must succeed
  <!-- not run: why -->             before a fence: only shown, not run

Two kinds of generated block follow the fence whose commands they show, between <!-- begin … --> and <!-- end … -->:

  output NAME                       stdout of the fence
  output NAME, first N lines        its first N lines
  output NAME, from TEXT            the paragraph that begins with TEXT
  estimates NAME                    one row for each `espalier estimate` of the fence: step, MFU, memory, where the time goes

The folder holds links to examples/, models/, data/ and tests/ of the repository; `espalier` is the binary.
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

FOLDERS = ("examples", "models", "data", "tests")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?[^\n]*\n(.*?)^```$', re.S | re.M)
BEGIN = re.compile(r"<!-- begin ((?:output|estimates) [^>]*?) -->")
NOT_RUN = re.compile(r"<!-- not run: [^>]+ -->\s*\Z")
GIB = 1 << 30
DOES_NOT_FIT = (0, 4)
JOINED = "\u00a0"
HEAD = "| row | flags | step, s | MFU, % | memory, GiB | state, GiB | activations, GiB | exposed, % | bubble, % |"


def pages(root):
    return sorted([*(root / "docs/learn").glob("*.md"), *(root / "docs/how-to").glob("*.md")])


class Folder:
    """Holds the folder in which the commands of one page run."""

    def __init__(self, root, binary, folder):
        self.path = pathlib.Path(folder)
        for name in FOLDERS:
            (self.path / name).symlink_to(root / name)
        (self.path / ".bin").mkdir()
        (self.path / ".bin/espalier").symlink_to(binary)
        self.environment = dict(os.environ, PATH=f"{self.path}/.bin:{os.environ['PATH']}", COLUMNS="80", NO_COLOR="1")

    def run(self, script, expected=(0,)):
        ran = subprocess.run(["bash", "-uc", script], cwd=self.path, env=self.environment, capture_output=True, text=True, check=False,
                             stdin=subprocess.DEVNULL)
        if ran.returncode not in expected:
            raise RuntimeError(f"exit {ran.returncode}: {script.strip().splitlines()[0]}: {ran.stderr.strip()}")
        return ran.stdout

    def estimates(self, script):
        rows = []
        for line in re.sub(r"\\\n\s*", "", script).splitlines():
            words = shlex.split(line, comments=True)
            if words[:2] == ["espalier", "estimate"]:
                rows.append(estimate_row(len(rows) + 1, words[3:], json.loads(self.run(f"{line.split(' #')[0]} --json -q", DOES_NOT_FIT))["prediction"]))
        return "\n".join([HEAD, re.sub(r"[^|]+", " --- ", HEAD), *rows])


def estimate_row(number, flags, prediction):
    """Returns the row of an estimate. A mark behind the memory means that it does not fit. Flags are joined to their
    values, so that a line breaks between flags."""
    step, bytes_of = prediction["iteration_s"], prediction["memory_breakdown_bytes"]
    busiest = prediction.get("bottleneck", prediction)["breakdown_s"]
    memory = f"{prediction['peak_memory_bytes'] / GIB:.1f}" if prediction["fits"] else f"**{prediction['peak_memory_bytes'] / GIB:.1f}{JOINED}!**"
    state = sum(bytes_of[part] for part in ("parameters", "gradients", "optimizer")) / GIB
    words = " ".join(flags).replace("--set training.", "--")
    shown_flags = ", ".join(pair.strip().replace(" ", JOINED) for pair in words.replace(",", "+").split("--") if pair.strip()) or "none"
    figures = [100 * prediction["mfu"], memory, state, bytes_of["activations"] / GIB, 100 * busiest["exposed_communication"] / step, 100 * busiest["bubble"] / step]
    cells = [str(number), shown_flags, f"{step:.2f}", *(f if isinstance(f, str) else f"{f:.1f}" for f in figures)]
    return f"| {' | '.join(cells)} |"


def shown(output, wish):
    """Returns the part of an output that a block asks for."""
    lines = [line.rstrip() for line in output.rstrip("\n").splitlines()]
    if match := re.search(r", first (\d+) lines$", wish):
        count = int(match.group(1))
        return lines[:count] + (["…"] if len(lines) > count else [])
    if match := re.search(r", from (.+)$", wish):
        start = next((i for i, line in enumerate(lines) if line.strip().startswith(match.group(1))), None)
        if start is None:
            raise RuntimeError(f"no line of the output begins with '{match.group(1)}'")
        end = next((i for i in range(start + 1, len(lines)) if not lines[i]), len(lines))
        return lines[start:end]
    return lines


def blocks(root, binary, page):
    """Returns (name, content) of every generated block of the page, from commands that run here."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"(<!-- begin ((?:output|estimates) [^>]*?) -->\n).*?(?=<!-- end \2 -->)", r"\1", text, flags=re.S)
    with tempfile.TemporaryDirectory() as name:
        folder, script, output = Folder(root, binary, name), "", ""
        events = sorted([*FENCE.finditer(text), *BEGIN.finditer(text)], key=lambda match: match.start())
        for position, event in enumerate(events):
            if event.re is BEGIN:
                wish = event.group(1)
                if wish.startswith("estimates"):
                    yield wish, folder.estimates(script)
                else:
                    yield wish, "```text\n" + "\n".join(shown(output, wish)) + "\n```"
                continue
            language, title, body = event.groups()
            if title:
                (folder.path / title).parent.mkdir(parents=True, exist_ok=True)
                (folder.path / title).write_text(body, encoding="utf-8")
            elif language == "sh" and not NOT_RUN.search(text[:event.start()]):
                script = body
                follows = events[position + 1].group(1) if position + 1 < len(events) and events[position + 1].re is BEGIN else ""
                if not follows.startswith("estimates"):
                    output = folder.run("set -eo pipefail\n" + body)
