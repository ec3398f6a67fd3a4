# SPDX-License-Identifier: Apache-2.0
"""Implements the base of all documents: a JSON object whose keys are attributes, with a readable text."""

from __future__ import annotations

import copy
import dataclasses
import json
import keyword
from typing import Any, Callable, ClassVar, Mapping, TypeVar

Self = TypeVar("Self", bound="Document")


def _built(kind: type[Document], value: Any) -> Any:
    if isinstance(value, dict):
        return kind.from_dict(value)
    if isinstance(value, list):
        return [_built(kind, item) for item in value]
    return value


def _key(name: str) -> str:
    """Returns the key of an attribute: `import` of `import_`, since a Python keyword is no attribute."""
    return name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name


class Document:
    """A JSON object whose keys are attributes.

    An absent key is None. Later versions may add keys: `document["key"]` reads any key. All answers of Espalier are
    documents: they have the same bytes as the command line's JSON, and a text for people.

    Examples
    --------
    >>> job = "examples/llama3-8b-on-8xh100.yaml"
    >>> prediction = espalier.estimate(job, espalier.Configuration(tp=2)).prediction
    >>> prediction.iteration_s == prediction["iteration_s"]
    True
    """

    _nested: ClassVar[dict[str, type[Document]]] = {}
    _source: dict[str, Any]
    _json: str | None
    _text: Callable[[], str] | None

    @classmethod
    def from_dict(cls: type[Self], data: Mapping[str, Any]) -> Self:
        """Build the typed form of parsed JSON.

        Parameters
        ----------
        data : mapping
            The JSON object.

        Returns
        -------
        Document
            An object of this class.

        Examples
        --------
        >>> espalier.types.MadeBy.from_dict({"version": "0.1.0", "calibration": "9f86d081884c7d65"}).version
        '0.1.0'
        """
        values: dict[str, Any] = {}
        fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
        for field in fields:
            key = _key(field.name)
            if key in data:
                values[field.name] = _built(cls._nested[key], data[key]) if key in cls._nested else data[key]
        document = cls(**values)
        object.__setattr__(document, "_source", dict(data))
        object.__setattr__(document, "_json", None)
        object.__setattr__(document, "_text", None)
        return document

    @classmethod
    def _from_json(cls: type[Self], text: str, readable: Callable[[], str] | None = None) -> Self:
        """Builds a document that keeps the bytes of its JSON; `readable` returns its text for people."""
        document = cls.from_dict(json.loads(text))
        object.__setattr__(document, "_json", text)
        object.__setattr__(document, "_text", readable)
        return document

    @property
    def text(self) -> str:
        """The document for people: the terminal's output, or JSON where the command line prints no text of it."""
        readable: Callable[[], str] | None = self._text
        return self.to_json() if readable is None else readable()

    def to_json(self) -> str:
        """Return the JSON text.

        Returns
        -------
        str
            The bytes that the command line prints with ``--json``, without a final newline.

        Examples
        --------
        >>> espalier.inspect_model("models/llama-3-8b").to_json().startswith("{")
        True
        """
        return json.dumps(self._source, indent=2) if self._json is None else self._json.rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object as plain Python values.

        Returns
        -------
        dict
            A copy: changes of it do not reach the document.

        Examples
        --------
        >>> plan = espalier.estimate("examples/llama3-8b-on-8xh100.yaml", espalier.Configuration(tp=2)).plan
        >>> plan.document.training.to_dict()["global_batch"]
        64
        """
        return copy.deepcopy(self._source)

    def __getitem__(self, key: str) -> Any:
        return self._source[key]

    def __contains__(self, key: object) -> bool:
        return key in self._source

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_dict, (self._source,)
