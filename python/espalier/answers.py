# SPDX-License-Identifier: Apache-2.0
"""Answers about plans and results: explanation, check, comparison, and how an input was interpreted."""

from __future__ import annotations

import os
from typing import Sequence, TypeVar

from espalier import _native
from espalier._base import Document
from espalier._inputs import PathLike, is_document, text_of
from espalier.builders import ClusterLike, ModelLike, source_text
from espalier.planning import PlanLike, Result, load_plan, options_of, read_plan, simulate
from espalier.words import DeviceLike, EngineLike

Kind = TypeVar("Kind", bound=Document)


def document_of(kind: type[Kind], texts: _native.Texts) -> Kind:
    """Builds a document of the library's texts."""
    return kind._from_json(texts.json, lambda: texts.text)


class Explanation(Document):
    """Why a plan is the best, and what limits it."""


class Check(Document):
    """The findings of a check. It is true if everything holds."""

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return bool(self["ok"])

    def __bool__(self) -> bool:
        return self.ok


class Comparison(Document):
    """Plans side by side."""


class Inspection(Document):
    """How an input was interpreted, with every default marked."""


class LogComparison(Document):
    """Steps of a log, compared with their prediction."""


class StepComparison(Document):
    """A measured step, compared with its prediction."""


class Validation(Document):
    """Errors of predictions against measured runs."""


class Calibration(Document):
    """Fitted coefficients; `yaml` is the calibration file that jobs name.

    Attributes
    ----------
    yaml : str
        Text of the calibration file.
    """

    yaml: str


def explain(plan: PlanLike, *, threads: int = 0, width: int = 100) -> Explanation:
    """Explain why a plan is the best, and what limits it.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan. One without the outcome of a search causes a search of the whole space of its engine first.
    threads : int
        Threads of that search; 0 uses all hardware threads.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Explanation
        The explanation.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-8b-on-8xh100.yaml")
    >>> len(espalier.explain(result).text.splitlines()) > 5
    True
    """
    loaded, answer, _ = read_plan(plan)
    if answer is None or not answer.searched:
        answer = _native.with_search(answer or simulate(loaded)._answer, options_of(threads=threads))
    return document_of(Explanation, _native.explain(answer, width))


def check(
    plan: PlanLike, *, engine: EngineLike | str = "", search: bool = False, threads: int = 0, width: int = 100
) -> Check:
    """Verify a plan or an answer by the independent checker.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan. Every figure of a Result or a result.json is compared as well. Answers of `what_if` and `replan` are
        checked as documents: ``check(answer.to_json())``.
    engine : Engine or str
        Engine whose rules are checked instead of the plan's own.
    search : bool
        Whether to search again and compare the whole search.
    threads : int
        Threads of that search; 0 uses all hardware threads.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Check
        The findings; it is true if everything holds.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-8b-on-8xh100.yaml")
    >>> espalier.check(result).ok
    True
    """
    if isinstance(plan, (str, os.PathLike)):
        text, where = text_of(plan, "answer")
        if _native.is_answer_to_change(text):
            return document_of(Check, _native.check_answer_to_change(text, where, width).texts)
    loaded, answer, where = read_plan(plan)
    job = loaded._handle.job()
    if answer is None:
        return document_of(Check, _native.check_plan(job, loaded._handle, str(engine), where, width).texts)
    text = text_of(plan, where)[0] if not isinstance(plan, Result) else answer.to_json()
    if isinstance(plan, Result):  # the document is checked, and it holds less than the answer in memory
        answer = _native.read_document(text, where)[1] or answer
    return document_of(Check, _native.check_result(job, answer, text, str(engine), search, threads, where, width).texts)


def compare(*plans: PlanLike, names: Sequence[str] | None = None, width: int = 100) -> Comparison:
    """Compare plans side by side.

    Parameters
    ----------
    *plans : Plan, Result, path, str or mapping
        The plans. Each is simulated now, so that all figures come from one version.
    names : sequence of str, optional
        Names in the table.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Comparison
        The comparison.

    Examples
    --------
    >>> job = "examples/llama3-8b-on-8xh100.yaml"
    >>> best, mine = espalier.plan(job), espalier.estimate(job, espalier.Configuration(tp=8))
    >>> espalier.compare(best, mine, names=["best", "mine"]).text.startswith("1  best")
    True
    """
    rows = []
    for number, plan in enumerate(plans):
        is_path = isinstance(plan, (str, os.PathLike)) and not is_document(os.fspath(plan))
        name = (
            names[number]
            if names
            else os.fspath(plan) if isinstance(plan, (str, os.PathLike)) and is_path else f"plan {number + 1}"
        )
        rows.append((name, simulate(plan)._answer))
    return document_of(Comparison, _native.compare(rows, width))


def inspect_model(model: ModelLike, *, width: int = 100) -> Inspection:
    """Show how a model is interpreted, with every default marked.

    Parameters
    ----------
    model : Model, path, str or mapping
        A Hugging Face config.json: its path, its folder, its text, or its content.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Inspection
        Layers, operators and parameters.

    Examples
    --------
    >>> espalier.inspect_model("models/llama-3-8b")["parameters"]
    8030261248
    """
    source = getattr(model, "source", model)
    if isinstance(source, (str, os.PathLike)) and not is_document(os.fspath(source)):
        return document_of(Inspection, _native.inspect_model_file(os.fspath(source), width))
    return document_of(Inspection, _native.inspect_model_text(*source_text(model, "model"), width))


