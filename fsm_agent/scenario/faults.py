"""How each kind of failure looks: the one table behind all three ways of playing a scenario (api-facts A4, A15)."""

from __future__ import annotations

from attrs import frozen

from ..core.failures import ErrorKind, ModelFailure
from .answers import Failing


@frozen
class Look:
    """What the API sends for one kind of failure.

    Attributes:
        status: the HTTP status; 0 for a failure of the connection or of the stream.
        type: the API's ``type``.
        message: its usual words.
    """

    status: int
    type: str
    message: str


LOOKS: dict[ErrorKind, Look] = {
    ErrorKind.OVERLOADED: Look(529, "overloaded_error", "Overloaded"),
    ErrorKind.RATE_LIMITED: Look(429, "rate_limit_error", "This request would exceed your rate limit"),
    ErrorKind.TIMEOUT: Look(504, "timeout_error", "The request timed out"),
    ErrorKind.CONFLICT: Look(409, "conflict_error", "The request conflicts with another one"),
    ErrorKind.SERVER_ERROR: Look(500, "api_error", "Internal server error"),
    ErrorKind.CONNECTION_LOST: Look(0, "", "the connection was lost"),
    ErrorKind.STALLED: Look(0, "", "no event came for too long"),
    ErrorKind.NO_MESSAGE_STOP: Look(0, "", "the stream ended without a stop reason"),
    ErrorKind.EMPTY_STREAM: Look(0, "", "the stream held no message"),
    ErrorKind.MALFORMED_STREAM: Look(0, "", "the stream held frames that are no events"),
    ErrorKind.PROMPT_TOO_LONG: Look(400, "invalid_request_error", "prompt is too long"),
    ErrorKind.MEDIA_TOO_LARGE: Look(413, "request_too_large", "Request exceeds the maximum size"),
    ErrorKind.MEDIA_UNREADABLE: Look(400, "invalid_request_error", "Could not process image"),
    ErrorKind.THINKING_INVALID: Look(
        400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"
    ),
    ErrorKind.INVALID_REQUEST: Look(400, "invalid_request_error", "messages: this request is not valid"),
    ErrorKind.AUTH: Look(401, "authentication_error", "invalid key"),
    ErrorKind.BILLING: Look(402, "billing_error", "Your credit balance is too low"),
    ErrorKind.MODEL_NOT_FOUND: Look(404, "not_found_error", "model: not found"),
    ErrorKind.FALLBACK_REQUESTED: Look(0, "", "the provider asks for another model"),
    ErrorKind.ENGINE_ERROR: Look(0, "", "an exception of the scenario"),
}
"""Every kind, so that none is forgotten."""

_EXAMPLE_LIMIT = 200_000


def words_of(failing: Failing) -> str:
    """Give the API's words for a failure; a prompt that is too long says by how many tokens."""
    if failing.message:
        return failing.message
    if failing.kind is ErrorKind.PROMPT_TOO_LONG and failing.over_tokens:
        over = _EXAMPLE_LIMIT + failing.over_tokens
        return f"prompt is too long: {over} tokens > {_EXAMPLE_LIMIT} maximum"
    if failing.kind is ErrorKind.MEDIA_TOO_LARGE and failing.media_path:
        return f"{failing.media_path}.image.source.base64: image exceeds 5 MB maximum"
    return LOOKS[failing.kind].message


def look_of(failing: Failing) -> Look:
    """Give status and type of a failure; a medium that is named is refused with 400, a whole body with 413."""
    if failing.kind is ErrorKind.MEDIA_TOO_LARGE and failing.media_path:
        return Look(400, "invalid_request_error", words_of(failing))
    return LOOKS[failing.kind]


def failure_of(failing: Failing) -> ModelFailure:
    """Give the failure as the model caller would report it."""
    look = look_of(failing)
    return ModelFailure(
        kind=failing.kind,
        message=words_of(failing),
        status=look.status,
        type=look.type,
        retry_after_ms=failing.retry_after_ms,
        over_tokens=failing.over_tokens,
        media_path=failing.media_path,
    )
