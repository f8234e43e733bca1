"""Trials of a user's own tools and hooks: good ones pass, liars and blockers are caught."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent import LoopConfig, tool
from fsm_agent.core.phases import Cause
from fsm_agent.laws import Edge, edge_law, run_law
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.runtime.tools.base import ToolContext, ToolError
from fsm_agent.server.replies import Blocks, RawBody, Stall, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.testing import Bounds, explore, trial, trial_async


@tool(read_only=True)
def stock(article: str) -> str:
    """How many pieces are in stock."""
    return "120"


@tool(read_only=True)
def liar(context: ToolContext) -> str:
    """Say that it only reads, and write."""
    Path(context.workspace.cwd, "written").write_text("x")
    return "I only read"


@tool
def honest(context: ToolContext) -> str:
    """Write, and do not deny it."""
    Path(context.workspace.cwd, "written").write_text("x")
    return "written"


def test_good_tools_pass() -> None:
    """A tool that does as it says has a trial without problems; what it gave is in the next request."""
    went = trial([calls(use("stock", {"article": "bolt"})), "120."], tools=[stock]).check()
    assert went.terminal is not None
    assert went.terminal.cause is Cause.END_TURN
    assert "120" in str(went.requests[1]["messages"][-1])
    assert "next_turn" in went.taken


def test_a_tool_that_claims_to_be_read_only_and_is_not() -> None:
    """The workspace is compared around such a call: the liar is named, with what it changed; the honest one is not."""
    went = trial([calls(use("liar", {})), "Read."], tools=[liar])
    with pytest.raises(AssertionError, match="tool liar claims to be read-only and changed written"):
        went.check()
    trial([calls(use("honest", {})), "Written."], tools=[honest]).check()


def test_two_at_a_time() -> None:
    """Of two read-only calls at once, the one that wrote is named, or named as one that ran beside it."""
    went = trial([calls(use("liar", {}), use("stock", {"article": "nut"})), "Both."], tools=[liar, stock])
    assert any("liar" in words for words in went.problems)


def test_a_hook_that_blocks_for_ever() -> None:
    """The run ends at the cap, and the trial says that a stop hook never let it end."""

    def never(payload: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"decision": "block", "reason": "not good enough"}

    went = trial(["Done."], hooks=[Hook(HookEvent.STOP, call=never)])
    with pytest.raises(AssertionError, match="a stop hook never let the run end"):
        went.check()


def test_a_hook_that_blocks_once() -> None:
    """A hook that looks at ``stop_hook_active`` lets go, and passes."""

    def once(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None if payload["stop_hook_active"] else {"decision": "block", "reason": "look again"}

    went = trial(["Done."], hooks=[Hook(HookEvent.STOP, call=once)]).check()
    assert went.taken.count("stop_hook_blocking") == 1


@edge_law()
def no_tool_at_all(edge: Edge) -> str:
    """A law of the user's own."""
    return "a tool ran" if edge.tools else ""


def test_a_law_of_ones_own() -> None:
    """A further law is judged on each step of the real run."""
    went = trial([calls(use("stock", {"article": "nut"})), "7."], tools=[stock], laws=[no_tool_at_all])
    assert [words for words in went.problems if words.startswith("no_tool_at_all at event")]


def test_a_law_over_the_whole_run() -> None:
    """It is judged once, and said to be about the run."""

    @run_law()
    def long_enough(edges: tuple[Edge, ...], config: LoopConfig) -> str:
        """A run has a hundred steps."""
        return f"only {len(edges)} steps" if len(edges) < 100 else ""

    went = trial(["Done."], laws=[long_enough])
    assert went.problems == (f"long_enough over the whole run: only {len(went.steps)} steps",)


