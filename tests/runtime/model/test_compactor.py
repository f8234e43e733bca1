"""The compactor over real HTTP, and its ladder."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.blocks import Block, block_text, read_block, text_block, tool_result, tool_use
from fsm_agent.core.config import ContextConfig, LoopConfig
from fsm_agent.core.effects import Compact, StageCollapse
from fsm_agent.core.events import CollapseFailed, CollapseStaged, CompactionFailed, CompactionFinished
from fsm_agent.core.failures import ErrorKind
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.phases import CompactKind
from fsm_agent.core.tokens import estimate_text
from fsm_agent.core.usage import total_output
from fsm_agent.runtime.compact_ladder import MAX_PIECES, MAX_TRIES, next_room, pieces, shrink
from fsm_agent.runtime.compact_text import SUMMARY_SYSTEM, Part, Round, clip, part, rounds_of, size_of, transcript
from fsm_agent.runtime.compactor import ModelCompactor
from fsm_agent.runtime.model_caller import ModelCaller
from fsm_agent.runtime.model_data import load_models
from fsm_agent.runtime.retry_after import no_jitter
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.exchange import Exchange
from fsm_agent.server.replies import Blocks, HttpError, Reply, StreamError, calls, says, text, thinking, tool

MODEL = "claude-opus-5"
Script = Callable[[int, dict[str, Any]], Reply] | list[Reply]


def config(**fields: Any) -> LoopConfig:
    """Make a configuration that knows the packaged models."""
    return LoopConfig(model=MODEL, models=load_models(), **fields)


def history(rounds: int = 3, result: str = "a line of output\n" * 20) -> tuple[Message, ...]:
    """Make a conversation of one request and rounds of thinking, text, a call and its result."""
    items = [message("m0", "user", MessageKind.PROMPT, (text_block("Mend the parser, please."),))]
    for number in range(rounds):
        reply: tuple[Block, ...] = (
            read_block({"type": "thinking", "thinking": "secret thought", "signature": "sig"}),
            text_block(f"step {number}"),
            tool_use(f"toolu_{number}", "Bash", '{"command":"make"}'),
        )
        items.append(message(f"a{number}", "assistant", MessageKind.ASSISTANT, reply, model="other-model"))
        items.append(message(f"r{number}", "user", MessageKind.TOOL_RESULTS, (tool_result(f"toolu_{number}", result),)))
    return tuple(items)


TAIL = (message("t", "user", MessageKind.PROMPT, (text_block("Now write the tests."),)),)


def effect(messages: tuple[Message, ...], **fields: Any) -> Compact:
    """Make a compaction of these messages."""
    return Compact(
        **{
            "id": "r/compact-1",
            "kind": CompactKind.AUTO,
            "messages": messages,
            "tail": TAIL,
            "model": MODEL,
            "target": 2_000,
            **fields,
        }
    )


async def no_sleep(seconds: float) -> None:
    """Wait in name only."""
    await anyio.lowlevel.checkpoint()


def compact(
    script: Script, asked: Compact | StageCollapse, settings: LoopConfig | None = None, **fields: Any
) -> tuple[Any, list[Exchange]]:
    """Compact over real HTTP; give the answer and the requests that the server checked."""

    async def main() -> Any:
        async with ModelCaller(base_url=server.base_url, api_key="k", jitter=no_jitter) as model:
            compactor = ModelCompactor(model, settings or config(), sleep=no_sleep, **fields)
            if isinstance(asked, Compact):
                return await compactor.compact(asked)
            return await compactor.collapse(asked)

    with LoopbackServer(script, models=load_models()) as server:
        answer = anyio.run(main)
        assert [found for found in server.breaches if "again unchanged" not in found[1]] == []
        return answer, list(server.requests)


def sizes(requests: list[Exchange]) -> list[int]:
    """Give the size of each request's transcript in characters."""
    return [len(one.body["messages"][0]["content"][0]["text"]) for one in requests]


def test_a_compaction_is_one_call_without_tools() -> None:
    """The request has the summary prompt, no tools, no thinking of another model, and ends with what is asked."""
    answer, (request,) = compact([says("All is well.")], effect(history(), instructions="Keep the names."))
    assert isinstance(answer, CompactionFinished)
    assert [block_text(block) for block in answer.summary] == ["All is well."]
    assert (answer.id, answer.stop_reason, answer.summarised) == ("r/compact-1", "end_turn", 7)
    assert total_output(answer.usage) > 0
    body = request.body
    assert body["system"] == SUMMARY_SYSTEM
    assert "tools" not in body
    assert body["thinking"] == {"type": "disabled"}
    shown, follows, wishes, asked = (block["text"] for block in body["messages"][0]["content"])
    assert "Mend the parser" in shown
    assert "[calls Bash]" in shown
    assert "secret thought" not in shown
    assert "Now write the tests." in follows
    assert "Keep the names." in wishes
    assert "words" in asked


