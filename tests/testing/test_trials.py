"""Trials of a user's own tools and hooks: good ones pass, liars and blockers are caught."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fsm_agent import tool
from fsm_agent.core.phases import Cause
from fsm_agent.laws import Edge, edge_law
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.runtime.tools.base import ToolContext
from fsm_agent.server.replies import calls
from fsm_agent.server.replies import tool as use
from fsm_agent.testing import trial


@tool(read_only=True)
def stock(article: str) -> str:
    """How many pieces are in stock."""
    return "120"


@tool(read_only=True)
def liar(context: ToolContext) -> str:
    """Say that it only reads, and write."""
    Path(context.workspace.cwd, "written").write_text("x")
    return "I only read"


@tool
def honest(context: ToolContext) -> str:
    """Write, and do not deny it."""
    Path(context.workspace.cwd, "written").write_text("x")
    return "written"


def test_good_tools_pass() -> None:
    """A tool that does as it says has a trial without problems; what it gave is in the next request."""
    went = trial([calls(use("stock", {"article": "bolt"})), "120."], tools=[stock]).check()
    assert went.terminal is not None
    assert went.terminal.cause is Cause.END_TURN
    assert "120" in str(went.requests[1]["messages"][-1])
    assert "next_turn" in went.taken


def test_a_tool_that_claims_to_be_read_only_and_is_not() -> None:
    """The workspace is compared around such a call: the liar is named, with what it changed; the honest one is not."""
    went = trial([calls(use("liar", {})), "Read."], tools=[liar])
    with pytest.raises(AssertionError, match="tool liar claims to be read-only and changed written"):
        went.check()
    trial([calls(use("honest", {})), "Written."], tools=[honest]).check()


def test_two_at_a_time() -> None:
    """Of two read-only calls at once, the one that wrote is named, or named as one that ran beside it."""
    went = trial([calls(use("liar", {}), use("stock", {"article": "nut"})), "Both."], tools=[liar, stock])
    assert any("liar" in words for words in went.problems)


def test_a_hook_that_blocks_for_ever() -> None:
    """The run ends at the cap, and the trial says that a stop hook never let it end."""

    def never(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"decision": "block", "reason": "not good enough"}

    went = trial(["Done."], hooks=[Hook(HookEvent.STOP, call=never)])
    with pytest.raises(AssertionError, match="a stop hook never let the run end"):
        went.check()


def test_a_hook_that_blocks_once() -> None:
    """A hook that looks at ``stop_hook_active`` lets go, and passes."""

    def once(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None if payload["stop_hook_active"] else {"decision": "block", "reason": "look again"}

    went = trial(["Done."], hooks=[Hook(HookEvent.STOP, call=once)]).check()
    assert went.taken.count("stop_hook_blocking") == 1


@edge_law()
def no_tool_at_all(edge: Edge) -> str:
    """A law of the user's own."""
    return "a tool ran" if edge.tools else ""


def test_a_law_of_ones_own() -> None:
    """A further law is judged on each step of the real run."""
    went = trial([calls(use("stock", {"article": "nut"})), "7."], tools=[stock], laws=[no_tool_at_all])
    assert [words for words in went.problems if words.startswith("no_tool_at_all at event")]


def test_the_test_of_the_how_to_is_short() -> None:
    """In the how-to a test of an own tool and an own stop hook with an extra law has at most ten lines."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    fence = page.partition("# the test\n")[2].partition("```")[0]
    lines = [line for line in fence.splitlines() if line.strip()]
    assert "edge_law" in fence
    assert "tools=" in fence
    assert "hooks=" in fence
    assert len(lines) <= 10
