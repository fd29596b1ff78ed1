"""The cells of a document's tables: as people read them, unrounded, as sort keys and as CSV."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from io import StringIO
from numbers import Integral, Real
from typing import Any

from carbon_gym.report.document import Cell, Column, Measured, Table

NOTHING = "–"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")


def head(column: Column) -> str:
    """Title and unit."""
    return f"{column.title}, {column.unit}" if column.unit else column.title


def shown(cell: Cell, column: Column) -> str:
    """A cell as it is read, its interval behind it: ``12.1 [11.5, 12.8]``."""
    value, interval = shown_parts(cell, column)
    return f"{value} {interval}" if interval else value


def shown_parts(cell: Cell, column: Column) -> tuple[str, str]:
    """A cell without its interval, and the interval in brackets; "" where there is none."""
    if isinstance(cell, str):
        return one_line(cell), ""
    if isinstance(cell, Measured):
        ends = interval_of(cell)
        # An end that rounds to 0 keeps its sign: it says whether the interval holds 0.
        interval = f"[{', '.join(_formatted(end, column) for end in ends)}]" if ends else ""
        return _rounded(cell.value, column), interval
    return (NOTHING, "") if cell is None else (_rounded(cell, column), "")


def exact(cell: Cell, column: Column) -> str:
    """What rounding hides: value, unit and interval with all digits; "" where nothing is hidden."""
    if cell is None or isinstance(cell, str | Integral):
        return ""
    value = cell.value if isinstance(cell, Measured) else cell
    text = f"{all_digits(value)} {column.unit}".rstrip()
    ends = interval_of(cell)
    return f"{text} (95 % interval {' to '.join(map(all_digits, ends))})" if ends else text


def number_of(cell: Cell) -> float | None:
    """The number in a cell.

    Raises:
        TypeError: It is not a cell.
    """
    value = cell.value if isinstance(cell, Measured) else cell
    if value is None or isinstance(value, str):
        return None
    if not isinstance(value, Real):
        raise TypeError(f"a cell is text, a number, Measured or None, not {value!r}")
    return value


def all_digits(value: float) -> str:
    """A number unrounded, as Python and CSV readers take it."""
    return str(int(value)) if isinstance(value, Integral) else repr(float(value))


def interval_of(cell: Cell) -> tuple[float, float] | None:
    """Low and high end."""
    if not isinstance(cell, Measured) or cell.low is None or cell.high is None:
        return None
    return cell.low, cell.high


def has_intervals(table: Table) -> list[bool]:
    """For each column, whether any of its cells has an interval."""
    return [
        any(interval_of(row[place]) for row in table.rows) for place in range(len(table.columns))
    ]


def measured(estimate: Mapping[str, Any] | None, scale: float = 1.0) -> Measured | None:
    """A cell from an interval of `carbon_gym.metrics`, scaled; low stays below high.

    Args:
        estimate: With "mean" or "value", "low" and "high".
        scale: Of all three.
    """
    if estimate is None:
        return None
    value = estimate["mean"] if "mean" in estimate else estimate["value"]
    if value is None:
        return None
    if estimate["low"] is None:
        return Measured(scale * value)
    low, high = sorted(scale * estimate[end] for end in ("low", "high"))
    return Measured(scale * value, low, high)


def one_line(text: str) -> str:
    """Text without line breaks, and without code points that no file or page can hold."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", " ".join(encodable(text).split()))


def encodable(text: str) -> str:
    """Text that UTF-8 can carry: names of files may hold bytes that are no characters."""
    return text.encode("utf-8", "replace").decode("utf-8")


def table_csv(table: Table) -> str:
    """A table as CSV: numbers unrounded, units in the header, low and high as columns of their own.

    Raises:
        ValueError: Two columns have the same title and unit.
    """
    intervals = has_intervals(table)
    header: list[str] = []
    for column, measured in zip(table.columns, intervals, strict=True):
        unit = f" ({column.unit})" if column.unit else ""
        header += [
            one_line(f"{column.title}{end}{unit}")
            for end in (("", " low", " high") if measured else ("",))
        ]
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise ValueError(f"table {table.name}: more than one column is {twice[0]!r}")
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        writer.writerow(
            [
                field
                for cell, measured in zip(row, intervals, strict=True)
                for field in _fields(cell, measured)
            ]
        )
    return text.getvalue()


def _fields(cell: Cell, measured: bool) -> list[str]:
    number = number_of(cell)
    value = (
        encodable(cell) if isinstance(cell, str) else "" if number is None else all_digits(number)
    )
    if not measured:
        return [value]
    ends = interval_of(cell)
    return [value, *(map(all_digits, ends) if ends else ("", ""))]


def _rounded(value: float, column: Column) -> str:
    """A value; what rounds to 0 has no sign."""
    if math.isfinite(value) and not isinstance(value, Integral):
        value = 0.0 if round(value, column.digits) == 0 else value
    return _formatted(value, column)


def _formatted(value: float, column: Column) -> str:
    if math.isnan(value):
        return NOTHING
    form = "d" if isinstance(value, Integral) else f".{column.digits}f"
    return f"{value:{'+' if column.signed and value else ''},{form}}".replace("-", "−")
