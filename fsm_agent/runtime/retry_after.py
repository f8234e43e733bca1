"""How long the server asks to wait, in milliseconds (api-facts A15)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

Jitter = Callable[[int], int]
"""From the milliseconds asked for to those that are waited."""

MAX_WAIT_MS = 30 * 24 * 3_600_000
"""Longer waits say the same as this one: not today."""
CEILING_MS = 60_000
"""The loop's default ceiling: jitter alone never lifts a wait above it."""


def default_jitter(wait_ms: int) -> int:
    """Add up to a tenth, at most a second, so that many clients do not come back at once; never wait less than asked."""
    later = wait_ms + random.randrange(min(1_000, wait_ms // 10) + 1)
    return min(later, CEILING_MS) if wait_ms <= CEILING_MS else later


def no_jitter(wait_ms: int) -> int:
    """Wait just as long as the server asks."""
    return wait_ms


def retry_after_ms(headers: Mapping[str, str], *, now: Callable[[], datetime], jitter: Jitter) -> int | None:
    """Read ``retry-after-ms``, else ``retry-after`` (seconds or an HTTP date).

    Args:
        headers: with lower-case keys.
        now: the time, for a date.
        jitter: applied to the result.

    Returns:
        Milliseconds, or None if the server does not say, or says nothing that makes sense.
    """
    wait = _number(headers.get("retry-after-ms"), 1)
    if wait is None:
        text = headers.get("retry-after")
        wait = _number(text, 1_000)
        if wait is None and text:
            wait = _until(text, now())
    return None if wait is None else jitter(min(wait, MAX_WAIT_MS))


def _number(text: str | None, factor: int) -> int | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    if not math.isfinite(value) or value < 0:
        return None
    return math.ceil(min(value, MAX_WAIT_MS) * factor)


def _until(text: str, now: datetime) -> int | None:
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return max(0, math.ceil((when - now).total_seconds() * 1_000))
