#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the JSON schemas of docs/schema/, all from this one place, and the table of counters in docs/file-formats.md.

usage: schemas.py --write | --check      write docs/schema/<name>.schema.json and the table, or report which differ

To add a key: one line in the table of its object below, then --write. Objects that people write (a job and its parts)
are closed: an unknown key is a mistake. Documents that Espalier writes are open: later versions add keys.
tests/cli/schemas.py compares the closed objects with the keys that the program expects. It also checks every example,
and the documents made of it, against all of this.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "schema"
# Options that take a number are left out: a record cannot state it.
ENGINE_OPTIONS = sorted(set(re.findall(r"^      - name: (\S+)$(?!\n        note: .*\n        sets: )", (ROOT / "data/engines.yaml").read_text(encoding="utf-8"), re.M)))

# ---- building blocks ------------------------------------------------------------------------------------------------

TEXT, YES_NO, ANY = {"type": "string"}, {"type": "boolean"}, {}
BYTES = {"type": "integer", "minimum": 0, "description": "bytes"}
SECONDS = {"type": "number", "minimum": 0, "description": "seconds, nine digits"}
COUNT = {"type": "number", "minimum": 0}
WHOLE = {"type": "integer", "minimum": 0}
POSITIVE = {"type": "integer", "minimum": 1}


def one_of(*words, **more):
    return {"enum": list(words), **more}


def either(*schemas, **more):
    return {"anyOf": list(schemas), **more}


def array(items, **more):
    return {"type": "array", "items": items, **more}


def mapping(values, **more):
    """Returns an object with any keys and values of one kind."""
    return {"type": "object", "additionalProperties": values, **more}


def open_object(properties, required=(), **more):
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {}), **more}


def closed_object(properties, required=(), **more):
    return open_object(properties, required, additionalProperties=False, **more)


def or_null(schema):
    return either(schema, {"type": "null"})


def described(schema, text, **more):
    return {**schema, "description": text, **more}


# ---- the job --------------------------------------------------------------------------------------------------------

COUNTING = ("tp", "cp", "ep", "etp", "dp", "pp", "vpp", "micro_batch", "zero", "shard", "recompute_layers")
NAMED = {"sp": ("none", "megatron", "ulysses"), "cp_kind": ("ring", "all-to-all"),
         "schedule": ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "zb-h2"),
         "order": ("tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp"), "recompute": ("none", "selective", "full"),
         "offload": ("none", "optimizer", "activations", "optimizer+activations", "parameters", "parameters+activations")}
SWITCHES = ("overlap_grad", "overlap_param", "overlap_p2p", "overlap_tp")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4")
OPTIMIZERS = ("adam", "sgd")
SPACES = ("uniform", "layerwise", "spatial_temporal", "full")

WORDS = {name: one_of(*words) for name, words in NAMED.items()}
DIMENSIONS = {**{name: WHOLE for name in COUNTING}, **WORDS, **{name: YES_NO for name in SWITCHES}}
MODULES = ("core_attn", "layernorm", "act", "mlp", "moe", "moe_act", "mla_up_proj", "shared_experts", "every_second_mm", "grouped_mm")
FIXED = {**DIMENSIONS, "recompute": either(TEXT, array(one_of(*MODULES), minItems=1), description="none, selective, full, or modules of a block "
                                                                                                  "that run again: a list, or layernorm,moe_act")}
# A space may also list every set of modules as one value.
SPACE_VALUES = {**DIMENSIONS, "recompute": either(WORDS["recompute"], {"const": "modules"})}
VALUES = {name: either(value, array(value, minItems=1)) for name, value in SPACE_VALUES.items()}

SEQUENCE = either(POSITIVE, closed_object({"encoder": POSITIVE, "decoder": POSITIVE}, ("encoder", "decoder")),
                  closed_object({"main": POSITIVE, "encoder": described(POSITIVE, "patches of all images of a sample"),
                                 "sound": described(POSITIVE, "tokens of a sample's recordings, beside images")}, ("main",)),
                  description="tokens per sample; absent for vision models")

ADAPTER = closed_object({"kind": one_of("lora", default="lora"), "rank": POSITIVE, "alpha": {"type": "number", "minimum": 0},
                         "targets": array(TEXT, minItems=1, description="operators or projections: attn.qkv, q_proj, all-linear"),
                         "quantize_base": one_of("none", "nf4", "int8", default="none")}, ("rank", "targets"))
FREEZE = array(TEXT, description="parts that are not trained: embedding, head, tower, projector, layers 0-15")
HISTOGRAM = array(array({"type": "number"}, minItems=2, maxItems=2), minItems=1, description="pairs of tokens and weight")
PACKING = one_of("none", "packed", "balanced", default="none")
LENGTHS = closed_object({"histogram": either(TEXT, HISTOGRAM), "packing": PACKING}, ("histogram",))

TRAINING = closed_object({
    "sequence_length": SEQUENCE,
    "images_per_sample": described(POSITIVE, "images of a sample, of models with a tower"),
    "global_batch": described(POSITIVE, "samples per step"),
    "precision": one_of(*PRECISIONS, default="bf16"),
    "optimizer": one_of(*OPTIMIZERS, "adamw", default="adam"),
    "moe_imbalance": {"type": "number", "minimum": 1, "default": 1.0, "description": "load of the fullest expert rank over the mean"},
    "tokens": described(COUNT, "tokens of the whole training"),
    "adapter": described(ADAPTER, "low-rank adapters beside frozen weights"),
    "freeze": FREEZE,
    "lengths": described(LENGTHS, "of how many tokens the sequences are of which samples are made"),
}, ("global_batch",))

