"""Predicates about a withheld error while a compaction tries to mend it."""

from __future__ import annotations

from ..config import LoopConfig
from ..control import Control
from ..events import Event
from ..failures import ErrorKind


def media_withheld(control: Control, event: Event, config: LoopConfig) -> bool:
    """The withheld error is about media that was too large."""
    fault = control.call.fault
    return fault is not None and fault.kind is ErrorKind.MEDIA_TOO_LARGE
