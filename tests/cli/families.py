#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans every supported model type with a small form of its class's configuration (tests/models/class_defaults.json),
on 8 H100, and checks the plan. No note may state that a size was left out. Towers are planned frozen and trained, in
one stage and in several.

usage: families.py ESPALIER_BINARY REPOSITORY [TYPE ...]
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
CLUSTER = {"nodes": 1, "devices_per_node": 8, "device": "h100-sxm-80gb"}
# These words mark notes on known keys that do not affect a size.
NO_SIZE = ("routing limited to some groups", "no effect on size or cost is known", "is longer than", "only the text model", "are the length",
           "max_position_embeddings", "storage format", "parameters are trained", "is not counted as work")
ONE_STAGE = ("albert", "zamba2")  # layers that use the same weights
failures = []


def run(*words):
    return subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)


def sequence_of(config, model):
    """Returns the lengths in a job: two sequences, images, none for classifiers of images."""
    kinds = [operator["kind"] for kind in model["kinds"] for operator in kind["operators"]]
    if model["family"] == "whisper":  # the file sets the frames
        return {"decoder": 128}
    if model["family"] in ("t5", "mt5", "umt5", "bart", "mbart", "m2m_100", "marian", "pegasus", "t5gemma"):
        return {"encoder": 512, "decoder": 128}
    if model["family"] in ("clip", "siglip"):  # the file sets the patches and the longest text
        return 64
    if model["family"] == "phi4mm":  # the class sets the patches
        return {"main": 4096, "sound": 1000}
    if hears_and_sees(config, model):
        return {"main": 4096, "sound": 1000, **({} if model["family"] in ("gemma3n", "phi4_multimodal") else {"encoder": 4608})}
    if "vision_config" in config:
        return {"main": 4096, "encoder": 4608} if "patch_size" in config["vision_config"] and needs_patches(model) else 4096
    if "audio_config" in config:
        return 4096
    return None if "patch_embed" in kinds else 256


def hears_and_sees(config, model):
    return "vision_config" in config and bool(config.get("audio_config")) and not model["family"].startswith("qwen2_audio")


def needs_patches(model):
    return model["family"].startswith("qwen") or model["family"] in ("mistral3", "gemma4")


def plan(folder, config, training, *flags):
    job = folder / "job.json"
    job.write_text(json.dumps({"model": config, "cluster": CLUSTER, "training": training,
                               "search": {"fix": {"schedule": "1f1b", "tp": 1, "zero": 3}, "limits": {"pp": 2, "micro_batch": 1}}}))
    ran = run("plan", job, *flags, "--json", "-o", folder / "out")
    if ran.returncode not in (0, 4):  # 4: nothing fits on 8 devices, which is no fault of the reader
        failures.append(f"{config.get('model_type')}: exit {ran.returncode}: {ran.stderr[-300:]}")
        return
    for note in re.findall(r"note: (.*)", ran.stderr):
        if not any(word in note for word in NO_SIZE):
            failures.append(f"{config.get('model_type')}: a note that may hide a size: {note}")
    for recompute in ("selective", "full"):
        spread = ("--dp", "8", "--pp", "1") if config.get("model_type") in ONE_STAGE else ("--dp", "4", "--pp", "2")
        ran_so = run("estimate", job, *spread, "--recompute", recompute, "--json", "-o", folder / "so")
        again = run("check", folder / "so" / "plan.json", "--json")
        failed = [f["name"] for f in json.loads(again.stdout)["findings"] if not f["ok"]] if again.stdout else [ran_so.stderr[-300:]]
        if set(failed) - {"memory-limit"}:
            failures.append(f"{config.get('model_type')} {recompute}: {failed}")
    if ran.returncode == 0:
        again = run("check", folder / "out" / "plan.json")
        if again.returncode != 0:
            failures.append(f"{config.get('model_type')}: check: {again.stdout[-300:]}")


rows = json.loads((root / "tests/models/class_defaults.json").read_text())["models"]
planned = 0
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for row in rows:
        config = row["config"]
        if sys.argv[3:] and config["model_type"] not in sys.argv[3:]:
            continue
        path = folder / "config.json"
        path.write_text(json.dumps(config))
        inspected = run("inspect", "model", path, "--json")
        if inspected.returncode != 0:
            failures.append(f"{config['model_type']}: {inspected.stderr[-300:]}")
            continue
        training = {"sequence_length": sequence_of(config, json.loads(inspected.stdout)), "global_batch": 16}
        if training["sequence_length"] is None:
            del training["sequence_length"]
        plan(folder, config, training)
        planned += 1
        if "vision_config" in config or "audio_config" in config:
            plan(folder, config, {**training, "freeze": ["tower"]})
    if planned < 100 and not sys.argv[3:]:
        failures.append(f"{planned} types planned")

print("\n".join(failures) or f"{planned} types planned")
sys.exit(1 if failures else 0)
