"""Structured output: the schema is checked, wrong answers go back, and the retries are bounded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fsm_agent import Agent, ConfigError, exit_code, run_sync
from fsm_agent.core.blocks import text_block
from fsm_agent.core.effects import RunStopHooks
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.phases import Cause, TerminalReason
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import says
from fsm_agent.session.structured import StructuredOutput

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)
GOOD = '{"name": "Ada", "age": 36}'


def agent_at(server: LoopbackServer, cwd: Path, **settings: Any) -> Agent:
    return Agent("claude-sonnet-5-5", cwd=cwd, base_url=server.base_url, api_key="k", output_schema=SCHEMA, **settings)


def test_a_wrong_answer_goes_back_and_a_right_one_ends(tmp_path: Path) -> None:
    """An answer that does not fit is sent back with what is wrong; the value of the one that fits is in the result."""
    with LoopbackServer([says("Ada, 36"), says('{"name": "Ada", "age": "36"}'), says(GOOD)]) as server:
        outcome = run_sync("who", agent=agent_at(server, tmp_path))
        assert server.requests[0].body["output_config"]["format"]["schema"] == json.loads(SCHEMA)
        said = [json.dumps(request.body["messages"][-1]) for request in server.requests]
        assert [request.breaches for request in server.requests] == [(), (), ()]
    assert "no JSON" in said[1]
    assert "$.age" in said[2]
    assert outcome.result["structured_output"] == {"name": "Ada", "age": 36}
    assert outcome.result["subtype"] == "success"
    assert outcome.result["transitions"] == ["stop_hook_blocking", "stop_hook_blocking"]


def test_retries_are_bounded(tmp_path: Path) -> None:
    """Past its retries the run ends with its own subtype, no structured output, and a failing exit code."""
    with LoopbackServer([says("no")] * 3) as server:
        outcome = run_sync("who", agent=agent_at(server, tmp_path, structured_retries=2))
        assert len(server.requests) == 3
    assert (outcome.terminal.reason, outcome.terminal.cause) == (
        TerminalReason.STOP_HOOK_PREVENTED,
        Cause.STRUCTURED_OUTPUT_EXHAUSTED,
    )
    assert outcome.result["subtype"] == "error_max_structured_output_retries"
    assert outcome.result["structured_output"] is None
    assert exit_code(outcome.terminal) == 1


def test_own_stop_hooks_see_only_answers_that_fit(tmp_path: Path) -> None:
    """A user's stop hook runs when the answer fits, and can still block it; then retries count anew."""
    seen: list[str] = []

    def stop(value: Any) -> Any:
        seen.append(value["last_assistant_message"])
        return {"decision": "block", "reason": "older"} if len(seen) == 1 else None

    script = [says("no"), says(GOOD), says("no"), says('{"name": "Ada", "age": 37}')]
    with LoopbackServer(script) as server:
        agent = agent_at(server, tmp_path, hooks=[Hook(HookEvent.STOP, call=stop)], structured_retries=1)
        outcome = run_sync("who", agent=agent)
    assert outcome.result["structured_output"] == {"name": "Ada", "age": 37}
    assert seen == [GOOD, '{"name": "Ada", "age": 37}']


UNUSABLE = (
    "{",
    "[]",
    '{"type": "thing"}',
    '{"required": "name"}',
    '{"$ref": "http://127.0.0.1:9/x"}',
    '{"properties": {"a": {"$ref": "#/nowhere"}}}',
    '{"$ref": "#"}',
    '{"const": NaN}',
)


@pytest.mark.parametrize("schema", UNUSABLE)
def test_a_schema_that_is_none_is_refused(tmp_path: Path, schema: str) -> None:
    """A schema that cannot be used is a configuration error, before anything is sent."""
    with pytest.raises(ConfigError, match="output_schema"):
        Agent("m", cwd=tmp_path, api_key="k", output_schema=schema)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (GOOD, True),
        (f"```json\n{GOOD}\n```", True),
        (f"Here it is: {GOOD}", False),
        ('{"name": "Ada", "age": NaN}', False),
        ('{"name": "Ada", "age": 1e999}', False),
        ("", False),
        ("[" * 100_000, False),
        ('{"name": "Ada"}', False),
    ],
)
def test_what_counts_as_an_answer(text: str, fits: bool) -> None:
    """Bare JSON or one fenced block counts; words around it, NaN and bottomless nesting do not, and none of them raises."""
    reply = message("m", "assistant", MessageKind.ASSISTANT, (text_block(text),))
    check = StructuredOutput(SCHEMA)
    assert (check(RunStopHooks("r/hooks-1", False, reply, 1)) is None) is fits


def test_counts_are_kept_by_run() -> None:
    """Two runs of one agent do not use up each other's retries."""
    check = StructuredOutput(SCHEMA, retries=1)
    for run in ("a", "b"):
        found = check(RunStopHooks(f"{run}/hooks-1", False, None, 1))
        assert found is not None
        assert found.prevented is None
    found = check(RunStopHooks("a/hooks-2", True, None, 2))
    assert found is not None
    assert found.prevented is not None