SEARCH = closed_object({
    "space": one_of(*SPACES, default="uniform", description="uniform: one strategy for all layers; layerwise: one for each layer; "
                    "spatial_temporal: uniform with partitions of operators; full: layerwise with them; each as far as the engine can vary it"),
    "devices": one_of("equal", "any", "all", description="equal: all stages on equally many devices of one kind; any: stages on groups of unlike "
                      "devices, some left out; all: the same, none left out; default: equal on one node group, any on several"),
    "fix": described(closed_object(FIXED), "dimension: value"),
    "allow": described(closed_object(VALUES), "dimension: value or list of values"),
    "forbid": described(closed_object(VALUES), "dimension: value or list of values"),
    "limits": described(closed_object({name: WHOLE for name in COUNTING}), "counting dimension: largest value"),
    "recompute_modules": described(either(TEXT, array(one_of(*MODULES), minItems=1)), "what recompute: selective means; default: what it means under the engine"),
    "memory_margin": {"type": "number", "minimum": 0, "maximum": 0.9, "description": "share of the memory limit that plan leaves free; "
                      "default: the error of the memory model for the engine and device"},
    "objective": described(closed_object({"minimise": one_of("time", "cost"), "budget_per_step": {"type": "number", "minimum": 0},
                                          "deadline": TEXT}), "what the plan shall be best at, over the sizes of the cluster"),
})

# Short and full form of a run of equal nodes, and several of them. The program's own reader checks the inside of a
# device or a fabric level, since it has the units and catalogue names.
PRICE = {"type": "number", "minimum": 0}
TRAITS = {
    "site": described(TEXT, "where the nodes stand"),
    "price_per_device_hour": PRICE,
    "nic": either(TEXT, array(TEXT, minItems=1), description="kinds of network interface: infiniband, ethernet, …"),
    "speed": {"type": "object", "additionalProperties": {"type": "number", "minimum": 1e-6, "maximum": 100},
              "description": "node:3 or rank:17, numbered through the whole cluster, to its speed relative to its kind"},
}
GROUP = {
    "name": TEXT,
    "nodes": POSITIVE,
    "devices_per_node": POSITIVE,
    "gpus_per_node": described(POSITIVE, "another word for devices_per_node"),
    "device": either(TEXT, {"type": "object"}, description="a name of the catalogue, {base: NAME, …}, or a description"),
    "intra_node": either(TEXT, {"type": "object"}),
    "inter_node": {"type": "object"},
    "host": either(TEXT, closed_object({"memory": TEXT, "memory_bandwidth": TEXT, "bandwidth": TEXT, "kernel_launch": TEXT}),
                   description="of one node: a name of the catalogue, or figures; bandwidth: what one device reaches to its memory, per direction, while "
                               "all talk; kernel_launch: what a bare launch takes"),
    "fabric": array({"type": "object"}, minItems=1),
    "memory_limit": described(TEXT, "36GiB: caps what a plan may use of each device, of the whole cluster or of one group"),
    **TRAITS,
}
SHARING = one_of("line", "node", "node_pair", description="who shares the bandwidth of a link")
LINK = closed_object({"from": TEXT, "to": TEXT, "bandwidth": TEXT, "latency": TEXT, "sharing": SHARING, "both": YES_NO},
                     ("from", "to", "bandwidth"))
ENTRY = closed_object({"from": TEXT, "to": TEXT, "gbps": PRICE, "delay_ms": PRICE}, ("from", "to", "gbps", "delay_ms"))
CAPACITY_ROW = closed_object({"time_s": PRICE, "link": TEXT, "factor": PRICE}, ("time_s", "link", "factor"))
TOKEN_BUCKET = closed_object({"link": TEXT, "token_bucket": closed_object({"full": TEXT, "sustained": TEXT, "bucket": TEXT},
                                                                           ("full", "sustained", "bucket"))}, ("link", "token_bucket"))
EVENT = closed_object({"time_s": PRICE, "event": one_of("join", "leave", "slow", "link", "route"), "target": TEXT,
                       "value": {"type": ["number", "string", "null"]}}, ("time_s", "event", "target"))
CLUSTER = closed_object({
    **GROUP,
    "groups": array(closed_object(GROUP, ("nodes", "device")), minItems=1),
    "inter_group": {"type": "object"},
    "links": array(LINK, minItems=1),
    "matrix": either(TEXT, array(ENTRY, minItems=1), description="a CSV file beside the cluster file, or its rows"),
    "sharing": SHARING,
    "egress_price_per_GB": {"type": "object", "additionalProperties": PRICE, "description": "a-b: price of 10^9 bytes from a to b"},
    "currency": TEXT,
    "capacity": either(TEXT, TOKEN_BUCKET, array(either(TEXT, CAPACITY_ROW, TOKEN_BUCKET)),
                       description="a CSV file beside the cluster file, or rows: capacity of links over time"),
    "events": either(TEXT, array(either(TEXT, EVENT)), description="a CSV file beside the cluster file, or its rows"),
    "segment": described(POSITIVE, "nodes of each NVLink domain that the job occupies"),
})

