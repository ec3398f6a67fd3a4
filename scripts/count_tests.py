#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts lines of tests per line of code, and run-time checks per thousand lines, for every module; rejects modules
below their floor.

usage: count_tests.py [ROOT]       print the table; exit 1 where a module of FLOORS is below
       count_tests.py --self-test  prove the counts on examples

A line counts if it holds more than white space and a comment. The code of a module is src/MODULE without its tests.
Its tests are the *_test.cpp, *testing.h and test_*.h in the same folder, and the files of tests/ that SHARED gives to
it. SHARED gives a file to the one module that it tests, not to modules that it merely calls. Scripts, fuzzers and
benchmarks do not count. A check is one ESPALIER_CHECK outside tests.
"""
import collections
import pathlib
import sys

# Module -> (test lines a line of code, checks a thousand lines); None: no floor.
FLOORS = {
    "planner": (0.5, None),
    "calibrate": (0.5, None),
    "report": (0.5, 1.5),
    "cost": (0.5, 6),
    "search": (0.5, 6),
    "sim": (None, 6),
    "check": (0.5, 2),
    "exchange": (0.3, 10),
    "runs": (None, 4),
    "runtime": (0.3, 4),
}

# Module -> files of tests/ that test it.
SHARED = {
    "planner": ("golden/answer", "golden/estimate", "golden/unfolded.h", "property/simplest"),
    "report": ("golden/inspect", "golden/messages", "golden/engines", "golden/golden.h", "mutation/result", "mutation/change",
               "mutation/leaf", "mutation/json_leaves"),
    "cost": ("property/bound_test", "property/exact_memory", "property/partition_counts", "property/steps"),
    "search": ("property/attack", "property/device_groups_test", "property/every_", "property/group_bounds", "property/layerwise", "property/memory_limits", "property/random_problem.h",
               "property/remembered", "property/search_equals_exhaustive", "property/threads"),
    "sim": ("property/flow", "property/random_timing.h", "simgrid/"),
    "check": ("mutation/", "property/check_bounds", "property/layered_plan", "property/move_agreement"),
    "solve": ("golden/layer_search",),
    "galvatron": ("reference/",),
    "runs": ("scenario/",),
    "adapt": ("scenario/change",),
}


def lines_of(path):
    """Returns the lines that hold more than a comment."""
    texts = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [t for t in texts if t and not t.startswith("//")]


def is_test(path):
    return path.name.endswith(("_test.cpp", "testing.h")) or path.name.startswith("test_")


def owner(relative):
    """Returns the module that a file of tests/ tests, by the longest matching prefix; None: no single one."""
    fitting = [(len(p), module) for module, prefixes in SHARED.items() for p in prefixes if relative.startswith(p)]
    return max(fitting)[1] if fitting else None


def count(root):
    """Returns module -> [code, tests, checks]."""
    table = collections.defaultdict(lambda: [0, 0, 0])
    for path in sorted((root / "src").glob("*/*")):
        if path.suffix not in (".cpp", ".h"):
            continue
        lines = lines_of(path)
        row = table[path.parent.name]
        row[1 if is_test(path) else 0] += len(lines)
        row[2] += 0 if is_test(path) else sum("ESPALIER_CHECK(" in t and "#define" not in t for t in lines)
    for path in sorted((root / "tests").glob("*/*")):
        module = owner(path.relative_to(root / "tests").as_posix()) if path.suffix in (".cpp", ".h") else None
        if module:
            table[module][1] += len(lines_of(path))
    return table


def below(table, floors):
    out = []
    for module, (tests, checks) in floors.items():
        code, proved, checked = table[module]
        if tests is not None and proved < tests * code:
            out.append(f"{module}: {proved} lines of tests for {code} of code, {tests} a line wanted")
        if checks is not None and 1000 * checked < checks * code:
            out.append(f"{module}: {checked} run-time checks in {code} lines, {checks} a thousand wanted")
    return out


def self_test():
    table = {"a": [1000, 499, 6], "b": [1000, 500, 5]}
    assert below(table, {"a": (0.5, 6), "b": (0.5, None)}) == ["a: 499 lines of tests for 1000 of code, 0.5 a line wanted"]
    assert below(table, {"b": (0.5, 6)}) == ["b: 5 run-time checks in 1000 lines, 6 a thousand wanted"]
    assert owner("mutation/result_suite.h") == "report" and owner("mutation/suite.h") == "check"
    assert owner("property/random.h") is None and owner("property/attack_test.cpp") == "search"
    assert is_test(pathlib.Path("x_test.cpp")) and is_test(pathlib.Path("testing.h")) and is_test(pathlib.Path("test_problem.h")) and not is_test(pathlib.Path("attest.h"))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    table = count(root)
    print(f"{'module':<12}{'code':>7}{'tests':>7}{'a line':>8}{'checks':>8}{'a thousand':>12}")
    for module, (code, tests, checks) in sorted(table.items()):
        print(f"{module:<12}{code:>7}{tests:>7}{tests / max(code, 1):>8.2f}{checks:>8}{1000 * checks / max(code, 1):>12.1f}")
    failures = below(table, FLOORS)
    for failure in failures:
        print(f"FAIL {failure}", file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
