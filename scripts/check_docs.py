#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks, and with --write rewrites, the generated blocks of docs/ and README.md, so that the pages
match the program:

  rules             rule tables of docs/search.md                    = rule tables of the sources (and vice versa)
  worked example    docs/cost-model.md, scripts/worked_example.py    = recomputed equations; with a binary, its answer
  devices           tables of docs/devices.md                        = data/devices.yaml overridden by data/calibration
  facts             docs/cost-model.md                               = data/facts.yaml
  accuracy          README.md, errors of the larger sources          = the table of lab/accuracy-report.md
  claims            numbers in the prose of README.md and docs/usage.md: model types, devices, engines, libraries;
                    size of README.md
  plan              README.md: the head of the first command's answer; docs/usage.md: all of it (with a binary)
  improve           README.md: changes by `improve` to a launch script; docs/usage.md: single changes (with a binary)
  unequal devices   docs/usage.md, the head of the answer for unlike devices (with a binary)
  mixed examples    docs/clusters.md, answers on unlike devices against baselines (with a binary)
  library           docs/library.md = the marked pieces of tests/consumer/main.cpp, which is built against the installed
                    package and run
  python            docs/python.md: every function of the package with its parameters and defaults; the table has them all
  pages             docs/learn and docs/how-to: runs every command; every output block is what it prints
                    (page_commands.py; with a binary)
  help              docs/reference/cli.md = `--help` of every command (with a binary)
  commands          every `espalier COMMAND` that a page names is a subcommand of the binary, or a later one of
                    docs/non-goals.md

A generated block is between <!-- begin NAME --> and <!-- end NAME -->. Links are checked by check_links.py.

usage: check_docs.py [--write] [--binary PATH [--page PAGE …]] [ROOT]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import page_commands
import python_signatures
import worked_example

STRING = r'"(?:[^"\\]|\\.)*"'
STRINGS = rf"((?:{STRING}\s*)+)"


def text_of(literals):
    """Joins adjacent C++ string literals to one text."""
    return "".join(part[1:-1].replace('\\"', '"') for part in re.findall(STRING, literals))


def rows_of(source, constructor):
    """Returns (name, sentence) of every `Constructor{…"name", "sentence"`."""
    pattern = rf"\b{constructor}\{{(?:[\w:]+,\s*)?({STRING}),\s*{STRINGS}"
    return [(text_of(name), text_of(sentence)) for name, sentence in re.findall(pattern, source)]


def pruning_rows(source):
    pattern = rf"\{{Pruning::\w+,\s*({STRING}),\s*{STRINGS}\}}"
    return [(text_of(name), text_of(sentence)) for name, sentence in re.findall(pattern, source)]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def rule_tables(root):
    """Returns block name -> (table, least number of rows, so that a parser that finds nothing does not pass)."""
    space = rows_of((root / "src/plan/rules.cpp").read_text(encoding="utf-8"), "Rule")
    whole = rows_of((root / "src/plan/plan_rules.cpp").read_text(encoding="utf-8"), "PlanRule")
    engine_source = (root / "src/plan/engine_rules.cpp").read_text(encoding="utf-8")
    asserted = (root / "src/plan/engine_assertions.cpp").read_text(encoding="utf-8")
    engine = rows_of(engine_source, "EngineRule") + rows_of(asserted, "EngineRule")
    mirrors = re.findall(rf"Mirror\{{EngineFamily::(\w+),\s*({STRING}),\s*({STRING})\}}", engine_source)
    families = dict(re.findall(rf'case EngineFamily::(\w+): return ({STRING})', engine_source))
    families.setdefault("megatron_deepspeed", families.get("deepspeed", '""'))
    pruning = pruning_rows((root / "src/search/pruning.cpp").read_text(encoding="utf-8"))
    code = "`{}`".format
    return {
        "space rules": (table(["rule", "what it demands"], [(code(n), s) for n, s in space]), len(space), 25),
        "plan rules": (table(["rule", "what it demands"], [(code(n), s) for n, s in whole]), len(whole), 1),
        "engine rules": (table(["rule, without prefix", "what it demands"], [(code(n), s) for n, s in engine]), len(engine), 25),
        "mirrored rules": (table(["engine's name", "rule of the space"],
                                 sorted({(code(text_of(families[f]) + text_of(n)), code(text_of(r))) for f, n, r in mirrors})),
                           len(mirrors), 10),
        "pruning rules": (table(["rule", "why what it removes is not needed"], [(code(n), s) for n, s in pruning]), len(pruning), 5),
    }