JOB = closed_object({
    "model": either(TEXT, open_object({"model_type": TEXT}, ("model_type",)), description="a Hugging Face config.json: its path, or its content"),
    "cluster": either(TEXT, CLUSTER, description="a cluster file: its path, or its content"),
    "training": TRAINING,
    "profile": either(TEXT, {"type": "object"}, description="what `espalier profile` measured: its path, or its content; not beside calibration"),
    "calibration": either(TEXT, {"type": "object"}, description="a calibration that `espalier calibrate` wrote: its path, or its content"),
    "engine": described(TEXT, "whose rules and memory policy hold", default="generic"),
    "search": SEARCH,
}, ("model", "cluster", "training"))

# ---- the plan -------------------------------------------------------------------------------------------------------

STRATEGY = open_object({
    **{name: POSITIVE for name in ("tp", "cp", "ep", "etp", "dp", "shard")}, "zero": {"type": "integer", "minimum": 0, "maximum": 3},
    "sp": WORDS["sp"], "cp_kind": WORDS["cp_kind"], "order": WORDS["order"],
    "recompute": open_object({"kind": WORDS["recompute"], "layers": WHOLE, "modules": array(one_of(*MODULES))}, ("kind", "layers")),
    "overlap": open_object({name: YES_NO for name in ("grad_reduce", "param_gather", "p2p", "tp", "ep")}, ("grad_reduce", "param_gather", "p2p", "tp")),
    "offload": WORDS["offload"],
    "partition": or_null(either(TEXT, {"type": "object"})),
}, ("tp", "sp", "cp", "cp_kind", "ep", "etp", "dp", "zero", "shard", "order", "recompute", "overlap"))

SOURCE = open_object({"name": TEXT, "hash": TEXT, "summary": TEXT, "source": either(TEXT, {"type": "object"})}, ("name", "hash"))

SCHEDULE = open_object({"kind": WORDS["schedule"], "virtual_stages": POSITIVE, "microbatches": POSITIVE, "micro_batch": WHOLE},
                       ("kind", "virtual_stages", "microbatches", "micro_batch"))

SHARES = array(WHOLE, minItems=1)
STAGES = array(open_object({
    "devices": array(either(TEXT, WHOLE), minItems=1, description="\"0-3\": first and last device of a run; in rank order"),
    "samples_per_replica": described(SHARES, "samples of a micro-batch that each replica takes; absent: equal shares"),
    "state_shares": described(SHARES, "weights by which the ranks of a shard group divide its states; absent: equal shares"),
    "layers": array(open_object({"first": WHOLE, "last": WHOLE, "strategy": STRATEGY}, ("first", "last", "strategy")), minItems=1),
    "share": described({"const": 1.0}, "version 1")}, ("devices", "layers")), minItems=1)

PIPELINE = open_object({"id": WHOLE, "schedule": SCHEDULE, "samples": described(POSITIVE, "samples of the global batch"), "stages": STAGES},
                       ("id", "schedule", "samples", "stages"))

# Version 1 has the schedule and the stages of its one pipeline at the top level.
PLAN = open_object({
    "schema": one_of("espalier.plan/2", "espalier.plan/1"),
    "engine": TEXT,
    "model": described(SOURCE, "the model and its configuration, which the hash is of"),
    "cluster": SOURCE,
    "training": open_object({"sequence_length": either(WHOLE, {"type": "object"}), "global_batch": POSITIVE,
                             "precision": one_of(*PRECISIONS), "optimizer": one_of(*OPTIMIZERS)}, ("global_batch", "precision", "optimizer")),
    "precision": described(closed_object({name: one_of(*PRECISIONS) for name in ("parameters", "gradients", "moments", "saved")},
                                         ("parameters", "gradients", "moments", "saved")), "types of states and of saved activations"),
    "pipelines": array(PIPELINE, minItems=1), "schedule": SCHEDULE, "stages": STAGES,
}, ("schema", "engine", "model", "cluster", "training"), anyOf=[{"required": ["pipelines"]}, {"required": ["schedule", "stages"]}])

# ---- the result -----------------------------------------------------------------------------------------------------

BREAKDOWN = ("compute", "exposed_communication", "bubble", "optimizer", "other")
MEMORY = ("parameters", "gradients", "optimizer", "activations", "communication_buffers", "framework")

