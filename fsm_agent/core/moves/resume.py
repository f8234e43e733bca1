"""Effects that a crash left unanswered are issued again under a new id (spec 01, section 6)."""

from __future__ import annotations

from ..config import LoopConfig
from ..control import QUEUED, Flight, Wait
from ..effects import Effect, EffectKind, GatherAttachments, RunStopHooks, StartTimer
from ..events import EffectLost, Event
from ..evolving import evolve
from ..phases import CompactKind
from ..state import LoopState
from .common import Issuer, without
from .prepare import backoff_delay, compaction
from .tools import Round


def _again(state: LoopState, event: Event, kind: EffectKind, issuer: Issuer) -> tuple[LoopState, str]:
    assert isinstance(event, EffectLost)
    control = state.control
    effect_id = issuer.new(kind)
    flight = (*without(control.flight, event.id), Flight(id=effect_id, kind=kind))
    wait = Wait(
        answered=False,
        blocking=control.wait.blocking,
        prevented=control.wait.prevented,
        resumes=control.wait.resumes + 1,
    )
    return LoopState(control=evolve(control, run=issuer.run, wait=wait, flight=flight), data=state.data), effect_id


def reissue_compaction(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Summarise again: a compaction counts only when its answer is in the log."""
    issuer = Issuer(state.control.run)
    kind = state.control.context.compacting or CompactKind.AUTO
    again, effect_id = _again(state, event, EffectKind.COMPACT, issuer)
    effect, _ = compaction(again, config, kind, effect_id)
    return again, (effect,)


def reissue_timer(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Wait again, by the attempt number: how much of the wait was left is not known."""
    issuer = Issuer(state.control.run)
    again, effect_id = _again(state, event, EffectKind.TIMER, issuer)
    call = again.control.call
    retry_after = call.fault.retry_after_ms if call.fault is not None else None
    salvage = again.control.salvage
    delay = salvage.delay_ms if salvage is not None else backoff_delay(call.attempt, config, retry_after)
    return again, (StartTimer(id=effect_id, delay_ms=delay),)


def reissue_attachments(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Ask the providers again."""
    issuer = Issuer(state.control.run)
    again, effect_id = _again(state, event, EffectKind.ATTACHMENTS, issuer)
    return again, (GatherAttachments(id=effect_id, turn=again.control.run.turn_count),)


def reissue_stop_hooks(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Run the stop hooks again."""
    issuer = Issuer(state.control.run)
    again, effect_id = _again(state, event, EffectKind.HOOKS, issuer)
    effect = RunStopHooks(
        id=effect_id,
        stop_hook_active=again.control.guards.stop_hook_active,
        reply=again.data.iteration.reply,
        turn=again.control.run.turn_count,
    )
    return again, (effect,)


def reissue_tool(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Ask again for a call that never began, with the same stored input."""
    assert isinstance(event, EffectLost)
    wait = evolve(state.control.wait, resumes=state.control.wait.resumes + 1)
    rounds = Round(LoopState(control=evolve(state.control, wait=wait), data=state.data))
    position = rounds.position(event.id)
    rounds.flight = without(rounds.flight, event.id)
    rounds.calls[position] = evolve(rounds.calls[position], state=QUEUED, effect="")
    return rounds.done(config)
