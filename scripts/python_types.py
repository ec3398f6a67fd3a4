#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the typed documents of the Python package from the tables of schemas.py and the comments of
the public headers.

usage: python_types.py --write | --check      write python/espalier/types.py, or report that it differs

An object of a schema with named keys becomes a frozen dataclass; optional keys may be None. Its class name comes from
CLASSES, or else from its key. Its docstring is the description in the schema, or else the comment of the struct of
the same name.
"""
import json
import pathlib
import re
import sys

import schemas
from schema_check import resolved

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
import docstrings  # noqa: E402

OUT = ROOT / "python/espalier/types.py"

# Objects with a name of their own: the class, and the schema.
CLASSES = {
    "Strategy": schemas.STRATEGY, "Schedule": schemas.SCHEDULE, "Source": schemas.SOURCE, "Stage": schemas.STAGES["items"],
    "LayerRange": schemas.STAGES["items"]["properties"]["layers"]["items"], "Pipeline": schemas.PIPELINE, "PlanDocument": schemas.PLAN,
    "Prediction": schemas.PREDICTION, "Breakdown": schemas.PREDICTION["properties"]["breakdown_s"],
    "MemoryBreakdown": schemas.PREDICTION["properties"]["memory_breakdown_bytes"], "Expense": schemas.PREDICTION["properties"]["cost"],
    "NetworkPrediction": schemas.PREDICTION["properties"]["network"], "LinkUse": schemas.PREDICTION["properties"]["network"]["properties"]["links"]["items"],
    "SearchSummary": schemas.RESULT["properties"]["search"], "PhaseSummary": schemas.RESULT["properties"]["search"]["properties"]["phases"]["items"],
    "Alternative": schemas.RESULT["properties"]["alternatives"]["items"], "OperatorReport": schemas.RESULT["properties"]["operators"]["items"],
    "EngineAnswer": schemas.ENGINE_ANSWER, "Simplest": schemas.SIMPLEST, "LayerwiseSummary": schemas.LAYERWISE,
    "PartitionSummary": schemas.PARTITIONS, "DeviceGroupsSummary": schemas.DEVICE_GROUPS, "ResultDocument": schemas.RESULT,
    "Move": schemas.MOVE, "Disturbance": schemas.WHAT_IF["properties"]["change"], "MovePrices": schemas.WHAT_IF["properties"]["prices"],
    "SearchRequest": schemas.RESULT["properties"]["search"]["properties"]["asked"], "Change": schemas.CHANGE, "WhatIf": schemas.WHAT_IF, "Survival": schemas.SURVIVAL,
    "LossClass": schemas.SURVIVAL["properties"]["classes"]["items"], "StepSeen": schemas.OBSERVATION["properties"]["steps"]["items"],
    "RankSeen": schemas.OBSERVATION["properties"]["ranks"]["items"], "LinkSeen": schemas.OBSERVATION["properties"]["links"]["items"], "Observation": schemas.OBSERVATION,
    "LongRunCandidate": schemas.LONG_RUN["properties"]["candidates"]["items"], "LongRunAnswer": schemas.LONG_RUN,
    "TraceRun": schemas.OVER_TIME["properties"]["runs"]["items"], "TracePlan": schemas.OVER_TIME["properties"]["plans"]["items"],
    "OverTime": schemas.OVER_TIME, "SizeAnswer": schemas.OBJECTIVE["properties"]["sizes"]["items"], "ObjectiveAnswer": schemas.OBJECTIVE,
}
PLAIN = {"string": "str", "boolean": "bool", "integer": "int", "number": "float", "null": "None", "object": "dict[str, Any]"}
WALL_CLOCK = {"timing"}  # two equal answers may differ in it


def struct_comments():
    found = {}
    for path in sorted((ROOT / "include/espalier").glob("*.h")):
        for name, text in docstrings.comments(path).items():
            found.setdefault(name.removeprefix(f"{path.stem}_"), text)
    return found


def shape(schema):
    """Returns a key that is equal for two objects of the same type."""
    return json.dumps({key: value for key, value in schema.items() if key != "description"}, sort_keys=True)


class Writer:
    def __init__(self):
        self.names = {shape(schema): name for name, schema in CLASSES.items()}
        self.done, self.classes, self.comments = set(), [], struct_comments()

    def class_of(self, schema, key):
        name = self.names.get(shape(schema))
        if name is None:
            name = "".join(part.capitalize() for part in re.split(r"[_-]", key)).removesuffix("S")
            name = next(other for other in (name, "Asked" + name, "Told" + name) if other not in self.names.values())
            self.names[shape(schema)] = name
        if name not in self.done:
            self.done.add(name)
            self.write(name, schema)
        return name

    def annotation(self, schema, key):
        """Returns the Python type of a value, and the class that is nested in it, if any."""
        schema = resolved(schema)
        if "properties" in schema:
            name = self.class_of(schema, key)
            return name, name
        if "anyOf" in schema:
            parts = [self.annotation(part, key) for part in schema["anyOf"]]
            nested = next((inner for _, inner in parts if inner), None)
            return " | ".join(dict.fromkeys(text for text, _ in parts)), nested
        if schema.get("type") == "array":
            inner, nested = self.annotation(schema["items"], key.removesuffix("s"))
            return f"list[{inner}]", nested
        if isinstance(schema.get("additionalProperties"), dict):
            return f"dict[str, {self.annotation(schema['additionalProperties'], key)[0]}]", None
        if "const" in schema or "enum" in schema:
            return type(schema.get("const", (schema.get("enum") or [""])[0])).__name__, None
        if isinstance(schema.get("type"), list):
            return " | ".join(PLAIN[kind] for kind in schema["type"]), None
        return PLAIN.get(schema.get("type"), "Any"), None

    def write(self, name, schema):
        required, fields, nested = set(schema.get("required", ())), [], {}
        for key, value in schema["properties"].items():
            text, inner = self.annotation(value, key)
            if inner:
                nested[key] = inner
            optional = "" if key in required else " = None"
            if key in WALL_CLOCK:
                optional = " = dataclasses.field(default=None, compare=False)"
            text += "" if key in required or text.endswith("None") else " | None"
            note = value.get("description", "")
            fields.append(f"    {key}: {text}{optional}" + (f"  # {note}" if note else ""))
        doc = schema.get("description") or self.comments.get(name) or dict(SENTENCES).get(name) or "A part of a document."
        lines = ["@dataclasses.dataclass(frozen=True, kw_only=True)", f"class {name}(Document):", f'    """{doc[0].upper()}{doc[1:].rstrip(".")}."""', "", *fields]
        if nested:
            lines += ["", "    _nested: ClassVar[dict[str, type[Document]]] = {" + ", ".join(f'"{key}": {inner}' for key, inner in nested.items()) + "}"]
        self.classes.append("\n".join(lines))


# Sentences of the documents themselves, and of objects that no header describes.
SENTENCES = [(name, schemas.SCHEMAS[key][1]) for name, key in (
    ("PlanDocument", "plan"), ("ResultDocument", "result"), ("WhatIf", "what-if"), ("Change", "change"), ("Survival", "survival"),
    ("LongRunAnswer", "long-run"), ("OverTime", "over-time"), ("ObjectiveAnswer", "objective"), ("Observation", "observation"))] + [
    ("Breakdown", "Where the time of a step goes, in seconds: the five parts sum to it"), ("MemoryBreakdown", "Bytes of the fullest rank, by what they hold"),
    ("Prediction", "What a plan is predicted to take"), ("Source", "A model or cluster, as a plan carries it"), ("SearchSummary", "What the search did, and what it proves"),
    ("Stage", "A stage: its devices in rank order, and its layers")]


def text():
    writer = Writer()
    for name, schema in CLASSES.items():
        writer.class_of(schema, name)
    head = ['# SPDX-License-Identifier: Apache-2.0', '"""The documents that Espalier writes, as typed objects. Generated by scripts/python_types.py from the tables of',
            'scripts/schemas.py (docs/schema) and the comments of the public headers: change those."""', "from __future__ import annotations", "",
            "import dataclasses", "from typing import Any, ClassVar", "", "from espalier._base import Document", "", "__all__ = ["]
    names = [f'    "{name}",' for name in sorted(writer.done)]
    return "\n".join([*head, *names, "]", "", "", "\n\n\n".join(writer.classes), ""])


def main():
    if sys.argv[1:] == ["--write"]:
        OUT.write_text(text(), encoding="utf-8")
        return 0
    if sys.argv[1:] != ["--check"]:
        print(__doc__, file=sys.stderr)
        return 2
    if not OUT.is_file() or OUT.read_text(encoding="utf-8") != text():
        print("python/espalier/types.py is not what the schemas say: scripts/python_types.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
