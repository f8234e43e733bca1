"""The pipeline of a call: every outcome is a result, and what was approved is what runs (field reports 82 to 96)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from attrs import frozen

from fsm_agent.core.events import Outcome
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import Behavior
from fsm_agent.runtime.tools.asking import Answer, Question, ToolEvent, Verdict
from fsm_agent.runtime.tools.base import Tool, ToolContext, ToolError, ToolOutput
from fsm_agent.runtime.tools.decorator import tool
from fsm_agent.runtime.tools.pipeline import ToolBoxError

from .kit import bench, text_of

pytestmark = pytest.mark.anyio


class Odd(BaseException):
    pass


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def body(make: Callable[[], BaseException]) -> Tool:
    """A tool that raises what ``make`` makes."""

    async def breaks() -> str:
        """Breaks."""
        await anyio.sleep(0)
        raise make()

    return tool(breaks)


RAISED: dict[str, tuple[Callable[[], BaseException], Outcome, str]] = {
    "ValueError": (lambda: ValueError("bad"), Outcome.FAILED, "ValueError: bad"),
    "empty text": (lambda: ValueError(""), Outcome.FAILED, "ValueError"),
    "no text": (Silent, Outcome.FAILED, "Silent"),
    "TimeoutError": (TimeoutError, Outcome.FAILED, "TimeoutError"),
    "KeyboardInterrupt": (KeyboardInterrupt, Outcome.FAILED, "KeyboardInterrupt"),
    "SystemExit": (lambda: SystemExit(3), Outcome.FAILED, "SystemExit: 3"),
    "GeneratorExit": (GeneratorExit, Outcome.FAILED, "GeneratorExit"),
    "BaseException": (lambda: Odd("x"), Outcome.FAILED, "Odd: x"),
    "group": (lambda: ExceptionGroup("g", [ValueError("a"), KeyError("b")]), Outcome.FAILED, "ValueError: a; KeyError: 'b'"),
    "ToolError": (lambda: ToolError("in my words"), Outcome.ERROR, "in my words"),
    "surrogate": (lambda: ValueError("a\ud83d"), Outcome.FAILED, "a\ufffd"),
}


@pytest.mark.parametrize(("make", "outcome", "words"), RAISED.values(), ids=RAISED.keys())
async def test_whatever_a_body_raises_is_its_result(
    tmp_path: Path, make: Callable[[], BaseException], outcome: Outcome, words: str
) -> None:
    """No exception leaves the pipeline; the result names the type, also where there is no text (field report 85)."""
    finished = await bench(tmp_path, [body(make)]).call("breaks")
    assert finished.outcome is outcome
    assert words in text_of(finished)
    assert finished.result.is_error


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_made_inside_a_body_is_its_own(tmp_path: Path, anyio_backend: str) -> None:
    """CancelledError raised in a tool, and a tool that cancels its own task, fail that call only (field report 85)."""

    @tool
    async def raises() -> str:
        """Raises."""
        raise asyncio.CancelledError

    @tool
    async def cancels() -> str:
        """Cancels."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)
        return "late"

    own = bench(tmp_path, [raises, cancels])
    before = asyncio.all_tasks()
    for name in ("raises", "cancels"):
        finished = await own.call(name)
        assert finished.outcome is Outcome.FAILED, name
    assert asyncio.all_tasks() == before


async def test_siblings_of_a_failing_tool_are_not_touched(tmp_path: Path) -> None:
    """Three calls at once: one raises, one finishes, one is cancelled from outside; the real result is kept."""
    done: list[str] = []

    @tool
    async def breaks() -> str:
        """Breaks."""
        raise KeyboardInterrupt

    @tool
    async def works() -> str:
        """Works."""
        await anyio.sleep(0.01)
        done.append("effect")
        return "real"

    @tool
    async def hangs() -> str:
        """Hangs."""
        try:
            await anyio.sleep(100)
        finally:
            done.append("ended")
        return ""

    own = bench(tmp_path, [breaks, works, hangs])
    results: dict[str, str] = {}

    async def one(name: str) -> None:
        results[name] = text_of(await own.call(name))

    async with anyio.create_task_group() as group:
        for name in ("breaks", "works", "hangs"):
            group.start_soon(one, name)
        with anyio.fail_after(5):
            while len(results) < 2:
                await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    assert results == {"breaks": "breaks failed: KeyboardInterrupt", "works": "real"}
    assert done == ["effect", "ended"]


