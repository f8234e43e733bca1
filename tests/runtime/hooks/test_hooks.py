"""Hooks: gates fail closed, everything else warns, nothing hangs (field reports 91 and 92)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent.core.blocks import text_block
from fsm_agent.core.effects import RunPostSamplingHooks, RunStopHooks
from fsm_agent.core.events import Outcome
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.runtime.hooks.config import Hook, HookConfigError, HookEvent, hooks_from_settings
from fsm_agent.runtime.hooks.runner import HookSet
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import Behavior
from fsm_agent.runtime.tools.asking import ToolEvent
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.runtime.tools.environment import child_environment

from ..tools.kit import bench, is_alive, text_of

pytestmark = pytest.mark.anyio
PRE, POST, STOP = HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE, HookEvent.STOP


def hooks(folder: Path, *items: Hook) -> HookSet:
    return HookSet(items, cwd=str(folder), env=child_environment(os.environ), base={"session_id": "s1"})


def command(event: HookEvent, text: str, **options: Any) -> Hook:
    return Hook(event=event, command=text, timeout=options.pop("timeout", 10.0), **options)


def said(value: Mapping[str, Any]) -> str:
    """A command that prints this object."""
    return f"cat > /dev/null; printf %s '{json.dumps(value)}'"


def decides(word: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word, **more}}


EVENT = ToolEvent("Bash", "toolu_1", '{"command":"ls"}')
ALLOW, ASK, DENY = Behavior.ALLOW, Behavior.ASK, Behavior.DENY

FAILING = {
    "sleeps past its timeout, then denies": ("sleep 5; exit 2", "timed out"),
    "exit 1": ("exit 1", "exit code 1"),
    "exit 1 with words": ("echo oops >&2; exit 1", "oops"),
    "missing program": ("./no-such-hook", "exit code 127"),
    "kills itself": ("kill -9 $$", "signal 9"),
    "half an object": ("printf '{\"decision\":'", "begins like JSON"),
    "not an object inside": (said({"hookSpecificOutput": []}), "no object"),
    "unknown decision": (said(decides("maybe")), "unknown permissionDecision"),
    "unknown old decision": (said({"decision": "maybe"}), "unknown decision"),
    "wrong type of continue": (said({"continue": "no"}), "continue is neither"),
    "wrong type of input": (said(decides("allow", updatedInput=[1])), "updatedInput"),
    "prints 10 MB": ("head -c 10000000 /dev/zero | tr '\\0' '{'", "printed more than"),
    "bad UTF-8": ("printf '\\377\\376'", "not UTF-8"),
    "leaves a deaf child": ("(trap '' TERM; sleep 60) & sleep 5", "timed out"),
}


@pytest.mark.parametrize(("text", "words"), FAILING.values(), ids=FAILING.keys())
async def test_a_gate_that_fails_denies(tmp_path: Path, text: str, words: str) -> None:
    """A PreToolUse hook that breaks in any way denies the call, and the result says why (field report 91)."""
    timeout = 0.3 if "timed out" in words else 10.0
    own = hooks(tmp_path, command(PRE, text, timeout=timeout))
    finished = await bench(tmp_path, hooks=own).call("Bash", command="touch ran")
    assert finished.outcome is Outcome.ERROR
    assert words in text_of(finished)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("text", [FAILING["exit 1"][0], FAILING["half an object"][0]])
async def test_a_gate_may_be_told_to_fail_open(tmp_path: Path, text: str) -> None:
    """With the opt-out of one hook its failure is a warning and the call runs; another gate still counts."""
    own = bench(tmp_path, hooks=hooks(tmp_path, command(PRE, text, fail_open=True)))
    assert (await own.call("Bash", command="touch ran")).outcome is Outcome.OK
    assert len(own.box.warnings) == 1
    both = bench(tmp_path, hooks=hooks(tmp_path, command(PRE, text, fail_open=True), command(PRE, "exit 2")))
    assert (await both.call("Bash", command="touch ran2")).outcome is Outcome.ERROR


async def test_a_hook_that_leaves_its_pipe_open_holds_nobody_up(tmp_path: Path) -> None:
    """The answer is keyed on the hook's end; its children end with it (field report 91)."""
    own = hooks(tmp_path, command(PRE, "sleep 300 & echo $! > pid; exit 0"))
    with anyio.fail_after(8):
        verdict = await own.before(EVENT)
    assert verdict.behavior is None
    assert not is_alive(int((tmp_path / "pid").read_text()))


