"""Pieces that several moves share: ids, usage, the history as it stands, and how a run ends."""

from __future__ import annotations

from ..control import Budget, Control, Flight, Run, Tools, Wait
from ..effects import Cancel, Effect, EffectKind, Emit
from ..evolving import evolve
from ..failures import ModelFailure
from ..messages import Message, MessageKind, message
from ..outputs import CallEnd, Ending, ErrorOutput, Terminal, TerminalOutput, Tombstone, UserOutput
from ..phases import Cause, TerminalReason
from ..rebuild import with_budget, with_spent, with_total
from ..state import Data, Iteration, LoopState
from ..usage import ModelUsage, add_usage, total_cost, total_output


class Issuer:
    """Issues ids ``<run>/<kind>-<n>`` from the run's one counter. Lives within one move."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._prefix = run.id
        self._issued = run.issued

    def new(self, kind: str) -> str:
        """Give the next id."""
        self._issued += 1
        return f"{self._prefix}/{kind}-{self._issued}"

    @property
    def run(self) -> Run:
        """The run with its counter moved on."""
        old = self._run
        return old if self._issued == old.issued else Run(old.id, self._issued, old.turn_count, old.transition)


def without(flight: tuple[Flight, ...], effect_id: str) -> tuple[Flight, ...]:
    """Take one effect out of flight."""
    return tuple([item for item in flight if item.id != effect_id])


def find(flight: tuple[Flight, ...], effect_id: str) -> Flight | None:
    """Find an effect in flight."""
    for item in flight:
        if item.id == effect_id:
            return item
    return None


def charge(budget: Budget, usage: tuple[ModelUsage, ...], *, attempt: bool) -> Budget:
    """Add what an answer used to the budget of the run; only attempts of its own model calls spend its tokens."""
    if not usage:
        return budget
    spent = budget.output_tokens + total_output(usage) if attempt else budget.output_tokens
    return with_spent(budget, spent, budget.cost + total_cost(usage))


def charged(state: LoopState, usage: tuple[ModelUsage, ...], *, attempt: bool = False) -> LoopState:
    """Add what an answer used to the run's budget and totals; ``attempt``: it answers a model call."""
    if not usage:
        return state
    control, data = state.control, state.data
    return LoopState(
        with_budget(control, charge(control.budget, usage, attempt=attempt)),
        with_total(data, add_usage(data.usage, usage)),
    )


def user_message(message_id: str, kind: MessageKind, text: str) -> Message:
    """Make a message of one text block from the engine to the model."""
    from ..blocks import text_block

    return message(message_id, "user", kind, (text_block(text),))


def results_message(state: LoopState, message_id: str) -> Message | None:
    """Make the one user message that answers all calls of the kept reply, in their order; None without calls."""
    blocks = tuple([call.result for call in state.data.iteration.calls if call.result is not None])
    if not blocks:
        return None
    return message(message_id, "user", MessageKind.TOOL_RESULTS, blocks)


def history(state: LoopState, issuer: Issuer) -> tuple[Message, ...]:
    """Give the view and what the pass added to it: the kept reply and the results of its calls."""
    iteration = state.data.iteration
    if iteration.reply is None:
        return iteration.view
    results = results_message(state, issuer.new("msg"))
    added = (iteration.reply,) if results is None else (iteration.reply, results)
    return iteration.view + added


def shown_results(state: LoopState, messages: tuple[Message, ...]) -> tuple[Effect, ...]:
    """Show the answers that ``messages``, made by :func:`history`, has behind the view."""
    added = messages[len(state.data.iteration.view) :]
    return tuple([Emit(UserOutput(item)) for item in added if item.kind is MessageKind.TOOL_RESULTS])


def cancel_all(control: Control) -> tuple[Effect, ...]:
    """Cancel every effect in flight."""
    return tuple(Cancel(id=item.id) for item in control.flight)


def cancel_kind(control: Control, *kinds: EffectKind) -> tuple[tuple[Flight, ...], tuple[Effect, ...]]:
    """Cancel the effects of some kinds; gives what stays in flight and the cancellations."""
    stays = tuple(item for item in control.flight if item.kind not in kinds)
    return stays, tuple(Cancel(id=item.id) for item in control.flight if item.kind in kinds)


def discard(state: LoopState) -> tuple[LoopState, tuple[Effect, ...]]:
    """Drop the reply in flight: its calls are cancelled, and all that was emitted of it gets its tombstone.

    The withheld failure stays in the iteration; the request stays too, for another attempt.
    """
    control, data = state.control, state.data
    flight, cancels = cancel_kind(control, EffectKind.CALL, EffectKind.TOOL)
    effects: list[Effect] = list(cancels)
    if data.iteration.emitted:
        effects.append(Emit(output=Tombstone(ids=data.iteration.emitted)))
    if control.call.id:
        effects.append(Emit(output=CallEnd(call=control.call.id, ending=Ending.DISCARDED)))
    # Without its id the call is decided: whatever ends the run later says nothing of it again.
    call = evolve(control.call, id="", streaming=False, usable=False, unresolved=False)
    iteration = evolve(data.iteration, blocks=(), calls=(), emitted=(), unclosed=(), reply=None)
    return (
        LoopState(
            control=evolve(control, call=call, tools=Tools(), flight=flight),
            data=evolve(data, iteration=iteration),
        ),
        tuple(effects),
    )


def finish(
    state: LoopState,
    reason: TerminalReason,
    cause: Cause,
    messages: tuple[Message, ...],
    *,
    detail: str = "",
    error: ModelFailure | None = None,
    emit_error: bool = False,
) -> tuple[LoopState, tuple[Effect, ...]]:
    """End the run: cancel what is in flight, keep what has happened, emit the terminal, once.

    Args:
        state: where the run stands, phase aside.
        reason: the terminal reason.
        cause: the finer word.
        messages: the working list that the run leaves behind.
        detail: words for people.
        error: the failure behind it, also one that was withheld.
        emit_error: the error was mended by no recovery, so the consumer sees it.
    """
    control, data = state.control, state.data
    terminal = Terminal(
        reason=reason,
        cause=cause,
        error=error,
        detail=detail,
        turn_count=control.run.turn_count,
        usage=data.usage,
        undelivered=tuple(command for command, _ in data.inbox.commands),
    )
    effects = list(cancel_all(control))
    if emit_error and error is not None:
        effects.append(Emit(output=ErrorOutput(failure=error)))
    effects.append(Emit(output=TerminalOutput(terminal=terminal)))
    queue = evolve(control.queue, pending_tool_use_summary="")
    return (
        LoopState(
            control=evolve(control, flight=(), queue=queue, tools=Tools(), wait=Wait(), salvage=None),
            data=Data(
                messages=messages,
                iteration=Iteration(),
                context=data.context,
                inbox=data.inbox,
                usage=data.usage,
                session_usage=data.session_usage,
                terminal=terminal,
                call_ids=data.call_ids,
            ),
        ),
        tuple(effects),
    )
