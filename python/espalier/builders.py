# SPDX-License-Identifier: Apache-2.0
"""Builds jobs from typed parts: model, cluster, training, search and configuration."""

from __future__ import annotations

import dataclasses
import json
import os
import textwrap
from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, Union

from espalier import _native
from espalier._inputs import PathLike, is_document, text_of
from espalier.words import (
    ContextParallelLike,
    DeviceLike,
    Engine,
    EngineLike,
    OffloadLike,
    Optimizer,
    OptimizerLike,
    Packing,
    PackingLike,
    Precision,
    PrecisionLike,
    RankOrderLike,
    RecomputeKindLike,
    ScheduleKindLike,
    SequenceParallelLike,
    Space,
    SpaceLike,
    StageDevicesLike,
)

if TYPE_CHECKING:
    from espalier.answers import Inspection

Source = Union[PathLike, Mapping[str, Any]]
ModelLike = Union["Model", Source]
ClusterLike = Union["Cluster", Source]


def _plain(value: Any) -> Any:
    """Returns a value as JSON holds it, without the parts that are None."""
    if isinstance(value, (Adapter, Lengths, Objective, Training, Search)):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _set_fields(part: Any) -> dict[str, Any]:
    """Returns the fields of a dataclass that are not None, as a mapping of plain values."""
    values = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _yaml_of(source: Source) -> str:
    """Returns a source as a YAML value: a quoted path, a mapping in JSON, or an indented document."""
    if isinstance(source, str) and is_document(source):
        return "\n" + textwrap.indent(source, "  ")
    return " " + json.dumps(os.fspath(source) if isinstance(source, os.PathLike) else _plain(source))


