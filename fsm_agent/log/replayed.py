"""What a replay found."""

from __future__ import annotations

from attrs import frozen

from ..core.state import LoopState
from .difference import Divergence
from .format import Gap, Header, Tail


@frozen
class Skipped:
    """A gap of the log, and what could not be replayed because of it.

    Attributes:
        gap: what a repair took out.
        resumed: the record whose stored state the replay went on from; 0 if there was none.
    """

    gap: Gap
    resumed: int


@frozen
class Replayed:
    """What a replay found.

    Attributes:
        header: the log's header.
        state: the state behind the last record that agreed.
        steps: records folded that agreed.
        divergence: the first difference, None if there is none.
        tail: how the log ends; None if the replay stopped before its end.
        seq: number of the record behind which ``state`` is; 0 for the state before the first.
        chain: chain of that record.
        skipped: gaps, and how far behind each the replay went on.
    """

    header: Header
    state: LoopState
    steps: int
    divergence: Divergence | None
    tail: Tail | None
    seq: int = 0
    chain: str = ""
    skipped: tuple[Skipped, ...] = ()

    @property
    def known(self) -> bool:
        """The state is that of the end of what was read; False if it lies behind a gap that nothing bridges."""
        return not self.skipped or self.skipped[-1].resumed > 0
