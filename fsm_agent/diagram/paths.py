"""What a run, or many, took of the table: counts by row, painted on a picture (spec 04)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from attrs import field, frozen

from ..core.rows import TABLE
from ..core.table import Row, Table


class Ink(StrEnum):
    """What is painted."""

    PATH = "path"
    COVERAGE = "coverage"
    WEIGHT = "weight"
    """Coverage, with how often each row was taken."""


@frozen
class Paint:
    """Counts to paint on a picture.

    Attributes:
        ink: the path of a run, or the coverage by many.
        counts: how often each row was taken; a row that is not there was not taken.
        unknown: names that are no rows of the table (``stale``, or rows of another version), with their counts.
    """

    ink: Ink
    counts: Mapping[str, int] = field(factory=dict)
    unknown: Mapping[str, int] = field(factory=dict)

    @property
    def covers(self) -> bool:
        """True if coverage is painted: colours say what was taken then, and nothing else."""
        return self.ink is not Ink.PATH

    def count(self, rows: Iterable[Row]) -> int:
        """Say how often any of some rows was taken."""
        return sum(self.counts.get(row.name, 0) for row in rows)

    def missing(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Give those of some rows that were never taken."""
        return tuple(row for row in rows if not self.counts.get(row.name, 0))

    def summary(self, rows: tuple[Row, ...]) -> str:
        """Say in a few words what was painted on a picture's rows."""
        covered = len(rows) - len(self.missing(rows))
        if self.ink is Ink.COVERAGE:
            return f"{covered} of {len(rows)} rows covered"
        if self.ink is Ink.WEIGHT:
            share = 100 * covered // len(rows)
            return f"{covered} of {len(rows)} rows covered ({share} %), taken {self.count(rows):,} times"
        return f"a run: {self.count(rows)} transitions over {covered} of {len(rows)} rows"


def short(count: int) -> str:
    """Write a count in at most four letters: 950, 1.2k, 34k, 1.5M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= unit:
            value = count / unit
            return f"{value:.1f}{letter}" if value < 9.95 else f"{value:.0f}{letter}"
    return str(count)


def counted(taken: Iterable[str], ink: Ink = Ink.PATH, table: Table = TABLE) -> Paint:
    """Count the rows that a run took, or several runs one after the other.

    Args:
        taken: names of rows, in any order.
        ink: what the counts stand for.
        table: the declaration.

    Returns:
        What to paint.
    """
    names = {row.name for row in table.rows}
    counts: dict[str, int] = {}
    unknown: dict[str, int] = {}
    for name in taken:
        book = counts if name in names else unknown
        book[name] = book.get(name, 0) + 1
    return Paint(ink=ink, counts=counts, unknown=unknown)
