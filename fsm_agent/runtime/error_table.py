"""One table from what the API or a library said to the closed set of error kinds (spec 03, api-facts A15).

A row is matched by ``error_code`` first, then ``type``, then status; wording decides only where those leave it open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from ..core.failures import ErrorKind, ModelFailure
from .error_body import read_parts
from .error_text import bounded, media_path, over_tokens, short_body
from .retry_after import Jitter, default_jitter, retry_after_ms


@frozen
class Row:
    """One row: every column that is filled must match.

    Attributes:
        kind: what it is.
        codes: the API's ``error_code``.
        types: the API's ``type``.
        low: lowest status.
        high: highest status; 0 for ``low`` alone.
        words: pattern to be found in the message.
    """

    kind: ErrorKind
    codes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    low: int = 0
    high: int = 0
    words: re.Pattern[str] | None = field(default=None)

    def holds(self, status: int, kind: str, code: str, message: str) -> bool:
        """Tell whether the row matches."""
        if self.codes and code not in self.codes:
            return False
        if self.types and kind not in self.types:
            return False
        if self.low and not self.low <= status <= (self.high or self.low):
            return False
        return self.words is None or self.words.search(message) is not None


def _words(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), re.IGNORECASE | re.DOTALL)


_TOO_LONG = _words(
    r"prompt\W+is too long",
    r"input (?:length|is too long)",
    r"exceeds? (?:the )?(?:model'?s? )?(?:maximum |available )?context",
    r"context (?:length|window|limit)\W.{0,80}(?:exceed|too (?:long|large)|maximum)",
    r"(?:exceed|maximum).{0,80}context (?:length|window|limit|size)",
    r"too many (?:input |prompt |total )?tokens",
    r"(?:exceeds?|over|reduce) .{0,60}(?:token limit|maximum number of tokens)",
)
_THINKING = _words(
    r"thinking.{0,200}cannot be modified",
    r"invalid\W+signature\W+in\W+thinking",
    r"thinking.{0,80}(?:invalid|missing|bad)\W+signature|signature\W.{0,40}(?:field required|is required)",
    r"expected\W+(?:thinking|redacted_thinking)\b.{0,80}found",
    r"final block\b.{0,80}\bcannot be\W+thinking",
    r"must start with a\W+thinking\W+block",
    r"thinking.{0,120}bound to a different",
)
_MEDIA = r"(?:images?|pdfs?|documents?|media)\b"
_UNREADABLE = _words(
    rf"(?:could not|cannot|can't|failed to|unable to) (?:process|decode|read|load|parse|open).{{0,40}}{_MEDIA}",
    rf"{_MEDIA}.{{0,80}}(?:corrupt|damaged|not valid|invalid|unreadable|password|encrypted|empty|could not be)",
    rf"(?:invalid|unsupported|corrupt(?:ed)?|malformed) {_MEDIA}",
    rf"{_MEDIA}.{{0,80}}(?:does not match the .{{0,20}}media.?type|unsupported|not supported)",
    r"(?:source\.base64|image|document|pdf).{0,80}invalid base64|invalid base64.{0,80}(?:image|document|pdf)",
)
_TOO_LARGE = _words(
    rf"{_MEDIA}.{{0,160}}(?:exceed|too (?:large|big|many)|larger than|maximum|at most|limit)",
    rf"(?:too many|too large|exceeds? .{{0,40}}|maximum of \d+|at most \d+).{{0,40}}{_MEDIA}",
    r"maximum of \d+ pdf pages",
    r"request (?:body )?(?:exceeds|is too large)|(?:payload|entity|content|body) too large|request_too_large",
)
_SPEND = _words(
    r"credit balance",
    r"spend(?:ing)?(?: |_)(?:limit|cap)",
    r"usage limits?\b.{0,80}(?:regain|reached)",
    r"reached your .{0,40}usage limit",
    r"billing (?:account|details|information|issue|is)",
    r"insufficient (?:funds|quota|credit)",
)
_NO_MODEL = _words(
    r"^\W*model\b\s*[:'\"`]",
    r"\bmodel\b.{0,120}(?:not found|not exist|does not exist|no such|unknown|retired|not available|end.of.life)",
    r"(?:no such|unknown|invalid) model|no model named",
)
_OTHER_MODEL = _words(r"(?:use|try|switch to|choose) (?:a different|another|an alternative) model")
_BUSY = _words(r"overloaded", r"over capacity|at capacity")

TABLE: tuple[Row, ...] = (
    # error_code
    Row(
        ErrorKind.BILLING,
        codes=(
            "contract_spend_limit_reached",
            "enforced_spend_limit_reached",
            "linked_organization_spend_limit_reached",
            "linked_organization_billing_unavailable",
            "user_profile_not_billable",
            "user_profile_billing_not_authorized",
        ),
    ),
    Row(ErrorKind.RATE_LIMITED, codes=("ramp_limit_exceeded",)),
    Row(
        ErrorKind.AUTH,
        codes=(
            "organization_on_hold",
            "organization_type_not_supported",
            "parent_organization_required",
            "claude_code_key_creator_not_member",
            "region_not_supported",
            "cmek_key_disabled",
            "cmek_key_network_blocked",
            "organization_not_enrolled_in_beta",
        ),
    ),
    Row(ErrorKind.MEDIA_TOO_LARGE, codes=("image_dimensions_too_large", "request_body_too_large_after_decoding")),
    Row(ErrorKind.MEDIA_UNREADABLE, codes=("file_expired", "file_not_downloadable")),
    Row(ErrorKind.TIMEOUT, codes=("request_body_timeout",)),
    Row(ErrorKind.SERVER_ERROR, codes=("compaction_unavailable", "cmek_key_unreachable", "cmek_context_unavailable")),
    Row(ErrorKind.CONFLICT, codes=("thread_continue_in_flight",)),
    # type
    Row(ErrorKind.OVERLOADED, types=("overloaded_error",)),
    Row(ErrorKind.BILLING, types=("rate_limit_error",), words=_SPEND),
    Row(ErrorKind.RATE_LIMITED, types=("rate_limit_error",)),
    Row(ErrorKind.AUTH, types=("authentication_error", "permission_error")),
    Row(ErrorKind.BILLING, types=("billing_error",)),
    Row(ErrorKind.TIMEOUT, types=("timeout_error",)),
    Row(ErrorKind.CONFLICT, types=("conflict_error",)),
    Row(ErrorKind.PROMPT_TOO_LONG, types=("request_too_large",), words=_TOO_LONG),
    Row(ErrorKind.MEDIA_TOO_LARGE, types=("request_too_large",)),
    Row(ErrorKind.MODEL_NOT_FOUND, types=("not_found_error",), words=_NO_MODEL),
    Row(ErrorKind.INVALID_REQUEST, types=("not_found_error",)),
    Row(ErrorKind.PROMPT_TOO_LONG, types=("api_error",), low=400, high=413, words=_TOO_LONG),
    Row(ErrorKind.SERVER_ERROR, types=("api_error",)),
    # status, where it says enough
    Row(ErrorKind.AUTH, low=401),
    Row(ErrorKind.AUTH, low=403),
    Row(ErrorKind.BILLING, low=402),
    Row(ErrorKind.TIMEOUT, low=408),
    Row(ErrorKind.CONFLICT, low=409),
    Row(ErrorKind.BILLING, low=429, words=_SPEND),
    Row(ErrorKind.RATE_LIMITED, low=429),
    Row(ErrorKind.CONNECTION_LOST, low=499),
    Row(ErrorKind.TIMEOUT, low=504),
    Row(ErrorKind.OVERLOADED, low=529),
    Row(ErrorKind.OVERLOADED, low=503, words=_BUSY),
    Row(ErrorKind.FALLBACK_REQUESTED, low=500, high=599, words=_OTHER_MODEL),
    Row(ErrorKind.SERVER_ERROR, low=500, high=599),
    # wording, where type and status leave it open
    Row(ErrorKind.THINKING_INVALID, words=_THINKING),
    Row(ErrorKind.PROMPT_TOO_LONG, words=_TOO_LONG),
    Row(ErrorKind.MEDIA_TOO_LARGE, low=413),
    Row(ErrorKind.BILLING, words=_SPEND),
    Row(ErrorKind.MEDIA_TOO_LARGE, words=_TOO_LARGE),
    Row(ErrorKind.MEDIA_UNREADABLE, words=_UNREADABLE),
    Row(ErrorKind.MODEL_NOT_FOUND, low=404, words=_NO_MODEL),
    Row(
        ErrorKind.MODEL_NOT_FOUND,
        low=400,
        words=_words(r"(?:no such|unknown|invalid) model|model\b.{0,80}(?:not found|not exist)"),
    ),
    Row(ErrorKind.FALLBACK_REQUESTED, low=400, high=499, words=_OTHER_MODEL),
    Row(ErrorKind.INVALID_REQUEST, types=("invalid_request_error",)),
    Row(ErrorKind.INVALID_REQUEST, low=300, high=498),
    # an error event in a 200 stream, of a type that is not known: the request itself had been accepted
    Row(ErrorKind.OVERLOADED, low=200, words=_BUSY),
    Row(ErrorKind.SERVER_ERROR),
)
"""First match decides; the last row takes what is left."""

# Library exceptions by name, so that no SDK is imported to ask. First match along the class's own ancestors.
EXCEPTIONS: Mapping[str, ErrorKind] = {
    "anthropic.CredentialsError": ErrorKind.AUTH,
    "anthropic.APIResponseValidationError": ErrorKind.MALFORMED_STREAM,
    "anthropic.APITimeoutError": ErrorKind.STALLED,
    "anthropic.APIConnectionError": ErrorKind.CONNECTION_LOST,
    "anthropic.RetryableError": ErrorKind.SERVER_ERROR,
    "httpx2.ConnectTimeout": ErrorKind.CONNECTION_LOST,
    "httpx2.PoolTimeout": ErrorKind.CONNECTION_LOST,
    "httpx2.TimeoutException": ErrorKind.STALLED,
    "httpx2.UnsupportedProtocol": ErrorKind.INVALID_REQUEST,
    "httpx2.LocalProtocolError": ErrorKind.INVALID_REQUEST,
    "httpx2.InvalidURL": ErrorKind.INVALID_REQUEST,
    "httpx2.TooManyRedirects": ErrorKind.INVALID_REQUEST,
    "httpx2.DecodingError": ErrorKind.MALFORMED_STREAM,
    "httpx2.TransportError": ErrorKind.CONNECTION_LOST,
    "httpx2.StreamError": ErrorKind.CONNECTION_LOST,
    "anyio.BrokenResourceError": ErrorKind.CONNECTION_LOST,
    "anyio.ClosedResourceError": ErrorKind.CONNECTION_LOST,
    "anyio.EndOfStream": ErrorKind.CONNECTION_LOST,
    "builtins.TimeoutError": ErrorKind.STALLED,
    "builtins.OSError": ErrorKind.CONNECTION_LOST,
    # What the SDK's own stream raises for a 200 answer without events.
    "builtins.AssertionError": ErrorKind.EMPTY_STREAM,
}


def failure(kind: ErrorKind, message: str, **more: Any) -> ModelFailure:
    """Make a failure; its message is bounded and its secrets are masked."""
    return ModelFailure(kind=kind, message=bounded(message), **more)


def classify(status: int, kind: str, code: str, message: str) -> ErrorKind:
    """Look up the kind of an answer by status (0 or 200 if there is no telling one), ``type``, ``error_code`` and wording."""
    for row in TABLE:
        if row.holds(status, kind, code, message):
            return row.kind
    raise AssertionError("the last row takes everything")  # pragma: no cover


def classify_body(
    body: object,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    request_id: str = "",
    jitter: Jitter = default_jitter,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> ModelFailure:
    """Make the failure of an error answer.

    Args:
        body: decoded JSON, or the text of the body, or None.
        status: HTTP status; 200 for an error event in a stream.
        headers: of the answer, keys in any case.
        request_id: the API's request id, if the body names none.
        jitter: what makes of the milliseconds asked for those that are waited.
        now: the time, for a ``retry-after`` that is a date.

    Returns:
        The failure. Never raises for what the body holds.
    """
    values = {key.lower(): value for key, value in (headers or {}).items()}
    parts = read_parts(body)
    message = parts.message or short_body(body, status)
    kind = _advised(classify(status, parts.type, parts.code, message), values.get("x-should-retry"), status)
    wait = retry_after_ms(values, now=now, jitter=jitter)
    return failure(
        kind,
        message,
        status=status,
        code=parts.code,
        type=parts.type,
        request_id=parts.request_id or values.get("request-id", "") or request_id,
        retry_after_ms=wait,
        over_tokens=over_tokens(message) if kind is ErrorKind.PROMPT_TOO_LONG else 0,
        media_path=media_path(message) if kind in (ErrorKind.MEDIA_TOO_LARGE, ErrorKind.MEDIA_UNREADABLE) else "",
    )


def failure_of(error: BaseException, jitter: Jitter = default_jitter) -> ModelFailure:
    """Make the failure of an exception that came out of the SDK, the HTTP library or the socket."""
    if isinstance(error, BaseExceptionGroup):
        return failure_of(error.exceptions[0], jitter)
    response = getattr(error, "response", None)
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and response is not None and "anthropic.APIStatusError" in _names(type(error)):
        return classify_body(getattr(error, "body", None), status=status, headers=response.headers, jitter=jitter)
    if isinstance(error, TypeError) and "authentication method" in str(error):
        return failure(ErrorKind.AUTH, "no API key: set ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN, or pass one")
    cause = error.__cause__
    if cause is not None and "anthropic.APIConnectionError" in _names(type(error)):
        deeper = failure_of(cause, jitter)
        return deeper if deeper.kind is not ErrorKind.ENGINE_ERROR else failure(ErrorKind.CONNECTION_LOST, deeper.message)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    for name in _names(type(error)):
        if name in EXCEPTIONS:
            return failure(EXCEPTIONS[name], words)
    return failure(ErrorKind.ENGINE_ERROR, words)


def _names(cls: type) -> tuple[str, ...]:
    return tuple(f"{parent.__module__.partition('.')[0]}.{parent.__name__}" for parent in cls.__mro__)


_FINAL_KINDS = frozenset({ErrorKind.SERVER_ERROR, ErrorKind.OVERLOADED, ErrorKind.TIMEOUT, ErrorKind.CONFLICT})


def _advised(kind: ErrorKind, advice: str | None, status: int) -> ErrorKind:
    """Obey ``x-should-retry``, which overrides what the status alone would mean."""
    word = (advice or "").strip().lower()
    if word == "false" and status == 429 and kind is ErrorKind.RATE_LIMITED:
        return ErrorKind.BILLING  # A limit that no wait mends is a spend limit.
    if word == "false" and kind in _FINAL_KINDS:
        return ErrorKind.FALLBACK_REQUESTED  # This request is lost here; only another model may take it.
    if word == "true" and kind is ErrorKind.INVALID_REQUEST:
        return ErrorKind.SERVER_ERROR
    return kind
