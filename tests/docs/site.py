#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site strictly, then checks the HTML. Every link leads to a file and an anchor of the site,
and no page or style loads anything from another host. Each page has its Markdown twin and a line in llms.txt.

Where a Chromium is installed, it opens start, tutorial and a reference page from the disk (light, dark, phone). The
console reports no error, no host is contacted, and the search finds a word.

usage: site.py SOURCE_DIR [--site DIR] [--pictures DIR]
  --site      build here and keep it (default: a temporary folder)
  --pictures  folder for screenshots
exit 77: no MkDocs Material (./dev docs installs it)
"""
import argparse
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "report"))
import chromium  # noqa: E402

PAGES = {"start": "index.html", "tutorial": "learn/tutorial.html", "parallelism": "concepts/parallelism.html", "recipe": "how-to/failed-node.html",
         "reference": "file-formats.html"}
SCREENS = {"light": {"width": 1360, "height": 900}, "dark": {"width": 1360, "height": 900, "dark": True}, "phone": {"width": 390, "height": 844, "ratio": 2}}
REMOTE = re.compile(r"^(?:https?:)?//")
NO_SERVER = {"404.html"}  # its links begin at the root of a server
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


class Links(html.parser.HTMLParser):
    """Collects links, loaded resources and anchors of a page."""

    LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("href") and values.get("rel") != "canonical":
            self.loads.append(values["href"])
        if values.get(self.LOADS.get(tag, "")):
            self.loads.append(values[self.LOADS[tag]])


def mkdocs(root):
    """Returns the build command, or None."""
    own = root / ".cache/docs/venv/bin/mkdocs"
    path = str(own) if own.exists() else shutil.which("mkdocs")
    if not path:
        return None
    python = pathlib.Path(path).parent / "python"
    found = subprocess.run([python if python.exists() else sys.executable, "-c", "import material"], capture_output=True, check=False)
    return path if found.returncode == 0 else None


def build(root, command, site):
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    ran = subprocess.run([command, "build", "--strict", "--clean", "-f", root / "mkdocs.yml", "-d", site], capture_output=True, text=True, env=environment, check=False)
    if ran.returncode != 0:
        print(ran.stdout[-4000:], ran.stderr[-4000:])
    expect(ran.returncode == 0, "mkdocs build --strict")
    return ran.returncode == 0


def check_html(site):
    pages = {path: Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html")) if path.name not in NO_SERVER}
    expect(len(pages) >= 25, f"only {len(pages)} pages")
    links = 0
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.links + page.loads:
            remote = REMOTE.match(target)
            expect(not (remote and target in page.loads), f"{name} loads {target}")
            if remote or target.startswith(("mailto:", "data:", "javascript:")):
                continue
            links += 1
            file, _, fragment = target.partition("#")
            goal = (path.parent / urllib.parse.unquote(file)).resolve() if file else path
            goal = goal / "index.html" if goal.is_dir() else goal
            expect(goal.is_file(), f"{name}: no file {target}")
            if fragment and goal in pages and fragment != "__skip":
                expect(urllib.parse.unquote(fragment) in pages[goal].anchors, f"{name}: no anchor {target}")
    for style in site.rglob("*.css"):
        found = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)", style.read_text(encoding="utf-8"))
        expect(not found, f"{style.relative_to(site)} loads {found}")
    print(f"{len(pages)} pages, {links} links")
    return pages


def check_twins(site, pages):
    index = (site / "llms.txt").read_text(encoding="utf-8")
    for path in pages:
        twin = path.with_suffix(".md")
        name = twin.relative_to(site).as_posix()
        expect(twin.is_file(), f"no twin {name}")
        line = re.search(rf"^- \[[^\]]+\]\({re.escape(name)}\): (.+)$", index, re.M)
        expect(line and len(line.group(1)) > 30, f"llms.txt: no line, or no sentence, for {name}")
        for target in re.findall(r"\]\(([^)\s#]+)", twin.read_text(encoding="utf-8")) if twin.is_file() else []:
            if not REMOTE.match(target) and not target.startswith("mailto:"):
                expect((twin.parent / target).exists(), f"{name}: no file {target}")


READY = "document.readyState === 'complete' && !!document.querySelector('article')"
SEARCH = """(async () => {
  document.querySelector('label[for=__search]').click();
  const field = document.querySelector('.md-search__input');
  field.focus(); field.value = 'bubble'; field.dispatchEvent(new Event('input', {bubbles: true})); field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true}));
  for (let i = 0; i < 300; i++) {
    const found = document.querySelectorAll('.md-search-result__item').length;
    if (found) return found;
    await new Promise(done => setTimeout(done, 100));
  }
  return 0;
})()"""


def check_browser(site, pictures):
    path = chromium.executable()
    if not path:
        print("no Chromium: pages are not opened")
        return
    page = chromium.Page(path)
    try:
        for screen, size in SCREENS.items():
            page.screen(**size)
            for name, file in PAGES.items():
                page.open(site / file, ready=READY)
                wide = page.value("document.documentElement.scrollWidth - innerWidth")
                expect(wide <= 0, f"{file} is {wide} pixels wider than a screen ({screen})")
                broken = page.value("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")
                expect(not broken, f"{file}: images not shown: {broken}")
                if screen != "phone":
                    scheme = page.value("document.body.dataset.mdColorScheme")
                    expect(scheme == ("slate" if size.get("dark") else "default"), f"{file}: {screen} shows {scheme}")
                if pictures:
                    time.sleep(0.3)
                    page.frame()
                    page.picture(pictures / f"{name}-{screen}.png")
        page.screen(**SCREENS["light"])
        page.open(site / PAGES["start"], ready=READY)
        expect(page.value(SEARCH) > 0, "the search finds 'bubble'")
        if pictures:
            page.frame()
            page.picture(pictures / "search-light.png")
        for complaint in sorted({text for text in page.complaints() if not text.startswith(("loads data:", "loads blob:"))}):
            expect(False, f"browser: {complaint}")
    finally:
        page.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--site", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.source.resolve()
    command = mkdocs(root)
    if not command:
        print("skipped: no MkDocs Material; ./dev docs installs it")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        site = (arguments.site or pathlib.Path(folder) / "site").resolve()
        if build(root, command, site):
            check_twins(site, check_html(site))
            if arguments.pictures:
                arguments.pictures.mkdir(parents=True, exist_ok=True)
            check_browser(site, arguments.pictures)
    print(f"site: {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
