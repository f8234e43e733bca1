"""How the input of a summariser shrinks when it is itself too long (spec 02, field report 4). Pure.

Oldest whole rounds go first, then the middle of the largest parts, and at last the conversation is summed up in pieces.
Every rung is strictly smaller than the one before it, so the ladder ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .compact_text import LEFT_OUT, Part, Round, clip, part, size_of

MAX_TRIES = 4
"""Inputs that are tried, the last of them in pieces."""
MAX_PIECES = 8
"""Pieces of the last try."""
_GOAL_TOKENS = 1_000
"""What of the first request survives when its round is left out."""
_LEAST_PART = 80
"""Tokens below which a part is not cut any further."""
_SHARES = ((1, 2), (1, 3), (1, 4))
"""How much of the last input is tried next when the API does not say by how much it was over."""


@frozen
class Input:
    """One input: its parts and their size in tokens."""

    rounds: tuple[Round, ...]
    tokens: int


def whole(rounds: Sequence[Round], room: int) -> Input:
    """Make the first input: everything, or what of it is estimated to fit into ``room`` tokens."""
    kept = tuple(rounds)
    size = size_of(kept)
    return Input(kept, size) if size <= room else shrink(kept, room)


def next_room(size: int, over: int, tried: int) -> int:
    """Choose the size of the next input.

    Args:
        size: tokens of the input that was refused, as we estimate them.
        over: tokens by which the API says it was over, 0 if it does not say.
        tried: inputs refused so far, from 1.

    Returns:
        Tokens, always fewer than ``size``.
    """
    up, down = _SHARES[min(tried, len(_SHARES)) - 1]
    if 0 < over < size:
        # A twentieth beside the gap: the API's tokens are not our estimates.
        return max(1, min((size - over) * 19 // 20, size - 1))
    return max(1, min(size * up // down, size - 1))


def shrink(rounds: Sequence[Round], room: int) -> Input:
    """Leave out the oldest rounds until ``room`` tokens are enough; cut the largest parts if one round is still too much."""
    kept = list(rounds)
    size = size_of(kept)
    gone = 0
    while size > room and len(kept) > 1:
        size -= size_of([kept.pop(0)])
        gone += 1
    if gone:
        kept.insert(0, _in_place_of(rounds[:gone], min(_GOAL_TOKENS, max(_LEAST_PART, room // 10))))
    return cut_parts(kept, room)


def _in_place_of(gone: Sequence[Round], tokens: int) -> Round:
    """Say how much is left out, and keep the first request: without it nobody knows what all this is for."""
    goal = next((item for parts in gone for item in parts if item.request), None)
    note = part("Note", LEFT_OUT.format(count=len(gone)))
    return (note,) if goal is None else (clip(goal, tokens), note)


def cut_parts(rounds: Sequence[Round], room: int) -> Input:
    """Cut the middle out of the largest parts until ``room`` tokens are enough, as far as that can be."""
    size = size_of(rounds)
    if size <= room:
        return Input(tuple(rounds), size)
    tokens = sorted((item.tokens for parts in rounds for item in parts), reverse=True)
    limit = _LEAST_PART
    # The highest limit for a part under which all parts together fit: what is small stays whole.
    rest = sum(tokens)
    for count, item in enumerate(tokens, start=1):
        rest -= item
        share = (room - rest) // count
        if share > 0 and (count == len(tokens) or share >= tokens[count]):
            limit = max(share, _LEAST_PART)
            break
    kept = tuple(tuple(clip(item, limit) for item in parts) for parts in rounds)
    return Input(kept, size_of(kept))


def pieces(rounds: Sequence[Round], room: int) -> tuple[Input, ...]:
    """Split a conversation into at most :data:`MAX_PIECES` inputs of about ``room`` tokens, oldest first.

    Parts larger than a piece are cut. Of a conversation that does not fit into that many, the oldest is left out.
    """
    groups: list[list[Part]] = [[]]
    filled = 0
    for item in (clip(item, room) for parts in rounds for item in parts):
        if groups[-1] and filled + item.tokens > room:
            groups.append([])
            filled = 0
        groups[-1].append(item)
        filled += item.tokens
    kept = groups[-MAX_PIECES:]
    if len(kept) < len(groups):
        gone = [tuple(group) for group in groups[:-MAX_PIECES]]
        kept[0] = [*_in_place_of(gone, max(_LEAST_PART, room // 10)), *kept[0]]
    return tuple(Input((tuple(group),), sum(item.tokens for item in group)) for group in kept if group)
