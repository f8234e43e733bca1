"""Field reports D: thinking blocks."""
# ruff: noqa: E501 - a reply of a story stands on one line

from __future__ import annotations

import pytest
from attrs import evolve

from fsm_agent.core.effects import CallModel
from fsm_agent.testing import Fault

from .kit import at_every_event, bodies, holds, over_http_at_every_event, story

INTERLEAVED = """
tools: {look: {read_only: true, concurrency_safe: true, result: seen}}
replies:
  - blocks: [{thinking: first}, {tool: look, input: {n: 1}}, settle, {thinking: second}, {tool: look, input: {n: 2}}, settle, {thinking: third, open: true}]
    stop_reason: tool_use
  - blocks: [{thinking: fourth}, {text: Done.}]
"""


def thinking(body: dict[str, object]) -> list[dict[str, str]]:
    """Give the thinking blocks of a request."""
    messages = body["messages"]
    assert isinstance(messages, list)
    return [block for item in messages for block in item["content"] if block["type"] == "thinking"]


@pytest.mark.parametrize("fault", list(Fault))
def test_53_interleaved_thinking_at_every_event(fault: Fault) -> None:
    """Whatever comes at whichever event of interleaved thinking: no turn ends with it, whole blocks stay as they came."""
    at_every_event(story(INTERLEAVED), fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
def test_53_over_http_at_every_event(fault: Fault) -> None:
    """The same over real HTTP, where the server knows what it had signed."""
    over_http_at_every_event(story(INTERLEAVED), fault)


def test_53_thinking_that_was_never_closed_is_left_out() -> None:
    """The two whole blocks go back as they came, the open one does not."""
    run = holds(story(INTERLEAVED))
    assert [block["thinking"] for block in thinking(bodies(run)[1])] == ["first", "second"]


def test_55_thinking_stays_with_its_model() -> None:
    """After a fallback in the middle of a tool round no request to the other model holds thinking of the first."""
    text = """
models: {scenario-model: {}, other: {}}
config: {fallback_models: [other], overload_fallback_after: 2}
tools: {look: {read_only: true, concurrency_safe: true, result: seen}}
replies:
  - blocks: [{thinking: mine}, {tool: look}]
  - {fails: overloaded, times: 2}
  - blocks: [{text: Done.}]
"""
    run = holds(story(text))
    calls = [effect.request for effect in run.effects if isinstance(effect, CallModel)]
    assert calls[-1].model == "other"
    assert [thinking(body) for body in bodies(run)[-1:]] == [[]]
    assert len(thinking(bodies(run)[1])) == 1


WORDS = [
    "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified",
    "messages.1.content.0: Invalid `signature` in `thinking` block",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`",
    "messages.1: The final block in an assistant message cannot be `thinking`.",
]


@pytest.mark.parametrize("words", WORDS)
def test_56_every_wording_leads_to_one_recovery(words: str) -> None:
    """Thinking that the API refuses is taken out once; a second refusal ends the run with the API's words."""
    base = "tools: {look: {read_only: true, concurrency_safe: true}}\nreplies:\n  - blocks: [{thinking: hm}, {tool: look}]\n"
    failing = f"  - {{fails: {{kind: thinking_invalid, message: {words!r}}}}}\n".replace("'{", "{")
    run = holds(story(base + failing + "  - Done.\n"))
    assert run.taken.count("thinking_dropped") == 1
    assert thinking(bodies(run)[-1]) == []
    twice = holds(story(base + failing * 2, "{reason: model_error, cause: api_error}"))
    assert twice.state.terminal is not None
    assert twice.state.terminal.error is not None
    assert twice.state.terminal.error.message == words


def test_56_every_wording_is_known_to_the_classifier() -> None:
    """The words, in a JSON body, as plain text and in capitals, are all of one kind."""
    from fsm_agent.core.failures import ErrorKind
    from fsm_agent.runtime.error_table import classify

    for words in WORDS:
        assert classify(400, "invalid_request_error", "", words) is ErrorKind.THINKING_INVALID


def test_58_a_reply_of_thinking_only_is_not_repeated_alike() -> None:
    """Interrupted behind its thinking, or ended with nothing else, no request is sent again unchanged as an answer to a 400."""
    run = holds(story("replies: [{blocks: [{thinking: hm}]}, Done.]\n"))
    assert bodies(run)[0] != bodies(run)[1]
    refused = holds(
        evolve(story("replies: [{fails: invalid_request}]\n", "{reason: model_error, cause: api_error}"), title="A refusal."),
    )
    assert len(bodies(refused)) == 1
