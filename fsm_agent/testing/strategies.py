"""Hypothesis strategies: configurations, histories, and runs of the machine. Import this module by its name.

Hypothesis is strong where values are odd: texts, sizes, ids, combinations of settings. It does not cover the control
space; :func:`fsm_agent.testing.explore` does.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from ..core.blocks import Block, read_block, text_block, tool_result, tool_use
from ..core.config import ConfigError, EarlyStart, LoopConfig
from ..core.events import Event
from ..core.messages import Message, MessageKind, message
from ..core.models import ModelInfo
from ..core.phases import TERMINAL_SET
from ..core.state import LoopState
from ..core.step import step
from ..explorer.bounds import KINDS, Bounds, Form, Piece, Start
from ..explorer.environment import Environment, start
from ..laws import Edge

TEXTS = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", " ", "\n", "\u2028", "\x00", "\U0001f600", "漢字" * 20, '{"a":', "</system-reminder>"]),
)
"""Texts of all kinds, without lone surrogates: those become replacement characters where they enter."""
BOUNDS = Bounds(
    blocks=3,
    tools=2,
    pieces=tuple(Piece),
    kinds=KINDS,
    forms=tuple(Form),
    starts=(Start.PLAIN, Start.BUDGET, Start.AGENT),
    usage=(20_000, 110_000),
)
"""A wide world: what :func:`events` chooses from."""


def configs() -> st.SearchStrategy[LoopConfig]:
    """Configurations with small counters, every switch on and off, one or two models."""

    def make(fields: dict[str, Any]) -> LoopConfig | None:
        try:
            return LoopConfig(model="m", models=(ModelInfo(name="m"), ModelInfo(name="n")), prompt_caching=False, **fields)
        except ConfigError:
            return None

    fields: dict[str, st.SearchStrategy[Any]] = {
        name: st.booleans()
        for name in ("stop_hooks", "attachments", "prefetch_memory", "prefetch_skills", "tool_summaries", "fallback_on_refusal")
    }
    for name in ("max_attempts", "max_turns", "stop_hook_row_cap", "stop_hook_run_cap", "max_resumes", "tool_concurrency"):
        fields[name] = st.integers(1, 3)
    for name in ("max_output_recoveries", "max_pauses", "max_malformed"):
        fields[name] = st.integers(0, 2)
    fields["max_model_calls"] = st.integers(2, 8)
    fields["early_start"] = st.sampled_from(list(EarlyStart))
    fields["fallback_models"] = st.sampled_from([(), ("n",)])
    fields["max_budget"] = st.sampled_from([None, 1_000_000])
    made = st.fixed_dictionaries(fields).map(make)
    return made.filter(lambda config: config is not None)  # type: ignore[return-value]  # the filter leaves no None


def _reply(number: int, calls: int) -> st.SearchStrategy[tuple[Block, ...]]:
    texts = TEXTS.filter(lambda text: bool(text.strip())).map(text_block)
    thinking = st.just(read_block({"type": "thinking", "thinking": "hm", "signature": "s"}))
    head = st.lists(st.one_of(texts, thinking), max_size=2).map(tuple)
    uses = tuple(tool_use(f"t{number}_{place}", "look", "{}") for place in range(calls))
    return st.tuples(head, texts).map(lambda parts: (*parts[0], parts[1], *uses))


@st.composite
def histories(draw: st.DrawFn, rounds: int = 4) -> tuple[Message, ...]:
    """Valid histories: prompts, replies with thinking and calls, each call answered right behind it."""
    made: list[Message] = []
    for number in range(draw(st.integers(0, rounds))):
        words = draw(TEXTS.filter(lambda text: bool(text.strip())))
        made.append(message(f"p{number}", "user", MessageKind.PROMPT, (text_block(words),)))
        calls = draw(st.integers(0, 2))
        made.append(message(f"a{number}", "assistant", MessageKind.ASSISTANT, draw(_reply(number, calls)), model="m"))
        if calls:
            results = tuple(tool_result(f"t{number}_{place}", draw(TEXTS)) for place in range(calls))
            made.append(message(f"r{number}", "user", MessageKind.TOOL_RESULTS, results))
            closing = message(f"c{number}", "assistant", MessageKind.ASSISTANT, (text_block("So it is."),), model="m")
            made.append(closing)
    return tuple(made)


def events(state: LoopState, config: LoopConfig, bounds: Bounds = BOUNDS) -> st.SearchStrategy[Event]:
    """Events that may come at a state: every answer, the user, crashes, strangers."""
    return st.sampled_from([event for _, event in Environment(config, bounds).offers(state)])


@st.composite
def runs(draw: st.DrawFn, steps: int = 30, bounds: Bounds = BOUNDS) -> tuple[LoopConfig, tuple[Edge, ...]]:
    """Whole runs: a configuration, and the edges of a walk that it takes; both may be given to ``judge_run``."""
    config = draw(configs())
    environment = Environment(config, evolve(bounds, old_rounds=draw(st.integers(0, 2))))
    state = start(config, environment.bounds)
    edges: list[Edge] = []
    for _ in range(draw(st.integers(1, steps))):
        offers = environment.offers(state)
        fair = [event for name, event in offers if environment.fair(name)]
        often = draw(st.integers(0, 9)) > 1
        event = draw(st.sampled_from(fair if fair and often else [event for _, event in offers]))
        made = step(state, event, config)
        edges.append(Edge(state, event, made, config))
        state = made.state
        if state.phase in TERMINAL_SET:
            break
    return config, tuple(edges)
