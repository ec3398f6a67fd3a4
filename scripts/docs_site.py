# SPDX-License-Identifier: Apache-2.0
"""Builds the site from the pages in docs/, which are written for GitHub. It is a hook of MkDocs (mkdocs.yml):

  anchors         headings get the anchors that GitHub gives them
  linked files    files of the repository that a page links to are copied into files/, as text that a browser shows.
  Markdown twins  page.md is written next to each page.html
  llms.txt        lists all pages by shelf, each with its first sentence
"""
import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from check_links import anchor  # noqa: E402

LINK = re.compile(r"(?<!!)(\[[^\]]*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^( *)```.*?^ *```", re.S | re.M)
pages = {}  # destination of a page -> its Markdown as the site links it
openings = {}  # source of a page -> its first sentence


def outside(source, target):
    """Returns the path in the repository of a link that leaves docs/ or leads to a folder, or None."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target.partition("#")[0]))
    return None if path.startswith("docs/") and not (ROOT / path).is_dir() else path


def copied(path):
    """Returns the place of a repository file on the site; the suffix makes a browser show it."""
    return f"files/{path}.txt"


def listing(folder):
    return "".join(f"{entry.name}{'/' if entry.is_dir() else ''}\n" for entry in sorted(folder.iterdir()))


def on_config(config):
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda text, separator: anchor(text)
    pages.clear()
    openings.clear()
    return config


def on_files(files, config):
    wanted = set()
    for file in files.documentation_pages():
        wanted |= {outside(file.src_uri, target) for _, target, _ in LINK.findall(FENCE.sub("", file.content_string))}
    for path in sorted(wanted - {None}):
        goal = ROOT / path
        if not goal.exists():
            raise FileNotFoundError(f"a page links to {path}, which is not in the repository")
        content = listing(goal) if goal.is_dir() else goal.read_text(encoding="utf-8")
        files.append(File.generated(config, copied(path), content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri

    def rewritten(match):
        path = outside(source, match.group(2))
        if path is None:
            return match.group(0)
        return f"{match.group(1)}{posixpath.relpath(copied(path), posixpath.dirname(source) or '.')}{match.group(3)}"

    text = LINK.sub(rewritten, markdown)
    openings[source] = opening(markdown)
    page.meta.setdefault("description", openings[source])
    if source.startswith(("learn/", "how-to/", "concepts/")) or source == "glossary.md":
        page.meta.setdefault("search", {"boost": 3})
    pages[page.file.dest_uri.removesuffix(".html") + ".md"] = text
    return text


def opening(markdown):
    """Returns the first sentence below the title, without marks."""
    body = re.sub(r"<!--.*?-->", "", markdown, flags=re.S).partition("\n# ")[2] if not markdown.startswith("# ") else markdown
    paragraphs = [p for p in re.split(r"\n\s*\n", body) if not p.startswith(("#", "<", "|", "```", "!", "-"))]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraphs[0].split()) if paragraphs else "")
    text = re.sub(r"[`*]", "", text)
    return re.split(r"(?<=\.)\s", text)[0]


def on_nav(nav, config, files):
    on_nav.shelves = nav.items


def rows(item):
    if getattr(item, "children", None):
        return [row for child in item.children for row in rows(child)]
    return [item] if getattr(item, "file", None) else []


def on_post_build(config):
    site = pathlib.Path(config.site_dir)
    for name, text in pages.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, encoding="utf-8")
    lines = ["# Espalier", "", f"> {config.site_description}", ""]
    for shelf in on_nav.shelves:
        if getattr(shelf, "children", None):
            lines += ["", f"## {shelf.title}", ""]
        lines += [f"- [{page.title}]({page.file.dest_uri.removesuffix('.html')}.md): {openings[page.file.src_uri]}" for page in rows(shelf)]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
