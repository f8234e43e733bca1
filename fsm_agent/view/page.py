"""Puts the page together: one HTML file with its style, its program and its data, which asks nothing of any network."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from attrs import frozen

from ..log.redact import Redactor
from .collect import Collected, collect
from .picture import machine_svg
from .words import Words

MARK = "<!doctype html><!-- fsm_agent view -->"
"""How every page begins, so that it is known again before it is overwritten."""
_SCRIPTS = ("data.js", "format.js", "machine.js", "timeline.js", "steps.js", "details.js", "messages.js", "main.js")
_PIECE = 200_000
"""Characters after which another piece of data begins; the page parses a piece when it shows something of it."""


@frozen
class View:
    """A page.

    Attributes:
        html: the whole file.
        steps: how many steps it shows.
        damaged: the log is damaged; what stands before the damage is shown.
        problem: why it does not show everything, empty if it does.
    """

    html: bytes
    steps: int
    damaged: bool
    problem: str


def is_view(start: bytes) -> bool:
    """Say whether a file that begins so was made by :func:`render_view`."""
    return start.startswith(MARK.encode())


def render_view(path: str | os.PathLike[str], *, mask: Callable[[str], str] | None = None) -> View:
    """Make the page of a log.

    Args:
        path: the log.
        mask: masks secrets in every text, by default the shapes of well-known keys.

    Returns:
        The page. A log that is damaged inside is shown up to the damage, and says so.

    Raises:
        LogUnreadable, LogDamaged: if the header of the log cannot be read.
        OSError: if the log cannot be read.
    """
    found = collect(path, Words(mask or Redactor().mask))
    return View(
        html="".join(_parts(found)).encode(errors="backslashreplace"),
        steps=len(found.steps) - 1,
        damaged=found.damaged,
        problem=found.problem,
    )


def _parts(found: Collected) -> Iterator[str]:
    style, program = _asset("view.css"), "\n".join(_asset(name) for name in _SCRIPTS)
    # The program is the only thing that may run, and nothing may be loaded: what a tool said cannot become code.
    policy = (
        f"default-src 'none'; script-src '{_hash(program)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    )
    yield f'{MARK}\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">'
    yield f"<title>{escape(found.index['log'])} – fsm-agent</title><style>{style}</style></head>\n"
    yield _asset("body.html").replace("<!-- machine -->", machine_svg({name: n for n, name in enumerate(found.rows)}))
    steps, pool, contexts = _pieces(found.steps), _pieces(found.pool.items), _pieces(found.contexts)
    firsts = {"stepPieces": _firsts(steps), "poolPieces": _firsts(pool), "contextPieces": _firsts(contexts)}
    yield _data("index", json.dumps({**found.index, **firsts}, ensure_ascii=False, separators=(",", ":")))
    for name, pieces in (("steps", steps), ("pool", pool), ("contexts", contexts)):
        for first, texts in pieces:
            yield _data(f"{name}-{first}", f"[{','.join(texts)}]")
    yield f"\n<script>{program}</script></body></html>\n"


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def _data(name: str, text: str) -> str:
    # Within a script element only "<" could begin something: the end of the element, or a comment.
    return f'\n<script type="application/json" id="{name}">{text.replace("<", chr(92) + "u003c")}</script>'


def _pieces(texts: list[str]) -> list[tuple[int, list[str]]]:
    """Cut a list into pieces of bounded size, each with the number of its first item."""
    pieces: list[tuple[int, list[str]]] = []
    size = _PIECE
    for number, text in enumerate(texts):
        if size >= _PIECE:
            pieces.append((number, []))
            size = 0
        pieces[-1][1].append(text)
        size += len(text)
    return pieces


def _firsts(pieces: list[tuple[int, list[Any]]]) -> list[int]:
    return [first for first, _ in pieces]
