# SPDX-License-Identifier: Apache-2.0
"""Commands that read files of other tools, sweep over jobs, or run processes.

Sweeps use the library. The other commands run the binary of the package, with the same answers as the command line.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from typing import Any, Mapping, Sequence

from espalier import _native, types
from espalier._base import Document
from espalier._binary import Command
from espalier._inputs import PathLike, overrides, value_text
from espalier.builders import Cluster, ClusterLike, Model, ModelLike
from espalier.errors import Error, InfeasibleError, InputError, LimitError, UsageError
from espalier.planning import Job, JobLike, PlanLike, Result, load_plan, load_result, plan
from espalier.tables import Table, of_mappings
from espalier.words import ClusterFormatLike, ConfigurationFormatLike, DeviceLike, NetworkLike, TraceFormatLike

# ---- configurations of training frameworks --------------------------------------------------------------------------


def _result_in(part: Document | None) -> Result | None:
    found = part["result"] if part is not None and "result" in part else None
    return load_result(found) if found else None


class Improvement(types.Improvement):
    """The cost of a present configuration, the best plan of its engine, and the gain of every single change."""

    @property
    def present_result(self) -> Result | None:
        """Prediction of the present configuration; None if it breaks rules (`present.broken`)."""
        return _result_in(self.present)

    @property
    def best_result(self) -> Result | None:
        """The best plan; None if no plan fits (`best.error`)."""
        return _result_in(self.best)

    def changes_table(self) -> Table:
        """Return a row for each single change that gains, fastest first.

        Examples
        --------
        >>> answer = espalier.improve("examples/improve/llama3-8b-megatron.sh", format="megatron-args",
        ...                           cluster=espalier.Cluster.of("h100-sxm-80gb"))
        >>> answer.changes_table()["gain"] == sorted(answer.changes_table()["gain"], reverse=True)
        True
        """
        return of_mappings([change.to_dict() for change in self.changes])


class Imported(Document):
    """A configuration of a training framework as a job and a plan, with a report on its keys."""

    @property
    def keys(self) -> types.ImportedKeys:
        """How each key was interpreted."""
        return types.ImportedKeys.from_dict(self["import"])

    @property
    def result(self) -> Result:
        """Prediction of the configuration, with its plan."""
        return load_result(self["result"])


def _configuration(
    command: str,
    configuration: PathLike,
    format: ConfigurationFormatLike,
    cluster: ClusterLike,
    model: ModelLike | None,
    sequence_length: int | None,
    global_batch: int | None,
    micro_batch: int | None,
    recompute: str | None,
    ignore: Sequence[str],
    arguments: Mapping[str, str] | None,
    sourced: Sequence[PathLike],
    set: Mapping[str, Any] | None,
) -> Command:
    call = Command(*command.split())
    call.words += [call.file(configuration, "configuration"), "--format", str(format)]
    call.flag("--cluster", call.file(cluster.source if isinstance(cluster, Cluster) else cluster, "cluster.yaml"))
    if model is not None:
        call.flag("--model", call.file(model.source if isinstance(model, Model) else model, "config.json"))
    call.flag("--sequence-length", sequence_length).flag("--global-batch", global_batch).flag(
        "--micro-batch", micro_batch
    )
    call.flag("--recompute", recompute).each("--ignore", ignore).each(
        "--arg", [f"{name}={value}" for name, value in (arguments or {}).items()]
    )
    return call.each("--with", [os.fspath(path) for path in sourced]).each("--set", overrides(set))


def improve(
    configuration: PathLike,
    *,
    format: ConfigurationFormatLike,
    cluster: ClusterLike,
    model: ModelLike | None = None,
    sequence_length: int | None = None,
    global_batch: int | None = None,
    micro_batch: int | None = None,
    recompute: str | None = None,
    ignore: Sequence[str] = (),
    arguments: Mapping[str, str] | None = None,
    sourced: Sequence[PathLike] = (),
    set: Mapping[str, Any] | None = None,
    threads: int = 0,
    node_limit: int = 0,
    time_limit_s: float = 0,
) -> Improvement:
    """Predict the cost of a present configuration, and find a better one.

    Parameters
    ----------
    configuration : path or str
        The configuration of a training framework, or its text.
    format : ConfigurationFormat or str
        Format of the configuration.
    cluster : Cluster, path, str or mapping
        The devices that it runs on.
    model : Model, path, str or mapping, optional
        The model, if the configuration does not include it.
    sequence_length, global_batch, micro_batch : int, optional
        Values that the configuration does not state.
    recompute : str, optional
        Recomputation of the training script, if the configuration does not state it.
    ignore : sequence of str
        Keys to ignore because they do not change the plan.
    arguments : mapping, optional
        Variables and positional parameters of a launch script: ``{"TP": "4", "1": "7B"}``.
    sourced : sequence of paths
        Files that a launch script sources.
    set : mapping, optional
        Values over those of the job, by path.
    threads, node_limit, time_limit_s
        As in `plan`.

    Returns
    -------
    Improvement
        Present plan, best plan, and gains.

    Examples
    --------
    >>> answer = espalier.improve("examples/improve/llama3-8b-megatron.sh", format="megatron-args",
    ...                           cluster=espalier.Cluster.of("h100-sxm-80gb"))
    >>> answer.best_result.prediction.iteration_s <= answer.present_result.prediction.iteration_s
    True
    """
    call = _configuration(
        "improve",
        configuration,
        format,
        cluster,
        model,
        sequence_length,
        global_batch,
        micro_batch,
        recompute,
        ignore,
        arguments,
        sourced,
        set,
    )
    call.flag("--threads", threads or None).flag("--node-limit", node_limit or None).flag(
        "--time-limit", time_limit_s or None
    )
    return call.answer(Improvement)


def import_configuration(
    configuration: PathLike,
    *,
    format: ConfigurationFormatLike,
    cluster: ClusterLike,
    model: ModelLike | None = None,
    sequence_length: int | None = None,
    global_batch: int | None = None,
    micro_batch: int | None = None,
    recompute: str | None = None,
    ignore: Sequence[str] = (),
    arguments: Mapping[str, str] | None = None,
    sourced: Sequence[PathLike] = (),
    set: Mapping[str, Any] | None = None,
) -> Imported:
    """Read a configuration of a training framework as a job and a plan, and simulate it.

    Parameters
    ----------
    configuration, format, cluster, model, sequence_length, global_batch, micro_batch, recompute
        As in `improve`.
    ignore, arguments, sourced, set
        As in `improve`.

    Returns
    -------
    Imported
        The prediction, its plan, and a report on every key.

    Examples
    --------
    >>> imported = espalier.import_configuration("examples/improve/llama3-8b-megatron.sh", format="megatron-args",
    ...                                          cluster=espalier.Cluster.of("h100-sxm-80gb"))
    >>> imported.result.plan.engine
    'megatron-core'
    """
    return _configuration(
        "import config",
        configuration,
        format,
        cluster,
        model,
        sequence_length,
        global_batch,
        micro_batch,
        recompute,
        ignore,
        arguments,
        sourced,
        set,
    ).answer(Imported)


# ---- clusters, traces and Galvatron's profiles ----------------------------------------------------------------------


class ImportedCluster(Document):
    """A cluster that another tool described."""

    @property
    def cluster(self) -> Cluster:
        """The cluster, for `Job.of` and the other functions."""
        return Cluster(str(self["cluster_file"]))

    @property
    def notes(self) -> list[str]:
        """Findings and assumptions, with their reasons."""
        return list(self["notes"])


class ImportedTrace(Document):
    """The events of nodes that join and leave, as a cluster file holds them."""


class GalvatronPlan(Document):
    """The best plan by Galvatron's cost model."""


