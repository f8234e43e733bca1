"""Layer 5: what a compaction summarises, whether its result is good, and what the view becomes (spec 02)."""

from __future__ import annotations

from ..blocks import Block, text_block
from ..config import LoopConfig, thresholds
from ..events import CompactionFinished
from ..evolving import evolve
from ..frozen import frozen
from ..messages import UNSENT_KINDS, Message, MessageKind, message
from ..phases import CompactKind
from . import media
from .after_boundary import boundary_message
from .api_block import SUMMARY_INTRO, own_block, summary_text, tail_of_block
from .report import LayerReport
from .rounds import idle, newest_request, tail_start
from .store import ContextState, Sent, Tally
from .usage import static_tokens, user_context_tokens

LAYER = "compact"
_TAIL_SHARE = (3, 4)
"""Part of the auto-compact threshold that fixed parts and protected tail may fill before fewer rounds are protected."""


@frozen
class Plan:
    """What is summarised and what stays.

    Attributes:
        messages: to be summarised, oldest first; empty if nothing can be.
        tail: protected: the newest real user request, word for word, and the last rounds.
        replacing: tokens of ``messages``.
        start: index in the view from which on it is kept as it stands.
    """

    messages: tuple[Message, ...]
    tail: tuple[Message, ...]
    replacing: int
    start: int = 0


@frozen
class Compacted:
    """A view after a compaction.

    Attributes:
        messages: the view.
        before: estimate of the messages of the old view, in tokens.
        after: estimate of those of the new one.
        report: what was replaced, what fills the new view, and what was left out.
        dropped: names of re-attached files that were left out.
        verbatim: the tail stands as it stood behind what the API's own block stands for, so its thinking is still good.
    """

    messages: tuple[Message, ...]
    before: int
    after: int
    report: LayerReport
    dropped: tuple[str, ...] = ()
    verbatim: bool = False


def _split(view: tuple[Message, ...], rounds: int) -> Plan:
    start = tail_start(view, rounds)
    newest = newest_request(view)
    tail = view[start:]
    if 0 <= newest < start:
        tail = (view[newest], *tail)
    head = tuple(
        item for index, item in enumerate(view[:start]) if index != newest and item.kind not in UNSENT_KINDS and item.blocks
    )
    tail = tuple(item for item in tail if item.kind is not MessageKind.BOUNDARY)
    return Plan(messages=head, tail=tail, replacing=sum(item.tokens for item in head), start=start)


def plan(view: tuple[Message, ...], config: LoopConfig, model: str = "") -> Plan:
    """Choose what a compaction summarises.

    The protected tail is the newest real user request and the last ``keep_rounds`` rounds. Fewer rounds are protected
    where they alone would fill the window, or where nothing else stands before them; the final reply of a conversation at
    rest is always protected.

    Args:
        view: the view.
        config: settings.
        model: the model in use; empty for the main model.

    Returns:
        The plan; its two parts hold every message of the view that is ever sent, each once.
    """
    limits = thresholds(config, model or config.model)
    fixed = static_tokens(config) + user_context_tokens(config)
    room = limits.auto_compact_at * _TAIL_SHARE[0] // _TAIL_SHARE[1] - fixed
    least = 1 if idle(view) else 0
    rounds = max(config.context.keep_rounds, least)
    made = _split(view, rounds)
    while rounds > least:
        crowded = sum(item.tokens for item in made.tail) > room
        if made.messages and not crowded:
            break
        rounds -= 1
        made = _split(view, rounds)
    return made


def compactable(view: tuple[Message, ...], request: int) -> bool:
    """Tell whether something stands before the least protected tail.

    Args:
        view: the view.
        request: index of the newest real user request, -1 if there is none.
    """
    end = tail_start(view, 1) if idle(view) else len(view)
    for index in range(end):
        item = view[index]
        if index != request and item.kind not in UNSENT_KINDS and item.kind is not MessageKind.SUMMARY:
            return True
    return False


def _usable(block: Block) -> bool:
    if block.type == "text":
        return not block.blank
    if block.type == "compaction":
        return summary_text(block) != ""
    return False


def _summary_blocks(event: CompactionFinished) -> tuple[Block, ...]:
    return tuple(block for block in event.summary if _usable(block))


def valid(event: CompactionFinished, replacing: int) -> str:
    """Check a compaction's result before it is used (field report 6).

    Args:
        event: the result.
        replacing: tokens of what it replaces.

    Returns:
        An empty text if it is good, else why it is refused. Attachments do not count: :func:`apply` takes only as many as
        keep the result smaller.
    """
    if any(block.type == "tool_use" for block in event.summary):
        return "the summariser called a tool instead of writing a summary"
    if event.stop_reason == "refusal":
        return "the summariser refused"
    if event.stop_reason in ("max_tokens", "model_context_window_exceeded"):
        return "the summary was cut"
    if event.stop_reason not in ("end_turn", "stop_sequence", "compaction"):
        return f"the summariser did not finish (stop reason {event.stop_reason})"
    usable = _summary_blocks(event)
    if not usable:
        if event.summary and all(block.is_thinking for block in event.summary):
            return "the summariser gave thinking only"
        return "the summary is empty"
    # With its introduction, as it will stand: else an earlier summary could be replaced by its equal, and sent again.
    size = sum(item.tokens for item in _summary_message(event, ""))
    if size >= replacing:
        return f"the summary ({size} tokens) is not smaller than what it replaces ({replacing} tokens)"
    return ""


