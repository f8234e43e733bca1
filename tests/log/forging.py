"""Logs that somebody made up: each line has its right checksum and chain, and holds what no writer would write."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

from fsm_agent.log.codec import exact

Edit = Callable[[dict[str, Any]], Any]
"""Changes the fields of a line in place, or gives its whole text."""
DEEP = "[" * 100_000 + "]" * 100_000
MIDDLE = "[" * 700 + "]" * 700
"""Nested no deeper than a parser of JSON goes, and deeper than what walks over it."""


def forge(source: Path, target: Path, edits: Mapping[int, Edit] | None = None, times: Mapping[int, str] | None = None) -> Path:
    """Copy a log with other fields, or other times, in some of its lines (the header is line 0).

    Args:
        source: the log.
        target: where the copy goes.
        edits: by line, what changes its fields.
        times: by line, the text that stands as its time.
    """
    made, before, salt = [], b"", b""
    for number, line in enumerate(source.read_bytes().splitlines(keepends=True)):
        fields = json.loads(line)
        at = (times or {}).get(number, str(fields["at"]))
        for key in ("crc", "at", "chain"):
            del fields[key]
        given = (edits or {}).get(number, lambda fields: None)(fields)
        text = given if isinstance(given, str) else json.dumps(fields, ensure_ascii=False, separators=(",", ":"))[1:-1]
        text = exact(text)  # what has no bytes comes as an escape
        salt = str(fields["salt"]).encode("utf-8", "surrogatepass") if number == 0 else salt
        core = text.encode()
        before = sha256(before + salt + core).hexdigest().encode()
        body = b'"at":%b,%b,"chain":"%b"}' % (at.encode(), core, before)
        made.append(b'{"crc":"%08x",%b\n' % (crc32(body), body))
    target.write_bytes(b"".join(made))
    return target


def put(**fields: Any) -> Edit:
    """Give the change that sets some fields."""
    return lambda line: line.update(fields)


def nested(text: str, **fields: Any) -> Edit:
    """Give the line with one more field, whose JSON is ``text``."""
    return lambda line: json.dumps({**line, **fields}, ensure_ascii=False, separators=(",", ":"))[1:-1] + ',"x":' + text


def parent(**fields: Any) -> Edit:
    """Make a header one that continues another log."""

    def edit(line: dict[str, Any]) -> None:
        del line["state"]
        line.update(parent={"log": "other.jsonl", "seq": 3, "chain": "0" * 64, "behind": 3, **fields}, begin="0" * 64)

    return edit


WRONG_TIMES = ('"x"', "null", "true", "1.5", "1e3", "1e999", "-1", "-99999999999999999", str(2**53), "9" * 4_000, "[]")
WRONG_HEADERS: dict[str, Edit] = {
    "nested without end": nested(DEEP),
    "nested deeply": nested(MIDDLE, blobs=["0" * 64]),
    "a salt that has no bytes": put(salt="\udc80"),
    "a reducer behind all numbers": put(reducer=10**300),
    "a parent with NUL in its name": parent(log="a\0b"),
    "a parent without a name": parent(log=""),
    "a parent whose name has no bytes": parent(log="\ud800x"),
    "a parent before its beginning": parent(seq=-3),
    "a parent behind all numbers": parent(behind=2**53),
    "a state that is none": put(state=[[[]]]),
    "a config nested deeply": lambda line: line["config"].update(system=json.loads(MIDDLE)),
}
WRONG_RECORDS: dict[str, Edit] = {
    "nested without end": nested(DEEP),
    "nested deeply": nested(MIDDLE, blobs=["0" * 64]),
    "rows that are numbers": put(taken=[5]),
    "rows that are one text": put(taken="abc"),
    "rows that are lists": put(taken=[["x"]]),
    "no rows": put(taken=None),
    "a sketch of nothing": put(sketch=[None]),
    "a sketch that is one text": put(sketch="emit"),
    "effects that are a number": put(effects=7),
    "a state that is a number": put(state=5),
    "a stored state that is a number": put(snapshot=7),
    "an event that is a list": put(event=[]),
    "an event of no kind": put(event={"is": []}),
    "a block of no bytes": put(
        event={
            "is": "block_completed",
            "id": "x",
            "index": 0,
            "block": {"type": "text", "json": {"base64": 5}, "tokens": 1, "chars": 1},
        }
    ),
    "a block of bad bytes": put(
        event={
            "is": "block_completed",
            "id": "x",
            "index": 0,
            "block": {"type": "text", "json": {"base64": "é"}, "tokens": 1, "chars": 1},
        }
    ),
    "a gap that is nowhere": lambda line: json.dumps({"seq": line["seq"], "gap": {"to": 2**53}})[1:-1],
    "a gap that ends with true": lambda line: json.dumps({"seq": line["seq"], "gap": {"to": True}})[1:-1],
    "a gap before no chain": lambda line: json.dumps(
        {"seq": line["seq"], "gap": {"to": line["seq"], "because": "x", "kept": "y", "next": "\ud800"}}
    )[1:-1],
    "a gap without words": lambda line: json.dumps({"seq": line["seq"], "gap": {"to": line["seq"], "because": [[]]}})[1:-1],
}
