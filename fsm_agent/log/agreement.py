"""Whether a step is the recorded one: said as quickly as it can be; ``difference`` names what is not."""

from __future__ import annotations

from functools import lru_cache

from ..core.state import Step
from .digest import StateDigests, effects_digest
from .format import Record

_STATE = len(',"state":""') + 64
_SNAPSHOT = len(',"snapshot":""') + 64


def agrees(record: Record, made: Step, states: StateDigests) -> bool:
    """Say whether a step is the recorded one."""
    return (
        made.taken == record.taken
        and effects_digest(made.effects) == record.effects
        and made.rejected == record.rejected
        and (not record.state or states.of(made.state) == record.state)
    )


def reads_as(made: Step, written: bytes, states: StateDigests) -> bool:
    """Say whether a step would be written as it stands in a log: quicker than to decode what is written.

    Args:
        made: the step.
        written: the record's text behind its event.
        states: digests of the states before, for a record that holds that of its own.

    Returns:
        True if it agrees; False if it does not, or if that cannot be told so quickly.
    """
    if made.rejected is not None:
        return False
    if written.endswith(b'"'):
        if written[-_SNAPSHOT:-65] == b',"snapshot":"':
            written = written[:-_SNAPSHOT]
        if written[-_STATE:-65] != b',"state":"' or states.of(made.state).encode() != written[-65:-1]:
            return False
        written = written[:-_STATE]
    said = _rows(made.taken)
    if not made.effects:
        return written == said
    said += b',"effects":"%b","sketch":["' % effects_digest(made.effects).encode()
    # The sketch is there to name a difference; whatever stands behind it is looked at by who decodes the record.
    return written.startswith(said) and written.endswith(b'"]') and written.find(b'],"', len(said)) < 0


@lru_cache(maxsize=256)
def _rows(taken: tuple[str, ...]) -> bytes:
    """Give the text of the rows taken: a run takes few different ways."""
    return (',"taken":["' + '","'.join(taken) + '"]').encode() if taken else b""
