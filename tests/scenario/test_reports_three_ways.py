"""Group A of the field reports, where a scenario needs more than the catalog's: three ways, and what the requests hold.

The scenarios are in ``reports/``: long histories, large pictures, other scripts. Each is played by the bare reducer, by the
interpreter with scripted models and the real compactor, and over real HTTP with a strict server.
"""

from __future__ import annotations

import json
from itertools import pairwise

import anyio
import pytest
from attrs import evolve

from fsm_agent.core.blocks import block_value
from fsm_agent.core.effects import CallModel, Compact
from fsm_agent.core.events import CompactRequested
from fsm_agent.core.messages import Message, MessageKind
from fsm_agent.core.phases import Phase
from fsm_agent.core.step import next_run, step
from fsm_agent.runtime.compact_ladder import MAX_TRIES
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.format import Way

from .reported import BY, WAYS, by_hand, report, shown, summary_inputs, user_texts


@pytest.mark.parametrize("way", WAYS)
def test_2_files_shown_again_are_counted_and_the_large_one_is_left_out(way: Way) -> None:
    """The small file is attached, the one that would fill the window is named; the work ends after two compactions."""
    scenario = report("files-shown-again")
    made = shown(scenario, way)
    assert len(made.bodies) == 6
    first, second = made.boundaries
    for boundary in (first, second):
        assert "rules.md" in boundary.detail
        assert boundary.after < boundary.before * 3 // 4
    attached = "This file was in use before the summary above was written"
    after = json.dumps(made.bodies[2]["messages"])
    assert after.count(attached) == 1
    assert "notes.md" in after


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "limit"), [("summary-fits", 190_000), ("summary-fits-small", 20_000)])
def test_4_what_is_too_long_to_summarise_gets_its_summary(name: str, limit: int, way: Way) -> None:
    """The input shrinks until it fits, in few tries; the newest request stays word for word and last.

    The bare reducer asks for one compaction and has no ladder; the interpreter and HTTP have the real one.
    """
    scenario = report(name)
    made = shown(scenario, way)
    assert user_texts(made.bodies[-1])[-1] == "Now write the index, and mind the umlauts."
    assert any("Five chapters are read." in text for text in user_texts(made.bodies[-1]))
    if way is Way.REDUCER:
        return
    sizes = summary_inputs(made)
    assert len(sizes) <= MAX_TRIES
    assert sizes == sorted(set(sizes), reverse=True)
    # By its own estimate it sends no more than fits into the window; a smaller limit it learns from the refusal.
    assert (len(sizes) > 1) is (limit < 190_000)


@pytest.mark.parametrize("way", WAYS)
def test_4_what_never_fits_is_kept(way: Way) -> None:
    """Each input is smaller than the one before, their number is bounded, and the history is as it was."""
    scenario = report("summary-never-fits")
    made = shown(scenario, way)
    assert made.state.messages[: len(scenario.history)] == scenario.history
    assert MessageKind.SUMMARY not in {item.kind for item in made.state.messages}
    assert len(made.bodies) == 1
    if way is not Way.REDUCER:
        sizes = summary_inputs(made)
        assert 2 <= len(sizes) <= 2 * MAX_TRIES
        # One ladder for each of the two compactions, each strictly down.
        assert sum(after >= before for before, after in pairwise(sizes)) == 1


def split_calls(messages: tuple[Message, ...]) -> set[str]:
    """Give calls without a result, and results without a call."""
    calls = {block.id for item in messages for block in item.calls}
    return calls ^ {block.id for item in messages for block in item.results}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("started", [1, 3, 4, 6])
def test_11_no_cut_parts_a_call_from_its_results(started: int, keep: int, way: Way) -> None:
    """A compaction after each round, whatever number of rounds is kept: both requests behind the cut keep to the rules."""
    base = report("cut-anywhere")
    (action,) = base.user
    context = evolve(base.config.context, keep_rounds=keep)
    scenario = evolve(base, user=(evolve(action, nth=started),), config=evolve(base.config, context=context))
    made = shown(scenario, way)
    assert user_texts(made.bodies[-1])[-1] == "Read the chapters, two at a time."
    if way is Way.REDUCER:
        asked = [effect for effect in drive(scenario).effects if isinstance(effect, Compact)]
        for effect in asked:
            assert split_calls(effect.messages) == set()


