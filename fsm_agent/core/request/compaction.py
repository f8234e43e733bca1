"""The request for the API's own compaction: what was sent up to the protected tail, byte for byte (api-facts A9(3))."""

from __future__ import annotations

from bisect import bisect_right

from ..config import LoopConfig
from ..context.store import ContextState
from ..context.usage import static_tokens
from ..messages import Message
from ..wire import CHUNK, Request
from .build import marks_of
from .head import head_of, max_tokens


def compaction_request(
    view: tuple[Message, ...], start: int, context: ContextState, config: LoopConfig, model: str, instructions: str = ""
) -> Request | None:
    """Make the request that has the API compact what stands before the tail.

    Args:
        view: the view; ``context.sent`` remembers what was made of it.
        start: index of the first message that is kept; a round begins there.
        context: the memory of the layers.
        config: settings.
        model: the model in use; its capabilities decide.
        instructions: the user's wishes for the summary, empty for none.

    Returns:
        The request; None where the model has no such compaction, the configuration does not want it, or the messages
        before the tail cannot be told apart in what was sent.
    """
    sent = context.sent
    if not (config.context.api_compaction and config.info(model).api_compaction) or start <= 0 or sent.sources != view:
        return None
    # A cut on the border of two sent messages: only there the tail stays as it was sent.
    count = bisect_right(sent.ends, start)
    if count == 0 or sent.ends[count - 1] != start or sent.wires[count - 1].role == "assistant":
        return None
    wires = sent.wires[:count]
    estimate = static_tokens(config) + sum(wire.tokens for wire in wires)
    limit = max_tokens(config, model, None, estimate)
    head = head_of(config, model, context, limit, thinking=sent.thinking, compaction=instructions)
    return Request(
        model=model,
        max_tokens=limit,
        head=head.json,
        messages=wires,
        betas=head.betas,
        marks=marks_of(wires, 0) if config.prompt_caching else (),
        estimate=estimate,
        chunks=sent.chunks[: count // CHUNK],
    )
