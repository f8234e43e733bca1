"""Layer 4: spans of old rounds get summaries, staged in the background and committed later (spec 02)."""

from __future__ import annotations

from ..blocks import Block, block_text, text_block
from ..evolving import evolve
from ..frozen import frozen
from ..messages import UNSENT_KINDS, Message, MessageKind, message
from ..models import Thresholds
from .report import LayerReport
from .rounds import begins_round, newest_request, tail_start
from .store import ContextState, Span
from .usage import freed_by

LAYER = "collapse"
MAX_STAGED = 3
"""Summaries in the making at once."""
_INTRO = "[Summary of an earlier part of this conversation]\n"
_OVERHEAD = 32

Staged = tuple[Span, tuple[Message, ...]]


@frozen
class Place:
    """Where a span stands in a view: from ``start`` up to but not including ``stop``."""

    span: Span
    start: int
    stop: int


def settle(context: ContextState, span_id: str, summary: Block) -> ContextState:
    """Take the summary of a span; a blank one, or one that is not smaller than the span, is dropped with it."""
    spans: list[Span] = []
    for span in context.spans:
        if span.id != span_id or span.committed:
            spans.append(span)
        elif summary.type == "text" and not summary.blank and summary.tokens + _OVERHEAD < span.tokens:
            spans.append(evolve(span, summary=summary))
    return evolve(context, spans=tuple(spans))


def drop(context: ContextState, span_id: str) -> ContextState:
    """Forget a span whose summary failed; the view is as it was."""
    return evolve(context, spans=tuple(span for span in context.spans if span.id != span_id or span.committed))


def without_unfinished(context: ContextState) -> ContextState:
    """Forget spans whose summary was still in the making: with their run it was cancelled, and nobody will bring it."""
    return evolve(context, spans=tuple(span for span in context.spans if span.summary is not None))


def staged(context: ContextState) -> int:
    """Count summaries that are ready and not committed."""
    return sum(1 for span in context.spans if span.summary is not None and not span.committed)


def locate(view: tuple[Message, ...], spans: tuple[Span, ...]) -> tuple[tuple[Place, ...], tuple[Span, ...]]:
    """Find the spans in a view.

    Returns:
        Places of spans that stand wholly in the view, in view order, and all spans to keep in the store: those, and
        committed ones whose summary stands in the view. Any other span is no longer wholly there and is forgotten.
    """
    if not spans:
        return (), ()
    index = {item.id: position for position, item in enumerate(view)}
    shown = {item.span for item in view if item.span}
    places: list[Place] = []
    kept: list[Span] = []
    for span in spans:
        start, last = index.get(span.first), index.get(span.last)
        if span.committed and span.id in shown:
            kept.append(span)
        elif start is not None and last is not None and start <= last:
            places.append(Place(span, start, last + 1))
            kept.append(span)
    places.sort(key=lambda place: place.start)
    return tuple(places), tuple(kept)


def project(view: tuple[Message, ...], places: tuple[Place, ...], run_prefix: str) -> tuple[Message, ...]:
    """Show the summaries of these places instead of their messages.

    Args:
        view: the view.
        places: disjoint, in view order, each with a summary.
        run_prefix: unique prefix for the ids of the summary messages.
    """
    shown: list[Message] = []
    position = 0
    for place in places:
        if place.span.summary is None or place.start < position:
            continue
        shown.extend(view[position : place.start])
        block = text_block(_INTRO + block_text(place.span.summary))
        identity = f"{run_prefix}/{place.span.id}"
        shown.append(message(identity, "user", MessageKind.SUMMARY, (block,), span=place.span.id))
        position = place.stop
    shown.extend(view[position:])
    return tuple(shown)


def commit(
    view: tuple[Message, ...], context: ContextState, surplus: int | None, run_prefix: str
) -> tuple[tuple[Message, ...], ContextState, LayerReport | None]:
    """Commit ready summaries, oldest first.

    Args:
        view: the view.
        context: the memory of the layers.
        surplus: tokens to free; None commits everything that is ready.
        run_prefix: unique prefix for ids.

    Returns:
        The view, the context with the store brought up to date, and a report if something was committed. A committed
        span whose messages stand in the view again (a history read anew) is shown as its summary at once.
    """
    places, kept = locate(view, context.spans)
    chosen: list[Place] = []
    freed = 0
    for place in places:
        summary = place.span.summary
        if summary is None:
            continue
        if place.span.committed or surplus is None or freed < surplus:
            chosen.append(place)
            freed += place.span.tokens - summary.tokens - _OVERHEAD
    if not chosen:
        return view, (context if kept == context.spans else evolve(context, spans=kept)), None
    shown = project(view, tuple(chosen), run_prefix)
    done = {place.span.id for place in chosen}
    spans = tuple(evolve(span, committed=True) if span.id in done else span for span in kept)
    real = sum(item.tokens for item in view) - sum(item.tokens for item in shown)
    ids = tuple(place.span.id for place in chosen)
    report = LayerReport(LAYER, freed=real, ids=ids, cut=True, detail=f"{len(ids)} summaries committed")
    return shown, evolve(context, spans=spans), report


def choose(
    view: tuple[Message, ...], context: ContextState, limits: Thresholds, keep_rounds: int, run_prefix: str
) -> tuple[Staged, ...]:
    """Choose spans of old rounds that are to be summarised now, oldest first.

    A span holds whole rounds and the user words between them, never the newest real request, a summary, a boundary or
    a part of another span. It ends as soon as it is worth a summary.

    Returns:
        New spans, with their messages; none while :data:`MAX_STAGED` are in the making.
    """
    room = MAX_STAGED - sum(1 for span in context.spans if span.summary is None)
    if room <= 0:
        return ()
    size = max(limits.auto_compact_at // 20, 200)
    end = tail_start(view, keep_rounds)
    newest = newest_request(view)
    places, _ = locate(view, context.spans)
    taken = {index for place in places for index in range(place.start, place.stop)}
    found: list[Staged] = []
    start = -1
    tokens = 0
    replied = False
    for index in range(end + 1):
        barrier = index in (end, newest) or index in taken or view[index].kind is MessageKind.SUMMARY
        barrier = barrier or view[index].kind in UNSENT_KINDS
        ends = barrier or begins_round(view, index)
        if start >= 0 and ends and replied and tokens >= size:
            whole = view[start:index]
            span = Span(f"{run_prefix}/span-{len(found) + 1}", whole[0].id, whole[-1].id, tokens)
            found.append((span, whole))
            start = -1
            if len(found) == room:
                break
        if barrier:
            start = -1
            continue
        if start < 0:
            start, tokens, replied = index, 0, False
        tokens += view[index].tokens
        replied = replied or view[index].role == "assistant"
    return tuple(found)


def drain(
    messages: tuple[Message, ...], context: ContextState, run_prefix: str
) -> tuple[tuple[Message, ...], ContextState, LayerReport]:
    """Commit every summary that is ready: the recovery ``collapse_drain_retry`` (spec 01, section 4).

    Returns:
        The view, the context and the report (nothing freed if nothing was ready).
    """
    view, after, report = commit(messages, context, None, run_prefix)
    if report is None:
        return view, after, LayerReport(LAYER)
    return view, evolve(after, freed=after.freed + freed_by(messages, view, context)), report
