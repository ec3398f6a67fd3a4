#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Converts a plan of schema espalier.plan/2 to the bytes that espalier.plan/1 wrote; also the plan
inside a result.json.

usage: plan_v2_to_v1.py [FILE]      reads FILE or stdin, writes stdout

A plan that version 1 cannot express (several pipelines, unequal shares, modules, overlap.ep) exits 5 and names the
field. Types of states are left out, as version 1 has none: `espalier export plan PLAN.json --plan-schema 1` checks
that they are those of the engine.
"""
import json
import re
import sys

from digest import digest

MODULES, EP = ', "modules": []}', ', "ep": false}'
SELECTIVE = ["layernorm", "act"]  # meaning of `selective` in version 1


def unwritable(plan):
    """Returns the place of a feature that version 1 cannot express; "" if there is none."""
    pipelines = plan["pipelines"]
    if len(pipelines) != 1:
        return f"$.pipelines: {len(pipelines)} pipelines"
    if pipelines[0]["id"] != 0:
        return f"$.pipelines[0].id: {pipelines[0]['id']}"
    for i, stage in enumerate(pipelines[0]["stages"]):
        where = f"$.pipelines[0].stages[{i}]"
        for name in ("samples_per_replica", "state_shares"):
            if len(set(stage.get(name, []))) > 1:
                return f"{where}.{name}: {stage[name]}"
        for k, layers in enumerate(stage["layers"]):
            strategy = layers["strategy"]
            if strategy["recompute"].get("modules") not in (None, [], SELECTIVE):
                return f"{where}.layers[{k}].strategy.recompute.modules: {strategy['recompute']['modules']}"
            if strategy["overlap"].get("ep"):
                return f"{where}.layers[{k}].strategy.overlap.ep: true"
    return ""


def without_new_fields(line):
    """Converts a line of strategies: a range of a stage, or an alternative of a result."""
    return line.replace(MODULES, "}").replace(', "modules": ["layernorm", "act"]}', "}").replace(EP, "}")


def stages_with_shares(lines):
    """Adds each stage's share of the samples, which version 1 writes at its end."""
    out = []
    for line in lines:
        if re.fullmatch(r"      \]", line):  # the end of `layers`, in its place of version 1
            out += ["      ],", '      "share": 1.0']
        elif '"samples_per_replica"' not in line and '"state_shares"' not in line:  # equal ones carry no information
            out.append(line)
    return out


def converted(text):
    lines = text.split("\n")
    schema = next(i for i, line in enumerate(lines) if line.strip() == '"schema": "espalier.plan/2",')
    lines[schema] = lines[schema].replace("plan/2", "plan/1")
    first = next(i for i, line in enumerate(lines) if line == '  "precision": {' and i > schema)
    start = next(i for i, line in enumerate(lines) if line == '  "pipelines": [' and i > first)
    end = next(i for i, line in enumerate(lines) if line == "  ]" and i > start)
    pipeline = [line[4:] for line in lines[start + 2:end - 1]]  # two levels out
    pipeline = [line for line in pipeline if not re.match(r'  "(id|samples)": ', line)]
    stages = pipeline.index('  "stages": [')
    pipeline = pipeline[:stages] + stages_with_shares(pipeline[stages:])
    return "\n".join(without_new_fields(line) for line in lines[:first] + pipeline + lines[end + 1:])


def main():
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__, file=sys.stderr)
        return 2
    text = open(sys.argv[1], encoding="utf-8").read() if len(sys.argv) == 2 else sys.stdin.read()
    document = json.loads(text)
    plan = document.get("plan", document)
    if plan.get("schema") != "espalier.plan/2":
        print(f"{plan.get('schema')!r} is not espalier.plan/2", file=sys.stderr)
        return 3
    refused = unwritable(plan)
    if refused:
        print(refused, file=sys.stderr)
        return 5
    out = converted(text)
    if "digest" in document:
        out = out.replace(f'"digest": "{document["digest"]}"', f'"digest": "{digest(json.loads(out))}"')
    sys.stdout.write(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
