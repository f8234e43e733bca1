"""Random runs of the bare reducer keep the laws that matter most: valid requests, tombstones, ends."""

from __future__ import annotations

from collections import Counter

import pytest
from walk import Taken, walk

from fsm_agent.core.config import ContextConfig, EarlyStart, LoopConfig, Microcompact, ToolSchema
from fsm_agent.core.effects import CallModel, Cancel, Emit, NotifyCommand, RunTool
from fsm_agent.core.events import CommandQueued
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.outputs import BlockOutput, ErrorOutput, TerminalOutput, Tombstone, ToolResult
from fsm_agent.core.phases import TERMINAL_SET, Cause
from fsm_agent.core.request.encode import body_of
from fsm_agent.server.wire_checker import check_request, decode_body

TOOLS = tuple(
    ToolSchema(name=name, json=f'{{"name":"{name}","description":"d","input_schema":{{"type":"object"}}}}')
    for name in ("read", "safe", "write", "shell", "nosuch")
)
INFO = ModelInfo(name="m", context_window=20_000, max_output=8_000, thinking=("adaptive",))
OTHER = ModelInfo(name="n", context_window=20_000, max_output=8_000)
CONFIGS = {
    "plain": LoopConfig(model="m", models=(INFO, OTHER), tools=TOOLS),
    "rich": LoopConfig(
        model="m",
        models=(INFO, OTHER),
        fallback_models=("n",),
        tools=TOOLS,
        stop_hooks=True,
        attachments=True,
        prefetch_memory=True,
        prefetch_skills=True,
        tool_summaries=True,
        fallback_on_refusal=True,
        max_turns=12,
        max_budget=60_000,
        early_start=EarlyStart.ANY,
        context=ContextConfig(collapse=True, microcompact=Microcompact.LOCAL, snip=True, result_chars=4_000),
    ),
    "tight": LoopConfig(
        model="m",
        models=(INFO, OTHER),
        fallback_models=("n",),
        tools=TOOLS,
        stop_hooks=True,
        max_model_calls=9,
        max_attempts=2,
        loop_rounds=2,
        cancel_siblings_on="error",
        early_start=EarlyStart.CONCURRENCY_SAFE,
        context=ContextConfig(collapse=True),
    ),
}


OPEN_ENDED = ("server_tool_use",)
"""Blocks that a later pass may take out of the view as a declared cut, when the API never answered them."""


def _requests(taken: Taken) -> list[CallModel]:
    return [effect for effect in taken.made.effects if isinstance(effect, CallModel)]


@pytest.mark.parametrize("name", list(CONFIGS))
@pytest.mark.parametrize("block", range(4))
def test_every_request_keeps_the_rules_of_the_wire(name: str, block: int) -> None:
    """Whatever happens before it, no request breaks a rule of the API."""
    config = CONFIGS[name]
    for seed in range(block * 12, block * 12 + 12):
        for taken in walk(seed, config):
            for call in _requests(taken):
                body = decode_body(body_of(call.request))
                breaches = check_request(body, config.info(call.request.model), call.request.betas)
                assert not breaches, (seed, taken.event, breaches)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_what_was_invalidated_has_exactly_one_tombstone(name: str) -> None:
    """Emitted blocks and results are in the history, or have one tombstone; nothing else has one (I10)."""
    config = CONFIGS[name]
    for seed in range(40):
        shown: Counter[str] = Counter()
        dead: Counter[str] = Counter()
        server: set[str] = set()
        for taken in walk(seed, config, runs=1):
            for effect in taken.made.effects:
                if isinstance(effect, Emit):
                    if isinstance(effect.output, BlockOutput | ToolResult):
                        shown[effect.output.id] += 1
                        if effect.output.block.type in OPEN_ENDED:
                            server.add(effect.output.id)
                    elif isinstance(effect.output, Tombstone):
                        dead.update(effect.output.ids)
            last = taken.made.state
        assert set(shown.values()) <= {1}, seed
        assert set(dead.values()) <= {1}, seed
        assert set(dead) <= set(shown), seed
        texts = [block.json for item in last.messages for block in item.blocks]
        alive = {identity for identity in shown if identity not in dead and identity not in server}
        if not any(item.kind.value == "summary" or item.kind.value == "boundary" for item in last.messages):
            replies = [item for item in last.messages if item.role == "assistant"]
            blocks = sum(1 for item in replies for block in item.blocks if block.type not in OPEN_ENDED)
            assert len([identity for identity in alive if "result" not in identity]) == blocks, (seed, texts)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_a_run_ends_once_and_leaves_nothing_in_flight(name: str) -> None:
    """One terminal output, last; nothing in flight; whatever was in flight was cancelled (I5)."""
    config = CONFIGS[name]
    for seed in range(40):
        ends = 0
        for taken in walk(seed, config, runs=1):
            outputs = [effect.output for effect in taken.made.effects if isinstance(effect, Emit)]
            ends += sum(isinstance(output, TerminalOutput) for output in outputs)
            after = taken.made.state
            if after.phase in TERMINAL_SET:
                assert isinstance(outputs[-1], TerminalOutput)
                assert after.control.flight == ()
                before = {item.id for item in taken.before.control.flight}
                cancelled = {effect.id for effect in taken.made.effects if isinstance(effect, Cancel)}
                answered = {getattr(taken.event, "id", None)}
                assert before - answered <= cancelled, seed
        assert ends == 1, seed


@pytest.mark.parametrize("name", list(CONFIGS))
def test_no_call_runs_twice_and_results_keep_their_order(name: str) -> None:
    """Each decision of the model is run at most once but for lost, never started calls (I12)."""
    config = CONFIGS[name]
    for seed in range(40):
        runs: Counter[tuple[str, str]] = Counter()
        for taken in walk(seed, config, runs=2):
            if type(taken.event).__name__ == "EffectLost":
                continue
            for effect in taken.made.effects:
                if isinstance(effect, RunTool):
                    runs[taken.made.state.control.call.id, effect.tool_use_id] += 1
            executing = [call for call in taken.made.state.control.tools.calls if call.state == "executing"]
            if len(executing) > 1:
                assert all(call.traits.concurrency_safe for call in executing), seed
        assert not [identity for identity, count in runs.items() if count > 1], seed


@pytest.mark.parametrize("name", list(CONFIGS))
def test_commands_are_started_once_or_handed_back(name: str) -> None:
    """Each queued command is taken up once, in order, or named as undelivered (I11)."""
    config = CONFIGS[name]
    for seed in range(60):
        queued: list[str] = []
        started: list[str] = []
        for taken in walk(seed, config, runs=1):
            if isinstance(taken.event, CommandQueued) and taken.made.rejected is None:
                queued.append(taken.event.command_id)
            started += [effect.command_id for effect in taken.made.effects if isinstance(effect, NotifyCommand)]
            terminal = taken.made.state.terminal
        assert terminal is not None
        assert started + list(terminal.undelivered) == queued, seed


@pytest.mark.parametrize("name", list(CONFIGS))
def test_errors_come_out_only_when_nothing_mended_them(name: str) -> None:
    """An error output appears at most once, in the step that ends the run (I7)."""
    config = CONFIGS[name]
    for seed in range(60):
        for taken in walk(seed, config, runs=1):
            errors = [
                effect for effect in taken.made.effects if isinstance(effect, Emit) and isinstance(effect.output, ErrorOutput)
            ]
            if errors:
                assert len(errors) == 1
                assert taken.made.state.phase in TERMINAL_SET
                terminal = taken.made.state.terminal
                assert terminal is not None
                assert terminal.cause not in (Cause.END_TURN, Cause.INTERRUPT)
