"""The surroundings of the bare reducer: every effect answered as the scenario says, in virtual time.

Every answer has a virtual time in milliseconds; of answers of one time, events of the model's stream come first, then
tools in the order of their starts, then all else in the order of its issue. So a reply streams to its end, or to its next
settle point, before a tool that it started gets on; at a settle point the stream waits until no tool and no background
effect has an answer to come.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from attrs import frozen

from ..core.effects import (
    CallModel,
    Cancel,
    Compact,
    Effect,
    Emit,
    GatherAttachments,
    NotifyCommand,
    PrefetchKind,
    RunPostSamplingHooks,
    RunStopHooks,
    RunTool,
    StageCollapse,
    StartPrefetch,
    StartTimer,
    SummarizeToolUse,
)
from ..core.events import (
    EffectFailed,
    Event,
    PrefetchFinished,
    StreamFailed,
    TimerFired,
    ToolProgressed,
    ToolStarted,
    ToolUseSummaryReady,
)
from ..core.failures import ErrorKind
from .answering import (
    attachment_messages,
    attachments_gathered,
    collapse_answer,
    compaction_answer,
    hooks_finished,
    input_digest,
    nothing_to_summarise,
    tool_finished,
)
from .answers import SummarySpec, SummaryWord
from .format import HookWord, Scenario
from .playing import Pause, StreamPart, exhausted, scripted_traits, stream_of

STREAM, TOOL, REST = 0, 1, 2


@frozen(order=True)
class _Due:
    """One answer to come: ``event`` None stands for the next part of the stream of ``effect``."""

    time: int
    rank: int
    number: int
    effect: str
    beside: bool
    event: Event | None = None


class Environment:
    """Answers effects as the scenario says, in a fixed order."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._traits = scripted_traits(scenario)
        self._due: list[_Due] = []
        self._streams: dict[str, Iterator[StreamPart]] = {}
        self._settling: list[tuple[str, str]] = []
        self._now = 0
        self._numbers = 0
        self._counts: dict[str, int] = {}

    def take(self, effects: tuple[Effect, ...]) -> None:
        """Take the effects of one step."""
        for effect in effects:
            match effect:
                case CallModel():
                    self._call(effect)
                case RunTool():
                    self._tool(effect)
                case Cancel(id=effect_id):
                    self._cancel(effect_id)
                case Emit() | NotifyCommand() | RunPostSamplingHooks():
                    pass
                case StartTimer(id=effect_id, delay_ms=delay):
                    self._answer(effect_id, TimerFired(id=effect_id), delay)
                case _:
                    self._rest(effect)

    def next(self) -> Event | None:
        """Give the next event, None if nothing more will happen by itself."""
        while True:
            self._resume()
            if not self._due:
                return None
            due = heappop(self._due)
            self._now = max(self._now, due.time)
            if due.event is not None:
                return due.event
            part = next(self._streams[due.effect], None)
            if isinstance(part, Pause):
                if part.until != "never":
                    self._settling.append((due.effect, part.until))
            elif part is not None:
                self._push(due.effect, 0, STREAM)
                return _crash_or(part)

    def _resume(self) -> None:
        """Let streams go on whose pause is over."""
        busy = {"finished": any(due.beside for due in self._due)}
        busy["started"] = any(isinstance(due.event, ToolStarted) for due in self._due)
        for effect_id, until in self._settling:
            if not busy[until]:
                self._push(effect_id, 0, STREAM)
        self._settling = [(effect_id, until) for effect_id, until in self._settling if busy[until]]

    def _count(self, what: str) -> int:
        number = self._counts.get(what, 0)
        self._counts[what] = number + 1
        return number

    def _push(self, effect_id: str, delay: int, rank: int, event: Event | None = None, beside: bool = False) -> None:
        self._numbers += 1
        heappush(self._due, _Due(self._now + delay, rank, self._numbers, effect_id, beside, event))

    def _answer(self, effect_id: str, event: Event, delay: int = 0, beside: bool = False) -> None:
        self._push(effect_id, delay, REST, event, beside)

    def _cancel(self, effect_id: str) -> None:
        self._due = [due for due in self._due if due.effect != effect_id]
        heapify(self._due)
        self._settling = [waiting for waiting in self._settling if waiting[0] != effect_id]
        self._streams.pop(effect_id, None)

    def _call(self, effect: CallModel) -> None:
        number = self._count("replies")
        replies = self._scenario.replies
        parts: tuple[StreamPart, ...]
        if number < len(replies):
            model = effect.request.model
            parts = stream_of(replies[number], effect.id, number, self._scenario.config, model, self._traits)
        else:
            parts = (exhausted(effect.id, "replies", len(replies)),)
        self._streams[effect.id] = iter(parts)
        self._push(effect.id, 0, STREAM)

    def _tool(self, effect: RunTool) -> None:
        spec = self._scenario.tool(effect.name)
        number = self._count(f"tool {effect.name}")
        if spec is not None and not spec.denied:
            digest = input_digest(effect.input_json)
            self._push(effect.id, 0, TOOL, ToolStarted(id=effect.id, final_input_digest=digest), beside=True)
            for place, text in enumerate(spec.progress, 1):
                delay = spec.duration_ms * place // (len(spec.progress) + 1)
                self._push(effect.id, delay, TOOL, ToolProgressed(id=effect.id, text=text), beside=True)
            if spec.hang:
                return
        duration = spec.duration_ms if spec is not None else 0
        finished = tool_finished(effect.id, effect.tool_use_id, spec, number)
        self._push(effect.id, duration, TOOL, finished, beside=True)

    def _rest(self, effect: Effect) -> None:
        scenario = self._scenario
        match effect:
            case Compact(id=effect_id, messages=()):
                self._answer(effect_id, nothing_to_summarise(effect_id))
            case Compact(id=effect_id):
                number = self._count("compactions")
                spec = _at(scenario.compactor, number)
                if spec is None or spec.word is not SummaryWord.HANG:
                    answer = compaction_answer(effect, scenario, number)
                    self._answer(effect_id, answer, spec.duration_ms if spec else 0)
            case StageCollapse(id=effect_id):
                number = self._count("collapses")
                spec = _at(scenario.collapses, number)
                if spec is None or spec.word is not SummaryWord.HANG:
                    answered = collapse_answer(effect_id, scenario.collapses, number)
                    self._answer(effect_id, answered, spec.duration_ms if spec else 0, beside=True)
            case RunStopHooks(id=effect_id):
                number = self._count("hooks")
                hook = scenario.stop_hooks[number] if number < len(scenario.stop_hooks) else None
                if hook is None or hook.word is not HookWord.HANG:
                    self._answer(effect_id, hooks_finished(effect_id, hook))
            case GatherAttachments(id=effect_id):
                number = self._count("attachments")
                self._answer(effect_id, attachments_gathered(effect_id, scenario.attachments, number))
            case StartPrefetch(id=effect_id, kind=kind):
                background = scenario.memory if kind is PrefetchKind.MEMORY else scenario.skills
                if background is not None:
                    brought = PrefetchFinished(id=effect_id, messages=attachment_messages(background.text, effect_id))
                    self._answer(effect_id, brought, background.duration_ms, beside=True)
            case SummarizeToolUse(id=effect_id):
                if scenario.summary is not None:
                    ready = ToolUseSummaryReady(id=effect_id, text=scenario.summary.text)
                    self._answer(effect_id, ready, scenario.summary.duration_ms, beside=True)
            case _:
                raise AssertionError(f"an effect without an answer: {effect}")


def _at(specs: tuple[SummarySpec, ...], number: int) -> SummarySpec | None:
    return specs[number] if number < len(specs) else None


def _crash_or(event: Event) -> Event:
    """Turn a scripted exception of the model into what the interpreter makes of one."""
    if isinstance(event, StreamFailed) and event.failure.kind is ErrorKind.ENGINE_ERROR:
        return EffectFailed(id=event.id, failure=event.failure)
    return event
