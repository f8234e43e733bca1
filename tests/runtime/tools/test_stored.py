"""Shortened results can be read again: the store, and the Read tool over it (spec 02, layer 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_agent.core.blocks import tool_result
from fsm_agent.core.context.result_budget import reference
from fsm_agent.core.events import Outcome, ToolFinished
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.runtime.tools.stored import ResultStore, folded

from .kit import bench, text_of

pytestmark = pytest.mark.anyio


@tool(read_only=True)
def report(lines: int) -> str:
    """Give a report.

    Args:
        lines: how many lines.
    """
    return "\n".join(f"line {number}" for number in range(1, lines + 1))


async def test_a_reference_is_opened_by_read(tmp_path: Path) -> None:
    """The text behind ``tool-result://`` is read with line numbers, in ranges, under every permission mode."""
    from fsm_agent.runtime.tools.read import Read

    at_work = bench(tmp_path, [report, Read()], mode=Mode.DONT_ASK, rules={"allow": ("report",)})
    await at_work.call("report", tool_use_id="toolu_7", lines=500)
    whole = await at_work.text("Read", file_path=reference("toolu_7"))
    assert whole.splitlines()[499].split("\t") == ["   500", "line 500"]
    part = await at_work.text("Read", file_path=reference("toolu_7"), offset=300, limit=2)
    assert [line.split("\t")[1] for line in part.splitlines()[:2]] == ["line 300", "line 301"]


async def test_every_part_of_a_long_line_can_be_reached(tmp_path: Path) -> None:
    """A result of one endless line is folded, so that no part of it is cut off for good."""
    at_work = bench(tmp_path)
    text = "".join(chr(97 + number % 26) for number in range(9_000))
    at_work.box.results.put(tool_result("toolu_1", text))
    shown = await at_work.text("Read", file_path=reference("toolu_1"))
    assert "".join(line.split("\t")[1] for line in shown.splitlines()) == text
    assert "".join(folded(text)) == text


async def test_a_result_that_is_gone_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    """An unknown reference is an error result that says what to do; nothing outside is touched."""
    finished = await bench(tmp_path).call("Read", file_path=reference("../../etc/passwd"))
    assert finished.outcome is Outcome.ERROR
    assert "Run the tool again" in text_of(finished)


def test_the_store_is_bounded_and_falls_back() -> None:
    """The oldest texts give way; what is not kept is asked of the finder; events of a log fill a new store."""
    store = ResultStore(limit=1_000, finder=lambda name: "found" if name == "a" else None)
    for name in "abcdef":
        store.put(tool_result(name, name * 300))
    assert [store.get(name) is not None for name in "abcdef"] == [True, False, False, True, True, True]
    assert store.get("a") == "found"
    store.take([ToolFinished(id="t", outcome=Outcome.OK, result=tool_result("z", "z" * 200))])
    assert store.get("z") == "z" * 200


def test_the_definitions_say_what_the_layers_must_know(tmp_path: Path) -> None:
    """Results that may be cleared, and tools without a limit, are marked in what the core is told of the tools."""
    schemas = {schema.name: schema for schema in bench(tmp_path).box.schemas()}
    assert schemas["Read"].compactable
    assert schemas["Read"].exempt
    assert schemas["Bash"].compactable
    assert not schemas["Bash"].exempt
    assert not schemas["Write"].compactable
