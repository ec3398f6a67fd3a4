# SPDX-License-Identifier: Apache-2.0
"""Converts the inputs that functions accept as a path, a text or a JSON value."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Mapping, Union

PathLike = Union[str, "os.PathLike[str]"]


def value_text(value: Any) -> str:
    """Formats a value like the command line's --set."""
    return str(value) if isinstance(value, str) else json.dumps(value)


def overrides(changes: Mapping[str, Any] | None) -> list[str]:
    """Formats {"training.global_batch": 128} like the command line's --set."""
    return [f"{path}={value_text(value)}" for path, value in (changes or {}).items()]


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
