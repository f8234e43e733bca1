"""The constant texts of a request: system prompt, system context, user context (spec 02, building the request)."""

from __future__ import annotations

from hashlib import sha256

from ..blocks import clean_text, text_block
from ..config import LoopConfig
from ..memo import by_identity
from ..messages import Message, MessageKind, message

USER_CONTEXT_ID = "user-context"

_FRAME = (
    "<system-reminder>\n"
    "The following was provided with the conversation. It may or may not be relevant to what the user asks; use it "
    "where it helps and do not mention it otherwise.\n\n{}\n</system-reminder>"
)


@by_identity
def system_texts(config: LoopConfig) -> tuple[str, ...]:
    """Give the texts of the system prompt: its parts, then one with the ``key: value`` lines of the system context."""
    parts = [clean_text(part) for part in config.system if part.strip()]
    lines = "\n".join(f"{key}: {value}" for key, value in config.system_context)
    if lines.strip():
        parts.append(clean_text(lines))
    return tuple(parts)


@by_identity
def user_context_key(config: LoopConfig) -> str:
    """Name the user context by its digest; it may differ from run to run of a session."""
    return sha256(config.user_context.encode("utf-8", "replace")).hexdigest()[:16] if config.user_context else "-"


@by_identity
def user_context(config: LoopConfig) -> Message | None:
    """Give the meta message that puts memory files in front of the conversation, or None if there are none."""
    if not config.user_context.strip():
        return None
    block = text_block(_FRAME.format(config.user_context.strip("\n")))
    return message(USER_CONTEXT_ID, "user", MessageKind.META, (block,))
