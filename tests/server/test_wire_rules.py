"""Each rule of the wire with bodies that break it and bodies that come close and keep it."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, frozen

from fsm_agent.core.models import ModelInfo
from fsm_agent.server import signatures
from fsm_agent.server.wire_checker import RULES, Memory, NotJson, check_request, decode_body

from .wires import BOUND, MODEL, READ, assistant, call, image, pdf, png, request, result, system, text, user

SIGNED = {"type": "thinking", "thinking": "hm", "signature": signatures.sign("hm", MODEL.name)}
ADAPTIVE = {"type": "adaptive"}
MANUAL = {"type": "enabled", "budget_tokens": 1_024}
SEARCH = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": []}
CODE = {"type": "code_execution_20260521", "tool_id": "srv1"}
COMPACT = ("compact-2026-09-04",)
CHAIN = signatures.chain_of([user(text("old"))])
EDITS = ("context-management-2025-06-27",)


def sealed(content: str | None) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "compaction", "content": content}
    if content is not None:
        block["signature"] = signatures.sign(signatures.compaction_content(block), MODEL.name, signatures.START, CHAIN)
    return block


NOTHING = Memory()


@frozen
class Case:
    """One body and the model, betas and facts that it is checked with."""

    rule: str
    body: dict[str, Any]
    info: ModelInfo = MODEL
    betas: tuple[str, ...] = ()
    memory: Memory | None = NOTHING
    tokens: int | None = None
    size: int = 0


ROUND = (user(text("hi")), assistant(call("a"), call("b")))

BROKEN = (
    Case("body_size", request(), size=32_000_001),
    Case("body_shape", request(max_tokens=None)),
    Case("body_shape", request(max_tokens=0)),
    Case("body_shape", request(max_tokens="many")),
    Case("body_shape", request(model=None)),
    Case("body_shape", request(surprise=1)),
    Case("body_shape", request(messages=None)),
    Case("body_shape", request(messages="hi")),
    Case("body_shape", request(messages=["hi"])),
    Case("body_shape", {**request(), "messages": []}),
    Case("body_shape", request({"role": "tool", "content": "x"})),
    Case("body_shape", request({"role": "user", "content": 3})),
    Case("body_shape", request({"role": "user", "content": [{"text": "x"}]})),
    Case("body_shape", request({"role": "user", "content": "x", "id": "m1"})),
    Case("body_shape", request(user({"type": "hologram"}))),
    Case("first_message", request(assistant(text("hi")), user(text("ho")))),
    Case("last_message", request(user(text("hi")), assistant(text("ho")))),
    Case("last_message", request(user(text("hi")), assistant(text("ho "))), info=evolve(MODEL, prefill=True)),
    Case("last_message", request(user(text("hi")), assistant(SEARCH))),
    Case("system_messages", request(system(text("x")), user(text("hi")))),
    Case("system_messages", request(user(text("hi")), system(text("x"))), info=evolve(MODEL, system_messages=False)),
    Case("system_messages", request(user(text("hi")), assistant(text("ho")), system(text("x")))),
    Case("system_messages", request(user(text("hi")), system(text("x")), user(text("ho")))),
    Case("system_messages", request(user(text("hi")), system(image(png(1, 1))))),
    Case("system_messages", request(*ROUND, system(text("x")), user(result("a"), result("b")))),
    Case("empty_content", request(user(text("hi")), assistant(), user(text("ho")))),
    Case("empty_content", request({"role": "user", "content": ""})),
    Case("blank_text", request(user(text("")))),
    Case("blank_text", request(user(text("hi"), text(" \n")))),
    Case("blank_text", request({"role": "user", "content": " "})),
    Case("blank_text", request(*ROUND, user(result("a", [text("")]), result("b")))),
    Case("blank_text", request(system=[text(" ")])),
    Case("roles", request(user(call("a")))),
    Case("roles", request(user(SIGNED, text("hi")), thinking=ADAPTIVE)),
    Case("roles", request(user(text("hi")), assistant(result("a"), text("x")), user(text("ho")))),
    Case("roles", request(user(text("hi")), assistant(pdf(1)), user(text("ho")))),
    Case("roles", request(user({**text("hi"), "citations": [{}]}))),
    Case("pairing", request(*ROUND, user(result("a")))),
    Case("pairing", request(*ROUND, user(text("no")))),
    Case("pairing", request(*ROUND)),
    Case("pairing", request(*ROUND, user(result("a"), result("b"), result("c")))),
    Case("pairing", request(*ROUND, user(result("a"), result("b"), result("b")))),
    Case("pairing", request(*ROUND, user(text("first"), result("a"), result("b")))),
    Case("pairing", request(*ROUND, user(result("a"), text("between"), result("b")))),
    Case("pairing", request(*ROUND, user(result("a")), user(result("b")))),
    Case("pairing", request(user(result("a")))),
    Case("pairing", request(*ROUND, user(result("a"), result("b")), assistant(text("x")), user(result("a")))),
    Case("body_shape", request(*ROUND, user({"type": "tool_result", "content": "x"}, result("b")))),
    Case("body_shape", request(*ROUND, user(result(["a"]), result("b")))),
    Case("body_shape", request(user({"type": "text", "text": 3}))),
    Case("body_shape", request(*ROUND, user(result("a", 3), result("b")))),
    Case("tool_ids", request(user(text("hi")), assistant(call("")), user(result("")))),
    Case("tool_ids", request(user(text("hi")), assistant(call("a b")), user(result("a b")))),
    Case(
        "tool_ids", request(user(text("hi")), assistant(call("a")), user(result("a")), assistant(call("a")), user(result("a")))
    ),
    Case("tool_ids", request(user(text("hi")), assistant(call("a", input="{}")), user(result("a")))),
    Case("tool_ids", request(user(text("hi")), assistant(call("a", input=None)), user(result("a")))),
    Case("tool_ids", request(user(text("hi")), assistant(call("a", name="")), user(result("a")))),
    Case("server_tools", request(user(text("hi")), assistant(SEARCH), user(text("ho")))),
    Case("server_tools", request(user(text("hi")), assistant(FOUND, text("x")), user(text("ho")))),
    Case("server_tools", request(user(text("hi")), assistant(SEARCH, call("a")), user(result("a"), text("and")))),
    Case(
        "server_tools",
        request(user(text("hi")), assistant(SEARCH, call("a")), user(result("a")), assistant(text("x")), user(text("ho"))),
    ),
    Case("server_tools", request(user(text("hi")), assistant(call("a", caller=CODE)), user(result("a"), text("and")))),
    Case("tools", request(tools="Read")),
    Case("tools", request(tools=["Read"])),
    Case("tools", request(tools=[READ, READ])),
    Case("tools", request(tools=[{**READ, "name": "Read it"}])),
    Case("tools", request(tools=[{**READ, "name": "x" * 129}])),
    Case("tools", request(tools=[{"name": "Read"}])),
    Case("tools", request(tools=[{**READ, "input_schema": {"type": "string"}}])),
    Case("tools", request(tools=[{**READ, "defer_loading": True}])),
    Case("tool_references", request(tool_choice={"type": "auto"})),
    Case("tool_references", request(tools=[READ], tool_choice={"type": "tool", "name": "Write"})),
    Case(
        "tool_references",
        request(
            user(text("hi")),
            assistant(call("a")),
            user(result("a", [{"type": "tool_reference", "tool_name": "Write"}])),
            tools=[READ],
        ),
    ),
    Case(
        "thinking_signature",
        request(user(text("a")), assistant({**SIGNED, "signature": ""}, text("b")), user(text("c")), thinking=ADAPTIVE),
    ),
    Case(
        "thinking_signature",
        request(user(text("a")), assistant({**SIGNED, "thinking": "hum"}, text("b")), user(text("c")), thinking=ADAPTIVE),
    ),
    Case(
        "thinking_signature",
        request(user(text("a")), assistant({**SIGNED, "signature": "abc"}, text("b")), user(text("c")), thinking=ADAPTIVE),
    ),
    Case(
        "thinking_signature",
        request(user(text("a")), assistant(SIGNED, text("b")), user(text("c")), model="bound-1"),
        info=BOUND,
    ),
    Case(
        "thinking_signature",
        request(
            user(text("a")),
            assistant({"type": "redacted_thinking", "data": "x"}, text("b")),
            user(text("c")),
            thinking=ADAPTIVE,
        ),
    ),
    Case("thinking_last", request(user(text("a")), assistant(text("b"), SIGNED), user(text("c")), thinking=ADAPTIVE)),
    Case("thinking_off", request(user(text("a")), assistant(SIGNED, text("b")), user(text("c")))),
    Case(
        "thinking_off", request(user(text("a")), assistant(SIGNED, text("b")), user(text("c")), thinking={"type": "disabled"})
    ),
    Case("thinking_first", request(*ROUND, user(result("a"), result("b")), thinking=MANUAL, max_tokens=2_000)),
    Case("compaction_blocks", request(user(text("a")), assistant(sealed("sum"), text("x")), user(text("b"))), betas=COMPACT),
    Case(
        "compaction_blocks",
        request(assistant(sealed("sum")), user(text("b")), assistant(sealed("sum"), text("x")), user(text("c"))),
        betas=COMPACT,
    ),
    Case("compaction_blocks", request(assistant({**sealed("sum"), "content": "other"}), user(text("b"))), betas=COMPACT),
    Case("compaction_blocks", request(assistant({**sealed("sum"), "signature": "abc"}), user(text("b"))), betas=COMPACT),
    Case("compaction_blocks", request(assistant({"type": "compaction", "content": ""}), user(text("b"))), betas=COMPACT),
    Case("compaction_request", request(compaction={"type": "shrink"}), betas=COMPACT),
    Case(
        "compaction_request", request(compaction={"type": "summarize"}), info=evolve(MODEL, api_compaction=False), betas=COMPACT
    ),
    Case("compaction_request", request(compaction={"type": "summarize"}, stop_sequences=["x"]), betas=COMPACT),
    Case("compaction_request", request(*ROUND, compaction={"type": "summarize"}), betas=COMPACT),
    Case("compaction_request", request(assistant(sealed("sum")), compaction={"type": "summarize"}), betas=COMPACT),
    Case("sampling", request(temperature=1.0)),
    Case("sampling", request(top_p=1.0)),
    Case("sampling", request(top_k=1)),
    Case("thinking_parameter", request(thinking={"type": "maximal"})),
    Case("thinking_parameter", request(thinking={"type": "between_tools"})),
    Case("thinking_parameter", request(thinking={"type": "disabled"}), info=BOUND),
    Case("thinking_parameter", request(thinking={"type": "enabled", "budget_tokens": 1_023}, max_tokens=2_000)),
    Case("thinking_parameter", request(thinking={"type": "enabled", "budget_tokens": 2_000}, max_tokens=2_000)),
    Case("thinking_parameter", request(thinking={"type": "adaptive", "budget_tokens": 2_000})),
    Case("thinking_parameter", request(thinking={"type": "adaptive", "display": "loud"})),
    Case("tool_choice", request(tools=[READ], tool_choice={"type": "any"}), info=BOUND),
    Case("tool_choice", request(tools=[READ], tool_choice={"type": "any"}, thinking=MANUAL, max_tokens=2_000)),
    Case("tool_choice", request(tools=[READ], tool_choice={"type": "perhaps"})),
    Case("output_config", request(output_config={"effort": "max"})),
    Case("output_config", request(output_config={"effort": "utmost"})),
    Case("output_config", request(output_config={"format": {"type": "yaml"}})),
    Case(
        "output_config",
        request(output_config={"task_budget": {"type": "tokens", "total": 19_999}}),
        betas=("task-budgets-2026-03-13",),
    ),
    Case("output_config", request(output_config={"task_budget": {"type": "tokens", "total": 20_000}})),
    Case("output_config", request(output_config="high")),
    Case("context_management", request(context_management={}), betas=EDITS),
    Case("context_management", request(context_management={"edits": [{"type": "clear_all"}]}), betas=EDITS),
    Case(
        "context_management",
        request(context_management={"edits": [{"type": "clear_tool_uses_20250919"}]}),
        info=evolve(MODEL, context_edits=False),
        betas=EDITS,
    ),
    Case(
        "context_management",
        request(
            context_management={"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}]},
            thinking=ADAPTIVE,
        ),
        betas=EDITS,
    ),
    Case("context_management", request(context_management={"edits": [{"type": "clear_thinking_20251015"}]}), betas=EDITS),
    Case(
        "context_management",
        request(
            context_management={"edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 49_999}}]}
        ),
        betas=("compact-2026-01-12",),
    ),
    Case("betas", request(context_management={"edits": []})),
    Case("betas", request(compaction={"type": "summarize"})),
    Case("betas", request(thread={"type": "create"})),
    Case("betas", request(speed="fast")),
    Case("betas", request(thinking={"type": "adaptive", "display": "updates"})),
    Case("betas", request(user(text("hi")), system(text("x"), clear_at="never"))),
    Case("betas", request(user(text("hi")), system(text("x"), output_config={"effort": "low"}))),
    Case("betas", request(user(text("hi")), system({"type": "tool_removal", "tool": {}}))),
    Case("betas", request(assistant(sealed("sum")), user(text("b")))),
    Case("max_tokens", request(max_tokens=64_001)),
    Case("window", request(max_tokens=20_001), tokens=200_000),
    Case("cache_marks", request(user(*({**text(f"t{n}"), "cache_control": {"type": "ephemeral"}} for n in range(5))))),
    Case("cache_marks", request(user({**text("t"), "cache_control": {"type": "eternal"}}))),
    Case("cache_marks", request(user({**text("t"), "cache_control": {"type": "ephemeral", "ttl": "9h"}}))),
    Case(
        "cache_marks",
        request(
            system=[{**text("s"), "cache_control": {"type": "ephemeral"}}],
            messages=[user({**text("t"), "cache_control": {"type": "ephemeral", "ttl": "1h"}})],
        ),
    ),
    Case(
        "cache_marks",
        request(
            user(text("a")),
            assistant({**SIGNED, "cache_control": {"type": "ephemeral"}}, text("b")),
            user(text("c")),
            thinking=ADAPTIVE,
        ),
    ),
    Case("system", request(system=3)),
    Case("system", request(system=[image(png(1, 1))])),
    Case("media", request(user(*(image(png(1, 1)) for _ in range(31))))),
    Case("media", request(user(image(png(8_001, 1))))),
    Case("media", request(user(*(image(png(1, 1)) for _ in range(20)), image(png(2_001, 1))))),
    Case("media", request(user(image("A" * 5_000_004)))),
    Case("media", request(user(image("####")))),
    Case("media", request(user(image("AAAA")))),
    Case("media", request(user(image(png(1, 1), "image/jpeg")))),
    Case("media", request(user(image(png(1, 1), "image/tiff")))),
    Case("media", request(user({"type": "image"}))),
    Case("media", request(user(pdf(31)))),
    Case("media", request(*ROUND, user(result("a", [image("AAAA")]), result("b")))),
)

KEPT = (
    Case("body_shape", request({"role": "user", "content": "hi"})),
    Case("body_shape", request(user(text("hi")), assistant({"type": "hologram", "depth": 3}), user(text("ho")))),
    Case("first_message", request(assistant(sealed("sum")), user(text("b"))), betas=COMPACT),
    Case("last_message", request(user(text("hi")), assistant(text("ho"))), info=evolve(MODEL, prefill=True)),
    Case("last_message", request(user(text("hi")), assistant(SEARCH)), memory=None),
    Case("system_messages", request(user(text("hi")), system(text("x")), system(text("y")))),
    Case(
        "system_messages",
        request(*ROUND, user(result("a"), result("b")), system(text("x")), assistant(text("c")), user(text("d"))),
    ),
    Case("system_messages", request(user(text("hi")), assistant(SEARCH, FOUND), system(text("x"))), memory=None),
    Case("blank_text", request(*ROUND, user(result("a", ""), result("b", [])))),
    Case("pairing", request(*ROUND, user(result("b"), result("a", is_error=True), text("and more")))),
    Case("pairing", request(*ROUND, user(result("a"), result("b")), user(text("and more")))),
    Case("tool_ids", request(user(text("hi")), assistant(call("a-B_9")), user(result("a-B_9")))),
    Case("server_tools", request(user(text("hi")), assistant(SEARCH, FOUND, text("x")), user(text("ho")))),
    Case("server_tools", request(user(text("hi")), assistant(SEARCH, call("a")), user(result("a")))),
    Case(
        "server_tools",
        request(
            user(text("hi")), assistant(SEARCH, call("a")), user(result("a")), assistant(FOUND, text("x")), user(text("ho"))
        ),
    ),
    Case("server_tools", request(user(text("hi")), assistant(SEARCH), assistant(FOUND, text("x")), user(text("ho")))),
    Case("server_tools", request(user(text("hi")), assistant(call("a", caller=CODE)), user(result("a")))),
    Case(
        "server_tools",
        request(user(text("hi")), assistant(call("a", caller={"type": "direct"})), user(result("a"), text("and"))),
    ),
    Case(
        "tools",
        request(
            tools=[
                READ,
                {**READ, "name": "x" * 128, "defer_loading": True},
                {"type": "web_search_20260318", "name": "web_search"},
            ]
        ),
    ),
    Case("tool_references", request(tools=[READ], tool_choice={"type": "tool", "name": "Read"})),
    Case("thinking_signature", request(user(text("a")), assistant(SIGNED, text("b")), user(text("c")), thinking=ADAPTIVE)),
    Case(
        "thinking_signature",
        request(user(text("a")), assistant({**SIGNED, "signature": "abc"}, text("b")), user(text("c")), thinking=ADAPTIVE),
        memory=Memory(foreign=frozenset({("abc", "hm")})),
    ),
    Case(
        "thinking_first",
        request(user(text("a")), assistant(SIGNED, call("a")), user(result("a")), thinking=MANUAL, max_tokens=2_000),
    ),
    Case("thinking_first", request(user(text("a")), assistant(text("b")), user(text("c")), thinking=MANUAL, max_tokens=2_000)),
    Case("compaction_blocks", request(user(text("a")), assistant(sealed(None), text("x")), user(text("b"))), betas=COMPACT),
    Case(
        "compaction_blocks",
        request(user(text("a")), assistant(sealed("sum"), text("x")), user(text("b"))),
        betas=("compact-2026-01-12",),
    ),
    Case("compaction_request", request(user(text("a")), assistant(text("x")), compaction={"type": "summarize"}), betas=COMPACT),
    Case("thinking_parameter", request(thinking={"type": "disabled"}), info=evolve(MODEL, thinking=())),
    Case("thinking_parameter", request(thinking=MANUAL, max_tokens=1_025)),
    Case("tool_choice", request(tools=[READ], tool_choice={"type": "any"}, thinking=ADAPTIVE)),
    Case(
        "output_config",
        request(output_config={"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}}),
    ),
    Case(
        "output_config",
        request(output_config={"task_budget": {"type": "tokens", "total": 20_000}}),
        betas=("task-budgets-2026-03-13",),
    ),
    Case(
        "context_management",
        request(
            context_management={"edits": [{"type": "clear_thinking_20251015"}, {"type": "clear_tool_uses_20250919"}]},
            thinking=ADAPTIVE,
        ),
        betas=EDITS,
    ),
    Case(
        "betas",
        request(user(text("hi")), system(text("x"), clear_at="never")),
        betas=("mid-conversation-system-clear-at-2026-08-21",),
    ),
    Case("max_tokens", request(max_tokens=64_000)),
    Case("window", request(max_tokens=20_000), tokens=200_000),
    Case(
        "cache_marks",
        request(
            tools=[{**READ, "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            system=[{**text("s"), "cache_control": {"type": "ephemeral"}}],
            messages=[user({**text("t"), "cache_control": {"type": "ephemeral"}})],
            cache_control={"type": "ephemeral"},
        ),
    ),
    Case("system", request(system="short")),
    Case("media", request(user(*(image(png(1, 1)) for _ in range(20)), image(png(2_000, 1))))),
    Case("media", request(user(image(png(8_000, 1)), pdf(30)))),
    Case("media", request(user({"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}))),
    Case("body_size", request(), size=32_000_000),
)


def found(case: Case) -> list[str]:
    return [
        breach.rule
        for breach in check_request(case.body, case.info, case.betas, memory=case.memory, tokens=case.tokens, size=case.size)
    ]


def names(cases: tuple[Case, ...]) -> list[str]:
    return [f"{case.rule}-{number}" for number, case in enumerate(cases)]


@pytest.mark.parametrize("case", BROKEN, ids=names(BROKEN))
def test_a_breach_is_found(case: Case) -> None:
    """A body that breaks a rule is reported under the name of that rule."""
    assert case.rule in found(case)


@pytest.mark.parametrize("case", KEPT, ids=names(KEPT))
def test_a_rule_that_is_kept_is_not_reported(case: Case) -> None:
    """A body that comes close to breaking a rule, but keeps all of them, has no breach."""
    assert found(case) == []


def test_every_rule_has_a_breaking_case() -> None:
    """No rule of the registry is without a body that breaks it, and names are unique."""
    registered = [rule.name for rule in RULES]
    assert sorted(registered) == sorted(set(registered))
    assert set(registered) == {case.rule for case in BROKEN}


def test_counting_tokens_needs_no_max_tokens() -> None:
    """A request to count tokens is fine without max_tokens."""
    assert check_request(request(max_tokens=None), MODEL, counting=True) == ()


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": "\\ud83d"}',
        b'{"\\ud83d": 1}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b"[1]",
        b"",
        b"{",
        b'{"a":' + b"[" * 100_000,
    ],
    ids=["nan", "infinity", "surrogate", "surrogate key", "twice", "utf-8", "list", "empty", "cut", "deep"],
)
def test_a_body_that_is_no_strict_json_is_refused(raw: bytes) -> None:
    """What is no strict JSON object is refused with words, never with another exception."""
    with pytest.raises(NotJson, match="request body is not"):
        decode_body(raw)


def test_a_surrogate_pair_is_fine() -> None:
    """A character outside the basic plane may be written as a pair of escapes."""
    assert decode_body(b'{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_the_text_of_a_breach_names_the_path() -> None:
    """The text reads like the API's own: the path of the block, then what is wrong with it."""
    (breach,) = check_request(request(user(text("hi"), text(""))), MODEL)
    assert breach.text == "messages.0.content.1.text: text content blocks must be non-empty"
