"""Field reports E: streaming faults, retries, fallback."""
# ruff: noqa: E501 - a reply of a story stands on one line

from __future__ import annotations

import anyio
import pytest

from fsm_agent import tool
from fsm_agent.core.effects import CallModel
from fsm_agent.core.phases import AbortReason, Cause
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import BareEof, HttpError, Stall, StreamError, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.agent import Agent
from fsm_agent.testing import Fault

from .kit import at_every_event, begun, bodies, holds, over_http_at_every_event, story

MODEL = "claude-sonnet-5-5"
FLAKY = """
tools: {look: {read_only: true, concurrency_safe: true, result: seen}, write: {result: written}}
replies:
  - {blocks: [{text: I look}, {tool: look, input: {n: 1}}, settle, {text: "and", open: true}], fails: stalled}
  - blocks: [{tool: look, input: {n: 1}}, settle, {tool: write, input: {n: 2}}]
  - {fails: overloaded}
  - Done.
"""


@pytest.mark.parametrize("fault", list(Fault))
def test_59_dead_streams_at_every_event(fault: Fault) -> None:
    """A run whose stream dies twice stands every further fault at every event."""
    at_every_event(story(FLAKY), fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
def test_59_over_http_at_every_event(fault: Fault) -> None:
    """The same over real HTTP."""
    over_http_at_every_event(story(FLAKY.replace("stalled", "connection_lost")), fault)  # silence takes its time there


@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("ping", [None, 0.02])
def test_59_silence_is_noticed_and_an_abort_is_heard(after: int, ping: float | None) -> None:
    """Silence, with pings or without, meets the idle limit and is tried again; an abort during it ends the run."""
    silent = Stall(says("Hello there."), after_frames=after, ping_every=ping)
    for aborts in (False, True):
        with LoopbackServer([silent, says("Done.")]) as server:
            agent = Agent(MODEL, base_url=server.base_url, api_key="k", backoff_ms=1, idle_timeout=30.0 if aborts else 0.3)

            async def work(agent: Agent = agent, server: LoopbackServer = server, aborts: bool = aborts) -> Cause:
                async with agent.run("go") as run, anyio.create_task_group() as group:

                    async def leave() -> None:
                        while not server.requests:
                            await anyio.sleep(0.01)
                        await anyio.sleep(0.05)
                        run.abort(AbortReason.INTERRUPT)

                    if aborts:
                        group.start_soon(leave)
                    async for _ in run:
                        pass
                assert run.terminal is not None
                return run.terminal.cause

            assert anyio.run(work) is (Cause.INTERRUPT if aborts else Cause.END_TURN)
            assert len(server.requests) == (1 if aborts else 2)


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_61_an_early_close_is_no_success(after: int) -> None:
    """A clean close before the stop reason is tried again; the tool of the cut reply never ran."""
    ran: list[str] = []

    @tool
    def write(n: int) -> str:
        """Write."""
        ran.append(str(n))
        return "written"

    cut = BareEof(calls(use("write", {"n": 1})), after_frames=after)
    with LoopbackServer([cut, says("Done.")]) as server:
        agent = Agent(
            MODEL, base_url=server.base_url, api_key="k", tools=(write,), backoff_ms=1, permission_mode="bypassPermissions"
        )

        async def work() -> Cause:
            async with agent.run("go") as run:
                async for _ in run:
                    pass
            assert run.terminal is not None
            return run.terminal.cause

        assert anyio.run(work) is Cause.END_TURN
        assert server.breaches == []
        assert len(server.requests) == 2
    assert ran == []


ERRORS = [
    ("overloaded_error", Cause.END_TURN),
    ("rate_limit_error", Cause.END_TURN),
    ("api_error", Cause.END_TURN),
    ("invalid_request_error", Cause.API_ERROR),
    ("authentication_error", Cause.AUTH),
]


@pytest.mark.parametrize(("kind", "cause"), ERRORS)
def test_63_errors_inside_a_stream(kind: str, cause: Cause) -> None:
    """An error event in a stream of status 200 counts by its type; text of the discarded attempt is nowhere."""
    with LoopbackServer(
        [StreamError(says("half of a"), after_frames=3, type=kind, message="Words of it"), says("Done.")]
    ) as server:
        agent = Agent(MODEL, base_url=server.base_url, api_key="k", backoff_ms=1)

        async def work() -> tuple[Cause, str]:
            async with agent.run("go") as run:
                async for _ in run:
                    pass
            assert run.terminal is not None
            return run.terminal.cause, str(run.state.messages)

        found, history = anyio.run(work)
        assert found is cause
        assert "half of a" not in history
        assert "Words of it" not in history
        assert len(server.requests) == (2 if cause is Cause.END_TURN else 1)


@pytest.mark.parametrize("early", ["read_only", "any"])
def test_64_fallback_leaves_no_trace_of_the_failed_attempts(early: str) -> None:
    """Text and calls of the overloaded model are taken back, unless a call changed something: then it is told."""
    text = f"""
models: {{scenario-model: {{}}, other: {{}}}}
config: {{fallback_models: [other], early_start: {early}}}
tools: {{write: {{result: written, duration_ms: 20}}}}
replies:
  - {{blocks: [{{text: I write.}}, {{tool: write, input: {{n: 1}}}}, settle, {{text: x, open: true}}], fails: overloaded, times: 3}}
  - Done.
  - Done.
"""
    if early == "any":
        run = holds(story(text))
        assert begun(run) >= 1
        assert "written" in str(bodies(run)[1])
    else:
        run = holds(story(text.replace("settle, ", "")))
        last = [effect.request for effect in run.effects if isinstance(effect, CallModel)][-1]
        assert last.model == "other"
        assert "I write" not in str(bodies(run)[-1])
        assert begun(run) == 0


FALLS_BACK = ["model_not_found", "server_error", "connection_lost", "overloaded"]
DOES_NOT = ["invalid_request", "prompt_too_long", "auth"]


@pytest.mark.parametrize("kind", FALLS_BACK + DOES_NOT)
def test_65_when_the_second_model_is_asked(kind: str) -> None:
    """An unknown, broken or unreachable model gives way to the next; what is about the messages or the key does not."""
    text = (
        "models: {scenario-model: {}, other: {}}\nconfig: {fallback_models: [other], max_attempts: 3, context: {reactive_compact: false}}\n"
        f"replies: [{{fails: {kind}, times: {3 if kind in ('server_error', 'connection_lost', 'overloaded') else 1}}}, Done.]\n"
    )
    if kind in FALLS_BACK:
        run = holds(story(text), after=kind != "model_not_found")
        assert [effect.request.model for effect in run.effects if isinstance(effect, CallModel)][-1] == "other"
        return
    ends = {
        "invalid_request": "model_error, cause: api_error",
        "prompt_too_long": "prompt_too_long, cause: context_irreducible",
        "auth": "model_error, cause: auth",
    }
    run = holds(story(text, f"{{reason: {ends[kind]}}}"))
    assert len(bodies(run)) == 1


def test_67_a_result_that_could_not_be_sent_is_sent_again() -> None:
    """The request with the result fails, is made again, and the tool ran once."""
    run = holds(
        story(
            "tools: {write: {result: written}}\nreplies: [{blocks: [{tool: write}]}, {fails: connection_lost, times: 2}, Done.]\n"
        )
    )
    assert begun(run) == 1
    assert all("written" in str(body) for body in bodies(run)[1:])
    at_every_event(
        story("tools: {write: {result: written}}\nreplies: [{blocks: [{tool: write}]}, {fails: connection_lost}, Done.]\n"),
        Fault.KILL,
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_69_permanent_failures_are_asked_once(status: int) -> None:
    """One request for each 4xx that no wait mends."""
    with LoopbackServer(lambda number, body: HttpError(status, "no")) as server:
        agent = Agent(MODEL, base_url=server.base_url, api_key="k", backoff_ms=1, context={"reactive_compact": False})

        async def work() -> bool:
            async with agent.run("go") as run:
                async for _ in run:
                    pass
            assert run.terminal is not None
            return run.terminal.error is not None

        assert anyio.run(work)
        assert len(server.requests) == 1
