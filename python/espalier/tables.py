# SPDX-License-Identifier: Apache-2.0
"""Tables as dicts of columns, ready for pandas and Arrow."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

if TYPE_CHECKING:
    import pandas
    import pyarrow


class Table(dict[str, Any]):
    """Columns of equal length by name, in order.

    Examples
    --------
    >>> table = espalier.Table(stage=[0, 1], busy=[0.98, 0.94])
    >>> table["busy"]
    [0.98, 0.94]
    """

    @classmethod
    def of_rows(cls, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
        """Build a table from rows.

        Parameters
        ----------
        names : sequence of str
            Names of the columns.
        rows : iterable of sequences
            Rows, each as long as `names`.

        Returns
        -------
        Table
            The table.

        Examples
        --------
        >>> espalier.Table.of_rows(["a", "b"], [(1, 2), (3, 4)])
        {'a': [1, 3], 'b': [2, 4]}
        """
        rows = list(rows)
        return cls({name: [row[i] for row in rows] for i, name in enumerate(names)})

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.values()))) if self else 0

    def iter_rows(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows.

        Yields
        ------
        dict
            A row: the value of each column by name.

        Examples
        --------
        >>> list(espalier.Table(a=[1, 3], b=[2, 4]).iter_rows())
        [{'a': 1, 'b': 2}, {'a': 3, 'b': 4}]
        """
        for i in range(self.rows):
            yield {name: column[i] for name, column in self.items()}

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a data frame of pandas (``pip install "espalier[pandas]"``).

        Returns
        -------
        pandas.DataFrame
            A frame with the same columns.

        Examples
        --------
        >>> espalier.Table(a=[1, 3], b=[2, 4]).to_pandas().shape
        (2, 2)
        """
        import pandas

        frame: pandas.DataFrame = pandas.DataFrame(dict(self))
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Return the table as a table of Arrow (``pip install "espalier[arrow]"``).

        Returns
        -------
        pyarrow.Table
            A table with the same columns.

        Examples
        --------
        >>> espalier.Table(a=[1, 3], b=[2, 4]).to_arrow().column_names
        ['a', 'b']
        """
        import pyarrow

        return pyarrow.table(dict(self))

    def _repr_html_(self) -> str:
        most = 30
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in self)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row.values()) + "</tr>"
            for _, row in zip(range(most), self.iter_rows())
        )
        rest = f"<p>{self.rows - most:,} rows are not shown</p>" if self.rows > most else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def of_documents(documents: Iterable[Any], names: Sequence[str]) -> Table:
    """Builds a column for each named attribute of documents of one kind."""
    return Table.of_rows(names, ([getattr(document, name) for name in names] for document in documents))


def of_mappings(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Builds a table of rows whose keys are those of the first; an absent value is None."""
    names = list(rows[0]) if rows else []
    return Table.of_rows(names, ([row.get(name) for name in names] for row in rows))
