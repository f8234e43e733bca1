"""Field reports C: truncation, stop reasons, empty answers."""
# ruff: noqa: E501 - a reply of a story stands on one line

from __future__ import annotations

import json

import pytest

from fsm_agent.core.events import BlockCompleted
from fsm_agent.testing import Fault

from .kit import at_every_event, begun, bodies, holds, over_http_at_every_event, results, story

WRITE = "tools: {write: {result: written}}\nconfig: {max_output_tokens: 4096}\n"
CUT = [
    '{tool: write, raw: \'{"path":"x","content":"abc\', open: true}',
    '{tool: write, raw: \'{"path":"x"}\'}',
]


def completed(cause: str) -> str:
    return f"{{reason: completed, cause: {cause}}}"


@pytest.mark.parametrize("call", CUT)
def test_37_a_cut_call_is_never_run(call: str) -> None:
    """A call that the output limit cut, before or behind its last brace, is not run; the model goes on."""
    run = holds(story(f"{WRITE}replies: [{{blocks: [{{text: I write.}}, {call}], stop_reason: max_tokens}}, Done.]\n"))
    assert begun(run) == 0
    assert "max_output_tokens_recovery" in run.taken


def test_37_the_whole_sibling_runs() -> None:
    """Of two calls of which the second is cut the first runs, and the second is answered by an error."""
    two = '{tool: write, input: {path: y}}, {tool: write, raw: \'{"path":"x\'}'
    run = holds(story(f"{WRITE}replies: [{{blocks: [{two}], stop_reason: max_tokens}}, Done.]\n"))
    assert begun(run) == 1
    texts = list(results(run).values())
    assert "written" in texts[0]
    assert "written" not in texts[1]


def test_37_the_stop_reason_says_tool_use() -> None:
    """Input that is no JSON is not run, whatever the stop reason says."""
    run = holds(story(f"{WRITE}replies: [{{blocks: [{{tool: write, raw: '{{\"path\":'}}], stop_reason: tool_use}}, Done.]\n"))
    assert begun(run) == 0
    assert len(results(run)) == 1


CUT_STORY = (
    f"{WRITE}replies:\n  - {{blocks: [{{text: I write.}}, {{tool: write, input: {{path: y}}}}, {CUT[0]}], stop_reason: max_tokens}}\n"
    "  - {blocks: [{tool: write, input: {path: x}}]}\n  - Done.\n"
)


