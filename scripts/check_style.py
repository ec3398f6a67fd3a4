#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds expression statements that are joined by commas, `a = 1, b = 2;`, in include/, src/, lab/, tests/, bench/ and
tools/. The rule is one statement a line.

usage: check_style.py [ROOT]         check the tree (default: the repository of this script)
       check_style.py --fix FILE…    split the statements of these files; run clang-format on them afterwards
       check_style.py --self-test    prove that each kind is found, and that look-alikes are not.

Declarations of several names (`int a = 1, b = 2;`), arguments, initialisers and the heads of `for` are
no such statements.
"""
import pathlib
import re
import sys

CONTROL = re.compile(r"^(?:(?:else|do)\b\s*|(?:if|for|while|switch)\s*(?:constexpr\s*)?\(\)\s*)+")
LABEL = re.compile(r"^(?:(?:case\s+[\w:]+|default|public|private|protected)\s*:(?!:)\s*)+")
ASSIGNMENT = re.compile(r"(?<![=!<>])(?:<<|>>|[-+*/%&|^])?=(?!=)")
TEMPLATE = re.compile(r"(?<=\w)<[^<>;=]*>")
NAMED_BLOCK = re.compile(r"^(?:inline\s+)?(?:template\b.*)?(?:struct|class|enum|union|namespace|extern)\b")


def blank(text):
    """Returns the text with comments and literals blanked and every position kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                         re.S | re.M)

    def hide(match):
        if match.group().startswith("'") and match.start() > 0 and text[match.start() - 1].isalnum():
            return match.group()  # 1'000'000
        quoted = match.group()[0] in "\"'R"
        return "".join("\n" if c == "\n" else "_" if quoted else " " for c in match.group())
    return pattern.sub(hide, text)


class Statement:
    """Holds the text since the last boundary, with brackets emptied, and the positions of its commas."""

    def __init__(self):
        self.text, self.start, self.commas = "", None, []

    def add(self, char, position):
        if self.start is None:
            if char.isspace():
                return
            self.start = position
        if char == ",":
            self.commas.append((position, len(self.text)))
        self.text += char


def declares(head):
    """Returns True if the first part of a statement declares a name: a type followed by a name."""
    while TEMPLATE.search(head):
        head = TEMPLATE.sub("", head)
    found = ASSIGNMENT.search(head)
    left = (head[:found.start()] if found else head).strip()
    left = re.sub(r"\[\]|\(\)|\{\}", "", left).strip()
    left = re.sub(r"^(?:co_)?return\b\s*|^delete\b\s*", "", left)
    return bool(re.search(r"[\w>][\s*&]+\w+$", left) and not re.search(r"^[\w.\->:]+\s*[*&]\s+\w+$", left)) or bool(
        re.match(r"(?:const|constexpr|static|auto|using|typedef|friend|extern|mutable|struct|class|template|namespace)\b", left))


def joined(statement):
    """Returns the commas that join statements, and the text before them that controls the statement."""
    rest = statement.text
    label = LABEL.match(rest)
    skipped = label.end() if label else 0
    control = CONTROL.match(rest[skipped:])
    begin = skipped + (control.end() if control else 0)
    plain = rest
    while match := TEMPLATE.search(plain):  # commas of template arguments join no statements
        plain = plain[:match.start()] + "_" * (match.end() - match.start()) + plain[match.end():]
    commas = [(p, at) for p, at in statement.commas if at >= begin and plain[at] == ","]
    if not commas or not rest[begin:].strip() or declares(rest[begin:commas[0][1]].replace("\n", " ")):
        return [], None, 0
    return [p for p, _ in commas], bool(control), begin


def opens_block(text):
    """Returns True if a brace after this text opens statements, not an initialiser."""
    text = text.strip()
    if not text or NAMED_BLOCK.match(text):
        return True
    return bool(re.search(r"(?:\)|\]|\belse|\bdo|\btry|\bconst|\bnoexcept|\boverride|\bfinal|\bmutable|:)$", text) or
                re.search(r"[)\]]\s*(?:mutable\s*)?->\s*[\w:<>,*& ]+$", text))


def offences(source):
    """Returns (position of the statement, positions of its commas, whether it is controlled, its end)."""
    text = blank(source)
    found, stack, now = [], [], Statement()
    for position, char in enumerate(text):
        if char in "([":
            now.add(char, position)
            stack.append((char, now))
            now = Statement()
        elif char in ")]":
            if stack:
                now = stack.pop()[1]
            now.add(char, position)
        elif char == "{":
            block = opens_block(now.text)
            if not block:
                now.add(char, position)
            stack.append(("block" if block else "{", now))
            now = Statement()
        elif char == "}":
            kind, outer = stack.pop() if stack else ("block", Statement())
            within = bool(stack) and stack[-1][0] in "([{"  # the body of a lambda: the expression around it continues
            keeps = kind != "block" or within or re.search(r"[\])]$|->", outer.text.strip()) and re.match(r"(?:const )?auto\b|return\b|[\w.]+ =", outer.text)
            now = outer if keeps else Statement()
            if kind != "block":
                now.add(char, position)
        elif char == ";":
            inside = stack and stack[-1][0] in "(["
            if not inside and now.commas:
                commas, control, begin = joined(now)
                if commas:
                    found.append((now.start, commas, control, position))
            now = Statement()
        else:
            now.add(char, position)
    return found


