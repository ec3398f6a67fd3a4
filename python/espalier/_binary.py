# SPDX-License-Identifier: Apache-2.0
"""Runs the command line, whose binary is in the package."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Callable, Mapping, Sequence, TypeVar

from espalier import errors
from espalier._base import Document
from espalier._inputs import text_of

Kind = TypeVar("Kind", bound=Document)


def path() -> pathlib.Path:
    """Returns the path of the binary."""
    return pathlib.Path(__file__).parent / "bin" / "espalier"


def main() -> None:
    """Replaces this process by the binary, which keeps its exit code and signals."""
    binary = str(path())
    os.execv(binary, [binary, *sys.argv[1:]])


class Command:
    """A call of the binary: its words, and the files that inputs without a path are written to."""

    def __init__(self, *words: object) -> None:
        self.words = [str(word) for word in words]
        self.files: dict[str, str] = {}  # name in the folder of the call, and text

    def flag(self, name: str, value: object) -> Command:
        """Adds a flag unless the value is None, False or empty; True adds the bare flag."""
        if value is True:
            self.words.append(name)
        elif value is not None and value is not False and value != "":
            self.words += [name, str(value)]
        return self

    def each(self, name: str, values: Sequence[object]) -> Command:
        """Adds a flag for each value."""
        for value in values:
            self.flag(name, value)
        return self

    def file(self, source: Any, name: str) -> str:
        """Returns the word for an input: its path, or a file of this name in the folder of the call."""
        if isinstance(source, os.PathLike) or (
            isinstance(source, str) and "\n" not in source and not source.lstrip().startswith("{")
        ):
            return os.fspath(source)
        self.files[name] = text_of(source, name)[0]
        return "@" + name

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Runs the binary in the working directory."""
        with tempfile.TemporaryDirectory(prefix="espalier-") as folder:
            for name, text in self.files.items():
                pathlib.Path(folder, name).write_text(text, encoding="utf-8")
            inputs = {"@" + name: str(pathlib.Path(folder, name)) for name in self.files}
            words = [inputs.get(word, word) for word in self.words]
            return subprocess.run([str(path()), *words, "--quiet", *more], capture_output=True, text=True, check=False)

    def answer(self, kind: type[Kind]) -> Kind:
        """Returns the document that the binary prints, or raises the error that it prints."""
        ran = self.run("--json")
        try:
            data: Mapping[str, Any] = json.loads(ran.stdout)
        except json.JSONDecodeError:
            if ran.returncode == errors.Interrupted.exit_code:
                raise errors.Interrupted(None) from None
            raise errors.InternalError(
                "espalier " + self.words[0], ran.stderr.strip() or f"exit code {ran.returncode}", "one JSON object"
            ) from None
        if data.get("schema") == "espalier.error/1":
            kinds: dict[str, type[errors.Error]] = {error.kind: error for error in errors.KINDS}
            raise kinds[data["kind"]](data["where"], data["found"], data["expected"], data["hint"])
        text: Callable[[], str] = lambda: self.run().stdout.rstrip("\n")
        return kind._from_json(ran.stdout, text)
