"""Reads a log once and gathers what a page shows: columns over all steps, details by step, and the pool of large values."""

from __future__ import annotations

import json
import os
from typing import Any

from attrs import frozen

from ..core.config import ConfigError, thresholds
from ..core.effects import Effect, EffectKind, Emit
from ..core.events import EVENT_KINDS, USER_KINDS, EffectLost, Event, EventKind, Outcome, RunStarted, ToolFinished
from ..core.messages import Message
from ..core.outputs import Boundary, ErrorOutput, Notice, Retrying
from ..core.phases import SUCCESS, Phase
from ..core.rows import TABLE
from ..core.state import LoopState
from ..core.table import RowKind
from ..core.usage import ModelUsage
from ..log.shapes import tag_of
from ..log.spans import Span, SpanBook
from ..log.story import Story, Told
from .brief import brief, said
from .changes import changes
from .pool import KIND, Pool
from .words import Words, one_line

CONTINUE, FAILURE, CUT, REJECTED, IGNORED, USER, END = 1, 2, 4, 8, 16, 32, 64
"""Marks of a step; the page knows them by these numbers."""
_BRIEF = 90
_FAILURES = frozenset(
    {
        EventKind.STREAM_FAILED,
        EventKind.COMPACTION_FAILED,
        EventKind.COLLAPSE_FAILED,
        EventKind.EFFECT_FAILED,
        EventKind.EFFECT_LOST,
    }
)
_COLUMNS = ("seq", "at", "kind", "rows", "phase", "turn", "brief", "flags", "in", "out", "cost", "context")
_KINDS = tuple(kind.value for kind in EventKind)
_PHASES = tuple(phase.value for phase in Phase)


@frozen
class Collected:
    """What a page is made of.

    Attributes:
        index: read at once when the page opens.
        steps: JSON text of the details of each step, read when they are shown.
        pool: values that details refer to.
        contexts: JSON text of what each pass of the context layers found.
        rows: names of the rows that the index counts by, in order.
        damaged: the log is damaged; what stands before the damage is here.
        problem: why the page does not show everything, empty if it does.
    """

    index: dict[str, Any]
    steps: list[str]
    pool: Pool
    contexts: list[str]
    rows: tuple[str, ...]
    damaged: bool
    problem: str


def collect(path: str | os.PathLike[str], words: Words) -> Collected:
    """Read a log.

    Args:
        path: the log.
        words: makes texts fit for the page.

    Raises:
        LogUnreadable, LogDamaged: if its header cannot be read.
        OSError: if the file cannot be read.
    """
    story = Story(path)
    gatherer = _Gatherer(story, words)
    gatherer.begin()
    for told in story.steps():
        gatherer.add(told)
    return gatherer.finish(os.path.basename(os.fspath(path)))


