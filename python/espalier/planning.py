# SPDX-License-Identifier: Apache-2.0
"""Jobs, plans and results, and the functions that plan."""

from __future__ import annotations

import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Union

from espalier import _html, _native, types
from espalier._inputs import PathLike, is_document, overrides, text_of
from espalier.builders import ClusterLike, Configuration, ModelLike, Search, Source, Training, job_text
from espalier.errors import Interrupted, UsageError
from espalier.search import Observer, observer_of
from espalier.tables import Table, of_documents, of_mappings
from espalier.timeline import Timeline
from espalier.words import Engine, EngineLike, NetworkLike, Status

if TYPE_CHECKING:
    from matplotlib.axes import Axes

JobLike = Union["Job", PathLike, Mapping[str, Any]]
PlanLike = Union["Plan", "Result", PathLike, Mapping[str, Any]]


class Job:
    """A model, the devices to train it on, the engine, and the space of the search. A loaded job does not change.

    Examples
    --------
    >>> espalier.load_job("examples/llama3-8b-on-8xh100.yaml")
    Job('llama-3-8b', 8,030,261,248 parameters, 8 devices, engine 'megatron-core')
    """

    def __init__(self, handle: _native.Job) -> None:
        self._handle = handle

    @classmethod
    def of(
        cls,
        *,
        model: ModelLike,
        cluster: ClusterLike,
        training: Training | Mapping[str, Any],
        engine: EngineLike | str = Engine.GENERIC,
        search: Search | Mapping[str, Any] | None = None,
        calibration: Source | None = None,
        profile: Source | None = None,
    ) -> Job:
        """Make a job of its parts.

        Parameters
        ----------
        model : Model, path or mapping
            The model to train.
        cluster : Cluster, path or mapping
            The devices.
        training : Training or mapping
            Batch, sequence, precision and optimizer.
        engine : Engine or str
            The engine whose rules and memory policy hold, with options after a plus: ``"megatron-core+cuda-graphs"``.
        search : Search or mapping, optional
            The space that a search covers.
        calibration, profile : path or mapping, optional
            Fitted coefficients, or measurements of `profile`.

        Returns
        -------
        Job
            The loaded job.

        Examples
        --------
        >>> job = espalier.Job.of(model="models/llama-3-8b", cluster=espalier.Cluster.of("h100-sxm-80gb", nodes=8),
        ...                       training=espalier.Training(global_batch=512, sequence_length=8192))
        >>> job.devices
        64
        """
        text = job_text(model, cluster, training, engine, search, calibration, profile)
        return cls(_native.load_job(text, "job", os.getcwd(), []))

    @property
    def engine(self) -> str:
        """Engine whose rules and memory policy hold."""
        return self._handle.engine

    @property
    def notes(self) -> list[str]:
        """Remarks on the inputs: parts that are not planned."""
        return list(self._handle.notes)

    @property
    def model_name(self) -> str:
        """Name of the model."""
        return self._handle.model_name

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return self._handle.parameters

    @property
    def devices(self) -> int:
        """Devices of the cluster."""
        return self._handle.devices

    def __repr__(self) -> str:
        return (
            f"Job({self.model_name!r}, {self.parameters:,} parameters, {self.devices} devices, engine {self.engine!r})"
        )


def load_job(job: JobLike, set: Mapping[str, Any] | None = None) -> Job:
    """Load a job.

    Parameters
    ----------
    job : Job, path, str or mapping
        A job file (YAML or JSON): its path, its text, or its content. Paths inside a job without a file are relative
        to the working directory.
    set : mapping, optional
        Values over those of the job, by path: ``{"training.global_batch": 128}``.

    Returns
    -------
    Job
        The loaded job.

    Raises
    ------
    InputError
        If the file or a value is wrong.

    Examples
    --------
    >>> espalier.load_job("examples/llama3-8b-on-8xh100.yaml", set={"cluster.nodes": 4}).devices
    32
    """
    if isinstance(job, Job):
        if set:
            raise UsageError("set", "a job that is loaded", "a path, a text or a mapping", "pass `set` to load_job()")
        return job
    if isinstance(job, (str, os.PathLike)) and not is_document(os.fspath(job)):
        return Job(_native.load_job_file(os.fspath(job), overrides(set)))
    text, where = text_of(job, "job")
    return Job(_native.load_job(text, where, os.getcwd(), overrides(set)))


