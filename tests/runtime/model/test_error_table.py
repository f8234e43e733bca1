"""The table of error kinds, and what is read from an error's words and headers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.failures import ErrorKind
from fsm_agent.runtime.error_table import EXCEPTIONS, TABLE, classify_body, failure_of
from fsm_agent.runtime.error_text import MESSAGE_CHARS, bounded
from fsm_agent.runtime.retry_after import CEILING_MS, MAX_WAIT_MS, default_jitter, no_jitter, retry_after_ms


def body(message: str, kind: str = "invalid_request_error", code: str = "") -> dict[str, Any]:
    """Make the body of an error answer."""
    error: dict[str, Any] = {"type": kind, "message": message}
    if code:
        error["details"] = {"error_code": code}
    return {"type": "error", "error": error, "request_id": "req_1"}


STATUSES = [
    (400, ErrorKind.INVALID_REQUEST),
    (401, ErrorKind.AUTH),
    (402, ErrorKind.BILLING),
    (403, ErrorKind.AUTH),
    (404, ErrorKind.INVALID_REQUEST),
    (408, ErrorKind.TIMEOUT),
    (409, ErrorKind.CONFLICT),
    (412, ErrorKind.INVALID_REQUEST),
    (413, ErrorKind.MEDIA_TOO_LARGE),
    (422, ErrorKind.INVALID_REQUEST),
    (429, ErrorKind.RATE_LIMITED),
    (431, ErrorKind.INVALID_REQUEST),
    (500, ErrorKind.SERVER_ERROR),
    (501, ErrorKind.SERVER_ERROR),
    (502, ErrorKind.SERVER_ERROR),
    (503, ErrorKind.SERVER_ERROR),
    (504, ErrorKind.TIMEOUT),
    (529, ErrorKind.OVERLOADED),
    (307, ErrorKind.INVALID_REQUEST),
]


@pytest.mark.parametrize("answer", [None, "", "<!DOCTYPE html><html><head><title>Oops</title></head></html>", [], {}, "gone"])
@pytest.mark.parametrize(("status", "kind"), STATUSES)
def test_the_status_decides_where_the_body_says_nothing(status: int, kind: ErrorKind, answer: object) -> None:
    """Proxies answer with pages, nothing at all or odd JSON; the status alone gives the kind, and there are words."""
    found = classify_body(answer, status=status)
    assert found.kind is kind
    assert found.message
    assert "<" not in found.message


WORDS = [
    ("prompt is too long: 210000 tokens > 200000 maximum", ErrorKind.PROMPT_TOO_LONG, 10_000),
    ("prompt is too long: 210000 > 200000", ErrorKind.PROMPT_TOO_LONG, 10_000),
    ("Prompt is too long", ErrorKind.PROMPT_TOO_LONG, 0),
    (
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        ErrorKind.PROMPT_TOO_LONG,
        9_573,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        ErrorKind.PROMPT_TOO_LONG,
        808,
    ),
    ("the request (9000 tokens) exceeds the available context size (8192 tokens)", ErrorKind.PROMPT_TOO_LONG, 808),
    ("messages.0.content.0: Invalid `signature` in `thinking` block", ErrorKind.THINKING_INVALID, 0),
    ("INVALID SIGNATURE IN THINKING BLOCK", ErrorKind.THINKING_INVALID, 0),
    (
        "messages.3.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
        ErrorKind.THINKING_INVALID,
        0,
    ),
    ("Expected `thinking` or `redacted_thinking`, but found `text`.", ErrorKind.THINKING_INVALID, 0),
    ("messages.1: The final block in an assistant message cannot be `thinking`.", ErrorKind.THINKING_INVALID, 0),
    ("`max_tokens` must be greater than `thinking.budget_tokens`", ErrorKind.INVALID_REQUEST, 0),
    ("Your credit balance is too low to access the API", ErrorKind.BILLING, 0),
    ("You have reached your specified API usage limits. You will regain access on 2026-12-01", ErrorKind.BILLING, 0),
    ("tools.0.custom.input_schema: Input does not match the expected shape.", ErrorKind.INVALID_REQUEST, 0),
    ("Input tag 'image' found using 'type' does not match any of the expected tags", ErrorKind.INVALID_REQUEST, 0),
    ("Schemas contains too many optional parameters (25) (limit: 24).", ErrorKind.INVALID_REQUEST, 0),
]


@pytest.mark.parametrize(("message", "kind", "over"), WORDS)
@pytest.mark.parametrize("status", [400, 200], ids=["answer", "event"])
def test_words_decide_where_type_and_status_leave_it_open(message: str, kind: ErrorKind, over: int, status: int) -> None:
    """An invalid request is read by its wording, as an answer and as an event of a 200 stream; the gap is read too."""
    found = classify_body(body(message), status=status)
    assert (found.kind, found.over_tokens) == (kind, over)


@pytest.mark.parametrize("shape", [lambda m: m, lambda m: {"error": m}, lambda m: {"message": m}, lambda m: {"detail": m}])
def test_words_are_found_in_every_shape_of_body(shape: Any) -> None:
    """Plain strings and the shapes of other servers go to the same recovery (field report 56)."""
    assert classify_body(shape("invalid signature in thinking block"), status=400).kind is ErrorKind.THINKING_INVALID
    assert classify_body(shape("prompt is too long: 11 tokens > 5 maximum"), status=400).over_tokens == 6


MEDIA = [
    (
        "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
        ErrorKind.MEDIA_TOO_LARGE,
        "messages.3.content.1",
    ),
    (
        "messages.40.content.0.tool_result.content.1.image: At least one of the image dimensions exceed max allowed size for "
        "many-image requests: 2000 pixels",
        ErrorKind.MEDIA_TOO_LARGE,
        "messages.40.content.0",
    ),
    ("messages.2.content.5: A maximum of 100 PDF pages may be provided.", ErrorKind.MEDIA_TOO_LARGE, "messages.2.content.5"),
    ("Too many images and documents: 103 > 100", ErrorKind.MEDIA_TOO_LARGE, ""),
    ("messages.0.content.2: Could not process image", ErrorKind.MEDIA_UNREADABLE, "messages.0.content.2"),
    ("The PDF specified was not valid.", ErrorKind.MEDIA_UNREADABLE, ""),
    ("The PDF specified is password protected.", ErrorKind.MEDIA_UNREADABLE, ""),
    ("Image does not match the provided media type image/png", ErrorKind.MEDIA_UNREADABLE, ""),
    ("messages.0.content.0.image.source.base64: invalid base64 data", ErrorKind.MEDIA_UNREADABLE, "messages.0.content.0"),
]


@pytest.mark.parametrize(("message", "kind", "path"), MEDIA)
def test_media_errors_name_their_block(message: str, kind: ErrorKind, path: str) -> None:
    """Too large and unreadable media are told apart, and the block is named where the API names it."""
    found = classify_body(body(message), status=400)
    assert (found.kind, found.media_path) == (kind, path)


def test_code_goes_before_type_and_type_before_status() -> None:
    """The order of the columns: a code overrules the type, a type the status, and words come last."""
    assert classify_body(body("x", "rate_limit_error", "enforced_spend_limit_reached"), status=429).kind is ErrorKind.BILLING
    assert classify_body(body("x", code="image_dimensions_too_large"), status=400).kind is ErrorKind.MEDIA_TOO_LARGE
    assert classify_body(body("x", code="compaction_unavailable"), status=400).kind is ErrorKind.SERVER_ERROR
    assert classify_body(body("x", code="a_new_code"), status=400).kind is ErrorKind.INVALID_REQUEST
    assert classify_body(body("prompt is too long", "overloaded_error"), status=400).kind is ErrorKind.OVERLOADED
    assert classify_body(body("overloaded", "authentication_error"), status=500).kind is ErrorKind.AUTH


def test_should_retry_overrules_the_status() -> None:
    """``x-should-retry`` makes a 5xx final, a 429 a spend limit, and a 400 transient; case does not matter."""
    assert classify_body(None, status=503, headers={"X-Should-Retry": "false"}).kind is ErrorKind.FALLBACK_REQUESTED
    assert classify_body(None, status=429, headers={"x-should-retry": "false"}).kind is ErrorKind.BILLING
    assert classify_body(None, status=400, headers={"x-should-retry": "TRUE"}).kind is ErrorKind.SERVER_ERROR
    assert classify_body(None, status=401, headers={"x-should-retry": "false"}).kind is ErrorKind.AUTH


@given(
    st.integers(-5, 999),
    st.text(max_size=20),
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda x: (
            st.dictionaries(st.sampled_from(["error", "type", "message", "details", "error_code", "request_id"]), x)
            | st.lists(x)
        ),
    ),
)
def test_any_body_has_a_kind(status: int, text: str, answer: object) -> None:
    """Whatever status and body come, there is one kind and a bounded message."""
    for value in (text, answer):
        found = classify_body(value, status=status)
        assert found.kind in ErrorKind
        assert len(found.message) <= MESSAGE_CHARS


def test_the_table_takes_everything_and_reaches_its_kinds() -> None:
    """The last row has no condition, no other has none, and every kind that an answer can have is in the table."""
    assert [row for row in TABLE if not (row.codes or row.types or row.low or row.words)] == [TABLE[-1]]
    ours = {
        ErrorKind.STALLED,
        ErrorKind.NO_MESSAGE_STOP,
        ErrorKind.EMPTY_STREAM,
        ErrorKind.MALFORMED_STREAM,
        ErrorKind.ENGINE_ERROR,
        ErrorKind.MAX_OUTPUT_TOKENS,
    }
    assert {row.kind for row in TABLE} | ours == set(ErrorKind)


def test_every_named_exception_exists() -> None:
    """The names in the exception table are those of the installed libraries."""
    import builtins

    import anthropic
    import anyio
    import httpx2

    modules = {"anthropic": anthropic, "httpx2": httpx2, "anyio": anyio, "builtins": builtins}
    for name, kind in EXCEPTIONS.items():
        module, _, word = name.partition(".")
        cls = getattr(modules[module], word, None) or getattr(anthropic._exceptions, word, None)
        assert isinstance(cls, type), name
        if module in ("anyio", "builtins"):
            assert failure_of(cls("x")).kind is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionResetError("gone"), ErrorKind.CONNECTION_LOST),
        (TimeoutError("late"), ErrorKind.STALLED),
        (AssertionError(), ErrorKind.EMPTY_STREAM),
        (KeyError("x"), ErrorKind.ENGINE_ERROR),
        (ExceptionGroup("several", [OSError("one")]), ErrorKind.CONNECTION_LOST),
    ],
)
def test_exceptions_have_kinds(error: BaseException, kind: ErrorKind) -> None:
    """An exception is named by the nearest ancestor in the table; one that nothing names is a fault of ours."""
    assert failure_of(error).kind is kind
    assert failure_of(error).message


def test_secrets_are_masked_and_messages_bounded() -> None:
    """Keys never reach a message; megabytes never do either."""
    for text in (
        "key sk-ant-REDACTED refused",
        "Authorization: Bearer abcdefgh12345678",
        '{"x-api-key": "abcdef123456"}',
    ):
        assert "***" in bounded(text)
        assert "12345678" not in bounded(text)
        assert "abcdef123" not in bounded(text)
    assert len(bounded("x" * 5_000_000)) == MESSAGE_CHARS
    assert bounded("a\x00b\ud800") == "a b\ufffd"


NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3_000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": "0"}, 0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1_500),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9_000),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:05 GMT"}, 5_000),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": "1e30"}, MAX_WAIT_MS),
    ],
)
def test_retry_after(headers: dict[str, str], wait: int | None) -> None:
    """Milliseconds, seconds and dates are read; what makes no sense is as if the server had said nothing."""
    assert retry_after_ms(headers, now=lambda: NOW, jitter=no_jitter) == wait


@given(st.integers(0, 10 * CEILING_MS))
def test_jitter_never_waits_less_and_never_crosses_the_ceiling(wait: int) -> None:
    """Jitter adds at most a second, and does not turn a wait that the loop accepts into one that it refuses."""
    later = default_jitter(wait)
    assert wait <= later <= wait + 1_000
    assert wait > CEILING_MS or later <= CEILING_MS


@pytest.mark.parametrize("key", ["short", "my'key", 'my"key', "sk-ant-api03-abcdefgh"])
def test_refused_header_value_is_not_repeated(key: str) -> None:
    """The HTTP library names the header that it refuses in full; the failure does not, whatever the key looks like."""
    value = f"Bearer {key}\r\nrest-of-it".encode()
    words = failure_of(ValueError(f"Illegal header value {value!r}")).message
    assert "Illegal header value" in words
    assert key not in words
    assert "rest-of-it" not in words