def test_the_test_of_the_how_to_is_short() -> None:
    """In the how-to a test of an own tool and an own stop hook with an extra law has at most ten lines."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
    fence = page.partition("# the test\n")[2].partition("```")[0]
    lines = [line for line in fence.splitlines() if line.strip()]
    assert "edge_law" in fence
    assert "tools=" in fence
    assert "hooks=" in fence
    assert len(lines) <= 10


def _boom(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    raise RuntimeError("broken")


def _words(payload: Mapping[str, Any]) -> Any:
    return "not a dict"


def _odd_keys(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"block": True}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (_boom, "the Stop hook '_boom' failed: RuntimeError: broken; it was passed over"),
        (_words, "the Stop hook '_words' failed: it gave str, not an object; it was passed over"),
        (_odd_keys, "the Stop hook '_odd_keys' gave an object of which no key is known ('block'): it decides nothing"),
    ],
)
def test_a_stop_hook_that_decides_nothing(call: Any, said: str) -> None:
    """The engine passes it over and the run ends well; the trial of it fails, unless hooks may fail."""
    hooks = [Hook(HookEvent.STOP, call=call)]
    went = trial(["Done."], hooks=hooks)
    assert (went.problems, went.notes) == ((said,), ())
    assert went.terminal is not None
    assert went.terminal.cause is Cause.END_TURN
    with pytest.raises(AssertionError, match="Stop hook"):
        went.check()
    allowed = trial(["Done."], hooks=hooks, hooks_may_fail=True).check()
    assert allowed.notes == (said,)
    assert allowed.report == f"note: {said}"


@pytest.mark.parametrize("event", [HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE, HookEvent.POST_SAMPLING])
def test_any_hook_that_raises(event: HookEvent) -> None:
    """Hooks beside tools and replies are heard too; that a gate stays shut is told."""
    went = trial([calls(use("stock", {"article": "bolt"})), "120."], tools=[stock], hooks=[Hook(event, call=_boom)])
    assert any(f"the {event.value} hook '_boom' failed: RuntimeError: broken" in words for words in went.problems)
    assert any("so its call was denied" in words for words in went.problems) is (event is HookEvent.PRE_TOOL_USE)


def test_a_hook_that_is_a_command() -> None:
    """A command that fails is found like a callable."""
    went = trial(["Done."], hooks=[Hook(HookEvent.STOP, command="exit 7")])
    assert went.problems == ("the Stop hook 'exit 7' failed: exit code 7; it was passed over",)


@tool(read_only=True)
def fragile(article: str) -> str:
    """Raise."""
    raise LookupError(article)


@tool(read_only=True, timeout=0.01)
async def slow() -> str:
    """Take too long."""
    await anyio.sleep(60)
    return ""


@tool(read_only=True)
def grumbling() -> str:
    """Report an error in its own words."""
    raise ToolError("the shelf is locked")


@tool(read_only=lambda given: given["nosuch"] > 1)
def unsure(article: str) -> str:
    """Cannot say what it does."""
    return article


def test_a_tool_that_raises() -> None:
    """What it raised, or that it ran out of time, is found once with its count, unless tools may fail."""
    twice = calls(use("fragile", {"article": "bolt"}), use("fragile", {"article": "bolt"}))
    went = trial([twice, "Hm."], tools=[fragile])
    assert went.problems == ("the tool fragile failed: LookupError: bolt (2 times)",)
    late = trial([calls(use("slow", {})), "Hm."], tools=[slow])
    assert late.problems[0].startswith("the tool slow timed out after 0.01 s")
    blind = trial([calls(use("unsure", {"article": "bolt"})), "Hm."], tools=[unsure])
    assert blind.problems[0].startswith("the tool unsure failed in is_read_only: KeyError: 'nosuch'; taken as no")
    allowed = trial([twice, "Hm."], tools=[fragile], tools_may_fail=True).check()
    assert allowed.notes == went.problems


def test_what_the_engine_puts_right_is_a_note() -> None:
    """An unknown tool, a wrong input, an error that a tool reports: no fault of loop or tool, and told."""
    went = trial([calls(use("stocks", {"article": "bolt"})), "Hm."], tools=[stock]).check()
    assert went.notes == (
        "a call of stocks was not run: There is no tool 'stocks'. Tools: stock.",
        "the tool stock was never called",
    )
    (note,) = trial([calls(use("stock", {"part": "bolt"})), "Hm."], tools=[stock]).check().notes
    assert note.startswith("a call of stock was not run: Invalid input for stock: ")
    (note,) = trial([calls(use("grumbling", {})), "Hm."], tools=[grumbling]).check().notes
    assert note == "the tool grumbling reported an error: the shelf is locked"


def test_a_model_that_asks_for_the_same_for_ever() -> None:
    """The engine ends such a run, which is right and no success."""
    went = trial([calls(use("stock", {"article": "bolt"}))], tools=[stock]).check()
    assert went.notes[0].startswith("the run ended as hook_stopped/loop_detected, which is no success: ")
    assert went.notes[1] == "the model was asked 7 times, more often than it has replies: the last one was repeated"


def test_what_was_never_reached_is_a_note() -> None:
    """A hook that never ran and replies that were not asked for are told."""
    went = trial(["Done.", "Again."], hooks=[Hook(HookEvent.SESSION_END, call=_boom)]).check()
    assert went.notes == ("the SessionEnd hook '_boom' never ran", "1 of the model's 2 replies were not asked for")


@tool(read_only=True)
def scribbler() -> str:
    """Say that it only reads, and write by a relative path."""
    Path("scribbled").write_text("x")
    return "I only read"


def test_relative_paths_lead_into_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tool writes beside the caller is written into the trial's folder, and seen there; the caller's stays clean."""
    monkeypatch.chdir(tmp_path)
    went = trial([calls(use("scribbler", {})), "Read."], tools=[scribbler])
    assert went.problems == ("tool scribbler claims to be read-only and changed scribbled",)
    assert list(tmp_path.iterdir()) == []
    assert Path.cwd() == tmp_path
    mine = tmp_path / "mine"
    mine.mkdir()
    assert trial([calls(use("scribbler", {})), "Read."], tools=[scribbler], folder=Path("mine")).problems
    assert [place.name for place in mine.iterdir()] == ["scribbled"]
    trial(["Done."], logs="logs")
    assert len(list((tmp_path / "logs").rglob("*.jsonl"))) == 1


