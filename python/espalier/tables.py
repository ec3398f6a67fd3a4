# SPDX-License-Identifier: Apache-2.0
"""Tables as dicts of columns, ready for pandas."""
from __future__ import annotations

import html
from typing import Any, Iterable, Iterator, Sequence


class Table(dict):
    """Maps column names to columns of equal length, in order. `pandas.DataFrame(table)` works, as does
    table.to_pandas()."""

    @classmethod
    def of_rows(cls, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
        """Builds a table from rows, each as long as `names`."""
        rows = list(rows)
        return cls({name: [row[i] for row in rows] for i, name in enumerate(names)})


    @property
    def rows(self) -> int:
        return len(next(iter(self.values()))) if self else 0

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """Iterates over the rows as dicts."""
        for i in range(self.rows):
            yield {name: column[i] for name, column in self.items()}

    def to_pandas(self) -> Any:
        """Returns a pandas.DataFrame; pandas must be installed (pip install "espalier[pandas]")."""
        import pandas

        return pandas.DataFrame(dict(self))

    def _repr_html_(self) -> str:
        most = 30
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in self)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row.values()) + "</tr>"
                       for _, row in zip(range(most), self.iter_rows()))
        more = f"<p>{self.rows - most:,} rows more</p>" if self.rows > most else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def of_documents(documents: Iterable[Any], names: Sequence[str]) -> Table:
    """Builds a column for each named attribute of documents of one kind."""
    return Table.of_rows(names, ([getattr(document, name) for name in names] for document in documents))