ANSWERS = {
    "nothing": ("true", None),
    "words for people": ("echo looked at it", None),
    "empty object": (said({}), None),
    "allow": (said(decides("allow")), ALLOW),
    "ask": (said(decides("ask")), ASK),
    "deny": (said(decides("deny", permissionDecisionReason="no")), DENY),
    "defer": (said(decides("defer")), ASK),
    "old block": (said({"decision": "block", "reason": "no"}), DENY),
    "old approve": (said({"decision": "approve"}), ALLOW),
    "exit 2": ("echo no >&2; exit 2", DENY),
}


@pytest.mark.parametrize(("text", "expected"), ANSWERS.values(), ids=ANSWERS.keys())
async def test_answers_of_a_gate(tmp_path: Path, text: str, expected: Behavior | None) -> None:
    """Exit codes and JSON answers mean what people know."""
    assert (await hooks(tmp_path, command(PRE, text)).before(EVENT)).behavior is expected


async def test_the_strictest_gate_counts(tmp_path: Path) -> None:
    """Deny before ask before allow, whatever the order; the reason is that of the hook that decided."""
    items = [command(PRE, said(decides(word, permissionDecisionReason=word))) for word in ("allow", "deny", "ask")]
    verdict = await hooks(tmp_path, *items).before(EVENT)
    assert (verdict.behavior, verdict.reason) == (DENY, "deny")


async def test_a_hook_gets_the_input_on_standard_input(tmp_path: Path) -> None:
    """The known fields come as one JSON object; equal commands run once."""
    own = hooks(tmp_path, command(PRE, "cat >> seen"), command(PRE, "cat >> seen"))
    await own.before(EVENT)
    value = json.loads((tmp_path / "seen").read_text())
    assert value == {
        "cwd": str(tmp_path),
        "session_id": "s1",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": "toolu_1",
        "tool_input": {"command": "ls"},
        "permission_mode": "default",
    }


async def test_hooks_get_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's keys are not in a hook's environment; the project's folder is."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-hidden")
    await hooks(tmp_path, command(PRE, "env > seen")).before(EVENT)
    text = (tmp_path / "seen").read_text()
    assert "sk-ant" not in text
    assert f"CLAUDE_PROJECT_DIR={tmp_path}" in text


@pytest.mark.parametrize(
    ("matcher", "name", "hit"),
    [
        ("", "Bash", True),
        ("*", "Bash", True),
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Edit|Write", "Write", True),
        ("Edit|Write", "MultiEdit", False),
        ("mcp__.*", "mcp__db__x", True),
        ("^Ba", "Bash", True),
        ("as.", "Bash", True),
        ("^as", "Bash", False),
    ],
)
def test_matchers(matcher: str, name: str, hit: bool) -> None:
    """Plain names are compared as a whole, anything else is a regular expression that may match anywhere."""
    assert command(PRE, "true", matcher=matcher).matches(name) is hit


async def test_rewriting_and_stopping(tmp_path: Path) -> None:
    """A hook changes the input that runs, or ends the run before the call."""
    own = bench(tmp_path, hooks=hooks(tmp_path, command(PRE, said(decides("allow", updatedInput={"command": "echo new"})))))
    assert await own.text("Bash", command="touch old") == "new"
    assert not (tmp_path / "old").exists()
    stops = hooks(tmp_path, command(PRE, said({"continue": False, "stopReason": "budget"})))
    finished = await bench(tmp_path, hooks=stops).call("Bash", command="touch old")
    assert finished.stop == "budget"
    assert not (tmp_path / "old").exists()


async def test_an_allowing_hook_skips_no_rule(tmp_path: Path) -> None:
    """A hook's allow does away with the question, not with a deny rule."""
    own = hooks(tmp_path, command(PRE, said(decides("allow"))))
    assert (await bench(tmp_path, hooks=own, mode=Mode.DEFAULT).call("Bash", command="touch a")).outcome is Outcome.OK
    denied = bench(tmp_path, hooks=own, mode=Mode.DEFAULT, rules={"deny": ("Bash(touch:*)",)})
    assert "deny: Bash(touch:*)" in await denied.text("Bash", command="touch b")


