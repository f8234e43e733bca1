"""Compare: where two logs first differ (spec 04)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from attrs import frozen

from .codec import EVENTS, FULL, SPARSE, encode_control
from .difference import NOTHING
from .format import Gap, Record
from .names import Names
from .reader import LogFile, read_log
from .replay import begin_state
from .shapes import tag_of

_SHORT = 160
_DIGESTS = ("digest", "final_input_digest")


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
    """Find the first difference between two logs.

    Times, the date that the model is told, salts, ids of sessions and runs and what derives from them, ids that the API
    gave, and where the logs are kept are none: an id counts only by what else has the same one.

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
    ours, theirs = _parts(read_log(first)), _parts(read_log(second))
    log, other_log = ours[-1][0], theirs[-1][0]
    pair = _Pair()
    found = pair.difference(_head(log), _head(other_log)) or pair.difference(_begin(ours[0][0]), _begin(theirs[0][0]))
    if found is not None:
        return Contrast(0, *found, 0)
    agreed, held = 0, None
    for one, other in zip_longest(_story(ours), _story(theirs)):
        if one is None or other is None:
            names = (NOTHING if one is None else _name(one), NOTHING if other is None else _name(other))
            return Contrast(agreed + 1, "the end of the log", *names, agreed)
        if isinstance(one, Gap) is not isinstance(other, Gap):
            return Contrast(agreed + 1, "what is recorded", _name(one), _name(other), agreed)
        found = pair.difference(_value(one), _value(other)) or pair.made(one, other)
        if found is None and pair.digest is not None and held is None:
            held = Contrast(agreed + 1, *pair.digest, agreed)
        if found is not None:
            return Contrast(agreed + 1, *found, agreed)
        agreed += 1
    found = pair.difference(_end(log), _end(other_log)) or pair.difference(_reducer(log), _reducer(other_log))
    return held if found is None else Contrast(agreed + 1, *found, agreed)


class _Pair:
    """Compares the values of two logs one after the other, under the names that they have so far.

    Attributes:
        digest: the first digest that differs, in the form of a difference. It says less than what follows from the same
            cause, and is one only where nothing else is.
    """

    def __init__(self) -> None:
        self._names = (Names(), Names())
        self._exact = True
        self.digest: tuple[str, str, str] | None = None

    def difference(self, one: Any, other: Any) -> tuple[str, str, str] | None:
        """Give path and both texts of the first place where two decoded values differ."""
        for names, value in zip(self._names, (one, other), strict=True):
            names.learn(value)
        return self._path(one, other, "", "")

    def made(self, one: Record | Gap, other: Record | Gap) -> tuple[str, str, str] | None:
        """Compare the effects of two records.

        A log holds their checksums, in which ids are. Behind the first id that differs their kinds are compared: what is
        in them follows from the events, by the reducer.
        """
        left, right = ([] if isinstance(item, Gap) else list(item.sketch) for item in (one, other))
        if not self._exact:
            left, right = ([line.split(" ", 1)[0] for line in lines] for lines in (left, right))
        return self._path(left, right, "effects", "")

    def _path(self, one: Any, other: Any, path: str, key: str) -> tuple[str, str, str] | None:
        if isinstance(one, dict) and isinstance(other, dict):
            for name in [*one, *(name for name in other if name not in one)]:
                if name in _DIGESTS:
                    self._note(one, other, name, f"{path}.{name}")
                    continue
                found = self._path(one.get(name), other.get(name), f"{path}.{name}" if path else name, name)
                if found is not None:
                    return found
            return None
        if isinstance(one, list) and isinstance(other, list):
            for place, (left, right) in enumerate(zip_longest(one, other)):
                found = self._path(left, right, f"{path}[{place}]", "")
                if found is not None:
                    return found
            return None
        if type(one) is type(other) and one == other:
            return None
        if isinstance(one, str) and isinstance(other, str):
            one, other = (names.plain(text, key) for names, text in zip(self._names, (one, other), strict=True))
            if one == other:
                self._exact = False
                return None
        return path, *_around(one, other)

    def _note(self, one: dict[str, Any], other: dict[str, Any], name: str, path: str) -> None:
        left, right = one.get(name), other.get(name)
        if left == right:
            return
        self._exact = False
        if name == "digest" and one.get("result") != other.get("result"):
            return  # it was taken over the result, ids and all
        self.digest = self.digest or (path, *_around(left, right))


def _head(log: LogFile) -> Any:
    header = log.header
    config = json.loads(FULL.record(type(header.config))(header.config))
    config["system_context"] = [fact for fact in config["system_context"] if fact[0] != "date"]
    return {"table": header.table, "config": config}


def _begin(log: LogFile) -> Any:
    """Give what the run begins with: the history before it, and what of earlier runs still counts."""
    state = begin_state(log)
    return {
        "begin": {
            "messages": [json.loads(SPARSE.record(type(item))(item)) for item in state.messages],
            "control": json.loads(encode_control(state.control)),
        }
    }


def _parts(log: LogFile) -> list[tuple[LogFile, int | None]]:
    """Give the logs that hold the run, the first of them first, each with its last record that counts."""
    parts: list[tuple[LogFile, int | None]] = [(log, None)]
    while (parent := log.header.parent) is not None and log.header.state is None and begin_state(log).control.run.id:
        log = read_log(log.path.parent / parent.log)
        parts.insert(0, (log, parent.seq))
    return parts


def _story(parts: list[tuple[LogFile, int | None]]) -> Iterator[Record | Gap]:
    """Give the records of a run, those before a fork in the middle of it too."""
    for log, until in parts:
        for item in log.items():
            if until is not None and item.seq > until:
                break
            yield item


def _end(log: LogFile) -> Any:
    end = log.tail.end
    return {"terminal": None if end is None else json.loads(SPARSE.record(type(end.terminal))(end.terminal))}


def _reducer(log: LogFile) -> Any:
    return {"reducer": log.header.reducer}


def _name(item: Record | Gap) -> str:
    return "a gap" if isinstance(item, Gap) else tag_of(type(item.event))


def _value(item: Record | Gap) -> Any:
    if isinstance(item, Gap):
        return {"gap": item.to - item.seq}
    event = json.loads(SPARSE.choice(EVENTS)[type(item.event)](item.event))
    rejected = None if item.rejected is None else item.rejected.because
    return {"event": event, "taken": list(item.taken), "rejected": rejected}


def _around(one: Any, other: Any) -> tuple[str, str]:
    """Give two texts, cut to the part around their first difference."""
    left, right = (NOTHING if value is None else json.dumps(value, ensure_ascii=False) for value in (one, other))
    same = next((place for place, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    start = max(0, same - 40) if max(len(left), len(right)) > _SHORT else 0
    return _cut(left, start), _cut(right, start)


def _cut(text: str, start: int) -> str:
    piece = text[start : start + _SHORT]
    return ("…" if start else "") + piece + ("…" if start + _SHORT < len(text) else "")
