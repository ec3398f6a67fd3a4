# SPDX-License-Identifier: Apache-2.0
"""Plans for jobs that ask for more than the fastest plan: an objective, token buckets, or a cluster that changes."""

from __future__ import annotations

from typing import Any, Callable, Mapping, TypeVar

from espalier import _native, types
from espalier.errors import Interrupted
from espalier.planning import JobLike, Result, job_for, options_of
from espalier.tables import Table, of_documents
from espalier.words import NetworkLike


class ObjectiveAnswer(types.ObjectiveAnswer):
    """The cluster size and plan that are best for an objective, and the figures of every size.

    Attributes
    ----------
    result : Result
        The plan of the best size.

    Examples
    --------
    >>> cluster = espalier.Cluster.of("h100-sxm-80gb", nodes=2, price_per_device_hour=2.5)
    >>> training = espalier.Training(global_batch=64, sequence_length=8192)
    >>> search = espalier.Search(objective=espalier.Objective(minimise="cost"))
    >>> job = espalier.Job.of(model="models/llama-3-8b", cluster=cluster, training=training, search=search)
    >>> espalier.plan_for_objective(job).minimise
    'cost'
    """

    result: Result

    def sizes_table(self) -> Table:
        """Return a row for each size of the cluster.

        Examples
        --------
        >>> cluster = espalier.Cluster.of("h100-sxm-80gb", nodes=2, price_per_device_hour=2.5)
        >>> training = espalier.Training(global_batch=64, sequence_length=8192)
        >>> search = espalier.Search(objective=espalier.Objective(minimise="cost"))
        >>> job = espalier.Job.of(model="models/llama-3-8b", cluster=cluster, training=training, search=search)
        >>> espalier.plan_for_objective(job).sizes_table()["devices"]
        [8, 16]
        """
        return of_documents(
            self.sizes, ["nodes_by_group", "devices", "within", "iteration_s", "cost_per_step", "days", "plan"]
        )


class LongRunAnswer(types.LongRunAnswer):
    """Plans on links with token buckets: the time of a step once the buckets are empty.

    Attributes
    ----------
    result : Result
        The plan of the first candidate, at the sustained rates.

    Examples
    --------
    >>> answer = espalier.plan_for_long_run("examples/clusters/scenarios/12-a-token-bucket.yaml")
    >>> answer.gap >= 0
    True
    """

    result: Result


class OverTime(types.OverTime):
    """Plans over the trace of a cluster that changes.

    Attributes
    ----------
    result : Result
        The best plan that is never changed.

    Examples
    --------
    >>> answer = espalier.plan_over_time("examples/clusters/scenarios/10-a-spot-trace.yaml")
    >>> [run.name for run in answer.runs]
    ['static', 'static, worst case', 'online', 'clairvoyant']
    """

    result: Result


Kind = TypeVar("Kind", ObjectiveAnswer, LongRunAnswer, OverTime)


def _asked(
    function: Callable[..., Any],
    kind: type[Kind],
    handle: _native.Job,
    options: _native.PlannerOptions,
    on_progress: Callable[[str], object] | None,
) -> Kind:
    found, interrupted = function(handle, options, on_progress)
    if found is None:
        raise Interrupted(None)
    texts, answer = found
    document = kind._from_json(texts.json, lambda: str(texts.text))
    object.__setattr__(document, "result", Result._of_handle(answer))
    if interrupted:
        raise Interrupted(document)
    return document


def plan_for_objective(
    job: JobLike,
    *,
    set: Mapping[str, Any] | None = None,
    network: NetworkLike | None = None,
    threads: int = 0,
    node_limit: int = 0,
    time_limit_s: float = 0,
    on_progress: Callable[[str], object] | None = None,
) -> ObjectiveAnswer:
    """Find the cluster size and plan that are best for the objective of a job.

    Parameters
    ----------
    job : Job, path, str or mapping
        A job with ``search.objective`` (`Objective`).
    set, network, threads, node_limit, time_limit_s, on_progress
        As in `plan`.

    Returns
    -------
    ObjectiveAnswer
        The plan and the figures of every size.

    Raises
    ------
    InfeasibleError
        If no size meets the budget and the deadline.

    Examples
    --------
    >>> cluster = espalier.Cluster.of("h100-sxm-80gb", nodes=2, price_per_device_hour=2.5)
    >>> job = espalier.Job.of(model="models/llama-3-8b", cluster=cluster,
    ...                       training=espalier.Training(global_batch=64, sequence_length=8192, tokens=1e11),
    ...                       search=espalier.Search(objective=espalier.Objective(minimise="cost", deadline="90d")))
    >>> answer = espalier.plan_for_objective(job)
    >>> answer.sizes[answer.best].within
    True
    """
    options = options_of(threads, node_limit, time_limit_s)
    return _asked(
        _native.plan_for_objective, ObjectiveAnswer, job_for("objective", job, set, network), options, on_progress
    )


def plan_for_long_run(
    job: JobLike,
    *,
    set: Mapping[str, Any] | None = None,
    network: NetworkLike | None = None,
    threads: int = 0,
    node_limit: int = 0,
    time_limit_s: float = 0,
    on_progress: Callable[[str], object] | None = None,
) -> LongRunAnswer:
    """Find the plan with the shortest step once the token buckets of its links are empty.

    Parameters
    ----------
    job : Job, path, str or mapping
        A job whose links have token buckets (docs/clusters.md).
    set, network, threads, node_limit, time_limit_s, on_progress
        As in `plan`.

    Returns
    -------
    LongRunAnswer
        The candidates, and the result of the first one.

    Examples
    --------
    >>> answer = espalier.plan_for_long_run("examples/clusters/scenarios/12-a-token-bucket.yaml")
    >>> answer.candidates[0].long_run_s >= answer.lower_bound_s
    True
    """
    options = options_of(threads, node_limit, time_limit_s)
    return _asked(
        _native.plan_for_long_run, LongRunAnswer, job_for("long-run", job, set, network), options, on_progress
    )


def plan_over_time(
    job: JobLike, *, set: Mapping[str, Any] | None = None, network: NetworkLike | None = None, threads: int = 0
) -> OverTime:
    """Plan over the trace of a cluster whose nodes leave, join or slow down.

    Parameters
    ----------
    job : Job, path, str or mapping
        A job whose cluster has events or a capacity over time (docs/clusters.md).
    set, network, threads
        As in `plan`.

    Returns
    -------
    OverTime
        Plans, and what following the changes gains over one plan for the whole trace.

    Examples
    --------
    >>> answer = espalier.plan_over_time("examples/clusters/scenarios/10-a-spot-trace.yaml")
    >>> answer.plans[answer.best_static].label == answer.result.plan.label
    True
    """
    return _asked(_native.plan_over_time, OverTime, job_for("over-time", job, set, network), options_of(threads), None)
