"""The context pipeline: layers over the working list, light to heavy (spec 02)."""

from __future__ import annotations

from ..config import LoopConfig, Microcompact, thresholds
from ..evolving import evolve
from ..frozen import frozen
from ..messages import Message
from ..models import ModelInfo, Thresholds
from ..outputs import Boundary
from ..rebuild import with_tally
from . import collapse, microcompact
from .after_boundary import after_boundary
from .compact import compactable
from .media import limit_media
from .report import LayerReport
from .result_budget import result_budget
from .snip import snip
from .store import ContextState, Span, Tally
from .tally import extend, known_prefix
from .thinking import strip_thinking
from .usage import count_view, freed_by, static_tokens, user_context_tokens

__all__ = ["LayerReport", "Prepared", "count_view", "prepare"]


@frozen
class Prepared:
    """What a pass works with.

    Attributes:
        view: the messages that the next request is made from.
        context: the memory of the layers.
        reports: what layers did, in order; a layer that did nothing has none.
        tokens: count for the auto-compact test; before the first usage it leaves out the user context.
        blocking_tokens: count for the hard limit.
        fixed_tokens: system prompt, tools, user context and the newest real request alone.
        compactable: a compaction would find something to summarise.
        stage: spans to be summarised in the background now, with their messages.
        boundaries: outputs to emit.
    """

    view: tuple[Message, ...]
    context: ContextState
    reports: tuple[LayerReport, ...] = ()
    tokens: int = 0
    blocking_tokens: int = 0
    fixed_tokens: int = 0
    compactable: bool = False
    stage: tuple[tuple[Span, tuple[Message, ...]], ...] = ()
    boundaries: tuple[Boundary, ...] = ()


@frozen
class _Pass:
    """The pipeline between two layers."""

    view: tuple[Message, ...]
    context: ContextState
    reports: tuple[LayerReport, ...]
    boundaries: tuple[Boundary, ...]


def prepare(
    messages: tuple[Message, ...],
    context: ContextState,
    config: LoopConfig,
    model: str,
    run_prefix: str,
    front: tuple[Message, ...] | None = None,
) -> Prepared:
    """Run the layers.

    Args:
        messages: the working list.
        context: the memory of the layers.
        config: settings.
        model: the model that will be called.
        run_prefix: unique prefix for ids of spans, summaries and boundaries made in this pass.
        front: a view that ``messages`` is known to begin with.

    Returns:
        The view and what belongs to it. With nothing to do the cost is that of what is new.
    """
    info = config.info(model)
    limits = thresholds(config, model)
    now = _light(messages, context, config, info, front)
    now = _snip(now, config, model, limits, run_prefix)
    now = _microcompact(now, config, model, info, limits)
    now, stage = _collapse(now, config, model, limits, run_prefix)
    now = _thinking(now, info, config)
    tokens, blocking = count_view(now.view, now.context, config, model)
    request = now.context.tally.request
    fixed = static_tokens(config) + user_context_tokens(config) + (now.view[request].tokens if request >= 0 else 0)
    return Prepared(
        view=now.view,
        context=now.context,
        reports=now.reports,
        tokens=tokens,
        blocking_tokens=blocking,
        fixed_tokens=fixed,
        compactable=compactable(now.view, request),
        stage=stage,
        boundaries=now.boundaries,
    )


def _light(
    messages: tuple[Message, ...],
    context: ContextState,
    config: LoopConfig,
    info: ModelInfo,
    front: tuple[Message, ...] | None,
) -> _Pass:
    """Boundary, result budget and media: they look at new messages only."""
    known = known_prefix(messages, context.tally, config, front)
    tally = context.tally if known else Tally()
    reports: list[LayerReport] = []
    view, report = after_boundary(messages, known)
    if report is not None:
        tally, known = Tally(), 0
        reports.append(report)
    view, context, report = result_budget(view, known, context, config)
    if report is not None:
        reports.append(report)
    tally = extend(tally, view, config)
    old = view
    view, report = limit_media(view, known, tally, info)
    if report is not None:
        reports.append(report)
        tally = extend(Tally(), view, config)
        context = evolve(context, freed=context.freed + freed_by(old, view, context))
    if tally is not context.tally:
        context = with_tally(context, tally)
    return _Pass(tally.view, context, tuple(reports), ())