PREDICTION = open_object({
    "iteration_s": SECONDS, "tokens_per_s_per_gpu": COUNT, "model_tflops_per_gpu": COUNT, "mfu": COUNT, "mfu_causal": COUNT, "mfu_peak_tflops": COUNT,
    "breakdown_s": open_object({name: SECONDS for name in BREAKDOWN}, BREAKDOWN, description="sums to iteration_s, to the nanosecond"),
    "last_stage": WHOLE, "step_host_s": SECONDS, "hidden_communication_s": SECONDS,
    "bottleneck": open_object({"stage": WHOLE, "busy": COUNT, "breakdown_s": open_object({name: SECONDS for name in BREAKDOWN}, BREAKDOWN),
                               "busy_per_stage": array(COUNT, minItems=1)}, ("stage", "busy"), description="the busiest stage"),
    "peak_memory_bytes": BYTES, "peak_memory_bytes_per_stage": array(BYTES, minItems=1),
    "memory_breakdown_bytes": open_object({name: BYTES for name in MEMORY}, MEMORY),
    "memory_limit_bytes": BYTES, "fits": YES_NO, "memory_margin": COUNT, "fits_with_margin": YES_NO,
    "confidence": open_object({"iteration_s_low": SECONDS, "iteration_s_high": SECONDS, "level": {"type": "number", "minimum": 0, "maximum": 1},
                               "basis": TEXT}, ("iteration_s_low", "iteration_s_high", "level", "basis")),
    "days": COUNT, "gpu_hours": COUNT,
    "cost": open_object({"per_step": COUNT, "per_token": COUNT, "currency": TEXT, "per_hour": COUNT, "devices": WHOLE, "egress_per_step": COUNT,
                         "whole_run": COUNT}, ("per_step", "per_token", "currency"), description="where every node of the plan has a price"),
    "network": open_object({"model": {"enum": ["flow"]}, "closed_iteration_s": SECONDS,
                            "links": array(open_object({"link": TEXT, "links": WHOLE, "bytes": COUNT, "busy": COUNT, "highest_load": COUNT},
                                                       ("link", "links", "bytes", "busy", "highest_load")))},
                           ("model", "closed_iteration_s", "links"), description="with --network flow"),
}, ("iteration_s", "breakdown_s", "peak_memory_bytes", "memory_breakdown_bytes", "memory_limit_bytes", "fits", "confidence"))



def search_counters():
    """Returns the rows of the table of counters: name, unit and meaning."""
    text = (ROOT / "include/espalier/search_phases.h").read_text(encoding="utf-8")
    rows = re.findall(r'\{SearchCounter::\w+, "(\w+)", "([\w ]+)",\s*((?:"[^"]*"\s*)+)\}', text)
    return [(name, unit, "".join(re.findall(r'"([^"]*)"', meaning))) for name, unit, meaning in rows]


PHASE = open_object({
    "name": TEXT, "left_out": described(YES_NO, "by name"), "complete": described(YES_NO, "false: a limit, an interruption, or not started"),
    "lower_bound_s": described(SECONDS, "no plan of the phase takes less; 0: unknown"),
    "best_s": described(SECONDS, "best plan that the phase found; absent: none fits, or bounds exclude all"),
    "partition_bound_s": described(SECONDS, "no plan with any partition of operators, offered or not, takes less"),
    "counters": mapping(WHOLE, properties={name: described(WHOLE, meaning) for name, _, meaning in search_counters()},
                        description="counters of the phase, by name; absent: it did not start"),
}, ("name", "complete", "lower_bound_s"))

BALANCE = open_object({"partition": TEXT, "first": array(WHOLE, minItems=1, description="first layer of each stage"), "alpha_t": COUNT, "alpha_m": COUNT,
                       "iteration_s": described(SECONDS, "simulated; 0: does not fit")}, ("partition", "first", "iteration_s"))

ENGINE_ANSWER = open_object({"engine": TEXT, "status": one_of("runs", "has a plan", "none", "unknown"), "label": TEXT, "iteration_s": SECONDS,
                             "peak_memory_bytes": BYTES, "loss": {"type": "number"}, "why": TEXT}, ("engine", "status"))

SIMPLEST = open_object({"label": TEXT, "iteration_s": SECONDS, "loss": {"type": "number"}, "dimensions": WHOLE, "within": COUNT,
                        "certified": YES_NO, "simulated": WHOLE}, ("label", "iteration_s", "loss", "dimensions", "within", "certified"))

RESTRICTION = open_object({"engine": TEXT, "label": TEXT, "iteration_s": SECONDS, "price": {"type": "number"}, "certified": YES_NO, "rules": array(TEXT)},
                          ("engine",), description="best plan of the same space without the rules of the engine: their cost")

# Parameters of the search: check --search repeats it.
ASKED = open_object({"recompute_modules": array(one_of(*MODULES)), "space": one_of(*SPACES), "devices": one_of("equal", "any", "all"), "allow": mapping(array(ANY)), "forbid": mapping(array(ANY)), "limits": mapping(WHOLE),
                     "memory_margin": COUNT, "node_limit": WHOLE, "disabled_rules": array(TEXT), "left_out_phases": array(TEXT), "exhaustive": YES_NO, "simple": YES_NO, "simple_within": COUNT, "engines": YES_NO, "restriction": YES_NO, "engine_options": YES_NO, "alternatives": WHOLE}, ("space", "alternatives"))

MADE_BY = open_object({"version": TEXT, "calibration": TEXT}, ("version", "calibration"))
# Ties results that only a search could derive again to the rest of the document; check compares it.
DIGEST = described(TEXT, "xxh64 of the document's canonical text without digest and timing")

