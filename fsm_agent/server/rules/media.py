"""Rules on sizes: bytes of the body, images, documents (api-facts A20)."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from .base import Breach, Rule, Wire, at, rule

_MANY = 20
_MANY_PIXELS = 2_000
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@rule("body_size", "api-facts A20", decides=True)
def body_size(wire: Wire) -> Iterator[Breach]:
    """The body is within the byte limit."""
    if wire.size > wire.info.max_body_bytes:
        yield Breach("body_size", "Request exceeds the maximum size", type="request_too_large", status=413)


def _media(wire: Wire) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Give all images and documents with their places, those in results too."""
    for turn in wire.turns:
        for message, place, block in turn.blocks:
            if block.get("type") in ("image", "document"):
                yield at(message, place), block
            content = block.get("content") if block.get("type") == "tool_result" else None
            for deep, part in enumerate(content if isinstance(content, list) else ()):
                if isinstance(part, Mapping) and part.get("type") in ("image", "document"):
                    yield at(message, place, f"content.{deep}"), part


@rule("media", "api-facts A20, wire checker 7")
def media(wire: Wire) -> Iterator[tuple[str, str]]:
    """Images and documents are within the limits of count, bytes, pixels and pages, and can be read."""
    found = list(_media(wire))
    if len(found) > wire.info.max_media:
        yield "messages", f"Too much media: {len(found)} > {wire.info.max_media} images and documents"
    images = sum(1 for _, block in found if block["type"] == "image")
    for path, block in found:
        source = block.get("source")
        if not isinstance(source, Mapping):
            yield f"{path}.{block['type']}.source", "Field required"
        elif source.get("type") == "base64":
            yield from _encoded(wire, path, block["type"], source, images)


def _encoded(wire: Wire, path: str, kind: str, source: Mapping[str, Any], images: int) -> Iterator[tuple[str, str]]:
    data = source.get("data")
    where = f"{path}.{kind}.source.base64"
    if not isinstance(data, str) or not data:
        yield f"{where}.data", "Field required"
        return
    limit = wire.info.max_media_bytes
    if kind == "image" and len(data) > limit:
        yield where, f"image exceeds {limit // 1_000_000} MB maximum: {len(data)} bytes > {limit} bytes"
        return
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        yield f"{where}.data", "invalid base64 data"
        return
    if kind == "document":
        pages = len(_PAGE.findall(raw))
        if not raw.startswith(b"%PDF-"):
            yield f"{where}.data", "The PDF specified was not valid."
        elif pages > wire.info.max_media:
            yield f"{where}.data", f"A maximum of {wire.info.max_media} PDF pages may be provided. Found {pages}."
        return
    yield from _picture(wire, where, str(source.get("media_type")), raw, images)


def _picture(wire: Wire, where: str, media_type: str, raw: bytes, images: int) -> Iterator[tuple[str, str]]:
    if media_type not in _IMAGES:
        yield f"{where}.media_type", f"Input should be one of {', '.join(_IMAGES)}"
        return
    real = image_type(raw)
    if not real:
        yield where, "Could not process image"
        return
    if real != media_type:
        yield f"{where}.media_type", f"the image was specified as {media_type}, but appears to be {real}"
        return
    width, height = image_size(raw)
    limit = min(wire.info.max_media_pixels, _MANY_PIXELS) if images > _MANY else wire.info.max_media_pixels
    if max(width, height) > limit:
        many = " for many-image requests" if images > _MANY else ""
        yield where, f"At least one of the image dimensions exceed max allowed size{many}: {limit} pixels"


def image_type(raw: bytes) -> str:
    """Tell the media type of an image by its first bytes; empty if it is none of those that the API takes."""
    if raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if raw.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if raw.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return "image/webp"
    return ""


def image_size(raw: bytes) -> tuple[int, int]:
    """Read width and height in pixels from the head of a PNG, GIF or JPEG; zeros where it cannot be read."""
    try:
        if raw.startswith(b"\x89PNG"):
            width, height = struct.unpack(">II", raw[16:24])
            return width, height
        if raw.startswith(b"GIF"):
            width, height = struct.unpack("<HH", raw[6:10])
            return width, height
        if raw.startswith(b"\xff\xd8"):
            return _jpeg_size(raw)
    except struct.error:
        pass
    return 0, 0


def _jpeg_size(raw: bytes) -> tuple[int, int]:
    place = 2
    while place + 9 < len(raw) and raw[place] == 0xFF:
        marker = raw[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[place + 5 : place + 9])
            return width, height
        place += 2 + int(struct.unpack(">H", raw[place + 2 : place + 4])[0])
    return 0, 0


RULES: tuple[Rule, ...] = (body_size, media)
