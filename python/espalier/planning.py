# SPDX-License-Identifier: Apache-2.0
"""Jobs, plans and results, and the functions that plan."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Callable, Iterable, Mapping, Union

from espalier import _html, _native, types
from espalier._inputs import PathLike, documented, is_document, overrides, text_of
from espalier.errors import Interrupted, UsageError
from espalier.tables import Table, of_documents
from espalier.timeline import Timeline

JobLike = Union["Job", PathLike, Mapping[str, Any]]
PlanLike = Union["Plan", "Result", PathLike, Mapping[str, Any]]


class Job:
    """Describes what to train, on which devices, with which engine, and where the search may look. A loaded job
    does not change."""

    def __init__(self, handle: _native.Job) -> None:
        self._handle = handle

    engine = property(lambda self: self._handle.engine, doc="Whose rules and memory policy hold.")
    notes = property(lambda self: list(self._handle.notes), doc="What of the inputs was not planned, in sentences.")
    model_name = property(lambda self: self._handle.model_name)
    parameters = property(lambda self: self._handle.parameters, doc="Of the model.")
    devices = property(lambda self: self._handle.devices, doc="Of the cluster.")

    def __repr__(self) -> str:
        return f"Job({self.model_name!r}, {self.parameters:,} parameters, {self.devices} devices, engine {self.engine!r})"


@documented(_native.load_job_file)
def load_job(job: JobLike, set: Mapping[str, Any] | None = None) -> Job:
    """`job` is a path, the text of a job file (YAML or JSON), or the same as a dict. `set` overrides values like
    --set of the command line: {"training.global_batch": 128}. Paths inside a job without a file are relative to
    the working directory.
    """
    if isinstance(job, Job):
        if set:
            raise UsageError("set", "a job that is loaded", "a path, a text or a dict", "pass `set` to load_job()")
        return job
    if isinstance(job, (str, os.PathLike)) and not is_document(os.fspath(job)):
        return Job(_native.load_job_file(os.fspath(job), overrides(set)))
    text, where = text_of(job, "job")
    return Job(_native.load_job(text, where, os.getcwd(), overrides(set)))


class Plan:
    """Describes how every device takes part in training: which layers run on which devices, how, and
    in which order."""

    def __init__(self, handle: _native.Plan) -> None:
        self._handle = handle
        self._document: types.PlanDocument | None = None

    label = property(lambda self: self._handle.label, doc='One line: "TP8·SP CP1 PP4(v2) DP16 ZeRO-1 mb1 interleaved".')
    hash = property(lambda self: self._handle.hash, doc="Equal plans have one.")
    engine = property(lambda self: self._handle.engine)

    @property
    def document(self) -> types.PlanDocument:
        """Returns plan.json as a typed object: pipelines, stages, layers, strategies."""
        if self._document is None:
            self._document = types.PlanDocument.from_dict(json.loads(self.to_json()))
        return self._document

    def job(self) -> Job:
        """Returns the job that the plan was made for; its inputs are embedded in the plan."""
        return Job(self._handle.job())

    def to_json(self, schema: int = 2) -> str:
        """Returns plan.json without the final newline of the file."""
        return self._handle.to_json(schema)

    def to_dict(self) -> dict[str, Any]:
        return json.loads(self.to_json())

    def save(self, path: PathLike) -> None:
        """Writes plan.json."""
        pathlib.Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def layers_table(self) -> Table:
        """Returns a row for each run of layers with the same treatment: its place and its strategy."""
        rows = [{"pipeline": p.id, "stage": number, "first_layer": r.first, "last_layer": r.last,
                 **{name: value for name, value in r.strategy.to_dict().items() if name not in ("recompute", "overlap", "partition")},
                 "recompute": r.strategy.recompute.kind}
                for p in self.document.pipelines or [] for number, stage in enumerate(p.stages) for r in stage.layers]
        names = list(rows[0]) if rows else []
        return Table.of_rows(names, ([row[name] for name in names] for row in rows))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._handle == other._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __repr__(self) -> str:
        return f"Plan({self.label!r})"

    def _repr_html_(self) -> str:
        return _html.of_plan(self)


class Report:
    """The report of a plan: one HTML page that opens anywhere and loads nothing (docs/report.md)."""

    def __init__(self, data: str, text: str) -> None:
        self.data = data
        self.html: str = _native.report_page(data, text)

    def to_dict(self) -> dict[str, Any]:
        """Returns the data of the page, schema espalier.report/1."""
        return json.loads(self.data)

    def save(self, path: PathLike = "report.html") -> None:
        """Writes the page."""
        pathlib.Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return _html.of_page(self.html)


class Result(types.ResultDocument):
    """A plan, its predicted costs, what the search proves, and why. Attributes are named as in result.json."""

    _answer: _native.Answer
    plan: Plan  # type: ignore[assignment]

    @classmethod
    def of_handle(cls, answer: _native.Answer) -> Result:
        """Builds a result from the handle of the C++ library."""
        result = cls.from_dict(json.loads(answer.to_json(True)))
        object.__setattr__(result, "_answer", answer)
        object.__setattr__(result, "plan", Plan(answer.plan))
        return result

    def job(self) -> Job:
        """Returns the job that this result answers."""
        return Job(self._answer.job)

    @property
    def finished(self) -> bool:
        """False if a limit ended the search before it covered all of its space; this is then the best plan so far."""
        return self._answer.finished

    def to_json(self, timing: bool = False, plan_schema: int = 2) -> str:
        """Returns result.json without the final newline of the file. `timing` adds the wall-clock values that
        `espalier plan --json` prints."""
        return self._answer.to_json(timing, plan_schema)

    def brief(self, width: int = 100) -> str:
        """Returns the terminal answer with no line longer than `width`; 0 does not wrap lines."""
        return self._answer.brief(width)

    def save(self, folder: PathLike) -> list[str]:
        """Writes plan.json, result.json and timeline.json.gz into a folder, like `espalier plan -o`.
        Returns the paths."""
        return self._answer.write(os.fspath(folder), self.timeline().to_trace())

    def timeline(self, steps: bool = False) -> Timeline:
        """Returns the simulated step as NumPy arrays. With `steps`, includes the operators inside each instruction
        and their collectives."""
        return Timeline(_native.simulate_with_timeline(self._answer.job, self._answer.plan, steps)[1])

    def grid(self, width: int = 100, ascii: bool = False) -> str:
        """Returns the schedule as plain text, ready to paste into an issue."""
        return _native.schedule_grid(self._answer, self.timeline()._handle, width, ascii)

    def report(self, measured: PathLike | None = None) -> Report:
        """Returns the report's page. `measured` is a step as written by `espalier run --timeline`; it is laid over
        the predicted one."""
        text, where = text_of(measured, "measured") if measured is not None else (None, "measured")
        return Report(_native.report_data(self._answer.job, self._answer, text, where), self.brief(110))

    def alternatives_table(self) -> Table:
        """Returns baselines and runners-up: how much slower each is, its memory, and where it loses."""
        table = of_documents(self.alternatives, ["label", "baseline", "fits", "iteration_s", "peak_memory_bytes", "lost_to"])
        own = self.prediction.iteration_s
        table["against"] = [seconds / own - 1 if seconds else None for seconds in table["iteration_s"]]
        return table

    def layers_table(self) -> Table:
        """Returns a row for each run of layers with the same treatment: its place and its strategy."""
        return self.plan.layers_table()

    def stages_table(self) -> Table:
        """Returns a row for each stage: its peak memory and how busy it is."""
        peaks = self.prediction.peak_memory_bytes_per_stage or []
        busy = (self.prediction.bottleneck.busy_per_stage if self.prediction.bottleneck else None) or [None] * len(peaks)
        return Table({"stage": list(range(len(peaks))), "peak_memory_bytes": peaks, "busy": busy})

    def __repr__(self) -> str:
        return f"Result({self.plan.label!r}, iteration_s={self.prediction.iteration_s})"

    def _repr_html_(self) -> str:
        return _html.of_result(self)


class Answer(types.Document):
    """An answer of plan() that is not a plain result: .answer is the result of the plan to run, .text
    the terminal's output."""

    _texts: _native.Texts
    answer: Result

    @classmethod
    def of_handle(cls, texts: _native.Texts, answer: _native.Answer) -> Any:
        document = cls.from_dict(json.loads(texts.json))
        object.__setattr__(document, "_texts", texts)
        object.__setattr__(document, "answer", Result.of_handle(answer))
        return document

    @property
    def text(self) -> str:
        return self._texts.text

    def to_json(self) -> str:
        return self._texts.json