def import_cluster(
    description: PathLike,
    *,
    format: ClusterFormatLike,
    device: DeviceLike | str | None = None,
    nodes: int | None = None,
    devices_per_node: int | None = None,
    nic_bandwidth: str | None = None,
    oversubscription: float | None = None,
    hosts: str | None = None,
    nccl_tests: Sequence[PathLike] = (),
) -> ImportedCluster:
    """Read another tool's description of a cluster.

    Parameters
    ----------
    description : path or str
        The description, or its text.
    format : ClusterFormat or str
        Format of the description.
    device : Device or str, optional
        Kind of the devices, if the description does not state it.
    nodes, devices_per_node : int, optional
        Number of nodes, and devices of each.
    nic_bandwidth : str, optional
        Bandwidth of one network interface: ``"400Gb/s"``.
    oversubscription : float, optional
        Ratio for the links above a leaf switch.
    hosts : str, optional
        The hosts of the job: ``"node[01-16]"``.
    nccl_tests : sequence of paths
        Outputs of nccl-tests from these nodes; their figures become those of the links.

    Returns
    -------
    ImportedCluster
        The cluster and the notes on it.

    Examples
    --------
    >>> found = espalier.import_cluster("node[01-04]\\n", format="slurm-hosts", device="h100-sxm-80gb")
    >>> found.cluster.devices
    32
    """
    call = Command("import", "cluster")
    call.words += [call.file(description, "description"), "--format", str(format)]
    call.flag("--device", str(device or "")).flag("--nodes", nodes).flag("--devices-per-node", devices_per_node)
    call.flag("--nic-bandwidth", nic_bandwidth).flag("--oversubscription", oversubscription).flag("--hosts", hosts)
    return call.each("--nccl-tests", [os.fspath(path) for path in nccl_tests]).answer(ImportedCluster)


