"""The wire checker over the steps of a run: every request that the engine made (field reports, wire checker 1 to 9)."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.config import LoopConfig
from ..core.effects import CallModel
from ..core.events import Event, StreamFailed
from ..core.failures import ABOUT_MESSAGES
from ..core.request.encode import body_of
from ..core.rows import STALE
from ..core.state import Step
from ..server.wire_checker import check_request, decode_body


def check_requests(steps: Iterable[tuple[Event, Step]], config: LoopConfig) -> tuple[str, ...]:
    """Check every request of a run by every rule of the API.

    Args:
        steps: events with the steps that took them.
        config: the run's configuration.

    Returns:
        What is wrong, in order; empty if the API would take each request.
    """
    found: list[str] = []
    number = 0
    last = refused = b""
    for event, made in steps:
        if isinstance(event, StreamFailed) and made.taken != (STALE,) and event.failure.kind in ABOUT_MESSAGES:
            refused = last
        for effect in made.effects:
            if not isinstance(effect, CallModel):
                continue
            number += 1
            last = body_of(effect.request)
            info = config.info(effect.request.model)
            breaches = check_request(decode_body(last), info, effect.request.betas, size=len(last))
            found += [f"request {number}: {breach.rule}: {breach.text}" for breach in breaches]
            if last == refused:
                found.append(f"request {number}: it is equal to one that was refused")
            refused = b""
    return tuple(found)
