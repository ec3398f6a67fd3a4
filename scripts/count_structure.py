#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts structures that make changes of the planner expensive; rejects counts above their ceiling. A
ceiling only falls.

usage: count_structure.py [ROOT]       print the table; exit 1 where a count is above its ceiling
       count_structure.py --self-test  prove the counts on examples

Counts in src/ and include/, without tests and comments:

  kinds asked        places that ask which kind of plan or cluster it is: one pipeline or several, equal devices or groups, uniform or not
  only_pipeline      of these, the places that take the one pipeline of a plan
  price entry points functions of src/cost headers that price or time a program
  strategy readers   files that read a field of a Strategy
  repeated types     names of types that are defined in more than one place
  repeated files     names of headers and sources that occur in more than one module
"""
import collections
import pathlib
import re
import sys

CEILINGS = {
    "kinds asked": 300,
    "only_pipeline": 37,
    "price entry points": 3,
    "strategy readers": 166,
    "repeated types": 0,
    "repeated files": 0,
}

KINDS = re.compile(r"\bonly_pipeline\(\)|\bpipelines\.(?:size|empty)\(\)|\bgroups\.front\(\)|\bpartition\.empty\(\)"
                   r"|\bhomogeneous\(\)|\buniform\(\)|\bequal_devices\(\)|\bseveral_pipelines\(|\bpipelines\.front\(\)")
ONLY = re.compile(r"\bonly_pipeline\(\)")
PRICE = re.compile(r"^[\w:<>,&\s]*\b(?:price|price_ranges)\(")
FIELD = re.compile(r"\b(?:s|strategy|strategy\(\)|own|all|asked|layer)\.(?:tp|sp|cp|cp_kind|ep|etp|dp|zero|shard|recompute|overlap|offload|order|partition)\b")
TYPE = re.compile(r"^(?:struct|class|enum class|enum) ([A-Z]\w*)\b(?!::)(?!.*;\s*$)")


def code_of(text):
    """Returns the lines without comments."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [line.split("//")[0].rstrip() for line in text.splitlines()]


def is_test(path):
    return path.name.endswith("_test.cpp") or path.name.startswith("test_") or path.name.endswith("testing.h") or path.name == "generators.h"


def counts_of(files):
    """Counts the structures in `files`: (module, path, text) of headers and sources without tests."""
    out = collections.Counter({name: 0 for name in CEILINGS})
    types, names = collections.Counter(), collections.defaultdict(set)
    for module, path, text in files:
        lines = code_of(text)
        names[path.stem].add(module)
        out["kinds asked"] += sum(len(KINDS.findall(line)) for line in lines)
        out["only_pipeline"] += sum(len(ONLY.findall(line)) for line in lines)
        if module == "cost" and path.suffix == ".h":
            out["price entry points"] += sum(bool(PRICE.match(line)) for line in lines)
        out["strategy readers"] += any(FIELD.search(line) for line in lines)
        types.update(m[1] for m in map(TYPE.match, lines) if m)
    out["repeated types"] = sum(count > 1 for count in types.values())
    # A public header has its source in one module.
    out["repeated files"] = sum(len(modules - {"include"}) > 1 for modules in names.values())
    return out


def files_of(root):
    for folder in ("src", "include"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp") and not is_test(path):
                yield path.relative_to(root / folder).parts[0] if folder == "src" else "include", path, path.read_text()


def self_test():
    files = [("cost", pathlib.Path("a/price.h"), "struct A {\nvoid price(int);\n// only_pipeline()\n}"),
             ("sim", pathlib.Path("b/price.cpp"), "struct A {\nint x = plan.only_pipeline().n + plan.pipelines.size() + s.tp;\nstruct B;\n"),
             # C is defined once.
             ("job", pathlib.Path("c/nested.cpp"), "class C {\n};\nclass C::Nested {\n};\nstruct C::Other : C {\n};\n")]
    found = counts_of(files)
    wanted = {"kinds asked": 2, "only_pipeline": 1, "price entry points": 1, "strategy readers": 1, "repeated types": 1, "repeated files": 1}
    assert dict(found) == wanted, found
    print("count_structure: self-test passed")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = counts_of(files_of(root))
    above = 0
    print(f"{'count':20} {'now':>5} {'ceiling':>8}")
    for name, ceiling in CEILINGS.items():
        mark = "  above" if found[name] > ceiling else ""
        above += bool(mark)
        print(f"{name:20} {found[name]:5} {ceiling:8}{mark}")
    sys.exit(1 if above else 0)


if __name__ == "__main__":
    main()