def import_trace(
    trace: PathLike, *, format: TraceFormatLike, first_node: int | None = None, devices_per_node: int | None = None
) -> ImportedTrace:
    """Convert a trace of nodes that join and leave into the events of a cluster file.

    Parameters
    ----------
    trace : path or str
        The trace, or its text.
    format : TraceFormat or str
        Format of the trace.
    first_node : int, optional
        Number of the trace's first node in the cluster.
    devices_per_node : int, optional
        Devices of a node, for formats that count devices.

    Returns
    -------
    ImportedTrace
        The events.

    Examples
    --------
    >>> espalier.import_trace("0,4\\n60,3\\n", format="counts")["nodes"]
    4
    """
    call = Command("import", "trace")
    call.words += [call.file(trace, "trace.csv"), "--format", str(format)]
    return call.flag("--first-node", first_node).flag("--devices-per-node", devices_per_node).answer(ImportedTrace)


def import_galvatron_profile(
    job: PathLike | Mapping[str, Any],
    *,
    computation: PathLike,
    memory: PathLike,
    allreduce: PathLike,
    p2p: PathLike | None = None,
    overlap: PathLike | None = None,
    sp: PathLike | None = None,
    budget: str | None = None,
    default_dp: str | None = None,
    reduce_at_end: bool = False,
    pp: int | None = None,
    chunks: int | None = None,
    set: Mapping[str, Any] | None = None,
) -> GalvatronPlan:
    """Find the best plan by Galvatron's cost model and its profile files.

    Parameters
    ----------
    job : path, str or mapping
        Model, cluster and training.
    computation, memory, allreduce, p2p, overlap, sp : path
        Profile files of Galvatron. The last three are optional.
    budget : str, optional
        Memory per device: ``"36GiB"``.
    default_dp : {"ddp", "zero2"}, optional
        Data-parallel type of layers without ZeRO-3.
    reduce_at_end : bool
        Whether gradients are reduced once per step.
    pp, chunks : int, optional
        Only this number of stages, or micro-batches.
    set : mapping, optional
        Values over those of the job, by path.

    Returns
    -------
    GalvatronPlan
        The plan, by Galvatron's model and by Espalier's.

    Examples
    --------
    >>> folder = "examples/galvatron"
    >>> best = espalier.import_galvatron_profile(
    ...     f"{folder}/job.yaml", computation=f"{folder}/computation_profiling_bf16_llama2-7b.json",
    ...     memory=f"{folder}/memory_profiling_bf16_llama2-7b.json",
    ...     allreduce=f"{folder}/allreduce_bandwidth_1nodes_8gpus_per_node.json", budget="36GiB", pp=1)
    >>> best["schema"]
    'espalier.galvatron/1'
    """
    call = Command("import", "galvatron-profile")
    call.flag("--job", call.file(job, "job.yaml")).each("--set", overrides(set))
    for name, path in (
        ("computation", computation),
        ("memory", memory),
        ("allreduce", allreduce),
        ("p2p", p2p),
        ("overlap", overlap),
        ("sp", sp),
    ):
        call.flag("--" + name, None if path is None else os.fspath(path))
    call.flag("--budget", budget).flag("--default-dp", default_dp).flag("--reduce-at-end", reduce_at_end).flag(
        "--pp", pp
    ).flag("--chunks", chunks)
    return call.answer(GalvatronPlan)


