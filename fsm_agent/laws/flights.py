"""I5: effects are answered or cancelled once, and nothing follows the end."""

from __future__ import annotations

from ..core.config import LoopConfig
from ..core.effects import EffectKind
from ..core.events import EVENT_KINDS, USER_KINDS
from ..core.phases import TERMINAL_SET, CompactKind, Phase
from ..core.state import LoopState
from .law import ANSWERED, Edge, edge_law, state_law

AWAITED = {
    Phase.COMPACTING: EffectKind.COMPACT,
    Phase.CALLING_MODEL: EffectKind.CALL,
    Phase.BACKING_OFF: EffectKind.TIMER,
    Phase.REACTIVE_COMPACTING: EffectKind.COMPACT,
    Phase.RUNNING_TOOLS: EffectKind.TOOL,
    Phase.GATHERING_ATTACHMENTS: EffectKind.ATTACHMENTS,
    Phase.RUNNING_STOP_HOOKS: EffectKind.HOOKS,
}
"""What each waiting phase waits for (spec 01, section 2)."""
_BESIDE = (EffectKind.TOOL, EffectKind.COLLAPSE, EffectKind.MEMORY, EffectKind.SKILLS, EffectKind.SUMMARY)
"""What may be in flight in phases that do not wait for it."""


@state_law("I5")
def each_phase_awaits_its_own(state: LoopState, config: LoopConfig) -> str:
    """A waiting phase has what it waits for in flight, and nothing that another phase waits for."""
    phase = state.control.phase
    awaited = AWAITED.get(phase)
    if awaited is None:
        return ""
    kinds = [item.kind for item in state.control.flight]
    if awaited not in kinds:
        return f"{phase} waits for a {awaited} effect, in flight are {kinds}"
    foreign = [kind for kind in kinds if kind is not awaited and kind not in _BESIDE]
    if foreign:
        return f"in flight in {phase}: {foreign}"
    if awaited is EffectKind.COMPACT:
        reactive = state.control.context.compacting in (None, CompactKind.REACTIVE)
        if reactive != (phase is Phase.REACTIVE_COMPACTING):
            return f"in {phase} the compaction is {state.control.context.compacting}"
    return ""


def number_of(effect_id: str) -> int:
    """Give the place of an id in its run's order of birth."""
    word = effect_id.rpartition("-")[2]
    return int(word) if word.isdigit() else 0


@edge_law("I5")
def the_end_is_said_once_and_last(edge: Edge) -> str:
    """The step that ends a run shows its terminal once, as the last output; no other step shows one."""
    if not edge.ended:
        return "a terminal was shown, and the run goes on" if edge.terminals else ""
    if len(edge.terminals) != 1:
        return f"the terminal was shown {len(edge.terminals)} times"
    return "" if edge.terminals[0].terminal == edge.made.state.data.terminal else "another terminal was shown"


@edge_law("I5", quiet=True)
def nothing_follows_the_end(edge: Edge) -> str:
    """In a terminal phase nothing changes any more."""
    return "" if edge.old.phase not in TERMINAL_SET or edge.quiet else "something happened after the end"


@edge_law("I5")
def flights_balance(edge: Edge) -> str:
    """What is in flight after a step: what was, and what was issued, without what was answered or cancelled."""
    if edge.new.flight is edge.old.flight and not edge.issued and not edge.cancels:
        return ""
    before = [item.id for item in edge.old.flight]
    issued = [effect.id for effect in edge.issued]
    cancelled = edge.cancels
    if len(set(cancelled)) != len(cancelled):
        return "an effect was cancelled twice"
    known = set(before) | set(issued)
    if not known.issuperset(cancelled):
        return f"what was not in flight was cancelled: {sorted(set(cancelled) - known)}"
    gone = set(cancelled)
    after = [item.id for item in edge.new.flight]
    alive = set(after)
    if len(alive) != len(after):
        return "an effect is in flight twice"
    answered = "" if EVENT_KINDS[type(edge.event)] in USER_KINDS else edge.event.id  # type: ignore[union-attr]
    expected = known - gone
    if not alive <= expected:
        return f"in flight, though nobody issued it: {sorted(alive - expected)}"
    missing = expected - alive
    missing.discard(answered)
    if missing:
        return f"lost from flight without an answer: {sorted(missing)}"
    if answered in gone:
        return "the answered effect was cancelled too"
    return ""


@edge_law("I5")
def ids_are_new_and_in_order(edge: Edge) -> str:
    """Issued ids carry the run's name and numbers that were never used before, and the counter covers them."""
    run = edge.new.run
    last = edge.old.run.issued if run.id == edge.old.run.id else 0
    for effect in edge.issued:
        number = number_of(effect.id)
        if not effect.id.startswith(f"{run.id}/") or number <= last:
            return f"id {effect.id} was issued after number {last}"
        last = number
    return "" if last <= run.issued else f"number {last} is above the counter {run.issued}"


@edge_law("I5")
def known_effects_only(edge: Edge) -> str:
    """Every effect is of a declared kind, and one that is answered is in flight under its own kind."""
    kinds = {item.id: item.kind for item in edge.new.flight}
    for effect in edge.issued:
        if not isinstance(effect, ANSWERED):
            return f"{type(effect).__name__} is no effect"
        kind = kinds.get(effect.id)
        if kind is not None and f"/{kind.value}-" not in effect.id:
            return f"{effect.id} is in flight as {kind}"
    return ""
