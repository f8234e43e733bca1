"""Loop detection: rounds compared by digest (spec 01, section 11)."""

from __future__ import annotations

from hashlib import sha256


def round_digest(parts: tuple[tuple[str, str, str], ...]) -> str:
    """Name a round by its calls: (tool name, input JSON text, digest of the result) each.

    Returns:
        The first 16 hex digits of the SHA-256.
    """
    pieces: list[bytes] = []
    for part in parts:
        for piece in part:
            data = piece.encode("utf-8", "replace")
            pieces += (len(data).to_bytes(8, "big"), data)
    return sha256(b"".join(pieces)).hexdigest()[:16]


def remember(rounds: tuple[str, ...], digest: str, limit: int) -> tuple[str, ...]:
    """Append a round and keep what a decision at ``limit`` repetitions needs: pairs of that many rounds."""
    return (*rounds, digest)[-2 * limit :]


def repeats(rounds: tuple[str, ...], times: int) -> bool:
    """Tell whether the last round, or the last two in turn, stand at the end at least so many times in a row.

    Args:
        rounds: digests of rounds, the newest last.
        times: at least 1.
    """
    if len(rounds) < times:
        return False
    return rounds[-times:] == rounds[-1:] * times or rounds[-2 * times :] == rounds[-2:] * times
