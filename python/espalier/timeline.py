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

STREAMS: tuple[str, ...] = _native.STREAMS
KINDS: tuple[str, ...] = _native.KINDS
COLLECTIVES: tuple[str, ...] = _native.COLLECTIVES


class Timeline:
    """Holds every instruction of a simulated step, for the first rank of each class of equal ranks. All arrays have
    the same length, with one value an instruction.

    Times are integer nanoseconds from the start of the step (`start_ns`, `duration_ns`), and also seconds (`start`,
    `duration`). `stream`, `kind` and `collective` are indices into STREAMS, KINDS and COLLECTIVES; `microbatch`,
    layers and `peer` are -1 where they do not apply.
    """

    def __init__(self, handle: _native.Timeline) -> None:
        self._handle = handle
        self._spans: dict[str, Any] = handle.spans()

    label = property(lambda self: self._handle.label, doc="Of the plan.")
    iteration_ns = property(lambda self: self._handle.iteration_ns, doc="Of the step: the nanosecond of the prediction.")
    microbatches = property(lambda self: self._handle.microbatches)
    devices = property(lambda self: self._handle.devices, doc="Of all classes of ranks together.")

    def _integers(self, name: str) -> NDArray[np.integer[Any]]:
        return self._spans[name]

    start_ns = property(lambda self: self._integers("start_ns"))
    duration_ns = property(lambda self: self._integers("duration_ns"))
    rank = property(lambda self: self._integers("rank"), doc="The first device of the class.")
    stage = property(lambda self: self._integers("stage"))
    pipeline = property(lambda self: self._integers("pipeline"))
    stream = property(lambda self: self._integers("stream"), doc="A number into STREAMS.")
    kind = property(lambda self: self._integers("kind"), doc="A number into KINDS.")
    collective = property(lambda self: self._integers("collective"), doc="Of a collective a number into COLLECTIVES.")
    microbatch = property(lambda self: self._integers("microbatch"))
    chunk = property(lambda self: self._integers("chunk"), doc="Position along the pipeline of the layers that it concerns.")
    first_layer = property(lambda self: self._integers("first_layer"))
    last_layer = property(lambda self: self._integers("last_layer"))
    bytes = property(lambda self: self._integers("bytes"), doc="Of a message or the tensors of a collective; of compute 0.")
    group_size = property(lambda self: self._integers("group_size"))
    peer = property(lambda self: self._integers("peer"), doc="Of a message: the first device of the other rank class.")
    start = property(lambda self: self.start_ns * 1e-9, doc="Seconds.")
    duration = property(lambda self: self.duration_ns * 1e-9, doc="Seconds.")

    def __len__(self) -> int:
        return len(self.start_ns)

    def __repr__(self) -> str:
        return f"Timeline({self.label!r}, {len(self)} instructions, {self.iteration_ns * 1e-9:.9f} s)"

    def table(self) -> Table:
        """Returns the instructions with words instead of numbers for `stream`, `kind` and `collective`."""
        words = {"stream": STREAMS, "kind": KINDS, "collective": COLLECTIVES}
        return Table({name: np.array(words[name])[column] if name in words else column for name, column in self._spans.items()})

    def memory(self) -> Table:
        """Returns the memory of each rank over time: `rank`, `at_ns`, `bytes`. The reserve of the allocator
        is not included."""
        return Table(self._handle.memory())

    def steps(self) -> Table:
        """Returns the work inside the instructions: operators of layers, their collectives, ZeRO. It is
        empty without result.timeline(steps=True)."""
        columns = dict(self._handle.steps())
        columns["collective"] = np.array(COLLECTIVES)[columns["collective"]]
        return Table(columns)

    def to_trace(self) -> str:
        """Returns Chrome trace-event JSON, for Perfetto and Kineto tools."""
        return self._handle.to_trace()

    def write_trace(self, path: PathLike) -> None:
        """Writes the trace; compressed if the name ends in .gz."""
        _native.write_trace(os.fspath(path), self.to_trace())
