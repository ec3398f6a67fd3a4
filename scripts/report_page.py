#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and checks the page of `espalier report`. Vite builds it from src/report/page/ into
src/report/page/report.html. That file is committed and embedded, so that neither a C++ build nor a run needs node.

usage: report_page.py --build   build it again (needs node 20 or newer and the npm registry; works in
                                .cache/report-page)
       report_page.py --check   check the security policy, the places for data, and that report.html was built from
                                these sources; does not need node

The policy admits only the page's own script and style; each place for data occurs once.

The first lines of report.html hold the hash of the sources; vite.config.mjs computes it in the same way.
"""
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "src" / "report" / "page"
BUILT = PAGE / "report.html"
MOST_BYTES = 100_000


def sources():
    names = ["package.json", "package-lock.json", "tsconfig.json", "vite.config.mjs", "template.html"]
    return sorted(names + [f"src/{path.name}" for path in (PAGE / "src").iterdir()])


def sources_hash():
    whole = hashlib.sha256()
    for name in sources():
        whole.update(name.encode() + b"\0")
        whole.update((PAGE / name).read_bytes() + b"\0")
    return whole.hexdigest()


def policy_hash(text):
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def faults(page):
    """Returns the faults in the text of a built page."""
    found = re.search(r"Sources: ([0-9a-f]{64}) -->", page)
    if not found or found[1] != sources_hash():
        yield "it was built from other sources: scripts/report_page.py --build"
    if not page.isascii():
        yield "it is not ASCII, which embedding needs"
    if len(page) > MOST_BYTES:
        yield f"{len(page)} bytes, at most {MOST_BYTES}"
    for place in ("@@espalier-text@@", "@@espalier-data@@"):
        if page.count(place) != 1:
            yield f"{place} stands in it {page.count(place)} times"
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    script = re.search(r"<script>(.*)</script>\s*</body>", page, re.S)
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    if not (policy and script and style):
        yield "no policy, script or style"
        return
    wanted = (f"default-src 'none'; script-src {policy_hash(script[1])}; style-src {policy_hash(style[1])}; base-uri 'none'; "
              "form-action 'none'")
    if policy[1] != wanted:
        yield f"the policy is {policy[1]}, expected {wanted}"
    if "</script" in script[1]:
        yield "its script ends too early"
    for word in ("http://", "https://", "innerHTML", "document.write", "eval("):
        if word in page.replace("http://www.w3.org/", ""):
            yield f"it says {word}"


def check():
    found = list(faults(BUILT.read_text(encoding="utf-8")))
    for fault in found:
        print(f"{BUILT.relative_to(ROOT)}: {fault}")
    print(f"report_page: {BUILT.stat().st_size} bytes, {len(found)} faults")
    return 1 if found else 0


def build():
    work = ROOT / ".cache" / "report-page"
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(work / "src", ignore_errors=True)
    for name in sources():
        (work / name).parent.mkdir(exist_ok=True)
        shutil.copy(PAGE / name, work / name)
    if not (work / "node_modules").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=work, check=True)
    subprocess.run(["npm", "run", "--silent", "build"], cwd=work, check=True)
    shutil.copy(work / "report.html", BUILT)
    return check()


if __name__ == "__main__":
    if sys.argv[1:] == ["--build"]:
        sys.exit(build())
    if sys.argv[1:] == ["--check"]:
        sys.exit(check())
    sys.exit(__doc__)
