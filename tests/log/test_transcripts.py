"""Transcripts of other agents become histories from which a run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from fsm_agent import Agent, Session
from fsm_agent.core.config import LoopConfig
from fsm_agent.core.effects import CallModel
from fsm_agent.core.events import RunStarted
from fsm_agent.core.messages import MessageKind
from fsm_agent.core.phases import TerminalReason
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.state import initial
from fsm_agent.core.step import step
from fsm_agent.log.transcripts import Transcript, TranscriptError, import_transcript, read_transcript
from fsm_agent.runtime.model_data import find_model
from fsm_agent.runtime.prompt import user_message
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import calls, says, tool
from fsm_agent.server.wire_checker import check_request, decode_body

SHARED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "transcripts"
ALL = sorted(SHARED.rglob("*.jsonl")) if SHARED.is_dir() else []


def _entries(path: Path) -> tuple[int, int]:
    kinds = [json.loads(line).get("type") for line in path.read_text().splitlines() if line.strip()]
    return kinds.count("user"), kinds.count("assistant")


def next_request(read: Transcript, model: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give the request that follows a prompt after this history, and its betas."""
    config = LoopConfig(model=model, models=(find_model(model),))
    begun = step(initial(config, read.messages), RunStarted(run_id="r", messages=(user_message("r/prompt", "go on"),)), config)
    calls = [effect for effect in begun.effects if isinstance(effect, CallModel)]
    assert len(calls) == 1, begun.taken
    return decode_body(body_of(calls[0].request)), calls[0].request.betas


@pytest.mark.skipif(not ALL, reason="the transcripts in ../shared are not here")
def test_every_conversation_imports_and_every_other_file_says_why() -> None:
    """A file with a user and an assistant entry gives a history whose next request the API takes; another one line."""
    imported = refused = 0
    for path in ALL:
        users, replies = _entries(path)
        if not users or not replies:
            with pytest.raises(TranscriptError) as caught:
                import_transcript(path)
            assert "no conversation" in str(caught.value)
            assert "\n" not in str(caught.value)
            refused += 1
            continue
        read = import_transcript(path)
        known = read.model if find_model(read.model).known else "claude-haiku-4-5"
        for model in {known, "claude-sonnet-5-5"}:
            body, betas = next_request(read, model)
            assert check_request(body, find_model(model), betas) == (), path
            assert body["messages"][-1]["content"][-1]["text"] == "go on"
        imported += 1
    assert imported >= 20
    assert refused >= 50


@pytest.mark.skipif(not ALL, reason="the transcripts in ../shared are not here")
def test_a_run_goes_on_from_every_conversation(tmp_path: Path) -> None:
    """Over real HTTP, with a strict server: each imported history is taken, a tool is called, and the run completes."""
    (tmp_path / "a.txt").write_text("here")
    conversations = [path for path in ALL if all(_entries(path))]
    script = [calls(tool("Read", {"file_path": str(tmp_path / "a.txt")})), says("Going on.")]
    with LoopbackServer(script * len(conversations)) as server:
        anyio.run(_go_on, conversations, Agent("claude-sonnet-5-5", cwd=tmp_path, base_url=server.base_url, api_key="k"))
    assert [request.breaches for request in server.requests] == [()] * 2 * len(conversations)


async def _go_on(paths: list[Path], agent: Agent) -> None:
    async with agent:
        for path in paths:
            session = Session(agent, state=initial(agent.config, import_transcript(path).messages))
            async with session.submit("Go on.") as submission:
                async for _ in submission:
                    pass
            assert submission.terminal is not None
            assert submission.terminal.reason is TerminalReason.COMPLETED, path
            assert submission.value is not None
            assert submission.value["result"] == "Going on.", path


