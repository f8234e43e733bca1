"""How a line of a log is framed: its CRC-32, and the chain of SHA-256 that goes through all lines (see ``format``)."""

from __future__ import annotations

import re
from hashlib import sha256
from zlib import crc32

START = b'{"crc":"'
_BODY = 18
"""Offset of what the CRC covers: behind the start, eight digits, a quote and a comma."""
_CORE = _BODY + len('"at":')
_TAIL = len(',"chain":"') + 64 + len('"}\n')
_LEAST = _CORE + _TAIL
"""Bytes of the shortest line that can be framed."""
_ZERO = ord("0")
_DIGEST = re.compile("[0-9a-f]{64}")
_DIGITS = 15
"""Digits of a wall time that is told to be one at a glance; longer ones are looked at in full."""


def seal(core: bytes, at: int, previous: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """Frame one line.

    Args:
        core: the line's own fields, without braces.
        at: wall time in milliseconds since 1970.
        previous: chain of the line before, empty for the header.
        salt: the file's salt.

    Returns:
        The line with its newline, and its chain.
    """
    chain = sha256(previous + salt + core).hexdigest().encode()
    body = b'"at":%d,%b,"chain":"%b"}' % (at, core, chain)
    return b'%b%08x",%b\n' % (START, crc32(body), body), chain


def is_whole(line: bytes) -> bool:
    """Say whether a line with its newline is framed and its CRC is right."""
    if len(line) <= _BODY:
        return False
    return line[:8] == START and line[16:_BODY] == b'",' and b"%08x" % crc32(line[_BODY:-1]) == line[8:16]


def chain_of(line: bytes, previous: bytes, salt: bytes) -> bytes | None:
    """Give the chain of a whole line, or None if it does not continue ``previous``."""
    comma = line.find(b",", _CORE)
    if comma + 1 + _TAIL > len(line):
        return None
    core = line[comma + 1 : -_TAIL]
    chain = sha256(previous + salt + core).hexdigest().encode()
    return chain if line[-67:-3] == chain else None


def follows(line: bytes, seq: int, before: bytes) -> tuple[bytes, bytes, int] | None:
    """Look at a line as most are, all at once: a whole record of a step that continues what stands before it.

    Args:
        line: the line with its newline.
        seq: the number that it must have.
        before: chain of the line before, and the salt.

    Returns:
        Its chain, its core, and where in that the event begins; None if it is anything else, good or bad.
    """
    if len(line) < _LEAST or line[:_BODY] != b'%b%08x",' % (START, crc32(line[_BODY:-1])):
        return None
    comma = line.find(b",", _CORE, -_TAIL)
    if comma < 0 or not line[_CORE:comma].isdigit() or comma - _CORE > _DIGITS or line[_CORE] == _ZERO:
        return None
    core = line[comma + 1 : -_TAIL]
    chain = sha256(before + core).hexdigest().encode()
    start = b'"seq":%d,"event":' % seq
    return (chain, core, len(start)) if line[-67:-3] == chain and core.startswith(start) else None


def is_digest(text: str) -> bool:
    """Say whether a text can be a SHA-256 in hex."""
    return _DIGEST.fullmatch(text) is not None


def stated_chain(line: bytes) -> bytes:
    """Give the chain that a whole line states of itself."""
    return line[-67:-3]
