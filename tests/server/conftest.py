"""In every test of the server: it stays quiet, and leaves no thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def nothing_is_left_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Clients that leave, cuts and resets are everyday events: none may be logged as an error or leave a thread."""
    with caplog.at_level(logging.WARNING):
        yield
    noisy = [record.getMessage() for record in caplog.get_records("call") if record.name.startswith(("aiohttp", "asyncio"))]
    assert noisy == []
    assert [one.name for one in threading.enumerate() if one.name.startswith("fsm-agent loopback")] == []
