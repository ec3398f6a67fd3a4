# SPDX-License-Identifier: Apache-2.0
"""Answers about plans and results: explanation, check, comparison, and how an input was interpreted."""
from __future__ import annotations

import json
import os
from typing import Any, Mapping

from espalier import _native
from espalier._inputs import PathLike, documented, is_document, text_of
from espalier.planning import PlanLike, Result, load_plan, options_of, read_plan, simulate


class Answer:
    """Holds a document as `.json` and as readable `.text`; answer["key"] returns a key of the document."""

    def __init__(self, texts: _native.Texts) -> None:
        self.json, self.text = texts.json, texts.text
        self._data: dict[str, Any] = json.loads(texts.json)

    def to_json(self) -> str:
        return self.json

    def to_dict(self) -> dict[str, Any]:
        return json.loads(self.json)

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data.get('schema', '')!r})"


class Check(Answer):
    """Holds the findings of a check. It is true if everything holds."""

    def __init__(self, checked: _native.Checked) -> None:
        super().__init__(checked.texts)
        self.ok: bool = checked.ok

    def __bool__(self) -> bool:
        return self.ok


@documented(_native.explain)
def explain(plan: PlanLike, *, threads: int = 0, width: int = 100) -> Answer:
    """A plan without the outcome of a search causes a search of the whole space of its engine first."""
    loaded, answer, _ = read_plan(plan)
    if answer is None or not answer.searched:
        answer = _native.with_search(answer or simulate(loaded)._answer, options_of(threads=threads))
    return Answer(_native.explain(answer, width))


@documented(_native.check_plan)
def check(plan: PlanLike, *, engine: str = "", search: bool = False, threads: int = 0, width: int = 100) -> Check:
    """For a Result or a result.json, every figure is compared as well; `search` searches again and compares all of
    it. `engine` names the engine whose rules are checked instead of the plan's own. Answers of what_if() and replan()
    are checked as documents: check(answer.json).
    """
    if isinstance(plan, (str, os.PathLike)):
        text, where = text_of(plan, "answer")
        if _native.is_answer_to_change(text):
            return Check(_native.check_answer_to_change(text, where, width))
    loaded, answer, where = read_plan(plan)
    job = loaded._handle.job()
    if answer is None:
        return Check(_native.check_plan(job, loaded._handle, engine, where, width))
    text = answer.to_json() if isinstance(plan, Result) else text_of(plan, where)[0]
    return Check(_native.check_result(job, answer, text, engine, search, threads, where, width))


@documented(_native.compare)
def compare(*plans: PlanLike, names: list[str] | None = None, width: int = 100) -> Answer:
    """Compares plans side by side. Each is simulated now, so that all figures come from one version. `names` are
    their names in the table."""
    rows = []
    for number, plan in enumerate(plans):
        name = names[number] if names else os.fspath(plan) if isinstance(plan, (str, os.PathLike)) and not is_document(os.fspath(plan)) else f"plan {number + 1}"
        rows.append((name, simulate(plan)._answer))
    return Answer(_native.compare(rows, width))


def inspect_model(model: PathLike | Mapping[str, Any], *, width: int = 100) -> Answer:
    """Shows how a Hugging Face config.json is interpreted, with every default marked. `model` is a path, its folder,
    its text, or a dict."""
    if isinstance(model, (str, os.PathLike)) and not is_document(os.fspath(model)):
        return Answer(_native.inspect_model_file(os.fspath(model), width))
    return Answer(_native.inspect_model_text(*text_of(model, "model"), width))


def inspect_cluster(cluster: PathLike | Mapping[str, Any], *, width: int = 100) -> Answer:
    """Shows how a cluster file is interpreted, with every default marked. `cluster` is a path, its text,
    or a dict."""
    if isinstance(cluster, (str, os.PathLike)) and not is_document(os.fspath(cluster)):
        return Answer(_native.inspect_cluster_file(os.fspath(cluster), width))
    return Answer(_native.inspect_cluster_text(*text_of(cluster, "cluster"), width))


def inspect_run(path: PathLike, *, id: str = "", width: int = 100) -> Answer:
    """Shows the job and configuration that a measured run is predicted with. `id` selects the record;
    default: the first."""
    return Answer(_native.inspect_run(os.fspath(path), id, width))


@documented(_native.compare_log)
def compare_log(plan: PlanLike, log: PathLike, *, warm_up: int = -1, width: int = 100) -> Answer:
    """`log` is a path or the text of the log. `warm_up` is the number of lines to skip at the beginning;
    default: a fifth."""
    loaded = load_plan(plan)
    text, name = text_of(log, "log")
    return Answer(_native.compare_log(loaded._handle.job(), loaded._handle, name, text, warm_up, width))


@documented(_native.compare_step)
def compare_step(plan: PlanLike, step: PathLike, *, width: int = 100) -> Answer:
    """`step` is the output of `espalier run --timeline`."""
    loaded = load_plan(plan)
    text, name = text_of(step, "step")
    return Answer(_native.compare_step(loaded._handle.job(), loaded._handle, name, text, width))


@documented(_native.validate)
def validate(runs: PathLike, *, calibration: PathLike = "", worst: int = 0, threads: int = 0, width: int = 100) -> Answer:
    """`runs` is a file of measured runs, one JSON object a line. `worst` is the number of largest errors that
    the text lists."""
    return Answer(_native.validate(os.fspath(runs), os.fspath(calibration), threads, worst, width))


class Calibration(Answer):
    """Holds fitted coefficients; `yaml` is the calibration file that jobs name."""

    def __init__(self, texts: _native.Texts, yaml: str) -> None:
        super().__init__(texts)
        self.yaml = yaml


@documented(_native.calibrate)
def calibrate(device: str, runs: list[PathLike] | PathLike, *, engine: str = "", nccl_tests: list[PathLike] | None = None, threads: int = 2,
              width: int = 100) -> Calibration:
    """`device` is a name of the catalogue, or an unambiguous prefix of one. `runs` are files of measured runs,
    `nccl_tests` outputs of nccl-tests."""
    files = [runs] if isinstance(runs, (str, os.PathLike)) else runs
    named = [[(name, text) for text, name in (text_of(path, "runs") for path in paths)] for paths in (files, nccl_tests or [])]
    return Calibration(*_native.calibrate(device, engine, *named, threads, width))
