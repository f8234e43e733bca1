"""Images and PDF files: recognised by their first bytes, measured by their headers, without an image library."""

from __future__ import annotations

import re
import struct

from attrs import frozen


@frozen
class MediaInfo:
    """What a file's header says.

    Attributes:
        media_type: MIME type.
        width: pixels, 0 if unknown or no image.
        height: pixels, 0 if unknown or no image.
        pages: pages of a PDF, 0 if unknown.
    """

    media_type: str
    width: int = 0
    height: int = 0
    pages: int = 0


def sniff(data: bytes) -> MediaInfo | None:
    """Recognise PNG, JPEG, GIF, WebP and PDF by their content; None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        width, height = struct.unpack(">II", data[16:24]) if len(data) >= 24 and data[12:16] == b"IHDR" else (0, 0)
        return MediaInfo("image/png", width, height)
    if data[:6] in (b"GIF87a", b"GIF89a"):
        width, height = struct.unpack("<HH", data[6:10]) if len(data) >= 10 else (0, 0)
        return MediaInfo("image/gif", width, height)
    if data.startswith(b"\xff\xd8\xff"):
        return MediaInfo("image/jpeg", *_jpeg_size(data))
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return MediaInfo("image/webp", *_webp_size(data))
    if data.startswith(b"%PDF-"):
        return MediaInfo("application/pdf", pages=_pdf_pages(data))
    return None


def _jpeg_size(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if 0xD0 <= marker <= 0xD9 or marker == 0x01:
            at += 2
            continue
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        # C0 to CF are frame headers, but for the tables C4, C8 and CC.
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        if length < 2:
            return 0, 0
        at += 2 + length
    return 0, 0


def _webp_size(data: bytes) -> tuple[int, int]:
    kind = data[12:16]
    if len(data) < 30:
        return 0, 0
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return 0, 0


def _pdf_pages(data: bytes) -> int:
    """Count page objects; compressed object streams hide them, then the count of the page tree may be seen, else 0."""
    pages = len(re.findall(rb"/Type\s*/Page(?![A-Za-z])", data))
    if pages:
        return pages
    counts = [int(found) for found in re.findall(rb"/Type\s*/Pages\b[^>]{0,400}?/Count\s+(\d{1,6})", data)]
    return max(counts, default=0)
