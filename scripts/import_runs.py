#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies published training runs into data/runs and curates them. Records stay as they are, without null fields, one
a line, in stable key order. Facts in their text become fields.

usage: import_runs.py FROM [TO]       FROM: a folder of *.jsonl with the fields of docs/file-formats.md, "Measured runs"
       import_runs.py --check [DIR]   check that curating the records of DIR again (default data/runs) changes none
       import_runs.py --plain FILE    the records of FILE as they were before curation, on standard output

Curation adds four fields and changes no other; `curated` names each added field and the words that it is based on:

  techniques              names of docs/file-formats.md in the framework, table, notes or recompute field, or switches
                          of `extra`
  adapter                 rank and targets of LoRA, assumed as the framework's examples have them
  release                 of the framework, where the table or the framework field names it
  measured.memory_kind    allocated, reserved or nvidia-smi, where only the notes state how a peak was taken.

The program reads fields alone, so a record of others is curated before it is validated.

Sources whose licence prevents shipping are left out of data/runs by name (see data/README.md); curate them into
another folder, and give that to `./dev accuracy --data`.
"""
import json
import pathlib
import re
import sys

RUNS = pathlib.Path(__file__).resolve().parent.parent / "data" / "runs"

# Share-alike, or with a licence that was not read.
NOT_SHIPPED = ("playbook", "stas00")

# Technique, the words that name it, the fields in which they count.
TECHNIQUES = (
    ("lora", ("lora", "qlora"), ("framework", "table", "notes")),
    ("compile", ("torch.compile", "torch compile"), ("framework", "table", "notes")),
    ("hsdp", ("hsdp",), ("framework", "notes")),
    ("deepep", ("deepep", "hybridep"), ("notes",)),
    ("offload", ("offload",), ("notes", "recompute")),
    ("packed", ("packed",), ("notes",)),
)
BEFORE = re.compile(r"(?:^|[^a-z])(?:no |not |non-|without |w/o |not using |no-)$")
AFTER = (" off", "=off", ": off", "=false", ": false", "=0", " disabled", ": no")
MEMORY_KINDS = (("nvidia-smi", ("nvidia-smi", "nvidia smi", "nvml", "rocm-smi")), ("reserved", ("reserved",)), ("allocated", ("alloc",)))


def says(text, words):
    """Returns the position of a word that no neighbouring word negates ("without torch.compile", "LoRA:
    off"); -1: none."""
    small = text.lower()
    for word in words:
        at = small.find(word)
        while at >= 0:
            begun = at == 0 or not ("a" <= small[at - 1] <= "z")  # "hsdp" is not in "TorchSDPA"
            if begun and not BEFORE.search(small[max(0, at - 12):at]) and not small[at + len(word):].startswith(AFTER):
                return at
            at = small.find(word, at + 1)
    return -1


def sentence(text, at):
    """Returns the clause of the text around a position."""
    begin = max(text.rfind(";", 0, at), text.rfind(". ", 0, at)) + 1
    ends = [e for e in (text.find(";", at), text.find(". ", at)) if e >= 0]
    return text[begin:min(ends, default=len(text))].strip(" .")[:120]


def switches(extra):
    """Returns techniques that a typed value of `extra` switches on or off, with its key."""
    out = {}
    for key in ("compile", "torch_compile"):
        if isinstance(extra.get(key), bool):
            out["compile"] = (extra[key], f"extra.{key}")
    recipe = extra.get("recipe")
    layers = recipe.get("cpu_offloading_num_layers") if isinstance(recipe, dict) else None
    if extra.get("act_cpu_offload") is True:
        out["offload"] = (True, "extra.act_cpu_offload")
    elif isinstance(layers, int) and not isinstance(layers, bool) and layers > 0:
        out["offload"] = (True, "extra.recipe.cpu_offloading_num_layers")
    return out


def options_of(record):
    """Returns engine options (data/engines.yaml) that a Megatron-Bridge recipe switches on, with the key. Graphs
    without attn in their scope replay only the router, which no option is."""
    extra = record.get("extra")
    recipe = extra.get("recipe") if isinstance(extra, dict) else None
    if not isinstance(recipe, dict):
        return {}
    out = {}
    if recipe.get("moe_flex_dispatcher_backend") in ("deepep", "hybridep"):
        out["flex-dispatcher"] = "extra.recipe.moe_flex_dispatcher_backend"
    if recipe.get("moe_a2a_overlap") is True:
        out["overlap-experts"] = "extra.recipe.moe_a2a_overlap"
    scope = recipe.get("cuda_graph_scope")
    if recipe.get("cuda_graph_impl") == "transformer_engine" and isinstance(scope, list) and "attn" in scope and "moe_router" in scope:
        out["moe-graphs"] = "extra.recipe.cuda_graph_scope"
    if recipe.get("cuda_graph_impl") == "full_iteration":
        out["cuda-graphs"] = "extra.recipe.cuda_graph_impl"
        out["fused-experts"] = "extra.recipe.cuda_graph_impl"
    elif recipe.get("cutedsl_fused_grouped_mlp") is True:
        out["fused-experts"] = "extra.recipe.cutedsl_fused_grouped_mlp"
    modules = recipe.get("recompute_modules")
    if isinstance(modules, list) and any(m in modules for m in ("mla_up_proj", "moe_act", "layernorm")):
        out["recompute-modules"] = "extra.recipe.recompute_modules"
    return out


def techniques_of(record):
    """Returns technique -> the words that it is based on, in the order of the table."""
    extra = record.get("extra")
    switched = switches(extra) if isinstance(extra, dict) else {}
    out = {}
    for name, words, fields in TECHNIQUES:
        if name in switched:
            on, key = switched[name]
            if on:
                out[name] = key
            continue
        for field in fields:
            text = record.get(field)
            at = says(text, words) if isinstance(text, str) else -1
            if at >= 0:
                out[name] = f"{field}: {sentence(text, at)}"
                break
    return out


# Framework (beginning, in lower case) -> adapters of its examples, with their source; "": any other.
ADAPTERS = {
    "nemo automodel": {"rank": 8, "targets": ["all-linear"],
                       "source": "LoRA among the record's techniques; assumed: nemo_automodel's examples/llm_finetune, peft: dim 8, target_modules *_proj"},
    "": {"rank": 8, "targets": ["linear_qkv"],
         "source": "LoRA among the record's techniques; assumed: NeMo's recipes, llama3_8b.finetune_recipe: dim 8, target_modules [linear_qkv] in performance mode"},
}


def adapter_of(record, techniques):
    """Returns (adapter, its words) of a record that trains adapters without saying which; None otherwise."""
    if "lora" not in techniques or "adapter" in record:
        return None
    framework = str(record.get("framework", "")).lower()
    return next(adapter for name, adapter in ADAPTERS.items() if framework.startswith(name)), "techniques: lora"


RELEASES = (("table", re.compile(r"^(\d+(?:\.\d+)+) container\b")), ("framework", re.compile(r"^NeMo ?(\d\d\.\d\d(?:\.\d\d)?)")))


def release_of(record):
    """Returns (release, its words) where the record names that of its framework; None otherwise."""
    if "release" in record:
        return None
    for field, pattern in RELEASES:
        text = record.get(field)
        found = pattern.match(text) if isinstance(text, str) else None
        if found:
            return found.group(1), f"{field}: {found.group(0)}"
    return None


def memory_kind_of(record):
    """Returns (kind, its words) if only the notes state how the peak was taken; None otherwise."""
    extra = record.get("extra") if isinstance(record.get("extra"), dict) else {}
    stated = [record.get("measured", {}).get("memory_kind")] + [extra.get(k) for k in ("mem_kind", "peak_mem_kind", "memory_kind")]
    notes = record.get("notes")
    if any(isinstance(s, str) and s for s in stated) or not isinstance(notes, str):
        return None
    clauses = [c for c in re.split("[;.]", notes) if any(w in c.lower() for w in ("memory", "peak_mem", "nvidia-smi"))]
    said = "".join(clauses).lower()
    for kind, words in MEMORY_KINDS:
        if any(word in said for word in words):
            return kind, f"notes: {'; '.join(c.strip() for c in clauses)[:120]}"
    return None


def without_nulls(value):
    if isinstance(value, dict):
        cleaned = {k: without_nulls(v) for k, v in value.items() if v is not None}
        return {k: v for k, v in cleaned.items() if v != {}}
    return value


def plain(record):
    """Returns a record before its curation, without the fields that `curated` names."""
    record = dict(record)
    added = record.pop("curated", {})
    for field in ("techniques", "adapter", "release"):
        if field in added:
            record.pop(field, None)
    if "measured.memory_kind" in added:
        record["measured"] = {k: v for k, v in record["measured"].items() if k != "memory_kind"}
    return record


def curated(record):
    """Returns the record with the facts of its text as fields. An existing list of techniques is the author's own,
    and nothing is added."""
    record = without_nulls(plain(record))
    if "techniques" in record:
        return record
    techniques = techniques_of(record) | options_of(record)
    record["techniques"] = list(techniques)
    provenance = {"techniques": techniques}
    for field, found in (("adapter", adapter_of(record, techniques)), ("release", release_of(record))):
        if found:
            record[field], provenance[field] = found
    memory = memory_kind_of(record)
    if memory:
        record["measured"] = {**record.get("measured", {}), "memory_kind": memory[0]}
        provenance["measured.memory_kind"] = memory[1]
    record["curated"] = provenance
    return record


def records_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def text_of(records):
    return "".join(json.dumps(r, separators=(",", ":"), ensure_ascii=False) + "\n" for r in records)


def check(folder):
    changed = [path.name for path in sorted(folder.glob("*.jsonl")) if text_of(map(curated, records_of(path))) != path.read_text()]
    for name in changed:
        print(f"{name}: not as curation writes it; run scripts/import_runs.py {folder} {folder}")
    return 1 if changed else 0


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--check":
        sys.exit(check(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else RUNS))
    if sys.argv[1] == "--plain":
        sys.stdout.write(text_of(map(plain, records_of(pathlib.Path(sys.argv[2])))))
        return
    target = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
        if target.resolve() == RUNS and any(word in path.name for word in NOT_SHIPPED):
            print(f"{path.name}: not shipped")
            continue
        records = [curated(r) for r in records_of(path)]
        (target / path.name).write_text(text_of(records))
        named = sum(bool(r["curated"]["techniques"]) for r in records if "curated" in r)
        print(f"{path.name}: {len(records)} records, {named} with techniques")


if __name__ == "__main__":
    main()