@pytest.mark.skipif(not ALL, reason="the transcripts in ../shared are not here")
def test_what_people_and_models_said_is_all_there() -> None:
    """Without side chains, compactions and branches, every text, call and result of a transcript is in the history."""
    (path,) = [path for path in ALL if path.name == "example-claude-code.jsonl"]
    read = import_transcript(path)
    wanted: list[tuple[str, str]] = []
    for line in path.read_text().splitlines():
        content = json.loads(line)["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            wanted.append((block["type"], block.get("text") or block.get("id") or block["tool_use_id"]))
    got = [
        (block.type, json.loads(block.json).get("text") or block.id) for message in read.messages for block in message.blocks
    ]
    assert sorted(got) == sorted(wanted)
    assert read.notes == ()


def entry(role: str, content: Any, **more: Any) -> dict[str, Any]:
    """Make one entry; ``reply`` and ``model`` go into the message, the rest beside it."""
    message = {"role": role, "content": content}
    for key in ("id", "model"):
        if key in more:
            message[key] = more.pop(key)
    return {"type": role, "message": message, **more}


def read(*entries: dict[str, Any]) -> Transcript:
    return read_transcript("\n".join(json.dumps(value) for value in entries).encode())


def shape(found: Transcript) -> list[tuple[str, list[str]]]:
    return [(message.role, [block.type for block in message.blocks]) for message in found.messages]


def call(name: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": "Read", "input": {}}


def result(name: str, text: str = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": text}


def test_blocks_of_one_reply_are_one_message() -> None:
    """Entries of one message id are joined, one written twice counts once, and results stand together behind the calls."""
    found = read(
        entry("user", "hi"),
        entry("assistant", [{"type": "text", "text": "a"}], id="m1", model="x"),
        entry("assistant", [call("c1")], id="m1", model="x"),
        entry("user", [result("c1")]),
        entry("assistant", [call("c1"), call("c2")], id="m1", model="x"),
        entry("user", [result("c2")]),
    )
    assert shape(found) == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
    ]
    assert found.model == "x"


def test_missing_and_stray_results_are_mended() -> None:
    """A call without its result gets one that says so; a result without its call is left out; a note tells it."""
    found = read(entry("user", "hi"), entry("assistant", [call("c1")]), entry("user", [result("other")]), entry("user", "next"))
    assert shape(found) == [("user", ["text"]), ("assistant", ["tool_use"]), ("user", ["tool_result"]), ("user", ["text"])]
    assert "No result was recorded" in found.messages[2].blocks[0].json
    assert "paired anew" in found.notes[0]


def test_thinking_needs_its_signature() -> None:
    """Signed thinking stays; a reply with unsigned thinking loses all its thinking; none is left last."""
    signed = {"type": "thinking", "thinking": "hm", "signature": "abc"}
    bare = {"type": "thinking", "thinking": "hm", "signature": ""}
    text = {"type": "text", "text": "a"}
    found = read(
        entry("user", "hi"),
        entry("assistant", [signed, text], id="m1"),
        entry("user", "on"),
        entry("assistant", [signed, bare, text], id="m2"),
        entry("user", "on"),
        entry("assistant", [text, signed], id="m3"),
    )
    assert [types for role, types in shape(found) if role == "assistant"] == [["thinking", "text"], ["text"], ["text"]]
    assert found.notes == ("2 thinking blocks left out for want of a signature",)


def test_side_chains_are_left_out() -> None:
    """Entries of sub-agents are no part of the conversation, unless the file is a sub-agent's own transcript."""
    side = [entry("user", "sub", isSidechain=True), entry("assistant", "yes", isSidechain=True)]
    assert shape(read(entry("user", "hi"), *side, entry("assistant", "ho"))) == [("user", ["text"]), ("assistant", ["text"])]
    assert shape(read(*side)) == [("user", ["text"]), ("assistant", ["text"])]


def test_the_last_branch_counts() -> None:
    """Where a session was rewound, what was said on the abandoned branch is gone; calls side by side are not branches."""
    found = read(
        entry("user", "hi", uuid="1", parentUuid=None),
        entry("assistant", "old", uuid="2", parentUuid="1", id="m0"),
        entry("user", "abandoned", uuid="3", parentUuid="2"),
        entry("assistant", [call("c1")], uuid="4", parentUuid="1", id="m1"),
        entry("assistant", [call("c2")], uuid="5", parentUuid="4", id="m1"),
        entry("user", [result("c1")], uuid="6", parentUuid="4"),
        entry("user", [result("c2")], uuid="7", parentUuid="5"),
        entry("assistant", "new", uuid="8", parentUuid="7", id="m2"),
    )
    assert shape(found) == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
        ("assistant", ["text"]),
    ]
    assert "2 entries" in found.notes[0]


def test_a_compaction_begins_the_history() -> None:
    """What stands before a compact boundary is replaced by the summary behind it."""
    found = read(
        entry("user", "long ago", uuid="1", parentUuid=None),
        entry("assistant", "yes", uuid="2", parentUuid="1"),
        {"type": "system", "subtype": "compact_boundary", "uuid": "3", "parentUuid": None, "logicalParentUuid": "2"},
        entry("user", "summary", uuid="4", parentUuid="3", isCompactSummary=True),
        entry("user", "<command-name>/x</command-name>", uuid="5", parentUuid="4"),
        entry("assistant", "going on", uuid="6", parentUuid="5"),
    )
    kinds = [message.kind for message in found.messages]
    assert kinds == [MessageKind.SUMMARY, MessageKind.LOCAL_OUTPUT, MessageKind.ASSISTANT]


def test_replies_that_no_model_made_are_left_out() -> None:
    """A synthetic reply, such as an API error that was shown, is no part of what the model said."""
    error = entry("assistant", "API Error", model="<synthetic>", isApiErrorMessage=True)
    found = read(entry("user", "hi"), error, entry("assistant", "ho", model="x"))
    assert shape(found) == [("user", ["text"]), ("assistant", ["text"])]
    assert found.model == "x"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no conversation"),
        (b"\xff\xfe\x00", "not UTF-8 at byte 0"),
        (b'{"type":"user","message":{"content":"a"}}\nnope\n{"type":"assistant"}', "line 2 is no JSON"),
        (b"[1, 2]", "no conversation"),
        (b'{"type":"user"}', "entry 1 is a user entry without a message"),
        (b'{"type":"user","message":{"content":"a"}}', "1 user entry, 0 assistant entries"),
        (
            b'{"type":"user","message":{"content":" "}}\n{"type":"assistant","message":{"content":[]}}',
            "nothing of the conversation",
        ),
    ],
)
def test_what_is_no_transcript_gets_one_line(data: bytes, said: str) -> None:
    """Foreign and damaged files are refused in one sentence."""
    with pytest.raises(TranscriptError) as caught:
        read_transcript(data, "file")
    assert said in str(caught.value)
    assert str(caught.value).startswith("file: ")
    assert "\n" not in str(caught.value)


def test_a_line_cut_off_at_the_end_is_told() -> None:
    """A last line that was not written whole is left out with a note; all before it counts."""
    good = "\n".join(json.dumps(value) for value in (entry("user", "hi"), entry("assistant", "ho")))
    found = read_transcript(f'{good}\n{{"type":"us'.encode())
    assert len(found.messages) == 2
    assert "line 3 was cut off" in found.notes[0]
