"""The picture of the view in its guide is one of today's page."""

from __future__ import annotations

from fsm_agent.diagram.render import carried_digest

from .regenerate import PICTURE, made_of


def test_the_picture_of_the_guide_is_fresh() -> None:
    """It carries the digest of the page's style, program and machine; ``python -m tests.view.regenerate`` mends it."""
    assert carried_digest(PICTURE.read_bytes()) == made_of()