def fixed(source):
    edits = []
    blanked = blank(source)
    for start, commas, control, end in offences(source):
        edits += [(comma, comma + 1, ";") for comma in commas]
        returns = list(re.finditer(r"\breturn\b", blanked[start:commas[0]]))
        if returns:  # the last statement is the returned one
            edits += [(start + returns[-1].start(), start + returns[-1].end(), ""), (commas[-1] + 1, commas[-1] + 1, " return")]
        if control:
            # The statement begins behind its control, which ends at the last closing bracket or `else` before the
            # statement of the first comma.
            head = blanked[start:commas[0]]
            depth, at = 0, 0
            match = re.match(r"\s*(?:(?:case\s+[\w:]+|default)\s*:(?!:)\s*)*(?:else\b\s*|do\b\s*|(?:if|for|while|switch)\b\s*(?:constexpr\b\s*)?)*", head)
            at = match.end()
            while at < len(head) and head[at] == "(":
                while True:
                    depth += {"(": 1, ")": -1}.get(head[at], 0)
                    at += 1
                    if depth == 0:
                        break
                at += re.match(r"\s*(?:(?:else\b\s*)?(?:if|for|while|switch)\b\s*(?:constexpr\b\s*)?(?=\())?", head[at:]).end()
            edits += [(start + at, start + at, "{ "), (end + 1, end + 1, " }")]
    for begin, stop, new in sorted(edits, reverse=True):
        source = source[:begin] + new + source[stop:]
    return source


def sources(root):
    for folder in ("include", "src", "lab", "tests", "bench", "tools"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path


def check_tree(root):
    bad = []
    for path in sources(root):
        source = path.read_text(encoding="utf-8")
        name = str(path.relative_to(root))
        for start, _, _, _ in offences(source):
            line = source.count("\n", 0, start) + 1
            bad.append(f"{name}:{line}: statements joined by commas: {source[start:].splitlines()[0].strip()}")
    return bad


# (text, violations)
SELF_TEST = [
    ("void f() { a = 1, b = 2; }", 1),
    ("void f() { if (x) a = 1, b = 2; }", 1),
    ("void f() { if (x)\n a = 1;\n else\n b[i] += 2, ++c; }", 1),
    ("void f() { p.clear(), q.clear(); }", 1),
    ("void f() { ++i, ++j; }", 1),
    ("void f() { *p = 1, *q = 2; }", 1),
    ("int f() { return a = 1, b; }", 1),
    ("void f() { g([&] { a = 1, b = 2; }); }", 1),
    ("void f() { switch (x) { case A::b: c = 1, d = 2; break; } }", 1),
    ("namespace n {\nvoid f() {\n  for (;;) a |= 1, b &= 2;\n}\n}", 1),
    ("void f() { const auto g = [&](int x) { a = x, b = x; }; g(1); }", 1),
    ("void f() { complete &= last->complete, interrupted |= last->interrupted; }", 1),
    ("int a = 1, b = 2;", 0),
    ("struct S { double low = 0, high = 1; std::int64_t n{0}, m{1}; };", 0),
    ("std::map<int, int> a; std::vector<std::pair<int, double>> b = {{1, 2}, {3, 4}};", 0),
    ("void f() { for (int i = 0, j = 1; i < j; ++i, --j) g(i, j); }", 0),
    ("void f() { g(a, b); x = {1, 2}; y[h(1, 2)] = 3; }", 0),
    ("enum class E { a, b };", 0),
    ("void f() { const char *a = \"x, y\", *b = \"a = 1, b = 2;\"; }", 0),
    ("// a = 1, b = 2;\n/* c = 1, d = 2; */", 0),
    ("S::S(int x) : a_(x), b_(x) { c_ = x; }", 0),
    ("template <class A, class B> void f(A a, B b);", 0),
    ("struct S { std::map<std::string, std::map<int, double>> by_dimension; };", 0),
    ("void f() { std::priority_queue<E, std::vector<E>, std::greater<>> open; }", 0),
    ("void f() { return g(1, 2); }", 0),
    ("void f() { const auto [a, b] = g(); }", 0),
    ("void f() { const Span &from = s[0], &to = s[1]; }", 0),
    ("auto g = [](int a, int b) -> std::pair<int, int> { return {a, b}; };", 0),
    ("using espalier::A, espalier::B;", 0),
]


def self_test():
    for text, expected in SELF_TEST:
        found = offences(text)
        assert len(found) == expected, f"{text}: expected {expected}, found {len(found)}"
        if expected:
            assert not offences(fixed(text)), f"{text}: not mended: {fixed(text)}"
    assert fixed("int f() { if (x) return a = 1, b; }").split() == "int f() { if (x) { a = 1; return b; } }".split()
    assert fixed(SELF_TEST[1][0]) == "void f() { if (x) { a = 1; b = 2; } }", fixed(SELF_TEST[1][0])
    chosen = "void f() { switch (x) { case A::b: if (y) { a = 1; b = 2; } break; } }"
    assert fixed("void f() { switch (x) { case A::b: if (y) a = 1, b = 2; break; } }") == chosen, fixed(chosen)
    print(f"check_style: self-test passed ({len(SELF_TEST)} cases)")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    if sys.argv[1:2] == ["--fix"]:
        for name in sys.argv[2:]:
            path = pathlib.Path(name)
            path.write_text(fixed(path.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    bad = check_tree(root)
    for line in bad:
        print(line)
    print(f"check_style: {len(bad)} offences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