RESULT = open_object({
    "schema": {"const": "espalier.result/2"},
    "made_by": MADE_BY,
    "engine": TEXT,
    "plan": PLAN,
    "prediction": PREDICTION,
    "search": open_object({
        "space": one_of(*SPACES), "space_size": COUNT, "by_dimension": mapping(mapping(COUNT)), "bounded": WHOLE, "simulated": WHOLE, "lowered": WHOLE,
        "pruned": mapping(COUNT), "optimal": YES_NO, "lower_bound_s": SECONDS, "gap": {"type": "number"},
        "reason": one_of("optimal", "gap", "node limit", "time limit", "interrupted", "phase left out"),
        "asked": ASKED, "memory_margin": COUNT, "memory_margin_basis": TEXT, "split": TEXT, "freedom": TEXT,
        "phases": array(PHASE, description="work of each phase of the search, in order"),
        "balance": array(BALANCE, description="partitions of the layers over the stages of a layer-wise answer"),
    }, ("space_size", "simulated", "pruned", "optimal", "lower_bound_s", "gap", "reason")),
    "runs_on": array(TEXT, description="engines whose rules accept this very plan"),
    "runnable": ENGINE_ANSWER, "engines": array(ENGINE_ANSWER), "restriction": RESTRICTION, "simplest": SIMPLEST,
    "options": array(open_object({"numerics": YES_NO, "engine": TEXT, "options": array(TEXT), "losses": array({"type": "number"}), "label": TEXT,
                                  "iteration_s": SECONDS, "peak_memory_bytes": BYTES, "gain": {"type": "number"}, "certified": YES_NO}, ["numerics", "engine", "options"])),
    "batch_hint": open_object({"global_batch": POSITIVE, "label": TEXT, "iteration_s": SECONDS, "gain": COUNT}, ("global_batch", "gain")),
    "alternatives": array(open_object({"label": TEXT, "configuration": TEXT, "baseline": YES_NO, "fits": YES_NO, "iteration_s": SECONDS,
                                       "peak_memory_bytes": BYTES, "lost_to": TEXT, "engine": TEXT, "outside_space": YES_NO, "strategy": STRATEGY, "schedule": {"type": "object"}},
                                      ("label", "baseline", "fits"))),
    "reasons": array(TEXT),
    "notes": array(TEXT, description="parts of the job that the plan does not cover"),
    "operators": array(open_object({"first_layer": WHOLE, "devices": POSITIVE, "name": TEXT, "partition": TEXT}, ("name", "partition"))),
    "digest": DIGEST,
    "timing": open_object({"phases": mapping(SECONDS), "total_s": SECONDS, "search_s": SECONDS, "threads": POSITIVE, "digest": TEXT}, description="wall-clock values, the only ones"),
}, ("schema", "engine", "plan", "prediction", "alternatives", "reasons"))

ERROR = open_object({
    "schema": {"const": "espalier.error/1"},
    "kind": one_of("internal", "usage", "bad_input", "infeasible", "check_failed", "limit"),
    "exit_code": described(one_of(1, 2, 3, 4, 5, 6, 130), "docs/file-formats.md, Exit codes"),
    "where": described(TEXT, "file:line:column, or a path in the document"), "found": TEXT, "expected": TEXT, "hint": TEXT,
}, ("schema", "kind", "exit_code", "where", "found", "expected", "hint"))

# ---- plans under change: docs/adapt.md ------------------------------------------------------------------------------

MOVE = open_object({**{n: BYTES for n in ("kept_bytes", "peer_bytes", "storage_bytes", "lost_bytes")},
                    **{n: SECONDS for n in ("transfer_s", "storage_s", "rollback_s", "restart_s", "warm_up_s")}}, ("peer_bytes", "storage_bytes"))
TARGETS = array(open_object({"target": TEXT, "factor": COUNT}, ("target", "factor")))
ASKED = {
    "running": described(PLAN, "the plan that runs"),
    "change": described(open_object({"lost": array(TEXT), "slow": TARGETS, "links": TARGETS,
                                   "added": array(open_object({"target": TEXT, "nodes": COUNT}, ("target", "nodes")))},
                                  ("lost", "slow", "links", "added")), "change of the cluster"),
    "prices": described(open_object({"restart_s": SECONDS, "warm_up_s": SECONDS, "storage_bytes_per_s": COUNT, "checkpoint_age_s": SECONDS},
                                    ("restart_s", "warm_up_s", "storage_bytes_per_s", "checkpoint_age_s")), "prices that hold for all moves"),
}
CHANGE = open_object({
    "schema": {"const": "espalier.change/1"},
    "action": one_of("stay", "shift", "re-place", "reroute", "reshape"),
    "possible": YES_NO, "what": described(TEXT, "its effect, or why it cannot be done"),
    "iteration_s": or_null(SECONDS), "upper_bound": YES_NO, "pause_s": or_null(SECONDS), "gain_s_per_step": or_null({"type": "number"}),
    "break_even_s": described(or_null(SECONDS), "how long the change must last; null: it never pays"), "if_stay_s": or_null(SECONDS),
    "move": MOVE, "bytes_per_link": mapping(BYTES), "nodes": array(WHOLE, description="by node of the plan: its number in the whole cluster"),
    "plan": described(or_null(PLAN), "null: the plan that runs"),
    "priced_as": described(PLAN, "no plan has exactly the global batch: that of the next larger one, not to be run"),
    "observed": {"type": "object"}, "others": array({"type": "object"}), "horizon_s": or_null(SECONDS), **ASKED,
    "made_by": MADE_BY, "digest": DIGEST,
}, ("schema", "action", "possible", "pause_s", "gain_s_per_step", "break_even_s", "if_stay_s", "bytes_per_link", "plan"))