class Plan:
    """How every device takes part in training: which layers run on which devices, how, and in which order.

    Examples
    --------
    >>> plan = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2, zero=1)).plan
    >>> plan.engine
    'megatron-core'
    """

    def __init__(self, handle: _native.Plan) -> None:
        self._handle = handle
        self._document: types.PlanDocument | None = None

    @property
    def label(self) -> str:
        """The plan in one line: ``"TP8·SP CP1 PP4(v2) DP16 ZeRO-1 mb1 interleaved"``."""
        return self._handle.label

    @property
    def hash(self) -> str:
        """Content hash; equal plans have equal hashes."""
        return self._handle.hash

    @property
    def engine(self) -> str:
        """Engine that the plan is for."""
        return self._handle.engine

    @property
    def document(self) -> types.PlanDocument:
        """The typed plan.json: pipelines, stages, layers, strategies."""
        if self._document is None:
            self._document = types.PlanDocument.from_dict(json.loads(self.to_json()))
        return self._document

    def job(self) -> Job:
        """Return the job that the plan was made for; the plan embeds its inputs.

        Examples
        --------
        >>> espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).plan.job().devices
        8
        """
        return Job(self._handle.job())

    def to_json(self, schema: int = 2) -> str:
        """Return plan.json without the final newline of the file.

        Parameters
        ----------
        schema : {1, 2}
            Version of the document. Version 1 cannot express every plan.

        Examples
        --------
        >>> plan = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).plan
        >>> espalier.load_plan(plan.to_json()) == plan
        True
        """
        return self._handle.to_json(schema)

    def to_dict(self) -> dict[str, Any]:
        """Return plan.json as plain Python values.

        Examples
        --------
        >>> plan = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).plan
        >>> plan.to_dict()["schema"]
        'espalier.plan/2'
        """
        return dict(json.loads(self.to_json()))

    def save(self, path: PathLike) -> None:
        """Write plan.json.

        Examples
        --------
        >>> plan = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).plan
        >>> plan.save(f"{folder}/plan.json")
        """
        pathlib.Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def layers_table(self) -> Table:
        """Return a row for each run of layers with equal treatment: its place and its strategy.

        Examples
        --------
        >>> plan = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).plan
        >>> plan.layers_table()["tp"]
        [2]
        """
        return of_mappings(
            [
                {
                    "pipeline": p.id,
                    "stage": number,
                    "first_layer": r.first,
                    "last_layer": r.last,
                    **{
                        name: value
                        for name, value in r.strategy.to_dict().items()
                        if name not in ("recompute", "overlap", "partition")
                    },
                    "recompute": r.strategy.recompute.kind,
                }
                for p in self.document.pipelines or []
                for number, stage in enumerate(p.stages)
                for r in stage.layers
            ]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._handle == other._handle

    def __hash__(self) -> int:
        return hash(self._handle)

    def __repr__(self) -> str:
        return f"Plan({self.label!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return load_plan, (self.to_json(),)

    def _repr_html_(self) -> str:
        return _html.of_plan(self)


class Report:
    """The report of a plan: one HTML page that opens anywhere and loads nothing (docs/report.md).

    Examples
    --------
    >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
    >>> result.report().html.startswith("<!doctype html>")
    True
    """

    def __init__(self, data: str, text: str) -> None:
        self.data = data
        self.html: str = _native.report_page(data, text)

    def to_dict(self) -> dict[str, Any]:
        """Return the data of the page, schema espalier.report/1.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> result.report().to_dict()["schema"]
        'espalier.report/1'
        """
        return dict(json.loads(self.data))

    def save(self, path: PathLike = "report.html") -> None:
        """Write the page.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> result.report().save(f"{folder}/report.html")
        """
        pathlib.Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return _html.of_page(self.html)


class Result(types.ResultDocument):
    """A plan, its predicted costs, and what the search proves. Attributes are named as in result.json.

    Attributes
    ----------
    status : Status
        Why the search ended.
    bound : float or None
        No plan of the searched space has a shorter step, in seconds; None without a search.
    gap : float or None
        Largest share of the step time that another plan of the space could save; None without a search.
    plan : Plan
        The plan.
    prediction : types.Prediction
        Predicted time, memory and price.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-8b-on-8xh100.yaml")
    >>> result.status
    <Status.OPTIMAL: 'optimal'>
    >>> result.gap
    0.0
    >>> result.bound == result.prediction.iteration_s
    True
    """

    _answer: _native.Answer
    plan: Plan  # type: ignore[assignment]

    @classmethod
    def _of_handle(cls, answer: _native.Answer) -> Result:
        result = cls.from_dict(json.loads(answer.to_json(True)))
        object.__setattr__(result, "_answer", answer)
        object.__setattr__(result, "plan", Plan(answer.plan))
        return result

    @property
    def status(self) -> Status:
        """Why the search ended; `Status.NOT_SEARCHED` for a prediction of one configuration or plan."""
        return Status(self.search.reason) if self.search else Status.NOT_SEARCHED

    @property
    def bound(self) -> float | None:
        """Lower bound of the step time over the searched space, in seconds; None without a search."""
        return self.search.lower_bound_s if self.search else None

    @property
    def gap(self) -> float | None:
        """Largest share of the step time that another plan could save; 0 for an optimal plan, None without a search."""
        return self.search.gap if self.search else None

    @property
    def text(self) -> str:
        """The answer of the terminal, at most 100 columns wide."""
        return self.brief()

    def job(self) -> Job:
        """Return the job that this result answers.

        Examples
        --------
        >>> espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).job().model_name
        'llama-3-8b'
        """
        return Job(self._answer.job)

    def to_json(self, timing: bool = False, plan_schema: int = 2) -> str:
        """Return result.json without the final newline of the file.

        Parameters
        ----------
        timing : bool
            Whether to add the wall-clock values that ``espalier plan --json`` prints.
        plan_schema : {1, 2}
            Version of the plan inside.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> espalier.load_result(result.to_json()).plan == result.plan
        True
        """
        return self._answer.to_json(timing, plan_schema)

    def brief(self, width: int = 100) -> str:
        """Return the answer of the terminal.

        Parameters
        ----------
        width : int
            Largest number of columns; 0 does not wrap lines.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> max(map(len, result.brief(80).splitlines())) <= 80
        True
        """
        return self._answer.brief(width)

    def save(self, folder: PathLike) -> list[str]:
        """Write plan.json, result.json and timeline.json.gz into a folder, like ``espalier plan -o``.

        Parameters
        ----------
        folder : path
            The folder, which is made if needed.

        Returns
        -------
        list of str
            The paths of the files.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> len(result.save(f"{folder}/out"))
        3
        """
        return self._answer.write(os.fspath(folder), self.timeline().to_trace())

    def timeline(self, steps: bool = False) -> Timeline:
        """Return the simulated step as NumPy arrays.

        Parameters
        ----------
        steps : bool
            Whether to include the operators inside each instruction and their collectives.

        Returns
        -------
        Timeline
            One value for each instruction in every array.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> timeline = result.timeline()
        >>> int((timeline.start_ns + timeline.duration_ns).max()) == timeline.iteration_ns
        True
        """
        return Timeline(_native.simulate_with_timeline(self._answer.job, self._answer.plan, steps)[1])

    def grid(self, width: int = 100, ascii: bool = False) -> str:
        """Return the schedule as plain text, ready to paste into an issue.

        Parameters
        ----------
        width : int
            Columns of the text.
        ascii : bool
            Whether to use ASCII only.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=4, pp=2))
        >>> len(result.grid(60).splitlines()) > 2
        True
        """
        return _native.schedule_grid(self._answer, self.timeline()._handle, width, ascii)

    def report(self, measured: PathLike | None = None) -> Report:
        """Return the page of the report.

        Parameters
        ----------
        measured : path, optional
            A step as written by ``espalier run --timeline``; the page draws it over the predicted one.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> len(result.report().html) < 1_000_000
        True
        """
        text, where = text_of(measured, "measured") if measured is not None else (None, "measured")
        return Report(_native.report_data(self._answer.job, self._answer, text, where), self.brief(110))

    def alternatives_table(self) -> Table:
        """Return baselines and runners-up: how much slower each is, its memory, and where it loses time.

        Examples
        --------
        >>> "DDP" in espalier.plan("examples/llama3-8b-on-8xh100.yaml").alternatives_table()["label"]
        True
        """
        table = of_documents(
            self.alternatives, ["label", "baseline", "fits", "iteration_s", "peak_memory_bytes", "lost_to"]
        )
        own = self.prediction.iteration_s
        table["against"] = [seconds / own - 1 if seconds else None for seconds in table["iteration_s"]]
        return table

    def layers_table(self) -> Table:
        """Return a row for each run of layers with equal treatment: its place and its strategy.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=4, pp=2))
        >>> result.layers_table()["stage"]
        [0, 1]
        """
        return self.plan.layers_table()

    def stages_table(self) -> Table:
        """Return a row for each stage: its peak memory and how busy it is.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=4, pp=2))
        >>> result.stages_table().rows
        2
        """
        peaks = self.prediction.peak_memory_bytes_per_stage or []
        busy: list[Any] = (self.prediction.bottleneck.busy_per_stage if self.prediction.bottleneck else None) or [
            None
        ] * len(peaks)
        return Table({"stage": list(range(len(peaks))), "peak_memory_bytes": peaks, "busy": busy})

    def searched_table(self) -> Table:
        """Return a row for each plan that the search simulated: label, step time and peak memory, fastest first.

        Only a search in this process keeps these plans, and only on equal devices; at most 4,096 of them.

        Examples
        --------
        >>> table = espalier.plan("examples/llama3-8b-on-8xh100.yaml").searched_table()
        >>> table["iteration_s"] == sorted(table["iteration_s"])
        True
        """
        rows = [(label, ns * 1e-9, peak) for label, ns, peak in self._answer.searched_plans]
        return Table.of_rows(["label", "iteration_s", "peak_memory_bytes"], rows)

    def plot_timeline(self, ax: Axes | None = None, *, ranks: int = 16) -> Axes:
        """Plot the simulated step: a row for each rank class and stream (``pip install "espalier[plot]"``).

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        ranks : int
            Largest number of rank classes.

        Returns
        -------
        matplotlib.axes.Axes
            The axes, with milliseconds on x.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=4, pp=2))
        >>> result.plot_timeline().get_xlabel()
        'time (ms)'
        """
        from espalier import _plots

        return _plots.timeline(self, ax, ranks)

    def plot_memory(self, ax: Axes | None = None) -> Axes:
        """Plot the memory of each stage over the step, and the limit (``pip install "espalier[plot]"``).

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes, with GiB on y.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=4, pp=2))
        >>> result.plot_memory().get_ylabel()
        'memory (GiB)'
        """
        from espalier import _plots

        return _plots.memory(self, ax)

    def plot_space(self, ax: Axes | None = None) -> Axes:
        """Plot the plans that the search simulated: step time and memory (``pip install "espalier[plot]"``).

        The bound is a vertical line, the memory limit a horizontal one.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes, with seconds on x and GiB on y.

        Examples
        --------
        >>> espalier.plan("examples/llama3-8b-on-8xh100.yaml").plot_space().get_xlabel()
        'step time (s)'
        """
        from espalier import _plots

        return _plots.space(self, ax)

    def __reduce__(self) -> tuple[Any, ...]:
        return load_result, (self.to_json(),)

    def __repr__(self) -> str:
        return f"Result({self.plan.label!r}, status={str(self.status)!r}, iteration_s={self.prediction.iteration_s})"

    def _repr_html_(self) -> str:
        return _html.of_result(self)


def options_of(
    threads: int = 0,
    node_limit: int = 0,
    time_limit_s: float = 0,
    disabled_rules: Iterable[str] = (),
    left_out_phases: Iterable[str] = (),
    exhaustive: bool = False,
    alternatives: int = 5,
    simple: float | bool = False,
    engines: bool = False,
    restriction: bool = False,
    engine_options: bool = False,
) -> _native.PlannerOptions:
    """Returns the options of the library."""
    options = _native.PlannerOptions()
    options.threads, options.node_limit, options.time_limit_s = threads, node_limit, time_limit_s
    options.disabled_rules, options.left_out_phases = list(disabled_rules), list(left_out_phases)
    options.exhaustive, options.alternatives, options.engines, options.restriction = (
        exhaustive,
        alternatives,
        engines,
        restriction,
    )
    options.engine_options, options.simple = engine_options, simple is not False
    if options.simple and simple is not True:
        options.simple_within = float(simple)
    return options


# The function that answers a job, by the kind of its question.
FUNCTIONS = {
    "plan": "plan",
    "objective": "plan_for_objective",
    "long-run": "plan_for_long_run",
    "over-time": "plan_over_time",
}


def job_for(question: str, job: JobLike, set: Mapping[str, Any] | None, network: NetworkLike | None) -> _native.Job:
    """Returns the job, or raises UsageError where another function answers it."""
    handle = load_job(job, set)._handle
    if handle.question != question:
        raise UsageError(
            "job",
            f"a job that {FUNCTIONS[handle.question]}() answers",
            f"a job for {FUNCTIONS[question]}()",
            f"espalier.{FUNCTIONS[handle.question]}(job)",
        )
    return _native.under_network(handle, str(network or ""))


def plan(
    job: JobLike,
    *,
    set: Mapping[str, Any] | None = None,
    network: NetworkLike | None = None,
    threads: int = 0,
    node_limit: int = 0,
    time_limit_s: float = 0,
    disabled_rules: Iterable[str] = (),
    left_out_phases: Iterable[str] = (),
    exhaustive: bool = False,
    alternatives: int = 5,
    simple: float | bool = False,
    engines: bool = False,
    restriction: bool = False,
    engine_options: bool = True,
    on_improvement: Observer | None = None,
    on_bound: Observer | None = None,
    on_progress: Callable[[str], object] | None = None,
) -> Result:
    """Find the fastest plan of a job.

    The answer does not depend on the number of threads. Other Python threads run during the search.

    Parameters
    ----------
    job : Job, path, str or mapping
        The job: `Job.of` makes one of its parts, and `load_job` lists the other forms.
    set : mapping, optional
        Values over those of the job, by path: ``{"training.global_batch": 128}``.
    network : Network or str, optional
        ``"closed"`` times each message as if it were alone on its links; under ``"flow"``, messages share links.
    threads : int
        Threads of the search; 0 uses all hardware threads.
    node_limit : int
        Largest number of simulated configurations; 0 sets no limit.
    time_limit_s : float
        Seconds after which the best plan so far is returned; 0 sets no limit.
    disabled_rules, left_out_phases : iterable of str
        Pruning rules to switch off, and phases to skip, by name (docs/search.md).
    exhaustive : bool
        Whether to simulate every legal configuration that fits. This is the reference for tests.
    alternatives : int
        Number of runners-up.
    simple : bool or float
        Whether to return the simplest plan, or how much slower than the fastest it may be (default 0.01).
    engines : bool
        Whether to find the best plan of every engine as well.
    restriction : bool
        Whether to find what the rules of the job's engine cost.
    engine_options : bool
        Whether to find what options of the job's engine would gain.
    on_improvement : callable, optional
        Receives a `SearchState` whenever the search finds a faster plan.
    on_bound : callable, optional
        Receives a `SearchState` whenever the lower bound changes.
    on_progress : callable, optional
        Receives a line about the state of the search, at most one per second.

    Returns
    -------
    Result
        The plan with its prediction. `Result.status` states whether it is proven optimal.

    Raises
    ------
    InfeasibleError
        If no plan fits; its `hint` is the nearest change that helps.
    LimitError
        If a limit ended the search before it found a plan.
    Interrupted
        On Ctrl-C; `best` is the best result so far.
    UsageError
        If the job has an objective, token buckets or a changing cluster: other functions answer these.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-8b-on-8xh100.yaml", set={"training.global_batch": 32})
    >>> result.status is espalier.Status.OPTIMAL, result.prediction.fits
    (True, True)

    Watch the search:

    >>> states = []
    >>> result = espalier.plan("examples/llama3-8b-on-8xh100.yaml", on_improvement=states.append)
    >>> states[-1].best_s == result.prediction.iteration_s
    True
    """
    handle = job_for("plan", job, set, network)
    options = options_of(
        threads,
        node_limit,
        time_limit_s,
        disabled_rules,
        left_out_phases,
        exhaustive,
        alternatives,
        simple,
        engines,
        restriction,
        engine_options,
    )
    options.keep_searched = True  # the part of the search that the report shows
    found, interrupted = _native.plan(handle, options, on_progress, observer_of(on_improvement, on_bound))
    best = Result._of_handle(found) if found else None
    if interrupted or best is None:
        raise Interrupted(best)
    return best


def estimate(
    job: JobLike,
    configuration: Configuration = Configuration(),
    *,
    set: Mapping[str, Any] | None = None,
    network: NetworkLike | None = None,
) -> Result:
    """Predict one configuration of a job.

    Parameters
    ----------
    job : Job, path, str or mapping
        The job.
    configuration : Configuration
        Degrees and schedule. Parts left out follow from the devices and the engine.
    set : mapping, optional
        Values over those of the job, by path.
    network : Network or str, optional
        The network model, as in `plan`.

    Returns
    -------
    Result
        The prediction. A configuration that does not fit has ``prediction.fits == False``.

    Raises
    ------
    InputError
        If the configuration breaks a rule, which the message names.

    Examples
    --------
    >>> mine = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2, zero=1))
    >>> mine.status
    <Status.NOT_SEARCHED: 'not searched'>
    """
    return Result._of_handle(_native.estimate(load_job(job, set)._handle, configuration._words(), str(network or "")))


def read_plan(source: PlanLike) -> tuple[Plan, _native.Answer | None, str]:
    """Returns the plan of a path, a text, a mapping, a Plan or a Result, the answer if there is one, and its name in
    messages."""
    if isinstance(source, Result):
        return source.plan, source._answer, "result"
    if isinstance(source, Plan):
        return source, None, "plan"
    text, where = text_of(source, "plan")
    handle, answer = _native.read_document(text, where)
    return Plan(handle), answer, where


def load_plan(source: PlanLike) -> Plan:
    """Read a plan.

    Parameters
    ----------
    source : Plan, Result, path, str or mapping
        A plan.json or result.json: its path, its text, or its content.

    Returns
    -------
    Plan
        The plan.

    Examples
    --------
    >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
    >>> espalier.load_plan(result.to_json()).hash == result.plan.hash
    True
    """
    return read_plan(source)[0]


def load_result(source: PathLike | Mapping[str, Any]) -> Result:
    """Read a result.json.

    Parameters
    ----------
    source : path, str or mapping
        Its path, its text, or its content.

    Returns
    -------
    Result
        The result, without the wall-clock values and the searched plans.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-8b-on-8xh100.yaml")
    >>> espalier.load_result(result.to_json()).status
    <Status.OPTIMAL: 'optimal'>
    """
    answer, where = read_plan(source)[1:]
    if answer is None:
        raise UsageError(where, "a plan", "a result.json", "simulate() makes a result of a plan")
    return Result._of_handle(answer)


def simulate(plan: PlanLike, *, network: NetworkLike | None = None) -> Result:
    """Simulate a plan without changing it.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan.
    network : Network or str, optional
        The network model, as in `plan`.

    Returns
    -------
    Result
        The prediction.

    Examples
    --------
    >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
    >>> espalier.simulate(result.plan).prediction == result.prediction
    True
    """
    loaded = load_plan(plan)
    return Result._of_handle(_native.simulate(loaded._handle.job(), loaded._handle, str(network or "")))
