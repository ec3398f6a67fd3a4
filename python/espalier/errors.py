# SPDX-License-Identifier: Apache-2.0
"""Errors as exceptions: where, what was found, what was expected, a hint. Every kind has the exit code of
the command line."""

from __future__ import annotations

from typing import Any, ClassVar


class Error(Exception):
    """An error with its place. Unknown parts are empty.

    Attributes
    ----------
    where : str
        ``"file:line:column"`` or ``"file: $.json.path"``.
    found, expected, hint : str
        The mistake, the right form, and the remedy.

    Examples
    --------
    >>> try:
    ...     espalier.plan("examples/llama3-8b-on-8xh100.yaml", set={"training.precision": "fp7"})
    ... except espalier.InputError as error:
    ...     print(error.found)
    "fp7"
    """

    kind: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1

    def __init__(self, where: str = "", found: str = "", expected: str = "", hint: str = "") -> None:
        self.where, self.found, self.expected, self.hint = where, found, expected, hint
        parts = [("found ", found), ("expected ", expected), ("hint: ", hint)]
        said = "; ".join(word + text for word, text in parts if text)
        super().__init__(f"{where}: {said}" if where and said else where or said)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.where, self.found, self.expected, self.hint)


class InternalError(Error):
    """A bug of Espalier."""


class UsageError(Error):
    """A wrong argument, or arguments that do not go together."""

    kind, exit_code = "usage", 2


class InputError(Error):
    """A file or value is wrong."""

    kind, exit_code = "bad_input", 3


class InfeasibleError(Error):
    """No plan fits; `hint` is the nearest change that helps."""

    kind, exit_code = "infeasible", 4


class CheckError(Error):
    """A check failed, for example because a plan to export breaks a rule of its engine."""

    kind, exit_code = "check_failed", 5


class LimitError(Error):
    """The search reached a limit before it found any plan."""

    kind, exit_code = "limit", 6


class Interrupted(KeyboardInterrupt):
    """Ctrl-C interrupted a search. `best` is the best answer so far, not proven optimal; None if there
    was none yet."""

    exit_code: ClassVar[int] = 130

    def __init__(self, best: object | None = None) -> None:
        super().__init__(
            "interrupted: `best` is the best so far, not proven optimal"
            if best is not None
            else "interrupted before there was an answer"
        )
        self.best = best


KINDS: tuple[type[Error], ...] = (InternalError, UsageError, InputError, InfeasibleError, CheckError, LimitError)
