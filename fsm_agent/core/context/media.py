"""Images and documents in a view: limits of the model, and what an answer refused (spec 02, normalisation 1 and 4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..blocks import Block, Media, read_block, text_block
from ..evolving import evolve
from ..messages import Message, message
from ..models import ModelInfo
from .report import LayerReport
from .store import Sent, Tally

LAYER = "media"
_SLACK = 10
"""One part in this many is freed beyond the limit, so that not every new image is a new cut."""
MANY = 20
"""Beyond so many images a request takes only smaller ones (api-facts A20)."""
MANY_PIXELS = 2_000
"""Pixels of a side that each may have then."""

Keep = Callable[[Media], bool]


def placeholder(kind: str) -> str:
    """Say in words that a medium was left out."""
    return f"[{kind} left out: it was over a limit of the model]"


def _replace_parts(parts: list[Any], media: tuple[Media, ...], keep: Keep) -> tuple[list[Any], tuple[Media, ...]]:
    shown: list[Any] = []
    left: list[Media] = []
    pending = list(media)
    for part in parts:
        if isinstance(part, dict) and part.get("type") in ("image", "document") and pending:
            medium = pending.pop(0)
            if not keep(medium):
                shown.append({"type": "text", "text": placeholder(medium.kind)})
                continue
            left.append(medium)
        shown.append(part)
    return shown, tuple(left)


def replace_media(block: Block, keep: Keep) -> Block:
    """Replace the media of a block that ``keep`` does not want by words.

    Args:
        block: an image, a document, or a tool result that may hold some.
        keep: asked once for each medium, in order.

    Returns:
        The block itself if all are kept.
    """
    if not block.media:
        return block
    if block.type != "tool_result":
        return block if keep(block.media[0]) else text_block(placeholder(block.media[0].kind))
    value: dict[str, Any] = json.loads(block.json)
    content = value.get("content")
    parts, left = _replace_parts(content if isinstance(content, list) else [], block.media, keep)
    if len(left) == len(block.media):
        return block
    value["content"] = parts
    made = read_block(value)
    # Sizes in pixels are known to the old header only, so estimates of what stays come from there.
    lost = len(block.media) - len(left)
    tokens = min(made.tokens, max(block.tokens - 1, 1)) if left else made.tokens
    return evolve(made, media=left, tokens=tokens if lost else block.tokens)


def map_media(item: Message, keep: Keep) -> Message:
    """Replace media of a message; the message itself if all are kept."""
    if not any(block.media for block in item.blocks):
        return item
    blocks = tuple(replace_media(block, keep) for block in item.blocks)
    if blocks == item.blocks:
        return item
    return message(item.id, item.role, item.kind, blocks, model=item.model, span=item.span)


def _too_big(medium: Media, info: ModelInfo) -> bool:
    if medium.kind != "image":
        return False
    return medium.size > info.max_media_bytes or max(medium.width, medium.height) > info.max_media_pixels


def _surplus(media: list[Media], info: ModelInfo) -> int:
    """Tell how many of the oldest media are too many, with some slack once a limit is passed."""
    drop = 0
    if len(media) > info.max_media:
        drop = len(media) - (info.max_media - info.max_media // _SLACK)
    room = info.max_body_bytes * 9 // 10
    size = sum(medium.size for medium in media[drop:])
    if size > room:
        while drop < len(media) and size > room - room // _SLACK:
            size -= media[drop].size
            drop += 1
    images = [index for index in range(drop, len(media)) if media[index].kind == "image"]
    if len(images) > MANY and any(max(media[index].width, media[index].height) > MANY_PIXELS for index in images):
        # Among many images each must be small: the newest ones stay as they are, and are no longer many.
        drop = images[len(images) - (MANY - MANY // _SLACK)]
    return drop


def limit_media(
    view: tuple[Message, ...], known: int, tally: Tally, info: ModelInfo
) -> tuple[tuple[Message, ...], LayerReport | None]:
    """Keep a view within the model's limits: each medium by bytes and pixels, all of them by count and bytes.

    Args:
        view: the view.
        known: messages at the front whose single media were checked before.
        tally: counts of the whole view.
        info: the limits.

    Returns:
        The view with the oldest surplus media replaced by words, and a report if there were any.
    """
    if not tally.media:
        return view, None
    new = view[known:]
    crowded = tally.media > min(info.max_media, MANY) or tally.media_bytes > info.max_body_bytes * 9 // 10
    if not crowded and not any(block.media for item in new for block in item.blocks):
        return view, None
    items = [*view[:known], *(map_media(item, lambda m: not _too_big(m, info)) for item in new)]
    drop = _surplus([medium for item in items for block in item.blocks for medium in block.media], info)
    if drop:
        left = [drop]

        def late(_: Media) -> bool:
            left[0] -= 1
            return left[0] < 0

        items = [map_media(item, late) for item in items]
    return _reported(view, tuple(items))


def strip_media(
    view: tuple[Message, ...], path: str = "", sent: Sent | None = None
) -> tuple[tuple[Message, ...], LayerReport | None]:
    """Replace media that an answer refused.

    Args:
        view: the messages to go through.
        path: ``messages.N.content.M`` as the API named the medium, in terms of ``sent``; empty if it named none.
        sent: what the refused request was made from.

    Returns:
        The view without the named medium and all that are as large; without any media where none was named or found
        (there is one try, and the session must stay usable). A report if something was replaced.
    """
    named = _named(path, sent)
    if named:
        least = min(medium.size for medium in named)
        changed, report = _reported(view, tuple(map_media(item, lambda medium: medium.size < least) for item in view))
        if report is not None:
            return changed, report
    return _reported(view, tuple(map_media(item, lambda _: False) for item in view))


def _named(path: str, sent: Sent | None) -> tuple[Media, ...]:
    """Find the media of the block that ``path`` names in what was sent; their sizes in pixels are not known there."""
    words = path.split(".")
    if sent is None or len(words) < 4 or words[0] != "messages" or not (words[1].isdigit() and words[3].isdigit()):
        return ()
    message_at, block_at = int(words[1]), int(words[3])
    if message_at >= len(sent.wires):
        return ()
    content = json.loads(sent.wires[message_at].body)["content"]
    return read_block(content[block_at]).media if block_at < len(content) else ()


def _reported(old: tuple[Message, ...], new: tuple[Message, ...]) -> tuple[tuple[Message, ...], LayerReport | None]:
    ids = tuple(after.id for before, after in zip(old, new, strict=True) if before is not after)
    if not ids:
        return old, None
    freed = sum(item.tokens for item in old) - sum(item.tokens for item in new)
    return new, LayerReport(LAYER, freed=freed, ids=ids, cut=True, detail=f"media of {len(ids)} messages left out")
