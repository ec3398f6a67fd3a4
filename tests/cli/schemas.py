#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the schemas of docs/schema against the program and real documents: every example job and cluster, errors,
an estimate, and every measured run that ships. The plans and results of all examples are checked where they are
made, in scripts/run_examples.py.
usage: schemas.py BINARY SOURCE_DIR
"""
import json
import pathlib
import re
import subprocess
import sys

import yaml  # Debian: python3-yaml

BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "scripts"))
from schema_check import offences, resolved, schema  # noqa: E402

EXAMPLE = SOURCE / "examples/llama3-8b-on-8xh100.yaml"
failures = []


class Core(yaml.SafeLoader):
    """Loads YAML 1.2 like job files: 1e12 is a number."""


Core.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?$"), list("-+.0123456789"))


def read_yaml(path):
    return yaml.load(path.read_text(encoding="utf-8"), Core)


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what)


def expect_valid(name, value, what):
    found = offences(schema(name), value)
    expect(not found, f"{what} against {name}.schema.json: {found[:3]}")


def the_validator_finds_offences():
    for value, part in (({}, "no \"model\""), ({"model": "x", "cluster": "y", "training": {"global_batch": 0}}, "out of range"),
                        ({"model": "x", "cluster": "y", "training": {"global_batch": 8}, "serach": {}}, "unknown key"),
                        ({"model": "x", "cluster": "y", "training": {"global_batch": 8, "precision": "int3"}}, "is none of"),
                        ({"model": 1, "cluster": "y", "training": {"global_batch": 8}}, "fits no alternative")):
        expect(any(part in o for o in offences(schema("job"), value)), f"{value} breaks the schema of jobs: {part}")


def references_of(part):
    """Yields every reference in a schema, with the object that holds it."""
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references_of(value)
    if isinstance(part, dict) and "$ref" in part:
        yield part


def every_reference_resolves():
    for path in sorted((SOURCE / "docs/schema").glob("*.schema.json")):
        for part in references_of(schema(path.name.removesuffix(".schema.json"))):
            expect(resolved(part), f"{path.name} refers to {part['$ref']}")
    stage = {"devices": ["0-3"], "layers": [{"first": 0, "last": 1, "strategy": {"tp": "two"}}]}
    found = offences(schema("plan"), {"stages": [stage]}) + offences(schema("what-if"), {"running": {"stages": [stage]}})
    expect(sum("strategy.tp: \"two\" is no integer" in o for o in found) == 2, f"a mistake behind references: {found}")


# ---- against the program -------------------------------------------------------------------------------------------


def call(*words):
    return subprocess.run([BINARY, *map(str, words)], capture_output=True, text=True, timeout=500)


def expected_words(setting):
    """Returns what the program states it expected in place of an unknown key or value."""
    ran = call("plan", EXAMPLE, "--json", "--set", setting)
    expect(ran.returncode == 3, f"--set {setting}: exit {ran.returncode}")
    error = json.loads(ran.stdout)
    expect_valid("error", error, f"the error of --set {setting}")
    # Turns text like "adam (AdamW is the same to a plan) or sgd" into a list of words.
    words = re.sub(r" \([^)]*\)", "", re.sub(r"^one of ", "", error["expected"]))
    return set(words.replace(" or ", ", ").split(", "))


def the_program_expects_what_the_schemas_say():
    job = schema("job")
    parts = {"": job, "training.": job["properties"]["training"], "search.": job["properties"]["search"]}
    for name in ("fix", "allow", "forbid"):
        parts[f"search.{name}."] = resolved(job["properties"]["search"]["properties"][name])
    for path, part in parts.items():
        told, written = expected_words(f"{path}no_such_key=1"), set(part["properties"])
        expect(told == written, f"keys of {path or 'a job'}: scripts/schemas.py lacks {sorted(told - written)}, the program {sorted(written - told)}")
    told, written = expected_words("cluster.no_such_key=1"), set(resolved(job["properties"]["cluster"]["anyOf"][1])["properties"])
    expect(told <= written, f"keys of a cluster: scripts/schemas.py lacks {sorted(told - written)}")
    dimensions = job["properties"]["search"]["properties"]["fix"]["properties"]
    words = {"training.precision": job["properties"]["training"]["properties"]["precision"],
             "training.optimizer": {"enum": sorted(set(job["properties"]["training"]["properties"]["optimizer"]["enum"]) - {"adamw"})},
             "search.space": job["properties"]["search"]["properties"]["space"],
             **{f"search.fix.{name}": value for name, value in ((n, resolved(d)) for n, d in dimensions.items()) if "enum" in value}}
    for path, value in words.items():
        told, written = expected_words(f"{path}=no-such-word"), set(value["enum"])
        expect(told == written, f"values of {path}: the program has {sorted(told)}, scripts/schemas.py {sorted(written)}")


# ---- against real documents ----------------------------------------------------------------------------------------


def every_example():
    jobs = sorted((SOURCE / "examples").glob("*.yaml")) + sorted((SOURCE / "examples").glob("*/job.yaml"))
    expect(len(jobs) >= 12, f"examples: {len(jobs)}")
    for job in jobs:
        expect_valid("job", read_yaml(job), str(job))
    for cluster in sorted((SOURCE / "examples/clusters").glob("*.yaml")):
        expect_valid("cluster", read_yaml(cluster), str(cluster))
    ran = call("estimate", EXAMPLE, "--tp", "2", "--zero", "1", "--json")
    expect_valid("result", json.loads(ran.stdout), "estimate --json")
    ran = call("plan", EXAMPLE, "--json", "--set", "cluster.memory_limit=1MiB")
    expect(ran.returncode == 4, f"1 MiB: exit {ran.returncode}")
    expect_valid("error", json.loads(ran.stdout), "the error of a job that does not fit")


def every_measured_run():
    files = sorted((SOURCE / "data/runs").glob("*.jsonl")) + sorted((SOURCE / "examples").glob("*/*.jsonl"))
    run, n = schema("run"), 0
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                found = offences(run, json.loads(line))
                expect(not found, f"{path.name}:{number} against run.schema.json: {found[:3]}")
                n += 1
    expect(n > 2000, f"{n} measured runs")


def main():
    ran = subprocess.run([sys.executable, SOURCE / "scripts/schemas.py", "--check"], capture_output=True, text=True)
    expect(ran.returncode == 0, ran.stdout + ran.stderr)
    the_validator_finds_offences()
    every_reference_resolves()
    the_program_expects_what_the_schemas_say()
    every_measured_run()
    every_example()
    print("schemas:", "ok" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