async def test_hooks_after_a_call(tmp_path: Path) -> None:
    """They speak to the model, may stop the run or change the output; a failing one is a warning."""
    own = bench(tmp_path, hooks=hooks(tmp_path, command(POST, 'grep -q \'"tool_response": *"hi"\' && echo lint >&2 && exit 2')))
    text = await own.text("Bash", command="echo hi")
    assert text.startswith("hi\n\n")
    assert text.endswith("says: lint")
    stops = bench(tmp_path, hooks=hooks(tmp_path, command(POST, said({"continue": False}))))
    assert (await stops.call("Bash", command="true")).stop == "a hook ended the run"
    masks = command(POST, said({"hookSpecificOutput": {"updatedToolOutput": "masked"}}))
    assert await bench(tmp_path, hooks=hooks(tmp_path, masks)).text("Bash", command="echo secret") == "masked"
    fails = bench(tmp_path, hooks=hooks(tmp_path, command(POST, "exit 1")))
    assert (await fails.call("Bash", command="echo hi")).outcome is Outcome.OK
    assert "exit code 1" in fails.box.warnings[0]
    failure = command(HookEvent.POST_TOOL_USE_FAILURE, "echo seen > failure")
    await bench(tmp_path, hooks=hooks(tmp_path, failure)).call("Bash", command="false")
    assert (tmp_path / "failure").exists()


def stop_effect(active: bool = False) -> RunStopHooks:
    reply = message("m1", "assistant", MessageKind.ASSISTANT, (text_block("all done"),), model="m")
    return RunStopHooks("run/hooks-1", active, reply, 3)


async def test_stop_hooks_block_prevent_or_warn(tmp_path: Path) -> None:
    """Exit 2 and a block decision block, continue false prevents, a failure is neither (spec 01, section 14)."""
    own = hooks(
        tmp_path,
        command(STOP, "cat > seen; echo tests fail >&2; exit 2"),
        command(STOP, said({"decision": "block", "reason": "and lint"})),
        command(STOP, "exit 7"),
        command(STOP, "sleep 9", timeout=0.2),
    )
    finished = await own.stop(stop_effect(active=True))
    assert finished.blocking == ("tests fail", "and lint")
    assert finished.prevented is None
    assert len(finished.warnings) == 2
    assert json.loads((tmp_path / "seen").read_text())["stop_hook_active"] is True
    prevents = hooks(tmp_path, command(STOP, said({"continue": False, "stopReason": "that is it"})), command(STOP, "exit 2"))
    finished = await prevents.stop(stop_effect())
    assert finished.prevented == "that is it"
    assert own.has(STOP)
    assert not own.has(PRE)


async def test_hooks_that_look_at_a_reply(tmp_path: Path) -> None:
    """Post-sampling hooks get the reply; what they do decides nothing."""
    seen: list[Any] = []
    own = hooks(
        tmp_path,
        Hook(event=HookEvent.POST_SAMPLING, call=lambda value: seen.append(value["reply"])),
        command(HookEvent.POST_SAMPLING, "exit 1"),
    )
    reply = stop_effect().reply
    assert reply is not None
    await own.post_sampling(RunPostSamplingHooks(reply))
    assert seen == ["all done"]
    assert len(own.warnings) == 1


async def test_callables_of_both_kinds(tmp_path: Path) -> None:
    """Python hooks answer like commands; each sees a copy of its own."""

    async def denies(value: Mapping[str, Any]) -> Mapping[str, Any]:
        value["tool_input"]["command"] = "changed"
        return decides("deny", permissionDecisionReason="async")

    def looks(value: Mapping[str, Any]) -> Mapping[str, Any]:
        return decides("ask", permissionDecisionReason=value["tool_input"]["command"])

    verdict = await hooks(tmp_path, Hook(event=PRE, call=denies)).before(EVENT)
    assert (verdict.behavior, verdict.reason) == (DENY, "async")
    verdict = await hooks(tmp_path, Hook(event=PRE, call=looks), Hook(event=PRE, call=denies, fail_open=True)).before(EVENT)
    assert verdict.behavior is DENY
    assert (await hooks(tmp_path, Hook(event=PRE, call=looks)).before(EVENT)).reason == "ls"