def _cut(now: _Pass, view: tuple[Message, ...], report: LayerReport, config: LoopConfig) -> _Pass:
    """Take a view that a layer changed in old places."""
    freed = now.context.freed + freed_by(now.view, view, now.context)
    context = evolve(now.context, freed=freed, tally=extend(Tally(), view, config))
    return _Pass(view, context, (*now.reports, report), now.boundaries)


def _announce(now: _Pass, layer: str, trigger: str, before: int, config: LoopConfig, model: str) -> _Pass:
    after, _ = count_view(now.view, now.context, config, model)
    boundary = Boundary(layer, trigger, before, after, now.reports[-1].detail)
    return evolve(now, boundaries=(*now.boundaries, boundary))


def _snip(now: _Pass, config: LoopConfig, model: str, limits: Thresholds, run_prefix: str) -> _Pass:
    if not config.context.snip:
        return now
    before, _ = count_view(now.view, now.context, config, model)
    if before < limits.snip_at:
        return now
    # Some room beyond the threshold, so that the next round is not the next cut.
    surplus = before - limits.snip_at + limits.effective_window // 20
    view, report = snip(now.view, surplus, config.context.keep_rounds, run_prefix)
    if report is None:
        return now
    return _announce(_cut(now, view, report, config), "snip", "threshold", before, config, model)


def _microcompact(now: _Pass, config: LoopConfig, model: str, info: ModelInfo, limits: Thresholds) -> _Pass:
    kind = microcompact.mode(config, info)
    if kind is Microcompact.OFF:
        return now
    if kind is Microcompact.CACHED:
        expected = sum(freed for _, freed in microcompact.due(now.context.tally, config, limits))
        if expected == now.context.deferred:
            return now
        return evolve(now, context=evolve(now.context, deferred=expected))
    view, report = microcompact.microcompact(now.view, now.context.tally, config, limits)
    if report is None:
        return now
    before, _ = count_view(now.view, now.context, config, model)
    return _announce(_cut(now, view, report, config), "microcompact", "local", before, config, model)


def _collapse(
    now: _Pass, config: LoopConfig, model: str, limits: Thresholds, run_prefix: str
) -> tuple[_Pass, tuple[collapse.Staged, ...]]:
    if not config.context.collapse and not now.context.spans:
        return now, ()
    before, _ = count_view(now.view, now.context, config, model)
    # Down to where staging begins: committing a little each turn would break the prompt cache each turn.
    surplus = before - limits.stage_at if before >= limits.commit_at else 0
    view, context, report = collapse.commit(now.view, now.context, surplus, run_prefix)
    now = evolve(now, context=context)
    if report is not None:
        now = _announce(_cut(now, view, report, config), "collapse", "threshold", before, config, model)
    count, _ = count_view(now.view, now.context, config, model)
    if not config.context.collapse or count < limits.stage_at:
        return now, ()
    stage = collapse.choose(now.view, now.context, limits, config.context.keep_rounds, run_prefix)
    if stage:
        spans = now.context.spans + tuple(span for span, _ in stage)
        now = evolve(now, context=evolve(now.context, spans=spans))
    return now, stage


def _thinking(now: _Pass, info: ModelInfo, config: LoopConfig) -> _Pass:
    """Remove thinking that no longer fits what stands before it (api-facts A8), whoever changed that."""
    start = -1
    if now.context.drop_thinking:
        start = 0
    elif info.binds_thinking:
        start = _first_change(now)
    if start < 0:
        return now
    view, report = strip_thinking(now.view, start)
    if report is not None:
        now = _cut(now, view, report, config)
    return evolve(now, context=evolve(now.context, drop_thinking=False, thinking_cut=True))


def _first_change(now: _Pass) -> int:
    """Find the first message that differs from what was sent; -1 if nothing was cut."""
    sources, tally = now.context.sent.sources, now.context.tally
    if now.view is sources or (tally.view is now.view and tally.front is sources):
        return -1
    for index, item in enumerate(sources):
        if index >= len(now.view) or (now.view[index] is not item and now.view[index] != item):
            return index
    return -1
