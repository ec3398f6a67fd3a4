# SPDX-License-Identifier: Apache-2.0
"""Lists engines with their rules, and writes and reads plans in the formats of other tools."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any, Mapping

from espalier import _native
from espalier._inputs import PathLike, text_of
from espalier.planning import JobLike, Plan, PlanLike, load_job, load_plan
from espalier.words import ExportFormatLike, LauncherLike

EngineDescription = _native.EngineDescription


def engines() -> list[_native.EngineDescription]:
    """List the engines.

    Returns
    -------
    list of EngineDescription
        Each has a name, a note, its rules, and whether its rules are known.

    Examples
    --------
    >>> espalier.engines()[0].name
    'generic'
    """
    return _native.engines()


def engines_that_run(plan: PlanLike) -> list[str]:
    """List the engines whose rules accept a plan.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan.

    Returns
    -------
    list of str
        Names of engines.

    Examples
    --------
    >>> "megatron-core" in espalier.engines_that_run(espalier.plan("examples/llama3-8b-on-8xh100.yaml"))
    True
    """
    loaded = load_plan(plan)
    return _native.engines_that_run(loaded._handle.job(), loaded._handle)


def exporters() -> dict[str, str]:
    """List the formats that plans can be written in.

    Returns
    -------
    dict
        A description of each format by name.

    Examples
    --------
    >>> set(espalier.exporters()) == set(espalier.ExportFormat)
    True
    """
    return dict(_native.exporters())


def importers() -> dict[str, str]:
    """List the formats that `import_plan` reads.

    Returns
    -------
    dict
        A description of each format by name.

    Examples
    --------
    >>> "galvatron" in espalier.importers()
    True
    """
    return dict(_native.importers())


@dataclasses.dataclass(frozen=True)
class Exported:
    """A plan in another format.

    Attributes
    ----------
    text : str
        The contents of the file.
    lost : tuple of str
        Features of the plan that the file lacks; empty unless `allow_lossy` was given.

    Examples
    --------
    >>> script = espalier.export(espalier.plan("examples/llama3-8b-on-8xh100.yaml"), "megatron-core")
    >>> script.lost
    ()
    """

    text: str
    lost: tuple[str, ...] = ()

    def save(self, path: PathLike) -> None:
        """Write the file.

        Examples
        --------
        >>> script = espalier.export(espalier.plan("examples/llama3-8b-on-8xh100.yaml"), "megatron-core")
        >>> script.save(f"{folder}/train.sh")
        """
        pathlib.Path(path).write_text(self.text, encoding="utf-8")

    def __str__(self) -> str:
        return self.text


def export(
    plan: PlanLike, format: ExportFormatLike, *, launcher: LauncherLike | None = None, allow_lossy: bool = False
) -> Exported:
    """Write a plan in the format of another tool, or as a launch script.

    Parameters
    ----------
    plan : Plan, Result, path, str or mapping
        The plan.
    format : ExportFormat or str
        The format.
    launcher : Launcher or str, optional
        The program that starts the processes, for formats that start some; ``"torchrun"`` by default.
    allow_lossy : bool
        Whether to write the nearest plan that the format can express, instead of an error.

    Returns
    -------
    Exported
        The text of the file.

    Raises
    ------
    CheckError
        If the plan breaks rules of the engine, which the message names.

    Examples
    --------
    >>> script = espalier.export(espalier.plan("examples/llama3-8b-on-8xh100.yaml"), "megatron-core", launcher="sbatch")
    >>> "#SBATCH --nodes=1" in script.text
    True
    """
    loaded = load_plan(plan)
    text, lost = _native.export_plan(
        str(format), loaded._handle.job(), loaded._handle, str(launcher or ""), allow_lossy
    )
    return Exported(text, tuple(lost))


def import_plan(
    format: str,
    files: Mapping[str, PathLike | Mapping[str, Any]],
    *,
    job: JobLike | None = None,
    set: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> Plan:
    """Read a plan in the format of another tool.

    Parameters
    ----------
    format : str
        A format of `importers`.
    files : mapping
        Files by the role that the format gives them.
    job : Job, path, str or mapping, optional
        The job of the plan, for formats without one.
    set : mapping, optional
        Values over those of the job, by path.
    options : mapping, optional
        Choices that the files leave open.

    Returns
    -------
    Plan
        The plan.

    Examples
    --------
    >>> best = espalier.plan("examples/galvatron/job.yaml", set={"engine": "galvatron"})
    >>> strategy = espalier.export(best, "galvatron").text
    >>> plan = espalier.import_plan("galvatron", {"strategy": strategy}, job="examples/galvatron/job.yaml")
    >>> espalier.simulate(plan).prediction.fits
    True
    """
    named = {role: (name, text) for role, (text, name) in ((role, text_of(file, role)) for role, file in files.items())}
    handle = load_job(job, set)._handle if job is not None else None
    plan, _ = _native.import_plan(format, handle, named, dict(options or {}))
    return Plan(plan)
