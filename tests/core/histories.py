"""Histories for tests of the context layers and of request building: by hand, and by Hypothesis."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import strategies as st

from fsm_agent.core.blocks import Block, Media, read_block, text_block, tool_result, tool_use
from fsm_agent.core.config import ContextConfig, LoopConfig, ToolSchema
from fsm_agent.core.messages import Message, MessageKind, message
from fsm_agent.core.models import ModelInfo
from fsm_agent.core.request.encode import body_of
from fsm_agent.core.wire import Request
from fsm_agent.server.wire_checker import Breach, check_request, decode_body

MODEL = "model-a"
OTHER = "model-b"
INFO = ModelInfo(name=MODEL, thinking=("adaptive", "disabled"), efforts=("low", "high"), context_edits=True)
BINDING = ModelInfo(name=MODEL, thinking=("adaptive",), thinking_default=True, binds_thinking=True, context_edits=True)
MANUAL = ModelInfo(name=MODEL, thinking=("enabled", "disabled"))
TOOLS = (
    ToolSchema("Read", '{"name":"Read","input_schema":{"type":"object"}}', compactable=True),
    ToolSchema("Write", '{"name":"Write","input_schema":{"type":"object"}}'),
    ToolSchema("Whole", '{"name":"Whole","input_schema":{"type":"object"}}', exempt=True),
)


def config(*, info: ModelInfo = INFO, context: ContextConfig | None = None, **more: Any) -> LoopConfig:
    """Make a configuration with two models, tools, a system prompt and user context."""
    values: dict[str, Any] = {
        "model": MODEL,
        "models": (info, evolve(info, name=OTHER)),
        "system": ("You are a careful agent.",),
        "system_context": (("Working directory", "/home/x"),),
        "user_context": "Project rules: be brief.",
        "tools": TOOLS,
        "context": context or ContextConfig(),
        **more,
    }
    return LoopConfig(**values)


def prompt(identity: str, text: str = "Do it.", kind: MessageKind = MessageKind.PROMPT) -> Message:
    """Make a user message of one text."""
    return message(identity, "user", kind, (text_block(text),))


def reply(identity: str, *blocks: Block, model: str = MODEL) -> Message:
    """Make an assistant message."""
    return message(identity, "assistant", MessageKind.ASSISTANT, blocks, model=model)


def results(identity: str, *blocks: Block) -> Message:
    """Make a message of tool results."""
    return message(identity, "user", MessageKind.TOOL_RESULTS, blocks)


def thinking(text: str = "hm", signature: str = "c2ln") -> Block:
    """Make a thinking block."""
    return read_block({"type": "thinking", "thinking": text, "signature": signature})


def image(data: str = "aGVsbG8=", width: int = 100, height: int = 100) -> Block:
    """Make an image block of a known size."""
    value = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return read_block(value, {data[:64]: (width, height, 0)})


def round_of(number: int, text: str = "result", tool: str = "Read", think: bool = False) -> tuple[Message, Message]:
    """Make a round: a reply with one call, and its result."""
    call = tool_use(f"toolu_{number}", tool, '{"path":"x"}')
    head = (thinking(f"thought {number}"),) if think else ()
    return reply(f"a{number}", *head, text_block(f"Step {number}."), call), results(
        f"r{number}", tool_result(f"toolu_{number}", text)
    )


def conversation(rounds: int, text: str = "result", think: bool = False) -> tuple[Message, ...]:
    """Make a prompt and a number of rounds."""
    view: tuple[Message, ...] = (prompt("p1"),)
    for number in range(1, rounds + 1):
        view += round_of(number, text, think=think)
    return view


def body(request: Request) -> dict[str, Any]:
    """Decode the body of a request strictly."""
    return decode_body(body_of(request))


def breaches(request: Request, conf: LoopConfig) -> tuple[Breach, ...]:
    """Check a request by the wire checker; whether a picture can be decoded is not asked of made-up data."""
    raw = body_of(request)
    found = check_request(decode_body(raw), conf.info(request.model), request.betas, tokens=request.estimate, size=len(raw))
    return tuple(breach for breach in found if "base64" not in breach.path)


def unmarked(request: Request) -> tuple[Any, Any, list[str]]:
    """Give tools, system and messages without cache marks, as they are compared between requests."""
    value = body(request)

    def strip(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: strip(inner) for key, inner in item.items() if key != "cache_control"}
        return [strip(inner) for inner in item] if isinstance(item, list) else item

    return strip(value.get("tools")), strip(value.get("system")), [json.dumps(strip(item)) for item in value["messages"]]


# Arbitrary content: what a log, another program or a strange model could have left.

IDS = st.sampled_from(["t1", "t2", "t3", "", "bad id!", "t1-2"])
TEXTS = st.one_of(st.sampled_from(["", "  \n", "hello", "\ud800x", "日本語", '{"a": 1}']), st.text(max_size=8))


def _value(kind: str, identity: str, text: str, flag: bool) -> dict[str, Any]:
    if kind == "text":
        return {"type": "text", "text": text, **({"cache_control": {"type": "ephemeral"}} if flag else {})}
    if kind == "thinking":
        return {"type": "thinking", "thinking": text, "signature": "c2ln" if flag else ""}
    if kind == "redacted_thinking":
        return {"type": "redacted_thinking", "data": "ZGF0YQ==" if flag else ""}
    if kind == "tool_use":
        return {"type": "tool_use", "id": identity, "name": "Read" if flag else "", "input": {} if flag else text}
    if kind == "tool_result":
        part = [{"type": "text", "text": text}, {"type": "image", "source": {"type": "base64", "data": "aGk="}}]
        return {"type": "tool_result", "tool_use_id": identity, "content": part if flag else text}
    if kind == "image":
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    if kind == "server_tool_use":
        return {"type": "server_tool_use", "id": identity, "name": "web_search", "input": {}}
    if kind == "web_search_tool_result":
        return {"type": kind, "tool_use_id": identity, "content": []}
    if kind == "compaction":
        return {"type": "compaction", "content": text or None}
    return {"type": kind, "id": identity, "something": text}


KINDS = (
    *("text", "text", "thinking", "redacted_thinking", "tool_use", "tool_use", "tool_result", "tool_result", "image"),
    *("server_tool_use", "web_search_tool_result", "compaction", "fallback"),
)
BLOCKS = st.builds(
    lambda kind, identity, text, flag: read_block(_value(kind, identity, text, flag)),
    st.sampled_from(KINDS),
    IDS,
    TEXTS,
    st.booleans(),
)


@st.composite
def arbitrary(draw: st.DrawFn, most: int = 8) -> tuple[Message, ...]:
    """Draw any list of messages, sensible or not."""
    shapes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["user", "assistant", "user", "assistant", "system"]),
                st.sampled_from(list(MessageKind)),
                st.lists(BLOCKS, max_size=4),
                st.sampled_from([MODEL, MODEL, OTHER]),
            ),
            max_size=most,
        )
    )
    return tuple(
        message(f"m{number}", role, kind, tuple(blocks), model=model if role == "assistant" else "")
        for number, (role, kind, blocks, model) in enumerate(shapes)
    )


@st.composite
def sensible(draw: st.DrawFn, most: int = 10, think: bool = False) -> tuple[tuple[Message, ...], ...]:
    """Draw a conversation as a run makes it, as the pieces that each pass adds; each ends with the user's side."""
    pieces: list[tuple[Message, ...]] = [(prompt("p0", draw(st.sampled_from(["Do it.", "日本語", " "])) + "!"),)]
    for number in range(1, draw(st.integers(1, most)) + 1):
        ids = [f"u{number}-{place}" for place in range(draw(st.integers(0, 3)))]
        head = [thinking(f"thought {number}")] if think and draw(st.booleans()) else []
        said = [text_block(f"Step {number}.")] if draw(st.booleans()) or not ids else []
        model = draw(st.sampled_from([MODEL, MODEL, MODEL, OTHER])) if think else MODEL
        piece = [reply(f"a{number}", *head, *said, *(tool_use(identity, "Read", "{}") for identity in ids), model=model)]
        if ids:
            size = draw(st.sampled_from([10, 400, 4_000]))
            piece.append(results(f"r{number}", *(tool_result(identity, "word " * (size // 5)) for identity in ids)))
        extra = draw(st.lists(st.sampled_from(["attachment", "command", "notice", "display", "meta"]), max_size=3))
        for place, kind in enumerate(extra):
            piece.append(prompt(f"x{number}-{place}", f"{kind} {number}", MessageKind(kind)))
        if not ids and all(item.kind is MessageKind.DISPLAY for item in piece[1:]):
            piece.append(prompt(f"p{number}", f"Next {number}."))
        pieces.append(tuple(piece))
    return tuple(pieces)


def with_media(block: Block, *media: Media) -> Block:
    """Give a block other media sizes."""
    return evolve(block, media=media)
