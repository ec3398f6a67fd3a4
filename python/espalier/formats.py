# SPDX-License-Identifier: Apache-2.0
"""Lists engines with their rules, and the formats that plans are written to and read from."""
from __future__ import annotations

from typing import Any, Mapping

from espalier import _native
from espalier._inputs import PathLike, documented, text_of
from espalier.planning import JobLike, Plan, PlanLike, load_job, load_plan

EngineDescription = _native.EngineDescription


@documented(_native.engines)
def engines() -> list[_native.EngineDescription]:
    """Returns the engines. Each has a name, a note, its rules, and whether its rules are known."""
    return _native.engines()


@documented(_native.engines_that_run)
def engines_that_run(plan: PlanLike) -> list[str]:
    """Returns the names of the engines that can run the plan."""
    loaded = load_plan(plan)
    return _native.engines_that_run(loaded._handle.job(), loaded._handle)


def exporters() -> dict[str, str]:
    """Returns the formats that plans can be written to, by name, with a description."""
    return dict(_native.exporters())


def importers() -> dict[str, str]:
    """Returns the formats that plans can be read from, by name, with a description."""
    return dict(_native.importers())


@documented(_native.export_plan)
def export(plan: PlanLike, format: str) -> str:
    """Returns the text of the file: export(result, "megatron-core"). CheckError names the engine's rules that
    the plan breaks."""
    loaded = load_plan(plan)
    return _native.export_plan(format, loaded._handle.job(), loaded._handle)


@documented(_native.import_plan)
def import_plan(format: str, files: Mapping[str, PathLike | Mapping[str, Any]], *, job: JobLike | None = None, set: Mapping[str, Any] | None = None,
                options: Mapping[str, str] | None = None) -> Plan:
    """`files` are keyed like the flags of `espalier import`: import_plan("galvatron", {"strategy":
    "galvatron_config.json"}, job="job.yaml")."""
    named = {role: (name, text) for role, (text, name) in ((role, text_of(file, role)) for role, file in files.items())}
    handle = load_job(job, set)._handle if job is not None else None
    plan, _ = _native.import_plan(format, handle, named, dict(options or {}))
    return Plan(plan)