class _Gatherer:
    def __init__(self, story: Story, words: Words) -> None:
        self._story = story
        self._words = words
        self._pool = Pool(words)
        self._book = SpanBook()
        self._rows: dict[str, int] = {row.name: number for number, row in enumerate(TABLE.rows)}
        self._targets = {row.name: _PHASES.index(row.target.value) for row in TABLE.rows}
        self._continues = frozenset(row.name for row in TABLE.rows if row.kind is RowKind.CONTINUE)
        self._columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
        self._details: list[str] = []
        self._contexts: list[str] = []
        self._lists: list[list[Any]] = []
        self._messages: tuple[Message, ...] = ()
        self._live: Any = None
        self._totals = [0, 0, 0]
        self._prompt = ""
        self._source = ""

    def begin(self) -> None:
        """Take the state before the first record as step 0."""
        state = self._story.begin
        text = "the state before the first event"
        self._column(0, self._story.created, _KINDS.index("auto"), [], _PHASES.index("ready"), 0, text, 0)
        config = self._story.header.config
        self._details.append(_dumps({"e": self._pool.plain(config), "f": [], "d": []}))
        if state is not None:
            self._take_messages(0, state.messages)

    def add(self, told: Told) -> None:
        """Take one step of the story."""
        self._book.add(told)
        record, event = told.record, told.record.event
        place = len(self._details)
        if isinstance(event, RunStarted) and not self._prompt:
            self._prompt, self._source = self._words(said(event.messages)), event.source
        self._spend(getattr(event, "usage", ()))
        effects: tuple[Effect, ...] = () if told.step is None else told.step.effects
        after = None if told.step is None else told.step.state
        known = [self._number(name) for name in record.taken]
        phase = self._columns["phase"][-1] if after is None else _PHASES.index(after.phase.value)
        if after is None:
            phase = next((self._targets[name] for name in reversed(record.taken) if name in self._targets), phase)
        turn = self._columns["turn"][-1] if after is None else after.turn_count
        text = one_line(self._words(self._named(event)), _BRIEF)
        flags = self._flags(told, effects)
        self._column(record.seq, told.at, _KINDS.index(EVENT_KINDS[type(event)].value), known, phase, turn, text, flags)
        detail: dict[str, Any] = {"e": self._pool.plain(event)}
        if told.step is None:
            detail["k"] = [line.split(" ", 1)[0] for line in record.sketch]
        else:
            detail["f"] = [self._effect(effect) for effect in effects]
        if record.rejected is not None:
            detail["x"] = self._words(record.rejected.because)
        if told.before is not None and after is not None:
            detail["d"] = changes(told.before, after, self._words)
            self._take_messages(place, after.messages)
            self._take_live(detail, after)
            if after.data.iteration.view is not told.before.data.iteration.view and after.data.iteration.view:
                self._take_context(place, after)
        self._details.append(_dumps(detail))

    def finish(self, name: str) -> Collected:
        """Give what was gathered."""
        story, terminal = self._story, self._story.terminal
        created, parent = story.created, story.header.parent
        index: dict[str, Any] = {
            "log": self._words(name),
            "session": self._words(story.header.session),
            "run": self._words(story.header.run),
            "parent": None if parent is None else self._words(f"{parent.log}#{parent.seq}"),
            "caller": self._words(story.header.caller),
            "package": self._words(story.header.package),
            "created": created,
            "model": self._words(story.header.config.model),
            "source": self._words(self._source),
            "prompt": one_line(self._prompt or self._words(story.inherited_prompt()), 400),
            "torn": story.torn,
            "problem": self._words(" ".join(story.problems)),
            "terminal": None,
            "kinds": _KINDS,
            "phases": _PHASES,
            "rows": [[row.name, row.kind.value, row.source.value, row.target.value, row.text] for row in TABLE.rows]
            + [[name, "other", "", "", ""] for name in list(self._rows)[len(TABLE.rows) :]],
            "steps": self._columns,
            "lists": self._lists,
            "messages": self._pool.messages,
            "spans": [self._span(span) for span in self._book.spans],
        }
        if terminal is not None:
            index["terminal"] = {
                "reason": terminal.reason.value,
                "cause": terminal.cause.value,
                "success": terminal.cause in SUCCESS,
                "detail": self._words(terminal.detail or (terminal.error.message if terminal.error is not None else "")),
                "turns": terminal.turn_count,
            }
        return Collected(
            index,
            self._details,
            self._pool,
            self._contexts,
            tuple(self._rows),
            damaged=story.damage is not None,
            problem=" ".join(story.problems),
        )

    def _column(self, seq: int, at: int, kind: int, rows: list[int], phase: int, turn: int, text: str, flags: int) -> None:
        values = (seq, at - self._story.created, kind, rows, phase, turn, text, flags, *self._totals, len(self._contexts) - 1)
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def _named(self, event: Event) -> str:
        """Say what an event holds; the answer of a tool, or of a span of messages, says of which."""
        span, text = self._book.find(getattr(event, "id", "")), brief(event)
        if span is None or span.kind not in (EffectKind.TOOL, EffectKind.COLLAPSE) or not span.name:
            return text
        return f"{span.name}  {text}" if text else span.name

    def _number(self, name: str) -> int:
        """Give the number of a row; an ignore, or a row of another table, gets one behind those of the table."""
        return self._rows.setdefault(name, len(self._rows))

    def _spend(self, usage: tuple[ModelUsage, ...]) -> None:
        for part in usage:
            self._totals[0] += part.input_tokens + part.cache_creation_tokens + part.cache_read_tokens
            self._totals[1] += part.output_tokens
            self._totals[2] += part.cost

    def _flags(self, told: Told, effects: tuple[Effect, ...]) -> int:
        record, event = told.record, told.record.event
        kind = EVENT_KINDS[type(event)]
        outputs = [effect.output for effect in effects if isinstance(effect, Emit)]
        marks = 0
        marks |= CONTINUE if self._continues.intersection(record.taken) else 0
        marks |= FAILURE if kind in _FAILURES or _failed(event) or any(isinstance(one, ErrorOutput) for one in outputs) else 0
        marks |= CUT if any(isinstance(one, Boundary) for one in outputs) else 0
        marks |= REJECTED if record.rejected is not None else 0
        marks |= IGNORED if record.rejected is None and not any(name in self._targets for name in record.taken) else 0
        marks |= USER if kind in USER_KINDS else 0
        before, after = told.before, None if told.step is None else told.step.state
        ended = before is not None and after is not None and before.terminal is None and after.terminal is not None
        return marks | (END if ended else 0)

    def _effect(self, effect: Effect) -> Any:
        if isinstance(effect, Emit):
            output = effect.output
            level = output.level if isinstance(output, Notice) else "warning" if isinstance(output, Retrying) else ""
            shown = self._pool.plain(output)
            return {**shown, KIND: "emit", "$out": tag_of(type(output)), **({"level": level} if level else {})}
        return self._pool.plain(effect)

    def _take_messages(self, place: int, messages: tuple[Message, ...]) -> None:
        """Note how the working list changed: how many messages stayed in front, and which follow."""
        old = self._messages
        if messages is old:
            return
        same = 0
        for was, now in zip(old, messages, strict=False):
            if was is not now:
                break
            same += 1
        self._messages = messages
        if same < len(old) or same < len(messages):
            self._lists.append([place, same, [self._pool.message(item) for item in messages[same:]]])

    def _take_live(self, detail: dict[str, Any], state: LoopState) -> None:
        """Note the reply in flight and the results that have come, where they differ from those of the step before."""
        iteration = state.data.iteration
        key = (iteration.blocks, tuple(call.result for call in iteration.calls))
        if key == self._live:
            return
        self._live = key
        blocks = [self._pool.block(block) for block in iteration.blocks]
        results = [self._pool.block(call.result) for call in iteration.calls if call.result is not None]
        detail["l"] = [blocks, results]

    def _take_context(self, place: int, state: LoopState) -> None:
        facts, memory, iteration = state.control.context, state.data.context, state.data.iteration
        model = state.control.tool_use_context.model
        kinds: dict[str, list[int]] = {}
        for item in iteration.view:
            tally = kinds.setdefault(item.kind.value, [0, 0])
            tally[0] += 1
            tally[1] += item.tokens
        try:
            limits = thresholds(self._story.header.config, model)
            lines = [limits.stage_at, limits.commit_at, limits.auto_compact_at, limits.blocking_limit, limits.effective_window]
        except ConfigError:
            lines = []
        value = {
            "step": place,
            "model": self._words(model),
            "tokens": facts.tokens,
            "blocking": facts.blocking_tokens,
            "fixed": facts.fixed_tokens,
            "staged": facts.staged,
            "limits": lines,
            "kinds": kinds,
            "reports": self._pool.plain(iteration.reports),
            "replaced": len(memory.replacements),
            "spans": [[self._words(span.id), span.tokens, span.summary is not None, span.committed] for span in memory.spans],
            "freed": memory.freed,
            "base": None if memory.base is None else [memory.base.tokens, self._words(memory.base.model)],
            "tracking": self._pool.plain(facts.tracking),
        }
        self._contexts.append(_dumps(value))
        self._columns["context"][-1] = len(self._contexts) - 1

    def _span(self, span: Span) -> list[Any]:
        created = self._story.created

        def since(at: int | None) -> int | None:
            return None if at is None else at - created

        name, call = self._words(span.name), self._words(span.call)
        times = [since(span.issued), since(span.started), since(span.ended)]
        steps = [self._place(span.issued_seq), self._place(span.started_seq), self._place(span.ended_seq)]
        tokens = [sum(part.input_tokens + part.cache_creation_tokens + part.cache_read_tokens for part in span.usage)]
        tokens += [sum(part.output_tokens for part in span.usage), sum(part.cost for part in span.usage)]
        detail = one_line(self._words(span.detail), 200)
        return [self._words(span.id), span.kind.value, name, call, times, steps, span.how.value, detail, tokens]

    def _place(self, seq: int) -> int:
        """Give the step of a record; numbers and steps differ behind a gap."""
        from bisect import bisect_left

        return min(bisect_left(self._columns["seq"], seq), len(self._details) - 1)


def _failed(event: Event) -> bool:
    if isinstance(event, ToolFinished):
        return event.outcome is not Outcome.OK
    return isinstance(event, EffectLost)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
