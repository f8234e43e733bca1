"""Content blocks: their JSON text, made once, behind a small typed header (spec 01, section 1)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .frozen import frozen
from .tokens import RESULT_OVERHEAD, estimate_call, estimate_document, estimate_image, estimate_schema, estimate_text

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD, so that the text always encodes to UTF-8 (field report 82)."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A surrogate pair written as two code units is one character: join it before replacing what is left.
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _SURROGATE.sub("\ufffd", joined)
    return text


def dumps(value: Any) -> str:
    """Encode to compact strict JSON text; keys keep their order, lone surrogates become U+FFFD.

    Raises:
        ValueError: for NaN or an infinity.
        TypeError: for a value that JSON has no form for.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text if text.isascii() else clean_text(text)


@frozen
class Media:
    """Size of one image or document.

    Attributes:
        kind: ``image`` or ``document``.
        size: encoded size in bytes.
        width: pixels, 0 if unknown.
        height: pixels, 0 if unknown.
        pages: pages of a document, 0 if unknown.
    """

    kind: str
    size: int
    width: int = 0
    height: int = 0
    pages: int = 0


@frozen
class Block:
    """One content block: ``json`` is sent as it is, the other fields are a view of it.

    Attributes:
        type: the block's own word, known or not.
        json: the block's JSON text.
        tokens: estimated size in tokens.
        chars: characters of readable content.
        id: a call's own id; for a result, the id of the call that it answers.
        name: tool name of a call.
        blank: holds nothing that a reader could see (blank text); a tool result that holds blank text or nothing.
        signed: thinking that carries its signature.
        is_error: a tool result that reports an error.
        media: images and documents in it, nested ones too.
    """

    type: str
    json: str
    tokens: int
    chars: int = 0
    id: str = ""
    name: str = ""
    blank: bool = False
    signed: bool = False
    is_error: bool = False
    media: tuple[Media, ...] = ()

    @property
    def is_thinking(self) -> bool:
        """True for thinking, redacted or not."""
        return self.type in ("thinking", "redacted_thinking")


def _media_of(value: Mapping[str, Any], sizes: Mapping[str, tuple[int, int, int]] | None) -> Media | None:
    kind = value.get("type")
    if kind not in ("image", "document"):
        return None
    source = value.get("source")
    data = source.get("data") if isinstance(source, Mapping) else None
    text = data if isinstance(data, str) else ""
    width, height, pages = (sizes or {}).get(text[:64], (0, 0, 0))
    return Media(kind=str(kind), size=len(text), width=width, height=height, pages=pages)


def read_block(value: Mapping[str, Any], sizes: Mapping[str, tuple[int, int, int]] | None = None) -> Block:
    """Make a block from decoded JSON; unknown types and keys are kept as they are.

    Args:
        value: the block as a mapping.
        sizes: (width, height, pages) of media, by the first 64 characters of their base64 data.

    Returns:
        The block with its header.
    """
    kind = str(value.get("type", ""))
    text = dumps(value)
    if kind == "text":
        words = value.get("text")
        words = words if isinstance(words, str) else ""
        return Block(type=kind, json=text, tokens=estimate_text(words), chars=len(words), blank=not words.strip())
    if kind in ("thinking", "redacted_thinking"):
        words = value.get("thinking") or value.get("data") or ""
        signed = bool(value.get("signature")) if kind == "thinking" else bool(value.get("data"))
        size = estimate_text(str(words)) + (estimate_text(str(value.get("signature") or "")) if kind == "thinking" else 0)
        return Block(type=kind, json=text, tokens=size, chars=len(str(words)), signed=signed)
    if kind == "tool_result":
        return _read_result(value, text, sizes)
    media = _media_of(value, sizes)
    if media is not None:
        source = value.get("source")
        plain = source.get("data") if isinstance(source, Mapping) and source.get("type") == "text" else None
        if isinstance(plain, str):
            size = estimate_text(plain)
        elif media.kind == "image":
            size = estimate_image(media.width, media.height)
        else:
            size = estimate_document(media.pages)
        return Block(type=kind, json=text, tokens=size, media=(media,))
    identity = value.get("id") or value.get("tool_use_id") or ""
    name = value.get("name") or ""
    size = estimate_call(str(name), dumps(value.get("input"))) if kind == "tool_use" else estimate_schema(text)
    return Block(
        type=kind,
        json=text,
        tokens=size,
        chars=len(text),
        id=identity if isinstance(identity, str) else "",
        name=name if isinstance(name, str) else "",
    )


def _read_result(value: Mapping[str, Any], text: str, sizes: Mapping[str, tuple[int, int, int]] | None) -> Block:
    content = value.get("content")
    tokens = RESULT_OVERHEAD
    chars = 0
    media: tuple[Media, ...] = ()
    blank = not content
    if isinstance(content, str):
        tokens += estimate_text(content)
        chars = len(content)
        blank = not content.strip()
    elif isinstance(content, Sequence):
        for part in content:
            if isinstance(part, Mapping):
                inner = read_block(part, sizes)
                tokens += inner.tokens
                chars += inner.chars
                media += inner.media
                blank = blank or inner.blank
    return Block(
        type="tool_result",
        json=text,
        tokens=tokens,
        chars=chars,
        id=str(value.get("tool_use_id") or ""),
        blank=blank,
        is_error=bool(value.get("is_error")),
        media=media,
    )


def text_block(text: str) -> Block:
    """Make a text block."""
    text = clean_text(text)
    return Block(
        type="text",
        json='{"type":"text","text":' + dumps(text) + "}",
        tokens=estimate_text(text),
        chars=len(text),
        blank=not text.strip(),
    )


def tool_result(tool_use_id: str, content: str | Sequence[Mapping[str, Any]], *, is_error: bool = False) -> Block:
    """Make the result of one call; an empty or blank text is replaced by words, since the API refuses blank text."""
    if isinstance(content, str):
        content = content if content.strip() else "(no output)"
    value: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_use_id, "content": content}
    if is_error:
        value["is_error"] = True
    return read_block(value)


def tool_use(tool_use_id: str, name: str, input_json: str) -> Block:
    """Make a call block from its parts; ``input_json`` is the text of a JSON object."""
    text = f'{{"type":"tool_use","id":{dumps(tool_use_id)},"name":{dumps(name)},"input":{input_json}}}'
    size = estimate_call(name, input_json)
    return Block(type="tool_use", json=text, tokens=size, chars=len(text), id=tool_use_id, name=name)


def block_value(block: Block) -> Any:
    """Decode a block's JSON text; a text that is no JSON object, as a log may hold it that was made up, gives an empty one."""
    try:
        value = json.loads(block.json)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def block_text(block: Block) -> str:
    """Give the text of a text block, or an empty string for any other block."""
    if block.type != "text":
        return ""
    words = block_value(block).get("text")
    return words if isinstance(words, str) else ""
