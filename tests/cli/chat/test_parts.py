"""The parts of the chat that need no terminal: streaming Markdown, diffs, answers to questions, trust."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.cli.chat.asking import ChatAsker
from fsm_agent.cli.chat.diffs import diff_lines
from fsm_agent.cli.chat.markdown import Pieces, lay_out
from fsm_agent.cli.chat.view import ChatView
from fsm_agent.cli.console import Paint
from fsm_agent.core.blocks import text_block, tool_use
from fsm_agent.core.outputs import BlockOutput, CallEnd, Ending, TextDelta
from fsm_agent.runtime.permissions.decide import Policy
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.tools.asking import Question
from fsm_agent.runtime.tools.bash import Bash
from fsm_agent.runtime.tools.paths import Workspace
from fsm_agent.runtime.tools.pipeline import ToolBox
from fsm_agent.session.project import asks_for_trust

MARKDOWN = "# Title\n\nA *word*.\n\n- one\n\n- two\n\nThen:\n\n```py\nx = 1\n\n\ny = 2\n```\nEnd"


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_pieces_are_whole_and_nothing_is_lost(size: int) -> None:
    """However text is cut as it streams, lists and code blocks come whole, and all pieces together are the text."""
    pieces = Pieces()
    fed = [MARKDOWN[start : start + size] for start in range(0, len(MARKDOWN), size)]
    done = [piece for part in fed if (piece := pieces.feed(part))]
    rest = pieces.finish()
    assert "".join("\n".join([*done, rest]).split()) == "".join(MARKDOWN.split())
    assert all(piece.count("```") in (0, 2) for piece in (*done, rest))
    assert not any("one" in piece and "two" not in piece for piece in (*done, rest))


@given(st.lists(st.text(alphabet="ab `~#-*|\n1.", max_size=8), max_size=12))
def test_no_text_is_lost(parts: list[str]) -> None:
    """For any text in any parts, what was given and what is left is the text, blank lines aside."""
    pieces = Pieces()
    done = [pieces.feed(part) for part in parts]
    text = "\n".join([*filter(None, done), pieces.finish()])
    assert "".join(text.split()) == "".join("".join(parts).split())


def test_laid_out_without_steering_the_terminal() -> None:
    """Markdown is laid out in the width, without colours where none are wanted, and links do not become escape sequences."""
    text = lay_out("# Head\n\nsome [link](http://x.y) **bold** " + "word " * 40, width=40, colours=False)
    assert text.startswith("Head\n")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 40
    assert "\x1b]8" not in lay_out("[link](http://x.y)", width=40, colours=True)


def test_view_streams_markdown_and_shows_diffs() -> None:
    """Complete paragraphs come while the reply streams; the rest with its end; a call of Edit shows what it changes."""
    view = ChatView(Paint(False), lambda: 60)
    assert view.show(TextDelta("c", 0, "**One**.\n\nTw")) == ""
    shown = view.show(TextDelta("c", 0, "o\x1b[31m.\n\nThree\n"))
    assert "\x1b" not in shown
    assert "Two" in shown
    assert "Three" in view.tail
    assert "Three" in view.show(BlockOutput("b", "c", 0, "m", text_block("ignored")))
    edit = tool_use("t", "Edit", '{"file_path":"a","old_string":"x\\ny","new_string":"x\\nz"}')
    shown = view.show(BlockOutput("b2", "c", 1, "m", edit))
    assert "  -y\n" in shown
    assert "  +z\n" in shown


def test_discarded_text_is_dropped() -> None:
    """What was not laid out of a discarded reply is never shown."""
    view = ChatView(Paint(False), lambda: 60)
    view.show(TextDelta("c", 0, "half a sen"))
    assert "discarded" in view.show(CallEnd("c", Ending.DISCARDED))
    assert view.end({}) == ""
    assert view.show(CallEnd("d", Ending.DISCARDED)) == "", "of an attempt that showed nothing, nothing is taken back"


def test_diffs_are_bounded_and_clean() -> None:
    """A long file is cut, control characters are shown, other tools have no diff."""
    lines = diff_lines("Write", {"content": "\x1b[2Jboo\n" * 500}, Paint(False))
    assert len(lines) == 41
    assert "460" in lines[-1] or "more lines" in lines[-1]
    assert "\x1b" not in "".join(lines)
    assert diff_lines("Bash", {"command": "x"}, Paint(False)) == []


def box(tmp_path: Path) -> ToolBox:
    return ToolBox([Bash()], policy=Policy(workspace=Workspace.at(tmp_path)))


def question(name: str, rule: str = "mode: default", **given: str) -> Question:
    return Question(name, "t", given, "why", rule)


async def answered(asker: ChatAsker, asked: Question, text: str) -> tuple[bool, str, str]:
    found: list[tuple[bool, str, str]] = []
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            answer = await asker.ask(asked)
            found.append((answer.allow, answer.message, said[0]))

        said: list[str] = []
        group.start_soon(ask)
        while asker.question is None:
            await anyio.sleep(0)
        said.append(asker.answer(text))
    return found[0]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_only_a_clear_yes_allows(tmp_path: Path, anyio_backend: str) -> None:
    """Yes and always allow; anything else, a message typed for the model above all, denies and goes to the model."""
    asker = ChatAsker(lambda: None)
    asker.tools = box(tmp_path)
    bash = question("Bash", command="make")
    assert (await answered(asker, bash, " Y "))[:2] == (True, "")
    assert (await answered(asker, bash, "n"))[:2] == (False, "")
    assert (await answered(asker, bash, ""))[:2] == (False, "")
    assert (await answered(asker, bash, "yes but first run the tests"))[:2] == (False, "yes but first run the tests")
    assert asker.tools.policy.rules.allow == ()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_always_allows_the_same_and_no_more(tmp_path: Path, anyio_backend: str) -> None:
    """Always covers the same line, edits in the workspace, or one tool; where that is not possible, it holds once."""
    asker = ChatAsker(lambda: None)
    asker.tools = box(tmp_path)
    policy = asker.tools.policy
    line = question("Bash", command="make test && touch x")
    await answered(asker, line, "a")
    assert (await asker.ask(line)).allow
    for other in ("make test", "make test && touch xy"):
        assert (await answered(asker, question("Bash", command=other), "n"))[0] is False
    await answered(asker, question("Edit", "outside", file_path="/etc/x"), "a")
    assert asker.tools.policy == policy
    await answered(asker, question("Edit", file_path="x"), "a")
    assert asker.tools.policy == evolve(policy, mode=Mode.ACCEPT_EDITS)
    await answered(asker, question("mcp__a__b"), "a")
    assert [rule.text for rule in asker.tools.policy.rules.allow] == ["mcp__a__b"]


def test_what_trust_is_asked_for(tmp_path: Path) -> None:
    """A folder that grants nothing needs no trust; hooks, rules, servers and inserting commands are named."""
    assert asks_for_trust(tmp_path) == ()
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    (tmp_path / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash"], "deny": ["Read"]}}')
    (tmp_path / ".claude" / "commands" / "x.md").write_text("!`rm x`")
    (tmp_path / ".claude" / "commands" / "y.md").write_text("plain")
    (tmp_path / ".mcp.json").write_text("{}")
    wanted = " ".join(asks_for_trust(tmp_path))
    assert "allow rules" in wanted
    assert "MCP servers" in wanted
    assert "/x" in wanted
    assert "/y" not in wanted
