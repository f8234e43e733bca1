"""How an interrupted run goes on: what of its effects is lost, and which calls have work that outlived their engine."""

from __future__ import annotations

from ..core.effects import EffectKind, RunTool
from ..core.state import LoopState
from ..log.resume import Standing
from ..runtime.ports import LongLived, ToolRunner
from ..runtime.run import Resumption


def resumption(standing: Standing, tools: ToolRunner) -> Resumption:
    """Say how a run goes on from where its log stands.

    Args:
        standing: where it stands.
        tools: what runs its tools; a call that it can go on with is not told as lost.
    """
    going_on: tuple[RunTool, ...] = ()
    if isinstance(tools, LongLived):
        going_on = tuple(call for call in begun_calls(standing.state) if tools.goes_on(call, standing.path))
    kept = {call.id for call in going_on}
    return Resumption(
        run_id=standing.state.control.run.id,
        lost=tuple(event for event in standing.lost if event.id not in kept),
        going_on=going_on,
        rows=standing.rows,
        commands=standing.commands,
        waiting=standing.waiting,
    )


def begun_calls(state: LoopState) -> tuple[RunTool, ...]:
    """Give the calls in flight whose body had begun, as they were asked for."""
    flying = {flight.id for flight in state.control.flight if flight.kind is EffectKind.TOOL}
    return tuple(
        RunTool(call.effect, call.id, data.use.name, data.use.input_json or "{}", call.traits)
        for call, data in zip(state.control.tools.calls, state.data.iteration.calls, strict=True)
        if call.started and call.effect in flying
    )