class ObjectiveAnswer(Answer, types.ObjectiveAnswer):  # type: ignore[misc]
    """Answers a job with search.objective: the plan that is best for money, a budget or a deadline, and the figures
    of every size of the cluster."""

    def sizes_table(self) -> Table:
        """Returns a row for each size of the cluster."""
        return of_documents(self.sizes, ["nodes_by_group", "devices", "within", "iteration_s", "cost_per_step", "days", "plan"])


class LongRunAnswer(Answer, types.LongRunAnswer):  # type: ignore[misc]
    """Answers a job on links with token buckets: the time of a step once the buckets are empty."""


class OverTime(Answer, types.OverTime):  # type: ignore[misc]
    """Answers a job on a cluster that changes: plans over its trace. `answer` is the best plan that
    is never changed."""


_QUESTIONS: dict[str, tuple[Callable[..., Any], type[Answer]]] = {
    "objective": (_native.plan_for_objective, ObjectiveAnswer),
    "long-run": (_native.plan_for_long_run, LongRunAnswer),
    "over-time": (_native.plan_over_time, OverTime),
}


def options_of(threads: int = 0, node_limit: int = 0, time_limit_s: float = 0, disabled_rules: Iterable[str] = (), left_out_phases: Iterable[str] = (),
               exhaustive: bool = False, alternatives: int = 5, simple: float | bool = False, engines: bool = False,
               restriction: bool = False) -> _native.PlannerOptions:
    options = _native.PlannerOptions()
    options.threads, options.node_limit, options.time_limit_s = threads, node_limit, time_limit_s
    options.disabled_rules, options.left_out_phases = list(disabled_rules), list(left_out_phases)
    options.exhaustive, options.alternatives, options.engines, options.restriction = exhaustive, alternatives, engines, restriction
    options.simple = simple is not False
    if options.simple and simple is not True:
        options.simple_within = float(simple)
    return options


