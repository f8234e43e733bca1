"""Replies of scenarios over real HTTP, read by the real model caller, are the events that the pure driver plays."""

from __future__ import annotations

from collections.abc import Iterable

import anyio
from attrs import evolve

from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import BlockCompleted, StreamCompleted, StreamFailed, StreamStarted, ToolTraits
from fsm_agent.core.wire import CHAIN_START, Request, WireMessage
from fsm_agent.runtime.model_caller import ModelCaller
from fsm_agent.scenario import Scenario, catalog, load
from fsm_agent.scenario.answers import Ending, Reply
from fsm_agent.scenario.format import Way
from fsm_agent.scenario.playing import Pause, scripted_traits, stream_of
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.from_scenario import served

BODY = b'{"model":"scenario-model","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"Go."}]}'
WIRE = WireMessage(role="user", body=b'{"role":"user","content":"Go."}', blocks=1, tokens=5, chain=CHAIN_START)
REQUEST = Request(model="scenario-model", max_tokens=100, head=b"{}", messages=(WIRE,))


def described(parts: Iterable[object]) -> list[object]:
    """Keep what decides: kinds, blocks, calls, stop reasons, sizes, kinds of failure."""
    seen: list[object] = []
    for part in parts:
        match part:
            case StreamStarted(model=model):
                seen.append(("started", model))
            case BlockCompleted(index=index, block=block, tool=tool, last=last, closed=closed):
                call = (
                    None if tool is None else (tool.id, tool.name, tool.raw, tool.input_json, tool.problem != "", tool.traits)
                )
                content = block.json if block.type == "text" else block.type
                seen.append((index, content, call, last, closed))
            case StreamCompleted() as end:
                cost = sum(usage.cost for usage in end.usage)
                shown = (end.stop_reason, end.context_tokens, end.unresolved, end.cleared_tokens, bool(end.stop_details), cost)
                seen.append(shown)
            case StreamFailed(failure=failure):
                over = failure.over_tokens
                seen.append((failure.kind, over, failure.media_path, (failure.retry_after_ms or 0) > 0))
    return seen


def distinct_replies() -> list[tuple[str, int]]:
    """Name every reply of the catalog that can come over HTTP and differs from those before it."""
    seen: set[Reply] = set()
    chosen = []
    for name in catalog():
        scenario = load(name)
        if Way.HTTP not in scenario.ways:
            continue
        for number, reply in enumerate(scenario.replies):
            if reply not in seen and reply.ending is not Ending.HANGS:
                seen.add(reply)
                chosen.append((name, number))
    return chosen


async def over_http(chosen: list[tuple[Scenario, int]]) -> list[list[object]]:
    """Ask one real server for all these replies, with one real model caller."""
    replies = [served(evolve(scenario.replies[number], pace_ms=0), number, settle_seconds=0.0) for scenario, number in chosen]
    current = chosen[0][0]

    def traits(name: str, input_json: str | None) -> ToolTraits:
        return scripted_traits(current)(name, input_json)

    found = []
    with LoopbackServer(replies, strict=False) as server:
        async with ModelCaller(
            traits, base_url=server.base_url, api_key="k", models=chosen[0][0].config.models, encode=lambda request: BODY
        ) as caller:
            for scenario, _ in chosen:
                current = scenario
                found.append(described([item async for item in caller.stream(CallModel(id="call", request=REQUEST))]))
    return found


def test_http_gives_what_the_pure_driver_plays() -> None:
    """Each distinct reply of the catalog is the same sequence of events over HTTP and without it."""
    chosen = [(evolve(load(name), name=f"{name}, reply {number}"), number) for name, number in distinct_replies()]
    for (scenario, number), events in zip(chosen, anyio.run(over_http, chosen), strict=True):
        traits = scripted_traits(scenario)
        parts = stream_of(scenario.replies[number], "call", number, scenario.config, "scenario-model", traits)
        assert (scenario.name, events) == (scenario.name, described(part for part in parts if not isinstance(part, Pause)))
