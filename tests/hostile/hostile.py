#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates hostile inputs for every file that Espalier reads (nothing large or binary is kept in the repository).

    tests/hostile/hostile.py DIRECTORY      writes all of them, one folder a kind

`cases(kind, directory)` yields Case values for kind in KINDS. Some cases must be rejected with exit code 3, a place
and a hint (`refused`). The others may be accepted or rejected, but must end in an orderly way.
"""
import dataclasses
import json
import os
import pathlib
import random
import sys

KINDS = ("model", "cluster", "job", "plan", "runs")
MEGABYTE = 1 << 20


@dataclasses.dataclass
class Case:
    name: str
    path: str
    refused: bool = True   # exit code 3 (a plan may also fail its check: 5)
    located: bool = True   # the message must hold line:column or a JSON path; else the path of the file is enough


MODEL = {
    "architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "hidden_size": 256, "intermediate_size": 768,
    "max_position_embeddings": 2048, "model_type": "llama", "num_attention_heads": 8, "num_hidden_layers": 4,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False, "vocab_size": 2048,
}
CLUSTER = {
    "nodes": 2, "devices_per_node": 4, "device": "v100-sxm-32gb", "memory_limit": "16GiB",
    "inter_node": {"bandwidth": "100Gb/s", "nics_per_node": 1, "latency": "5us"},
}
JOB = {
    "model": MODEL, "cluster": CLUSTER,
    "training": {"sequence_length": 1024, "global_batch": 16, "precision": "fp16", "optimizer": "adam"},
    "engine": "generic", "search": {"space": "uniform", "fix": {"tp": 2}, "limits": {"pp": 2}},
}
RUN = {
    "id": "a", "source": "hostile", "model": {"name": "m", "layers": 4, "hidden": 256, "ffn": 768, "heads": 8, "kv_heads": 4,
                                             "vocab": 2048}, "seq": 1024,
    "gpu": {"type": "v100-sxm-32gb", "mem_gb": 32, "count": 8, "per_node": 4}, "interconnect": {"intra": "NVLink", "inter": "100Gb/s"},
    "tp": 2, "pp": 2, "dp": 2, "cp": 1, "ep": 1, "vpp": 1, "sp": False, "zero_stage": 0, "fsdp": False, "recompute": "none",
    "microbatch": 1, "global_batch": 16, "precision": "fp16", "schedule": "1f1b", "framework": "megatron-lm", "status": "ok",
    "measured": {"iteration_s": 1.5},
}

# Fields that must reject all nonsense, by kind: the path of the key.
STRICT = {
    "model": [("hidden_size",), ("num_hidden_layers",), ("num_attention_heads",), ("vocab_size",), ("intermediate_size",)],
    "cluster": [("nodes",), ("devices_per_node",), ("memory_limit",), ("inter_node", "bandwidth"), ("inter_node", "latency"),
                ("inter_node", "nics_per_node"), ("device",)],
    "job": [("training", "sequence_length"), ("training", "global_batch"), ("training", "precision"), ("engine",),
            ("search", "fix", "tp"), ("search", "limits", "pp"), ("search", "space"), ("cluster", "nodes"),
            ("model", "hidden_size"), ("training",), ("search",), ("cluster",)],
    "plan": [("schema",), ("training", "global_batch"), ("pipelines",), *(("pipelines", 0, *path) for path in (
        ("samples",), ("schedule", "microbatches"), ("schedule", "micro_batch"), ("schedule", "kind"), ("stages",),
        ("stages", 0, "layers", 0, "first"), ("stages", 0, "layers", 0, "strategy", "tp"), ("stages", 0, "layers", 0, "strategy", "zero"),
        ("stages", 0, "devices")))],
    "runs": [("tp",), ("seq",), ("model", "layers"), ("measured", "iteration_s"), ("gpu", "count"), ("global_batch",)],
}
# Written into the strict fields as raw JSON. None of these values is valid for any of these fields.
NONSENSE = {
    "negative": "-1", "huge": "1e300", "huger": "1" + "0" * 400, "beyond-64-bit": "99999999999999999999", "nan": "NaN",
    "infinity": "Infinity", "minus-infinity": "-Infinity", "fraction": "0.5e-7", "flag": "true", "word": "\"nonsense\"",
    "list-of-words": "[\"nonsense\"]", "mapping": "{\"nonsense\": 1}",
}
# Read leniently where a format allows it (docs/file-formats.md): accepted or rejected, but orderly. A list or mapping
# in a run is one value per stage or sequence. Such a record is skipped with its reason, not rejected.
LENIENT = {("runs", name) for name in ("fraction", "flag", "beyond-64-bit", "list-of-words", "mapping")}


def valid(kind, plan=None):
    """Returns the good document that the hostile ones are made from."""
    return {"model": MODEL, "cluster": CLUSTER, "job": JOB, "plan": plan, "runs": RUN}[kind]


def with_raw(document, path, raw):
    """Returns the document as JSON with the value at `path` replaced by the text `raw`."""
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = "@@raw@@"
    return json.dumps(copy).replace("\"@@raw@@\"", raw)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def write_repeated(path, head, block, tail, size):
    """Writes a file of `size` bytes without holding it in memory."""
    with open(path, "wb") as file:
        file.write(head)
        block = block * (MEGABYTE // len(block) + 1)
        written = len(head)
        while written < size:
            file.write(block)
            written += len(block)
        file.write(tail)
    return path


def broken_text(kind, document):
    """Yields files that are wrong before any field is read."""
    text = json.dumps(document)
    yield "empty", "", True
    yield "blank", " \n\t\n", True
    for share in (0.1, 0.5, 0.9):
        yield f"truncated-{share}", text[: int(len(text) * share)], True
    yield "truncated-by-one", text[:-1], True
    yield "duplicate-key", text[:-1] + ', "%s": 1}' % next(iter(document)), True
    yield "nested-lists", "[" * 10000 + "]" * 10000, True
    yield "nested-mappings", '{"a": ' * 10000 + "1" + "}" * 10000, True
    yield "nested-open", "[" * 10000, True
    yield "nested-value", with_raw(document, (next(iter(document)),), "[" * 10000 + "]" * 10000), True
    yield "top-is-list", "[%s]" % text, True
    yield "top-is-number", "17", True
    yield "top-is-null", "null", True
    yield "top-is-text", '"text"', True
    yield "two-documents", text + "}" + text, True
    yield "bad-utf-8", text.replace(next(iter(document)), "\udcff").encode("utf-8", "surrogateescape"), True
    yield "utf-16", text.encode("utf-16"), True
    yield "nul-bytes", text.replace(" ", "\0"), True
    yield "trailing-nul", text + "\0", True
    yield "long-key", '{"%s": 1}' % ("k" * (2 * MEGABYTE)), True
    yield "long-text", with_raw(document, (next(iter(document)),), '"%s"' % ("x" * (2 * MEGABYTE))), True
    # A record may lack any field.
    yield "many-keys", "{" + ",".join(f'"k{i}": {i}' for i in range(50000)) + "}", kind != "runs"
    yield "noise", random.Random(1).randbytes(4096), True
    if kind in ("cluster", "job"):
        yield "yaml-aliases", "a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", True
        yield "yaml-tag", "nodes: !!python/object:os.system 1\n", True
        yield "yaml-documents", text + "\n---\n" + text, True
        yield "yaml-dashes", "- " * 10000, True
        yield "yaml-indent", "".join(" " * i + f"k{i}:\n" for i in range(1500)), True
        yield "yaml-tab", "nodes: 1\n\tdevice: x\n", True
        yield "unknown-key", text[:-1] + ', "nodess": 1}', True


def bent_fields(kind, document):
    """Yields good files with one field of the wrong size or type."""
    for path in STRICT[kind]:
        for name, raw in NONSENSE.items():
            yield "-".join(map(str, path)) + "." + name, with_raw(document, path, raw), (kind, name) not in LENIENT


def leaves(value, path=()):
    """Yields the paths of all numbers and flags of a document."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from leaves(member, (*path, key))
    elif isinstance(value, (int, float)):
        yield path


