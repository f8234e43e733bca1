"""Token counts of a view: the newest real usage, and estimates of what follows it (spec 01, section 8)."""

from __future__ import annotations

from collections.abc import Sequence

from ..config import LoopConfig
from ..memo import by_identity
from ..messages import Message
from ..rebuild import with_base
from ..request.prompt import system_texts, user_context
from ..tokens import MESSAGE_OVERHEAD, estimate_schema, estimate_text
from .store import ContextState, TokenBase


@by_identity
def static_tokens(config: LoopConfig) -> int:
    """Estimate system prompt and tool definitions, in tokens."""
    prompt = sum(estimate_text(text) + MESSAGE_OVERHEAD for text in system_texts(config))
    return prompt + sum(estimate_schema(tool.json) for tool in config.tools)


def user_context_tokens(config: LoopConfig) -> int:
    """Estimate the user context message, in tokens."""
    made = user_context(config)
    return made.tokens if made is not None else 0


def view_tokens(view: tuple[Message, ...], context: ContextState) -> int:
    """Sum the estimates of a view's messages; the tally's sum where it counted this very view."""
    if context.tally.view is view:
        return context.tally.tokens
    return sum(item.tokens for item in view)


def base_index(view: Sequence[Message], context: ContextState, model: str) -> int:
    """Find the message whose reply gave the newest usage; -1 if there is none of this model in the view."""
    base = context.base
    if base is None or base.model != model:
        return -1
    for index in range(len(view) - 1, -1, -1):
        if view[index].id == base.message_id:
            return index
    return -1


def count_view(view: tuple[Message, ...], context: ContextState, config: LoopConfig, model: str) -> tuple[int, int]:
    """Count a view in tokens.

    Returns:
        The count for the auto-compact test and the count for the hard limit. They differ only before the first usage:
        there the second one holds the user context too.
    """
    index = base_index(view, context, model)
    if index >= 0 and context.base is not None:
        tokens = context.base.tokens - context.freed
        for position in range(index + 1, len(view)):
            tokens += view[position].tokens
        tokens = max(tokens, 0)
        return tokens, tokens
    tokens = static_tokens(config) + view_tokens(view, context)
    return tokens, tokens + user_context_tokens(config)


def freed_by(old: tuple[Message, ...], new: tuple[Message, ...], context: ContextState) -> int:
    """Tell how many tokens a layer took from the part of the view that the base counts.

    What follows the base is estimated anew on each count, so it does not belong to ``freed``.
    """
    base = context.base
    if base is None:
        return 0
    sums = []
    for view in (old, new):
        total = 0
        for item in view:
            total += item.tokens
            if item.id == base.message_id:
                break
        else:
            return 0
        sums.append(total)
    return sums[0] - sums[1]


def with_usage(context: ContextState, model: str, message_id: str, tokens: int) -> ContextState:
    """Take a newer real usage as the base of counts.

    Args:
        context: the memory of the layers.
        model: the model that replied.
        message_id: the reply's message in the working list.
        tokens: prompt and reply together; 0 or less means unknown, and the older base stays (field report 3).

    Returns:
        The context with this base and nothing freed since.
    """
    if tokens <= 0:
        return context
    return with_base(context, TokenBase(model, message_id, tokens))