@pytest.mark.parametrize("way", WAYS)
def test_11_a_snip_takes_whole_rounds(way: Way) -> None:
    """What is cut off in front is a round with all its results, and the request stays."""
    made = shown(report("snip-anywhere"), way)
    assert [boundary.kind for boundary in made.boundaries] == ["snip"]
    assert len(made.bodies[-1]["messages"]) < 2 * 4 + 1
    assert "Read the chapters, two at a time." in user_texts(made.bodies[-1])


@pytest.mark.parametrize("way", WAYS)
def test_18_a_compaction_at_rest_starts_nothing(way: Way) -> None:
    """The summariser is asked once and nobody else; the conversation rests on, and only the next prompt starts a run."""
    scenario = report("at-rest")
    rested = shown(scenario, way)
    done, requests = anyio.run(by_hand, scenario, rested.state, way)
    assert (done.problem, requests) == ("", 1)
    assert done.boundary is not None
    assert (done.state.phase, done.state.terminal) == (rested.state.phase, rested.state.terminal)
    assert done.state.control.flight == ()
    following = evolve(
        report("at-rest"), history=(), prompt=('{"type":"text","text":"Thank you."}',), replies=scenario.replies[1:2]
    )
    again = BY[way](following, next_run(done.state, scenario.config))
    assert [len(again.bodies), user_texts(again.bodies[0])[-1]] == [1, "Thank you."]
    assert any("Both chapters are counted" in text for text in user_texts(again.bodies[0]))
    assert "Count the first chapter." not in json.dumps(again.bodies[0])


def test_18_the_core_takes_no_compaction_at_rest() -> None:
    """A request for a compaction that reaches a run at its end is refused by the table, and asks for no effect."""
    scenario = report("at-rest")
    state = drive(scenario).state
    assert state.phase is Phase.COMPLETED
    made = step(state, CompactRequested(instructions=""), scenario.config)
    assert made.effects == ()
    assert made.rejected
    assert made.state == state


@pytest.mark.parametrize("way", WAYS)
def test_20_another_model_writes_the_summary(way: Way) -> None:
    """Its request has no thinking and nothing it cannot take; the first model keeps its thoughts in the kept round."""
    made = shown(report("another-summariser"), way)
    last = json.dumps(made.bodies[-1]["messages"])
    assert "Only the third is left." in last
    assert "I begin with the first." not in last
    kept = [block for body in made.bodies[-1:] for message in body["messages"] for block in message["content"]]
    thoughts = [block for block in kept if block["type"] == "thinking"]
    received = [
        block_value(block)
        for item in drive(report("another-summariser")).state.messages
        for block in item.blocks
        if block.type == "thinking"
    ]
    assert [block["thinking"] for block in thoughts] == [block["thinking"] for block in received]
    assert all(block["signature"] for block in thoughts)
    if way is Way.REDUCER:
        return
    (asked,) = made.asked
    assert asked["model"] == "small-model"
    assert "thinking" not in asked
    assert "tools" not in asked
    words = json.dumps(asked["messages"])
    assert "signature" not in words
    assert "I begin with the first." not in words


@pytest.mark.parametrize("way", WAYS)
def test_21_large_pictures_count_by_their_pixels(way: Way) -> None:
    """Three megabytes of picture are some thousand tokens: nothing is compacted, and the first request holds the picture."""
    scenario = report("large-pictures")
    made = shown(scenario, way)
    first, second = ([json.dumps(message).count('"image/png"') for message in body["messages"]] for body in made.bodies)
    assert first == [1]
    assert second == [1, 0, 1]
    assert len(json.dumps(made.bodies[0])) > 4_000_000
    (call, _) = [effect for effect in drive(scenario).effects if isinstance(effect, CallModel)]
    assert 1_000 < call.request.estimate < 5_000


SCRIPTS = {"han": "漢", "hangul": "한", "kana": "か", "emoji": "\N{GRINNING FACE}", "jamo": "\u1112"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_23_other_scripts_are_compacted_in_time(script: str, way: Way) -> None:
    """A hundred messages of 2,000 characters count 200,000 tokens at least; the kept tail is small by the same measure.

    After the first reply the count is that of its usage.
    """
    scenario = report("other-scripts", {"script": SCRIPTS[script]})
    made = shown(scenario, way)
    (boundary,) = made.boundaries
    assert boundary.before >= 200_000
    assert boundary.after < 10_000
    assert len(json.dumps(made.bodies[0]["messages"], ensure_ascii=False)) < 8_000
    base = made.state.data.context.base
    assert base is not None
    assert base.tokens < 200
