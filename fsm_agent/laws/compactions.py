"""I9, I10: what an answer of a compaction does: to the breaker, to the history, and to media (spec 01, section 14)."""

from __future__ import annotations

import json

from ..core.blocks import read_block
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
            view, now = one.before.data.iteration.view, one.after.data.messages
            if freed != sum(item.tokens for item in view) - sum(item.tokens for item in now):
                return f"{one.row.name}: the report says that {freed} tokens are freed"
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


def _media(messages: tuple[Message, ...]) -> list[int]:
    """Give the sizes of all media."""
    return [medium.size for item in messages for block in item.blocks for medium in block.media]


@edge_law("I6", costly=True)
def a_reactive_compaction_mends_what_was_refused(edge: Edge) -> str:
    """A summary behind a boundary replaces what stood before the tail, if anything did; media go only if some were refused."""
    for one in micros(edge):
        if one.name != "reactive_compact_retry":
            continue
        fault = one.old.call.fault
        refused = fault is not None and fault.kind is ErrorKind.MEDIA_TOO_LARGE
        view, now = one.before.data.iteration.view, one.after.data.messages
        known = {item.id for item in view}
        summaries = sum(item.kind is MessageKind.SUMMARY and item.id not in known for item in now)
        replaced = one.old.context.replacing > 0
        bound = one.config.info(one.old.tool_use_context.model).binds_thinking
        before, after = one.before.data.context.drop_thinking, one.after.data.context.drop_thinking
        if not replaced and after != (before or bound):
            return f"thinking that is bound to the history is {'not ' if not after else ''}dropped after a cut"
        marks = sum(item.kind is MessageKind.BOUNDARY and item.id not in known for item in now)
        if marks != replaced:
            return f"{marks} boundaries in the history for {one.old.context.replacing} tokens that were replaced"
        if bool(summaries) != replaced:
            return f"{summaries} summaries for {one.old.context.replacing} tokens"
        kept = {item.id for item in now}
        if not refused and _media(now) != _media(tuple(item for item in view if item.id in kept)):
            return "media were taken out, though none were refused"
        if refused and _media(now) != _left(one, now, view):
            return f"media of {_media(now)} bytes are sent again, of {_left(one, now, view)} should be"
    return ""


def _left(one: Micro, now: tuple[Message, ...], view: tuple[Message, ...]) -> list[int]:
    """Give the sizes of the media that may stay: those smaller than the one that was named, none if none was."""
    failure = one.before.data.iteration.failure
    words = failure.media_path.split(".") if failure is not None else []
    sent = one.before.data.context.sent.wires
    named: list[int] = []
    if len(words) == 4 and words[1].isdigit() and words[3].isdigit() and int(words[1]) < len(sent):
        content = json.loads(sent[int(words[1])].body)["content"]
        if int(words[3]) < len(content):
            named = [medium.size for medium in read_block(content[int(words[3])]).media]
    known = {item.id: item for item in view}
    stays = _media(tuple(known[item.id] for item in now if item.id in known))
    if not named or all(size < min(named) for size in _media(view)):
        return []
    return [size for size in stays if size < min(named)]


@edge_law("I6", costly=True)
def what_was_refused_is_not_sent_again(edge: Edge) -> str:
    """After thinking was refused, none is sent; after media ended a run, none of them stays."""
    for one in micros(edge):
        if one.name == "thinking_dropped" and not one.after.data.context.drop_thinking:
            return "thinking is not dropped from later requests"
        ended = one.name in ("media_too_large", "media_unreadable") or one.name.endswith("_media")
        view, now = one.before.data.iteration.view, one.after.data.messages
        if ended and _media(now) != _left(one, now, view):
            return f"{one.row.name}: media of {_media(now)} bytes stay in the history"
    if edge.took("thinking_dropped"):
        bodies = [wire.body for call in edge.calls for wire in call.request.messages]
        if any(b'"type":"thinking"' in body for body in bodies):
            return "thinking is sent again"
    return ""