WHAT_IF = open_object({
    "schema": {"const": "espalier.what-if/1"}, "plan": described(TEXT, "content hash of the plan that runs"),
    "iteration_s": SECONDS, "if_stay_s": or_null(SECONDS), "horizon_s": or_null(SECONDS),
    "recommended": one_of("stay", "shift", "re-place", "reroute", "reshape"), "actions": array(CHANGE), "notes": array(TEXT), **ASKED,
    "made_by": MADE_BY, "digest": DIGEST,
}, ("schema", "plan", "iteration_s", "if_stay_s", "recommended", "actions", "running", "change", "prices"))
SURVIVAL = open_object({
    "schema": {"const": "espalier.survival/1"}, "plan": TEXT, "most": WHOLE, "losses": WHOLE, "covered": WHOLE, "plans": WHOLE,
    "classes": array(open_object({"nodes": array(WHOLE), "losses": WHOLE, "holds": TEXT, "action": CHANGE}, ("nodes", "losses", "action"))), **ASKED,
    "made_by": MADE_BY, "digest": DIGEST,
}, ("schema", "plan", "most", "losses", "covered", "classes", "running", "prices"))

OBSERVATION = open_object({
    "schema": {"const": "espalier.observation/1"}, "time_s": {"type": "number"}, "plan": described(TEXT, "content hash of the plan that runs"),
    "steps": array(open_object({"iteration_s": SECONDS, "tokens": COUNT}, ("iteration_s",))),
    "ranks": array(open_object({"rank": WHOLE, "forward_s": SECONDS, "backward_s": SECONDS}, ("rank", "forward_s"))),
    "links": array(open_object({"link": TEXT, "gbps": COUNT}, ("link", "gbps"))),
    "lost": array(TEXT),
}, ("schema",))

# ---- other answers of plan: docs/clusters.md, docs/adapt.md ---------------------------------------------------------

NODES_BY_GROUP = array(WHOLE, minItems=1, description="nodes of each group, in the order of the cluster")
LONG_RUN = open_object({
    "schema": {"const": "espalier.long-run/1"},
    "lower_bound_s": described(SECONDS, "no plan's step is shorter: of the search at the full rate"),
    "gap": described({"type": "number"}, "1 - lower_bound_s / long_run_s of the first candidate"),
    "candidates": array(open_object({
        "planned_for": described(TEXT, "the rate that it was searched for"), "plan": described(TEXT, "degrees and schedule"), "hash": TEXT,
        "first_s": described(SECONDS, "the first step, with full buckets"),
        "lasts_s": described(or_null(COUNT), "until the first step that is slower; null: never"),
        "long_run_s": described(SECONDS, "a step once the buckets have given what they held"),
        "settled": described(YES_NO, "false: tokens did not come round, long_run_s is the mean of the last steps"),
        "sustained_s": described(SECONDS, "a step at the sustained rates"),
        "bytes": described(COUNT, "a step, over the bucket that loses most"),
        "bytes_at_sustained_s": described(SECONDS, "the least step by the bytes over any bucket at its sustained rate"),
    }, ("planned_for", "plan", "hash", "first_s", "lasts_s", "long_run_s", "settled", "sustained_s", "bytes", "bytes_at_sustained_s")),
        minItems=1, description="different plans, by rising step of the long run"),
    "answer": described(RESULT, "result of the first candidate, at the sustained rates"),
}, ("schema", "lower_bound_s", "gap", "candidates", "answer"))

OVER_TIME = open_object({
    "schema": {"const": "espalier.over-time/1"}, "length_s": COUNT, "epochs": POSITIVE, "states": described(POSITIVE, "different ones of the cluster"),
    "best_static": described(WHOLE, "which of `plans` does best where it is never changed"), "best_worst_case": WHOLE,
    "offered": described(WHOLE, "number of plans, from the first, among which the policy chooses"), "detection_s": COUNT, "checkpoint_age_s": COUNT,
    "factor": described(COUNT, "F of the policy's bound"),
    "bound_s": described(COUNT, "largest loss of the policy: factor · (clairvoyant_of_offered_s + cheapest_move_s) + noise_s + unnoticed_s"),
    "clairvoyant_of_offered_s": described(COUNT, "loss of the clairvoyant policy on the offered plans"),
    "cheapest_move_s": described(COUNT, "between two of the offered plans; 0 where one is offered"),
    "noise_s": described(COUNT, "losses too small to move for"), "unnoticed_s": described(COUNT, "until changes are noticed"),
    "regret": described({"type": "number"}, "against the clairvoyant"),
    "runs": array(open_object({"name": one_of("static", "static, worst case", "online", "clairvoyant"), "samples_per_s": COUNT, "lost_s": COUNT,
                               "pauses_s": COUNT, "changes": WHOLE,
                               "decisions": array(open_object({"at_s": COUNT, "plan": WHOLE}, ("at_s", "plan")))},
                              ("name", "samples_per_s", "lost_s", "pauses_s", "changes", "decisions"))),
    "plans": array(open_object({"label": TEXT, "nodes_by_group": NODES_BY_GROUP, "iteration_s": SECONDS, "runs_s": COUNT,
                                "static_samples_per_s": COUNT, "worst_samples_per_s": COUNT, "plan": PLAN},
                               ("label", "nodes_by_group", "iteration_s", "plan")), minItems=1),
}, ("schema", "length_s", "epochs", "states", "best_static", "best_worst_case", "factor", "bound_s", "regret", "runs", "plans"))