def _attach(event: CompactionFinished, room: int) -> tuple[tuple[Message, ...], tuple[str, ...]]:
    """Choose the re-attached files that fit into ``room`` tokens, in order; names of the others."""
    kept: list[Message] = []
    dropped = list(event.dropped)
    for item in event.attachments:
        if item.tokens <= room:
            kept.append(item)
            room -= item.tokens
        else:
            dropped.append(item.id)
    return tuple(kept), tuple(dropped)


def apply(
    view: tuple[Message, ...],
    config: LoopConfig,
    event: CompactionFinished,
    kind: CompactKind,
    run_prefix: str,
    *,
    model: str = "",
    strip_media: bool = False,
    media_path: str = "",
    sent: Sent | None = None,
) -> Compacted:
    """Make the view after a valid compaction: boundary, summary, protected tail, re-attached files.

    Args:
        view: the view for which the plan was made.
        config: settings.
        event: the result; :func:`valid` accepted it. Without a summary only media are replaced (nothing stood before the
            tail).
        kind: what asked for it.
        run_prefix: unique prefix for ids.
        model: the model in use; empty for the main model.
        strip_media: replace media in what is kept (a medium was refused).
        media_path: ``messages.N.content.M`` of the medium that was refused, if the API named it.
        sent: what the refused request was made from, to find that medium.

    Returns:
        The messages and their sizes. Attachments that would make the result as large as what it replaces, or cross the
        budget or the threshold, are left out and named.
    """
    made = plan(view, config, model)
    before = sum(item.tokens for item in view)
    tail = made.tail
    # At rest the request is done, and saying it again behind the last reply would begin it anew.
    verbatim = own_block(event.summary) is not None and not strip_media and not idle(view)
    if verbatim:
        tail = tail_of_block(view, made.start, config, run_prefix)
    if strip_media:
        tail, _ = media.strip_media(tail, media_path, sent)
    summary = _summary_message(event, run_prefix)
    size = sum(item.tokens for item in summary)
    limits = thresholds(config, model or config.model)
    fixed = static_tokens(config) + user_context_tokens(config)
    used = size + sum(item.tokens for item in tail)
    room = min(
        config.context.attachment_tokens,
        (made.replacing - size) // 2,
        limits.auto_compact_at * 9 // 10 - fixed - used,
    )
    attached, dropped = _attach(event, max(room, 0))
    after = used + sum(item.tokens for item in attached)
    detail = _attribution(made, size, tail, attached, dropped)
    mark = boundary_message(f"{run_prefix}/boundary", "compact", kind.value, before, after, detail)
    ids = tuple(item.id for item in made.messages)
    report = LayerReport(LAYER, freed=before - after, ids=ids, cut=True, detail=f"{kind.value}: {detail}")
    return Compacted(
        (mark, *summary, *tail, *attached), before=before, after=after, report=report, dropped=dropped, verbatim=verbatim
    )


def _attribution(
    made: Plan, size: int, tail: tuple[Message, ...], attached: tuple[Message, ...], dropped: tuple[str, ...]
) -> str:
    """Say what fills the new view, so that a context that is full again has a name (field reports 1 and 2)."""
    parts = [f"{len(made.messages)} messages ({made.replacing} tokens) became a summary of {size}"]
    parts.append(f"kept word for word {sum(item.tokens for item in tail)}")
    parts += [f"re-attached {item.id} ({item.tokens})" for item in attached]
    if dropped:
        parts.append(f"left out for want of room: {', '.join(dropped)}")
    return "; ".join(parts)


def _summary_message(event: CompactionFinished, run_prefix: str) -> tuple[Message, ...]:
    usable = _summary_blocks(event)
    if not usable:
        return ()
    own = tuple(block for block in usable if block.type == "compaction")
    if own:
        # The API's own block is the reply of a compaction request: it goes back first, as it came.
        return (message(f"{run_prefix}/summary", "assistant", MessageKind.SUMMARY, own[:1]),)
    return (message(f"{run_prefix}/summary", "user", MessageKind.SUMMARY, (text_block(SUMMARY_INTRO), *usable)),)


def after_compaction(
    context: ContextState, config: LoopConfig, model: str, after: int = 0, *, verbatim: bool = False
) -> ContextState:
    """Bring the memory of the layers in line with a compaction.

    Args:
        context: the memory.
        config: settings.
        model: the model in use.
        after: tokens of the new view, counted as processed only once for the API's task budget.
        verbatim: the thinking in the tail still fits what stands before it.

    Returns:
        The context without base, spans, sent messages and counts. Decisions of the result budget stay. On a model that
        binds thinking the next pass removes it. The task budget's remaining is set: what was left, less what was
        processed since it was last set.
    """
    remaining = context.task_remaining
    if config.task_budget is not None:
        left = config.task_budget if remaining is None else remaining
        spent = (context.base.tokens - context.task_start) if context.base is not None else 0
        remaining = max(left - max(spent, 0), 0)
    return evolve(
        context,
        base=None,
        freed=0,
        spans=(),
        sent=Sent(),
        tally=Tally(),
        deferred=0,
        cleared=0,
        drop_thinking=context.drop_thinking or (config.info(model).binds_thinking and not verbatim),
        task_remaining=remaining,
        task_start=after,
    )