# ---- sweeps ---------------------------------------------------------------------------------------------------------

# Short names of settings that sweeps often vary, as on the command line.
SHORT = {
    "nodes": "cluster.nodes",
    "batch": "training.global_batch",
    "sequence": "training.sequence_length",
    "precision": "training.precision",
}


@dataclasses.dataclass(frozen=True)
class SweepPoint:
    """One combination of values and its plan.

    Attributes
    ----------
    values : mapping
        The value of each setting, by path.
    result : Result or None
        The plan; None if there is none.
    error : Error or None
        Why there is no plan.

    Examples
    --------
    >>> sweep = espalier.sweep("examples/llama3-8b-on-8xh100.yaml", {"batch": [32]})
    >>> dict(sweep.points[0].values)
    {'training.global_batch': 32}
    """

    values: Mapping[str, Any]
    result: Result | None
    error: Error | None


class Sweep(Document):
    """Plans of one job over values of its settings.

    Attributes
    ----------
    points : tuple of SweepPoint
        The combinations; the last setting changes fastest.
    csv : str
        The table as CSV.

    Examples
    --------
    >>> sweep = espalier.sweep("examples/llama3-8b-on-8xh100.yaml", {"batch": [32, 64]})
    >>> sweep.csv.startswith("training.global_batch,")
    True
    """

    points: tuple[SweepPoint, ...]
    csv: str

    @property
    def best(self) -> SweepPoint | None:
        """The point with the highest throughput per device; None if no point has a plan."""
        planned = [point for point in self.points if point.result]
        return max(
            planned,
            key=lambda point: (point.result.prediction.tokens_per_s_per_gpu or 0) if point.result else 0,
            default=None,
        )

    def table(self) -> Table:
        """Return a row for each point: its values, label, step time, throughput, memory and status.

        Examples
        --------
        >>> sweep = espalier.sweep("examples/llama3-8b-on-8xh100.yaml", {"batch": [32, 64]})
        >>> sweep.table()["status"]
        ['optimal', 'optimal']
        """
        rows = []
        for point in self.points:
            prediction = point.result.prediction if point.result else None
            rows.append(
                {
                    **point.values,
                    "label": point.result.plan.label if point.result else None,
                    "iteration_s": prediction.iteration_s if prediction else None,
                    "tokens_per_s_per_gpu": prediction.tokens_per_s_per_gpu if prediction else None,
                    "mfu": prediction.mfu if prediction else None,
                    "peak_memory_bytes": prediction.peak_memory_bytes if prediction else None,
                    "status": str(point.result.status) if point.result else point.error.kind if point.error else None,
                }
            )
        return of_mappings(rows)