async def test_a_cancellation_from_outside_goes_through(tmp_path: Path) -> None:
    """A body that turns a real cancellation into another exception cannot keep the run from ending."""

    @tool
    async def stubborn() -> str:
        """Stubborn."""
        try:
            await anyio.sleep(100)
        except BaseException:
            raise ValueError("not me") from None
        return ""

    own = bench(tmp_path, [stubborn])
    finished = []
    with anyio.move_on_after(0.05) as scope:
        finished.append(await own.call("stubborn"))
    assert scope.cancelled_caught
    assert not finished


async def test_timeouts_of_both_kinds_of_functions(tmp_path: Path) -> None:
    """An async body is cancelled, a thread is abandoned; both are failed results with the limit in words."""

    @tool(timeout=0.05)
    async def slow() -> str:
        """Slow."""
        await anyio.sleep(100)
        return ""

    @tool(timeout=0.05)
    def blocking() -> str:
        """Blocking."""
        time.sleep(0.3)
        return ""

    own = bench(tmp_path, [slow, blocking])
    for name in ("slow", "blocking"):
        finished = await own.call(name)
        assert finished.outcome is Outcome.FAILED
        assert "timed out after 0.05 s" in text_of(finished)


@tool
def greet(name: str, times: int = 1, style: Literal["plain", "loud"] = "plain", tags: list[str] | None = None) -> str:
    """Greets somebody.

    Args:
        name: whom.
        times: how often.
        style: how
            it sounds.
        tags: what for.
    """
    return " ".join([f"hello {name}"] * times)


BAD_CALLS = [
    ("greet", "{}", "field name is required"),
    ("greet", '{"name":1}', "field name must be of type string, not integer"),
    ("greet", '{"name":null}', "not null"),
    ("greet", '{"name":"a","times":"2"}', "field times must be of type integer, not string"),
    ("greet", '{"name":"a","style":"odd"}', 'one of ["plain","loud"]'),
    ("greet", '{"name":"a","extra":1}', "extra"),
    ("greet", '{"name":"a","tags":[1]}', "tags"),
    ("greet", "[]", "field input must be of type object, not array"),
    ("greet", "{", "not valid JSON"),
    ("Greet", "{}", "Did you mean greet?"),
    ("", "{}", "There is no tool ''"),
    ("mcp__gone__x", "{}", "Tools: greet"),
]


@pytest.mark.parametrize(("name", "raw", "words"), BAD_CALLS)
async def test_bad_calls_tell_the_model_what_to_mend(tmp_path: Path, name: str, raw: str, words: str) -> None:
    """Unknown tools and wrong inputs are results that name tools and fields; nothing starts (field report 84)."""
    own = bench(tmp_path, [greet])
    finished = await own.raw(name, raw)
    assert finished.outcome is Outcome.FAILED
    assert finished.result.is_error
    assert words in text_of(finished)
    assert own.started == []
    assert (await own.call("greet", name="a")).outcome is Outcome.OK


