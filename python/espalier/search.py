# SPDX-License-Identifier: Apache-2.0
"""The state of a running search, and the callbacks that receive it."""

from __future__ import annotations

import dataclasses
from typing import Callable

from espalier import _native


@dataclasses.dataclass(frozen=True)
class SearchState:
    """The state of a running search.

    Attributes
    ----------
    phase : str
        Phase of the search: ``"uniform"``, ``"layer-wise"``, ``"operators"``, ``"device groups"``.
    best_s : float or None
        Step time of the best plan so far, in seconds; None before the first plan.
    bound_s : float or None
        No plan left in the phase has a shorter step; None if unknown.
    done : int
        Units of the phase that are finished.
    total : int or None
        All units of the phase; None if unknown.

    Examples
    --------
    >>> espalier.SearchState("uniform", best_s=4.0, bound_s=3.0, done=1, total=2).gap
    0.25
    """

    phase: str
    best_s: float | None
    bound_s: float | None
    done: int
    total: int | None

    @property
    def gap(self) -> float | None:
        """Largest share of the best time that another plan of the phase could save; None if unknown."""
        if self.best_s is None or self.bound_s is None:
            return None
        return max(0.0, 1 - self.bound_s / self.best_s)


Observer = Callable[[SearchState], object]


def observer_of(
    on_improvement: Observer | None, on_bound: Observer | None
) -> Callable[[_native.SearchState], None] | None:
    """Returns the function that receives every state and calls those that it concerns."""
    if on_improvement is None and on_bound is None:
        return None
    best: int | None = None
    bound: tuple[str, int | None] = ("", None)

    def observe(native: _native.SearchState) -> None:
        nonlocal best, bound
        state = SearchState(
            native.phase,
            None if native.best_ns is None else native.best_ns * 1e-9,
            None if native.lower_bound_ns is None else native.lower_bound_ns * 1e-9,
            native.done,
            native.total,
        )
        better, changed = native.best_ns != best, (native.phase, native.lower_bound_ns) != bound
        best, bound = native.best_ns, (native.phase, native.lower_bound_ns)
        if better and on_improvement is not None:
            on_improvement(state)
        if changed and state.bound_s is not None and on_bound is not None:
            on_bound(state)

    return observe
