# SPDX-License-Identifier: Apache-2.0
"""Implements what typed documents share: a JSON object whose keys are attributes."""
from __future__ import annotations

import copy
import dataclasses
from typing import Any, ClassVar


def _built(kind: type[Document], value: Any) -> Any:
    if isinstance(value, dict):
        return kind.from_dict(value)
    if isinstance(value, list):
        return [_built(kind, item) for item in value]
    return value


class Document:
    """Wraps a JSON object whose keys are attributes; an absent key is None. Later versions may add keys:
    `document["key"]` reads any key."""

    _nested: ClassVar[dict[str, type[Document]]] = {}
    _source: dict[str, Any]

    @classmethod
    def from_dict(cls, data: dict[str, Any]):
        """Builds the typed form of parsed JSON."""
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        values = {key: _built(cls._nested[key], value) if key in cls._nested else value for key, value in data.items() if key in known}
        document = cls(**values)
        object.__setattr__(document, "_source", data)
        return document

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON object as plain Python values."""
        return copy.deepcopy(self._source)

    def __getitem__(self, key: str) -> Any:
        return self._source[key]
