#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include against the layers of docs/architecture.md and prints each that breaks them.

usage: check_layers.py [ROOT]       check the tree (default: the repository of this script)
       check_layers.py --self-test  prove on small trees that each kind of offence is found

Rules, in the words of docs/architecture.md:
  include          a module includes itself and what its row of the table allows, no other module
  public           include/espalier/*.h belong to modules (PUBLIC) and include only public headers
  third-party      CLI11 in cli only; nlohmann/json, yaml-cpp, zlib in .cpp files of the modules listed
  printing         <iostream> and <cstdio> streams belong to cli (and to tests)
  path             a quoted include names its module: "cost/timing.h", "espalier/plan.h"
  namespace        a module opens one namespace of its own, its name inside espalier, and espalier itself for what is public
"""
import pathlib
import re
import sys
import tempfile

# The table of docs/architecture.md, "Layers and what each may include".
ALLOWED = {
    "base": [],
    "solve": ["base"],
    "runlog": ["base"],
    "model": ["base"],
    "cluster": ["base"],
    "partition": ["base", "model"],
    "profile": ["base", "model", "cluster"],
    "plan": ["base", "model", "cluster", "partition"],
    "cost": ["base", "model", "cluster", "partition", "profile", "plan"],
    "check": ["base", "model", "cluster", "profile", "plan"],
    "search": ["base", "solve", "model", "cluster", "partition", "plan", "cost"],
    "galvatron": ["base", "solve", "model", "cluster", "plan"],
    "sim": ["base", "solve", "model", "cluster", "partition", "plan", "cost"],
    "job": ["base", "model", "cluster", "profile", "plan"],
    "planner": ["base", "model", "cluster", "partition", "profile", "plan", "cost", "check", "search", "sim", "job"],
    "exchange": ["base", "model", "cluster", "plan", "galvatron", "job", "planner"],
    "runs": ["base", "model", "cluster", "profile", "plan", "job", "planner"],
    "calibrate": ["base", "runlog", "model", "cluster", "profile", "plan", "cost", "job", "planner", "runs"],
    "report": ["base", "runlog", "model", "cluster", "profile", "plan", "cost", "sim", "check", "job", "planner", "runs", "calibrate"],
    "cli": ["base", "runlog", "model", "cluster", "profile", "plan", "galvatron", "job", "planner", "exchange", "runs", "calibrate", "report"],
    "lab": ["base", "model", "cluster", "profile", "plan", "cost", "job", "planner", "runs", "calibrate"],
}

# Which module a public header belongs to: the one that defines its types, which all that may include that module see too. Functions that
# write text from them are declared beside the types and defined in report. What is in RESULTS holds plain values of a simulation and is
# open to cost and everything above it. cli may include every public header.
PUBLIC = {
    "units.h": "base",
    "result.h": "base",
    "model.h": "model",
    "cluster.h": "cluster", "cluster_change.h": "cluster",
    "profile.h": "profile",
    "plan.h": "plan",
    "block_partition.h": "plan",
    "search_space.h": "plan",
    "instruction.h": "plan",
    "simulate.h": "sim",
    "timeline.h": "sim",
    "findings.h": "check",
    "job.h": "job",
    "calibration.h": "job",
    "configuration.h": "job",
    "planner.h": "planner",
    "engines.h": "planner",
    "exchange.h": "exchange",
    "measured_runs.h": "runs",
    "validate.h": "runs",
    "calibrate.h": "calibrate",
    "check.h": "report",
    "compare.h": "report",
    "documents.h": "report",
    "explain.h": "report",
    "inspect.h": "report",
    "text.h": "report",
}
RESULTS = {"simulate.h", "timeline.h"}
RESULT_USERS = {"cost", "search", "sim", "planner", "exchange", "runs", "calibrate", "report", "cli"}

# Library headers: which modules may include them; only in .cpp files.
THIRD_PARTY = {
    "nlohmann/": {"base"},
    "yaml-cpp/": {"base"},
    "CLI/": {"cli"},
    "zlib.h": {"sim"},
}
PRINTING = {"iostream"}

# Namespaces from before this rule, which its module may still open; not to be added to.
OLDER = {"plan_detail": "plan", "plan_test": "plan", "cost_test": "cost"}

NAMESPACE = re.compile(r"^namespace espalier::(\w+)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def may_include(module, other):
    return other == module or other in ALLOWED[module]


def check_file(path, name, module):
    """Yields (line number, include, rule, why) for each offence. `module` is None for a public header's directory."""
    is_test = name.endswith("_test.cpp")
    is_header = name.endswith(".h")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        opened = NAMESPACE.match(line)
        if opened and opened.group(1) != module and OLDER.get(opened.group(1)) != module:
            yield number, opened.group(0), "namespace", f"{module} opens espalier::{module}"
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, target = match.groups()
        head, _, tail = target.partition("/")
        third = next((key for key in THIRD_PARTY if target.startswith(key)), None)
        if third:
            if is_header:
                yield number, target, "third-party", "not in headers"
            elif module not in THIRD_PARTY[third] and not is_test:
                yield number, target, "third-party", f"only in {', '.join(sorted(THIRD_PARTY[third]))}"
        elif target in PRINTING:
            if module != "cli" and not is_test:
                yield number, target, "printing", "printing belongs to cli"
        elif head == "espalier":
            owner = PUBLIC.get(tail)
            if owner is None:
                yield number, target, "public", "unknown public header; add it to the table in scripts/check_layers.py"
            elif tail in RESULTS and module in RESULT_USERS:
                pass
            elif module == "cli":
                pass
            elif not may_include(module, owner):
                yield number, target, "include", f"{module} may not include {owner}"
        elif quote == '"':
            if head == "data" and tail:
                continue  # generated from data/ at build time
            if head not in ALLOWED or not tail:
                yield number, target, "path", "not <module>/<file>"
            elif path.parent.name == "espalier" and path.parent.parent.name == "include":
                yield number, target, "public", "a public header includes public headers only"
            elif not may_include(module, head):
                yield number, target, "include", f"{module} may not include {head}"


def check_tree(root):
    offences, files = [], 0
    for path in sorted((root / "include" / "espalier").glob("*.h")):
        files += 1
        module = PUBLIC.get(path.name)
        if module is None:
            offences.append(f"{path.relative_to(root)}: public: belongs to no module; add it to scripts/check_layers.py")
            continue
        offences += [f"{path.relative_to(root)}:{n}: {rule}: \"{target}\": {why}"
                     for n, target, rule, why in check_file(path, path.name, module)]
    for directory in sorted((root / "src").iterdir()) + sorted(root.glob("lab")):
        if not directory.is_dir():
            continue
        for path in sorted(directory.rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            files += 1
            if directory.name not in ALLOWED:
                offences.append(f"{path.relative_to(root)}: include: module {directory.name} is not in the table")
                continue
            offences += [f"{path.relative_to(root)}:{n}: {rule}: \"{target}\": {why}"
                         for n, target, rule, why in check_file(path, path.name, directory.name)]
    return files, offences


def check_table():
    """The table itself: no cycles, and what the architecture promises by name."""
    done = set()
    while len(done) < len(ALLOWED):
        ready = {m for m, below in ALLOWED.items() if m not in done and set(below) <= done}
        assert ready, f"cycle among {sorted(set(ALLOWED) - done)}"
        done |= ready
    assert not set(ALLOWED["check"]) & {"cost", "search", "sim"}
    assert ALLOWED["solve"] == ["base"]
    assert all("lab" not in below for below in ALLOWED.values())
    assert "sim" not in ALLOWED["search"] and "search" not in ALLOWED["sim"]
    assert set(PUBLIC.values()) <= set(ALLOWED)


# (file, text, offences expected)
SELF_TEST = [
    ("src/base/a.h", '#include <vector>\n#include "espalier/result.h"\n#include "base/check.h"\n', 0),
    ("src/base/b.cpp", '#include <nlohmann/json.hpp>\n#include <yaml-cpp/yaml.h>\n', 0),
    ("src/base/c.h", '#include <nlohmann/json.hpp>\n', 1),
    ("src/base/d.cpp", '#include "espalier/model.h"\n', 1),
    ("src/model/a.cpp", '#include "cluster/fabric.h"\n', 1),
    ("src/check/a.cpp", '#include "plan/program.h"\n#include "espalier/plan.h"\n', 0),
    ("src/check/b.cpp", '#include "cost/timing.h"\n', 1),
    ("src/check/c_test.cpp", '#include "sim/simulator.h"\n', 1),
    ("src/check/d.cpp", '#include "espalier/simulate.h"\n', 1),
    ("src/search/a.cpp", '  #  include "sim/simulator.h"\n', 1),
    ("src/search/b.cpp", '#include "espalier/simulate.h"\n', 0),
    ("src/sim/a.cpp", '#include "search/bound.h"\n#include <zlib.h>\n', 1),
    ("src/sim/b.cpp", '// #include "search/bound.h"\n', 0),
    ("src/cost/a.cpp", '#include <iostream>\n', 1),
    ("src/cost/a_test.cpp", '#include <iostream>\n', 0),
    ("src/cost/b.cpp", '#include "timing.h"\n', 1),
    ("src/planner/a.cpp", '#include "search/a.h"\n#include "sim/a.h"\n#include "check/a.h"\n', 0),
    ("src/planner/b.cpp", '#include "report/a.h"\n', 1),
    ("src/job/a.cpp", '#include "plan/a.h"\n#include "espalier/job.h"\n', 0),
    ("src/job/b.cpp", '#include "espalier/planner.h"\n#include "search/a.h"\n', 2),
    ("src/runs/a.cpp", '#include "planner/a.h"\n#include "job/a.h"\n', 0),
    ("src/solve/a.cpp", '#include "base/check.h"\n#include "solve/a.h"\n', 0),
    ("src/solve/b.cpp", '#include "plan/a.h"\n#include "espalier/plan.h"\n', 2),
    ("lab/a.cpp", '#include "lab/a.h"\n#include "calibrate/a.h"\n', 0),
    ("lab/b.cpp", '#include "report/a.h"\n', 1),
    ("src/calibrate/a.cpp", '#include "lab/a.h"\n', 1),
    ("src/runs/b.cpp", '#include "report/a.h"\n', 1),
    ("src/cli/a.cpp", '#include <CLI/CLI.hpp>\n#include <iostream>\n#include "espalier/planner.h"\n', 0),
    ("src/cli/b.cpp", '#include "search/a.h"\n', 1),
    ("src/cli/c.cpp", '#include "espalier/timeline.h"\n#include "espalier/findings.h"\n', 0),
    ("src/exchange/a.cpp", '#include "galvatron/a.h"\n#include "planner/a.h"\n#include "espalier/exchange.h"\n', 0),
    ("src/exchange/b.cpp", '#include "report/a.h"\n#include "espalier/documents.h"\n', 2),
    ("src/planner/c.cpp", '#include "espalier/exchange.h"\n#include "espalier/check.h"\n', 2),
    ("include/espalier/validate.h", '#include "espalier/calibrate.h"\n', 1),
    ("src/elsewhere/a.cpp", "", 1),
    ("src/job/n.cpp", "namespace espalier::job {\nnamespace {\n}\n}\nnamespace espalier {\n}\n", 0),
    ("src/job/m.cpp", "namespace espalier::planner {\n}\n", 1),
    ("src/sim/n.cpp", "namespace espalier::sim::testing {\n}\n", 0),
    ("lab/n.cpp", "namespace espalier::calibrate {\n}\n", 1),
    ("include/espalier/plan.h", '#include "espalier/cluster.h"\n', 0),
    ("include/espalier/model.h", '#include "base/document.h"\n', 1),
    ("include/espalier/cluster.h", '#include "espalier/planner.h"\n', 1),
    ("include/espalier/unknown.h", "", 1),
]


def self_test():
    check_table()
    for name, text, expected in SELF_TEST:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src").mkdir()
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
            _, offences = check_tree(root)
            assert len(offences) == expected, f"{name}: expected {expected}, found {offences}"
    print(f"check_layers: self-test passed ({len(SELF_TEST)} cases)")


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    check_table()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    files, offences = check_tree(root)
    for offence in offences:
        print(offence)
    print(f"check_layers: {files} files, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