def inspect_cluster(cluster: ClusterLike, *, width: int = 100) -> Inspection:
    """Show how a cluster is interpreted, with every default marked.

    Parameters
    ----------
    cluster : Cluster, path, str or mapping
        A cluster file: its path, its text, or its content.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Inspection
        Groups, levels of the fabric, and devices.

    Examples
    --------
    >>> espalier.inspect_cluster("examples/clusters/1x8-h100.yaml")["devices"]
    8
    """
    source = getattr(cluster, "source", cluster)
    if isinstance(source, (str, os.PathLike)) and not is_document(os.fspath(source)):
        return document_of(Inspection, _native.inspect_cluster_file(os.fspath(source), width))
    return document_of(Inspection, _native.inspect_cluster_text(*source_text(cluster, "cluster"), width))


def inspect_run(path: PathLike, *, id: str = "", width: int = 100) -> Inspection:
    """Show the job and configuration that a measured run is predicted with.

    Parameters
    ----------
    path : path
        A file of measured runs, one JSON object a line.
    id : str
        The record; the first one by default.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Inspection
        How each field was read.

    Examples
    --------
    >>> "llama-7b" in espalier.inspect_run("examples/calibrate/runs.jsonl").text
    True
    """
    return document_of(Inspection, _native.inspect_run(os.fspath(path), id, width))


def compare_log(plan: PlanLike, log: PathLike, *, warm_up: int | None = None, width: int = 100) -> LogComparison:
    """Compare the steps of a training log with the prediction of their plan.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan that ran.
    log : path or str
        The log of Megatron-LM, or its text.
    warm_up : int, optional
        Lines to skip at the beginning; a fifth of them by default.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    LogComparison
        Measured and predicted steps.

    Examples
    --------
    >>> result = espalier.plan("examples/calibrate/job.yaml")
    >>> len(espalier.compare_log(result, "examples/calibrate/megatron.log").text) > 0
    True
    """
    loaded = load_plan(plan)
    text, name = text_of(log, "log")
    return document_of(
        LogComparison, _native.compare_log(loaded._handle.job(), loaded._handle, name, text, warm_up, width)
    )


def compare_step(plan: PlanLike, step: PathLike, *, width: int = 100) -> StepComparison:
    """Compare a measured step with the prediction of its plan.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan that ran.
    step : path or str
        A file that ``espalier run --timeline`` wrote, or its text.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    StepComparison
        Differences by stage and kind of instruction.

    Examples
    --------
    >>> espalier.compare_step("out/plan.json", "step.json")  # doctest: +SKIP
    """
    loaded = load_plan(plan)
    text, name = text_of(step, "step")
    return document_of(StepComparison, _native.compare_step(loaded._handle.job(), loaded._handle, name, text, width))


def validate(
    runs: PathLike, *, calibration: PathLike = "", worst: int = 0, threads: int = 0, width: int = 100
) -> Validation:
    """Compare predictions with measured runs.

    Parameters
    ----------
    runs : path
        A file of measured runs, one JSON object a line.
    calibration : path
        A calibration file to predict with.
    worst : int
        Number of largest errors that the text lists.
    threads : int
        Threads; 0 uses all hardware threads.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Validation
        Errors of step times and memory.

    Examples
    --------
    >>> len(espalier.validate("examples/calibrate/runs.jsonl").text) > 0
    True
    """
    return document_of(Validation, _native.validate(os.fspath(runs), os.fspath(calibration), threads, worst, width))


def calibrate(
    device: DeviceLike | str,
    runs: Sequence[PathLike] | PathLike,
    *,
    engine: EngineLike | str = "",
    nccl_tests: Sequence[PathLike] = (),
    threads: int = 2,
    width: int = 100,
) -> Calibration:
    """Fit the model to measured runs.

    Parameters
    ----------
    device : Device or str
        A device of the catalogue, or an unambiguous prefix of its name.
    runs : path or sequence of paths
        Files of measured runs, one JSON object a line.
    engine : Engine or str
        Engine whose coefficients are fitted; that of the runs by default.
    nccl_tests : sequence of paths
        Outputs of nccl-tests.
    threads : int
        Threads.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Calibration
        Coefficients and their held-out error; `yaml` is the calibration file.

    Examples
    --------
    >>> fitted = espalier.calibrate("h100-sxm-80gb", "examples/calibrate/runs.jsonl")
    >>> "espalier.calibration/1" in fitted.yaml
    True
    """
    files = [runs] if isinstance(runs, (str, os.PathLike)) else runs
    named: list[list[tuple[str, str]]] = [
        [(name, text) for text, name in (text_of(path, "runs") for path in paths)] for paths in (files, nccl_tests)
    ]
    texts, yaml = _native.calibrate(str(device), str(engine), named[0], named[1], threads, width)
    fitted = document_of(Calibration, texts)
    object.__setattr__(fitted, "yaml", yaml)
    return fitted