@pytest.mark.parametrize("fault", list(Fault))
def test_37_at_every_event(fault: Fault) -> None:
    """The same with every fault at every event."""
    at_every_event(story(CUT_STORY), fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
def test_37_over_http_at_every_event(fault: Fault) -> None:
    """The same over real HTTP."""
    over_http_at_every_event(story(CUT_STORY), fault)


BAD_INPUTS = ['{"a": 1,,}', '"just a string"', "[1,2]", "null", '{"a":1}{"b":2}', '{"a":1,"a":2}', '{"a":NaN}', "[" * 10_000]


@pytest.mark.parametrize("raw", BAD_INPUTS, ids=range(len(BAD_INPUTS)))
def test_39_unparsable_arguments(raw: str) -> None:
    """The history holds an object, the result is an error that shows the raw text, bounded; the tool does not run."""
    run = holds(story(f"{WRITE}replies: [{{blocks: [{{tool: write, raw: {json.dumps(raw)}}}]}}, Done.]\n"))
    assert begun(run) == 0
    calls = [block for item in run.state.messages for block in item.calls]
    assert [json.loads(block.json)["input"] for block in calls] == [{}]
    (text,) = results(run).values()
    assert "'is_error': True" in text
    assert raw[:8] in text.replace("\\'", "'")
    assert len(text) < 5_000


def test_41_usable_after_max_tokens() -> None:
    """Cut four times the run ends with its words kept, and the session goes on."""
    run = holds(
        story(
            f"{WRITE}replies: [{{blocks: [{{text: half}}], stop_reason: max_tokens, times: 4}}]\n",
            completed("max_output_exhausted"),
        )
    )
    assert len(bodies(run)) == 4
    assert "half" in run.state.messages[-1].blocks[0].json


SERVER = "{block: {type: server_tool_use, id: srvtoolu_1, name: web_search, input: {query: q}}}"
FOUND = "{block: {type: web_search_tool_result, tool_use_id: srvtoolu_1, content: []}}"
PAUSED = f"{{blocks: [{{text: I search.}}, {SERVER}], stop_reason: pause_turn}}"


def test_43_a_pause_is_no_end() -> None:
    """The paused content goes back unchanged as the last message, and both parts make one answer."""
    run = holds(story(f"replies: [{PAUSED}, {{blocks: [{FOUND}, {{text: Found.}}]}}]\n"))
    last = bodies(run)[1]["messages"][-1]  # type: ignore[index]
    assert last["role"] == "assistant"
    assert last["content"][-1]["type"] == "server_tool_use"
    assert run.state.turn_count == 1


def test_43_pauses_are_bounded() -> None:
    """A server that pauses for ever meets a cap."""
    paused = ", ".join(PAUSED.replace("srvtoolu_1", f"srvtoolu_{number}") for number in range(9))
    run = holds(story(f"replies: [{paused}]\n", completed("pause_limit")))
    assert len(bodies(run)) == 6


def test_43_aborted_while_paused() -> None:
    """An abort while the paused turn is asked for again leaves a history that goes on."""
    text = f"replies: [{PAUSED}, {{hangs: true}}]\nuser: [{{do: interrupt, when: {{phase: calling_model, nth: 1}}}}]\n"
    holds(
        story(
            text.replace("phase: calling_model, nth: 1", "event: stream_completed"),
            "{reason: aborted_streaming, cause: interrupt}",
        )
    )


REFUSALS = [
    "{blocks: [], stop_reason: refusal}",
    "{blocks: [{text: half a}], stop_reason: refusal}",
    "{blocks: [{tool: write}], stop_reason: refusal}",
]


@pytest.mark.parametrize("reply", REFUSALS)
def test_44_48_a_refusal_ends_the_run(reply: str) -> None:
    """One call, no tool run, no assistant message of the refused reply left, and the cause is refusal."""
    run = holds(story(f"{WRITE}replies: [{reply}]\n", completed("refusal")))
    assert len(bodies(run)) == 1
    assert begun(run) == 0
    assert not any(item.role == "assistant" for item in run.state.messages)


def test_45_the_window_is_exceeded() -> None:
    """The API's own word for it leads to a compaction before the next try, never to a larger limit."""
    text = (
        "config: {context: {keep_rounds: 1}}\ntools: {look: {read_only: true, concurrency_safe: true, result: {text: r, chars: 4000}}}\n"
        "replies: [{blocks: [{tool: look}]}, {blocks: [{tool: look}]}, "
        "{blocks: [{text: half}], stop_reason: model_context_window_exceeded}, Done.]\ncompactor: [It was looked at.]\n"
    )
    run = holds(story(text))
    assert "max_output_tokens_escalate" not in run.taken
    assert [str(kind) for kind in run.compactions] == ["forced"]


@pytest.mark.parametrize("word", ["new_reason_2027", "null"])
def test_45_unknown_stop_reasons(word: str) -> None:
    """A reason that nobody knows ends the run under its own cause; what was said is kept."""
    if word == "null":
        text = "replies: [{blocks: [{text: said}], stop_reason: }]\n"
        with pytest.raises(Exception, match="stop_reason"):
            story(text)
        return
    run = holds(story(f"replies: [{{blocks: [{{text: said}}], stop_reason: {word}}}]\n", completed("unknown_stop_reason")))
    assert run.state.terminal is not None
    assert word in str(run.state.terminal)


@pytest.mark.parametrize("word", ["end_turn", "stop_sequence"])
def test_47_calls_decide_not_the_stop_reason(word: str) -> None:
    """A whole call runs although the reply claims to have ended."""
    run = holds(story(f"{WRITE}replies: [{{blocks: [{{text: so}}, {{tool: write}}], stop_reason: {word}}}, Done.]\n"))
    assert begun(run) == 1


def test_50_empty_replies_are_never_stored() -> None:
    """Empty twice ends the run; no assistant message of it is sent afterwards, and the roles alternate."""
    run = holds(story("replies: [{blocks: [], times: 2}]\n", completed("empty_reply")))
    assert not any(item.role == "assistant" for item in run.state.messages)


@pytest.mark.parametrize("blank", ['"\\n\\n"', '"  "'])
def test_51_blank_texts_are_never_sent(blank: str) -> None:
    """Blank texts of a reply, of a tool, of an attachment and of a hook are left out of every request."""
    text = (
        f"config: {{stop_hooks: true, attachments: true}}\ntools: {{write: {{result: {blank}}}}}\nattachments: [{blank}]\n"
        f"replies: [{{blocks: [{{text: {blank}}}, {{tool: write}}]}}, Done., Done again.]\nstop_hooks: [{{block: {blank}}}]\n"
    )
    run = holds(story(text))
    assert not any(isinstance(event, BlockCompleted) and event.tool is not None and event.tool.problem for event in run.events)
