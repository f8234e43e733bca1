"""Reading the body of an error answer: the shapes that servers of this API use."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen


@frozen
class ErrorParts:
    """What a body says; all empty if it says nothing.

    Attributes:
        type: the API's ``type``.
        code: the API's ``error_code``.
        message: its words.
        request_id: the API's request id.
    """

    type: str = ""
    code: str = ""
    message: str = ""
    request_id: str = ""


def read_parts(body: object) -> ErrorParts:
    """Read the shapes that servers of this API use: ours, a bare error object, a message alone, a plain string."""
    if isinstance(body, str):
        body = _decoded(body)
    if not isinstance(body, Mapping):
        return ErrorParts()
    error = body.get("error")
    request_id = _text(body.get("request_id"))
    if isinstance(error, str):
        return ErrorParts(message=error, request_id=request_id)
    if not isinstance(error, Mapping):
        outer = _text(body.get("type"))
        words = _text(body.get("message")) or _text(body.get("detail"))
        return ErrorParts(type="" if outer == "error" else outer, message=words, request_id=request_id)
    details = error.get("details")
    code = _text(details.get("error_code")) if isinstance(details, Mapping) else ""
    return ErrorParts(
        type=_text(error.get("type")),
        code=code or _text(error.get("error_code")),
        message=_text(error.get("message")),
        request_id=request_id,
    )


def _decoded(text: str) -> object:
    try:
        return json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
