"""Every answer that the world may give at a state, each with the name of its abstract event.

The names depend on the abstract value of the state alone, and so does their order: two states of one value are offered
the same abstract events. Ids and texts are those of the concrete state. Texts are tiny; what is to be large says so in
its header, which is all that the core looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from attrs import frozen

from ..core.blocks import Block, text_block, tool_use
from ..core.config import LoopConfig
from ..core.control import Flight
from ..core.effects import EffectKind
from ..core.events import (
    AbortRequested,
    AttachmentsGathered,
    BlockCompleted,
    CollapseFailed,
    CollapseStaged,
    CommandQueued,
    CompactionFailed,
    CompactionFinished,
    CompactRequested,
    EffectFailed,
    EffectLost,
    Event,
    ModelSwitched,
    Outcome,
    PrefetchFinished,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    TimerFired,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    ToolTraits,
    ToolUse,
    ToolUseSummaryReady,
)
from ..core.failures import ErrorKind, ModelFailure
from ..core.messages import Message, MessageKind, message
from ..core.phases import TERMINAL_SET, AbortReason, Cause, Phase
from ..core.state import LoopState, initial
from ..core.step import next_run
from ..core.usage import ModelUsage
from .bounds import Bounds, Form, Piece, Start


@frozen
class NextRun:
    """The session begins its next run; not an event of the loop, but what happens to a state between two."""


Offer = tuple[str, Event]
"""The name of an abstract event, and the concrete event."""

RUN = "r"
"""Id of the first run; that of a later one has its number behind it."""
OLD_ROUND = 30_000
"""Tokens of one exchange before the run."""
HUGE = 140_000
"""Tokens of a prompt over the hard limit."""
TOKEN_BUDGET = 4_000
"""Output tokens; nine tenths are reached with the fourth reply of a thousand."""
COST = 1_000_000
"""Micro-dollars of an answer that spends all the money."""
LONG_WAIT = 999_999

TRAITS = {
    "read": ToolTraits(read_only=True, concurrency_safe=True),
    "safe": ToolTraits(concurrency_safe=True),
    "write": ToolTraits(),
    "shell": ToolTraits(cancels_siblings_on_error=True),
    "unknown": ToolTraits(known=False),
}


_UNPAID = frozenset({EffectKind.TIMER, EffectKind.ATTACHMENTS})
"""Effects whose answers have no usage to tell."""


def sized(text: str, tokens: int) -> Block:
    """Make a text block that says it is ``tokens`` tokens long."""
    words = text_block(text)
    return Block(type="text", json=words.json, tokens=tokens, chars=words.chars)


WORDS = text_block("w")
_PIECES = {
    Piece.TEXT: (WORDS, True),
    Piece.BLANK: (text_block(" "), True),
    Piece.THINKING: (
        Block(type="thinking", json='{"type":"thinking","thinking":"t","signature":"s"}', tokens=1, chars=1, signed=True),
        True,
    ),
    Piece.SERVER: (
        Block(
            type="server_tool_use",
            json='{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}',
            tokens=9,
            chars=9,
            id="srvtoolu_1",
            name="web_search",
        ),
        True,
    ),
    Piece.OPEN: (WORDS, False),
}
_ATTACHMENT = message("attachment", "user", MessageKind.ATTACHMENT, (text_block("a"),))
_PREFETCHED = message("prefetched", "user", MessageKind.ATTACHMENT, (text_block("p"),))
PROMPT = message("prompt", "user", MessageKind.PROMPT, (text_block("do"),))
_HUGE_PROMPT = message("prompt", "user", MessageKind.PROMPT, (sized("do", HUGE),))


def history(bounds: Bounds) -> tuple[Message, ...]:
    """Give the finished exchanges that stand before the run."""
    made: list[Message] = []
    for number in range(bounds.old_rounds):
        prompt = sized("old", OLD_ROUND - 100)
        made.append(message(f"old-{number}", "user", MessageKind.PROMPT, (prompt,)))
        made.append(message(f"old-reply-{number}", "assistant", MessageKind.ASSISTANT, (WORDS,), model="m"))
    return tuple(made)


def start(config: LoopConfig, bounds: Bounds) -> LoopState:
    """Give the state from which an exploration begins."""
    return initial(config, history(bounds))


def after_run(state: LoopState, config: LoopConfig) -> LoopState:
    """Give the state from which the session goes on when a run has ended."""
    return next_run(state, config)


def _usage(output: int = 0, cost: int = 0) -> tuple[ModelUsage, ...]:
    return (ModelUsage("m", 0, output, 0, 0, cost),)


class Environment:
    """Lists the events of a state; what does not depend on the state is made once."""

    def __init__(self, config: LoopConfig, bounds: Bounds) -> None:
        self.config = config
        self.bounds = bounds
        self.failures = self._failures()
        self.starts = tuple(self._starts(run) for run in range(1, bounds.runs + 1))
        self.user = self._user()
        self.strangers = tuple(_strangers(_run_id(run)) if bounds.strangers else () for run in range(1, bounds.runs + 1))
        self.models = tuple(dict.fromkeys((config.model, *config.fallback_models, *(info.name for info in config.models))))

    def offers(self, state: LoopState, run: int = 1) -> list[Offer]:
        """List all events of a state, answers first.

        Args:
            state: where the run stands.
            run: number of the run in its session.

        Returns:
            (name, event) pairs in an order that depends on the abstract value alone.
        """
        found: list[Offer] = []
        for number, flight in enumerate(state.control.flight):
            self._answers(state, flight, f"{number}.", found)
        self._users(state, found, self.starts[run - 1])
        found.extend(self.strangers[run - 1])
        return found

    def all(self, state: LoopState, run: int = 1) -> Sequence[tuple[str, Event | NextRun]]:
        """List all that may happen: the events, and where a run has ended and another may follow, the session's next run."""
        found = self.offers(state, run)
        if run < self.bounds.runs and state.control.phase in TERMINAL_SET:
            return [*found, ("session.next_run", _NEXT_RUN)]
        return found

    def fair(self, name: str) -> bool:
        """Tell whether an abstract event is an answer of the world: no user, no crash, no stranger."""
        return name[0].isdigit() and not name.endswith("lost")

    def _answers(self, state: LoopState, flight: Flight, at: str, found: list[Offer]) -> None:
        identity = flight.id
        match flight.kind:
            case EffectKind.CALL:
                self._stream(state, identity, at, found)
            case EffectKind.TOOL:
                self._tool(state, flight, at, found)
            case EffectKind.COMPACT:
                self._compaction(identity, at, found)
            case EffectKind.HOOKS:
                self._hooks(identity, at, found)
            case EffectKind.TIMER:
                found.append((at + "fired", TimerFired(identity)))
            case EffectKind.ATTACHMENTS:
                found.append((at + "none", AttachmentsGathered(identity)))
                found.append((at + "one", AttachmentsGathered(identity, (_ATTACHMENT,), ("a provider is slow",))))
            case EffectKind.MEMORY | EffectKind.SKILLS:
                found.append((at + "none", PrefetchFinished(identity)))
                found.append((at + "one", PrefetchFinished(identity, (_PREFETCHED,))))
            case EffectKind.SUMMARY:
                found.append((at + "none", ToolUseSummaryReady(identity)))
                found.append((at + "text", ToolUseSummaryReady(identity, "read")))
            case EffectKind.COLLAPSE:
                found.append((at + "staged", CollapseStaged(identity, sized("c", 9))))
                found.append((at + "blank", CollapseStaged(identity, text_block(" "))))
                found.append((at + "failed", CollapseFailed(identity, _failure(ErrorKind.SERVER_ERROR))))
        found.append((at + "broke", EffectFailed(identity, _failure(ErrorKind.ENGINE_ERROR))))
        if flight.kind not in _UNPAID:
            for name, usage in self._spending(state):
                found.append((f"{at}broke.{name}", EffectFailed(identity, _failure(ErrorKind.ENGINE_ERROR), usage)))
        if self.bounds.crashes:
            found.append((at + "lost", EffectLost(identity)))

    def _failures(self) -> tuple[tuple[str, ModelFailure], ...]:
        found = [(kind.value, _failure(kind)) for kind in self.bounds.errors]
        if self.bounds.long_waits:
            found += [
                (f"{kind.value}.long", ModelFailure(kind=kind, message=kind.value, retry_after_ms=LONG_WAIT))
                for kind in self.bounds.errors
                if kind in (ErrorKind.RATE_LIMITED, ErrorKind.OVERLOADED)
            ]
        return tuple(found)

    def _stream(self, state: LoopState, identity: str, at: str, found: list[Offer]) -> None:
        bounds = self.bounds
        iteration, calls = state.data.iteration, state.control.tools.calls
        index = len(iteration.blocks)
        found.append((at + "begins", StreamStarted(identity, "msg", "m")))
        ended = bool(calls and calls[-1].last) or bool(iteration.unclosed)
        server = any(block.type == "server_tool_use" for block in iteration.blocks)
        if index < bounds.blocks and not ended:
            for piece in bounds.pieces:
                if piece is Piece.SERVER and server:
                    continue
                block, closed = _PIECES[piece]
                found.append((at + piece.value, BlockCompleted(identity, index, block, None, False, closed)))
            if len(calls) < bounds.tools:
                self._calls(state, identity, at, index, found)
        for stop in bounds.stops:
            for tokens in bounds.usage:
                found.append((f"{at}{stop}.{tokens}", StreamCompleted(identity, stop, (), tokens)))
            for tokens in bounds.cleared:
                event = StreamCompleted(identity, stop, (), bounds.usage[0], cleared_tokens=tokens)
                found.append((f"{at}{stop}.cleared.{tokens}", event))
        if server:
            for stop in ("pause_turn", "tool_use", "end_turn"):
                found.append((f"{at}{stop}.waits", StreamCompleted(identity, stop, (), bounds.usage[0], unresolved=True)))
        for name, usage in self._spending(state):
            found.append((f"{at}end_turn.{name}", StreamCompleted(identity, "end_turn", usage, bounds.usage[0])))
            found.append((f"{at}tool_use.{name}", StreamCompleted(identity, "tool_use", usage, bounds.usage[0])))
            found.append((f"{at}max_tokens.{name}", StreamCompleted(identity, "max_tokens", usage, bounds.usage[0])))
            found.append((f"{at}stalled.{name}", StreamFailed(identity, _failure(ErrorKind.STALLED), usage)))
        for name, failure in self.failures:
            found.append((at + name, StreamFailed(identity, failure)))

    def _spending(self, state: LoopState) -> tuple[tuple[str, tuple[ModelUsage, ...]], ...]:
        found: tuple[tuple[str, tuple[ModelUsage, ...]], ...] = ()
        if state.control.budget.token_budget is not None:
            found += (("few", _usage(output=1)), ("many", _usage(output=1_000)))
        if self.config.max_budget is not None:
            found += (("dear", _usage(cost=COST)),)
        return found

    def _calls(self, state: LoopState, identity: str, at: str, index: int, found: list[Offer]) -> None:
        bounds, known = self.bounds, state.data.iteration.calls
        run = state.control.run
        fresh = f"t{run.issued}_{index}" if run.id == RUN else f"t{run.issued}_{index}_{run.id}"
        value = "{}" if bounds.same_inputs else f'{{"n":"{fresh}"}}'
        for form in bounds.forms:
            name, raw, last = fresh, value, False
            parsed: str | None = value
            match form:
                case Form.WHOLE:
                    pass
                case Form.MALFORMED:
                    raw, parsed = "{", None
                case Form.DUPLICATE:
                    if not known:
                        continue
                    name = known[-1].use.id
                case Form.OLD:
                    ids = state.data.call_ids.split("\n")
                    if len(ids) < 3:
                        continue
                    name = ids[1]
                case Form.LAST:
                    last = True
            # A call that is malformed or repeated is answered by the engine, whatever its traits.
            kinds = bounds.kinds if form in (Form.WHOLE, Form.LAST) else bounds.kinds[:1]
            for kind in kinds:
                use = ToolUse(name, kind, raw, parsed, "" if parsed is not None else "cut", TRAITS[kind])
                block = _call_block(name, kind)
                found.append((f"{at}{kind}.{form.value}", BlockCompleted(identity, index, block, use, last)))

    def _tool(self, state: LoopState, flight: Flight, at: str, found: list[Offer]) -> None:
        identity = flight.id
        found.append((at + "started", ToolStarted(identity, "d")))
        found.append((at + "progressed", ToolProgressed(identity, ".")))
        for word in self.bounds.outcomes:
            stop = "stop" if word == "stop" else None
            outcome = Outcome.ERROR if word == "stop" else Outcome(word)
            block = _result_block(flight.call, outcome is not Outcome.OK, self.bounds.result_tokens)
            found.append((at + word, ToolFinished(identity, outcome, block, word, stop)))
        if self.config.max_budget is not None:
            found.append(
                (
                    at + "dear",
                    ToolFinished(
                        identity,
                        Outcome.OK,
                        _result_block(flight.call, False, self.bounds.result_tokens),
                        "ok",
                        None,
                        _usage(0, COST),
                    ),
                )
            )

    def _compaction(self, identity: str, at: str, found: list[Offer]) -> None:
        for word in self.bounds.compactions:
            match word:
                case "small":
                    event: Event = CompactionFinished(identity, (sized("s", 1),))
                case "little":
                    event = CompactionFinished(identity, (sized("s", max(1, OLD_ROUND * self.bounds.old_rounds - 5_000)),))
                case "refused":
                    event = CompactionFinished(identity, (sized("s", 1),), "refusal")
                case "media":
                    event = CompactionFinished(identity, ())
                case _:
                    event = CompactionFailed(identity, _failure(ErrorKind.SERVER_ERROR))
            found.append((at + word, event))

    def _hooks(self, identity: str, at: str, found: list[Offer]) -> None:
        found.append((at + "pass", StopHooksFinished(identity)))
        found.append((at + "warn", StopHooksFinished(identity, (), None, Cause.HOOK, ("a hook crashed",))))
        found.append((at + "block", StopHooksFinished(identity, ("more",))))
        found.append((at + "prevent", StopHooksFinished(identity, (), "no")))
        found.append((at + "schema", StopHooksFinished(identity, (), "no", Cause.STRUCTURED_OUTPUT_EXHAUSTED)))
        found.append((at + "both", StopHooksFinished(identity, ("more",), "no")))

    def _users(self, state: LoopState, found: list[Offer], starts: tuple[Offer, ...]) -> None:
        control, bounds = state.control, self.bounds
        if control.phase is Phase.READY:
            found.extend(starts)
        else:
            found.append(starts[0])
        if control.phase in TERMINAL_SET or len(control.queue.commands) < bounds.commands:
            found.append(("user.command", _command(control.run.issued, len(control.queue.commands), 1)))
            if bounds.huge_commands:
                found.append(("user.huge_command", _command(control.run.issued, len(control.queue.commands), HUGE)))
        found.extend(self.user)
        if control.phase not in TERMINAL_SET:
            for name, usage in self._spending(state):
                found.append((f"user.interrupt.{name}", AbortRequested(AbortReason.INTERRUPT, usage)))
        if bounds.switches:
            for number, model in enumerate(self.models):
                if model != (control.queue.switch or control.tool_use_context.model):
                    found.append((f"user.switch.{number}", ModelSwitched(model)))

    def _user(self) -> tuple[Offer, ...]:
        found: list[Offer] = [(f"user.{reason.value}", AbortRequested(reason)) for reason in AbortReason]
        if self.bounds.requests:
            found.append(("user.compact", CompactRequested("briefly")))
        return tuple(found)

    def _starts(self, number: int) -> tuple[Offer, ...]:
        found: list[Offer] = []
        run = _run_id(number)
        prompt, huge = (PROMPT, _HUGE_PROMPT) if number == 1 else (_again(PROMPT, number), _again(_HUGE_PROMPT, number))
        for kind in self.bounds.starts:
            match kind:
                case Start.PLAIN:
                    event = RunStarted(run, (prompt,))
                case Start.BUDGET:
                    event = RunStarted(run, (prompt,), token_budget=TOKEN_BUDGET)
                case Start.ROOM:
                    event = RunStarted(run, (prompt,), source="compact")
                case Start.AGENT:
                    event = RunStarted(run, (prompt,), source="agent:a", depth=1, token_budget=TOKEN_BUDGET)
                case Start.SPENT:
                    event = RunStarted(run, (prompt,), spent=COST)
                case Start.HUGE:
                    event = RunStarted(run, (huge,))
                case Start.EMPTY:
                    event = RunStarted(run, ())
            found.append((f"user.start.{kind.value}", event))
        return tuple(found)


