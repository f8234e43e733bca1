"""Long histories: what each layer makes of 2,000 messages, and that a pass over 5,000 does only what is new."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.context import media, tally
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.context.usage import with_usage
from fsm_agent.core.messages import Message
from fsm_agent.core.request import sending
from fsm_agent.core.request.build import Built, build

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from bench_context import ALONE, MODEL, TOGETHER, config, history, layers, round_of
from build import looks_inside


def test_each_layer_alone_and_all_together_make_room() -> None:
    """On 2,000 messages every layer frees tokens by itself; where collapse gets below the threshold nothing is compacted."""
    found = layers(2_000)
    assert set(ALONE) < set(found)
    assert all(one.after < one.before for one in found.values())
    assert found["auto-compact"].compacted
    assert not found["collapse and auto-compact"].compacted
    assert not found["collapse and auto-compact"].due
    assert not found["all together"].due
    lightest = min(found[name].after for name in ("result budget", "snip", "microcompact", "collapse"))
    assert found["all together"].after < lightest
    # Without a compaction finer context is kept.
    assert found["all together"].messages > 100 * found["auto-compact"].messages


@looks_inside
def test_a_pass_over_a_long_history_looks_at_what_is_new_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5,000 messages and nothing to do, each further turn normalises, encodes and counts its own round and no other."""
    wide = evolve(MODEL, context_window=50_000_000)
    conf = evolve(config(evolve(TOGETHER, result_chars=10**9)), models=(wide,))
    view, context = history(5_000), ContextState()
    looked: list[int] = []
    normalised: list[int] = []

    def clearable(*arguments: Any) -> Any:
        looked.append(len(arguments[0]) - arguments[1])
        return real(*arguments)

    def shown(new: tuple[Message, ...], *rest: Any) -> Any:
        normalised.append(len(new))
        return made(new, *rest)

    def plain(new: tuple[Message, ...], *rest: Any) -> bool:
        normalised.append(len(new))
        return asked(new, *rest)

    real, made, asked = tally._clearable, sending._shown, sending.is_plain
    monkeypatch.setattr(tally, "_clearable", clearable)
    monkeypatch.setattr(sending, "_shown", shown)
    monkeypatch.setattr(sending, "is_plain", plain)
    monkeypatch.setattr(media, "map_media", None)  # there are none, so nobody may look for them
    for number in range(6):
        found = prepare(view, context, conf, MODEL.name, f"p-{number}")
        built = build(found.view, found.context, conf, MODEL.name)
        assert isinstance(built, Built)
        assert found.reports == ()
        context, view = built.context, found.view + round_of(9_000 + number)
    assert looked == [5_000, 2, 2, 2, 2, 2]
    assert normalised == [5_000, 2, 2, 2, 2, 2]


def python_calls(messages: int, turns: int = 12) -> int:
    """Count the Python calls of a pass and its request, over turns that each add one round to a history."""
    wide = evolve(MODEL, context_window=50_000_000)
    conf = evolve(config(evolve(TOGETHER, result_chars=10**9)), models=(wide,))
    view, context = history(messages), ContextState()
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    for number in range(turns):
        if number == 2:  # the first passes count the whole history, as those of a resumed run do
            sys.setprofile(note)
        try:
            found = prepare(view, context, conf, MODEL.name, f"p-{number}")
            built = build(found.view, found.context, conf, MODEL.name)
        finally:
            if number == turns - 1:
                sys.setprofile(None)
        assert isinstance(built, Built)
        context = with_usage(built.context, MODEL.name, found.view[-2].id, 10_000 + number)
        view = found.view + round_of(90_000 + number)
    return count


def test_no_part_of_a_turn_walks_through_the_history() -> None:
    """Ten turns take as many calls with 4,000 messages as with 400, whoever makes them."""
    short, long = python_calls(400), python_calls(4_000)
    assert long < short + 200