def bent_families():
    """Yields one small configuration of each form of model, from the fuzzer's corpus, with every number wrong in
    turn: accepted or rejected, but orderly."""
    folder = pathlib.Path(__file__).parents[1] / "fuzz/corpus/model"
    for file in sorted(folder.glob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        for path in leaves(document):
            for name in ("negative", "beyond-64-bit", "fraction", "mapping"):
                yield f"{file.stem}.{'-'.join(path)}.{name}", with_raw(document, path, NONSENSE[name])
            yield f"{file.stem}.{'-'.join(path)}.large", with_raw(document, path, "16777216")


def large_files(kind, directory):
    suffix = "jsonl" if kind == "runs" else "json"
    size = 100 * MEGABYTE
    one_line = write_repeated(f"{directory}/large-list.{suffix}", b'{"a": [0', b",0", b"]}", size)
    yield Case("large-list", one_line, located=kind == "runs")
    spaces = write_repeated(f"{directory}/large-blank.{suffix}", b"", b" ", b"{}", size)
    yield Case("large-blank", spaces, located=kind == "runs")
    lines = write_repeated(f"{directory}/large-lines.{suffix}", b"", b"{}\n", b"", size)
    yield Case("large-lines", lines, located=kind == "runs")


def cases(kind, directory, plan=None):
    document = valid(kind, plan)
    suffix = "jsonl" if kind == "runs" else "json" if kind in ("model", "plan") else "yaml"
    for name, data, refused in broken_text(kind, document):
        yield Case(name, write(f"{directory}/{name}.{suffix}", data), refused)
    for name, data, refused in bent_fields(kind, document):
        yield Case(name, write(f"{directory}/{name}.{suffix}", data), refused)
    for name, data in bent_families() if kind == "model" else ():
        yield Case(name, write(f"{directory}/{name}.{suffix}", data), refused=False)
    yield from large_files(kind, directory)
    os.makedirs(f"{directory}/folder.{suffix}", exist_ok=True)
    yield Case("folder", f"{directory}/folder.{suffix}", located=False)
    yield Case("missing", f"{directory}/missing.{suffix}", located=False)


def main():
    for kind in KINDS:
        if kind == "plan":
            continue  # needs a planned plan; tests/cli/hostile.py makes one
        os.makedirs(f"{sys.argv[1]}/{kind}", exist_ok=True)
        for case in cases(kind, f"{sys.argv[1]}/{kind}"):
            print(case.path)


if __name__ == "__main__":
    main()
