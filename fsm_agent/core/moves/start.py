"""A run begins."""

from __future__ import annotations

from ..config import LoopConfig
from ..control import Budget, Flight, Guards, Run, ToolUseContext
from ..effects import Effect, EffectKind, PrefetchKind, StartPrefetch
from ..events import Event, RunStarted
from ..evolving import evolve
from ..state import LoopState, call_ids
from .common import Issuer


def start_run(state: LoopState, event: Event, config: LoopConfig) -> tuple[LoopState, tuple[Effect, ...]]:
    """Take the prompt into the working list and start the memory prefetch (spec 01, sections 3 and 6)."""
    assert isinstance(event, RunStarted)
    old = state.control
    issuer = Issuer(Run(id=event.run_id))
    messages = state.data.messages + event.messages
    effects: tuple[Effect, ...] = ()
    flight: tuple[Flight, ...] = ()
    if config.prefetch_memory:
        effect_id = issuer.new(EffectKind.MEMORY)
        flight = (Flight(id=effect_id, kind=EffectKind.MEMORY),)
        effects = (StartPrefetch(id=effect_id, kind=PrefetchKind.MEMORY, messages=event.messages),)
    tracking = old.context.tracking
    if tracking.opened_at:
        tracking = evolve(tracking, failures=0, opened_at=0)  # a new prompt closes the breaker; a count below it stays
    control = evolve(
        old,
        run=issuer.run,
        tool_use_context=ToolUseContext(
            model=old.queue.switch or config.model,
            permission_mode=event.permission_mode,
            depth=event.depth,
            source=event.source,
            fallbacks=0,
        ),
        guards=Guards(),
        queue=evolve(old.queue, switch=""),
        budget=Budget(token_budget=event.token_budget, cost_before=event.spent),
        context=evolve(old.context, tracking=tracking, tried=(), compact_off=False, compacted_in_pass=False),
        flight=flight,
    )
    data = evolve(state.data, messages=messages, call_ids=call_ids(messages))
    return LoopState(control=control, data=data), effects