OBJECTIVE = open_object({
    "schema": {"const": "espalier.objective/1"}, "minimise": one_of("time", "cost"), "budget_per_step": COUNT, "deadline_s": COUNT,
    "least_cost_per_step": described(COUNT, "no plan on these devices is cheaper"), "best": described(WHOLE, "which of `sizes`"),
    "sizes": array(open_object({"nodes_by_group": NODES_BY_GROUP, "devices": POSITIVE, "price_per_hour": COUNT,
                                "searched": described(YES_NO, "false: passed over by its bound, or without a plan"), "within": YES_NO,
                                "iteration_s": SECONDS, "cost_per_step": COUNT, "cost_per_token": COUNT, "cost_whole_run": COUNT, "currency": TEXT, "days": COUNT, "plan": TEXT},
                               ("nodes_by_group", "devices", "price_per_hour", "searched", "within", "plan")), minItems=1),
    "answer": RESULT,
}, ("schema", "minimise", "least_cost_per_step", "best", "sizes", "answer"))

# ---- measured runs: one object a line; any field may be null --------------------------------------------------------


def nullable(properties, **more):
    return open_object({name: or_null(schema) for name, schema in properties.items()}, **more)


RUN = nullable({
    "id": TEXT, "source": TEXT, "source_ref": ANY, "framework": TEXT,
    "model": nullable({"name": TEXT, "config": TEXT, **{n: WHOLE for n in ("layers", "hidden", "ffn", "heads", "kv_heads", "vocab", "experts", "topk")},
                       "params": COUNT}),
    "seq": WHOLE,
    "gpu": nullable({"type": TEXT, "mem_gb": COUNT, "count": WHOLE, "per_node": WHOLE}),
    "interconnect": either(TEXT, nullable({"intra": TEXT, "inter": TEXT})),
    **{n: WHOLE for n in ("tp", "pp", "dp", "cp", "ep", "etp", "vpp", "microbatch", "global_batch")},
    "zero_stage": {"type": "integer", "minimum": 0, "maximum": 3},
    "techniques": array(one_of("lora", "compile", "hsdp", "deepep", "offload", "packed", *ENGINE_OPTIONS), description="what the run did in addition to its degrees; absent: its text is searched"),
    "adapter": described(nullable({"rank": POSITIVE, "targets": array(TEXT), "source": TEXT}), "of a run that trains them alone"),
    "release": described(TEXT, "of the framework, as a version: 25.02"),
    "sp": YES_NO, "fsdp": YES_NO, "recompute": TEXT, "precision": TEXT, "schedule": TEXT,
    "status": described(TEXT, "ok or oom; others are not evaluated"),
    "measured": nullable({"iteration_s": COUNT, "tokens_per_s_per_gpu": COUNT, "tflops_per_gpu": COUNT, "mfu": COUNT, "peak_mem_gb": COUNT,
                          "memory_rank": one_of("fullest", "first", "last"), "memory_kind": TEXT}),
})

KEY = open_object({"key": TEXT, "value": TEXT, "line": described(WHOLE, "line of the file; 0: not in it"),
                   "kind": one_of("read", "defaulted", "without effect", "not understood", "known, not modelled"), "meaning": TEXT}, ["key", "kind"])
IMPROVEMENT = open_object({
    "schema": {"const": "espalier.improvement/1"},
    "import": open_object({"format": TEXT, "file": TEXT, "engine": TEXT, "keys": array(KEY)}, ["format", "keys"]),
    "present": open_object({"label": TEXT, "result": RESULT, "broken": described(TEXT, "the rules that it breaks, in place of a result")}),
    "best": open_object({"label": TEXT, "result": RESULT, "error": described(TEXT, "why no plan fits, in place of a result")}),
    "gain": described({"type": "number"}, "share of the present step that the best plan saves"), "tried": WHOLE,
    "best_from": described(TEXT, "search, present plan or single change: where the best plan is from"),
    "widened": described({"type": "object"}, "dimensions that the search varied because the present plan uses them, with their values"),
    "diff": open_object({"edits": array(open_object({"key": TEXT, "before": TEXT, "after": TEXT, "line": WHOLE}, ["key"])), "why": TEXT, "read_again": TEXT}),
    "memory_margin": described({"type": "number"}, "share of the memory that the best plan and the changes leave free"),
    "margin_of_present": described(YES_NO, "it is that of the present plan, which leaves less than what is usual"),
    "changes": array(open_object({"change": TEXT, "label": TEXT, "iteration_s": SECONDS, "gain": {"type": "number"}, "peak_memory_bytes": BYTES, "fits": YES_NO},
                                 ["change", "label", "iteration_s", "fits"])),
}, ["schema", "present", "best", "changes"])

