"""I14, I15, I16 on the log: silent on good runs, and each speaks when the text, the log or the reducer is another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.blocks import text_block
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.events import EffectLost, StreamCompleted
from fsm_agent.core.phases import TERMINAL_SET
from fsm_agent.explorer.explore import explore
from fsm_agent.laws import Edge, judge_run
from fsm_agent.laws.runs import edges_of
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import drive
from fsm_agent.scenario.playing import first_state
from fsm_agent.testing import LOG_LAWS, law, laws
from tests.explorer.small import TINY


def run_of(name: str) -> tuple[tuple[Edge, ...], LoopConfig]:
    scenario = load(name)
    events = [event for event, _ in drive(scenario).steps]
    return edges_of(first_state(scenario), events, scenario.config), scenario.config


@pytest.mark.parametrize("name", ["salvage", "collapse-drain", "fallback", "queued-command", "thinking-refused", "repair"])
def test_good_runs_keep_them(name: str) -> None:
    """Runs of the catalogue."""
    assert judge_run(*run_of(name), LOG_LAWS) == []


def test_a_sample_of_the_machine_keeps_them() -> None:
    """States and edges of a small exploration."""
    found = explore(TINY.config, TINY.bounds, LOG_LAWS[:3])
    assert found.violations == ()


def test_they_are_found_by_their_groups() -> None:
    """``laws`` knows I14 and I15, and the laws of I16 on both sides."""
    assert {item.name for item in laws("I14")} >= {
        "an_event_reads_back",
        "effects_read_back",
        "a_state_reads_back",
        "a_log_reads_back",
    }
    assert law("a_replay_equals_the_run") in laws("I15")
    assert {item.name for item in laws("I16")} >= {"a_crash_is_survived", "every_prefix_of_its_log_resumes"}
    assert [group for group in (f"I{number}" for number in range(1, 18)) if not laws(group)] == []


def words(edges: tuple[Edge, ...], config: LoopConfig, name: str) -> list[str]:
    return [said for _, _, said in judge_run(edges, config, (law(name),))]


def test_an_event_that_is_written_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that loses something of an event, an effect or a state is caught."""
    edges, config = run_of("next-turn")
    place = "fsm_agent.testing.log_laws"
    monkeypatch.setattr(f"{place}.decode_event", lambda text: EffectLost("r/call-1"))
    monkeypatch.setattr(f"{place}.decode_effect", lambda text: None)
    monkeypatch.setattr(f"{place}.decode_state", lambda text: edges[0].before)
    assert words(edges, config, "an_event_reads_back")
    assert words(edges, config, "effects_read_back")
    assert words(edges, config, "a_state_reads_back") == ["the state reads back otherwise"] * len(edges)


def test_a_step_that_the_reducer_does_not_take() -> None:
    """A run whose recorded step is not that of the reducer does not replay."""
    edges, config = run_of("next-turn")
    last = edges[-1]
    assert last.made.state.phase in TERMINAL_SET
    run = evolve(last.made.state.control.run, turn_count=99)
    state = evolve(last.made.state, control=evolve(last.made.state.control, run=run))
    wrong = (*edges[:-1], Edge(last.before, last.event, evolve(last.made, state=state), config))
    assert words(wrong, config, "a_replay_equals_the_run") != []
    place = next(number for number, edge in enumerate(edges) if edge.made.effects)
    less = Edge(edges[place].before, edges[place].event, evolve(edges[place].made, effects=()), config)
    wrong = (*edges[:place], less, *edges[place + 1 :])
    assert "effects" in words(wrong, config, "a_replay_equals_the_run")[0]


def test_a_record_that_reads_back_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that gives another event than was written is caught by the record's number."""
    edges, config = run_of("next-turn")
    from fsm_agent.testing import log_laws

    def other(path: Path) -> object:
        log = log_laws_read(path)
        found = list(log.records())
        spoiled = [
            evolve(record, event=evolve(record.event, usage=())) if isinstance(record.event, StreamCompleted) else record
            for record in found
        ]

        class Spoiled:
            header = log.header

            def records(self) -> object:
                return iter(spoiled)

        return Spoiled()

    log_laws_read = log_laws.read_log
    monkeypatch.setattr(log_laws, "read_log", other)
    assert "reads back otherwise" in words(edges, config, "a_log_reads_back")[0]


def test_texts_of_all_kinds() -> None:
    """Lone surrogates never enter; what does enter reads back."""
    edges, config = run_of("next-turn")
    first = edges[0]
    prompt = first.event.messages[0]  # type: ignore[union-attr]
    odd = evolve(prompt, blocks=(text_block('\u2028"\\\x00\U0001f600{"a":'),))
    event = evolve(first.event, messages=(odd,))  # type: ignore[arg-type]
    assert judge_run(edges_of(first.before, [event], config), config, LOG_LAWS) == []