def test_another_model_may_write_the_summary() -> None:
    """A summariser of its own gets a request that it takes (field report 20)."""
    answer, (request,) = compact([says("ok")], effect(history()), summariser="claude-haiku-4-5")
    assert isinstance(answer, CompactionFinished)
    assert request.body["model"] == "claude-haiku-4-5"
    assert "thinking" not in request.body


def test_media_is_named_and_not_sent() -> None:
    """A medium in the history cannot make the summary fail."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x" * 1_000}}
    blocks = (read_block(image), text_block("what is this?"))
    messages = (message("m", "user", MessageKind.PROMPT, blocks), *history())
    answer, (request,) = compact([says("A picture.")], effect(messages))
    assert isinstance(answer, CompactionFinished)
    assert "[image]" in json.dumps(request.body)
    assert "xxxx" not in json.dumps(request.body)


def limited(most: int, *, gap: bool) -> Callable[[int, dict[str, Any]], Reply]:
    """Answer "prompt is too long" above ``most`` tokens."""

    def reply(call: int, body: dict[str, Any]) -> Reply:
        size = sum(estimate_text(block["text"]) for block in body["messages"][0]["content"])
        if size > most:
            words = f"prompt is too long: {size} tokens > {most} maximum" if gap else "Prompt is too long"
            return HttpError(400, message=words)
        return says(f"Summary {call}.")

    return reply


@pytest.mark.parametrize("gap", [True, False], ids=["gap told", "gap unknown"])
@pytest.mark.parametrize("most", [15_000, 8_000, 2_500])
def test_a_history_that_is_too_long_to_summarise_still_is(most: int, gap: bool) -> None:
    """The input shrinks strictly until it fits, at most four inputs, and the goal survives (field report 4)."""
    answer, requests = compact(limited(most, gap=gap), effect(history(40, "some output of a tool\n" * 50)))
    assert isinstance(answer, CompactionFinished)
    assert block_text(answer.summary[0]).startswith("Summary")
    found = sizes(requests)
    refused = sum(one.status == 400 for one in requests)
    assert 0 < refused < MAX_TRIES
    assert found[: refused + 1] == sorted(found[: refused + 1], reverse=True)
    assert len(set(found[: refused + 1])) == refused + 1
    assert "Mend the parser" in requests[-1].body["messages"][0]["content"][0]["text"] or len(requests) > refused + 1


def test_a_conversation_that_never_fits_fails_after_a_bounded_number_of_tries() -> None:
    """The API's refusal is the failure, each input was smaller, and none was sent twice."""
    answer, requests = compact(limited(10, gap=False), effect(history(40, "some output\n" * 50)))
    assert isinstance(answer, CompactionFailed)
    assert answer.failure.kind is ErrorKind.PROMPT_TOO_LONG
    found = sizes(requests)
    assert len(found) <= MAX_TRIES
    assert found == sorted(set(found), reverse=True)


def test_one_giant_result_is_cut_in_the_middle() -> None:
    """What one round alone holds too much of loses its middle; head and tail stay."""
    messages = history(1, "first line\n" + "x y z\n" * 30_000 + "last line")
    answer, requests = compact(limited(20_000, gap=True), effect(messages))
    assert isinstance(answer, CompactionFinished)
    shown = requests[-1].body["messages"][0]["content"][0]["text"]
    assert "first line" in shown
    assert "last line" in shown
    assert "characters left out" in shown


def test_the_window_is_respected_before_anything_is_sent() -> None:
    """In a small window the first request is made to fit, by our own estimate."""
    small = config(context=ContextConfig(context_window=20_000))
    answer, (request,) = compact(limited(16_000, gap=True), effect(history(60, "output\n" * 200)), small)
    assert isinstance(answer, CompactionFinished)
    assert request.body["max_tokens"] <= 20_000 // 3