def flow(text):
    """Parses a flow mapping {a: 1, b: {c: 2}} to text values, including inner mappings."""
    pairs = re.findall(r"(\w+): (\{[^{}]*\}|[^,{}]+)", text.strip()[1:-1])
    return {key: flow(value) if value.startswith("{") else value.strip() for key, value in pairs}


def gib(text):
    number, unit = re.fullmatch(r"(\d+)(MiB|B)", text).groups()
    return f"{int(number) * (2**20 if unit == 'MiB' else 1) / 2**30:.2f}"


EFFICIENCIES = {  # field -> head of its column
    "gemm_max": "g", "gemm_memory": "gemm_memory", "gemm_fp8": "fp8", "gemm_batched": "batched", "gemm_grouped": "grouped", "attention_max": "A",
    "attention_softmax": "d½", "attention_prologue": "s₀", "attention_rows": "R½", "attention_backward": "backward",
    "attention_flash2": "flash2", "memory_max": "memory_max", "kernel_floor": "f₀ µs", "kernel_launch": "launch µs",
}
LEVEL = ("latency", "efficiency", "start", "ramp", "small_group", "congestion")


def efficiency_row(root, name, said, defaults):
    """Returns the values that the model computes with: fitted (bold) over the catalogue's prior over the default
    of all devices."""
    fitted = worked_example.fitted(root, "devices.yaml", f"device: {name}")
    row = [f"`{name}`"]
    for field in EFFICIENCIES:
        scale = 1e6 if field.startswith("kernel") else 1
        own = fitted.get(field, fitted.get(field + "_us"))
        prior = worked_example.quantity(said[field]) if field in said else defaults[field]
        row.append(f"{prior * scale:.4g}" if own is None else f"**{own:g}**")
    return row


def level_figures(level, fitted):
    """Returns hop, efficiency, start, ramp, small groups and congestion: fitted (bold) over the template's values."""
    row = []
    for key in LEVEL:
        unit = "us" if key in ("latency", "start") else ""
        own = fitted.get(f"{key}_{unit}" if unit else key)
        row.append(level.get(key, "–") if own is None else f"**{own:g}{unit}**")
    return row


