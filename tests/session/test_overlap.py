"""Tools and the stream overlap (issue 2, point 3), on virtual time: orders of starts and ends, and the total."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from fsm_agent.core.events import ToolTraits
from fsm_agent.core.outputs import BlockOutput, TerminalOutput, ToolResult
from fsm_agent.session.agent import Agent

from .script import READ, Model, Say, Tools, Use, deps, reply


def play(virtual: Any, model: Model, tools: Tools, **settings: Any) -> tuple[list[Any], float]:
    """Run to the end; gives the outputs and the virtual seconds that it took."""
    agent = Agent("m", deps=deps(model, tools), **settings)

    async def main() -> tuple[list[Any], float]:
        begun = anyio.current_time()
        async with agent.run("go") as run:
            outputs = [output async for output in run]
        return outputs, anyio.current_time() - begun

    backend, options = virtual
    return anyio.run(main, backend=backend, backend_options=options)


def test_four_reads_run_while_the_model_streams(virtual: Any) -> None:
    """A 3.0 s stream whose four 1 s reads are complete at 0.6, 0.9, 1.2 and 1.5 s takes 3.0 s, not 4.0."""
    parts = [Use("abcd"[n], at=0.6 + 0.3 * n) for n in range(4)]
    model = Model(reply(*parts, Say("more", at=3.0)), reply(Say("done")), ends=(3.0,), traits=dict.fromkeys("abcd", READ))
    tools = Tools(model.log, a=1.0, b=1.0, c=1.0, d=1.0)
    outputs, seconds = play(virtual, model, tools)
    assert model.log == [
        "call 0",
        *(f"start {name}" for name in "abcd"),
        *(f"finish {name}" for name in "abcd"),
        "end 0",
        *("call 1", "end 1"),
    ]
    assert seconds == pytest.approx(3.0, abs=0.01)
    assert [output.name for output in outputs if isinstance(output, ToolResult)] == list("abcd")
    assert isinstance(outputs[-1], TerminalOutput)


def test_results_keep_the_order_of_the_calls(virtual: Any) -> None:
    """Reads that end in the opposite order are shown and sent in the order of their blocks."""
    traits = dict.fromkeys("abc", READ)
    model = Model(reply(Use("a"), Use("b"), Use("c"), Say("x")), reply(Say("done")), traits=traits)
    outputs, _ = play(virtual, model, Tools(model.log, a=3.0, b=2.0, c=1.0))
    assert [entry for entry in model.log if entry.startswith("finish")] == ["finish c", "finish b", "finish a"]
    assert [output.name for output in outputs if isinstance(output, ToolResult)] == ["a", "b", "c"]
    sent = [block["tool_use_id"] for block in model.requests[1][-1]["content"] if block["type"] == "tool_result"]
    assert sent == ["toolu_0_0", "toolu_0_1", "toolu_0_2"]


def test_unsafe_tools_never_overlap(virtual: Any) -> None:
    """Writes wait for the end of the stream and for each other; a read behind a write waits too."""
    traits = {"r": READ, "w": ToolTraits(), "v": ToolTraits(), "s": READ}
    parts = [Use("r", at=1.0), Use("w", at=2.0), Use("v", at=3.0), Use("s", at=4.0), Say("x", at=5.0)]
    model = Model(reply(*parts), reply(Say("done")), ends=(6.0,), traits=traits)
    play(virtual, model, Tools(model.log, r=1.5, w=1.0, v=1.0, s=1.0))
    assert model.log == [
        *("call 0", "start r", "finish r", "end 0"),
        *("start w", "finish w", "start v", "finish v", "start s", "finish s"),
        *("call 1", "end 1"),
    ]


def test_block_of_a_call_is_shown_before_its_result(virtual: Any) -> None:
    """What the consumer sees keeps cause before effect."""
    model = Model(reply(Use("a"), Say("x")), reply(Say("done")), traits={"a": READ})
    outputs, _ = play(virtual, model, Tools(a=0.0))
    kinds = [type(output) for output in outputs if isinstance(output, BlockOutput | ToolResult)]
    assert kinds.index(BlockOutput) < kinds.index(ToolResult)


def test_jitter_lengthens_a_wait_by_at_most_a_tenth(virtual: Any) -> None:
    """Backing off takes its time plus the drawn share."""
    from fsm_agent.core.failures import ErrorKind

    from .script import Fail

    agent = Agent("m", deps=deps(Model(reply(Fail(ErrorKind.OVERLOADED)), reply(Say("done")))))

    async def main() -> float:
        begun = anyio.current_time()
        async with agent.run("go", jitter=lambda: 0.5) as run:
            async for _ in run:
                pass
        return anyio.current_time() - begun

    backend, options = virtual
    assert anyio.run(main, backend=backend, backend_options=options) == pytest.approx(1.05)