@documented(_native.plan)
def plan(job: JobLike, *, set: Mapping[str, Any] | None = None, network: str | None = None, threads: int = 0, node_limit: int = 0,
         time_limit_s: float = 0, disabled_rules: Iterable[str] = (), left_out_phases: Iterable[str] = (), exhaustive: bool = False,
         alternatives: int = 5, simple: float | bool = False, engines: bool = False, restriction: bool = False,
         progress: Callable[[str], None] | None = None) -> Any:
    """`job` is a path, the text of a job file, a dict or a Job; `set` as in load_job(). Returns a Result for most
    jobs. A job with search.objective returns an ObjectiveAnswer, one with token buckets a LongRunAnswer, and one with
    a changing cluster an OverTime; the plan of each is its `answer`.

    - `network`: "closed" times each message as if alone on its links; with "flow", messages in flight share them.
    - `simple`: True, or how much slower than the fastest the simplest plan may be (0.01).
    - `engines`: also finds the best plan of every engine.
    - `restriction`: also finds what the rules of the job's engine cost.
    - `progress`: callback that receives a line about the state of the search.

    The answer does not depend on the number of threads. Releases the GIL; Ctrl-C raises Interrupted with the best
    answer so far.
    """
    loaded = load_job(job, set)
    handle = _native.under_network(loaded._handle, network or "")
    options = options_of(threads, node_limit, time_limit_s, disabled_rules, left_out_phases, exhaustive, alternatives, simple, engines, restriction)
    if loaded._handle.question in _QUESTIONS:
        function, kind = _QUESTIONS[loaded._handle.question]
        found, interrupted = function(handle, options, progress)
        answer: Any = kind.of_handle(*found) if found else None
    else:
        options.keep_searched = True  # the part of the search that the report shows
        found, interrupted = _native.plan(handle, options, progress)
        answer = Result.of_handle(found) if found else None
    if interrupted:
        raise Interrupted(answer)
    return answer


@documented(_native.estimate)
def estimate(job: JobLike, *, set: Mapping[str, Any] | None = None, network: str | None = None, **configuration: Any) -> Result:
    """Keywords describe the configuration as on the command line: estimate("job.yaml", tp=8, pp=4, schedule="1f1b").
    Numbers are tp, cp, ep, etp, pp, vpp, dp, shard, zero, micro_batch and recompute_layers. Words are sp, cp_kind,
    recompute, schedule, order, overlap and partition. Omitted ones follow from the devices and the engine.
    """
    words = _native.ConfigurationWords()
    for name, value in configuration.items():
        if name.startswith("_") or not hasattr(words, name):
            known = ", ".join(word for word in dir(words) if not word.startswith("_"))
            raise UsageError(name, "no part of a configuration", f"one of {known}")
        setattr(words, name, value)
    return Result.of_handle(_native.estimate(load_job(job, set)._handle, words, network or ""))


def read_plan(source: PlanLike) -> tuple[Plan, _native.Answer | None, str]:
    """Returns the plan of a path, a text, a dict, a Plan or a Result, the answer if there is one, and its
    name in messages."""
    if isinstance(source, Result):
        return source.plan, source._answer, "result"
    if isinstance(source, Plan):
        return source, None, "plan"
    text, where = text_of(source, "plan")
    plan, answer = _native.read_document(text, where)
    return Plan(plan), answer, where


def load_plan(source: PlanLike) -> Plan:
    """Reads a plan from plan.json or result.json: a path, its text, or the same as a dict."""
    return read_plan(source)[0]


@documented(_native.read_document)
def load_result(source: PathLike | Mapping[str, Any]) -> Result:
    """Reads a result.json: a path, its text, or the same as a dict."""
    answer, where = read_plan(source)[1:]
    if answer is None:
        raise UsageError(where, "a plan", "a result.json", "simulate() makes a result of a plan")
    return Result.of_handle(answer)


@documented(_native.simulate)
def simulate(plan: PlanLike, *, network: str | None = None) -> Result:
    """`plan` is a Plan, a Result, a path to plan.json or result.json, its text, or the same as a dict."""
    loaded = read_plan(plan)[0]
    return Result.of_handle(_native.simulate(loaded._handle.job(), loaded._handle, network or ""))
