"""From what a server answered to what the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.blocks import dumps
from ...core.events import Outcome
from ..tools.base import ToolOutput
from ..tools.media import sniff

if TYPE_CHECKING:
    from mcp_types import CallToolResult

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_MEDIA = 5_000_000
"""Characters of base64 data of one image."""


def to_output(result: CallToolResult) -> ToolOutput:
    """Map an answer. Content that the API has no form for is named, not dropped in silence."""
    parts: list[dict[str, Any]] = []
    sizes: dict[str, tuple[int, int, int]] = {}
    for item in result.content:
        value = item.model_dump(by_alias=True, mode="json", exclude_none=True)
        parts.append(_part(value, sizes))
    if not parts and result.structured_content is not None:
        parts.append({"type": "text", "text": dumps(result.structured_content)})
    outcome = Outcome.ERROR if result.is_error else Outcome.OK
    if all(part["type"] == "text" for part in parts):
        return ToolOutput("\n".join(part["text"] for part in parts), outcome)
    return ToolOutput(tuple(parts), outcome, sizes=sizes)


def _part(value: dict[str, Any], sizes: dict[str, tuple[int, int, int]]) -> dict[str, Any]:
    kind = value.get("type")
    if kind == "text":
        return {"type": "text", "text": str(value.get("text", ""))}
    if kind == "image":
        return _image(str(value.get("data", "")), str(value.get("mimeType", "")), sizes)
    if kind == "resource":
        inner = value.get("resource", {})
        if "text" in inner:
            return _text(f"[resource {inner.get('uri', '')}]\n{inner['text']}")
        if inner.get("mimeType") in _IMAGES:
            return _image(str(inner.get("blob", "")), str(inner["mimeType"]), sizes)
        return _text(
            f"[resource {inner.get('uri', '')}: {len(str(inner.get('blob', '')))} characters of base64 data, not shown]"
        )
    if kind == "resource_link":
        return _text(f"[resource {value.get('uri', '')}: {value.get('title') or value.get('name', '')}]")
    size = len(str(value.get("data", "")))
    return _text(f"[{kind} {value.get('mimeType', '')}: {size} characters of base64 data, not shown]")


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _image(data: str, media_type: str, sizes: dict[str, tuple[int, int, int]]) -> dict[str, Any]:
    import base64
    import binascii

    if len(data) > MAX_MEDIA:
        return _text(f"[an image of {len(data)} characters of base64 data; at most {MAX_MEDIA} can be shown]")
    try:
        info = sniff(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        info = None
    # What the bytes are counts, not what the server calls them: the API looks at the bytes too.
    if info is None or info.media_type not in _IMAGES or not info.width or not info.height:
        return _text(f"[an image that is called {media_type[:40]} and cannot be read; not shown]")
    sizes[data[:64]] = (info.width, info.height, 0)
    return {"type": "image", "source": {"type": "base64", "media_type": info.media_type, "data": data}}
