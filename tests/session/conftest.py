from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Run each asynchronous test under both event loops; trio's clock is virtual."""
    if request.param == "trio":
        from trio.testing import MockClock

        return "trio", {"clock": MockClock(autojump_threshold=0)}
    return "asyncio"


@pytest.fixture
def virtual() -> Any:
    """Parameters of a run on virtual time."""
    from trio.testing import MockClock

    return "trio", {"clock": MockClock(autojump_threshold=0)}
