"""Field reports of groups J and L: limits, usage, endings, and messages typed while a run is on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent import Agent, CommandStatus, RunEnded, Session, exit_code
from fsm_agent.core.blocks import block_text
from fsm_agent.core.config import ContextConfig
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.outputs import Boundary, ErrorOutput, Output, ResultOutput, TerminalOutput, ToolResult
from fsm_agent.core.phases import Cause, TerminalReason
from fsm_agent.core.usage import total_cost
from fsm_agent.log.replay import replay
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import HttpError, StreamError, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.submission import Submission

from .script import Compactor, Fail, Hooks, Model, Providers, Say, Tools, Use, deps, reply

pytestmark = pytest.mark.anyio
MODEL = "claude-sonnet-5-5"


async def read(submission: Submission) -> list[Output]:
    async with submission:
        return [output async for output in submission]


# -- 124: a queued message vanishes ---------------------------------------------------------------------------------

ENDS: dict[str, Cause] = {
    "end_turn": Cause.END_TURN,
    "max_turns": Cause.MAX_TURNS,
    "error": Cause.AUTH,
    "interrupt": Cause.INTERRUPT,
    "submit": Cause.SUBMIT,
    "close": Cause.CONSUMER_CLOSED,
}


def rich(end: str) -> tuple[Session, Model]:
    """A session whose run passes through backing off, tools, attachments, stop hooks, and ends in one of the ways."""
    last = reply(Fail(ErrorKind.AUTH)) if end == "error" else reply(Say("done"))
    model = Model(
        reply(Fail(ErrorKind.OVERLOADED)),
        reply(Say("so"), Use("t")),
        reply(Use("t"), Use("t")),
        reply(Say("ready?")),
        reply(Use("t")),
        *([last] * 3),
    )
    parts = deps(model, Tools(t=0.0), hooks=Hooks(0.0, blocks=["not yet"]), providers=Providers(0.0), compactor=Compactor())
    limit = 4 if end == "max_turns" else None
    agent = Agent("m", deps=parts, stop_hooks=True, attachments=True, backoff_ms=1, max_turns=limit)
    return Session(agent), model


async def play(end: str, at: int, texts: tuple[str, ...]) -> tuple[Session, Model, dict[str, Any], int]:
    """Run it; behind step ``at`` the messages are queued, and one step later the run is ended where that is asked for."""
    session, model = rich(end)
    found: dict[str, Any] = {"queued": [], "refused": [], "status": {}}
    steps = 0

    def on_step(event: object, step: object) -> None:
        nonlocal steps
        steps += 1
        run = submission.run
        if steps == at:
            for text in texts:
                try:
                    found["queued"].append(run.queue(text))
                except RunEnded:
                    found["refused"].append(text)
        if steps == at + 1 and end == "interrupt":
            run.interrupt()
        if steps == at + 1 and end == "submit":
            run.submit()

    submission = session.submit(
        "first", on_step=on_step, on_command=lambda name, status: found["status"].update({name: status})
    )
    async with submission:
        async for _ in submission:
            if end == "close" and steps > at:
                break
    return session, model, found, steps


def said(session: Session, texts: tuple[str, ...]) -> list[str]:
    """The messages as they stand in the history, in order."""
    words = [block_text(block) for message in session.state.messages for block in message.blocks]
    return [word for word in words if word in texts]


@pytest.mark.parametrize("end", ENDS)
async def test_124_a_message_is_delivered_once_or_handed_back_at_every_event(end: str) -> None:
    """Typed behind any event, and however the run then ends, a message is in the history once, in order, or comes back."""
    texts = ("message one", "message two")
    for at in range(1, 1_000):
        session, model, found, steps = await play(end, at, texts)
        if not (found["queued"] or found["refused"]):
            break  # the run has no such event
        delivered = said(session, texts)
        returned = [block_text(event.message.blocks[0]) for event in session.undelivered]
        where = f"behind event {at} of {steps}, {end}"
        assert delivered + returned + found["refused"] == list(texts), where
        for request in model.requests:
            sent = [text for text in texts if json.dumps(request).count(text) > 1]
            assert sent == [], where
        assert session.state.terminal is not None
        if delivered and end not in ("close",):
            done = [name for name, status in found["status"].items() if status is CommandStatus.COMPLETED]
            assert len(done) == len(delivered), where
        if end in ("end_turn", "max_turns", "error"):
            assert session.state.terminal.cause in (ENDS[end], Cause.END_TURN), where
    assert at > 25


async def test_124_what_came_back_can_be_sent_again() -> None:
    """A message that a run gave back goes in with the next prompt, and is then sent once."""
    session, model, _, _ = await play("interrupt", 4, ("message one",))
    (back,) = session.undelivered
    await read(session.submit((*back.message.blocks,)))
    assert sum(json.dumps(request).count("message one") for request in model.requests[-1:]) == 1


# -- J: limits, usage, endings ---------------------------------------------------------------------------------------


def real(server: LoopbackServer, cwd: Path, **settings: Any) -> Session:
    return Session(Agent(MODEL, cwd=cwd, base_url=server.base_url, api_key="k", backoff_ms=1, logs=cwd / "logs", **settings))


@pytest.fixture(params=["asyncio", "trio"])
def real_clock(request: pytest.FixtureRequest) -> Any:
    return request.param


def on(backend: str, work: Callable[[], Any]) -> Any:
    return anyio.run(work, backend=backend)


def test_105_a_limit_has_a_result(tmp_path: Path, real_clock: str) -> None:
    """At the limit there is one terminal and one result, in the outputs and in the log; the calls of the last turn were run."""
    (tmp_path / "a").write_text("x")
    look = calls(use("Read", {"file_path": "a"}))

    async def main() -> None:
        with LoopbackServer([look, look, says("on")]) as server:
            session = real(server, tmp_path, max_turns=2)
            outputs = await read(session.submit("go"))
            ends = [output for output in outputs if isinstance(output, TerminalOutput)]
            results = [output for output in outputs if isinstance(output, ResultOutput)]
            assert (len(ends), len(results)) == (1, 1)
            assert ends[0].terminal.reason is TerminalReason.MAX_TURNS
            value = json.loads(results[0].value)
            assert (value["subtype"], value["num_turns"], value["is_error"]) == ("error_max_turns", 2, True)
            assert exit_code(ends[0].terminal) == 4
            answered = [output for output in outputs if isinstance(output, ToolResult)]
            assert [output.block.is_error for output in answered] == [False, False]
            assert replay(value["log"]).state == session.state
            # Resumable with a higher limit: the conversation goes on from what is there.
            higher = Session(Agent(MODEL, cwd=tmp_path, base_url=server.base_url, api_key="k"), state=session.state)
            await read(higher.submit("go on"))
            assert server.requests[-1].breaches == ()

    on(real_clock, main)


def test_107_108_a_budget_is_one_for_the_session(tmp_path: Path, real_clock: str) -> None:
    """What one prompt spent counts for the next; the one that finds nothing left makes no call and says what was spent."""

    async def main() -> None:
        with LoopbackServer([says("a", usage={"output_tokens": 10_000})] * 3) as server:
            session = real(server, tmp_path, max_budget=200_000)
            await read(session.submit("one"))
            first = total_cost(session.usage)
            await read(session.submit("two"))
            assert first < 200_000 < total_cost(session.usage)
            third = session.submit("three")
            await read(third)
            assert len(server.requests) == 2
            assert third.terminal is not None
            assert (third.terminal.cause, exit_code(third.terminal)) == (Cause.BUDGET_USD, 4)
            assert third.value is not None
            assert third.value["subtype"] == "error_max_budget_usd"
            assert "are spent of a budget" in third.terminal.detail
            # What was spent is in the log: a session that is taken up again has it, neither zero nor doubled.
            again = Session.resume(session.agent, third.value["log"])
            assert total_cost(again.usage) == total_cost(session.usage)

    on(real_clock, main)


def test_110_the_size_is_that_of_one_request(tmp_path: Path, real_clock: str) -> None:
    """Input, cache and output of the last request are counted once: at 63 % of the window nothing is compacted."""
    usage = {
        "input_tokens": 26_000,
        "cache_read_input_tokens": 90_000,
        "cache_creation_input_tokens": 10_000,
        "output_tokens": 500,
    }
    (tmp_path / "a").write_text("x")

    async def main() -> None:
        look = calls(use("Read", {"file_path": "a"}), usage=usage)
        with LoopbackServer([look] * 3 + [says("done", usage=usage)]) as server:
            session = real(server, tmp_path, context=ContextConfig(context_window=200_000))
            outputs = await read(session.submit("go"))
            assert not any(isinstance(output, Boundary) for output in outputs)
            assert len(server.requests) == 4
            assert session.usage[0].cache_read_tokens == 4 * 90_000

    on(real_clock, main)


@pytest.mark.parametrize(
    ("script", "code", "cause"),
    [
        ([HttpError(401)], 6, Cause.AUTH),
        ([HttpError(429, retry_after=3_600)], 6, Cause.RATE_LIMITED_UNTIL),
        ([HttpError(529)] * 2, 6, Cause.ATTEMPTS_EXHAUSTED),
        ([StreamError(of=says("half an answer"), after_frames=3)] * 2, 6, Cause.ATTEMPTS_EXHAUSTED),
        ([says("no", stop_reason="refusal")], 5, Cause.REFUSAL),
    ],
)
def test_111_a_failure_is_no_answer(tmp_path: Path, script: list[Any], code: int, cause: Cause) -> None:
    """A run that failed is an error in its result, with the error in words, no answer, and an exit code of its own."""

    async def main() -> None:
        with LoopbackServer(script) as server:
            submission = real(server, tmp_path, max_attempts=2).submit("go")
            outputs = await read(submission)
        assert submission.terminal is not None
        assert (submission.terminal.cause, exit_code(submission.terminal)) == (cause, code)
        value = submission.value
        assert value is not None
        assert (value["is_error"], value["subtype"]) == (True, "error_during_execution")
        assert value["errors"]
        assert "half an answer" not in value["result"]
        assert sum(isinstance(output, ErrorOutput) for output in outputs) <= 1

    anyio.run(main)
