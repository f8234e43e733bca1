"""The records of a log with their effects, which a log holds as digests and the fold gives back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.blocks import block_text, block_value
from ..core.events import (
    EVENT_KINDS,
    BlockCompleted,
    Event,
    RunStarted,
    StreamCompleted,
    StreamFailed,
    ToolFinished,
)
from ..log.behaviour import foreign
from ..log.codec import EVENTS, SPARSE
from ..log.digest import effect_text
from ..log.format import End, Record
from ..log.reader import LogFile, read_log
from ..log.replay import begin_state
from .console import one_line, warn
from .log_files import log_problems
from .text_view import result_text


class Steps:
    """Reads a log step by step.

    Args:
        path: the log.
        effects: fold the log, to have the effects whole.

    Attributes:
        end: the closing record, once the log was read to its end.
        torn: its last record is torn.
        last: sequence number of the last record read.
    """

    def __init__(self, path: Path, *, effects: bool) -> None:
        self._path = path
        with log_problems(path):
            self._log: LogFile = read_log(path)
        self._fold = effects
        if effects and (strange := foreign(self._log.header)):
            warn(f"the log was written {strange}; effects are named, not shown")
            self._fold = False
        self.end: End | None = None
        self.torn = False
        self.last = 0

    def read(self, until: int | None = None) -> Iterator[tuple[Record, list[str] | None]]:
        """Give each record, and its effects as JSON texts; None for effects that were not asked for.

        Args:
            until: stop behind this record.

        Raises:
            Problem: where the log is damaged.
        """
        with log_problems(self._path):
            config = self._log.header.config
            state = begin_state(self._log) if self._fold else None
            for record in self._log.records():
                self.last = record.seq
                effects = None
                if state is not None:
                    from ..core.step import step

                    made = step(state, record.event, config)
                    state = made.state
                    effects = [effect_text(effect) for effect in made.effects]
                yield record, effects
                if record.seq == until:
                    return
            tail = self._log.tail
            self.end, self.torn = tail.end, tail.torn


def event_word(event: Event) -> str:
    """Give the kind of an event."""
    return EVENT_KINDS[type(event)].value


def event_json(event: Event) -> str:
    """Give an event as JSON text, as the log holds it."""
    return SPARSE.choice(EVENTS)[type(event)](event)


def kinds_of(sketch: tuple[str, ...]) -> list[str]:
    """Give the kinds of effects that a record names."""
    return [line.split(" ", 1)[0] for line in sketch]


def pretty(text: str) -> str:
    """Lay JSON text out over lines."""
    return json.dumps(json.loads(text), ensure_ascii=False, indent=2)


def brief(event: Event) -> str:
    """Say in a few words what an event holds."""
    match event:
        case RunStarted():
            return one_line(" ".join(block_text(block) for message in event.messages for block in message.blocks), 60)
        case BlockCompleted(tool=tool) if tool is not None:
            return one_line(f"{tool.name} {tool.raw}", 60)
        case BlockCompleted():
            value: Any = block_value(event.block)
            return one_line(str(value.get("text") or value.get("thinking") or f"[{event.block.type}]"), 60)
        case StreamCompleted():
            return f"stop reason {event.stop_reason}"
        case StreamFailed():
            return one_line(f"{event.failure.kind.value}: {event.failure.message}", 60)
        case ToolFinished():
            return one_line(f"{event.outcome.value}: {result_text(event.result)}", 60)
        case _:
            return ""
