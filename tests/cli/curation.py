#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests curated records: scripts/import_runs.py changes none of the shipped ones, and the program reads their fields,
not their text.

usage: curation.py ESPALIER_BINARY REPOSITORY
"""
import json
import pathlib
import subprocess
import sys
import tempfile

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
sys.path.insert(0, str(root / "scripts"))
import import_runs as curation  # noqa: E402

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def validated(path):
    done = subprocess.run([binary, "validate", str(path), "--json", "--threads", "2"], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"validate {path.name}: exit {done.returncode}, {done.stderr[:200]}")
    return json.loads(done.stdout)


# Written by hand: the sentence of each added field, and no field where the text states nothing.
RAW = [
    {"id": "a", "table": "Finetuning LLAMA2-7B LoRA", "notes": "kernels TE + DeepEP + TorchSDPA; seq 4096"},
    {"id": "b", "notes": "without torch.compile; peak memory = max RESERVED", "measured": {"peak_mem_gb": 3}},
    {"id": "c", "notes": "torch.compile", "extra": {"compile": False, "act_cpu_offload": True}},
    {"id": "d", "techniques": ["hsdp"], "notes": "LoRA"},
    {"id": "e", "extra": {"recipe": {"moe_flex_dispatcher_backend": "hybridep", "moe_a2a_overlap": False, "cuda_graph_impl": "transformer_engine",
                                     "cuda_graph_scope": ["attn", "moe_router"]}}},
    {"id": "f", "notes": "SQuAD packed to 4096; dropped"},
    {"id": "g", "table": "26.02.01 container, Pre-Training Performance"},
    {"id": "h", "framework": "NeMo 24.07", "release": "24.07.1"},
    {"id": "i", "framework": "NeMo AutoModel", "notes": "LoRA"},
]
WANTED = [
    (["lora", "deepep"], {"techniques": {"lora": "table: Finetuning LLAMA2-7B LoRA", "deepep": "notes: kernels TE + DeepEP + TorchSDPA"},
                          "adapter": "techniques: lora"}, None),
    ([], {"techniques": {}, "measured.memory_kind": "notes: peak memory = max RESERVED"}, "reserved"),
    (["offload"], {"techniques": {"offload": "extra.act_cpu_offload"}}, None),
    (["hsdp"], None, None),
    (["flex-dispatcher", "moe-graphs"], {"techniques": {"flex-dispatcher": "extra.recipe.moe_flex_dispatcher_backend",
                                                        "moe-graphs": "extra.recipe.cuda_graph_scope"}}, None),
    (["packed"], {"techniques": {"packed": "notes: SQuAD packed to 4096"}}, None),
    ([], {"techniques": {}, "release": "table: 26.02.01 container"}, None),
    ([], {"techniques": {}}, None),
    (["lora"], {"techniques": {"lora": "notes: LoRA"}, "adapter": "techniques: lora"}, None),
]
for raw, (techniques, provenance, kind) in zip(RAW, WANTED):
    record = curation.curated(raw)
    expect(record["techniques"] == techniques, f"{raw['id']}: techniques {record['techniques']}")
    expect(record.get("curated") == provenance, f"{raw['id']}: {record.get('curated')}")
    expect(record.get("measured", {}).get("memory_kind") == kind, f"{raw['id']}: memory kind")
    expect(curation.curated(record) == record, f"{raw['id']}: curated twice")
    adapter = curation.ADAPTERS["nemo automodel" if raw["id"] == "i" else ""] if "lora" in techniques else None
    expect(record.get("adapter") == adapter, f"{raw['id']}: adapter {record.get('adapter')}")
    expect(curation.plain(record) == raw, f"{raw['id']}: curation touched another field: {curation.plain(record)}")

# Shipped records are as curation writes them, and their text does not reach a prediction.
expect(curation.check(curation.RUNS) == 0, "data/runs is not as scripts/import_runs.py writes it")
with tempfile.TemporaryDirectory() as folder:
    for path in sorted(curation.RUNS.glob("*.jsonl")):
        silent = pathlib.Path(folder) / path.name
        silent.write_text(curation.text_of({**record, "notes": "QLoRA, torch.compile, CPU offload", "curated": {}} for record in curation.records_of(path)))
        expect(validated(silent) == validated(path), f"{path.name}: notes change a prediction")

for failure in failures:
    print(f"FAIL {failure}", file=sys.stderr)
sys.exit(1 if failures else 0)
