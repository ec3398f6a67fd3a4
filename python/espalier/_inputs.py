# SPDX-License-Identifier: Apache-2.0
"""Converts the inputs that functions accept as a job, a plan or a text, and takes docstrings from the headers."""
from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Callable, Mapping, TypeVar, Union

from espalier import _native

PathLike = Union[str, "os.PathLike[str]"]
Function = TypeVar("Function", bound=Callable[..., Any])


def documented(native: Any) -> Callable[[Function], Function]:
    """Puts the comment of the C++ header in front of the function's docstring."""
    lines = (native.__doc__ or "").split("\n\n", 1)
    said = lines[1].strip() if len(lines) > 1 else ""  # the first paragraph is the signature

    def decorate(function: Function) -> Function:
        own = (function.__doc__ or "").strip()
        function.__doc__ = f"{said}\n\n{own}".strip() if said else own
        return function

    return decorate


def overrides(changes: Mapping[str, Any] | None) -> list[str]:
    """Formats {"training.global_batch": 128} like the command line's --set."""
    return [f"{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in (changes or {}).items()]


def is_document(source: str) -> bool:
    """Returns True for a document and False for a path: a document has several lines or begins like JSON."""
    return "\n" in source or source.lstrip().startswith("{")


def text_of(source: Any, name: str) -> tuple[str, str]:
    """Returns the text of a path, a text or a JSON value, and its name in messages."""
    if isinstance(source, str) and is_document(source):
        return source, name
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        try:
            return pathlib.Path(path).read_text(encoding="utf-8"), path
        except (OSError, UnicodeDecodeError) as error:
            from espalier.errors import InputError

            raise InputError(path, str(error), "a readable text file") from None
    return json.dumps(source), name


