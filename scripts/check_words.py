#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts habits of style that make prose hard to read, and rejects counts above a folder's budget. A budget only falls.

usage: check_words.py [ROOT]                print counts by folder; exit 1 where a count is above its budget
       check_words.py --list RULE [FOLDER]  print the hits as file:line: sentence
       check_words.py --update              lower the budgets to the counts; a count above its budget stays an error
       check_words.py --self-test           prove each rule on examples

The script reads comments of C++, and string literals of src/ that hold a sentence (three words or more; tests are excluded). It reads
docstrings and comments of Python, and the pages README.md, CONTRIBUTING.md, CHANGELOG.md and docs/. It skips code, fenced blocks, the
headings, names and examples of NumPy's docstrings, and generated blocks (<!-- begin NAME --> … <!-- end NAME -->).

  opens-of, opens-what, opens-those, opens-the-same, opens-beside   sentences that open with this word (questions excluded)
  beside     "beside" outside its spatial sense; spatial is only what is printed, drawn, shown or placed beside a figure, table, row …
  more       "more" behind its noun: "one section more"
  besides    "besides" at the end of a clause
  too        "too" at the end of a clause
  shall, so-many, of-now    these words ("as of now" is allowed)
  long       sentences of more than 30 words; numbers and symbols do not count
  verbless   doc comments without a main verb: `///` above a declaration, or `//` above a class or function of a header
  wide       lines with a comment that are wider than 120 columns

Limits. `verbless` finds a verb by a list of words. A verb behind a relative ("that", "which", "what" …) is no main verb. A noun that is
also a verb ("plan", "runs") counts only at the start of a sentence or behind a pronoun. The list lacks the past tense. The rule
skips `///<` behind a member, where a noun phrase is usual. `more` and `beside` are patterns: they miss some cases and hit a few wrongly.

