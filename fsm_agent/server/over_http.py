"""Play a scenario over real HTTP: the loopback server, the official SDK, the real compactor (spec 04, testing kit)."""

from __future__ import annotations

from typing import Any

from attrs import evolve, field, frozen

from ..runtime.compactor import ModelCompactor
from ..runtime.model_caller import ModelCaller
from ..runtime.ports import Deps, Model, ToolRunner
from ..scenario.answering import files_of
from ..scenario.format import Scenario
from ..scenario.play import PlayedRun, play
from ..scenario.playing import scripted_traits
from ..scenario.scripted import World, scripted_deps
from .app import LoopbackServer
from .from_scenario import server_script


@frozen
class PlayedOverHttp:
    """A run over real HTTP.

    Attributes:
        run: how it went.
        breaches: rules of the wire that a request broke: number of the request, and the rule with its text.
        bodies: the decoded bodies of the accepted calls, in order.
    """

    # Not shown: ``asyncio.run`` makes the text of what it returns, which takes long for a whole run.
    run: PlayedRun = field(repr=False)
    breaches: tuple[tuple[int, str], ...]
    bodies: tuple[dict[str, Any], ...] = field(repr=False)


def compactor_over(model: Model, scenario: Scenario) -> ModelCompactor:
    """Make the real compactor over a model, as a scenario sets it up."""
    files = files_of(scenario)
    return ModelCompactor(
        model, scenario.config, summariser=scenario.summariser, files=(lambda going, tail: files) if files else None
    )


def http_deps(scenario: Scenario, caller: ModelCaller, tools: ToolRunner | None = None, world: World | None = None) -> Deps:
    """Make the parts of the interpreter: the model and the summariser over HTTP, the rest scripted.

    Args:
        scenario: what the scripted parts do.
        caller: the model caller, with the traits of the tools in use.
        tools: other tools than the scripted ones.
        world: what the scripted parts share.
    """
    deps = scripted_deps(scenario, world=world)
    return evolve(
        deps,
        model=caller,
        compactor=compactor_over(caller, scenario),
        tools=deps.tools if tools is None else tools,
    )


async def play_over_http(scenario: Scenario, **options: Any) -> PlayedOverHttp:
    """Play a scenario against a strict server of its own on loopback.

    Args:
        scenario: what happens.
        options: further arguments of :func:`fsm_agent.scenario.play.play`.

    Returns:
        How the run went, and what the server saw.
    """
    models = scenario.config.models
    traits = scripted_traits(scenario)
    with LoopbackServer(server_script(scenario), models=models) as server:
        async with ModelCaller(traits, base_url=server.base_url, api_key="scenario", models=models) as caller:
            world = World()
            run = await play(scenario, http_deps(scenario, caller, world=world), world=world, **options)
        server.wait_idle()
        bodies = tuple(exchange.body for exchange in server.messages)
        return PlayedOverHttp(run=run, breaches=tuple(server.breaches), bodies=bodies)
