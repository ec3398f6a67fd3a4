#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the typed documents and the words of the Python package, from the tables of schemas.py, the catalogues of
data/ and the comments of the public headers.

usage: python_types.py --write | --check      write python/espalier/types.py and words.py, or report which differ

An object of a schema with named keys becomes a frozen dataclass; optional keys may be None. Its class name comes from
CLASSES, or else from its key. Its docstring is the description in the schema, or else the comment of the struct of
the same name. A list of words becomes an enumeration, and an alias NAMELike that also admits the words as text.
"""
import json
import keyword
import pathlib
import re
import sys
import textwrap

import schemas

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
import docstrings  # noqa: E402

OUT = ROOT / "python/espalier/types.py"
WORDS_OUT = ROOT / "python/espalier/words.py"

# Objects with a name of their own: the class, and the schema.
CLASSES = {
    "Strategy": schemas.STRATEGY, "Schedule": schemas.SCHEDULE, "Source": schemas.SOURCE, "Stage": schemas.STAGES["items"],
    "LayerRange": schemas.STAGES["items"]["properties"]["layers"]["items"], "Pipeline": schemas.PIPELINE, "PlanDocument": schemas.PLAN,
    "Prediction": schemas.PREDICTION, "Breakdown": schemas.PREDICTION["properties"]["breakdown_s"],
    "MemoryBreakdown": schemas.PREDICTION["properties"]["memory_breakdown_bytes"], "Expense": schemas.PREDICTION["properties"]["cost"],
    "NetworkPrediction": schemas.PREDICTION["properties"]["network"], "LinkUse": schemas.PREDICTION["properties"]["network"]["properties"]["links"]["items"],
    "SearchSummary": schemas.RESULT["properties"]["search"], "PhaseSummary": schemas.PHASE, "SearchCounters": schemas.PHASE["properties"]["counters"],
    "Alternative": schemas.RESULT["properties"]["alternatives"]["items"], "OperatorReport": schemas.RESULT["properties"]["operators"]["items"],
    "EngineAnswer": schemas.ENGINE_ANSWER, "Simplest": schemas.SIMPLEST, "StageBalance": schemas.BALANCE, "ResultDocument": schemas.RESULT,
    "Move": schemas.MOVE, "Disturbance": schemas.WHAT_IF["properties"]["change"], "MovePrices": schemas.WHAT_IF["properties"]["prices"],
    "SearchRequest": schemas.RESULT["properties"]["search"]["properties"]["asked"], "Change": schemas.CHANGE, "WhatIf": schemas.WHAT_IF, "Survival": schemas.SURVIVAL,
    "LossClass": schemas.SURVIVAL["properties"]["classes"]["items"], "StepSeen": schemas.OBSERVATION["properties"]["steps"]["items"],
    "RankSeen": schemas.OBSERVATION["properties"]["ranks"]["items"], "LinkSeen": schemas.OBSERVATION["properties"]["links"]["items"], "Observation": schemas.OBSERVATION,
    "LongRunCandidate": schemas.LONG_RUN["properties"]["candidates"]["items"], "LongRunAnswer": schemas.LONG_RUN,
    "TraceRun": schemas.OVER_TIME["properties"]["runs"]["items"], "TracePlan": schemas.OVER_TIME["properties"]["plans"]["items"],
    "PlanTraining": schemas.PLAN["properties"]["training"], "StatePrecision": schemas.PLAN["properties"]["precision"],
    "Improvement": schemas.IMPROVEMENT, "ImportedKeys": schemas.IMPROVEMENT["properties"]["import"], "ImportedKey": schemas.KEY,
    "PresentPlan": schemas.IMPROVEMENT["properties"]["present"], "BestPlan": schemas.IMPROVEMENT["properties"]["best"],
    "ConfigurationDiff": schemas.IMPROVEMENT["properties"]["diff"], "SingleChange": schemas.IMPROVEMENT["properties"]["changes"]["items"],
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


def sentence_of(text):
    """Returns a description as a sentence of its own: consecutive comments are read as one paragraph."""
    first = text[:1].upper() if re.match(r"[a-z]+( |$)", text) else text[:1]
    return first + text[1:].rstrip(".") + "." if text else ""


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
            note = sentence_of(value.get("description", ""))
            name_of_field = key + "_" * keyword.iskeyword(key)  # import_ for the key import
            line = f"    {name_of_field}: {text}{optional}" + (f"  # {note}" if note else "")
            fields += [line] if len(line) <= 120 or not note else [*textwrap.wrap(note, 110, initial_indent="    # ", subsequent_indent="    # "),
                                                                   line.partition("  # ")[0]]
        doc = schema.get("description") or self.comments.get(name) or dict(SENTENCES).get(name) or "A part of a document."
        lines = ["@dataclasses.dataclass(frozen=True, kw_only=True)", f"class {name}(Document):", f'    """{doc[0].upper()}{doc[1:].rstrip(".")}."""', "", *fields]
        if nested:
            lines += ["", "    _nested: ClassVar[dict[str, type[Document]]] = {" + ", ".join(f'"{key}": {inner}' for key, inner in nested.items()) + "}"]
        self.classes.append("\n".join(lines))


# Sentences of the documents themselves, and of objects that no header describes.
SENTENCES = [(name, schemas.SCHEMAS[key][1]) for name, key in (
    ("PlanDocument", "plan"), ("ResultDocument", "result"), ("WhatIf", "what-if"), ("Change", "change"), ("Survival", "survival"),
    ("LongRunAnswer", "long-run"), ("OverTime", "over-time"), ("ObjectiveAnswer", "objective"), ("Observation", "observation"), ("Improvement", "improvement"))] + [
    ("Breakdown", "Where the time of a step goes, in seconds: the five parts sum to it"), ("MemoryBreakdown", "Bytes of the fullest rank, by what they hold"),
    ("Prediction", "What a plan is predicted to take"), ("Source", "A model or cluster, as a plan carries it"), ("SearchSummary", "What the search did, and what it proves"),
    ("Stage", "A stage: its devices in rank order, and its layers"), ("ImportedKeys", "How the keys of a configuration were interpreted"),
    ("PlanTraining", "The training of a plan: sequence length, global batch, precision and optimizer"), ("Edit", "One line of a diff"),
    ("PresentPlan", "The present plan, or the rules that it breaks"), ("BestPlan", "The best plan, or why no plan fits")]

# ---- words ----------------------------------------------------------------------------------------------------------


def names_in(path, section, indent="  "):
    """Returns the names of the items of a section of a YAML file of data/."""
    text = (ROOT / "data" / path).read_text(encoding="utf-8")
    body = re.split(rf"^{section}:$", text, flags=re.M)[1]
    body = re.split(r"^\S", body, flags=re.M)[0]
    return re.findall(rf"^{indent}- name: (\S+)$", body, re.M)


# Each list: the enumeration, its sentence, and its words. tests/python compares the formats with those of the program.
WORDS = [
    ("Device", "Names the devices of the catalogue (docs/devices.md)", names_in("devices.yaml", "devices")),
    ("Engine", "Names the engines, whose rules and memory policy a plan follows (docs/engines.md)", names_in("engines.yaml", "engines")),
    ("Precision", "Selects the number format of training", schemas.PRECISIONS),
    ("Optimizer", "Selects the optimizer; AdamW counts as adam, since it has the same states", schemas.OPTIMIZERS),
    ("ScheduleKind", "Selects the pipeline schedule", schemas.NAMED["schedule"]),
    ("SequenceParallel", "Selects how activations are split along the sequence", schemas.NAMED["sp"]),
    ("ContextParallel", "Selects how attention exchanges keys and values between context ranks", schemas.NAMED["cp_kind"]),
    ("RankOrder", "Selects the order in which ranks are numbered, innermost dimension first", schemas.NAMED["order"]),
    ("RecomputeKind", "Selects the activations that the backward pass computes again", schemas.NAMED["recompute"]),
    ("Offload", "Selects the states that host memory holds", schemas.NAMED["offload"]),
    ("Space", "Selects the space that a search covers", schemas.SPACES),
    ("StageDevices", "Selects the devices that stages may use", ("equal", "any", "all")),
    ("Network", "Selects the network model: each message alone on its links, or all traffic in flight shares them", ("closed", "flow")),
    ("Packing", "Selects how sequences are packed into samples", ("none", "packed", "balanced")),
    ("Status", "States why a search ended; `not searched` marks a prediction without a search",
     (*schemas.RESULT["properties"]["search"]["properties"]["reason"]["enum"], "not searched")),
    ("Launcher", "Names the launchers that start the processes of a run", ("torchrun", "sbatch", "mpirun", "kubeflow")),
    ("ExportFormat", "Names the formats that plans are written in",
     ("plan", "timeline", "megatron-core", "megatron-bridge", "accelerate-fsdp", "fsdp2-recipe", "deepspeed", "galvatron", "torchtitan",
      "torchtitan-recipe", "schedule-csv", "rank-map")),
    ("ConfigurationFormat", "Names the formats of training configurations that can be read",
     ("megatron-args", "torchtitan", "deepspeed", "accelerate")),
    ("ClusterFormat", "Names the descriptions of a cluster that can be read",
     ("nvidia-smi-topo", "nccl-xml", "slurm-hosts", "slurm-topology", "rocm-smi-topo", "nccl-tests")),
    ("TraceFormat", "Names the traces of nodes that join and leave", ("bamboo", "parcae", "sailor", "counts")),
]


ANSWERS = {"Status"}  # words that no function accepts


def member(word):
    """Returns the name of an enumeration's member: ONE_F_ONE_B for 1f1b."""
    name = {"1f1b": "ONE_F_ONE_B"}.get(word, re.sub(r"\W", "_", word).upper())
    return name if name.isidentifier() else "_" + name