Budgets are rows of scripts/check_words.tsv: one row a folder, one column a rule. The row `baseline` holds the totals of the day when the
rule came; nothing changes it. A folder without a row takes its counts at --update, as long as no total rises.
"""
import argparse
import ast
import collections
import functools
import os
import pathlib
import re
import signal
import sys

BUDGETS = "scripts/check_words.tsv"
CPP_FOLDERS = ("include", "src", "lab", "tests", "bench", "tools", "python", "examples")
PYTHON_FOLDERS = ("python", "scripts", "tests", "bench", "tools", "lab", "examples")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
MOST_WORDS, MOST_COLUMNS = 30, 120

OPENINGS = {"opens-of": "Of", "opens-what": "What", "opens-those": "Those", "opens-the-same": "The same", "opens-beside": "Beside"}
THINGS = r"(?:table|figure|picture|column|row|text|label|page|diagram|plot|chart|line|bar|heading|title|button|panel)s?"
SPATIAL = re.compile(r"\b(?:printed|drawn|shown|placed|written|displayed|put)\s+beside\b|\bbeside\s+(?:(?:a|an|the|its|each|every|this|that)\s+)?(?:\w+\s+)?"
                     + THINGS + r"\b|\bside by side\b", re.I)
NUMBER = r"(?:\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|several|many|few|no|some|a|an)"
FOLLOWS = r"(?=\s*(?:[.,;:)]|$)|\s+(?:in|of|a|an|for|to|is|are|on|at|that|which|and|per|with|by|from|each|were|was|where|beside|no|when|if|every)\b)"
WORDS = {
    "beside": re.compile(r"\bbeside\b", re.I),
    "more": re.compile(rf"\b{NUMBER}\s+(?!(?:bit|little|lot|few|or|and|no|much|many|far|is|are|per)\s)(?:[A-Za-z]+\s+){{1,2}}(?<!\bor\s)(?<!\band\s)(?<!\bis\s)(?<!\bare\s)"
                       rf"(?<!\bno\s)(?<!\bthe\s)(?<!\ba\s)more\b{FOLLOWS}", re.I),
    "besides": re.compile(r"(?<=\S)\s+besides\b(?=\s*(?:[.,;:)]|$))", re.I),
    "too": re.compile(r"(?<=\S)\s+too\b(?=\s*(?:[.,;:)]|$))", re.I),
    "shall": re.compile(r"\bshall\b", re.I),
    "so-many": re.compile(r"\bso many\b", re.I),
    "of-now": re.compile(r"(?<!\bas )\bof now\b", re.I),
}
ANY_WORD = re.compile(r"beside|more|too|shall|so many|of now", re.I)  # a sentence without these needs no pattern
RULES = [*OPENINGS, *WORDS, "long", "verbless", "wide"]

# ---- verbs -----------------------------------------------------------------------------------------------------------------

FINITE = set("""is are was were am isn't aren't has have had does do did doesn't don't can can't cannot could may might must will won't would
should shall""".split())
VERBS = """accept add admit advance agree allow apply appear append arrive ask assert assign assume attach avoid become begin believe belong bind
bound bring build carry choose clear close collect come compare compile compute consist contain continue convert create deal decide define delete
demand depend derive describe determine differ divide edit embed emit enable end ensure enter enumerate erase evaluate exceed exclude execute exist
expand expect explain extend fail fetch fill find finish follow forbid generate get give go grow happen hide hold identify ignore include increase
insert intersect interpret invalidate iterate join keep knows know lack leave let load look lose maintain make matter measure meet merge mirror
modify moves notify obey occur omit parse pay perform pick predict prefer prepare preserve prevent print proceed produce propagate prove provide
prune put raise reach read receive recompute refer refuse register reject remain remember remove rename render repeat replace represent require
reserve resolve respect restore restrict return reuse rewrite satisfy save say see seem select send separate serialise serialize serve simulate
skip solve sort spread stand stay stop subtract suffice swap take tell terminate throw tie translate treat try turn undo understand unite validate
verify visit wait warn wrap write yield adapt adjust answer allocate calculate decode deserialise draw encode estimate fall flatten highlight initialise
invoke lengthen multiply normalise overwrite recognise rise shorten trigger""".split()
NOUNS_TOO = """use call cast change check copy cost count cover cut drop equal exit export fit fold force format free gather guarantee handle help import
index launch lead lie limit link list lock log lower map mark match mean model move name need object offer open order overlap own pack pass pin
place plan point position price prime process profile query quote range rank rate reason record reduce release report reset result review round
run scale scan schedule search seed set shape shard share shift show sign slow span speed split start state step store stretch sum support switch
test time top trace track train transfer transform update value walk want watch weigh work""".split()


def third(verb):
    if re.search(r"(?:s|x|z|ch|sh|o)$", verb):
        return verb + "es"
    return verb[:-1] + "ies" if re.search(r"[^aeiou]y$", verb) else verb + "s"


ALWAYS = FINITE | set(VERBS) | {third(v) for v in VERBS}
SOMETIMES = set(NOUNS_TOO) | {third(v) for v in NOUNS_TOO}
PRONOUNS = {"it", "they", "which", "that", "who", "this", "these", "and", "or", "we", "you", "also", "then", "only", "never", "always", "each", "not", "both", "all"}
SUBORDINATORS = {"that", "which", "who", "whose", "whom", "what", "where", "whether", "how", "when", "if", "while", "because", "until", "than", "as", "whatever", "after",
                 "before", "since", "unless", "though", "although", "once"}
PREPOSITIONS = {"of", "in", "for", "to", "by", "at", "on", "with", "from", "under", "over", "like", "is", "are", "was", "were"}


def has_verb(text):
    """Whether some sentence of the text has a finite verb outside its subordinate clauses."""
    for sentence in re.split(r"(?<=[.!?;:])\s+", text):
        pending, before = 0, ""
        for at, word in enumerate(re.findall(r"[A-Za-z][\w'’]*(?:::\w+|_\w+)*", sentence)):
            low = word.lower().replace("’", "'")
            verb = low in ALWAYS or low in SOMETIMES and (at == 0 or before in PRONOUNS)
            if low == "to" or before == "to":  # an infinitive
                verb = False
            if verb and not pending:
                return True
            if verb:
                pending -= 1
            elif low in SUBORDINATORS and not (low == "that" and before in PREPOSITIONS) and not (low in ("that", "which") and before in SUBORDINATORS):
                pending += 1 if not pending else 0
            before = low
    return False


# ---- prose -----------------------------------------------------------------------------------------------------------------

ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf|Fig|Eq|Sec|App|No|approx|incl|resp|Dr|Mr|St|pp|vol|ca)\.$")
END = re.compile(r"(?<=[.!?])[\"')»”]?\s+(?=[\"'(«“`\[*]?[A-Z0-9`\x01])")
BREAK = re.compile(r"^\s*(?:[-*•]|\d+[.)]|\(\d+\)|\|)\s+|\S\s{3,}\S")


class Text:
    """One comment, message or paragraph: its lines with their numbers, and what it is."""

    def __init__(self, path, kind, lines, doc=False):
        self.path, self.kind, self.lines, self.doc = path, kind, lines, doc

    def sentences(self):
        """(line number, sentence, whether it is the first of the text)"""
        first = True
        for part in self.paragraphs():
            joined = "\n".join(text.strip() for _, text in part)
            begin = 0
            for end in [m.start() for m in END.finditer(joined)] + [len(joined)]:
                sentence = joined[begin:end].strip()
                if end < len(joined) and ABBREVIATION.search(sentence):
                    continue
                if sentence:
                    line = part[min(joined.count("\n", 0, begin + len(joined[begin:end]) - len(joined[begin:end].lstrip())), len(part) - 1)][0]
                    yield line, sentence.replace("\n", " "), first
                    first = False
                begin = end

    def paragraphs(self):
        part = []
        for number, text in self.lines:
            if part and (not text.strip() or BREAK.search(text)):
                yield part
                part = []
            if text.strip():
                part.append((number, text))
        if part:
            yield part


def words_in(sentence):
    """The number of words: what has two letters or more, code and numbers apart."""
    return len(re.findall(r"[A-Za-z\x01][A-Za-z'’\-]*[A-Za-z]|\x01|\b[aAI]\b", sentence))


def hits_of(text):
    """(rule, line, sentence) of one text."""
    for line, sentence, first in text.sentences():
        bare = sentence.lstrip("-*•| (\"'`<[")
        question = sentence.rstrip(")\"' ").endswith("?")
        if text.kind != "heading" and not question:
            for rule, opening in OPENINGS.items():
                anywhere = first and text.kind in ("comment", "message") and not (text.kind == "message" and text.lines[0][1][:1].isspace())
                if re.match(opening + r"\b(?!\s+course\b)", bare, re.I if anywhere else 0):
                    yield rule, line, sentence
        for rule, pattern in WORDS.items() if ANY_WORD.search(sentence) else ():
            count = len(pattern.findall(sentence))
            if rule == "beside" and count:
                count -= min(count, sum("beside" in m.lower() for m in SPATIAL.findall(sentence)))
            for _ in range(count):
                yield rule, line, sentence
        if text.kind != "heading" and words_in(sentence) > MOST_WORDS:
            yield "long", line, sentence
    if text.doc:
        whole = " ".join(t.strip() for _, t in text.lines)
        if words_in(whole) > 0 and not has_verb(whole):
            yield "verbless", text.lines[0][0], whole


# ---- C++ -------------------------------------------------------------------------------------------------------------------

CPP = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((.*?)\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9A-Za-z])\'(?:[^\'\\\n]|\\.)+\'', re.S)
NO_PROSE = re.compile(r"SPDX-License|NOLINT|clang-format o|^\s*(?:begin|end) \w+\s*$|^[-=\s]*$")
DECLARES = re.compile(r"^\s*(?:template\b|class\b|struct\b|enum\b|union\b|\[\[nodiscard\]\]|.*\()")


def is_test(path):
    return path.name.endswith("_test.cpp") or path.name.startswith("test_") or path.name.endswith("testing.h") or path.name == "generators.h"


def is_sentence(text):
    return len(re.findall(r"(?<![\w<{/.:\"-])[A-Za-z][A-Za-z'’\-]*(?=[\s.,;:!?)]|$)", text)) >= 3 and not re.search(r"</\w|\{\"|\bfunction\(|^\s*#include", text) \
        and sum(c.isalpha() or c.isspace() for c in text) > 0.75 * len(text)


def cpp_texts(path, source, messages):
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    block, block_kind, block_column, block_line = [], "", 0, 0
    parts, parts_end = [], -1
    number = 1

    def comment():
        if not block:
            return None
        kept = [(n, t) for n, t in block if not NO_PROSE.search(t)]
        after = lines[block_line] if block_line < len(lines) else ""
        doc = block_kind == "///" or path.suffix == ".h" and block_kind == "//" and bool(DECLARES.match(after)) and not after.lstrip().startswith(("#", "//"))
        return Text(path, "comment", kept, doc) if kept else None

    def message():
        return Text(path, "message", parts) if parts and is_sentence("".join(t for _, t in parts)) else None

    position = 0
    for match in CPP.finditer(source):
        begin, token = match.start(), match.group()
        number += source.count("\n", position, begin)
        position = begin
        if token.startswith("//"):
            column = begin - starts[number - 1]
            own = not lines[number - 1][:column].strip()
            kind = "///<" if token.startswith("///<") else "///" if token.startswith("///") else "//"
            text = token[len(kind):]
            if own and block and block_line == number - 1 and block_column == column and (kind == block_kind or block_kind == "///<"):
                block.append((number, text))
            else:
                yield comment()
                block, block_kind, block_column = [(number, text)], kind if own or kind == "///<" else "trailing", column
            block_line = number
        elif token.startswith("/*"):
            yield comment()
            block = []
            yield Text(path, "comment", [(number + i, re.sub(r"^\s*\*|/\*+|\*/", "", t)) for i, t in enumerate(token.split("\n"))])
        elif messages and token[0] in "\"R":
            if source[parts_end:begin].strip() or parts_end < 0:
                yield message()
                parts = []
            inner = match.group(2) if token[0] == "R" else token[1:-1]
            inner = inner.replace("\\n", "\n").replace('\\"', '"').replace("\\t", " ")
            parts += [(number, t) for t in inner.split("\n")] if "\n" in inner else [(number, inner)]
            parts_end = match.end()
    yield comment()
    yield message()


def wide_lines(source, marker):
    for number, line in enumerate(source.split("\n"), 1):
        if len(line) > MOST_COLUMNS and marker in line:
            quoted = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', lambda m: "_" * len(m.group()), line)
            if marker in quoted:
                yield "wide", number, line.strip()


# ---- Python and Markdown ---------------------------------------------------------------------------------------------------

PY = re.compile(r'"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|#[^\n]*', re.S)


def numpy_prose(lines):
    """Blanks what is no prose in a docstring of NumPy's style: headings, names of parameters, and examples."""
    out, inside, example = list(lines), False, False
    indent = [len(text) - len(text.lstrip()) for text in lines]
    base = min((indent[i] for i in range(1, len(lines)) if lines[i].strip()), default=0)
    for i, text in enumerate(lines):
        example = bool(text.strip()) and (example or text.lstrip().startswith(">>> "))
        heading = i + 1 < len(lines) and re.fullmatch(r"\s*-{3,}", lines[i + 1])
        inside = inside or bool(heading)
        name = inside and indent[i] == base and i + 1 < len(lines) and indent[i + 1] > base
        if example or heading or name or re.fullmatch(r"\s*-{3,}", text):
            out[i] = ""
    return out