_NEXT_RUN = NextRun()


def _run_id(number: int) -> str:
    return RUN if number == 1 else f"{RUN}{number}"


def _again(prompt: Message, run: int) -> Message:
    return message(f"{prompt.id}-{run}", prompt.role, prompt.kind, prompt.blocks)


def _strangers(current: str) -> tuple[Offer, ...]:
    """Answers of effects that are not in flight. Number 1 is always issued early, and never to these kinds."""
    found: list[Offer] = []
    for word, run, number in (("stale", current, 1), ("never", current, 999_999), ("foreign", "other", 1)):
        for kind, made in _ANSWERS if word == "stale" else _ANSWERS[:2]:
            event = made(f"{run}/{kind}-{number}")
            found.append((f"{word}.{type(event).__name__}", event))
    return tuple(found)


def _failure(kind: ErrorKind) -> ModelFailure:
    return _FAILURES[kind]


_FAILURES = {kind: ModelFailure(kind=kind, message=kind.value) for kind in ErrorKind}
_FAULT = _FAILURES[ErrorKind.SERVER_ERROR]


@lru_cache(maxsize=4_096)
def _call_block(identity: str, kind: str) -> Block:
    return tool_use(identity, kind, "{}")


@lru_cache(maxsize=4_096)
def _result_block(identity: str, is_error: bool, tokens: int = 9) -> Block:
    error = ',"is_error":true' if is_error else ""
    text = f'{{"type":"tool_result","tool_use_id":"{identity}","content":"o"{error}}}'
    return Block(type="tool_result", json=text, tokens=tokens, chars=1, id=identity, is_error=is_error)


