#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every #include against the layers of docs/architecture.md and prints each violation.

usage: check_layers.py [ROOT]       check the tree (default: the repository of this script)
       check_layers.py --self-test  prove on small trees that each kind of violation is found

Rules, in the words of docs/architecture.md:
  include          a module includes itself and what its row of the table allows, no other module
  public           include/espalier/*.h belong to modules (PUBLIC) and include only public headers
  third-party      CLI11 in cli only; nlohmann/json, yaml-cpp, zlib in .cpp files of the modules listed
  printing         <iostream> and <cstdio> streams belong to cli (and to tests)
  path             a quoted include names its module: "cost/timing.h", "espalier/plan.h"
  namespace        a module opens one namespace of its own, with its name, inside espalier. Names in espalier itself
                   belong to public headers. Only plan uses espalier itself: espalier::plan is the function that plans.
                   Public headers of the modules in NAMED use the module's namespace
  python           python/src includes public headers and its own files, nothing of src/
  driver           docs/architecture.md, "Where each module begins", names one file of each module; the file states its
                   purpose
"""
import pathlib
import re
import sys
import tempfile

# Holds the table of docs/architecture.md, "Layers and what each may include".
ALLOWED = {
    "base": [],
    "solve": ["base"],
    "runlog": ["base"],
    "model": ["base"],
    "cluster": ["base"],
    "partition": ["base", "model"],
    "profile": ["base", "model", "cluster", "plan"],
    "plan": ["base", "model", "cluster", "partition"],
    "launch": ["base"],
    "storage": ["base", "model", "cluster", "partition", "plan"],
    "runtime": ["base", "model", "cluster", "partition", "plan", "profile", "storage"],
    "cost": ["base", "model", "cluster", "partition", "profile", "plan"],
    "check": ["base", "model", "cluster", "profile", "plan"],
    "search": ["base", "solve", "model", "cluster", "partition", "profile", "plan", "cost"],
    "galvatron": ["base", "solve", "model", "cluster", "plan"],
    "sim": ["base", "solve", "model", "cluster", "partition", "plan", "cost"],
    "job": ["base", "model", "cluster", "profile", "plan"],
    "planner": ["base", "model", "cluster", "partition", "profile", "plan", "cost", "check", "search", "sim", "job"],
    "adapt": ["base", "solve", "model", "cluster", "plan", "cost", "search", "sim", "job", "planner"],
    "exchange": ["base", "runlog", "model", "cluster", "profile", "plan", "galvatron", "job", "planner"],
    "runs": ["base", "model", "cluster", "profile", "plan", "job", "planner"],
    "calibrate": ["base", "runlog", "model", "cluster", "profile", "plan", "cost", "job", "planner", "runs"],
    "report": ["base", "runlog", "model", "cluster", "profile", "plan", "cost", "sim", "check", "job", "planner", "adapt", "runs", "calibrate"],
    "cli": ["base", "launch", "runlog", "model", "cluster", "profile", "plan", "galvatron", "job", "planner", "adapt", "exchange", "runs", "calibrate", "report"],
    "lab": ["base", "model", "cluster", "profile", "plan", "cost", "job", "planner", "runs", "calibrate"],
}

# Maps a public header to its module, which defines its types. All that may include the module may also include
# the header. Functions that write text from these types are declared in the same header and defined in report.
# Headers in RESULTS hold plain values of a simulation and are open to cost and all modules above it. cli may
# include every public header.
PUBLIC = {
    "units.h": "base",
    "result.h": "base",
    "model.h": "model",
    "cluster.h": "cluster", "cluster_change.h": "cluster",
    "profile.h": "calibrate",
    "measured_step.h": "profile",
    "step_comparison.h": "planner",
    "plan.h": "plan",
    "block_partition.h": "plan",
    "search_space.h": "plan", "search_phases.h": "plan",
    "recompute_modules.h": "plan",
    "instruction.h": "plan",
    "simulate.h": "sim",
    "timeline.h": "sim",
    "findings.h": "check",
    "job.h": "job",
    "calibration.h": "job",
    "configuration.h": "job",
    "planner.h": "planner", "search_summary.h": "planner",
    "engines.h": "planner",
    "adapt.h": "adapt", "policy.h": "adapt", "observation.h": "adapt", "objective.h": "adapt", "long_run.h": "adapt", "improve.h": "adapt",
    "exchange.h": "exchange", "galvatron_profile.h": "exchange", "imported_configuration.h": "exchange", "configuration_diff.h": "exchange", "imported_cluster.h": "exchange",
    "measured_runs.h": "runs",
    "validate.h": "runs",
    "calibrate.h": "calibrate",
    "log_comparison.h": "calibrate",
    "measured_fabric.h": "calibrate",
    "check.h": "report",
    "compare.h": "report",
    "documents.h": "report",
    "sweep.h": "report",
    "explain.h": "report",
    "inspect.h": "report",
    "report.h": "report",
    "schedule_grid.h": "report",
    "text.h": "report",
}
NAMED = {"adapt", "exchange", "report"}
RESULTS = {"simulate.h", "timeline.h"}
RESULT_USERS = {"cost", "search", "sim", "planner", "adapt", "exchange", "runs", "calibrate", "report", "cli"}

# Library headers and the modules that may include them, in .cpp files only.
THIRD_PARTY = {
    "nlohmann/": {"base"},
    "yaml-cpp/": {"base"},
    "toml++/": {"base"},
    "pugixml.hpp": {"exchange"},
    "CLI/": {"cli"},
    "zlib.h": {"sim"},
    "torch/": {"runtime"},
}
PRINTING = {"iostream"}

# A namespace cannot have the name of the public function espalier::plan. All modules above plan use its types, so
# plan has espalier itself for its namespace. The namespaces below hold what its readers and its tests share.
FLAT = {"plan": {"plan_detail", "plan_test", "profile"}}

NAMESPACE = re.compile(r"^namespace espalier::(\w+)")
NESTED = re.compile(r"^namespace (\w+) \{")
COMMENT = re.compile(r"//.*")
# Declarations in the first column: a type, a name for one, a constant, or a function (of a type).
TYPE = re.compile(r"^(?:struct|class|enum class|enum|union) (\w+)(?!.*;\s*$)|^using (\w+) =")
CONSTANT = re.compile(r"^(?:inline |static )*(?:constexpr|const) [^(]*?(\w+)(?:\[\w*\])? ?[={]")
FUNCTION = re.compile(r"^(?!template|using|extern|#)(?:[A-Za-z][^()=]*?[\s*&>])?([A-Za-z_]\w*)(?:::~?\w+)*\(")
DRIVER = re.compile(r"^\| (\w+) \| `([^`]+)` \|")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def may_include(module, other):
    return other == module or other in ALLOWED[module]


def public_words(root):
    """Returns every word of the public headers outside comments, that is, the names allowed in espalier itself."""
    words = set()
    for path in (root / "include" / "espalier").glob("*.h"):
        for line in path.read_text(encoding="utf-8").splitlines():
            words |= set(re.findall(r"\w+", COMMENT.sub("", line)))
    return words


def declared(line):
    """Returns the name that a line declares in its namespace, if any."""
    code = COMMENT.sub("", line)
    for pattern in (TYPE, CONSTANT, FUNCTION):
        match = pattern.match(code)
        if match:
            return next(group for group in match.groups() if group)
    return None


def check_namespaces(text, name, module, words):
    """Yields (line number, name, rule, why) for declarations in another namespace than that of their module."""
    flat = module in FLAT
    plain = hidden = False  # inside `namespace espalier {`, inside `namespace {`
    for number, line in enumerate(text.splitlines(), 1):
        opened = NAMESPACE.match(line)
        if opened and (opened.group(1) not in FLAT[module] if flat else opened.group(1) != module):
            yield number, opened.group(0), "namespace", f"{module} opens {'espalier itself' if flat else 'espalier::' + module}"
        elif line == "namespace espalier {":
            plain = not flat
            if plain and name.endswith("_test.cpp"):
                yield number, line, "namespace", f"tests of {module} stand in espalier::{module}"
        elif line == "}  // namespace espalier":
            plain = False
        elif line == "namespace {":
            hidden = True
        elif line == "}  // namespace":
            hidden = False
        elif NESTED.match(line) and NESTED.match(line).group(1) in ALLOWED:
            yield number, line, "namespace", "written in one: namespace espalier::name"
        elif plain and not hidden and declared(line) not in words | {None}:
            yield number, declared(line), "namespace", f"no public header names it: espalier::{module}"


def check_file(path, name, module):
    """Yields (line number, include, rule, why) for each violation. `module` is None for a public header's
    directory."""
    is_test = name.endswith("_test.cpp")
    is_header = name.endswith(".h")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
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


def check_public_namespace(text, module):
    """Yields (line number, namespace, rule, why) for each namespace of a public header that is not its module's."""
    wanted = f"namespace espalier::{module} {{" if module in NAMED else "namespace espalier {"
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("namespace espalier") and line != wanted:
            yield number, line, "namespace", f"a public header of {module} opens {wanted.removesuffix(' {')}"


def check_tree(root):
    offences, files = [], 0
    words = public_words(root)
    for path in sorted((root / "include" / "espalier").glob("*.h")):
        files += 1
        module = PUBLIC.get(path.name)
        if module is None:
            offences.append(f"{path.relative_to(root)}: public: belongs to no module; add it to scripts/check_layers.py")
            continue
        offences += [f"{path.relative_to(root)}:{n}: {rule}: \"{target}\": {why}"
                     for n, target, rule, why in [*check_file(path, path.name, module),
                                                  *check_public_namespace(path.read_text(encoding="utf-8"), module)]]
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
            text = path.read_text(encoding="utf-8")
            offences += [f"{path.relative_to(root)}:{n}: {rule}: \"{target}\": {why}"
                         for n, target, rule, why in check_namespaces(text, path.name, directory.name, words)]
    return files, offences + check_python(root)


def check_python(root):
    """Checks that the Python module uses the public headers alone."""
    offences = []
    for path in sorted((root / "python" / "src").glob("*.*")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            head, _, tail = match.group(2).partition("/") if match else ("", "", "")
            if match and match.group(1) == '"' and tail and (head != "espalier" or tail not in PUBLIC):
                offences.append(f"{path.relative_to(root)}:{number}: python: \"{match.group(2)}\": public headers only")
    return offences


def check_drivers(root):
    """Checks the table of docs/architecture.md that names the first file to read in each module. It must be complete,
    and every file must state its purpose."""
    text = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.partition("## Where each module begins")[2].partition("\n## ")[0]
    rows = [DRIVER.match(line).groups() for line in part.splitlines() if DRIVER.match(line)]
    folders = {d.name: str(d.relative_to(root)) for d in [*(root / "src").iterdir(), *root.glob("lab")] if d.is_dir()}
    offences = [f"docs/architecture.md: driver: {module}: one row in \"Where each module begins\""
                for module in sorted(folders) if [m for m, _ in rows].count(module) != 1]
    for module, file in rows:
        path = root / file
        if module not in folders or not file.startswith(folders[module] + "/") or not path.is_file():
            offences.append(f"docs/architecture.md: driver: {module}: {file} is no file of this module")
        elif not path.read_text(encoding="utf-8").partition("\n")[2].startswith("// "):
            offences.append(f"{file}:2: driver: says in its first lines what the module does")
    return offences


def check_table():
    """Checks the table itself: no cycles, and what the architecture promises by name."""
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


# (file, text, expected violations)
SELF_TEST = [
    ("src/base/a.h", '#include <vector>\n#include "espalier/result.h"\n#include "base/invariant.h"\n', 0),
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
    ("src/solve/a.cpp", '#include "base/invariant.h"\n#include "solve/a.h"\n', 0),
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
    ("include/espalier/adapt.h", "namespace espalier::adapt {\n}\n", 0),
    ("include/espalier/exchange.h", "namespace espalier {\n}\n", 1),
    ("include/espalier/engines.h", "namespace espalier::planner {\n}\n", 1),
    ("src/elsewhere/a.cpp", "", 1),
    ("src/job/n.cpp", "namespace espalier::job {\nnamespace {\n}\n}\nnamespace espalier {\n}\n", 0),
    ("src/job/m.cpp", "namespace espalier::planner {\n}\n", 1),
    ("src/sim/n.cpp", "namespace espalier::sim::testing {\n}\n", 0),
    ("lab/n.cpp", "namespace espalier::calibrate {\n}\n", 1),
    ("src/plan/n.cpp", "namespace espalier {\nint stages_of(int x);\n}  // namespace espalier\n", 0),
    ("src/plan/m.cpp", "namespace espalier::plan {\n}\n", 1),
    ("src/planner/n.h", "namespace espalier {\nstruct Watch {\n};\nconstexpr int kMany = 2;\n}  // namespace espalier\n", 2),
    ("src/planner/n.cpp", "namespace espalier {\nnamespace {\nint own() {\n}\n}  // namespace\n}  // namespace espalier\n", 0),
    ("src/planner/m.cpp", "namespace espalier {\nstd::vector<int> own(int x) {\n}\nbool Own::is() const {\n}\n}  // namespace espalier\n", 2),
    ("src/planner/o.h", "namespace espalier {\nstruct EngineModel;\n}  // namespace espalier\n", 0),
    ("src/planner/n_test.cpp", "namespace espalier {\n}  // namespace espalier\n", 1),
    ("src/sim/m.cpp", "namespace espalier {\nnamespace sim {\n}  // namespace sim\n}  // namespace espalier\n", 1),
    ("python/src/a.cpp", '#include "bindings.h"\n#include "espalier/plan.h"\n#include <thread>\n', 0),
    ("python/src/b.cpp", '#include "plan/program.h"\n', 1),
    ("include/espalier/plan.h", '#include "espalier/cluster.h"\n', 0),
    ("include/espalier/model.h", '#include "base/document.h"\n', 1),
    ("include/espalier/cluster.h", '#include "espalier/planner.h"\n', 1),
    ("include/espalier/unknown.h", "", 1),
]


def self_test_of_drivers():
    """Tests a module with a row, one without a row, one whose file states nothing, and one whose file
    is another module's."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in (("src/sim/simulator.h", "// SPDX\n// Simulation of a program.\n"), ("src/cost/price.h", "// SPDX\n#pragma once\n"),
                           ("src/plan/program.h", ""), ("src/search/search.h", ""),
                           ("docs/architecture.md", "## Where each module begins\n| sim | `src/sim/simulator.h` |\n| cost | `src/cost/price.h` |\n"
                            "| plan | `src/sim/simulator.h` |\n\n## Folders\n| search | `src/search/search.h` |\n")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        found = check_drivers(root)
        assert len(found) == 3 and "search" in found[0] and "price.h:2" in found[1] and "plan" in found[2], found


def self_test():
    check_table()
    self_test_of_drivers()
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
    offences += check_drivers(root)
    for offence in offences:
        print(offence)
    print(f"check_layers: {files} files, {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