def test_inside_an_event_loop(anyio_backend: str) -> None:
    """A trial has a form to be awaited, and the other one says so."""

    async def test() -> None:
        with pytest.raises(RuntimeError, match=r"await trial_async\(\.\.\.\)"):
            trial(["Done."])
        went = await trial_async([calls(use("stock", {"article": "bolt"})), "120."], tools=[stock])
        assert went.check().terminal is not None

    anyio.run(test, backend=anyio_backend)


def test_what_is_no_law_no_hook_no_script() -> None:
    """What is not what it should be is said in one line, with what to write."""

    def plain(edge: Edge) -> str:
        return ""

    with pytest.raises(TypeError, match=r"plain is no law; a function is made one by @state_law\(\), @edge_law\(\)"):
        trial(["Done."], laws=[plain])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="plain is no law"):
        explore(LoopConfig(model="m"), Bounds(depth=1), [plain])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"write \(no_tool_at_all,\)"):
        trial(["Done."], laws=no_tool_at_all)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"the decorator of plain needs parentheses: @edge_law\(\)"):
        edge_law(plain)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"_boom is no hook; a function is made one by Hook\(HookEvent.STOP, call=_boom\)"):
        trial(["Done."], hooks=[_boom])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="'plain' is no tool; a function is made one by @tool"):
        trial(["Done."], tools=[plain])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"write \['Done.'\]"):
        trial("Done.")
    with pytest.raises(TypeError, match="at least one answer"):
        trial([])
    with pytest.raises(TypeError, match=r"reply 2 is 5, which no model answers: write a text, or what .*replies makes"):
        trial(["Done.", 5])  # type: ignore[list-item]


def test_a_script_that_fails_is_a_problem() -> None:
    """A reply that cannot be sent, before its first byte or behind it, is no good trial, even though the run ends in order."""
    for broken in (Blocks((5,)), RawBody((b"event: ping\n\n", 5))):  # type: ignore[arg-type]
        went = trial([broken, "Done."], max_attempts=1)
        assert any(words.startswith("request 0: the script failed: ") for words in went.problems), went.report


RELEASE = threading.Event()


@tool(read_only=True, timeout=None)
def endless() -> str:
    """Never end."""
    RELEASE.wait()
    return ""


