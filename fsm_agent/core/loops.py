"""Loop detection: rounds compared by digest (spec 01, section 11)."""

from __future__ import annotations

from hashlib import sha256


def round_digest(parts: tuple[tuple[str, str, str], ...]) -> str:
    """Name a round by its calls: (tool name, input JSON text, digest of the result) each.

    Returns:
        The first 16 hex digits of the SHA-256.
    """
    state = sha256()
    for name, text, result in parts:
        for piece in (name, text, result):
            data = piece.encode("utf-8", "replace")
            state.update(len(data).to_bytes(8, "big"))
            state.update(data)
    return state.hexdigest()[:16]


def remember(rounds: tuple[str, ...], digest: str, limit: int) -> tuple[str, ...]:
    """Append a round and keep what a decision at ``limit`` repetitions needs: pairs of that many rounds."""
    return (*rounds, digest)[-2 * limit :]


def loop_length(rounds: tuple[str, ...]) -> int:
    """Count the repetitions at the end: equal rounds in a row, or alternations of a pair.

    Returns:
        The larger of the two counts; a pair that alternates needs two rounds for each.
    """
    return max(_repeats(rounds, 1), _repeats(rounds, 2))


def _repeats(rounds: tuple[str, ...], size: int) -> int:
    """Count how often the last ``size`` rounds stand in a row."""
    unit = rounds[-size:]
    count = 0
    while rounds and rounds[-size:] == unit:
        count += 1
        rounds = rounds[:-size]
    return count
