"""What a user types, from the text to the request: commands, mentions, budgets, hooks, compaction by hand."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest

from fsm_agent import Agent, Session
from fsm_agent.core.messages import MessageKind
from fsm_agent.core.outputs import (
    Boundary,
    InitOutput,
    Notice,
    Output,
    RequestStart,
    ResultOutput,
    TerminalOutput,
    ToolUseSummary,
)
from fsm_agent.core.phases import Cause, TerminalReason
from fsm_agent.log.replay import replay
from fsm_agent.runtime.hooks.config import Hook, HookEvent
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import HttpError, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.markdown_commands import CommandError, MarkdownCommand, expand, find_commands
from fsm_agent.session.submission import Submission
from fsm_agent.session.user_input import UserInput, read_input

pytestmark = pytest.mark.anyio
MODEL = "claude-sonnet-5-5"


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Real servers want a real clock."""
    return request.param


def session_at(server: LoopbackServer, cwd: Path, *, trusted: bool = True, **settings: Any) -> Session:
    agent = Agent(MODEL, cwd=cwd, base_url=server.base_url, api_key="k", **settings)
    return Session(agent, commands=find_commands(cwd, None, trusted=trusted))


async def read(submission: Submission) -> list[Output]:
    async with submission:
        return [output async for output in submission]


def notices(outputs: list[Output]) -> list[str]:
    return [output.text for output in outputs if isinstance(output, Notice)]


def texts(server: LoopbackServer, number: int = -1) -> str:
    """All text of the messages of one request."""
    body = server.requests[number].body
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    return "\n".join(str(block.get("text", "")) for block in blocks)


def command(cwd: Path, name: str, text: str) -> None:
    path = cwd / ".claude" / "commands" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("do it", UserInput("do it")),
        ("do it +500k", UserInput("do it", 500_000)),
        ("do it +1.5M ", UserInput("do it", 1_500_000)),
        ("add 2 +500", UserInput("add 2 +500")),
        ("+500k", UserInput("+500k")),
        ("c++20k", UserInput("c++20k")),
        ("do it +0k", UserInput("do it +0k")),
        ("/help", UserInput("/help", None, "help", "")),
        ("/fix issue 7 +20k", UserInput("/fix issue 7", 20_000, "fix", "issue 7")),
        ("/front:end a\nb", UserInput("/front:end a\nb", None, "front:end", "a\nb")),
        ("/etc/hosts is odd", UserInput("/etc/hosts is odd")),
        (" /help", UserInput(" /help")),
        ("/ help", UserInput("/ help")),
    ],
)
def test_what_was_typed(text: str, found: UserInput) -> None:
    """Commands, their arguments and budgets are told from plain words, paths and sums."""
    assert read_input(text) == found


async def test_arguments_are_put_in_once(tmp_path: Path) -> None:
    """Every form of place is replaced, counted from 0; what the arguments say is never read as a place or an insertion."""
    body = "$0 $1 $ARGUMENTS[1] $who ${CLAUDE_SESSION_ID} $unknown all:$ARGUMENTS"
    made = MarkdownCommand("x", tmp_path / "x.md", True, arguments=("who",), body=body)
    text = await expand(made, "'a b' $0", variables={"CLAUDE_SESSION_ID": "s1"})
    assert text == "a b $0 $0 a b s1 $unknown all:'a b' $0"
    bare = MarkdownCommand("x", tmp_path / "x.md", True, body="Fix it.")
    assert await expand(bare, "number 7", variables={}) == "Fix it.\n\nARGUMENTS: number 7"
    assert await expand(bare, "!`rm x`", variables={}) == "Fix it.\n\nARGUMENTS: !`rm x`"


async def test_arguments_in_an_insertion_are_quoted(tmp_path: Path) -> None:
    """Arguments cannot end the command that they are inserted into."""
    lines: list[str] = []

    async def insert(line: str) -> str:
        lines.append(line)
        return "out $ARGUMENTS"

    made = MarkdownCommand("x", tmp_path / "x.md", True, body="A !`git log $ARGUMENTS` B $0")
    assert await expand(made, "a; rm -rf b", variables={}, insert=insert) == "A out $ARGUMENTS B a;"
    assert lines == ["git log 'a; rm -rf b'"]
    with pytest.raises(CommandError, match="not trusted"):
        await expand(made, "", variables={})