def python_texts(path, source):
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            head = node.body[0]
            if isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) and isinstance(head.value.value, str):
                yield Text(path, "comment", [(head.lineno + i, t) for i, t in enumerate(numpy_prose(head.value.value.split("\n")))])
    block, last = [], 0
    number, position = 1, 0
    for match in PY.finditer(source):
        number += source.count("\n", position, match.start())
        position = match.start()
        if match.group()[0] == "#" and not match.group().startswith("#!"):
            if block and last != number - 1:
                yield Text(path, "comment", block)
                block = []
            if not NO_PROSE.search(match.group()[1:]):
                block.append((number, re.sub(r"^#+ ?", "", re.sub(r"-{5,}", "", match.group()))))
            last = number
    if block:
        yield Text(path, "comment", block)


def page_texts(path, source):
    source = re.sub(r"<!-- begin[: ]([^\n]*?) ?-->.*?<!-- end[: ]\1 ?-->", lambda m: "\n" * m.group().count("\n"), source, flags=re.S)
    source = re.sub(r"^( *)```.*?^ *```", lambda m: "\n" * m.group().count("\n"), source, flags=re.S | re.M)
    source = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), source, flags=re.S)
    source = re.sub(r"`[^`\n]+`", "\x01", source)
    source = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", source)
    source = source.replace("**", "").replace("__", "")
    block = []
    for number, line in enumerate(source.split("\n"), 1):
        bare = line.strip()
        if block and (not bare or re.match(r"(?:[-*+]|\d+\.)\s|#|\|", bare)):
            yield Text(path, "page", block)
            block = []
        if bare.startswith("#"):
            yield Text(path, "heading", [(number, bare.lstrip("# "))])
        elif bare.startswith("|"):
            for cell in bare.strip("|").split("|"):
                if not re.fullmatch(r"[\s:-]*", cell):
                    yield Text(path, "page", [(number, cell.strip())])
        elif bare:
            block.append((number, re.sub(r"^(?:[-*+]|\d+\.)\s+", "", bare)))
    if block:
        yield Text(path, "page", block)


