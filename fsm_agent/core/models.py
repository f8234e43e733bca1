"""What a model can do, as data; no code tests a model's name (spec 02). Thresholds of its window (spec 01, section 8)."""

from __future__ import annotations

from .frozen import frozen


@frozen
class ModelInfo:
    """Capabilities, limits and prices of one model.

    Attributes:
        name: the model's name.
        context_window: tokens.
        max_output: tokens.
        thinking: kinds that it accepts: ``adaptive``, ``enabled``, ``disabled``, ``between_tools``.
        thinking_default: it thinks when not told to.
        binds_thinking: its thinking blocks are bound to model and history (api-facts A8).
        system_messages: takes a ``system`` role inside ``messages``.
        prefill: takes a trailing assistant message.
        forced_tool_choice: takes ``tool_choice`` any or tool.
        context_edits: takes clearing edits.
        api_compaction: takes on-demand compaction.
        efforts: effort levels that it takes.
        max_media: images and documents a request.
        max_media_bytes: encoded bytes of one medium.
        max_media_pixels: pixels of a side.
        max_body_bytes: bytes of a request.
        image_tokens: tokens that one image costs at most.
        input_price: micro-dollars for a million input tokens.
        output_price: micro-dollars for a million output tokens.
        known: False for the safe defaults of an unknown model.
    """

    name: str
    context_window: int = 200_000
    max_output: int = 64_000
    thinking: tuple[str, ...] = ()
    thinking_default: bool = False
    binds_thinking: bool = False
    system_messages: bool = False
    prefill: bool = False
    forced_tool_choice: bool = True
    context_edits: bool = False
    api_compaction: bool = False
    efforts: tuple[str, ...] = ()
    max_media: int = 100
    max_media_bytes: int = 5_000_000
    max_media_pixels: int = 8_000
    max_body_bytes: int = 32_000_000
    image_tokens: int = 4_784
    input_price: int = 0
    output_price: int = 0
    known: bool = True


@frozen
class Thresholds:
    """Token limits of one model's window.

    Attributes:
        effective_window: what a prompt may fill.
        auto_compact_at: from here on a compaction is due.
        blocking_limit: from here on no call is made.
        stage_at: from here on collapses are staged.
        commit_at: from here on staged collapses are committed.
        snip_at: from here on old rounds are snipped.
    """

    effective_window: int
    auto_compact_at: int
    blocking_limit: int
    stage_at: int
    commit_at: int
    snip_at: int