def test_the_schema_of_a_function(tmp_path: Path) -> None:
    """Annotations and docstring make name, description, fields, and what is required."""
    (schema,) = bench(tmp_path, [greet]).box.schemas()
    value = json.loads(schema.json)
    assert value["description"] == "Greets somebody."
    fields = value["input_schema"]["properties"]
    assert fields["name"] == {"type": "string", "description": "whom."}
    assert fields["style"] == {"enum": ["plain", "loud"], "description": "how it sounds."}
    assert fields["tags"] == {
        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
        "description": "what for.",
    }
    assert value["input_schema"]["required"] == ["name"]
    with pytest.raises(TypeError, match="no schema is known"):
        tool(lambda_with(complex))
    with pytest.raises(TypeError, match="no annotation"):
        tool(lambda x: x)


def lambda_with(hint: Any) -> Callable[..., Any]:
    def function(x: Any) -> None:
        """Nothing."""

    function.__annotations__["x"] = hint
    return function


class Strange(Tool):
    name = "strange"
    description = "d"

    def is_read_only(self, tool_input: Mapping[str, Any]) -> bool:
        raise RuntimeError

    def is_concurrency_safe(self, tool_input: Mapping[str, Any]) -> bool:
        return "yes"  # type: ignore[return-value]

    async def run(self, tool_input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput("ran")


def test_traits_never_raise(tmp_path: Path) -> None:
    """A predicate that raises or answers nonsense counts as unsafe and not read-only; an unknown tool is unknown."""
    box = bench(tmp_path, [Strange()]).box
    traits = box.traits("strange", "{}")
    assert (traits.known, traits.read_only, traits.concurrency_safe) == (True, False, False)
    assert not box.traits("strange", None).read_only
    assert not box.traits("strange", "[").read_only
    assert not box.traits("none", "{}").known


def test_tools_that_cannot_be_offered_are_errors(tmp_path: Path) -> None:
    """What is no tool, two tools of one name, or a schema that is none, are refused when the box is made."""
    broken = Strange()
    broken.input_schema = {"type": "object", "properties": {"a": {"type": "nonsense"}}}
    with pytest.raises(ToolBoxError, match="nonsense"):
        bench(tmp_path, [broken])
    plain: Any = text_of
    with pytest.raises(ToolBoxError, match="'text_of' is no tool; a function is made one by @tool"):
        bench(tmp_path, [plain])
    with pytest.raises(ToolBoxError, match="two tools"):
        bench(tmp_path, [Strange(), Strange()])


VALUES: list[tuple[Any, str, Outcome]] = [
    ("text", "text", Outcome.OK),
    (None, "(no output)", Outcome.OK),
    ("  ", "(no output)", Outcome.OK),
    (b"a\xff", "a\ufffd", Outcome.OK),
    ({"a": [1, None]}, '{"a":[1,null]}', Outcome.OK),
    (3, "3", Outcome.OK),
    ("lone \ud83d", "lone \ufffd", Outcome.OK),
    ("a\0b", "a\ufffdb", Outcome.OK),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": " "}], "a", Outcome.OK),
    (float("nan"), "ValueError", Outcome.FAILED),
    (object(), "TypeError", Outcome.FAILED),
    (ToolOutput("odd", Outcome.ERROR), "odd", Outcome.ERROR),
]


@pytest.mark.parametrize(("value", "text", "outcome"), VALUES)
async def test_what_a_function_returns_becomes_a_result(tmp_path: Path, value: Any, text: str, outcome: Outcome) -> None:
    """Texts, bytes, JSON values and blocks have a form that the API takes; anything else is a failed result."""

    @tool
    def gives() -> Any:
        """Gives."""
        return value

    finished = await bench(tmp_path, [gives]).call("gives")
    assert finished.outcome is outcome
    assert text in text_of(finished)
    finished.result.json.encode("utf-8")


async def test_long_results_are_cut_and_can_be_read_again(tmp_path: Path) -> None:
    """Over its limit a result is stored once and shown in part, with the path; without a folder it is only cut."""
    long = "".join(f"{number}\n" for number in range(10_000))

    @tool(max_result_chars=1_000)
    def prints() -> str:
        """Prints."""
        return long

    folder = tmp_path / "results"
    own = bench(tmp_path, [prints], results_folder=str(folder))
    first, second = await own.call("prints"), await own.call("prints")
    (stored,) = folder.iterdir()
    assert stored.read_text() == long
    assert str(stored) in text_of(first)
    assert len(text_of(first)) < 1_300
    assert text_of(first).startswith("0\n1\n")
    assert text_of(first).endswith("9999\n")
    assert first.digest == second.digest
    assert "characters left out]" in await bench(tmp_path, [prints]).text("prints")


async def test_digests_leave_out_what_is_volatile(tmp_path: Path) -> None:
    """Loop detection compares content and outcome, not ids, and not what a tool declares volatile."""
    times = iter(range(10))

    @tool
    def clock(stable: bool) -> ToolOutput:
        """Clock."""
        now = str(next(times))
        return ToolOutput(now, stable="a time" if stable else None)

    own = bench(tmp_path, [clock])
    first = await own.call("clock", stable=True, tool_use_id="toolu_1")
    second = await own.call("clock", stable=True, tool_use_id="toolu_2")
    assert first.digest == second.digest
    assert (await own.call("clock", stable=False)).digest != (await own.call("clock", stable=False)).digest


class Recording(Tool):
    """Keeps what it ran with."""

    name = "record"
    description = "d"
    input_schema: Mapping[str, Any] = {"type": "object", "properties": {"value": {}}}

    def __init__(self) -> None:
        self.ran: list[Any] = []

    async def run(self, tool_input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        self.ran.append(tool_input["value"])
        return ToolOutput("ran")


@frozen
class Asks:
    """An asker that answers the same and may touch what it is shown."""

    answer: Answer
    seen: list[Question]
    breaks: bool = False

    async def ask(self, question: Question) -> Answer:
        self.seen.append(question)
        if isinstance(question.tool_input, dict):
            question.tool_input["value"] = "changed"
        if self.breaks:
            raise RuntimeError("no terminal")
        return self.answer


async def test_what_was_approved_is_exactly_what_runs(tmp_path: Path) -> None:
    """The asker sees a copy of the final input; the digest names it; changing the copy changes nothing (field report 96)."""
    record, asker = Recording(), Asks(Answer(True), [])
    own = bench(tmp_path, [record], mode=Mode.DEFAULT, asker=asker)
    await own.call("record", value=["a"])
    assert record.ran == [["a"]]
    assert own.started == [hashlib.sha256(b'{"value":["a"]}').hexdigest()]
    assert len(asker.seen) == 1


DENIED: dict[str, tuple[dict[str, Any], str]] = {
    "nobody to ask": ({"mode": Mode.DEFAULT}, "nobody can be asked"),
    "the user refuses": ({"mode": Mode.DEFAULT, "asker": Asks(Answer(False, "not today"), [])}, "not today"),
    "the question breaks": ({"mode": Mode.DEFAULT, "asker": Asks(Answer(True), [], True)}, "RuntimeError: no terminal"),
    "a rule": ({"rules": {"deny": ("record(value:a)",)}}, "deny: record(value:a)"),
    "the mode": ({"mode": Mode.PLAN}, "plan mode"),
}


@pytest.mark.parametrize(("options", "words"), DENIED.values(), ids=DENIED.keys())
async def test_a_denied_call_is_a_result_and_is_recorded(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    """It does not run, does not start, says who decided, and is in the list of denials (field report 94)."""
    record = Recording()
    own = bench(tmp_path, [record], **options)
    finished = await own.call("record", value="a")
    assert finished.outcome is Outcome.ERROR  # it cancels no sibling: nothing broke
    assert words in text_of(finished)
    assert (record.ran, own.started) == ([], [])
    (denial,) = own.box.denials
    assert (denial.tool_name, denial.tool_use_id, denial.tool_input) == ("record", "toolu_1", {"value": "a"})


async def test_a_call_that_the_core_cancelled_does_not_run(tmp_path: Path) -> None:
    """When the core does not take the start any more, the body never runs."""
    record = Recording()
    own = bench(tmp_path, [record])
    own.accept = False
    assert "cancelled before it ran" in await own.text("record", value="a")
    assert record.ran == []


async def test_a_log_that_cannot_be_written_is_no_result(tmp_path: Path) -> None:
    """What the ports raise goes through: the run must stop loudly, the tool must not run."""
    record = Recording()
    own = bench(tmp_path, [record])
    own.trouble = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        await own.call("record", value="a")
    assert record.ran == []


NOTHING = Verdict()


@frozen
class Fixed:
    """Hooks that always say the same."""

    pre: Verdict = NOTHING
    post: Verdict = NOTHING
    broken: bool = False

    async def before(self, event: ToolEvent) -> Verdict:
        if self.broken:
            raise RuntimeError("hook machinery")
        return self.pre

    async def after(self, event: ToolEvent, output: ToolOutput) -> Verdict:
        if self.broken:
            raise RuntimeError("hook machinery")
        return self.post


async def test_hooks_rewrite_stop_deny_and_add(tmp_path: Path) -> None:
    """A rewritten input is validated and runs; a stop ends before the body or after it; words reach the model."""
    record = Recording()
    own = bench(tmp_path, [record], hooks=Fixed(Verdict(updated_input={"value": "new"}, context=("by the way",))))
    assert await own.text("record", value="old") == "ran\n\nby the way"
    assert record.ran == ["new"]
    stopped = await bench(tmp_path, [record], hooks=Fixed(Verdict(stop="enough"))).call("record", value="x")
    assert (stopped.stop, stopped.outcome) == ("enough", Outcome.FAILED)
    later = await bench(tmp_path, [record], hooks=Fixed(post=Verdict(stop="enough", context=("feedback",)))).call(
        "record", value="y"
    )
    assert (later.stop, later.outcome, text_of(later)) == ("enough", Outcome.OK, "ran\n\nfeedback")
    changed = bench(tmp_path, [record], hooks=Fixed(post=Verdict(updated_output="masked")))
    assert await changed.text("record", value="z") == "masked"
    bad = bench(tmp_path, [greet], hooks=Fixed(Verdict(updated_input={"name": 1})))
    assert "field name must be of type string" in await bad.text("greet", name="a")
    assert record.ran == ["new", "y", "z"]


async def test_broken_hook_machinery_stays_shut(tmp_path: Path) -> None:
    """An exception in front of the call denies it; one behind it is a warning and the result stays."""
    record = Recording()
    own = bench(tmp_path, [record], hooks=Fixed(broken=True))
    assert "hook machinery" in await own.text("record", value="a")
    assert record.ran == []


async def test_a_hook_cannot_make_a_started_read_into_a_write(tmp_path: Path) -> None:
    """The core let the call start early as a read; rewritten into a write it is refused."""
    own = bench(tmp_path, hooks=Fixed(Verdict(behavior=Behavior.ALLOW, updated_input={"command": "touch x"})))
    assert "not as safe" in await own.text("Bash", command="ls")
    assert not (tmp_path / "x").exists()


async def test_a_denied_tool_is_not_shown(tmp_path: Path) -> None:
    """A bare deny rule takes the tool from the model's view and from use."""
    own = bench(tmp_path, rules={"deny": ("Bash",)})
    assert "Bash" not in [schema.name for schema in own.box.schemas()]
    assert "There is no tool 'Bash'" in await own.text("Bash", command="ls")


async def test_a_non_zero_exit_is_no_batch_failure(tmp_path: Path) -> None:
    """`ls` of a missing path and `echo` both give their results (field report 86)."""
    own = bench(tmp_path)
    first, second = await own.call("Bash", command="ls nope"), await own.call("Bash", command="echo ok")
    assert (first.outcome, second.outcome) == (Outcome.ERROR, Outcome.OK)
