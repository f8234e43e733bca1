"""Frozen records with one part replaced: what the hot moves need, positional and so twice as fast as ``evolve``.

Field order is the contract here; a test compares each function with ``evolve`` over every field.
"""

from __future__ import annotations

from .blocks import Block
from .context.store import ContextState, Sent, Tally, TokenBase
from .control import Budget, Call, CallState, ContextFacts, Control, Flight, Guards, Queue, Run, ToolCall, Tools, Wait
from .events import Outcome
from .failures import ModelFailure
from .frozen import maker
from .messages import Message
from .phases import Phase
from .state import CallData, Data, Inbox, Iteration
from .usage import ModelUsage

_control, _data, _iteration, _toolcall = maker(Control), maker(Data), maker(Iteration), maker(ToolCall)
_context = maker(ContextState)

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


def with_round(old: Control, run: Run, tools: Tools, guards: Guards, flight: tuple[Flight, ...]) -> Control:
    """Replace ``run``, ``tools``, ``guards`` and ``flight``."""
    return _control(
        old.phase, run, old.tool_use_context, old.call, tools, guards,
        old.budget, old.queue, old.context, old.wait, old.salvage, flight,
    )  # fmt: skip


def with_answer(old: Control, call: Call, tools: Tools, budget: Budget, flight: tuple[Flight, ...]) -> Control:
    """Replace ``call``, ``tools``, ``budget`` and ``flight``."""
    return _control(
        old.phase, old.run, old.tool_use_context, call, tools, old.guards,
        budget, old.queue, old.context, old.wait, old.salvage, flight,
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


def with_base(old: ContextState, base: TokenBase) -> ContextState:
    """Replace ``base``; nothing was freed since."""
    return _context(
        base, 0, old.replacements, old.spans, old.sent, old.tally, old.deferred, old.drop_thinking, old.thinking_cut,
        old.task_remaining, old.task_start, old.open_server_calls, old.cleared,
    )  # fmt: skip


def with_tally(old: ContextState, tally: Tally) -> ContextState:
    """Replace ``tally``."""
    return _context(
        old.base, old.freed, old.replacements, old.spans, old.sent, tally, old.deferred, old.drop_thinking, old.thinking_cut,
        old.task_remaining, old.task_start, old.open_server_calls, old.cleared,
    )  # fmt: skip


def with_sent(old: ContextState, sent: Sent) -> ContextState:
    """Replace ``sent``."""
    return _context(
        old.base, old.freed, old.replacements, old.spans, sent, old.tally, old.deferred, old.drop_thinking, old.thinking_cut,
        old.task_remaining, old.task_start, old.open_server_calls, old.cleared,
    )  # fmt: skip


def with_spent(old: Budget, output_tokens: int, cost: int) -> Budget:
    """Replace ``output_tokens`` and ``cost``."""
    return Budget(
        old.token_budget, old.continuations, old.spent_at_check, old.last_delta, output_tokens, cost, old.cost_before,
    )  # fmt: skip


def with_rounds(old: Guards, rounds: tuple[str, ...], loop_warned: bool) -> Guards:
    """Replace ``rounds`` and ``loop_warned``."""
    return Guards(
        old.max_output_tokens_recovery_count, old.has_attempted_reactive_compact, old.max_output_tokens_override,
        old.stop_hook_active, old.blocks_in_row, old.blocks_in_run, old.salvages, old.pauses, old.malformed,
        old.empty_retried, old.thinking_dropped, old.refusal_fallback, old.model_calls, rounds, loop_warned,
    )  # fmt: skip


def with_new_round(old: Guards) -> Guards:
    """Begin the counts anew that are made within a round."""
    return Guards(
        old.max_output_tokens_recovery_count, old.has_attempted_reactive_compact, old.max_output_tokens_override,
        old.stop_hook_active, 0, old.blocks_in_run, 0, 0, old.malformed,
        old.empty_retried, old.thinking_dropped, old.refusal_fallback, 0, old.rounds, old.loop_warned,
    )  # fmt: skip


def with_model_calls(old: Guards, model_calls: int) -> Guards:
    """Replace ``model_calls``."""
    return Guards(
        old.max_output_tokens_recovery_count, old.has_attempted_reactive_compact, old.max_output_tokens_override,
        old.stop_hook_active, old.blocks_in_row, old.blocks_in_run, old.salvages, old.pauses, old.malformed,
        old.empty_retried, old.thinking_dropped, old.refusal_fallback, model_calls, old.rounds, old.loop_warned,
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


def with_reply(old: Data, iteration: Iteration, context: ContextState, usage: tuple[ModelUsage, ...]) -> Data:
    """Replace ``iteration``, ``context`` and ``usage``."""
    return _data(old.messages, iteration, context, old.inbox, usage, old.session_usage, old.terminal, old.call_ids)


def with_view(old: Data, messages: tuple[Message, ...], iteration: Iteration, context: ContextState, call_ids: str) -> Data:
    """Replace ``messages``, ``iteration``, ``context`` and ``call_ids``."""
    return _data(messages, iteration, context, old.inbox, old.usage, old.session_usage, old.terminal, call_ids)


def with_end(old: Iteration, failure: ModelFailure | None, details: str) -> Iteration:
    """Replace ``failure`` and ``details``."""
    return _iteration(
        old.view, old.request, old.blocks, old.calls, failure, old.emitted, old.unclosed, old.reply, details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_block(old: Iteration, blocks: tuple[Block, ...], emitted: tuple[str, ...], unclosed: tuple[int, ...]) -> Iteration:
    """Replace ``blocks``, ``emitted`` and ``unclosed``."""
    return _iteration(
        old.view, old.request, blocks, old.calls, old.failure, emitted, unclosed, old.reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def with_calls(
    old: Iteration, blocks: tuple[Block, ...], calls: tuple[CallData, ...], emitted: tuple[str, ...], reply: Message | None
) -> Iteration:
    """Replace ``blocks``, ``calls``, ``emitted`` and ``reply``."""
    return _iteration(
        old.view, old.request, blocks, calls, old.failure, emitted, old.unclosed, reply, old.details, old.words,
        old.reports, old.front,
    )  # fmt: skip


def moved_call(old: ToolCall, state: CallState, effect: str, started: bool, outcome: Outcome | None) -> ToolCall:
    """Replace ``state``, ``effect``, ``started`` and ``outcome``."""
    return _toolcall(old.id, old.index, state, effect, started, old.whole, old.last, outcome, old.traits)
