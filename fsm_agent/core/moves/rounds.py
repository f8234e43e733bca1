"""From the last result to the next round, and the ends of ``running_tools`` (spec 01, sections 4, 5, 6)."""

from __future__ import annotations

from .. import texts
from ..config import LoopConfig
from ..control import AutoCompactTracking, Flight, Guards, Queue, Salvage, Wait
from ..effects import Effect, EffectKind, Emit, GatherAttachments, NotifyCommand, SummarizeToolUse
from ..events import AttachmentsGathered, Event
from ..evolving import evolve
from ..loops import repeats
from ..messages import Message, MessageKind
from ..outputs import Notice, UserOutput
from ..phases import Cause, ContinueReason, TerminalReason
from ..rebuild import with_new_round, with_wait
from ..state import Inbox, LoopState
from .common import Issuer, finish, history, shown_results, user_message, without
from .continuing import continued

_NOTHING_ASKED = Wait(answered=True)


def gather(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Ask the attachment providers, if there are any."""
    control = state.control
    if not config.attachments or control.call.unresolved:
        return LoopState(with_wait(control, _NOTHING_ASKED), state.data), ()
    issuer = Issuer(control.run)
    effect = GatherAttachments(id=issuer.new(EffectKind.ATTACHMENTS), turn=control.run.turn_count)
    flight = (*control.flight, Flight(id=effect.id, kind=EffectKind.ATTACHMENTS))
    next_control = evolve(control, run=issuer.run, wait=Wait(), flight=flight)
    return LoopState(control=next_control, data=state.data), (effect,)


def attachments_gathered(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Keep what the providers gave; the way on is an ``auto`` row."""
    assert isinstance(event, AttachmentsGathered)
    control = state.control
    inbox = evolve(state.data.inbox, attachments=event.messages)
    effects = tuple(Emit(output=Notice(text=text, level="warning")) for text in event.warnings)
    wait = Wait(answered=True, resumes=control.wait.resumes)
    next_control = evolve(control, wait=wait, flight=without(control.flight, event.id))
    return LoopState(control=next_control, data=evolve(state.data, inbox=inbox)), effects


def _injected(
    state: LoopState, issuer: Issuer, config: LoopConfig
) -> tuple[tuple[Message, ...], Inbox, Queue, Guards, tuple[Effect, ...]]:
    """Give what goes in after the results: queued commands, attachments, notices. Nothing while the API waits."""
    control, inbox, queue, guards = state.control, state.data.inbox, state.control.queue, state.control.guards
    looping = not guards.loop_warned and repeats(guards.rounds, config.loop_rounds)
    if control.call.unresolved or not (looping or queue.commands or _waits(inbox)):
        return (), inbox, queue, guards, ()
    taken: list[Message] = []
    effects: list[Effect] = []
    for command, item in inbox.commands:
        if command in queue.commands:
            taken.append(item)
            effects.append(NotifyCommand(command_id=command))
    taken.extend(inbox.attachments)
    taken.extend(inbox.prefetched)
    notices = inbox.notices
    if looping:
        notices = (*notices, texts.LOOP_WARNING)
        guards = evolve(guards, loop_warned=True)
        effects.append(Emit(output=Notice(text="The same calls repeat; the model was warned.", level="warning")))
    taken.extend(user_message(issuer.new("msg"), MessageKind.NOTICE, text) for text in notices)
    effects.extend(Emit(output=UserOutput(message=item)) for item in taken)
    elsewhere = tuple(entry for entry in inbox.commands if entry[0] not in queue.commands)
    left = Inbox(commands=elsewhere, instructions=inbox.instructions)
    return tuple(taken), left, evolve(queue, commands=()), guards, tuple(effects)


def _waits(inbox: Inbox) -> bool:
    return bool(inbox.attachments or inbox.prefetched or inbox.notices)


def _summarize(
    state: LoopState, issuer: Issuer, config: LoopConfig, messages: tuple[Message, ...]
) -> tuple[LoopState, str, tuple[Effect, ...]]:
    control = state.control
    if not config.tool_summaries:
        return state, control.queue.pending_tool_use_summary, ()
    effect = SummarizeToolUse(id=issuer.new(EffectKind.SUMMARY), messages=messages)
    flight = (*control.flight, Flight(id=effect.id, kind=EffectKind.SUMMARY))
    return LoopState(control=evolve(control, flight=flight), data=state.data), effect.id, (effect,)


def _next_turn(state: LoopState, config: LoopConfig, *, salvaged: bool) -> tuple[LoopState, tuple[Effect, ...]]:
    issuer = Issuer(state.control.run)
    messages = history(state, issuer)
    view_size = len(state.data.iteration.view)
    injected, inbox, queue, guards, effects = _injected(state, issuer, config)
    shown = shown_results(state, messages)
    state, pending, more = _summarize(state, issuer, config, messages[view_size:])
    control = state.control
    tracking = control.context.tracking
    salvage = control.salvage
    still: Salvage | None = salvage if salvaged and salvage is not None and salvage.delay_ms > 0 else None
    if not salvaged:
        guards = with_new_round(guards)
    next_state = continued(
        state,
        transition=ContinueReason.NEXT_TURN,
        run=issuer.run,
        messages=messages + injected,
        tool_use_context=control.tool_use_context,
        auto_compact_tracking=AutoCompactTracking(
            tracking.compacted, tracking.turns_since + 1, tracking.failures, tracking.opened_at
        ),
        max_output_tokens_recovery_count=guards.max_output_tokens_recovery_count if salvaged else 0,
        has_attempted_reactive_compact=guards.has_attempted_reactive_compact if salvaged else False,
        max_output_tokens_override=guards.max_output_tokens_override if salvaged else None,
        pending_tool_use_summary=pending,
        stop_hook_active=guards.stop_hook_active,
        turn_count=control.run.turn_count + 1,
        guards=guards,
        queue=queue,
        budget=control.budget,
        inbox=inbox,
        context=state.data.context,
        salvage=still,
        new_pass=True,
        appended=True,
    )
    return next_state, (*shown, *effects, *more)


def next_turn(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """All calls are answered: feed the results back and call the model again."""
    return _next_turn(state, config, salvaged=False)


def next_turn_salvaged(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The same after a salvaged reply; the guards keep their counts, so that the loop still ends."""
    return _next_turn(state, config, salvaged=True)


def _end(
    state: LoopState, reason: TerminalReason, cause: Cause, detail: str, *, emit_error: bool = False
) -> tuple[LoopState, tuple[Effect, ...]]:
    issuer = Issuer(state.control.run)
    messages = history(state, issuer)
    shown = shown_results(state, messages)
    ended, effects = finish(
        LoopState(control=evolve(state.control, run=issuer.run), data=state.data),
        reason,
        cause,
        messages,
        detail=detail,
        error=state.data.iteration.failure,
        emit_error=emit_error,
    )
    return ended, shown + effects


def end_hook_stopped(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """A tool hook ends the run; its words are the detail."""
    words = "; ".join(text for text in state.data.iteration.words if text.strip())
    return _end(state, TerminalReason.HOOK_STOPPED, Cause.HOOK, words or "A tool hook stopped the run.")


def end_loop_detected(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The same round repeats after the warning."""
    return _end(
        state,
        TerminalReason.HOOK_STOPPED,
        Cause.LOOP_DETECTED,
        "The model repeated the same calls with the same results after it was warned.",
    )


def end_remembered(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The salvaged reply's error ends the run; the results are kept."""
    salvage = state.control.salvage
    assert salvage is not None
    return _end(
        state,
        TerminalReason.MODEL_ERROR,
        salvage.cause,
        "The model's reply broke off and could not be repeated; what its calls did is kept.",
        emit_error=True,
    )


def end_max_turns(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """The round limit is reached; the calls of the last round are answered, so the session can go on."""
    return _end(
        state,
        TerminalReason.MAX_TURNS,
        Cause.MAX_TURNS,
        f"The limit of {config.max_turns} turns is reached. Raise max_turns and go on, if the task is not done.",
    )