@dataclasses.dataclass(frozen=True)
class Model:
    """The model to train.

    Parameters
    ----------
    source : path, str or mapping
        A Hugging Face config.json: its path, its folder, its text, or its content.

    Examples
    --------
    >>> espalier.Model.of("models/llama-3-8b").inspect()["parameters"]
    8030261248
    """

    source: Source

    @classmethod
    def of(cls, source: Any) -> Model:
        """Make a model of a config.json.

        Parameters
        ----------
        source : path, str, mapping or transformers.PretrainedConfig
            The path of a config.json or its folder, its text, its content, or a configuration object of transformers.

        Returns
        -------
        Model
            The model. The file is read when the job is loaded.

        Examples
        --------
        >>> config = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 64, "vocab_size": 100}
        >>> espalier.Model.of(config).inspect()["blocks"]
        2
        """
        return cls(source.to_dict() if hasattr(source, "to_dict") else source)

    @classmethod
    def decoder(
        cls,
        *,
        layers: int,
        hidden: int,
        heads: int,
        vocabulary: int,
        ffn: int,
        kv_heads: int | None = None,
        max_positions: int = 8192,
        tied_embeddings: bool = False,
        experts: int | None = None,
        experts_per_token: int = 2,
    ) -> Model:
        """Make a decoder with the blocks of Llama, or those of Mixtral if it has experts.

        Parameters
        ----------
        layers, hidden, heads, vocabulary, ffn : int
            Number of blocks, width, attention heads, rows of the embedding, and width of the MLP or of each expert.
        kv_heads : int, optional
            Heads of keys and values; `heads` by default.
        max_positions : int
            Longest sequence.
        tied_embeddings : bool
            Whether the output projection shares the embedding table.
        experts, experts_per_token : int, optional
            Routed experts in each block, and how many of them a token passes through.

        Returns
        -------
        Model
            The model.

        Examples
        --------
        >>> small = espalier.Model.decoder(layers=16, hidden=2048, heads=32, kv_heads=8, ffn=8192, vocabulary=128256)
        >>> small.inspect()["parameters"]
        1498482688
        """
        config: dict[str, Any] = {
            "model_type": "llama" if experts is None else "mixtral",
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": heads if kv_heads is None else kv_heads,
            "intermediate_size": ffn,
            "vocab_size": vocabulary,
            "max_position_embeddings": max_positions,
            "tie_word_embeddings": tied_embeddings,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
        }
        if experts is not None:
            config |= {"num_local_experts": experts, "num_experts_per_tok": experts_per_token}
        return cls(config)

    def inspect(self) -> Inspection:
        """Show how the model is interpreted, with every default marked.

        Returns
        -------
        Inspection
            Layers, operators and parameters.

        Examples
        --------
        >>> espalier.Model.of("models/gpt2").inspect()["family"]
        'gpt2'
        """
        from espalier.answers import inspect_model

        return inspect_model(self)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The devices to train on.

    Parameters
    ----------
    source : path, str or mapping
        A cluster file: its path, its text, or its content.

    Examples
    --------
    >>> espalier.Cluster.of("h100-sxm-80gb", nodes=8).devices
    64
    """

    source: Source

    @classmethod
    def of(
        cls,
        device: DeviceLike | str,
        *,
        nodes: int = 1,
        devices_per_node: int | None = None,
        memory_limit: str | None = None,
        intra_node: str | Mapping[str, Any] | None = None,
        inter_node: Mapping[str, Any] | None = None,
        host: str | Mapping[str, Any] | None = None,
        price_per_device_hour: float | None = None,
        currency: str | None = None,
        name: str | None = None,
    ) -> Cluster:
        """Make a cluster of equal nodes.

        Parameters
        ----------
        device : Device or str
            A device of the catalogue, or the name that its driver gives.
        nodes : int
            Number of nodes.
        devices_per_node : int, optional
            Devices of a node; by default those of the device's usual node.
        memory_limit : str, optional
            Memory of each device that a plan may use: ``"70GiB"``.
        intra_node, inter_node : mapping, optional
            Values over the usual links: ``{"bandwidth": "100Gb/s", "nics_per_node": 1}``.
        host : str or mapping, optional
            A host of the catalogue, or values over the usual one.
        price_per_device_hour : float, optional
            Price of a device for an hour; a search for the lowest cost needs it.
        currency : str, optional
            Currency of the price.
        name : str, optional
            Name in reports.

        Returns
        -------
        Cluster
            The cluster.

        Examples
        --------
        >>> slow = espalier.Cluster.of("l40s", nodes=4, devices_per_node=8, inter_node={"bandwidth": "100Gb/s"})
        >>> slow.devices
        32
        """
        values = {
            "name": name,
            "nodes": nodes,
            "devices_per_node": devices_per_node,
            "device": str(device),
            "memory_limit": memory_limit,
            "intra_node": intra_node,
            "inter_node": inter_node,
            "host": host,
            "price_per_device_hour": price_per_device_hour,
            "currency": currency,
        }
        return cls({key: _plain(value) for key, value in values.items() if value is not None})

    @classmethod
    def groups(cls, *groups: Cluster, inter_group: Mapping[str, Any]) -> Cluster:
        """Make a cluster of groups with unlike nodes.

        Parameters
        ----------
        *groups : Cluster
            Clusters of equal nodes that `Cluster.of` made.
        inter_group : mapping
            The links between the groups: ``{"bandwidth": "100Gb/s", "latency": "5us"}``.

        Returns
        -------
        Cluster
            The cluster. A search plans on unlike devices by default.

        Examples
        --------
        >>> fast, slow = espalier.Cluster.of("h100-sxm-80gb"), espalier.Cluster.of("a100-sxm-80gb", nodes=2)
        >>> mixed = espalier.Cluster.groups(fast, slow, inter_group={"bandwidth": "100Gb/s", "latency": "5us"})
        >>> mixed.devices
        24
        """
        return cls({"groups": [_plain(group.source) for group in groups], "inter_group": dict(inter_group)})

    @property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.inspect()["devices"])

    def inspect(self) -> Inspection:
        """Show how the cluster is interpreted, with every default marked.

        Returns
        -------
        Inspection
            Groups, levels of the fabric, and devices.

        Examples
        --------
        >>> espalier.Cluster.of("h100-sxm-80gb", nodes=2).inspect()["groups"][0]["devices_per_node"]
        8
        """
        from espalier.answers import inspect_cluster

        return inspect_cluster(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adapter:
    """Trained low-rank pairs that are added to frozen weights (LoRA).

    Parameters
    ----------
    rank : int
        Width of a pair.
    targets : sequence of str
        Operators or projections: ``"q_proj"``, ``"attn.qkv"``, ``"all-linear"``.
    alpha : float, optional
        Scale of the pairs, which changes no cost.
    quantize_base : str
        ``"nf4"`` or ``"int8"`` keep the linears of blocks in 4 or 8 bits.

    Examples
    --------
    >>> espalier.Adapter(rank=16, targets=["q_proj", "v_proj"]).to_dict()["rank"]
    16
    """

    rank: int
    targets: Sequence[str]
    alpha: float | None = None
    quantize_base: Literal["none", "nf4", "int8"] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the adapter as a mapping of the job file.

        Examples
        --------
        >>> espalier.Adapter(rank=8, targets=["all-linear"]).to_dict()
        {'rank': 8, 'targets': ['all-linear']}
        """
        return _set_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of the sequences that make up samples.

    Parameters
    ----------
    histogram : path or sequence of pairs
        Pairs of tokens (ascending) and weight, or a file with two columns.
    packing : Packing or str
        How sequences are packed into samples.

    Examples
    --------
    >>> espalier.Lengths(histogram=[(512, 3), (4096, 1)], packing="packed").to_dict()["packing"]
    'packed'
    """

    histogram: PathLike | Sequence[tuple[float, float]]
    packing: PackingLike = Packing.NONE

    def to_dict(self) -> dict[str, Any]:
        """Return the lengths as a mapping of the job file.

        Examples
        --------
        >>> espalier.Lengths(histogram="lengths.tsv").to_dict()["histogram"]
        'lengths.tsv'
        """
        histogram = (
            os.fspath(self.histogram)
            if isinstance(self.histogram, (str, os.PathLike))
            else [list(pair) for pair in self.histogram]
        )
        return {"histogram": histogram, "packing": str(self.packing)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """The training: batch, sequence, precision, optimizer and trained parts.

    Parameters
    ----------
    global_batch : int
        Samples per step.
    sequence_length : int or mapping, optional
        Tokens per sample; a mapping for encoder-decoder models and text with images; absent for vision models.
    precision : Precision or str
        Number format.
    optimizer : Optimizer or str
        AdamW counts as ``adam``.
    tokens : float, optional
        Tokens of the whole training, which add days and GPU hours to a prediction.
    images_per_sample : int, optional
        Images of a sample, for models with a tower.
    moe_imbalance : float, optional
        Load of the fullest expert rank over the mean.
    adapter : Adapter, optional
        Low-rank adapters; the weights are then frozen.
    freeze : sequence of str, optional
        Parts that are not trained: ``"embedding"``, ``"layers 0-15"``.
    lengths : Lengths, optional
        Lengths of the sequences that make up samples.

    Examples
    --------
    >>> training = espalier.Training(global_batch=64, sequence_length=8192, precision=espalier.Precision.FP8)
    >>> training.to_dict()["precision"]
    'fp8'
    """

    global_batch: int
    sequence_length: int | Mapping[str, int] | None = None
    precision: PrecisionLike = Precision.BF16
    optimizer: OptimizerLike = Optimizer.ADAM
    tokens: float | None = None
    images_per_sample: int | None = None
    moe_imbalance: float | None = None
    adapter: Adapter | None = None
    freeze: Sequence[str] | None = None
    lengths: Lengths | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the training as a mapping of the job file.

        Examples
        --------
        >>> sorted(espalier.Training(global_batch=64, sequence_length=8192).to_dict())
        ['global_batch', 'optimizer', 'precision', 'sequence_length']
        """
        return _set_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Objective:
    """The objective of `plan_for_objective`.

    Parameters
    ----------
    minimise : {"time", "cost"}
        The quantity to minimise.
    budget_per_step : float, optional
        Highest cost of a step, in the currency of the cluster.
    deadline : str, optional
        Longest time of the whole training: ``"10d"``, ``"36h"``.

    Examples
    --------
    >>> espalier.Objective(minimise="cost", deadline="10d").to_dict()
    {'minimise': 'cost', 'deadline': '10d'}
    """

    minimise: Literal["time", "cost"] = "time"
    budget_per_step: float | None = None
    deadline: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the objective as a mapping of the job file.

        Examples
        --------
        >>> espalier.Objective().to_dict()
        {'minimise': 'time'}
        """
        return _set_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Search:
    """The space that a search covers.

    Parameters
    ----------
    space : Space or str
        Uniform plans, layer-wise plans, operator partitions, or all of them.
    fix : mapping, optional
        Value of a dimension: ``{"tp": 8}``.
    allow, forbid : mapping, optional
        Values of a dimension: ``{"schedule": ["1f1b", "interleaved"]}``.
    limits : mapping, optional
        Largest value of a counting dimension: ``{"pp": 16}``.
    devices : StageDevices or str, optional
        Devices that stages may use.
    recompute_modules : sequence of str, optional
        Modules of a block that ``recompute: selective`` means; those of the engine by default.
    memory_margin : float, optional
        Share of the memory limit that a plan leaves free.
    objective : Objective, optional
        An objective other than the fastest plan on all devices.

    Examples
    --------
    >>> espalier.Search(fix={"tp": 8}, limits={"pp": 16}).to_dict()["limits"]
    {'pp': 16}
    """

    space: SpaceLike = Space.UNIFORM
    fix: Mapping[str, Any] | None = None
    allow: Mapping[str, Any] | None = None
    forbid: Mapping[str, Any] | None = None
    limits: Mapping[str, int] | None = None
    devices: StageDevicesLike | None = None
    recompute_modules: Sequence[str] | None = None
    memory_margin: float | None = None
    objective: Objective | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the space as a mapping of the job file.

        Examples
        --------
        >>> espalier.Search(space="full").to_dict()
        {'space': 'full'}
        """
        return _set_fields(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Configuration:
    """One configuration: the degrees of parallelism and the schedule. Parts left out follow from the job and engine.

    Parameters
    ----------
    tp, cp, ep, etp, pp, vpp, dp : int, optional
        Degrees of tensor, context, expert, expert-tensor and pipeline parallelism, chunks of a stage, replicas.
    shard : int, optional
        Ranks that share the sharded states.
    zero : int, optional
        ZeRO stage, 0 to 3.
    micro_batch : int, optional
        Samples of a micro-batch.
    recompute : RecomputeKind or str, optional
        Recomputed activations; also modules of a block: ``"layernorm,moe_act"``.
    recompute_layers : int, optional
        Recomputed blocks of a stage.
    sp : SequenceParallel or str, optional
        How activations are split along the sequence.
    cp_kind : ContextParallel or str, optional
        How context ranks exchange keys and values.
    schedule : ScheduleKind or str, optional
        Pipeline schedule.
    order : RankOrder or str, optional
        Order of ranks.
    offload : Offload or str, optional
        States in host memory.
    overlap : str, optional
        Overlapped communication: ``"grad,param,p2p,tp"``, some of these, or ``"none"``.
    partition : str, optional
        Partition of the operators of a block: ``"attn.norm R,R; attn.qkv P2; …"``.

    Examples
    --------
    >>> espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2, pp=2, zero=1)).plan.engine
    'megatron-core'
    """

    tp: int | None = None
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    pp: int | None = None
    vpp: int | None = None
    dp: int | None = None
    shard: int | None = None
    zero: int | None = None
    micro_batch: int | None = None
    recompute: RecomputeKindLike | str | None = None
    recompute_layers: int | None = None
    sp: SequenceParallelLike | None = None
    cp_kind: ContextParallelLike | None = None
    schedule: ScheduleKindLike | None = None
    order: RankOrderLike | None = None
    offload: OffloadLike | None = None
    overlap: str | None = None
    partition: str | None = None

    def _words(self) -> _native.ConfigurationWords:
        words = _native.ConfigurationWords()
        for name, value in _set_fields(self).items():
            setattr(words, name, value)
        return words


def job_text(
    model: ModelLike,
    cluster: ClusterLike,
    training: Training | Mapping[str, Any],
    engine: EngineLike | str = Engine.GENERIC,
    search: Search | Mapping[str, Any] | None = None,
    calibration: Source | None = None,
    profile: Source | None = None,
) -> str:
    """Returns the text of a job file with these parts."""
    parts: dict[str, str] = {
        "model": _yaml_of(model.source if isinstance(model, Model) else model),
        "cluster": _yaml_of(cluster.source if isinstance(cluster, Cluster) else cluster),
        "training": " " + json.dumps(_plain(training)),
        "engine": " " + json.dumps(str(engine)),
    }
    if search is not None:
        parts["search"] = " " + json.dumps(_plain(search))
    for name, source in (("calibration", calibration), ("profile", profile)):
        if source is not None:
            parts[name] = _yaml_of(source)
    return "\n".join(f"{name}:{value}" for name, value in parts.items()) + "\n"


def source_text(source: Any, name: str) -> tuple[str, str]:
    """Returns the text of a model or cluster and its name in messages, like text_of()."""
    return text_of(source.source if isinstance(source, (Model, Cluster)) else source, name)
