# SPDX-License-Identifier: Apache-2.0
"""The timeline of a simulated step as NumPy arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from espalier import _native
from espalier._inputs import PathLike
from espalier.tables import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

STREAMS: tuple[str, ...] = tuple(_native.streams())
KINDS: tuple[str, ...] = tuple(_native.kinds())
COLLECTIVES: tuple[str, ...] = tuple(_native.collectives())


class Timeline:
    """Every instruction of a simulated step, for the first rank of each class of equal ranks.

    All arrays have one value for each instruction. Times are integer nanoseconds from the start of the step
    (`start_ns`, `duration_ns`), and also seconds (`start`, `duration`). `stream`, `kind` and `collective` are indices
    into STREAMS, KINDS and COLLECTIVES. `microbatch`, layers and `peer` are -1 where they do not apply.

    Examples
    --------
    >>> timeline = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=4, pp=2)).timeline()
    >>> sorted(set(timeline.stage.tolist()))
    [0, 1]
    """

    def __init__(self, handle: _native.Timeline) -> None:
        self._handle = handle
        self._spans: dict[str, Any] = handle.spans()

    @property
    def label(self) -> str:
        """Label of the plan."""
        return self._handle.label

    @property
    def iteration_ns(self) -> int:
        """Time of the step in nanoseconds, equal to the prediction."""
        return self._handle.iteration_ns

    @property
    def microbatches(self) -> int:
        """Micro-batches of the step."""
        return self._handle.microbatches

    @property
    def devices(self) -> int:
        """Devices of all rank classes together."""
        return self._handle.devices

    def _integers(self, name: str) -> NDArray[np.integer[Any]]:
        column: NDArray[np.integer[Any]] = self._spans[name]
        return column

    @property
    def start_ns(self) -> NDArray[np.integer[Any]]:
        """Start in nanoseconds from the start of the step."""
        return self._integers("start_ns")

    @property
    def duration_ns(self) -> NDArray[np.integer[Any]]:
        """Duration in nanoseconds."""
        return self._integers("duration_ns")

    @property
    def rank(self) -> NDArray[np.integer[Any]]:
        """First device of the rank class."""
        return self._integers("rank")

    @property
    def stage(self) -> NDArray[np.integer[Any]]:
        """Stage of the rank."""
        return self._integers("stage")

    @property
    def pipeline(self) -> NDArray[np.integer[Any]]:
        """Pipeline of the rank."""
        return self._integers("pipeline")

    @property
    def stream(self) -> NDArray[np.integer[Any]]:
        """Index into STREAMS."""
        return self._integers("stream")

    @property
    def kind(self) -> NDArray[np.integer[Any]]:
        """Index into KINDS."""
        return self._integers("kind")

    @property
    def collective(self) -> NDArray[np.integer[Any]]:
        """Index into COLLECTIVES, for collectives."""
        return self._integers("collective")

    @property
    def microbatch(self) -> NDArray[np.integer[Any]]:
        """Micro-batch."""
        return self._integers("microbatch")

    @property
    def chunk(self) -> NDArray[np.integer[Any]]:
        """Position of the layers along the pipeline."""
        return self._integers("chunk")

    @property
    def first_layer(self) -> NDArray[np.integer[Any]]:
        """First layer."""
        return self._integers("first_layer")

    @property
    def last_layer(self) -> NDArray[np.integer[Any]]:
        """Last layer."""
        return self._integers("last_layer")

    @property
    def bytes(self) -> NDArray[np.integer[Any]]:
        """Bytes of a message, or of the tensors of a collective; 0 for compute."""
        return self._integers("bytes")

    @property
    def group_size(self) -> NDArray[np.integer[Any]]:
        """Ranks of the collective's group."""
        return self._integers("group_size")

    @property
    def peer(self) -> NDArray[np.integer[Any]]:
        """First device of the other rank class of a message."""
        return self._integers("peer")

    @property
    def start(self) -> NDArray[np.floating[Any]]:
        """Start in seconds from the start of the step."""
        return np.asarray(self.start_ns * 1e-9)

    @property
    def duration(self) -> NDArray[np.floating[Any]]:
        """Duration in seconds."""
        return np.asarray(self.duration_ns * 1e-9)

    def __len__(self) -> int:
        return len(self.start_ns)

    def __repr__(self) -> str:
        return f"Timeline({self.label!r}, {len(self)} instructions, {self.iteration_ns * 1e-9:.9f} s)"

    def table(self) -> Table:
        """Return the instructions with words instead of numbers for `stream`, `kind` and `collective`.

        Examples
        --------
        >>> timeline = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).timeline()
        >>> str(timeline.table()["kind"][0])
        'forward'
        """
        words = {"stream": STREAMS, "kind": KINDS, "collective": COLLECTIVES}
        return Table(
            {name: np.array(words[name])[column] if name in words else column for name, column in self._spans.items()}
        )

    def memory(self) -> Table:
        """Return the memory of each rank over time: `rank`, `at_ns`, `bytes`, without the reserve of the allocator.

        Examples
        --------
        >>> timeline = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).timeline()
        >>> bool((timeline.memory()["bytes"] > 0).all())
        True
        """
        return Table(self._handle.memory())

    def steps(self) -> Table:
        """Return the work inside the instructions: operators of layers, their collectives, ZeRO.

        It is empty without ``result.timeline(steps=True)``.

        Examples
        --------
        >>> result = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2))
        >>> "attn.qkv" in result.timeline(steps=True).steps()["name"]
        True
        """
        columns = dict(self._handle.steps())
        columns["collective"] = np.array(COLLECTIVES)[columns["collective"]]
        return Table(columns)

    def to_trace(self) -> str:
        """Return Chrome trace-event JSON, for Perfetto and Kineto tools.

        Examples
        --------
        >>> timeline = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).timeline()
        >>> "traceEvents" in timeline.to_trace()
        True
        """
        return self._handle.to_trace()

    def write_trace(self, path: PathLike) -> None:
        """Write the trace; compressed if the name ends in .gz.

        Examples
        --------
        >>> timeline = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).timeline()
        >>> timeline.write_trace(f"{folder}/timeline.json.gz")
        """
        _native.write_trace(os.fspath(path), self.to_trace())
