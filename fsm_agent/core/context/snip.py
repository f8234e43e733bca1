"""Layer 2: removes the oldest rounds (spec 02); off by default."""

from __future__ import annotations

from ..messages import Message, MessageKind
from .after_boundary import boundary_message
from .report import LayerReport
from .rounds import begins_round, first_request, newest_request, tail_start

LAYER = "snip"
KEPT_KINDS = frozenset({MessageKind.SUMMARY, MessageKind.BOUNDARY})


def snip(
    view: tuple[Message, ...], surplus: int, keep_rounds: int, run_prefix: str
) -> tuple[tuple[Message, ...], LayerReport | None]:
    """Remove oldest rounds until ``surplus`` tokens are gone, as far as the protected tail allows.

    A round goes with the user words that follow it up to the next reply. The first real user message, the newest one,
    summaries and the last ``keep_rounds`` rounds stay.

    Args:
        view: the view.
        surplus: tokens to remove.
        keep_rounds: rounds at the end that stay.
        run_prefix: unique prefix for the id of the boundary.

    Returns:
        The view with a boundary where rounds went, and a report if any went.
    """
    end = tail_start(view, keep_rounds)
    kept = {first_request(view), newest_request(view)}
    starts = [index for index in range(end) if begins_round(view, index)]
    gone: set[int] = set()
    freed = 0
    for position, start in enumerate(starts):
        if freed >= surplus:
            break
        stop = starts[position + 1] if position + 1 < len(starts) else end
        for index in range(start, stop):
            if index not in kept and view[index].kind not in KEPT_KINDS:
                gone.add(index)
                freed += view[index].tokens
    if not gone:
        return view, None
    ids = tuple(view[index].id for index in range(len(view)) if index in gone)
    total = sum(item.tokens for item in view)
    first = min(gone)
    mark = boundary_message(f"{run_prefix}/snip", "snip", "threshold", total, total - freed)
    shown = [*view[:first], mark]
    shown += [view[index] for index in range(first, len(view)) if index not in gone]
    return tuple(shown), LayerReport(LAYER, freed=freed, ids=ids, cut=True, detail=f"{len(ids)} messages removed")
