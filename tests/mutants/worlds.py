"""Random worlds for the core: small numbers everywhere, and answers that land on a limit, just below and just above it.

A guard is judged by what it does at its boundary, so every limit of a configuration is drawn from the first few numbers,
and what a world says of tokens, money and waits is aimed at the limit of the state in hand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from fsm_agent.core.blocks import read_block, text_block, tool_use
from fsm_agent.core.config import LoopConfig, thresholds
from fsm_agent.core.effects import BACKGROUND
from fsm_agent.core.events import (
    BlockCompleted,
    CommandQueued,
    CompactionFinished,
    EffectFailed,
    Event,
    PrefetchFinished,
    RunStarted,
    StopHooksFinished,
    StreamCompleted,
    StreamFailed,
    StreamStarted,
    ToolFinished,
    ToolProgressed,
)
from fsm_agent.core.failures import ModelFailure
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.phases import TERMINAL_SET, Phase
from fsm_agent.core.state import LoopState, Step
from fsm_agent.core.step import next_run, step
from fsm_agent.core.usage import ModelUsage
from fsm_agent.explorer.environment import Environment, start
from fsm_agent.explorer.matrix import CI, Case

from .cases import FLAVOURS

HOPS = ("user.interrupt", "user.submit", "user.close")
ODD_IDS = ("", "bad id!", "x" * 129, "x" * 128)
ODD_NAMES = ("bad name!", "n" * 65, "")


@frozen
class Taken:
    """One step of a walk."""

    before: LoopState
    event: Event
    made: Step


def choose(environment: Environment, state: LoopState, pick: random.Random, calm: float = 0.7, late: float = 0.0) -> Event:
    """Choose the next event: mostly an answer, each kind of event as often as the others, the user and crashes rarely.

    Args:
        environment: who offers.
        state: where the run stands.
        pick: chance.
        calm: how often nothing may fail.
        late: how often what runs beside the loop is not answered yet.
    """
    offers = environment.offers(state)
    if pick.random() < late:
        offers = [offer for offer in offers if not is_late(offer[1])] or offers
    fair = [event for name, event in offers if environment.fair(name)]
    if not fair or pick.random() < 0.12:
        quiet = [event for name, event in offers if name not in HOPS]
        fair = quiet if quiet and pick.random() < 0.9 else [event for _, event in offers]
    rare = {"StreamFailed", "EffectFailed"} if pick.random() < calm else set()
    kinds = sorted({type(event).__name__ for event in fair} - rare)
    kind = pick.choice(kinds) if kinds else ""
    return pick.choice([event for event in fair if type(event).__name__ == kind] or fair)


def sharpened(event: Event, state: LoopState, config: LoopConfig, pick: random.Random) -> Event:
    """Move what an event says to a limit of the state in hand, or make it odd."""
    if isinstance(event, StreamCompleted | StreamFailed | ToolFinished | CompactionFinished | EffectFailed | PrefetchFinished):
        unpaid = isinstance(event, EffectFailed) and any(f"/{kind}-" in event.id for kind in ("timer", "attachments"))
        if pick.random() < 0.6 and not unpaid:
            event = evolve(event, usage=_usage(state, config, pick))
    match event:
        case StreamCompleted():
            return _completed(event, state, config, pick)
        case StreamFailed() if pick.random() < 0.4:
            limit = config.retry_after_ceiling_ms
            wait = pick.choice((limit, limit + 1, limit - 1, 0, 1, 700))
            path = pick.choice(("", "messages.0.content.1", "messages.9.content.0"))
            said = evolve(event.failure, retry_after_ms=wait, over_tokens=pick.choice((0, 9)), media_path=path)
            return evolve(event, failure=said)
        case BlockCompleted() if event.tool is not None and pick.random() < 0.25:
            name = pick.choice((*ODD_NAMES, event.tool.name))
            identity = pick.choice((*ODD_IDS, event.tool.id))
            use = evolve(event.tool, id=identity, name=name)
            block = tool_use(identity, name, "{}")
            return evolve(event, tool=use, block=block, closed=pick.random() < 0.9)
        case ToolFinished() if pick.random() < 0.4:
            odd = pick.choice((evolve(text_block("odd"), type="text"), read_block(_RESULT), event.result))
            return evolve(event, result=odd, digest=pick.choice(("", event.digest)))
        case ToolProgressed() if pick.random() < 0.3:
            return evolve(event, text=pick.choice(("y" * 1_999, "z" * 2_001, "a")))
        case BlockCompleted() if event.block.is_thinking and pick.random() < 0.1:
            return evolve(event, closed=False)
        case CommandQueued() if pick.random() < 0.3:
            return evolve(event, address="elsewhere", command_id=f"e{pick.randrange(10**9)}")
        case StopHooksFinished() if pick.random() < 0.3:
            return evolve(event, warnings=("a hook is slow",), blocking=pick.choice((event.blocking, ("more", " "))))
        case EffectFailed() if pick.random() < 0.4:
            return evolve(event, failure=ModelFailure(kind=event.failure.kind))
        case RunStarted() if event.messages and pick.random() < 0.5:
            return _started(event, pick)
        case CompactionFinished() if pick.random() < 0.4:
            return _summary(event, state, config, pick)
        case _:
            return event


_RESULT = {"type": "tool_result", "tool_use_id": "somebody", "content": "o"}
_DETAILS = ("", "", '{"category":"c","explanation":"e"}', "[]", "{", '{"category":1}')


def _usage(state: LoopState, config: LoopConfig, pick: random.Random) -> tuple[ModelUsage, ...]:
    budget = state.control.budget
    outputs = [0, 1, 400]
    if budget.token_budget is not None:
        reach = -(-9 * budget.token_budget // 10) - budget.output_tokens
        since = 500 - (budget.output_tokens - budget.spent_at_check)
        aims = [since, since - 1, since - 1, since + 1, 1] + ([reach, reach - 1] if pick.random() < 0.25 else [])
        outputs = [value for value in aims if value >= 0] or [0]
    costs = [0, 5]
    if config.max_budget is not None:
        left = config.max_budget - budget.cost - budget.cost_before
        costs = [value for value in (left, left - 1, 0, 0, 0, 0) if value >= 0]
    return (ModelUsage(pick.choice(("m", "n")), 3, pick.choice(outputs), 1, 2, pick.choice(costs)),)


def _completed(event: StreamCompleted, state: LoopState, config: LoopConfig, pick: random.Random) -> Event:
    if pick.random() < 0.3:
        event = _aimed(event, state, config, pick)
    if event.stop_reason == "refusal":
        event = evolve(event, stop_details=pick.choice(_DETAILS))
    if pick.random() < 0.2:
        event = evolve(event, cleared_tokens=pick.choice((0, 700)))
    return event


def _aimed(event: StreamCompleted, state: LoopState, config: LoopConfig, pick: random.Random) -> StreamCompleted:
    """Report so many tokens that the next count lies at a limit, or next to it."""
    limits = thresholds(config, state.control.tool_use_context.model)
    levels = [limits.auto_compact_at, limits.blocking_limit, limits.stage_at, limits.commit_at]
    opened = state.control.context.tracking.opened_at
    if opened:
        levels += [opened + limits.effective_window * config.context.breaker_growth_percent // 100] * 3
    level = pick.choice(levels)
    guess = evolve(event, context_tokens=max(1, level - pick.choice(range(40))))
    facts = step(state, guess, config).state.control.context
    if facts is state.control.context or facts.tokens == state.control.context.tokens:
        return guess
    return evolve(guess, context_tokens=max(1, guess.context_tokens + level - facts.tokens + pick.choice((0, -1, 1))))


def _started(event: RunStarted, pick: random.Random) -> Event:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
    messages = event.messages
    if pick.random() < 0.3:
        messages = (message("prompt", "user", MessageKind.PROMPT, (*messages[0].blocks, read_block(image))), *messages[1:])
    return evolve(
        event,
        messages=messages,
        run_id=pick.choice(("r", "a.b/c", "é" * 70, "r" * 130)),
        source=pick.choice((event.source, event.source, "compact", "session_memory", "agent:x", "repl")),
        depth=pick.choice((event.depth, 0, 1)),
        permission_mode=pick.choice(("default", "plan")),
        token_budget=pick.choice((event.token_budget, 4_000, 2_500, 90_000, 90_000, None, 1)),
    )


def _summary(event: CompactionFinished, state: LoopState, config: LoopConfig, pick: random.Random) -> Event:
    """Aim at the least that counts as progress, and at no gain at all."""
    facts = state.control.context
    fair = -(-config.context.min_freed_percent * facts.tokens // 100)
    limit = thresholds(config, state.control.tool_use_context.model).auto_compact_at
    sizes = [facts.replacing - fair, facts.replacing - (facts.tokens - limit) - 1, facts.replacing, facts.replacing - 1]
    size = max(1, pick.choice(sizes) + pick.choice((0, 0, 1)))
    words = text_block("s")
    attachments: tuple[Message, ...] = ()
    if pick.random() < 0.3:
        attachments = (message("again", "user", MessageKind.ATTACHMENT, (text_block("file"),)),)
    block = evolve(words, tokens=size)
    return evolve(event, summary=(block,), attachments=attachments, stop_reason=pick.choice(("end_turn", event.stop_reason)))


PATTERNS = ("a", "ab", "abb", "aab", "abc", "aabb", "baaaa", "cbababab")
_LETTERS = {"read": "a", "safe": "b", "unknown": "c"}


def _patterned(event: Event, state: LoopState, environment: Environment, pattern: str) -> Event:
    """Repeat rounds by a pattern: the kind of call that is due takes the place of another."""
    if not isinstance(event, BlockCompleted) or event.tool is None:
        return event
    due = pattern[(state.turn_count - 1) % len(pattern)]
    for _, other in environment.offers(state):
        if isinstance(other, BlockCompleted) and other.tool is not None and _LETTERS.get(other.tool.name) == due:
            return other
    return event


STEERED = ("tools", "salvage", "hooks", "loops")
"""Flavours whose replies say something before they end."""


def _steered(event: Event, state: LoopState, environment: Environment, pick: random.Random) -> Event:
    """Let a reply say something before it ends, and leave out events that do nothing."""
    if not isinstance(event, StreamStarted | StreamCompleted) or state.data.iteration.blocks or pick.random() < 0.05:
        return event
    blocks = [other for _, other in environment.offers(state) if isinstance(other, BlockCompleted) and other.closed]
    calls = [other for other in blocks if other.tool is not None and other.tool.input_json is not None]
    return pick.choice(calls or blocks or [event])


def walk(case: Case, seed: int, steps: int, *, sharp: bool) -> Iterator[Taken]:
    """Walk at random through one case; a session may go on with a second run."""
    pick = random.Random(seed)
    environment = Environment(case.config, case.bounds)
    state, runs = start(case.config, case.bounds), 1
    calm = pick.choice((0.2, 0.7, 0.95)) if case.name.partition("-")[0] not in ("hooks", "loops", "tools") else 0.98
    late = 0.9 if case.name.startswith("beside") else 0.0
    for _ in range(steps):
        event = choose(environment, state, pick, calm, late)
        if case.name.startswith(STEERED):
            event = _steered(event, state, environment, pick)
        if case.name.startswith("loops"):
            event = _patterned(event, state, environment, PATTERNS[(seed // len(FLAVOURS)) % len(PATTERNS)])
        elif sharp:
            event = sharpened(event, state, case.config, pick)
        if isinstance(event, RunStarted) and runs > 1:
            event = evolve(event, run_id=f"{event.run_id}{runs}")
        made = step(state, event, case.config)
        yield Taken(state, event, made)
        state = made.state
        if state.phase in TERMINAL_SET:
            if pick.random() < 0.6:
                return
            if pick.random() < 0.7:
                state, runs = next_run(state, case.config), runs + 1


def cases() -> Iterator[Case]:
    """Give the fixed cases: the tiny one of the tests of the explorer, and its matrix."""
    from explorer.small import TINY

    yield TINY
    yield from CI


def gains(taken: Taken, config: LoopConfig) -> Iterator[tuple[Event, LoopConfig]]:
    """Give results of a compaction that free exactly what counts as progress, and that come exactly to the threshold."""
    event, facts = taken.event, taken.before.control.context
    if not isinstance(event, CompactionFinished) or not event.summary or not facts.tokens:
        return
    low = thresholds(config, taken.before.control.tool_use_context.model).auto_compact_at
    share = next((value for value in (5, 10, 20, 25, 50) if value * facts.tokens % 100 == 0), 0)
    aims = [(facts.tokens - low, 1), (facts.tokens - low + 1, 1)]
    if share:
        aims += [(share * facts.tokens // 100 + more, share) for more in (0, -1)]
    for freed, percent in aims:
        if 0 < freed < facts.replacing:
            block = evolve(event.summary[0], tokens=facts.replacing - freed)
            said = evolve(event, summary=(block,), attachments=(), stop_reason="end_turn")
            yield said, _limited(config, min_freed_percent=percent, auto_compact_at=min(low, facts.tokens))


def probes(taken: Taken, config: LoopConfig) -> Iterator[LoopConfig]:
    """Give configurations whose token limits lie at the count that a step found, and one above it."""
    facts, after = taken.made.state.control.context, taken.made.state
    if after.phase in (Phase.READY, taken.before.phase) and after.phase is not Phase.PREPARING:
        return
    if facts == taken.before.control.context or not facts.tokens:
        return
    room = config.context.effective_window
    if room is None:
        return
    for offset in (0, 1):
        auto, blocking, fixed = facts.tokens + offset, facts.blocking_tokens + offset, facts.fixed_tokens + offset
        for low, high in ((auto, room - 1), (auto - 40, blocking), (fixed - 40, fixed), (1, blocking)):
            if 0 < low < high < room:
                yield _limited(config, auto_compact_at=low, blocking_limit=high)
                yield _limited(config, auto_compact_at=low, blocking_limit=high, auto_compact=False)
    grown = facts.tokens - facts.tracking.opened_at
    high = config.context.blocking_limit or 0
    share = 100 * grown // (high + 3)
    if facts.tracking.opened_at and share > 0:
        for window in range(100 * grown // share - 1, 100 * grown // share + 2):
            if window > high:
                yield _limited(config, effective_window=window, breaker_growth_percent=share)


def _limited(config: LoopConfig, **fields: Any) -> LoopConfig:
    return evolve(config, context=evolve(config.context, **fields))


def is_late(event: Event) -> bool:
    """Tell whether an event answers what runs beside the loop."""
    return any(f"/{kind.value}-" in getattr(event, "id", "") for kind in BACKGROUND)
