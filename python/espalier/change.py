# SPDX-License-Identifier: Apache-2.0
"""Plans under change: recommends an action for a running plan when nodes leave or join, devices slow down or links
narrow. Executes nothing."""
from __future__ import annotations

import json
from typing import Any, Iterable, Mapping

from espalier import _native, types
from espalier._inputs import PathLike, documented, text_of
from espalier.planning import PlanLike, read_plan


class _Answer:
    """Holds a document as JSON and as readable text."""

    _texts: _native.Texts

    @classmethod
    def of_texts(cls, texts: _native.Texts) -> Any:
        document = cls.from_dict(json.loads(texts.json))  # type: ignore[attr-defined]
        object.__setattr__(document, "_texts", texts)
        return document

    @property
    def text(self) -> str:
        return self._texts.text

    @property
    def json(self) -> str:
        return self._texts.json

    def to_json(self) -> str:
        return self._texts.json


class WhatIf(_Answer, types.WhatIf):
    """Lists every action on a running plan after its cluster changed, the cost of each, and the recommended one."""


class Survival(_Answer, types.Survival):
    """Holds a plan for every loss of nodes up to a given number."""


class Change(_Answer, types.Change):
    """Holds the recommended action and the whole ladder."""


def _options(threads: int, horizon_s: float | None, restart_s: float, warm_up_s: float, checkpoint_age_s: float, storage_per_device: float) -> _native.ChangeOptions:
    options, move = _native.ChangeOptions(), _native.MoveOptions()
    move.restart_s, move.warm_up_s, move.checkpoint_age_s, move.storage_per_device = restart_s, warm_up_s, checkpoint_age_s, storage_per_device
    options.threads, options.horizon_s, options.move = threads, horizon_s or 0, move
    return options





@documented(_native.what_if)
def what_if(plan: PlanLike, *, lost: Iterable[str] = (), slow: Mapping[str, float] | None = None, links: Mapping[str, float] | None = None,
            added: Mapping[str, int] | None = None, horizon_s: float | None = None, restart_s: float = 30, warm_up_s: float = 0,
            checkpoint_age_s: float = 900, storage_per_device: float = 122e6, threads: int = 0, width: int = 100) -> WhatIf:
    """- `lost`: nodes ("node:3").
    - `slow`: devices or nodes with the factor on their time ({"rank:17": 1.2}).
    - `links`: the remaining share of a link's bandwidth ({"a-b": 0.5}).
    - `added`: number of nodes that join each group.
    - `horizon_s`: how long the change lasts (math.inf: forever).
    """
    loaded, answer, _ = read_plan(plan)
    options = _options(threads, horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device)
    return WhatIf.of_texts(_native.what_if(_native.running_job(loaded._handle, answer), loaded._handle, list(lost), dict(slow or {}), dict(links or {}),
                                           dict(added or {}), options, width))


@documented(_native.survive)
def survive(plan: PlanLike, most: int, *, horizon_s: float | None = None, restart_s: float = 30, warm_up_s: float = 0, checkpoint_age_s: float = 900,
            storage_per_device: float = 122e6, threads: int = 0, width: int = 100) -> Survival:
    """`most` is the largest number of nodes lost at once."""
    loaded, answer, _ = read_plan(plan)
    options = _options(threads, horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device)
    return Survival.of_texts(_native.survive(_native.running_job(loaded._handle, answer), loaded._handle, most, options, width))


@documented(_native.replan)
def replan(plan: PlanLike, observation: PathLike | Mapping[str, Any], *, horizon_s: float | None = None, restart_s: float = 30, warm_up_s: float = 0,
           checkpoint_age_s: float = 900, storage_per_device: float = 122e6, threads: int = 0, width: int = 100) -> Change:
    """`observation` describes the run as observed, espalier.observation/1: a path, its text, or a dict."""
    loaded, answer, _ = read_plan(plan)
    text, where = text_of(observation, "observation")
    options = _options(threads, horizon_s, restart_s, warm_up_s, checkpoint_age_s, storage_per_device)
    return Change.of_texts(_native.replan(_native.running_job(loaded._handle, answer), loaded._handle, text, where, options, width))