# ---- the tree --------------------------------------------------------------------------------------------------------------

def files_of(root):
    """(folder, path) of all that is read."""
    found = set()
    for folder, suffixes in [*((f, (".h", ".cpp")) for f in CPP_FOLDERS), *((f, (".py",)) for f in PYTHON_FOLDERS)]:
        for at, names, contents in os.walk(root / folder):
            names[:] = sorted(n for n in names if n not in ("build", "__pycache__", ".git", "site"))
            for name in contents:
                if name.endswith(suffixes):
                    found.add(pathlib.Path(at) / name)
    for path in sorted(found):
        parts = path.relative_to(root).parts
        yield "/".join(parts[:2]) if parts[0] == "src" and len(parts) > 2 else parts[0], path
    for path in sorted((root / "docs").rglob("*.md")):
        yield "docs", path
    for name in PAGES:
        if (root / name).exists():
            yield name, root / name


def hits_of_file(folder, path, source):
    if path.suffix == ".md":
        texts, wide = page_texts(path, source), []
    elif path.suffix == ".py":
        texts, wide = python_texts(path, source), wide_lines(source, "#")
    else:
        texts, wide = cpp_texts(path, source, folder.startswith("src/") and not is_test(path)), wide_lines(source, "//")
    for text in texts:
        if text is not None:
            yield from hits_of(text)
    yield from wide


