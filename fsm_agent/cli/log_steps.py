"""The records of a log with their effects, which a log holds as digests and the fold gives back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.blocks import block_text, block_value
from ..core.effects import EffectKind
from ..core.events import (
    EVENT_KINDS,
    BlockCompleted,
    EffectLost,
    Event,
    RunStarted,
    StreamCompleted,
    StreamFailed,
    ToolFinished,
)
from ..core.outputs import Terminal
from ..log.behaviour import foreign
from ..log.codec import EVENTS, SPARSE
from ..log.digest import effect_text
from ..log.format import End, Gap, Record
from ..log.glance import ends_run, last_terminal
from ..log.reader import LogFile, read_log
from ..log.replay import begin_state, stored_state
from .console import one_line, warn
from .log_files import log_problems
from .text_view import result_text


class Steps:
    """Reads a log step by step.

    Args:
        path: the log.
        effects: fold the log, to have the effects whole.

    Attributes:
        log: the log.
        end: the closing record, once the log was read to its end.
        terminal: how the run ended, known once the log was read to its end, also where the closing record is missing.
        torn: its last line is torn.
        last: number of the last record read.
    """

    def __init__(self, path: Path, *, effects: bool) -> None:
        self._path = path
        with log_problems(path):
            self.log: LogFile = read_log(path)
        self._fold = effects
        if effects and (strange := foreign(self.log.header)):
            warn(f"the log was written {strange}; effects are named, not shown")
            self._fold = False
        self.end: End | None = None
        self.terminal: Terminal | None = None
        self.torn = False
        self.last = 0

    def records(self) -> Iterator[Record]:
        """Give each record; a gap is a warning.

        Raises:
            Problem: where the log is damaged.
        """
        for item, _ in self.read():
            if isinstance(item, Record):
                yield item
            else:
                warn(f"{item.words} ({item.because})")

    def read(self, until: int | None = None) -> Iterator[tuple[Record | Gap, list[str] | None]]:
        """Give each record, and its effects as JSON texts; None for effects that were not asked for, or are not known.

        Behind a gap they are known again from the next stored state on.

        Args:
            until: stop behind this record.

        Raises:
            Problem: where the log is damaged.
        """
        last: Record | None = None
        with log_problems(self._path):
            state = begin_state(self.log) if self._fold else None
            for item in self.log.items():
                effects = None
                if isinstance(item, Gap):
                    state, self.last = None, item.to
                else:
                    last, self.last = item, item.seq
                    if state is not None:
                        from ..core.step import step

                        made = step(state, item.event, self.log.header.config)
                        state = made.state
                        effects = [effect_text(effect) for effect in made.effects]
                    elif self._fold:
                        state = stored_state(self.log, item)
                yield item, effects
                if self.last == until:
                    return
            tail = self.log.tail
            self.end, self.torn = tail.end, tail.torn
            if tail.end is not None:
                self.terminal = tail.end.terminal
            elif last is not None and last.seq == tail.records and ends_run(last):
                self.terminal = last_terminal(self._path)


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
        case EffectLost():
            return lost_words(event.id)
        case _:
            return ""


_LOST: dict[str, str] = {
    EffectKind.CALL: "a call of the model",
    EffectKind.TOOL: "a tool",
    EffectKind.COMPACT: "a compaction",
    EffectKind.COLLAPSE: "a summary of old rounds",
    EffectKind.ATTACHMENTS: "attachments",
    EffectKind.MEMORY: "a search of the memory",
    EffectKind.SKILLS: "a search for skills",
    EffectKind.SUMMARY: "a summary of tools",
    EffectKind.HOOKS: "stop hooks",
    EffectKind.TIMER: "a wait",
}


def lost_words(effect_id: str) -> str:
    """Say what was lost with an effect; the word of its kind is part of its id."""
    name = effect_id.rpartition("/")[2]
    what = _LOST.get(name.rpartition("-")[0])
    return one_line(f"{name} was without an answer" + (f" ({what})" if what else ""), 60)
