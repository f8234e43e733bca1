"""Frozen records with one part replaced: what the hot moves need, positional and so twice as fast as ``evolve``.

Field order is the contract here; a test compares each function with ``evolve`` over every field.
"""

from __future__ import annotations

from .blocks import Block
from .context.store import ContextState
from .control import Budget, Call, CallState, ContextFacts, Control, Flight, Guards, Queue, Run, ToolCall, Tools, Wait
from .events import Outcome
from .failures import ModelFailure
from .frozen import maker
from .messages import Message
from .phases import Phase
from .state import CallData, Data, Inbox, Iteration
from .usage import ModelUsage

_control, _data, _iteration, _toolcall = maker(Control), maker(Data), maker(Iteration), maker(ToolCall)

NO_WAIT = Wait()
NO_TOOLS = Tools()
"""Records are frozen, so one that says nothing serves all."""


def with_call(old: Control, call: Call) -> Control:
    """Replace ``call``."""
    return _control(
        old.phase, old.run, old.tool_use_context, call, old.tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_tools(old: Control, tools: Tools) -> Control:
    """Replace ``tools``."""
    return _control(
        old.phase, old.run, old.tool_use_context, old.call, tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_round(old: Control, run: Run, tools: Tools, flight: tuple[Flight, ...]) -> Control:
    """Replace ``run``, ``tools`` and ``flight``."""
    return _control(
        old.phase, run, old.tool_use_context, old.call, tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, flight,
    )  # fmt: skip


def with_answer(old: Control, call: Call, tools: Tools, flight: tuple[Flight, ...]) -> Control:
    """Replace ``call``, ``tools`` and ``flight``."""
    return _control(
        old.phase, old.run, old.tool_use_context, call, tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, flight,
    )  # fmt: skip


def with_kept(old: Control, tools: Tools, guards: Guards) -> Control:
    """Replace ``tools`` and ``guards``."""
    return _control(
        old.phase, old.run, old.tool_use_context, old.call, tools, guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_guards(old: Control, guards: Guards) -> Control:
    """Replace ``guards``."""
    return _control(
        old.phase, old.run, old.tool_use_context, old.call, old.tools, guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_budget(old: Control, budget: Budget) -> Control:
    """Replace ``budget``."""
    return _control(
        old.phase, old.run, old.tool_use_context, old.call, old.tools, old.guards,
        budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_wait(old: Control, wait: Wait) -> Control:
    """Replace ``wait``."""
    return _control(
        old.phase, old.run, old.tool_use_context, old.call, old.tools, old.guards,
        old.budget, old.queue, old.context, wait, old.salvage, old.flight,
    )  # fmt: skip


def with_facts(old: Control, run: Run, context: ContextFacts, flight: tuple[Flight, ...]) -> Control:
    """Replace ``run``, ``context`` and ``flight``."""
    return _control(
        old.phase, run, old.tool_use_context, old.call, old.tools, old.guards,
        old.budget, old.queue, context, old.wait, old.salvage, flight,
    )  # fmt: skip


def with_attempt(old: Control, run: Run, call: Call, guards: Guards, flight: tuple[Flight, ...]) -> Control:
    """Replace ``run``, ``call``, ``guards`` and ``flight``; no tools, no wait and no salvage are left."""
    return _control(
        old.phase, run, old.tool_use_context, call, NO_TOOLS, guards,
        old.budget, old.queue, old.context, NO_WAIT, None, flight,
    )  # fmt: skip


def with_queue(old: Control, queue: Queue) -> Control:
    """Replace ``queue``."""
    return _control(
        old.phase, old.run, old.tool_use_context, old.call, old.tools, old.guards,
        old.budget, queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_phase(old: Control, phase: Phase) -> Control:
    """Replace ``phase``: for the reducer's one place where a phase changes, and for nobody else."""
    return _control(
        phase, old.run, old.tool_use_context, old.call, old.tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_iteration(old: Data, iteration: Iteration) -> Data:
    """Replace ``iteration``."""
    return _data(old.messages, iteration, old.context, old.inbox, old.usage, old.session_usage, old.terminal, old.call_ids)


def with_inbox(old: Data, inbox: Inbox) -> Data:
    """Replace ``inbox``."""
    return _data(old.messages, old.iteration, old.context, inbox, old.usage, old.session_usage, old.terminal, old.call_ids)


def with_total(old: Data, usage: tuple[ModelUsage, ...]) -> Data:
    """Replace ``usage``."""
    return _data(
        old.messages, old.iteration, old.context, old.inbox, usage, old.session_usage, old.terminal, old.call_ids,
    )  # fmt: skip


def with_reply(old: Data, iteration: Iteration, context: ContextState) -> Data:
    """Replace ``iteration`` and ``context``."""
    return _data(old.messages, iteration, context, old.inbox, old.usage, old.session_usage, old.terminal, old.call_ids)


def with_view(old: Data, messages: tuple[Message, ...], iteration: Iteration, context: ContextState, call_ids: str) -> Data:
    """Replace ``messages``, ``iteration``, ``context`` and ``call_ids``."""
    return _data(messages, iteration, context, old.inbox, old.usage, old.session_usage, old.terminal, call_ids)


def with_end(old: Iteration, failure: ModelFailure | None, details: str) -> Iteration:
    """Replace ``failure`` and ``details``."""
    return _iteration(
        old.view, old.request, old.blocks, old.calls, failure, old.emitted, old.unclosed, old.reply, details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_message(old: Iteration, calls: tuple[CallData, ...], reply: Message | None) -> Iteration:
    """Replace ``calls`` and ``reply``."""
    return _iteration(
        old.view, old.request, old.blocks, calls, old.failure, old.emitted, old.unclosed, reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_call_block(
    old: Iteration, blocks: tuple[Block, ...], calls: tuple[CallData, ...], emitted: tuple[str, ...]
) -> Iteration:
    """Replace ``blocks``, ``calls`` and ``emitted``."""
    return _iteration(
        old.view, old.request, blocks, calls, old.failure, emitted, old.unclosed, old.reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_block(old: Iteration, blocks: tuple[Block, ...], emitted: tuple[str, ...], unclosed: tuple[int, ...]) -> Iteration:
    """Replace ``blocks``, ``emitted`` and ``unclosed``."""
    return _iteration(
        old.view, old.request, blocks, old.calls, old.failure, emitted, unclosed, old.reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_calls(old: Iteration, calls: tuple[CallData, ...], emitted: tuple[str, ...]) -> Iteration:
    """Replace ``calls`` and ``emitted``."""
    return _iteration(
        old.view, old.request, old.blocks, calls, old.failure, emitted, old.unclosed, old.reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def moved_call(old: ToolCall, state: CallState, effect: str, started: bool, outcome: Outcome | None) -> ToolCall:
    """Replace ``state``, ``effect``, ``started`` and ``outcome``."""
    return _toolcall(old.id, old.index, state, effect, started, old.whole, old.last, outcome, old.traits)
