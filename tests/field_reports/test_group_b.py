"""Field reports B: pairing of calls and results."""
# ruff: noqa: E501 - a reply of a story stands on one line

from __future__ import annotations

import pytest

from fsm_agent.core.events import EffectLost, ToolFinished
from fsm_agent.core.step import step
from fsm_agent.testing import Fault

from .kit import at_every_event, begun, bodies, holds, over_http_at_every_event, results, story

THREE = """
tools:
  quick: {read_only: true, concurrency_safe: true, result: real, duration_ms: 10}
  slow: {concurrency_safe: true, hang: true, progress: [half of it]}
  alone: {result: never}
replies:
  - blocks: [{tool: quick, input: {n: 1}}, {tool: slow, input: {n: 2}}, {tool: alone, input: {n: 3}}]
"""
ENDS = """
tools:
  quick: {read_only: true, concurrency_safe: true, result: real}
  write: {result: written, progress: [half of it]}
replies:
  - blocks: [{text: I look and write.}, {tool: quick, input: {n: 1}}, settle, {tool: write, input: {n: 2}}, {tool: write, input: {n: 3}}]
  - blocks: [{thinking: hm}, {tool: write, input: {n: 4}}]
  - All is done.
"""
INTERRUPTED = "{reason: aborted_tools, cause: interrupt}"


def test_24_interrupt_with_one_done_one_running_one_waiting() -> None:
    """Each call has one result: the real one, an unknown outcome with what was seen, and "not run"."""
    scenario = story(THREE + "user: [{do: interrupt, when: {event: tool_finished}}]\n", INTERRUPTED)
    run = holds(scenario)
    texts = list(results(run).values())
    assert len(texts) == 3
    assert "real" in texts[0]
    assert "interrupted" in texts[1].lower()
    assert "half of it" in texts[1] or not any("progress" in row for row in run.taken)
    assert "not run" in texts[2].lower()


@pytest.mark.parametrize("fault", list(Fault))
def test_24_at_every_event(fault: Fault) -> None:
    """Whatever comes at whichever event of a run with three calls, the next request is legal."""
    at_every_event(story(ENDS), fault)


@pytest.mark.long
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.KILL])
def test_24_over_http_at_every_event(fault: Fault) -> None:
    """The same over real HTTP."""
    over_http_at_every_event(story(ENDS), fault)


def test_26_retries_leave_no_orphans() -> None:
    """Five attempts that break behind two calls each leave nothing in the history, and their tools never ran."""
    broken = "  - {blocks: [{tool: write, input: {n: 1}}, {tool: write, input: {n: 2}}, {text: x}], fails: connection_lost, times: 5}\n"
    last = "  - {blocks: [{tool: write, input: {n: 1}}, {tool: write, input: {n: 2}}]}\n  - Done.\n"
    run = holds(story("tools: {write: {}}\nreplies:\n" + broken + last))
    assert len(bodies(run)) == 7
    assert all(body == bodies(run)[0] for body in bodies(run)[:6])
    assert begun(run) == 2
    assert len(results(run)) == 2


def test_27_finished_results_outlive_a_stalled_sibling() -> None:
    """The results of two that ended are real, only the third is reported as interrupted."""
    tools = "a: {concurrency_safe: true, result: A is done, duration_ms: 10}, b: {concurrency_safe: true, result: B is done, duration_ms: 20}"
    text = (
        f"tools: {{{tools}, c: {{concurrency_safe: true, hang: true}}}}\n"
        "replies: [{blocks: [{tool: a}, {tool: b}, {tool: c}]}]\n"
        "user: [{do: interrupt, when: {event: tool_finished, nth: 2}}]\n"
    )
    texts = list(results(holds(story(text, INTERRUPTED))).values())
    assert "A is done" in texts[0]
    assert "B is done" in texts[1]
    assert "interrupted" in texts[2].lower()


def test_29_the_first_result_wins() -> None:
    """A second result for one call is stale and changes nothing, before and after the end of the round."""
    run = holds(story("tools: {write: {result: first}}\nreplies: [{blocks: [{tool: write}]}, Done.]\n"))
    seen = False
    state = None
    for event, made in run.steps:
        if seen and state is not None:
            again = step(made.state, state, story("replies: [x]\n").config)
            assert again.taken == ("stale",) or again.rejected is not None
            assert again.state is made.state
        if isinstance(event, ToolFinished):
            seen, state = True, event
    assert seen
    assert len(results(run)) == 1


@pytest.mark.parametrize("name", ['""', "'bad id!'", "t1"])
def test_30_ids_that_cannot_be_sent(name: str) -> None:
    """Empty, ill-formed and repeated ids are replaced, each call has its own result, and the event keeps the original."""
    first = "{tool: look, id: t1, input: {n: 1}}"
    text = (
        "tools: {look: {read_only: true, concurrency_safe: true, result: seen}}\n"
        f"replies: [{{blocks: [{first}]}}, {{blocks: [{{tool: look, id: {name}, input: {{n: 2}}}}]}}, Done.]\n"
    )
    run = holds(story(text))
    assert len(results(run)) == 2
    assert begun(run) == 2
    uses = [event.tool for event in run.events if getattr(event, "tool", None) is not None]
    assert uses[1].id == name.strip("'\"")


def test_32_results_are_first_and_contiguous() -> None:
    """A queued message, attachments, prefetched memories and a late notice all stand behind the results."""
    text = """
config: {prefetch_memory: true, prefetch_skills: true, attachments: true}
memory: {text: remember, duration_ms: 5}
skills: {text: a skill, duration_ms: 5}
attachments: [the file changed]
tools: {look: {read_only: true, concurrency_safe: true}}
replies: [{blocks: [{tool: look, input: {n: 1}}, settle, {tool: look, input: {n: 2}}, settle, {tool: look, input: {n: 3}}]}, Done.]
user: [{do: {queue: And this.}, when: {event: stream_started}}]
"""
    run = holds(story(text))
    content = bodies(run)[1]["messages"][-1]["content"]  # type: ignore[index]
    kinds = [block["type"] for block in content]
    assert kinds[:3] == ["tool_result"] * 3
    assert "tool_result" not in kinds[3:]
    assert "And this." in str(content[3:])


@pytest.mark.parametrize(
    "reply",
    [
        "{blocks: [{text: half}], stop_reason: max_tokens}",
        "{blocks: [{thinking: hm}]}",
        "{blocks: [{text: half, open: true}], fails: connection_lost}",
    ],
)
def test_34_no_request_ends_with_the_assistant(reply: str) -> None:
    """After a reply that was cut, held only thinking, or broke off, and after a crash at any event, the last word is the user's."""
    scenario = story(f"config: {{max_output_tokens: 4096}}\nreplies: [{reply}, Done.]\n")
    run = holds(scenario)
    assert all(body["messages"][-1]["role"] == "user" for body in bodies(run))  # type: ignore[index]
    at_every_event(scenario, Fault.KILL)


def test_35_the_model_is_told_of_the_interruption() -> None:
    """The next request says that the user stopped the run and what became of the call; the marker is no request of the user."""
    scenario = story(THREE + "user: [{do: interrupt, when: {event: tool_finished}}]\n", INTERRUPTED)
    run = holds(scenario)
    texts = [block.json for item in run.state.messages[-2:] for block in item.blocks]
    assert any("user interrupted this turn while tools were running" in text for text in texts)
    assert not any(isinstance(event, EffectLost) for event in run.events)
