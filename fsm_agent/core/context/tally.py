"""Incremental facts about a view, so that a pass costs what is new (spec 02, cost of history)."""

from __future__ import annotations

from ..blocks import tool_result
from ..config import LoopConfig, Microcompact
from ..memo import by_identity
from ..messages import REAL_REQUESTS, Message
from .rounds import call_names
from .store import Tally

CLEARED = "[Old tool result cleared to save space. Run the tool again if it is needed.]"
CLEARED_TOKENS = tool_result("", CLEARED).tokens


@by_identity
def compactable_tools(config: LoopConfig) -> frozenset[str]:
    """Name the tools whose old results may be cleared."""
    return frozenset(tool.name for tool in config.tools if tool.compactable)


@by_identity
def exempt_tools(config: LoopConfig) -> frozenset[str]:
    """Name the tools whose results the result budget leaves whole."""
    return frozenset(tool.name for tool in config.tools if tool.exempt)


@by_identity
def _counts_clearable(config: LoopConfig) -> bool:
    """Tell whether results may be cleared at all, with any model of this configuration."""
    wanted = config.context.microcompact
    if wanted is Microcompact.AUTO:
        return any(info.binds_thinking and info.context_edits for info in config.models)
    return wanted is not Microcompact.OFF


@by_identity
def _key(config: LoopConfig) -> str:
    """Name the settings that a tally depends on; they may differ from run to run of a session."""
    if not _counts_clearable(config):
        return "off"
    return f"{config.context.microcompact.value} {','.join(sorted(compactable_tools(config)))}"


def known_prefix(
    messages: tuple[Message, ...], tally: Tally, config: LoopConfig, front: tuple[Message, ...] | None = None
) -> int:
    """Tell how many messages at the front the tally has counted: all of its view, or none after a cut.

    ``front`` is a view that ``messages`` is known to begin with; where it is the one that was counted, nothing is compared.
    """
    covers = len(tally.view)
    known = covers and tally.key == _key(config) and (front is tally.view or messages[:covers] == tally.view)
    return covers if known else 0


def extend(tally: Tally, view: tuple[Message, ...], config: LoopConfig) -> Tally:
    """Count what follows the tally's own view.

    Args:
        tally: facts about the front of ``view``, which the caller has compared; ``Tally()`` counts everything.
        view: the whole view.
        config: tells which results may be cleared.

    Returns:
        Facts about the whole view.
    """
    start = len(tally.view)
    if start == len(view) and start:
        return tally
    tokens, media, size, request = tally.tokens, tally.media, tally.media_bytes, tally.request
    for index in range(start, len(view)):
        item = view[index]
        tokens += item.tokens
        if item.kind in REAL_REQUESTS:
            request = index
        for block in item.blocks:
            if block.media:
                media += len(block.media)
                size += sum(part.size for part in block.media)
    clearable, cleared = tally.clearable, tally.clearable_tokens
    if _counts_clearable(config):
        more = _clearable(view, start, config)
        clearable += more
        cleared += sum(freed for _, freed in more)
    return Tally(
        view=view,
        tokens=tokens,
        clearable=clearable,
        clearable_tokens=cleared,
        request=request,
        media=media,
        media_bytes=size,
        key=_key(config),
        front=tally.view,
    )


def _clearable(view: tuple[Message, ...], start: int, config: LoopConfig) -> tuple[tuple[str, int], ...]:
    tools = compactable_tools(config)
    if not tools:
        return ()
    names = call_names(view, start)
    return tuple(
        (block.id, block.tokens - CLEARED_TOKENS)
        for index in range(start, len(view))
        for block in view[index].blocks
        if block.type == "tool_result" and names.get(block.id, "") in tools and block.tokens > CLEARED_TOKENS
    )