def alias(name, words):
    """Returns the lines of NAMELike, at most 120 columns wide."""
    lines, line = [f"{name}Like = Union[{name}, Literal["], "   "
    for number, word in enumerate(words):
        part = f' "{word}"' + ("," if number + 1 < len(words) else "")
        if len(line) + len(part) > 116:
            lines.append(line)
            line = "   "
        line += part
    return [*lines, line, "]]"]


def words_text():
    out = ['# SPDX-License-Identifier: Apache-2.0', '"""The words that jobs, configurations and formats use, as enumerations. Generated by scripts/python_types.py from',
           "scripts/schemas.py and the catalogues of data/: change those.", "",
           "Every member is also a string. Functions also accept the word itself: a type checker completes and checks both.", '"""',
           "from __future__ import annotations", "", "import enum", "from typing import Literal, Union", "", "__all__ = ["]
    out += [f'    "{name}",' for name in sorted([name for name, _, _ in WORDS] + [name + "Like" for name, _, _ in WORDS if name not in ANSWERS])] + ["]", ""]
    out += ["", "class _Word(str, enum.Enum):", '    """A word that is also a string."""', "", "    def __str__(self) -> str:", "        return str(self.value)"]
    for name, sentence, words in WORDS:
        out += ["", "", f"class {name}(_Word):", f'    """{sentence}."""', "", *(f'    {member(word)} = "{word}"' for word in words)]
        out += ["", "", *alias(name, words)] if name not in ANSWERS else []
    return "\n".join([*out, ""])


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
    files = {OUT: text(), WORDS_OUT: words_text()}
    if sys.argv[1:] == ["--write"]:
        for path, content in files.items():
            path.write_text(content, encoding="utf-8")
        return 0
    if sys.argv[1:] != ["--check"]:
        print(__doc__, file=sys.stderr)
        return 2
    stale = [path for path, content in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != content]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what the tables say: scripts/python_types.py --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