def test_the_gap_of_the_refused_prompt_shrinks_the_first_input() -> None:
    """After a real prompt-too-long the compactor does not start with what was refused."""
    messages = history(20)
    _, (full,) = compact([says("ok")], effect(messages))
    held = sum(item.tokens for item in messages)
    _, (less,) = compact([says("ok")], effect(messages, over_tokens=held // 2))
    assert sizes([less])[0] < sizes([full])[0]


@pytest.mark.parametrize("fault", [HttpError(529), HttpError(500), StreamError(says("half"), after_frames=3)])
def test_transient_failures_are_survived_twice(fault: Reply) -> None:
    """Two transient failures are tried again, the third is the answer; every attempt is paid."""
    answer, requests = compact([fault, fault, says("done")], effect(history()))
    assert isinstance(answer, CompactionFinished)
    assert len(requests) == 3
    answer, requests = compact([fault, fault, fault], effect(history()))
    assert isinstance(answer, CompactionFailed)
    assert len(requests) == 3


@pytest.mark.parametrize("fault", [HttpError(401), HttpError(403), HttpError(429, retry_after=3_600)])
def test_failures_that_no_short_wait_mends_end_it_at_once(fault: Reply) -> None:
    """Permanent failures, and waits of an hour, are left to the loop."""
    answer, requests = compact([fault, says("never")], effect(history()))
    assert isinstance(answer, CompactionFailed)
    assert len(requests) == 1


BAD: list[tuple[str, Blocks, int]] = [
    ("empty", Blocks(()), 2),
    ("blank", says("   \n"), 2),
    ("thinking only", Blocks((thinking("hm"),)), 2),
    ("cut", says("The", stop_reason="max_tokens"), 2),
    ("a call", calls(tool("Bash", {})), 2),
    ("refusal", Blocks((), stop_reason="refusal"), 1),
]


@pytest.mark.parametrize(("reply", "tries"), [pytest.param(reply, tries, id=name) for name, reply, tries in BAD])
def test_unusable_summaries_are_tried_once_more_and_handed_on_as_they_came(reply: Blocks, tries: int) -> None:
    """The core judges what came; nothing is made up here (field report 6)."""
    answer, requests = compact([reply, reply, reply], effect(history()))
    assert isinstance(answer, CompactionFinished)
    assert len(requests) == tries
    assert answer.stop_reason != "end_turn" or not any(block_text(block).strip() for block in answer.summary)
    span = StageCollapse(id="r/collapse-1", span="s", messages=history(), model=MODEL)
    collapsed, _ = compact([reply, reply, reply], span)
    assert isinstance(collapsed, CollapseFailed)


def test_a_second_reply_after_an_unusable_one_counts() -> None:
    """One bad reply is no failure."""
    answer, _ = compact([Blocks(()), says("Now it is good.")], effect(history()))
    assert isinstance(answer, CompactionFinished)
    assert block_text(answer.summary[0]) == "Now it is good."


def test_a_span_is_summed_up() -> None:
    """A collapse gives one text block."""
    span = StageCollapse(id="r/collapse-1", span="s", messages=history(), model=MODEL)
    answer, _ = compact([Blocks((thinking("hm"), text("One "), text("two.")))], span)
    assert isinstance(answer, CollapseStaged)
    assert block_text(answer.summary) == "One\ntwo."


def test_nothing_to_sum_up_is_an_empty_summary_without_a_call() -> None:
    """With nothing to sum up no request is made: the core only drops refused media from what it keeps."""
    answer, requests = compact([], effect(()))
    assert answer == CompactionFinished(id=answer.id, summary=())
    assert requests == []


def test_a_round_is_a_reply_with_its_results() -> None:
    """Calls and results stay together, wherever the ladder cuts."""
    rounds = rounds_of(history(3))
    assert [len(parts) for parts in rounds] == [1, 3, 3, 3]
    assert all("Result of Bash" in transcript([parts]) for parts in rounds[1:])


_part = st.builds(
    lambda label, words, count, request: part(label, words * count, request=request),
    st.sampled_from(["User request", "Agent", "Result of Bash"]),
    st.sampled_from(["word ", "漢字", "x", "line\n"]),
    st.integers(1, 4_000),
    st.booleans(),
)
_rounds = st.lists(st.lists(_part, min_size=1, max_size=4).map(tuple), min_size=1, max_size=6).map(tuple)


@given(_rounds, st.integers(1, 20_000))
@settings(max_examples=80, deadline=None)
def test_shrinking_comes_near_its_goal_and_never_grows(rounds: tuple[Round, ...], room: int) -> None:
    """The result is no larger than the input (but for the note about what is gone), and as small as asked where it can be."""
    made = shrink(rounds, room)
    count = sum(map(len, made.rounds))
    assert made.tokens == size_of(made.rounds)
    assert made.tokens <= max(room * 11 // 10, 120 * count)
    assert made.tokens <= size_of(rounds) + 120 + 1_000


@given(_rounds, st.integers(60, 5_000))
@settings(max_examples=60, deadline=None)
def test_pieces_are_few_and_small(rounds: tuple[Round, ...], room: int) -> None:
    """There are at most eight pieces, and each is about as small as asked."""
    made = pieces(rounds, room)
    assert 0 < len(made) <= MAX_PIECES
    assert all(item.tokens <= room * 12 // 10 + 300 for item in made)


@given(st.integers(2, 10**6), st.integers(0, 10**6), st.integers(1, 4))
def test_the_next_input_is_always_smaller(size: int, over: int, tried: int) -> None:
    """Whatever gap the API tells, the next goal is below the last size."""
    assert 0 < next_room(size, over, tried) < size


@given(_part, st.integers(1, 3_000))
@settings(max_examples=60, deadline=None)
def test_a_clipped_part_keeps_its_ends(item: Part, tokens: int) -> None:
    """A part that is cut is smaller and keeps how it begins and ends."""
    made = clip(item, tokens)
    assert made.tokens <= item.tokens
    assert made.text[:8] == item.text[:8]
    assert made.text[-4:] == item.text[-4:]