@lru_cache(maxsize=4_096)
def _command(issued: int, place: int, tokens: int) -> Event:
    name = f"c{issued}_{place}"
    return CommandQueued(name, message(name, "user", MessageKind.COMMAND, (sized("c", tokens),)))


_ANSWERS: tuple[tuple[str, Callable[[str], Event]], ...] = (
    ("call", lambda name: StreamStarted(name)),
    ("call", lambda name: BlockCompleted(name, 0, WORDS)),
    ("call", lambda name: StreamCompleted(name, "end_turn")),
    ("call", lambda name: StreamFailed(name, _FAULT)),
    ("tool", lambda name: ToolStarted(name)),
    ("tool", lambda name: ToolProgressed(name, ".")),
    ("tool", lambda name: ToolFinished(name, Outcome.OK, _result_block("t", False))),
    ("compact", lambda name: CompactionFinished(name, (WORDS,))),
    ("compact", lambda name: CompactionFailed(name, _FAULT)),
    ("collapse", lambda name: CollapseStaged(name, WORDS)),
    ("collapse", lambda name: CollapseFailed(name, _FAULT)),
    ("hooks", lambda name: StopHooksFinished(name)),
    ("attachments", lambda name: AttachmentsGathered(name)),
    ("skills", lambda name: PrefetchFinished(name)),
    ("summary", lambda name: ToolUseSummaryReady(name)),
    ("timer", lambda name: TimerFired(name)),
    ("hooks", lambda name: EffectFailed(name, _FAULT)),
    ("timer", lambda name: EffectLost(name)),
)