@tool(read_only=True, timeout=None)
async def holding() -> str:
    """Never give the event loop back."""
    time.sleep(10**6)
    return ""


@tool(read_only=True, timeout=None)
async def dozing() -> str:
    """Never end, and be cancelled."""
    await anyio.sleep(10**6)
    return ""


def _deaf(payload: Mapping[str, Any]) -> None:
    RELEASE.wait()


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    """Import what the first trial imports, so that a short limit has to do with the tool only; release the threads at last."""
    trial(["Done."]).check()
    yield
    RELEASE.set()


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("endless_tool", [endless, holding, dozing])
def test_a_tool_that_never_ends(endless_tool: Any) -> None:
    """The trial has a limit of its own, and names the tool; tools that may fail must end all the same."""
    went = trial([calls(use(endless_tool.name, {})), "Done."], tools=[endless_tool], seconds=2, tools_may_fail=True)
    said = f"the run was ended after 2 s, the limit of the trial (seconds=2): the tool {endless_tool.name} did not end"
    assert went.problems == (said,)
    assert not any("never called" in note for note in went.notes)
    assert went.terminal is not None
    assert went.terminal.cause is Cause.INTERRUPT


@pytest.mark.usefixtures("warm")
def test_a_hook_and_a_model_that_never_end(anyio_backend: str) -> None:
    """Of several hooks the one that does not end is named; where nothing of the user's runs, the phase is."""

    async def test() -> None:
        quick = Hook(HookEvent.STOP, call=lambda payload: None, name="quick")
        went = await trial_async(["Done."], hooks=[quick, Hook(HookEvent.STOP, call=_deaf, timeout=600)], seconds=2)
        (words,) = went.problems
        assert words.endswith("(seconds=2): the Stop hook '_deaf' did not end")
        assert not any("never ran" in note or "no success" in note for note in went.notes)
        (words,) = (await trial_async([Stall(says("Done."), after_frames=2)], seconds=2)).problems
        assert words.endswith("(seconds=2): it stood in calling_model")
        with pytest.raises(ValueError, match="seconds=0: the limit of a trial must be above 0"):
            await trial_async(["Done."], seconds=0)

    anyio.run(test, backend=anyio_backend)


@pytest.mark.usefixtures("warm")
def test_trials_at_once_have_limits_of_their_own(anyio_backend: str) -> None:
    """One that is over takes nothing away from another whose tool holds the event loop; afterwards all is as it was."""
    before = signal.getsignal(signal.SIGUSR2)
    ended: dict[str, Any] = {}

    async def both() -> None:
        begun, alone = anyio.Event(), anyio.Event()

        @tool(read_only=True)
        async def short() -> str:
            """End once the other one has begun."""
            await begun.wait()
            return ""

        @tool(read_only=True, timeout=None)
        async def patient() -> str:
            """Wait until the other trial is over, and then hold the event loop."""
            begun.set()
            await alone.wait()
            time.sleep(10**6)
            return ""

        async def long() -> None:
            replies = [calls(use("patient", {})), "Done."]
            ended["long"] = await trial_async(replies, tools=[patient], seconds=4, tools_may_fail=True)

        async with anyio.create_task_group() as group:
            group.start_soon(long)
            ended["short"] = await trial_async([calls(use("short", {})), "Done."], tools=[short])
            alone.set()

    anyio.run(both, backend=anyio_backend)
    assert ended["short"].problems == ()
    assert [words for words in ended["long"].problems if "the tool patient did not end" in words]
    assert signal.getsignal(signal.SIGUSR2) is before


def test_a_trial_is_shown_in_a_line() -> None:
    """The representation counts what it holds."""
    went = trial([calls(use("stock", {"article": "bolt"})), "120."], tools=[stock])
    assert repr(went) == f"<Trial: completed/end_turn, {len(went.steps)} steps, 2 requests, 0 problems, 0 notes>"


def test_the_context_of_a_tool_is_a_name_of_the_package() -> None:
    """``ToolContext`` is imported from the package itself, when it is used."""
    import fsm_agent

    assert fsm_agent.ToolContext is ToolContext
