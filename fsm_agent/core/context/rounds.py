"""Rounds of a view: where they begin, what stands before them, which request is the newest.

A round is one assistant reply with all that follows it up to the next reply. Cuts fall between rounds only, so a call is
never separated from its result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..messages import REAL_REQUESTS, UNSENT_KINDS, Message


def begins_round(view: Sequence[Message], index: int) -> bool:
    """Tell whether a round begins at ``index``: a reply that does not go on with the reply before it."""
    if view[index].role != "assistant":
        return False
    before = index - 1
    while before >= 0 and view[before].kind in UNSENT_KINDS:
        before -= 1
    return before < 0 or view[before].role != "assistant"


def tail_start(view: Sequence[Message], rounds: int) -> int:
    """Find where the last ``rounds`` rounds begin.

    Returns:
        The index of the first message of these rounds; the first round's where there are fewer; the length of the view
        for 0 rounds or a view without replies.
    """
    found = len(view)
    if rounds <= 0:
        return found
    for index in range(len(view) - 1, -1, -1):
        if begins_round(view, index):
            found = index
            rounds -= 1
            if rounds == 0:
                break
    return found


def newest_request(view: Sequence[Message]) -> int:
    """Find the newest real user request; -1 if there is none."""
    for index in range(len(view) - 1, -1, -1):
        if view[index].kind in REAL_REQUESTS:
            return index
    return -1


def first_request(view: Sequence[Message]) -> int:
    """Find the first real user request; -1 if there is none."""
    for index, item in enumerate(view):
        if item.kind in REAL_REQUESTS:
            return index
    return -1


def call_names(view: Sequence[Message], start: int) -> dict[str, str]:
    """Map tool_use ids to tool names for calls that results at ``start`` and later may answer."""
    while start > 0 and view[start - 1].role == "assistant":
        start -= 1
    names: dict[str, str] = {}
    for index in range(start, len(view)):
        item = view[index]
        if item.role == "assistant":
            for block in item.blocks:
                if block.type == "tool_use":
                    names[block.id] = block.name
    return names


def idle(view: Sequence[Message]) -> bool:
    """Tell whether the view ends with a finished reply: nothing is under way."""
    for item in reversed(view):
        if item.kind in UNSENT_KINDS:
            continue
        return item.role == "assistant" and not item.calls
    return False
