"""Compare: where two logs first differ (spec 04)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from attrs import frozen

from .codec import FULL, SPARSE
from .difference import NOTHING
from .format import Gap, Record
from .reader import LogFile, read_log
from .replay import begin_state
from .shapes import tag_of

_SHORT = 160


@frozen
class Contrast:
    """The first difference between two logs.

    Attributes:
        seq: number of the record, 0 for the header.
        field: path of what differs, such as ``event.result.json`` or ``config.max_turns``.
        first: what the first log says.
        second: what the second one says.
        agreed: records before it that are the same.
    """

    seq: int
    field: str
    first: str
    second: str
    agreed: int

    def __str__(self) -> str:
        """Say it in one line."""
        where = "the headers" if self.seq == 0 else f"record {self.seq}"
        return f"{where}: {self.field}: {self.first} / {self.second}"


def compare(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> Contrast | None:
    """Find the first difference between two logs. Times, salts, session ids and where they are kept are none.

    A log that was forked from the other one is compared from its parents' first record on.

    Args:
        first: a log.
        second: another one.

    Returns:
        The difference, None if there is none.

    Raises:
        LogUnreadable, LogDamaged: if one of them cannot be read that far.
        LogError: if a parent cannot be followed.
        OSError: if a file cannot be read.
    """
    ours, theirs = read_log(first), read_log(second)
    agreed = 0
    found = _path(_head(ours), _head(theirs))
    if found is not None:
        return Contrast(0, *found, 0)
    for one, other in zip_longest(_story(ours), _story(theirs)):
        if one is None or other is None:
            names = (NOTHING if one is None else _name(one), NOTHING if other is None else _name(other))
            return Contrast(agreed + 1, "the end of the log", *names, agreed)
        found = _path(_value(one), _value(other))
        if found is not None:
            return Contrast(agreed + 1, *found, agreed)
        agreed += 1
    ends = [
        json.loads(SPARSE.record(type(end.terminal))(end.terminal)) if end else None for end in (ours.tail.end, theirs.tail.end)
    ]
    found = _path(ends[0], ends[1])
    return None if found is None else Contrast(agreed + 1, f"terminal.{found[0]}".removesuffix("."), *found[1:], agreed)


def _head(log: LogFile) -> Any:
    header = log.header
    return {"table": header.table, "config": json.loads(FULL.record(type(header.config))(header.config))}


def _story(log: LogFile) -> Iterator[Record | Gap]:
    """Give the records of a run, those before a fork in the middle of it too."""
    parent = log.header.parent
    if parent is not None and log.header.state is None and begin_state(log).control.run.id:
        for item in _story(read_log(log.path.parent / parent.log)):
            if item.seq > parent.seq:
                break
            yield item
    yield from log.items()


def _name(item: Record | Gap) -> str:
    return "a gap" if isinstance(item, Gap) else tag_of(type(item.event))


def _value(item: Record | Gap) -> Any:
    if isinstance(item, Gap):
        return {"gap": item.to - item.seq}
    from .codec import EVENTS

    event = json.loads(SPARSE.choice(EVENTS)[type(item.event)](item.event))
    rejected = None if item.rejected is None else item.rejected.because
    return {"event": event, "taken": list(item.taken), "rejected": rejected, "effects": list(item.sketch)}


def _path(one: Any, other: Any, path: str = "") -> tuple[str, str, str] | None:
    """Give path and both texts of the first place where two decoded values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in [*one, *(key for key in other if key not in one)]:
            found = _path(one.get(key), other.get(key), f"{path}.{key}" if path else key)
            if found is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(other, list):
        for place, (left, right) in enumerate(zip_longest(one, other)):
            found = _path(left, right, f"{path}[{place}]")
            if found is not None:
                return found
        return None
    if type(one) is type(other) and one == other:
        return None
    return path, *_around(one, other)


def _around(one: Any, other: Any) -> tuple[str, str]:
    """Give two texts, cut to the part around their first difference."""
    left, right = (NOTHING if value is None else json.dumps(value, ensure_ascii=False) for value in (one, other))
    same = next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, same - 40) if max(len(left), len(right)) > _SHORT else 0
    return _cut(left, start), _cut(right, start)


def _cut(text: str, start: int) -> str:
    piece = text[start : start + _SHORT]
    return ("…" if start else "") + piece + ("…" if start + _SHORT < len(text) else "")
