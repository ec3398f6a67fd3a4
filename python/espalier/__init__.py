# SPDX-License-Identifier: Apache-2.0
"""Espalier plans how a transformer is trained across a cluster, predicts the cost, and proves the plan.

    import espalier
    result = espalier.plan("job.yaml")        # or its text, or a dict
    result                                    # a table in a notebook; print(result.brief()) is the terminal's answer
    result.prediction.iteration_s             # attributes are named as in result.json
    result.timeline().duration                # NumPy arrays
    result.report().save("report.html")

The functions are those of the C++ library (include/espalier) and of the command line, with the same results byte for
byte. Errors are exceptions of espalier.errors with where, found, expected and hint. The guide is docs/python.md.
"""
from espalier import errors, tables, types
from espalier._native import version as _version
from espalier.answers import (Answer, Calibration, Check, calibrate, check, compare, compare_log, compare_step, explain, inspect_cluster, inspect_model,
                              inspect_run, validate)
from espalier.change import Change, Survival, WhatIf, replan, survive, what_if
from espalier.errors import CheckError, Error, InfeasibleError, InputError, InternalError, Interrupted, LimitError, UsageError
from espalier.formats import EngineDescription, engines, engines_that_run, export, exporters, import_plan, importers
from espalier.planning import (Job, LongRunAnswer, ObjectiveAnswer, OverTime, Plan, Report, Result, estimate, load_job, load_plan, load_result, plan,
                               simulate)
from espalier.tables import Table
from espalier.timeline import COLLECTIVES, KINDS, STREAMS, Timeline

__version__ = _version()

__all__ = [
    "Answer", "COLLECTIVES", "Calibration", "Change", "Check", "CheckError", "EngineDescription", "Error", "InfeasibleError", "InputError", "InternalError",
    "Interrupted", "Job", "KINDS", "LimitError", "LongRunAnswer", "ObjectiveAnswer", "OverTime", "Plan", "Report", "Result", "STREAMS", "Survival", "Table",
    "Timeline", "UsageError", "WhatIf", "calibrate", "check", "compare", "compare_log", "compare_step", "engines", "engines_that_run", "errors", "estimate",
    "explain", "export", "exporters", "import_plan", "importers", "inspect_cluster", "inspect_model", "inspect_run", "load_job", "load_plan", "load_result",
    "plan", "replan", "simulate", "survive", "tables", "types", "validate", "what_if",
]
