# SPDX-License-Identifier: Apache-2.0
"""Plans under change: recommends an action for a running plan when nodes leave or join, devices slow down or links
narrow. Executes nothing."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from espalier import _native, types
from espalier._inputs import PathLike, text_of
from espalier.answers import document_of
from espalier.planning import PlanLike, read_plan
from espalier.tables import Table, of_documents


class WhatIf(types.WhatIf):
    """Every action on a running plan after its cluster changed, the cost of each, and the recommended one."""

    def actions_table(self) -> Table:
        """Return a row for each action: whether it is possible, its step, its pause, and when it pays off.

        Examples
        --------
        >>> result = espalier.plan("examples/llama3-70b-on-64xh100.yaml")
        >>> espalier.what_if(result, lost=["node:3"]).actions_table()["action"]
        ['stay', 'shift', 're-place', 'reroute', 'reshape']
        """
        return of_documents(
            self.actions, ["action", "possible", "iteration_s", "pause_s", "gain_s_per_step", "break_even_s"]
        )


class Survival(types.Survival):
    """A plan for every loss of nodes up to a given number."""


class Change(types.Change):
    """The recommended action and all others."""


def _options(
    threads: int,
    horizon_s: float | None,
    restart_s: float,
    warm_up_s: float,
    checkpoint_age_s: float,
    storage_per_device: float,
) -> _native.ChangeOptions:
    options, move = _native.ChangeOptions(), _native.MoveOptions()
    move.restart_s, move.warm_up_s, move.checkpoint_age_s, move.storage_per_device = (
        restart_s,
        warm_up_s,
        checkpoint_age_s,
        storage_per_device,
    )
    options.threads, options.horizon_s, options.move = threads, horizon_s, move
    return options


def what_if(
    plan: PlanLike,
    *,
    lost: Iterable[str] = (),
    slow: Mapping[str, float] | None = None,
    links: Mapping[str, float] | None = None,
    added: Mapping[str, int] | None = None,
    horizon_s: float | None = None,
    restart_s: float = 30,
    warm_up_s: float = 0,
    checkpoint_age_s: float = 900,
    storage_per_device: float = 122e6,
    threads: int = 0,
    width: int = 100,
) -> WhatIf:
    """List the actions for a plan on a changed cluster, what each costs and when it pays off.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan that runs.
    lost : iterable of str
        Lost nodes: ``"node:3"``.
    slow : mapping, optional
        Slow devices or nodes, and the factor on their time: ``{"rank:17": 1.2}``.
    links : mapping, optional
        Narrow links, and the remaining share of their bandwidth: ``{"a-b": 0.5}``.
    added : mapping, optional
        Number of nodes that join each group.
    horizon_s : float, optional
        How long the change lasts, in seconds; ``math.inf`` for ever.
    restart_s, warm_up_s : float
        Seconds from the decision to the first new step if no data moves, and extra seconds of the first steps.
    checkpoint_age_s : float
        Age of the last checkpoint; this work is lost if no device still holds the states.
    storage_per_device : float
        Bytes per second at which each device reads a checkpoint.
    threads : int
        Threads of searches; 0 uses all hardware threads.
    width : int
        Columns of the text; 0 does not wrap lines.

    Returns
    -------
    WhatIf
        All actions, and the recommended one.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-70b-on-64xh100.yaml")
    >>> espalier.what_if(result, lost=["node:3"]).recommended
    'reshape'
    """
    loaded, answer, _ = read_plan(plan)
    options = _options(threads, horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device)
    return document_of(
        WhatIf,
        _native.what_if(
            _native.running_job(loaded._handle, answer),
            loaded._handle,
            list(lost),
            dict(slow or {}),
            dict(links or {}),
            dict(added or {}),
            options,
            width,
        ),
    )


def survive(
    plan: PlanLike,
    most: int,
    *,
    horizon_s: float | None = None,
    restart_s: float = 30,
    warm_up_s: float = 0,
    checkpoint_age_s: float = 900,
    storage_per_device: float = 122e6,
    threads: int = 0,
    width: int = 100,
) -> Survival:
    """Find a plan for every loss of nodes.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan that runs.
    most : int
        Largest number of nodes lost at once.
    horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device, threads, width
        As in `what_if`.

    Returns
    -------
    Survival
        The losses in classes with one plan each.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-70b-on-64xh100.yaml")
    >>> espalier.survive(result, 1).losses
    8
    """
    loaded, answer, _ = read_plan(plan)
    options = _options(threads, horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device)
    return document_of(
        Survival, _native.survive(_native.running_job(loaded._handle, answer), loaded._handle, most, options, width)
    )


def replan(
    plan: PlanLike,
    observation: PathLike | Mapping[str, Any],
    *,
    horizon_s: float | None = None,
    restart_s: float = 30,
    warm_up_s: float = 0,
    checkpoint_age_s: float = 900,
    storage_per_device: float = 122e6,
    threads: int = 0,
    width: int = 100,
) -> Change:
    """Recommend an action for a running plan from an observation of the run.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan that runs.
    observation : path, str or mapping
        The run as observed, schema espalier.observation/1.
    horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device, threads, width
        As in `what_if`.

    Returns
    -------
    Change
        The recommended action and all others.

    Examples
    --------
    >>> result = espalier.plan("examples/llama3-70b-on-64xh100.yaml")
    >>> seen = {"schema": "espalier.observation/1", "plan": result.plan.hash, "lost": ["node:3"]}
    >>> espalier.replan(result, seen).action
    'reshape'
    """
    loaded, answer, _ = read_plan(plan)
    text, where = text_of(observation, "observation")
    options = _options(threads, horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device)
    return document_of(
        Change, _native.replan(_native.running_job(loaded._handle, answer), loaded._handle, text, where, options, width)
    )
