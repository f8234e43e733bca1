"""The closed set of ways in which a model call fails, and what each kind allows (spec 01, section 10)."""

from __future__ import annotations

from enum import StrEnum

from .frozen import frozen


class ErrorKind(StrEnum):
    """What went wrong with a model call. The runtime maps every exception and status to one of these."""

    OVERLOADED = "overloaded"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    """408, 504."""
    CONFLICT = "conflict"
    """409."""
    SERVER_ERROR = "server_error"
    """Any other 5xx."""
    CONNECTION_LOST = "connection_lost"
    """Refused, reset, cut; also an attempt whose process died."""
    STALLED = "stalled"
    """No event but pings for longer than the watchdog allows."""
    NO_MESSAGE_STOP = "no_message_stop"
    """The stream ended cleanly before a stop reason came."""
    EMPTY_STREAM = "empty_stream"
    """A 200 answer without a message."""
    MALFORMED_STREAM = "malformed_stream"
    """Frames that are no events: bad JSON, a second message_start, a block that was never opened."""
    PROMPT_TOO_LONG = "prompt_too_long"
    MEDIA_TOO_LARGE = "media_too_large"
    """An image or document over a limit, or a body over the byte limit (413)."""
    MEDIA_UNREADABLE = "media_unreadable"
    THINKING_INVALID = "thinking_invalid"
    """The API objects to thinking blocks of the history (field reports 53 to 58)."""
    INVALID_REQUEST = "invalid_request"
    AUTH = "auth"
    """401 and 403."""
    BILLING = "billing"
    """402, and spend limits, which no wait mends."""
    MODEL_NOT_FOUND = "model_not_found"
    FALLBACK_REQUESTED = "fallback_requested"
    """The provider asks for another model."""
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    """A reply cut by the output limit, when no recovery is left."""
    ENGINE_ERROR = "engine_error"
    """A fault of ours: an exception that nothing above names."""


TRANSIENT_KINDS: frozenset[ErrorKind] = frozenset(
    {
        ErrorKind.OVERLOADED,
        ErrorKind.RATE_LIMITED,
        ErrorKind.TIMEOUT,
        ErrorKind.CONFLICT,
        ErrorKind.SERVER_ERROR,
        ErrorKind.CONNECTION_LOST,
        ErrorKind.STALLED,
        ErrorKind.NO_MESSAGE_STOP,
        ErrorKind.EMPTY_STREAM,
        ErrorKind.MALFORMED_STREAM,
    }
)
"""Kinds that the same request may survive a moment later."""

ABOUT_MESSAGES: frozenset[ErrorKind] = frozenset(
    {
        ErrorKind.PROMPT_TOO_LONG,
        ErrorKind.MEDIA_TOO_LARGE,
        ErrorKind.MEDIA_UNREADABLE,
        ErrorKind.THINKING_INVALID,
        ErrorKind.INVALID_REQUEST,
    }
)
"""Kinds that another model would refuse as well: never a reason to fall back."""

WITHHELD_KINDS: frozenset[ErrorKind] = frozenset({ErrorKind.PROMPT_TOO_LONG, ErrorKind.MEDIA_TOO_LARGE})


@frozen
class ModelFailure:
    """One failure of a model call, as data.

    Attributes:
        kind: the closed kind.
        message: what the API or the exception said, bounded, secrets masked.
        status: HTTP status, 0 if there was none.
        code: the API's ``error_code``, if any.
        type: the API's ``type``, if any.
        request_id: the API's request id, if any.
        retry_after_ms: milliseconds that the server asks to wait, jitter included; None if it does not say.
        over_tokens: tokens by which the prompt was over, 0 if unknown.
        media_path: ``messages.N.content.M`` of the medium that was refused, empty if it was not named.
    """

    kind: ErrorKind
    message: str = ""
    status: int = 0
    code: str = ""
    type: str = ""
    request_id: str = ""
    retry_after_ms: int | None = None
    over_tokens: int = 0
    media_path: str = ""