def device_tables(root):
    """Returns block name -> (table, rows, least rows), like rule_tables."""
    text = (root / "data/devices.yaml").read_text(encoding="utf-8")
    fabrics, devices = text.split("\ndevices:\n")
    sizes, efficiencies, levels = [], [], []
    defaults = worked_example.defaults(root)
    for entry in devices.split("  - name: ")[1:]:
        value = lambda key: re.search(rf"^    {key}: (.*)$", entry, re.M).group(1)
        name, peak, node = entry.splitlines()[0], flow(value("peak_tflops")), flow(value("node"))
        network = node["network"]
        sizes.append([f"`{name}`", *(peak.get(p, "–") for p in ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")), gib(value("memory")),
                      gib(value("context_reserve")), value("memory_bandwidth"),
                      f"{node['devices']} × `{node['fabric']}`, {network['nics']} × {network['bandwidth']}"])
        efficiencies.append(efficiency_row(root, name, flow(value("efficiency")), defaults))
    for name, body in re.findall(r"^  ([\w-]+):\n((?:    .*\n)+)", fabrics, re.M):
        fitted = worked_example.fitted(root, "fabrics.yaml", f"fabric: {name}")
        for line in re.findall(r"^ +(?:- |domain: )(\{.*\})$", body, re.M):
            level = flow(line)
            rate = level.get("bandwidth") or "uplink " + level["uplink"]
            levels.append([f"`{name}`", level["name"], level["kind"], level.get("span", "node"), rate, level.get("per_peer", "–"),
                           *level_figures(level, fitted)])
    kinds = re.findall(r"- kind: (\w+)", (root / "data/calibration/fabrics.yaml").read_text(encoding="utf-8"))
    networks = [[f"`{kind}`", *level_figures({}, worked_example.fitted(root, "fabrics.yaml", f"kind: {kind}"))] for kind in kinds]
    figures = ["hop α", "efficiency η", "start", "ramp ρ", "small group λ", "congestion γ"]
    heads = {
        "devices": (["device", "fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4", "memory GiB", "reserve GiB", "bandwidth", "usual node"], sizes, 20),
        "efficiencies": (["device", *EFFICIENCIES.values()], efficiencies, 20),
        "fabrics": (["fabric", "level", "kind", "span", "bandwidth", "per peer", *figures], levels, 15),
        "networks": (["network", *figures], networks, 3),
    }
    return {name: (table(head, rows), len(rows), least) for name, (head, rows, least) in heads.items()}


def block(name):
    return re.compile(rf"(<!-- begin {re.escape(name)} -->\n)(.*?)(<!-- end {re.escape(name)} -->)", re.S)


def fenced(text):
    return "```text\n" + text + "\n```"


MIXED = [  # example, description
    ("examples/mixed/llama2-7b-on-a100-and-v100.yaml", "32 A100 + 64 V100, Llama 2 7B"),
    ("examples/mixed/llama2-13b-on-h100-a100-and-l4.yaml", "16 H100 + 16 A100 + 16 L4, Llama 2 13B"),
    ("examples/clusters/scenarios/07-h100-and-a100.yaml", "4 H100 + 16 A100 of 40 GB, Llama 2 13B"),
    ("examples/clusters/scenarios/08-nodes-of-eight-and-of-four.yaml", "8 + 8 + 4 H100, Llama 2 70B"),
    ("examples/clusters/scenarios/04-two-campuses.yaml", "two sites of 32 V100, GPT-3 XL"),
]


def against(result, words):
    """Returns the speed-up over the fastest alternative whose label contains `words`."""
    rows = [a["iteration_s"] for a in result["alternatives"] if words in a["label"] and a["fits"]]
    return f"{min(rows) / result['prediction']['iteration_s']:.2f}" if rows else "does not fit"


def fact_rows(text):
    """Returns (name, unit, meaning, versions, rows) of every fact of data/facts.yaml; a row is a mapping of texts."""
    facts = []
    for entry in text.split("\n  - name: ")[1:]:
        value = lambda key: (re.search(rf"^    {key}: (.*)$", entry, re.M) or [None, ""])[1]
        rows = [{key: quoted or plain for key, quoted, plain in re.findall(r'(\w+): (?:"([^"]*)"|([^,"{}]+))', row)}
                for row in re.findall(r"^      - \{(.*)\}$", entry, re.M)]
        facts.append((entry.splitlines()[0], value("unit"), value("meaning"), value("versions"), rows))
    return facts


def fact_tables(root):
    """Returns block name -> (table, rows, least rows), like rule_tables."""
    lines = []
    for name, unit, meaning, versions, rows in fact_rows((root / "data/facts.yaml").read_text(encoding="utf-8")):
        for row in rows:
            era = " ".join(f"{word} {row[key]}" for word, key in (("from", "since"), ("to", "until")) if key in row)
            whose = versions if versions and era else row.get("engine", "")
            lines.append([f"`{name}`", meaning, f"{float(row['value']):g} {unit}", f"{whose} {era}".strip() or "any", row.get("holds", "–"), row["source"]])
    return {"facts": (table(["name", "figure", "value", "engine, versions", "found for", "source"], lines), len(lines), 20)}


class Pages:
    def __init__(self, root, write):
        self.root, self.write, self.bad = root, write, []

    def hold(self, page, name, wanted):
        """Checks that the block of that name holds `wanted`, or writes it."""
        path = self.root / page
        text = path.read_text(encoding="utf-8")
        found = block(name).search(text)
        wanted = "\n" + wanted + "\n\n"
        if not found:
            self.bad.append(f"{page}: no block '{name}'")
        elif found.group(2) != wanted and self.write:
            path.write_text(text[:found.start(2)] + wanted + text[found.end(2):], encoding="utf-8")
            print(f"check_docs: wrote '{name}' into {page}")
        elif found.group(2) != wanted:
            old, new = set(found.group(2).splitlines()), set(wanted.splitlines())
            self.bad += [f"{page}, {name}: not in the program: {line}" for line in sorted(old - new)]
            self.bad += [f"{page}, {name}: missing: {line}" for line in sorted(new - old)]
            if old == new:
                self.bad.append(f"{page}, {name}: order differs")

    def tables(self, page, blocks):
        for name, (wanted, rows, least) in blocks.items():
            if rows < least:
                self.bad.append(f"{name}: only {rows} found in the sources; has their form changed?")
            else:
                self.hold(page, name, wanted)

    def library(self):
        source = (self.root / "tests/consumer/main.cpp").read_text(encoding="utf-8")
        pieces = re.findall(r"^ *// begin (\w+)\n(.*?)^ *// end \1\n", source, re.M | re.S)
        if len(pieces) < 10:
            self.bad.append(f"tests/consumer/main.cpp: only {len(pieces)} marked pieces")
        for name, code in pieces:
            self.hold("docs/library.md", f"library {name}", "```cpp\n" + textwrap.dedent(code).rstrip() + "\n```")

    def python(self):
        found = python_signatures.signatures(self.root)
        if len(found) < 20:
            self.bad.append(f"python/espalier: only {len(found)} functions; has the package changed?")
        text = (self.root / "docs/python.md").read_text(encoding="utf-8")
        listed = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", text, re.M)))
        self.bad += [f"docs/python.md: no row for the function {name}" for name in found if name not in listed]
        ordered = [found[name] for name in dict.fromkeys(listed) if name in found]
        self.hold("docs/python.md", "signatures", "```text\n" + "\n".join(ordered) + "\n```")

    def example(self, binary):
        example = worked_example.compute(self.root)
        self.hold("docs/cost-model.md", "worked example", worked_example.markdown(example))
        if not binary:
            return
        run = subprocess.run([binary, *worked_example.COMMAND, "--json"], cwd=self.root, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            self.bad.append(f"espalier {' '.join(worked_example.COMMAND)}: exit {run.returncode}: {run.stderr.strip()}")
            return
        prediction = json.loads(run.stdout)["prediction"]
        for what, computed, said in worked_example.comparisons(example, prediction):
            if computed != said:
                self.bad.append(f"worked example: {what}: the page computes {computed}, the program says {said}")

    def printed(self, binary, command):
        """Runs a command and returns its output; None on failure."""
        run = subprocess.run([binary, *command, "--quiet"], cwd=self.root, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            self.bad.append(f"espalier {' '.join(command)}: exit {run.returncode}: {run.stderr.strip()}")
            return None
        return "\n".join(line.rstrip() for line in run.stdout.splitlines())

    def plan_output(self, binary):
        command = ["plan", "examples/llama3-8b-on-8xh100.yaml"]
        text, whole = self.printed(binary, command), self.printed(binary, [*command, "-v"])
        if text is not None and whole is not None:
            self.hold("README.md", "plan screen", fenced(text))
            self.hold("docs/usage.md", "plan screen", fenced(text))
            self.hold("docs/usage.md", "plan output", fenced(whole))

    def improve_output(self, binary):
        command = ["improve", "--from", "megatron-args", "examples/improve/llama3-8b-megatron.sh", "--cluster", "examples/clusters/1x8-h100.yaml"]
        text = self.printed(binary, command)
        if text is not None:
            head, _, _ = text.partition("\n\n1  present:")
            self.hold("README.md", "improve head", fenced(head.partition("\n\nSingle changes")[0] + "\n…"))
            self.hold("docs/usage.md", "improve output", fenced(head))

    def unequal_devices(self, binary):
        text = self.printed(binary, ["plan", "examples/clusters/scenarios/06-near-t4.yaml", "-v"])
        if text is not None:
            head, _, rest = text.partition("  certificate")
            rows = rest[rest.index("  baselines and"):rest.index("\nWhy")]
            samples = re.findall(r"^(?:Layers|Pipeline): (pipeline .*)$", rest, re.M)
            self.hold("docs/usage.md", "unequal devices", fenced(head + "  …\n\n" + "\n".join(samples) + "\n\n" + rows.rstrip("\n")))

    def accuracy(self):
        """Checks the errors of all sources with at least 30 runs against the table of the report."""
        text = re.search(r"<!-- begin:time -->\n(.*?)<!-- end:time -->", (self.root / "lab/accuracy-report.md").read_text(encoding="utf-8"), re.S)
        rows, source = {}, ""
        for line in text.group(1).splitlines() if text else []:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) >= 4 and cells[1] in ("fit", "S", "G"):
                source = cells[0] or source
                rows.setdefault(source, {})[cells[1]] = cells
        error = lambda cells: f"{100 - float(cells[3].rstrip(' %')):.1f} %"
        chosen = [(name, row) for name, row in rows.items() if int(row["S"][2]) >= 30]
        if len(chosen) < 5:
            self.bad.append(f"lab/accuracy-report.md: only {len(chosen)} sources of 30 runs; has its table changed?")
            return
        chosen.sort(key=lambda pair: (pair[0] == "all", -int(pair[1]["S"][2])))
        lines = [[f"**{name} sources**" if name == "all" else name.partition(" (")[0], f"{int(row['S'][2]):,}", error(row["S"]), row["S"][4], error(row["G"])]
                 for name, row in chosen]
        self.hold("README.md", "accuracy", table(["source", "runs", "mean error, source held out", "median", "mean error, groups held out"], lines))

    def claims(self, binary):
        """Checks numbers in prose and the size of README.md. A claim that is not found has lost its sentence."""
        libraries = re.search(r"^build_packages=\((.*?)\)", (self.root / "dev").read_text(encoding="utf-8"), re.S | re.M).group(1).split()
        rows_in = lambda name: len(re.findall(r"^  - name:", (self.root / name).read_text(encoding="utf-8"), re.M))
        wanted = {r"(\d+) libraries": len([p for p in libraries if p.endswith("-dev")]), r"(\d+)\s+\[device types\]": rows_in("data/devices.yaml"),
                  r"(\d+)\s+\[engines\]": rows_in("data/engines.yaml")}
        if binary:
            with tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "config.json").write_text('{"model_type": "no such type"}')
                run = subprocess.run([binary, "inspect", "model", folder], capture_output=True, text=True, check=False)
            found = re.search(r"(\d+) known model_type", run.stderr)
            wanted[r"(\d+)\s+\[?model types"] = int(found.group(1)) if found else -1
        pages = {name: (self.root / name).read_text(encoding="utf-8") for name in ("README.md", "docs/usage.md")}
        lines = pages["README.md"].splitlines()
        self.bad += [f"README.md: {len(lines)} lines, at most 150"] if len(lines) > 150 else []
        self.bad += [f"README.md:{at}: wider than 120 columns" for at, line in enumerate(lines, 1) if len(line) > 120]
        for pattern, count in wanted.items():
            said = [(name, int(number)) for name, text in pages.items() for number in re.findall(pattern, text)]
            if not said:
                self.bad.append(f"{', '.join(pages)}: no claim like '{pattern}'")
            self.bad += [f"{name}: '{pattern}' says {number}, the program has {count}" for name, number in said if number != count]

    def mixed_examples(self, binary):
        head = ["example", "step", "best kind alone", "equal split", "layers in proportion to compute", "Megatron on the slowest kind", "gap"]
        rows = []
        for path, said in MIXED:
            run = subprocess.run([binary, "plan", path, "--json", "--quiet"], cwd=self.root, capture_output=True, text=True, check=False)
            if run.returncode != 0:
                self.bad.append(f"espalier plan {path}: exit {run.returncode}: {run.stderr.strip()}")
                return
            result = json.loads(run.stdout)
            step = f"{result['prediction']['iteration_s']:.3f} s"
            others = [against(result, words) for words in (" alone (", "equal split", "in proportion to compute", "Megatron 3-D default")]
            rows.append([f"[{said}](../{path})", step, *others, f"{100 * result['search']['gap']:.1f} %"])
        self.hold("docs/clusters.md", "mixed examples", table(head, rows))

    def pages_that_run(self, binary, only=()):
        for path in [page.resolve() for page in only] or page_commands.pages(self.root):
            page = path.relative_to(self.root)
            try:
                for name, content in page_commands.blocks(self.root, binary, path):
                    self.hold(page, name, content)
            except RuntimeError as error:
                self.bad.append(f"{page}: {error}")

    def help(self, binary):
        page = pathlib.Path("docs/reference/cli.md")
        listed = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
        commands = re.findall(r"^  ([a-z-]+) ", re.split(r"^(?:Subc|C)ommands:?$", listed, flags=re.M)[1].split("\n\n")[0], re.M)
        if len(commands) < 12:
            self.bad.append(f"'{binary} --help' lists only {commands}")
        said = [re.sub(r"^#+ ", "", line) for line in (self.root / page).read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
        if said != commands:
            self.bad.append(f"{page}: a heading a command, in the order of --help: {' '.join(commands)}")
        for command in commands:
            run = subprocess.run([binary, command, "--help"], capture_output=True, text=True, check=True)
            self.hold(page, f"help {command}", "```text\n" + "\n".join(line.rstrip() for line in run.stdout.rstrip().splitlines()) + "\n```")

    def commands(self, binary):
        run = subprocess.run([binary, "--help"], capture_output=True, text=True, check=False)
        known = set(re.findall(r"^  ([a-z]+)\b", run.stdout, re.M))
        later = (self.root / "docs/non-goals.md").read_text(encoding="utf-8").partition("## Later")[2]
        later = set(re.findall(r"`([a-z]+)`", later))
        if "plan" not in known:
            self.bad.append(f"'{binary} --help' lists no subcommands")
            return
        for path in [self.root / "README.md", *sorted((self.root / "docs").rglob("*.md"))]:
            for command in re.findall(r"\bespalier ([a-z]+)\b(?!:)", " . ".join(code_of(path))):
                if command not in known | later:
                    self.bad.append(f"{path.relative_to(self.root)}: there is no 'espalier {command}'")


def code_of(path):
    """Returns the code spans and fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [fence or span for fence, span in re.findall(r"```[^\n]*\n(.*?)```|`([^`\n]+)`", text, re.S)]


def check_all(pages, binary):
    pages.tables("docs/search.md", rule_tables(pages.root))
    pages.tables("docs/devices.md", device_tables(pages.root))
    pages.tables("docs/cost-model.md", fact_tables(pages.root))
    pages.library()
    pages.python()
    pages.accuracy()
    pages.claims(binary)
    pages.example(binary)
    if binary:
        pages.plan_output(binary)
        pages.improve_output(binary)
        pages.unequal_devices(binary)
        pages.mixed_examples(binary)
        pages.pages_that_run(binary)
        pages.help(binary)
        pages.commands(binary)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="rewrite the generated blocks")
    parser.add_argument("--binary", help="espalier, for the worked example and the names of commands")
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent, type=pathlib.Path)
    parser.add_argument("--page", action="append", default=[], type=pathlib.Path, help="run the commands of this page of docs/learn, docs/how-to, and nothing else")
    arguments = parser.parse_args()
    binary = str(pathlib.Path(arguments.binary).resolve()) if arguments.binary else None
    pages = Pages(arguments.root.resolve(), arguments.write)
    if arguments.page:
        pages.pages_that_run(binary, arguments.page)
    else:
        check_all(pages, binary)
    for line in pages.bad:
        print(line)
    print(f"check_docs: {len(pages.bad)} differences" + ("; scripts/check_docs.py --write --binary build/espalier rewrites generated blocks" if pages.bad else ""))
    return 1 if pages.bad else 0


if __name__ == "__main__":
    sys.exit(main())
