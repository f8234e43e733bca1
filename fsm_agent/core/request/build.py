"""Building a request: only what is new is normalised and encoded; what was sent keeps its bytes (spec 02)."""

from __future__ import annotations

from ..config import LoopConfig
from ..context.store import ContextState, Sent
from ..context.usage import count_view
from ..frozen import frozen
from ..messages import Message
from ..rebuild import with_sent
from ..wire import Request, Unsendable, WireMessage
from .head import head_of, keeps_thinking, manual_only, max_tokens
from .sending import bring_up_to_date, manual_fits

__all__ = ["Built", "build", "max_tokens"]

_SECOND_MARK = 18
"""New blocks from which a second cache mark is put at the old tail; the API looks back 20 blocks from a mark."""


@frozen
class Built:
    """A request, and the memory of what it sends."""

    request: Request
    context: ContextState


def build(
    view: tuple[Message, ...],
    context: ContextState,
    config: LoopConfig,
    model: str,
    max_output_override: int | None = None,
    run_prefix: str = "",
    *,
    allow_prefill: bool = False,
    estimate: int | None = None,
) -> Built | Unsendable:
    """Make the request of a view.

    Args:
        view: the messages, as the pipeline left them.
        context: the memory of the layers.
        config: settings.
        model: the model that is called.
        max_output_override: an escalated output limit in tokens.
        run_prefix: unique prefix for ids; requests need none, so it is accepted and not used.
        allow_prefill: the last message may be the assistant's (a paused reply goes back as it is).
        estimate: tokens of the view, where they were counted already.

    Returns:
        The request with the context that remembers it, or what makes it impossible. Never raises for any messages.
    """
    info = config.info(model)
    wanted = keeps_thinking(config, info) and not context.drop_thinking
    front = context.tally.front if context.tally.view is view else ()
    sent = bring_up_to_date(context.sent, view, config, info, keeps=wanted, front=front)
    possible = not wanted or not manual_only(config, info) or manual_fits(sent.wires)
    if not possible:
        sent = bring_up_to_date(context.sent, view, config, info, keeps=False, front=front)
    fault = _fault(sent, view, allow_prefill)
    if fault is not None:
        return fault
    if estimate is None:
        _, estimate = count_view(view, context, config, model)
    limit = max_tokens(config, model, max_output_override, estimate)
    head = head_of(config, model, context, limit, thinking=sent.thinking if possible else None)
    request = Request(
        model=model,
        max_tokens=limit,
        head=head.json,
        messages=sent.wires,
        betas=head.betas,
        marks=marks_of(sent.wires, len(context.sent.wires)) if config.prompt_caching else (),
        estimate=estimate,
        chunks=sent.chunks,
    )
    return Built(request, with_sent(context, sent))


def _fault(sent: Sent, view: tuple[Message, ...], allow_prefill: bool) -> Unsendable | None:
    last = view[-1].id if view else ""
    if not sent.wires:
        return Unsendable(message_id=last, rule="no message has content that could be sent")
    if sent.wires[-1].role == "assistant" and not allow_prefill:
        return Unsendable(message_id=last, rule="the last message must be from the user")
    return None


def marks_of(wires: tuple[WireMessage, ...], before: int) -> tuple[tuple[int, int], ...]:
    """Place cache marks: on the tail, and on the old tail where so much is new that the look-back would miss it.

    Args:
        wires: what is sent.
        before: how many of them were sent before.

    Returns:
        (message, block) of each mark.
    """
    tail = _mark_at(wires, len(wires) - 1)
    marks = [tail] if tail is not None else []
    if 0 < before < len(wires) and sum([wire.blocks for wire in wires[before:]]) >= _SECOND_MARK:
        old = _mark_at(wires, before - 1)
        if old is not None and old not in marks:
            marks.insert(0, old)
    return tuple(marks)


def _mark_at(wires: tuple[WireMessage, ...], index: int) -> tuple[int, int] | None:
    while index >= 0:
        offsets = wires[index].offsets
        for block in range(len(offsets) - 1, -1, -1):
            if offsets[block]:
                return index, block
        index -= 1
    return None