def sweep(
    job: PathLike | Mapping[str, Any],
    over: Mapping[str, Sequence[Any]],
    *,
    set: Mapping[str, Any] | None = None,
    network: NetworkLike | None = None,
    threads: int = 0,
    node_limit: int = 0,
    time_limit_s: float = 0,
    width: int = 100,
) -> Sweep:
    """Plan a job for every combination of values of its settings.

    Parameters
    ----------
    job : path, str or mapping
        The job.
    over : mapping
        Values by path: ``{"cluster.nodes": [1, 2, 4], "engine": ["megatron-core", "torchtitan"]}``. Short names are
        nodes, batch, sequence and precision.
    set : mapping, optional
        Values over those of the job, by path.
    network, threads, node_limit, time_limit_s
        As in `plan`.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    Sweep
        The results. A combination without a plan is a finding, and its point holds the error.

    Raises
    ------
    InputError
        If every combination is bad input, which means a mistake in the job or in a path.

    Examples
    --------
    >>> sweep = espalier.sweep("examples/llama3-8b-on-8xh100.yaml", {"nodes": [1, 2], "batch": [64]})
    >>> [point.result.job().devices for point in sweep.points]
    [8, 16]
    """
    if isinstance(job, Job):
        raise UsageError(
            "job",
            "a job that is loaded",
            "a path, a text or a mapping",
            "a sweep changes values before the job is read",
        )
    axes = {SHORT.get(path, path): list(values) for path, values in over.items()}
    points: list[SweepPoint] = []
    for combination in itertools.product(*axes.values()):
        values = dict(zip(axes, combination))
        try:
            found = plan(
                job,
                set={**(set or {}), **values},
                network=network,
                threads=threads,
                node_limit=node_limit,
                time_limit_s=time_limit_s,
                engine_options=False,
            )
            points.append(SweepPoint(values, found, None))
        except (InfeasibleError, InputError, LimitError) as error:
            points.append(SweepPoint(values, None, error))
    errors = [point.error for point in points]
    if errors and all(isinstance(error, InputError) for error in errors) and errors[0] is not None:
        raise errors[0]
    rows = [
        (
            [value_text(value) for value in point.values.values()],
            point.result._answer if point.result else None,
            (
                (point.error.kind, point.error.where, point.error.found, point.error.expected, point.error.hint)
                if point.error
                else None
            ),
        )
        for point in points
    ]
    texts, csv = _native.sweep(
        [(path, [value_text(value) for value in values]) for path, values in axes.items()], rows, width
    )
    document = Sweep._from_json(texts.json, lambda: texts.text)
    object.__setattr__(document, "points", tuple(points))
    object.__setattr__(document, "csv", csv)
    return document


# ---- processes on this machine --------------------------------------------------------------------------------------


class Profile(Document):
    """Measurements of this machine; the file is a calibration that jobs name as their profile."""


class Run(Document):
    """A training run of a plan."""

    @property
    def predicted_iteration_s(self) -> float | None:
        """Predicted seconds of a step, on the cluster of the plan."""
        return float(self["predicted_iteration_seconds"]) if "predicted_iteration_seconds" in self else None

    @property
    def median_step_s(self) -> float | None:
        """Median of the measured seconds of a step; None if the checkpoint already held all steps."""
        return float(self["timing"]["median_step_seconds"]) if "timing" in self else None

    def steps_table(self) -> Table:
        """Return a row for each step: its loss and gradient norm.

        Examples
        --------
        >>> espalier.run("out/plan.json", steps=3).steps_table()["loss"]  # doctest: +SKIP
        """
        return of_mappings(self["steps"])