SCHEMAS = {
    "job": ("Espalier job file", "What to train, on what, how: docs/file-formats.md. The program's own reader is stricter and explains more.", JOB),
    "cluster": ("Espalier cluster file", "Nodes, devices and fabric: docs/file-formats.md. Quantities carry units, which the program's reader checks.", CLUSTER),
    "plan": ("Espalier plan", "plan.json: which layers run on which devices, how, and in which order.", PLAN),
    "result": ("Espalier result", "What plan, estimate and simulate print with --json.", RESULT),
    "error": ("Espalier error", "What every command prints with --json where it fails.", ERROR),
    "change": ("Espalier change", "One action on a running plan after its cluster changed: what replan prints with --json, and what-if in a list.", CHANGE),
    "what-if": ("Espalier what-if", "Every action on a running plan after its cluster changed: what what-if prints with --json.", WHAT_IF),
    "survival": ("Espalier survival", "A plan for every loss of up to so many nodes: what what-if --survive prints with --json.", SURVIVAL),
    "long-run": ("Espalier long run", "Plans on links with token buckets: what plan prints with --json where a cluster has some.", LONG_RUN),
    "over-time": ("Espalier over time", "Plans over a trace: what plan prints with --json where a cluster changes.", OVER_TIME),
    "objective": ("Espalier objective", "Sizes of a cluster and their plans: what plan prints with --json where a job has an objective.", OBJECTIVE),
    "improvement": ("Espalier improvement", "What a present configuration costs and what would be better: what improve prints with --json.", IMPROVEMENT),
    "observation": ("Espalier observation", "What was seen of a running plan: the input of replan.", OBSERVATION),
    "words": ("Espalier words", "Words and lists that several schemas share.", {}),
    "run": ("Measured run", "One line of a *.jsonl file, the input of validate and calibrate.", RUN),
}

# A part of several schemas is written once, in the schema named here, and all others refer to it.
DEFINITIONS = {
    "words": {**WORDS, "precision": one_of(*PRECISIONS), "space": one_of(*SPACES), "modules": array(one_of(*MODULES))},
    "job": {"values": closed_object(VALUES)},
    "plan": {"strategy": STRATEGY, "schedule": SCHEDULE, "stages": STAGES, "pipeline": PIPELINE, "source": SOURCE},
    "result": {"breakdown": PREDICTION["properties"]["bottleneck"]["properties"]["breakdown_s"], "engine_answer": ENGINE_ANSWER, "made_by": MADE_BY},
    "change": {"disturbance": WHAT_IF["properties"]["change"], "move_prices": WHAT_IF["properties"]["prices"]},
}


def shape(schema):
    """Returns a key that is equal for two schemas that differ in their descriptions at most."""
    return json.dumps({key: value for key, value in schema.items() if key != "description"}, sort_keys=True)


ADDRESSES = {shape(schema): f"{name}.schema.json" for name, (_, _, schema) in SCHEMAS.items() if schema}
for file, definitions in DEFINITIONS.items():
    ADDRESSES = {**{shape(schema): f"{file}.schema.json#/$defs/{name}" for name, schema in definitions.items()}, **ADDRESSES}


def referring(part, file):
    """Returns a schema of `file` with references in place of all that DEFINITIONS and SCHEMAS hold."""
    if isinstance(part, list):
        return [referring(item, file) for item in part]
    if not isinstance(part, dict):
        return part
    address = ADDRESSES.get(shape(part))
    if address is None:
        return inside(part, file)
    own = {"description": part["description"]} if "description" in part else {}
    return {"$ref": address.removeprefix(f"{file}.schema.json"), **own}


def inside(schema, file):
    return {key: referring(value, file) for key, value in schema.items()}


def laid_out(value, indent=1, used=0):
    """Returns JSON text in which each value that fits into a line of 120 columns is on one; `used` are columns before it."""
    line = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, (dict, list)) or indent + used + len(line) < 120:
        return line
    keys = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value] if isinstance(value, dict) else [""] * len(value)
    items = value.values() if isinstance(value, dict) else value
    lines = [" " * indent + key + laid_out(item, indent + 1, len(key)) for key, item in zip(keys, items)]
    return "{["[isinstance(value, list)] + "\n" + ",\n".join(lines) + "\n" + " " * (indent - 1) + "}]"[isinstance(value, list)]


def document(name):
    title, text, schema = SCHEMAS[name]
    definitions = {key: inside(part, name) for key, part in DEFINITIONS.get(name, {}).items()}
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"{name}.schema.json", "title": title, "description": text,
             **inside(schema, name), **({"$defs": definitions} if definitions else {})}
    return laid_out(whole) + "\n"


PAGE = ROOT / "docs" / "file-formats.md"
BEGIN, END = "<!-- begin:counters -->\n", "<!-- end:counters -->"


def page_with_counters(text):
    """Returns the page with the table of counters (include/espalier/search_phases.h)."""
    rows = "".join(f"| `{name}` | {unit} | {meaning} |\n" for name, unit, meaning in search_counters())
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n| counter | counts | meaning |\n| --- | --- | --- |\n{rows}\n{END}{after}"


def main():
    page = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        FOLDER.mkdir(exist_ok=True)
        PAGE.write_text(page_with_counters(page), encoding="utf-8")
        for name in SCHEMAS:
            (FOLDER / f"{name}.schema.json").write_text(document(name), encoding="utf-8")
        return 0
    if sys.argv[1:] != ["--check"]:
        print(__doc__, file=sys.stderr)
        return 2
    written = {path.name[: -len(".schema.json")]: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.schema.json")}
    wrong = [n for n in sorted(set(written) | set(SCHEMAS)) if n not in SCHEMAS or written.get(n) != document(n)]
    for name in wrong:
        print(f"docs/schema/{name}.schema.json differs from scripts/schemas.py: schemas.py --write")
    if page != page_with_counters(page):
        print("the counters of docs/file-formats.md differ from include/espalier/search_phases.h: schemas.py --write")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