def counts_of(root):
    counts = collections.defaultdict(collections.Counter)
    for folder, path in files_of(root):
        counts[folder].update(rule for rule, _, _ in hits_of_file(folder, path, path.read_text(encoding="utf-8")))
    return counts


def read_budgets(path):
    """(comments, rules in the file, rows by folder)"""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    comments = [line for line in lines if line.startswith("#")]
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    head = rows[0][1:] if rows else RULES
    return comments, {row[0]: dict(zip(head, map(int, row[1:]))) for row in rows[1:]}


def write_budgets(path, comments, budgets):
    rows = ["\t".join(["folder", *RULES])] + ["\t".join([name, *(str(row.get(rule, 0)) for rule in RULES)]) for name, row in budgets.items()]
    path.write_text("\n".join(comments + rows) + "\n", encoding="utf-8")


def totals(counts):
    return {rule: sum(row.get(rule, 0) for row in counts.values()) for rule in RULES}


def updated(budgets, counts):
    """The budgets, lowered to the counts. A folder that is new takes its counts where no total rises above that of the budgets."""
    folders = {name: row for name, row in budgets.items() if name != "baseline"}
    if not folders:  # the first time
        return {"baseline": budgets.get("baseline", totals(counts)), **{name: {rule: counts[name][rule] for rule in RULES} for name in sorted(counts)}}
    before, now = totals(folders), totals(counts)
    out = {"baseline": budgets["baseline"]}
    for name in sorted(set(folders) | set(counts)):
        if name in counts:
            old = folders.get(name)
            out[name] = {rule: min(counts[name][rule], old.get(rule, 0)) if old is not None else counts[name][rule] if now[rule] <= before[rule] else 0
                         for rule in RULES}
    return out


