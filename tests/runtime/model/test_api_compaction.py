"""Compaction by the API itself over real HTTP, its ways on when it fails, and files that are shown again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve

from fsm_agent.core.blocks import Block, block_text, text_block, tool_result, tool_use
from fsm_agent.core.config import ContextConfig, LoopConfig
from fsm_agent.core.context.compact import plan, valid
from fsm_agent.core.context.pipeline import prepare
from fsm_agent.core.context.store import ContextState
from fsm_agent.core.effects import Compact
from fsm_agent.core.events import CompactionFailed, CompactionFinished
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.phases import CompactKind
from fsm_agent.core.request.build import Built, build
from fsm_agent.core.request.compaction import compaction_request
from fsm_agent.core.usage import total_output
from fsm_agent.runtime.compact_text import SUMMARY_SYSTEM
from fsm_agent.runtime.compactor import ModelCompactor
from fsm_agent.runtime.model_caller import ModelCaller
from fsm_agent.runtime.model_data import load_models
from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.permissions.rules import parse_rules
from fsm_agent.runtime.reattach import attach, recent_paths, room_for_files
from fsm_agent.runtime.retry_after import no_jitter
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.runtime.tools.paths import Workspace
from fsm_agent.runtime.tools.pipeline import ToolBox
from fsm_agent.runtime.tools.reread import RecentFiles
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.exchange import Exchange
from fsm_agent.server.replies import HttpError, Reply, compacts, says

MODEL = "claude-opus-5-5"
CONFIG = LoopConfig(model=MODEL, models=load_models(), system=("Be careful.",), user_context="Rules: none.")


def calls_of(number: int, name: str = "Read", path: str = "a.py", size: int = 400) -> tuple[Message, Message]:
    """Make a round: one call and its result."""
    use: Block = tool_use(f"toolu_{number}", name, json.dumps({"file_path": path}))
    return (
        message(f"a{number}", "assistant", MessageKind.ASSISTANT, (text_block(f"Step {number}."), use), model=MODEL),
        message(f"r{number}", "user", MessageKind.TOOL_RESULTS, (tool_result(f"toolu_{number}", "word " * size),)),
    )


def history(*rounds: tuple[Message, Message]) -> tuple[Message, ...]:
    """Make a conversation of one request and rounds."""
    first = message("m0", "user", MessageKind.PROMPT, (text_block("Mend the parser."),))
    return (first, *(item for pair in rounds or [calls_of(number) for number in range(6)] for item in pair))


def asked(view: tuple[Message, ...], config: LoopConfig = CONFIG, instructions: str = "") -> Compact:
    """Make the effect as the core makes it."""
    found = prepare(view, ContextState(), config, MODEL, "r/p")
    built = build(found.view, found.context, config, MODEL)
    assert isinstance(built, Built)
    cut = plan(found.view, config, MODEL)
    prefix = compaction_request(found.view, cut.start, built.context, config, MODEL, instructions)
    return Compact("r/compact-1", CompactKind.AUTO, cut.messages, cut.tail, MODEL, 2_000, prefix=prefix)


async def no_sleep(seconds: float) -> None:
    """Wait in name only."""
    await anyio.lowlevel.checkpoint()


def compact(script: list[Reply], effect: Compact, **fields: Any) -> tuple[Any, list[Exchange]]:
    """Compact over real HTTP with a strict server."""

    async def main() -> Any:
        async with ModelCaller(base_url=server.base_url, api_key="k", jitter=no_jitter) as model:
            return await ModelCompactor(model, CONFIG, sleep=no_sleep, **fields).compact(effect)

    with LoopbackServer(script, models=load_models()) as server:
        answer = anyio.run(main)
        assert [found for found in server.breaches if "again unchanged" not in found[1]] == []
        return answer, list(server.requests)


def test_the_api_compacts_what_was_sent_before_the_tail() -> None:
    """One request: what was sent up to the tail, the same system prompt, ``compaction``, and nothing that it forbids."""
    config = evolve(CONFIG, output_schema='{"type":"object"}')
    effect = asked(history(), config, "Keep the names.")
    answer, (request,) = compact([compacts("All is well.")], effect)
    assert isinstance(answer, CompactionFinished)
    assert answer.stop_reason == "compaction"
    assert [block.type for block in answer.summary] == ["compaction"]
    assert json.loads(answer.summary[0].json)["signature"]
    assert valid(answer, sum(item.tokens for item in effect.messages)) == ""
    assert total_output(answer.usage) > 0
    assert request.body["compaction"] == {"type": "summarize", "instructions": "Keep the names."}
    assert {"context_management", "stop_sequences", "tool_choice"}.isdisjoint(request.body)
    assert "format" not in request.body.get("output_config", {})
    assert request.body["messages"][-1]["content"][0]["tool_use_id"] == "toolu_3"
    assert "compact-2026-09-04" in request.betas


def test_a_compaction_that_is_unavailable_for_a_while_is_tried_again() -> None:
    """``compaction_unavailable`` is transient: the same request goes out again, and its block is used."""
    fault = HttpError(503, type="api_error", code="compaction_unavailable")
    answer, requests = compact([fault, compacts("Done so far.")], asked(history()))
    assert isinstance(answer, CompactionFinished)
    assert answer.summary[0].type == "compaction"
    assert len(requests) == 2


@pytest.mark.parametrize(
    "reply",
    [
        HttpError(400, code="compaction_incomplete_turn", message="no"),
        HttpError(400, code="compaction_nothing_to_summarize", message="no"),
        HttpError(400, code="compaction_signature_invalid", message="no"),
        HttpError(400, message="prompt is too long: 300000 tokens > 200000 maximum"),
        compacts(None),
        says("I will not."),
    ],
)
def test_what_the_api_cannot_compact_our_own_summariser_does(reply: Reply) -> None:
    """After an error that no retry mends, or without a summary in the block, our own call writes one."""
    answer, requests = compact([reply, says("Our own summary.")], asked(history()))
    assert isinstance(answer, CompactionFinished)
    assert [block_text(block) for block in answer.summary] == ["Our own summary."]
    assert requests[1].body["system"] == SUMMARY_SYSTEM


def test_a_failure_of_both_is_a_failure() -> None:
    """When neither gives a summary the compaction fails, and the history stays as it was."""
    down = HttpError(529)
    answer, requests = compact([down] * 6, asked(history()))
    assert isinstance(answer, CompactionFailed)
    assert len(requests) == 6


def test_a_summariser_of_its_own_and_other_models_do_without() -> None:
    """A chosen summariser writes the summary; a model without the feature and a setting against it give no prefix."""
    answer, (request,) = compact([says("Short.")], asked(history()), summariser="claude-haiku-4-5")
    assert isinstance(answer, CompactionFinished)
    assert request.body["model"] == "claude-haiku-4-5"
    assert asked(history(), evolve(CONFIG, context=ContextConfig(api_compaction=False))).prefix is None
    plain = tuple(evolve(info, api_compaction=False) for info in load_models())
    assert asked(history(), evolve(CONFIG, models=plain)).prefix is None


def test_the_most_recent_files_come_first_and_each_once() -> None:
    """Paths are those of file tools, newest first; other tools and results name none."""
    view = history(calls_of(1, path="a.py"), calls_of(2, "Grep", "x"), calls_of(3, path="b.py"), calls_of(4, path="a.py"))
    assert recent_paths(view, ("Read", "Edit")) == ["a.py", "b.py"]


def test_files_take_no_more_room_than_the_compaction_makes() -> None:
    """The room is within the budget, within half of what is freed, and zero where the compaction frees little."""
    view = history()
    going, tail = view[:9], view[9:]
    replaced = sum(item.tokens for item in going)
    room = room_for_files(going, tail, 100, CONFIG, MODEL)
    assert 0 < room <= (replaced - 100) // 2
    assert room_for_files(going, tail, replaced - 10, CONFIG, MODEL) == 0
    small = evolve(CONFIG, context=ContextConfig(attachment_tokens=7))
    assert room_for_files(going, tail, 100, small, MODEL) == 7


def box_at(folder: Path, **rules: Any) -> ToolBox:
    """Make a toolbox over a folder."""
    return ToolBox(builtin_tools(), policy=Policy(Workspace.at(folder), Mode.DEFAULT, parse_rules(**rules)))


def test_files_in_use_are_shown_again_as_they_are_now(tmp_path: Path) -> None:
    """Behind the summary stand the files that were read, with their present text; what the tail shows is left out."""
    for name, text in (("a.py", "x = 1\n"), ("b.py", "y = 2\n"), ("never.py", "z = 3\n"), ("secret.py", "k\n")):
        (tmp_path / name).write_text(text)
    box = box_at(tmp_path, deny=("Read(secret.py)",))
    for name in ("a.py", "b.py", "secret.py"):
        box.files.note(str((tmp_path / name).resolve()))
    (tmp_path / "a.py").write_text("x = 10\n")
    rounds = [calls_of(number, path=path) for number, path in enumerate(("never.py", "secret.py", "b.py", "a.py"))]
    view = history(*rounds, *(calls_of(number, "Bash", "-", 300) for number in (5, 6, 7)))
    effect = evolve(asked(view), prefix=None)
    answer, _ = compact([says("Summary.")], effect, files=RecentFiles(box))
    assert isinstance(answer, CompactionFinished)
    texts = [block_text(item.blocks[0]) for item in answer.attachments]
    assert ["x = 10" in texts[0], "y = 2" in texts[1], len(texts)] == [True, True, 2]
    assert all(item.kind is MessageKind.ATTACHMENT for item in answer.attachments)
    assert box.files.problem(str((tmp_path / "a.py").resolve()), b"x = 10\n") == ""
    shown = RecentFiles(box)(view[:9], calls_of(9, path="b.py"))
    assert [file.path for file in shown] == ["a.py"]


def test_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    """A file over the room is left out whole, and named; a smaller one behind it still finds its place."""
    files = [("big.py", "word " * 4_000), ("small.py", "x = 1")]
    from fsm_agent.runtime.reattach import File

    kept, dropped = attach("r/c", [File(path, text) for path, text in files], 300)
    assert [item.id for item in kept] == ["r/c/small.py"]
    assert dropped == ("big.py",)
