"""Server-sent events out of bytes, as they arrive in whatever pieces. Pure: no socket, no clock."""

from __future__ import annotations

from attrs import frozen

MAX_EVENT_BYTES = 64_000_000
"""A single event above this is an attack or a fault, not a reply."""

_BOM = b"\xef\xbb\xbf"


class SseOverflow(ValueError):
    """One event grew past :data:`MAX_EVENT_BYTES`."""


@frozen
class SseEvent:
    """One event.

    Attributes:
        name: the ``event`` field, empty if there was none.
        data: the ``data`` lines, joined by line feeds.
    """

    name: str
    data: str


class SseDecoder:
    """Incremental decoder: feed it bytes, get the events that they complete.

    Lines may end in CR, LF or CRLF, also across two pieces. Bytes that are no UTF-8 become U+FFFD. An event
    that the stream never closed with an empty line is not an event: a cut stream must not look whole.
    """

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._size = 0
        self._name = ""
        self._data: list[str] = []
        self._has_data = False
        self._skip_lf = False
        self._first = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes.

        Args:
            chunk: bytes as the socket gave them.

        Returns:
            The events completed by them, in order.

        Raises:
            SseOverflow: if one event is larger than this decoder holds.
        """
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if not chunk:
            return []
        self._size += len(chunk)
        if b"\n" not in chunk and b"\r" not in chunk:
            self._tail.append(chunk)
            self._check()
            return []
        self._skip_lf = chunk.endswith(b"\r")
        lines = b"".join((*self._tail, chunk)).splitlines(keepends=True)
        self._tail = []
        if not lines[-1].endswith((b"\n", b"\r")):
            self._tail.append(lines.pop())
        events = [event for line in lines if (event := self._line(line.rstrip(b"\r\n"))) is not None]
        if events:
            self._size = len(self._tail[0]) if self._tail else 0
        self._check()
        return events

    def _check(self) -> None:
        if self._size > MAX_EVENT_BYTES:
            raise SseOverflow(f"one event of the stream is larger than {MAX_EVENT_BYTES} bytes")

    def _line(self, line: bytes) -> SseEvent | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if field == b"data":
            self._data.append(value.decode("utf-8", "replace"))
            self._has_data = True
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
        return None

    def _dispatch(self) -> SseEvent | None:
        name, data, had = self._name, self._data, self._has_data
        self._name, self._data, self._has_data = "", [], False
        if not name and not had:
            return None
        return SseEvent(name=name, data="\n".join(data))