@pytest.mark.parametrize(
    "value", ["a b", "$(touch made)", '"; touch made; "', "'; touch made; '", "\\", 'a\\"$x`y`!', "''", "*"]
)
@pytest.mark.parametrize("body", ["$ARGUMENTS", '"$ARGUMENTS"', "'$ARGUMENTS'", "x=\"y $ARGUMENTS\"'z $ARGUMENTS'$ARGUMENTS"])
async def test_bash_reads_an_argument_as_it_was_typed(tmp_path: Path, body: str, value: str) -> None:
    """An argument in an insertion is text for a real shell wherever it stands: bare, or inside quotes of either kind."""
    lines: list[str] = []

    async def insert(line: str) -> str:
        lines.append(line)
        return ""

    made = MarkdownCommand("x", tmp_path / "x.md", True, body=f"!`printf %s {body}`")
    await expand(made, value, variables={}, insert=insert)
    done = subprocess.run(["bash", "-c", lines[0]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == body.translate({34: None, 39: None}).replace("$ARGUMENTS", value)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "line", ['echo "$(echo $0)"', "echo $'$0'", "cat <<< $0", "ls # $0", "echo \\$0", 'echo "${x:-$0}"', "echo $(($0))"]
)
async def test_an_argument_where_nothing_can_be_quoted_is_refused(tmp_path: Path, line: str) -> None:
    """Where a value cannot be kept from being shell code, nothing is run and the place is named."""

    async def insert(line: str) -> str:
        raise AssertionError(line)

    made = MarkdownCommand("x", tmp_path / "x.md", True, body=f"!`{line}`")
    with pytest.raises(CommandError, match="cannot be quoted"):
        await expand(made, "a", variables={}, insert=insert)


@pytest.mark.parametrize("body", ["x !` ` y", "x !`#` y", "!`echo $0`", "!`cat <<E`", "!`((`"])
async def test_an_insertion_that_is_no_command_is_refused_in_words(tmp_path: Path, body: str) -> None:
    """A blank line, a comment, a NUL or a line that no shell could read starts no run and raises nothing."""
    command(tmp_path, "odd", body)
    with LoopbackServer([]) as server:
        session = session_at(server, tmp_path)
        submission = session.submit("/odd a\0b")
        await read(submission)
        assert submission.value is not None
        assert "/odd" in submission.value["errors"][0]
        assert server.requests == []


async def test_the_output_of_an_insertion_mentions_no_file(tmp_path: Path) -> None:
    """A program's words may be anybody's: only what the command's file and the user say attaches a file."""
    for name in ("body", "typed", "left", "output"):
        (tmp_path / f"{name}.txt").write_text(f"{name} is read")
    command(tmp_path, "see", "---\nallowed-tools: Bash(echo:*)\n---\n@body.txt !`echo @output.txt` $0")
    with LoopbackServer([says("1"), says("2")]) as server:
        session = session_at(server, tmp_path)
        await read(session.submit("/see @typed.txt"))
        assert [f"{name} is read" in texts(server) for name in ("body", "typed", "output")] == [True, True, False]
        assert "@output.txt" in texts(server)
        command(tmp_path, "bare", "Look.")
        session.commands = find_commands(tmp_path, None, trusted=True)
        await read(session.submit("/bare @left.txt"))
        assert "left is read" in texts(server)


async def test_a_command_wins_over_a_folder_of_the_same_name(tmp_path: Path) -> None:
    """``/tmp`` is a folder on every machine; where it is also a command, the command runs."""
    command(tmp_path, "tmp", "Tidy up $ARGUMENTS.")
    with LoopbackServer([says("1")]) as server:
        session = session_at(server, tmp_path)
        await read(session.submit("/tmp now"))
        assert "Tidy up now." in texts(server)


async def test_markdown_command_runs_with_its_insertions_and_tools(tmp_path: Path) -> None:
    """A command says its text with arguments and output; its allowed tools hold for that run and no longer."""
    head = "---\ndescription: Commits\nallowed-tools: Bash(touch:*)\n---\n"
    command(tmp_path, "git/commit", head + "Commit $ARGUMENTS after !`touch made && echo seen`.")
    script = [calls(use("Bash", {"command": "touch a"})), says("1"), calls(use("Bash", {"command": "touch b"})), says("2")]
    with LoopbackServer(script) as server:
        session = session_at(server, tmp_path)
        outputs = await read(session.submit("/git:commit all"))
        assert isinstance(outputs[0], InitOutput)
        assert "git:commit" in json.loads(outputs[0].details)["slash_commands"]
        assert "Commit all after seen" in texts(server, 0)
        await read(session.submit("again"))
    assert [(tmp_path / name).exists() for name in ("made", "a", "b")] == [True, True, False]


@pytest.mark.parametrize("trusted", [True, False])
async def test_insertion_without_a_rule_or_trust_is_refused(tmp_path: Path, trusted: bool) -> None:
    """A command whose insertion no rule allows, or which nobody trusts, starts no run, runs nothing and says why."""
    head = "" if trusted else "---\nallowed-tools: Bash(touch:*)\n---\n"
    command(tmp_path, "bad", head + "Look: !`touch made`")
    with LoopbackServer([]) as server:
        outputs = await read(session_at(server, tmp_path, trusted=trusted).submit("/bad"))
        assert server.requests == []
    (why,) = notices(outputs)
    assert ("may not run" if trusted else "not trusted") in why
    result = outputs[-1]
    assert isinstance(result, ResultOutput)
    assert json.loads(result.value)["is_error"] is True
    assert json.loads(result.value)["errors"] == [why]
    assert not (tmp_path / "made").exists()


async def test_untrusted_command_grants_nothing(tmp_path: Path) -> None:
    """The allowed tools of a command in a folder that is not trusted are left out, with a warning."""
    command(tmp_path, "go", "---\nallowed-tools: Bash(touch:*)\n---\nGo.")
    with LoopbackServer([calls(use("Bash", {"command": "touch a"})), says("no")]) as server:
        outputs = await read(session_at(server, tmp_path, trusted=False).submit("/go"))
    assert any("not trusted" in text for text in notices(outputs))
    assert not (tmp_path / "a").exists()


async def test_unknown_command_is_not_sent(tmp_path: Path) -> None:
    """A typo is answered with the nearest name; with a space in front, or as a literal, the text goes to the model."""
    with LoopbackServer([says("a"), says("b")]) as server:
        session = session_at(server, tmp_path)
        outputs = await read(session.submit("/compct"))
        assert "did you mean /compact?" in notices(outputs)[0]
        assert server.requests == []
        await read(session.submit(" /compct"))
        await read(session.submit("/compct @x", literal=True))
    assert "/compct @x" in texts(server)


async def test_mentions_are_attached(tmp_path: Path) -> None:
    """Files and folders that exist are attached once, names and addresses are not; what was attached may be edited."""
    (tmp_path / "a.py").write_text("one\n")
    (tmp_path / "b c.txt").write_text("two\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x").write_text("")
    edit = use("Edit", {"file_path": "a.py", "old_string": "one", "new_string": "three"})
    with LoopbackServer([calls(edit), says("done")]) as server:
        session = session_at(server, tmp_path, permission_mode="acceptEdits")
        await read(session.submit('look at @a.py, @"b c.txt" and @sub (not me@a.py or @nobody): @a.py.'))
        sent = texts(server, 0)
        assert [request.breaches for request in server.requests] == [(), ()]
    assert (tmp_path / "a.py").read_text() == "three\n"
    assert sent.count("attached the file") == 2
    assert "1\tone" in sent or "one" in sent
    assert "attached the folder" in sent
    kinds = [message.kind for message in session.state.messages[:2]]
    assert kinds == [MessageKind.PROMPT, MessageKind.ATTACHMENT]


async def test_mentions_obey_the_rules(tmp_path: Path) -> None:
    """What a deny rule names, or lies outside the workspace, is not attached, and the user is told."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text("SECRET=1")
    (tmp_path / "out.txt").write_text("outside")
    (work / "link").symlink_to(tmp_path / "out.txt")
    with LoopbackServer([says("ok")]) as server:
        outputs = await read(session_at(server, work, deny=["Read(./.env)"]).submit(f"@.env @link @{tmp_path}/out.txt"))
        sent = texts(server)
    assert "SECRET" not in sent
    assert "outside" not in sent
    assert len(notices(outputs)) == 2  # the link and the file that it leads to are one


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\0\0\0")) + chunk(b"IEND", b"")


async def test_images_are_attached_as_images(tmp_path: Path) -> None:
    """A mentioned picture goes to the model as an image block, and blocks given by a program stay as they are."""
    (tmp_path / "shot.png").write_bytes(png())
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png()).decode()}
    with LoopbackServer([says("a dot"), says("the same")]) as server:
        session = session_at(server, tmp_path)
        await read(session.submit("what is @shot.png"))
        await read(session.submit([{"type": "text", "text": "@shot.png"}, {"type": "image", "source": source}]))
        bodies = [json.dumps(request.body) for request in server.requests]
        assert [request.breaches for request in server.requests] == [(), ()]
    assert [body.count('"type": "image"') for body in bodies] == [1, 2]


async def test_token_budget_at_the_end(tmp_path: Path) -> None:
    """``+1k`` at the end is taken off the prompt and spent as the token budget: the model is nudged to go on."""
    script = [says("a", usage={"output_tokens": 100}), says("b", usage={"output_tokens": 950})]
    with LoopbackServer(script) as server:
        outputs = await read(session_at(server, tmp_path).submit("write +1k"))
        assert "+1k" not in texts(server)
    (end,) = [output for output in outputs if isinstance(output, TerminalOutput)]
    assert end.terminal.cause is Cause.BUDGET_REACHED


def hook(event: HookEvent, call: Any) -> Hook:
    return Hook(event, call=call)


async def test_prompt_hook_drops_or_adds(tmp_path: Path) -> None:
    """A UserPromptSubmit hook that blocks keeps the prompt from every model; its context goes with one it lets pass."""

    def judge(value: Any) -> Any:
        if "bad" in value["prompt"]:
            return {"decision": "block", "reason": "not today"}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "it is Tuesday"}}

    with LoopbackServer([says("fine")]) as server:
        session = session_at(server, tmp_path, hooks=[hook(HookEvent.USER_PROMPT_SUBMIT, judge)])
        dropped = session.submit("bad idea")
        assert "not today" in notices(await read(dropped))[0]
        assert dropped.terminal is not None
        assert dropped.terminal.reason is TerminalReason.HOOK_STOPPED
        assert server.requests == []
        await read(session.submit("good idea"))
        sent = texts(server)
    assert "it is Tuesday" in sent
    assert "bad idea" not in sent


async def test_hooks_of_a_session_in_order(tmp_path: Path) -> None:
    """Start once with its context, end of each turn, end of the session; commands print what the model is to know."""
    seen: list[tuple[str, str]] = []

    def note(value: Any) -> Any:
        seen.append((value["hook_event_name"], value.get("source") or value.get("cause") or value.get("reason")))
        assert value["session_id"] == "s1"

    events = (HookEvent.SESSION_START, HookEvent.TURN_END, HookEvent.SESSION_END)
    hooks = [*(hook(event, note) for event in events), Hook(HookEvent.SESSION_START, command="echo remember the milk")]
    with LoopbackServer([says("1"), says("2"), says("3")]) as server:
        agent = Agent(MODEL, cwd=tmp_path, base_url=server.base_url, api_key="k", hooks=hooks)
        async with Session(agent, session_id="s1") as session:
            for text in ("a", "b"):
                await read(session.submit(text))
        assert "remember the milk" in texts(server, 0)
    assert seen == [("SessionStart", "startup"), ("TurnEnd", "end_turn"), ("TurnEnd", "end_turn"), ("SessionEnd", "other")]


async def test_local_commands_call_no_model(tmp_path: Path) -> None:
    """Commands that look answer at once, as a success with their text, and no request is made."""
    with LoopbackServer([]) as server:
        session = session_at(server, tmp_path, deny=["Read(./.env)"], logs=tmp_path / "logs")
        for name in ("help", "context", "cost", "model", "permissions", "resume"):
            outputs = await read(session.submit(f"/{name}"))
            result = outputs[-1]
            assert isinstance(result, ResultOutput)
            value = json.loads(result.value)
            assert (value["subtype"], value["num_turns"], value["result"]) == ("success", 0, notices(outputs)[-1])
        assert server.requests == []


async def test_compaction_by_hand_starts_nothing(tmp_path: Path) -> None:
    """Field report 18: /compact at rest makes the summariser's call and no other; the next prompt goes on from the summary."""
    long = "word " * 3000
    script = [says(long), says(long), says(long), says("summary of all"), says("went on")]
    with LoopbackServer(script) as server:
        session = session_at(server, tmp_path, logs=tmp_path / "logs")
        for number in range(3):
            await read(session.submit(f"question {number}"))
        outputs = await read(session.submit("/compact keep the names"))
        assert len(server.requests) == 4
        assert "keep the names" in texts(server)
        assert not any(isinstance(output, RequestStart) for output in outputs)
        (boundary,) = [output for output in outputs if isinstance(output, Boundary)]
        assert boundary.after < boundary.before
        assert json.loads(outputs[-1].value)["usage"]["output_tokens"] > 0  # type: ignore[union-attr]
        last = session.submit("and now?")
        await read(last)
        assert [request.breaches for request in server.requests] == [()] * 5
        sent = texts(server)
    assert "summary of all" in sent
    assert "question 0" not in sent
    assert "question 2" in sent
    assert last.value is not None
    assert replay(last.value["log"]).state == session.state


async def test_compaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    """An empty summary, a failing summariser and a hook that objects leave the history as it was, and say so."""
    long = "word " * 3000
    blocks: list[Any] = []

    def gate(value: Any) -> Any:
        assert (value["trigger"], value["custom_instructions"]) == ("manual", "x")
        return {"decision": "block", "reason": "keep it"} if blocks else None

    failing = [says(""), says(""), HttpError(400, message="no")]
    with LoopbackServer([says(long), says(long), says(long), *failing]) as server:
        session = session_at(server, tmp_path, hooks=[hook(HookEvent.PRE_COMPACT, gate)])
        for number in range(3):
            await read(session.submit(f"question {number}"))
        before = session.state.messages
        for expected in ("empty", "no", "keep it"):
            if expected == "keep it":
                blocks.append(1)
            outputs = await read(session.submit("/compact x"))
            assert expected in notices(outputs)[-1]
            assert session.state.messages == before


async def test_model_switch_lasts_and_costs(tmp_path: Path) -> None:
    """/model holds for all later prompts, the switched model's price counts, and the log replays."""
    with LoopbackServer([says("a"), says("b"), says("c")]) as server:
        session = session_at(server, tmp_path, logs=tmp_path / "logs")
        await read(session.submit("one"))
        await read(session.submit("/model claude-haiku-4-5"))
        for text in ("two", "three"):
            submission = session.submit(text)
            await read(submission)
            assert submission.value is not None
            assert submission.value["modelUsage"]["claude-haiku-4-5"]["costUSD"] > 0
            assert replay(submission.value["log"]).state == session.state
        models = [request.body["model"] for request in server.requests]
    assert models == [MODEL, "claude-haiku-4-5", "claude-haiku-4-5"]


async def test_clear_and_resume(tmp_path: Path) -> None:
    """/clear begins anew under another id; /resume takes the old conversation up again from its log."""
    with LoopbackServer([says("a"), says("b"), says("c")]) as server:
        session = session_at(server, tmp_path, logs=tmp_path / "logs")
        await read(session.submit("the first question"))
        old = session.id
        await read(session.submit("/clear"))
        assert session.id != old
        assert session.state.messages == ()
        await read(session.submit("another one"))
        assert "the first question" not in texts(server)
        assert "the first question" in notices(await read(session.submit("/resume")))[-1]
        await read(session.submit(f"/resume {old[:6]}"))
        assert session.id == old
        submission = session.submit("go on")
        await read(submission)
        assert "the first question" in texts(server)
        assert submission.value is not None
        assert replay(submission.value["log"]).state == session.state


async def test_summaries_by_a_small_model(tmp_path: Path) -> None:
    """A small model sums up each round of tools while the next reply streams; its usage is counted, the run does not wait."""
    (tmp_path / "a").write_text("x")

    def answer(number: int, body: dict[str, Any]) -> Any:
        if body["model"] == "claude-haiku-4-5":
            return says("Read one file")
        return calls(use("Read", {"file_path": "a"})) if len(body["messages"]) == 1 else says("done", pace=0.05)

    with LoopbackServer(answer) as server:
        submission = session_at(server, tmp_path, summary_model="claude-haiku-4-5").submit("read it")
        outputs = await read(submission)
        assert sorted(request.body["model"] for request in server.requests).count("claude-haiku-4-5") == 1
    assert [output.text for output in outputs if isinstance(output, ToolUseSummary)] == ["Read one file"]
    assert submission.value is not None
    assert set(submission.value["modelUsage"]) == {MODEL, "claude-haiku-4-5"}
