"""Frozen records with one part replaced: what the hot moves need, positional and so twice as fast as ``evolve``.

Field order is the contract here; a test compares each function with ``evolve`` over every field.
"""

from __future__ import annotations

from .blocks import Block
from .control import Call, CallState, Control, Flight, Queue, Run, ToolCall, Tools
from .events import Outcome
from .phases import Phase
from .state import CallData, Data, Inbox, Iteration


def with_call(old: Control, call: Call) -> Control:
    """Replace ``call``."""
    return Control(
        old.phase, old.run, old.tool_use_context, call, old.tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_tools(old: Control, tools: Tools) -> Control:
    """Replace ``tools``."""
    return Control(
        old.phase, old.run, old.tool_use_context, old.call, tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_round(old: Control, run: Run, tools: Tools, flight: tuple[Flight, ...]) -> Control:
    """Replace ``run``, ``tools`` and ``flight``."""
    return Control(
        old.phase, run, old.tool_use_context, old.call, tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, flight,
    )  # fmt: skip


def with_queue(old: Control, queue: Queue) -> Control:
    """Replace ``queue``."""
    return Control(
        old.phase, old.run, old.tool_use_context, old.call, old.tools, old.guards,
        old.budget, queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_phase(old: Control, phase: Phase) -> Control:
    """Replace ``phase``: for the reducer's one place where a phase changes, and for nobody else."""
    return Control(
        phase, old.run, old.tool_use_context, old.call, old.tools, old.guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, old.flight,
    )  # fmt: skip


def with_iteration(old: Data, iteration: Iteration) -> Data:
    """Replace ``iteration``."""
    return Data(old.messages, iteration, old.context, old.inbox, old.usage, old.session_usage, old.terminal, old.call_ids)


def with_inbox(old: Data, inbox: Inbox) -> Data:
    """Replace ``inbox``."""
    return Data(old.messages, old.iteration, old.context, inbox, old.usage, old.session_usage, old.terminal, old.call_ids)


def with_block(old: Iteration, blocks: tuple[Block, ...], emitted: tuple[str, ...], unclosed: tuple[int, ...]) -> Iteration:
    """Replace ``blocks``, ``emitted`` and ``unclosed``."""
    return Iteration(
        old.view, old.request, blocks, old.calls, old.failure, emitted, unclosed, old.reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_calls(old: Iteration, calls: tuple[CallData, ...], emitted: tuple[str, ...]) -> Iteration:
    """Replace ``calls`` and ``emitted``."""
    return Iteration(
        old.view, old.request, old.blocks, calls, old.failure, emitted, old.unclosed, old.reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def moved_call(old: ToolCall, state: CallState, effect: str, started: bool, outcome: Outcome | None) -> ToolCall:
    """Replace ``state``, ``effect``, ``started`` and ``outcome``."""
    return ToolCall(old.id, old.index, state, effect, started, old.whole, old.last, outcome, old.traits)
