"""What error messages say beside their kind: sizes, places, secrets to hide, HTML to shorten."""

from __future__ import annotations

import re

from ..core.blocks import clean_text

MESSAGE_CHARS = 500
"""Characters of a message that a failure keeps."""

_SECRETS = re.compile(
    r"sk-[A-Za-z0-9_\-]{6,}"
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=\-]{6,}"
    r"|(?i:(?:x-api-key|api[_-]?key|authorization|auth[_-]?token))[\"']?\s*[:=]\s*[\"']?(?:(?i:bearer|basic)\s+)?[A-Za-z0-9._~+/=\-]{6,}"
)
_HEADER_VALUE = re.compile(r"(?i:illegal header value)\s+b?(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
"""The HTTP library shows the header that it refuses, whole; it may be the key, in any form."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]+")
_HTML = re.compile(r"^\s*(?:<!doctype|<html|<\?xml|<head|<body)", re.IGNORECASE)
_TITLE = re.compile(r"<(title|h1)[^>]*>(.{1,200}?)</\1>", re.IGNORECASE | re.DOTALL)
_MEDIA_PATH = re.compile(r"messages\.(\d+)\.content\.(\d+)")

_NUMBER = r"(\d[\d,_ ]*\d|\d)"
_SUM_OVER = re.compile(rf"{_NUMBER} ?\+ ?{_NUMBER} ?> ?{_NUMBER}")
_OVER = re.compile(rf"{_NUMBER}(?: (?:input |prompt )?tokens)? ?> ?{_NUMBER}")
_LIMIT_FIRST = re.compile(
    rf"(?:maximum|limit|window|size)[^\d]{{0,60}}{_NUMBER} ?tokens?"
    rf".{{0,80}}?(?:requested|resulted in|has|have|got)[^\d]{{0,20}}{_NUMBER}",
    re.IGNORECASE | re.DOTALL,
)
_LIMIT_LAST = re.compile(
    rf"{_NUMBER} ?(?:input |prompt )?(?:tokens?)?\)?[^\d]{{0,60}}(?:exceed|over|more than)[^\d]{{0,80}}{_NUMBER}",
    re.IGNORECASE | re.DOTALL,
)


def mask(text: str) -> str:
    """Hide what looks like a key or a token."""
    return _SECRETS.sub("***", _HEADER_VALUE.sub("Illegal header value *** (is there a line end in the key?)", text))


def bounded(text: str) -> str:
    """Make a message fit for a failure: masked, one kind of white space, at most :data:`MESSAGE_CHARS` characters."""
    # Cut first, so that a body of megabytes costs nothing, but not so close that a key could be cut in two.
    text = mask(clean_text(text[: MESSAGE_CHARS * 8]))
    text = _CONTROL.sub(" ", text).strip()
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1] + "…"


def short_body(body: object, status: int) -> str:
    """Say in a few words what a body without a message was."""
    if not isinstance(body, str) or not body.strip():
        return f"HTTP {status} without a message" if status != 200 else "an error without a message"
    if not _HTML.match(body):
        return body
    title = _TITLE.search(body[:20_000])
    words = " ".join(title.group(2).split()) if title else ""
    return f"HTTP {status}, a web page instead of an API answer" + (f": {words}" if words else "")


def media_path(message: str) -> str:
    """Give ``messages.N.content.M`` of the block that a message names, or an empty string."""
    found = _MEDIA_PATH.search(message)
    return found.group() if found else ""


def _int(digits: str) -> int:
    plain = re.sub(r"[,_ ]", "", digits)
    return int(plain) if len(plain) <= 12 else 0


def over_tokens(message: str) -> int:
    """Give the tokens by which a prompt was over, from the wording of the refusal; 0 if it does not say."""
    if found := _SUM_OVER.search(message):
        first, second, limit = (_int(part) for part in found.groups())
        return max(0, first + second - limit)
    if found := _OVER.search(message):
        size, limit = (_int(part) for part in found.groups())
        return max(0, size - limit)
    if found := _LIMIT_FIRST.search(message):
        limit, size = (_int(part) for part in found.groups())
        return max(0, size - limit)
    if found := _LIMIT_LAST.search(message):
        size, limit = (_int(part) for part in found.groups())
        return max(0, size - limit)
    return 0