def check(root, budgets, counts):
    print(f"{'':16}" + "".join(f"{rule.replace('opens-', '^'):>10}" for rule in RULES))
    above = []
    for name in sorted(counts):
        print(f"{name:16}" + "".join(f"{counts[name][rule]:10}" for rule in RULES))
        row = budgets.get(name, {})
        above += [f"{name}: {rule}: {counts[name][rule]}, budget {row.get(rule, 0)}; check_words.py --list {rule} {name}"
                  for rule in RULES if counts[name][rule] > row.get(rule, 0)]
    now = totals(counts)
    print(f"{'total':16}" + "".join(f"{now[rule]:10}" for rule in RULES))
    print(f"{'baseline':16}" + "".join(f"{budgets.get('baseline', {}).get(rule, 0):10}" for rule in RULES))
    for line in above:
        print(line)
    print(f"check_words: {sum(now.values())} hits, {len(above)} counts above their budget")
    return 1 if above else 0


# ---- self-test -------------------------------------------------------------------------------------------------------------

# (rule, text, hits)
PROSE = [
    ("opens-of", "Of a complete pass: no plan is left.", 1), ("opens-of", "Of course it ends. A part of it stays.", 0),
    ("opens-what", "It ends. What was fitted is kept.", 1), ("opens-what", "What does it do?", 0),
    ("opens-those", "Those that fit are kept.", 1), ("opens-the-same", "The same for a node.", 1),
    ("opens-beside", "Beside it lies another.", 1), ("beside", "It runs beside the product.", 1),
    ("beside", "The figure is printed beside the label.", 0), ("beside", "Two runs side by side.", 0),
    ("more", "Each release has one section more.", 1), ("more", "It takes 3 bytes more a parameter.", 1),
    ("more", "It takes one or more nodes, no more, 20 % more than before.", 0), ("more", "A node is more expensive.", 0),
    ("besides", "It prints them, and a table besides.", 1), ("besides", "Besides the table it prints nothing.", 0),
    ("too", "It prints a table, too.", 1), ("too", "It is too large.", 0),
    ("shall", "It shall end.", 1), ("so-many", "After so many nodes.", 1), ("of-now", "The cluster of now.", 1), ("of-now", "As of now it ends.", 0),
    ("long", "word " * 31 + ".", 1), ("long", "word " * 30 + ".", 0), ("long", ("word " * 20).strip() + ". And " + "word " * 20, 0),
    ("long", "The time, e.g. " + "word " * 30, 1),
]
VERB = [
    ("Returns the time.", True), ("The stage waits for its input.", True), ("Of a step.", False), ("Tensors that a rank holds from `at_ns` on.", False),
    ("The network.", False), ("Runs the plan.", True), ("The runs of a plan.", False), ("Null: it is left out.", True),
    ("How well predictions rank the runs.", False), ("A plan is faster where it fits.", True),
]