def profile(
    job: JobLike | None = None,
    *,
    out: PathLike,
    set: Mapping[str, Any] | None = None,
    tp: Sequence[int] = (1,),
    samples: Sequence[int] = (1, 2),
    partition: Sequence[str] = (),
    sequence_parallel: bool = False,
    overlap: int | None = None,
    steps: int = 5,
    pace: str | None = None,
    collectives: PathLike | None = None,
    earlier: PathLike | None = None,
    network: bool = False,
    local: int = 1,
    timeout_s: float = 300,
) -> Profile:
    """Measure this machine: the operators of a job's model, or the network between ranks.

    It needs the runtime (``./dev runtime``); the environment variable ESPALIER_RANK names its program.

    Parameters
    ----------
    job : path, str or mapping, optional
        The job. It is not needed with `network`.
    out : path
        Where to write the profile.
    set : mapping, optional
        Values over those of the job, by path.
    tp, samples : sequence of int
        Sizes of tensor groups, and samples per micro-batch.
    partition : sequence of str
        Partitions whose operators are measured as well.
    sequence_parallel : bool
        Whether groups use Megatron's sequence parallelism.
    overlap : int, optional
        Ranks on which the mutual slowdown of compute and reductions is measured.
    steps : int
        Steps of each run; the first is not counted.
    pace : str, optional
        Emulated device: ``"flops=F,bandwidth=B,launch=S"``.
    collectives, earlier : path, optional
        Measured collectives, and a profile whose operators are reused.
    network : bool
        Whether to measure collectives between ranks.
    local : int
        Ranks per node, with `network`.
    timeout_s : float
        Seconds after which a rank gives up on a silent peer.

    Returns
    -------
    Profile
        Figures of the profile.

    Examples
    --------
    >>> espalier.profile("job.yaml", out="profile.yaml")  # doctest: +SKIP
    """
    call = Command("profile")
    if job is not None:
        if isinstance(job, Job):
            raise UsageError("job", "a job that is loaded", "a path, a text or a mapping", "")
        call.words.append(call.file(job, "job.yaml"))
    call.each("--set", overrides(set)).flag("--out", os.fspath(out))
    if network:
        call.flag("--network", True).flag("--local", local)
    else:
        call.flag("--tp", ",".join(map(str, tp))).flag("--samples", ",".join(map(str, samples))).flag("--steps", steps)
    call.each("--partition", partition).flag("--sequence-parallel", sequence_parallel).flag("--overlap", overlap).flag(
        "--pace", pace
    )
    call.flag("--collectives", collectives).flag("--from", earlier).flag("--timeout", timeout_s)
    return call.answer(Profile)


def run(
    plan: PlanLike,
    *,
    steps: int = 20,
    data: PathLike | None = None,
    weights: PathLike | None = None,
    save: PathLike | None = None,
    checkpoint: PathLike | None = None,
    every: int = 0,
    keep: int = 2,
    resume: bool = False,
    seed: int = 1,
    learning_rate: float = 1e-3,
    clip: float = 1,
    timeout_s: float = 300,
    pace: str | None = None,
    record: PathLike | None = None,
    timeline: PathLike | None = None,
) -> Run:
    """Train the model of a plan, with a process on this machine for every device.

    It needs the runtime (``./dev runtime``); the environment variable ESPALIER_RANK names its program. Under a
    launcher, use the command line.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan.
    steps : int
        Training steps.
    data : path, optional
        Consecutive 16-bit tokens, or Megatron-LM's .bin with its .idx; synthetic tokens by default.
    weights, save : path, optional
        Folder of the initial weights, and folder for the final ones, as safetensors.
    checkpoint : path, optional
        Folder for parameters and optimizer states that another plan can resume.
    every, keep : int
        Steps between two checkpoints (0: one after the last step), and number of checkpoints to keep.
    resume : bool
        Whether to resume from the last complete checkpoint.
    seed : int
        Seed of parameters and synthetic tokens.
    learning_rate, clip : float
        Learning rate of AdamW, and largest gradient norm (0: no clipping).
    timeout_s : float
        Seconds after which a rank gives up on a silent peer.
    pace : str, optional
        Emulated device.
    record, timeline : path, optional
        Files for the times of operators, and for the step that `compare_step` reads.

    Returns
    -------
    Run
        Steps with their losses, and the measured and predicted time of a step.

    Examples
    --------
    >>> espalier.run("out/plan.json", steps=3).median_step_s  # doctest: +SKIP
    """
    call = Command("run")
    call.words += [
        call.file(load_plan(plan).to_json() if not isinstance(plan, (str, os.PathLike)) else plan, "plan.json"),
        "--local",
    ]
    call.flag("--steps", steps).flag("--seed", seed).flag("--learning-rate", json.dumps(learning_rate)).flag(
        "--clip", json.dumps(clip)
    )
    call.flag("--timeout", json.dumps(timeout_s))
    for name, path in (
        ("data", data),
        ("weights", weights),
        ("save", save),
        ("record", record),
        ("timeline", timeline),
    ):
        call.flag("--" + name, None if path is None else os.fspath(path))
    if checkpoint is not None:
        call.flag("--checkpoint", os.fspath(checkpoint)).flag("--every", every).flag("--keep", keep).flag(
            "--resume", resume
        )
    return call.flag("--pace", pace).answer(Run)
