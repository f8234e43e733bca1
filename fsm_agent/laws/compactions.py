"""I9, I10: what an answer of a compaction does: to the breaker, to the history, and to media (spec 01, section 14)."""

from __future__ import annotations

from ..core.control import AutoCompactTracking
from ..core.effects import Emit
from ..core.events import CompactionFailed, EventKind
from ..core.failures import ErrorKind
from ..core.messages import Message, MessageKind
from ..core.outputs import Boundary, Notice
from ..core.phases import CompactKind
from .law import Edge, edge_law
from .micro import Micro, micros


def _landed(one: Micro) -> AutoCompactTracking | None:
    """Section 14: what an answer of a compaction makes of the breaker."""
    facts, config = one.old.context, one.config
    tracking, kind = facts.tracking, facts.compacting
    limit = config.context.breaker_failures
    if one.name in ("compaction_failed", "compaction_refused"):
        count = tracking.failures + 1
        opened = max(1, facts.tokens) if count >= limit else tracking.opened_at
        return AutoCompactTracking(tracking.compacted, tracking.turns_since, count, opened)
    if one.name == "compaction_applied" or (one.name == "compaction_without_progress" and kind is CompactKind.MANUAL):
        return AutoCompactTracking(compacted=True)
    if one.name == "compaction_without_progress":
        count = tracking.failures + 1
        freed = one.after.data.iteration.reports[-1].freed
        opened = max(1, facts.tokens - freed) if count >= limit else tracking.opened_at
        return AutoCompactTracking(True, 0, count, opened)
    return None


@edge_law("I9", costly=True)
def the_breaker_counts(edge: Edge) -> str:
    """A compaction that failed or freed too little counts; so many in a row open the breaker; a success starts anew."""
    for one in micros(edge):
        expected = _landed(one)
        if expected is not None and one.new.context.tracking != expected:
            return f"{one.row.name}: the breaker is {one.new.context.tracking}, not {expected}"
    return ""


@edge_law("I10", costly=True)
def a_compaction_says_what_it_did(edge: Edge) -> str:
    """A compaction that was used shows its boundary with the count before and after; one that was not shows a warning."""
    for one in micros(edge):
        if one.row.event not in (EventKind.COMPACTION_FINISHED, EventKind.COMPACTION_FAILED):
            continue
        outputs = [effect.output for effect in one.effects if isinstance(effect, Emit)]
        marks = [item for item in outputs if isinstance(item, Boundary)]
        warnings = [item for item in outputs if isinstance(item, Notice) and item.level == "warning"]
        used = one.name in ("compaction_applied", "compaction_without_progress", "reactive_compact_retry")
        if len(marks) != used:
            return f"{one.row.name}: {len(marks)} boundaries"
        poor = one.name in ("compaction_without_progress", "compaction_refused", "compaction_failed")
        if len(warnings) != poor:
            return f"{one.row.name}: {len(warnings)} warnings"
        if poor and not _reason(one, warnings[0].text):
            return f"{one.row.name}: {warnings[0].text!r} does not say why"
        if used:
            facts, freed = one.old.context, one.after.data.iteration.reports[-1].freed
            mark, kind = marks[0], facts.compacting
            due = ("compact", kind.value if kind else "", facts.tokens, max(0, facts.tokens - freed))
            if (mark.kind, mark.trigger, mark.before, mark.after) != due:
                return f"{one.row.name}: the boundary says {mark}, not {due}"
    return ""


def _reason(one: Micro, text: str) -> bool:
    """Tell whether a warning says why the compaction failed, or how little it freed."""
    if isinstance(one.event, CompactionFailed):
        return (one.event.failure.message or one.event.failure.kind.value) in text
    if one.name == "compaction_without_progress":
        report = one.after.data.iteration.reports[-1]
        return report.detail in text and str(one.new.context.fixed_tokens) in text
    return True


def _media(messages: tuple[Message, ...]) -> int:
    return sum(len(block.media) for item in messages for block in item.blocks)


@edge_law("I6", costly=True)
def a_reactive_compaction_mends_what_was_refused(edge: Edge) -> str:
    """It puts a summary in place of what stood before the tail, if anything did; media go only where media were refused."""
    for one in micros(edge):
        if one.name != "reactive_compact_retry":
            continue
        fault, failure = one.old.call.fault, one.before.data.iteration.failure
        refused = fault is not None and fault.kind is ErrorKind.MEDIA_TOO_LARGE
        view, now = one.before.data.iteration.view, one.after.data.messages
        known = {item.id for item in view}
        summaries = sum(item.kind is MessageKind.SUMMARY and item.id not in known for item in now)
        replaced = one.old.context.replacing > 0
        if bool(summaries) != replaced:
            return f"{summaries} summaries for {one.old.context.replacing} tokens"
        stays = {item.id: item for item in view}
        changed = any(item.id in stays and item is not stays[item.id] for item in now)
        if changed and not refused:
            return "what stays was changed, though no media were refused"
        if refused and not (failure is not None and failure.media_path) and _media(now):
            return f"{_media(now)} media are sent again"
        if refused and failure is not None and failure.media_path == NAMED and _media(view) and _media(now) >= _media(view):
            return "the medium that was named is sent again"
    return ""


NAMED = "messages.0.content.1"
"""Where the first prompt of the explored worlds holds its medium."""


@edge_law("I6", costly=True)
def what_was_refused_is_not_sent_again(edge: Edge) -> str:
    """After thinking was refused, none is sent; after media ended a run, none of them stays."""
    for one in micros(edge):
        if one.name == "thinking_dropped" and not one.after.data.context.drop_thinking:
            return "thinking is not dropped from later requests"
        failure = one.before.data.iteration.failure
        ended = one.name in ("media_too_large", "media_unreadable") or one.name.endswith("_media")
        if ended and failure is not None and not failure.media_path and _media(one.after.data.messages):
            return f"{one.row.name}: media stay in the history"
    if edge.took("thinking_dropped"):
        bodies = [wire.body for call in edge.calls for wire in call.request.messages]
        if any(b'"type":"thinking"' in body for body in bodies):
            return "thinking is sent again"
    return ""