def self_test():
    path = pathlib.Path("src/x/a.h")
    for rule, text, wanted in PROSE:
        found = sum(r == rule for r, _, _ in hits_of(Text(path, "comment", [(1, text)])))
        assert found == wanted, f"{rule}: {text}: expected {wanted}, found {found}"
    for text, wanted in VERB:
        assert has_verb(text) == wanted, f"verb: {text}"
    source = '\n'.join(['// SPDX-License-Identifier: Apache-2.0', '/// Of a step,', '/// in bytes.', 'int bytes();', 'int a = 1;  // of now', '// The kind of', '// a plan.', 'struct A {};',
                        'auto m = "of this there "', '  "are two, too"; auto n = "of two";', '// ' + 'x' * 130])
    found = sorted((rule, line) for rule, line, _ in hits_of_file("src/x", path, source))
    wanted = sorted([("opens-of", 2), ("verbless", 2), ("of-now", 5), ("opens-of", 5), ("verbless", 6), ("opens-of", 9), ("too", 9), ("wide", 11)])
    assert found == wanted, found
    page = "# What it does\n\nWhat is here `a b` ends.\n\n```\nOf a b.\n```\n| Of x | y, too |\n<!-- begin a -->\nOf b.\n<!-- end a -->\n"
    found = sorted((rule, line) for rule, line, _ in hits_of_file("docs", pathlib.Path("a.md"), page))
    assert found == [("opens-of", 8), ("opens-what", 3), ("too", 8)], found
    script = '"""Of a script."""\nx = "# no"  # of now\n'
    found = sorted((rule, line) for rule, line, _ in hits_of_file("scripts", pathlib.Path("a.py"), script))
    assert found == [("of-now", 2), ("opens-of", 1), ("opens-of", 2)], found
    script = '"""Adds.\n\nParameters\n----------\na : of now\n    Of a step.\n\nExamples\n--------\n>>> add()\nOf a, too.\n"""\n'
    found = sorted((rule, line) for rule, line, _ in hits_of_file("scripts", pathlib.Path("a.py"), script))
    assert found == [("opens-of", 6)], found
    row = functools.partial(dict.fromkeys, RULES)
    counts = {"a": collections.Counter(row(2)), "b": collections.Counter(row(1))}
    first = updated({}, counts)
    assert first["baseline"] == row(3) and first["a"] == row(2)
    assert updated(first, {"a": collections.Counter(row(5)), "b": collections.Counter(row(0))}) == {"baseline": row(3), "a": row(2), "b": row(0)}
    assert updated(first, {"a": collections.Counter(row(1)), "c": collections.Counter(row(2))}) == {"baseline": row(3), "a": row(1), "c": row(2)}
    assert updated(first, {**counts, "c": collections.Counter(row(1))})["c"] == row(0)
    print(f"check_words: self-test passed ({len(PROSE) + len(VERB)} sentences)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", nargs="+", metavar=("RULE", "FOLDER"), help="print the hits of a rule")
    parser.add_argument("--update", action="store_true", help="lower the budgets to the counts")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    root = arguments.root.resolve()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # --list … | head
    if arguments.list:
        rule, *folders = arguments.list
        if rule not in RULES:
            parser.error(f"no rule '{rule}': {', '.join(RULES)}")
        for folder, path in files_of(root):
            if not folders or any(folder == f or folder.startswith(f + "/") for f in folders):
                for found, line, sentence in hits_of_file(folder, path, path.read_text(encoding="utf-8")):
                    if found == rule:
                        print(f"{path.relative_to(root)}:{line}: {sentence}".replace("\x01", "`…`"))
        return 0
    comments, budgets = read_budgets(root / BUDGETS)
    counts = counts_of(root)
    if arguments.update:
        budgets = updated(budgets, counts)
        write_budgets(root / BUDGETS, comments, budgets)
    return check(root, budgets, counts)


if __name__ == "__main__":
    sys.exit(main())