def breaks(value: Mapping[str, Any]) -> None:
    raise RuntimeError("boom")


async def never(value: Mapping[str, Any]) -> None:
    await anyio.sleep(1000)


def blocks(value: Mapping[str, Any]) -> None:
    time.sleep(0.5)


async def exits(value: Mapping[str, Any]) -> None:
    raise SystemExit


def nonsense(value: Mapping[str, Any]) -> Any:
    return "yes"


def unencodable(value: Mapping[str, Any]) -> Any:
    return {"a": object()}


@pytest.mark.parametrize("call", [breaks, never, blocks, exits, nonsense, unencodable])
async def test_a_callable_gate_that_fails_denies_too(tmp_path: Path, call: Any) -> None:
    """The timeout and the failing shut hold for callables of every kind (field report 92)."""
    verdict = await hooks(tmp_path, Hook(event=PRE, call=call, timeout=0.1)).before(EVENT)
    assert verdict.behavior is DENY
    assert call.__name__ in verdict.reason


@pytest.mark.parametrize("kind", ["command", "async"])
async def test_an_abort_ends_a_hanging_hook(tmp_path: Path, kind: str) -> None:
    """While a hook hangs an abort works, and its process is gone (field report 92)."""
    hook = command(PRE, "echo $$ > pid; sleep 600") if kind == "command" else Hook(event=PRE, call=never)
    own = bench(tmp_path, hooks=hooks(tmp_path, hook))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: own.call("Bash", command="touch ran"))
        with anyio.fail_after(5):
            while kind == "command" and not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
                await anyio.sleep(0.01)
        await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    assert not (tmp_path / "ran").exists()
    if kind == "command":
        assert not is_alive(int((tmp_path / "pid").read_text()))


async def test_texts_of_hooks_are_clean_and_bounded(tmp_path: Path) -> None:
    """Long texts are cut and lone surrogates replaced before they reach the model (field report 82)."""

    @tool
    def works() -> str:
        """Works."""
        return "ran"

    def floods(value: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"hookSpecificOutput": {"additionalContext": "\ud83d" + "x" * 50_000}}

    finished = await bench(tmp_path, [works], hooks=hooks(tmp_path, Hook(event=POST, call=floods))).call("works")
    assert len(text_of(finished)) < 10_100
    finished.result.json.encode("utf-8")


def test_settings_are_read_in_the_known_shape() -> None:
    """Events, matchers, commands, timeouts; what is not known is left out with a warning."""
    config = hooks_from_settings(
        {
            "hooks": {
                "PreToolUse": [
                    {"matcher": "Bash", "hooks": [{"type": "command", "command": "a", "timeout": 5, "failOpen": True}]}
                ],
                "Stop": [{"hooks": [{"type": "command", "command": "b"}, {"type": "prompt", "prompt": "x"}]}],
                "FileChanged": [{"hooks": []}],
            }
        }
    )
    first, second = config.hooks
    assert (first.event, first.matcher, first.command, first.timeout, first.fail_open) == (PRE, "Bash", "a", 5.0, True)
    assert (second.event, second.timeout, second.fail_open) == (STOP, 60.0, False)
    assert len(config.warnings) == 2


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"Stop": {}},
        {"Stop": [[]]},
        {"Stop": [{"hooks": {}}]},
        {"Stop": [{"hooks": [{"type": "command"}]}]},
        {"Stop": [{"hooks": [{"type": "command", "command": "a", "timeout": 0}]}]},
        {"Stop": [{"hooks": [{"type": "command", "command": "a", "timeout": "5"}]}]},
        {"Stop": [{"hooks": [{"type": "command", "command": "a", "failOpen": 1}]}]},
        {"Stop": [{"matcher": 1, "hooks": []}]},
        {"PreToolUse": [{"matcher": "(", "hooks": [{"type": "command", "command": "a"}]}]},
        {"PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]},
    ],
)
def test_settings_that_cannot_be_read_are_errors(value: Any) -> None:
    """A malformed entry is one clear error; so is a gate of a kind that cannot be run."""
    with pytest.raises(HookConfigError):
        hooks_from_settings({"hooks": value})
