"""A caller and its sub-agents on one real server: each conversation is known by the word with which its prompt begins."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fsm_agent import Agent
from fsm_agent.runtime.tools.builtin import builtin_tools
from fsm_agent.server.app import LoopbackServer
from fsm_agent.server.replies import Reply, calls, says
from fsm_agent.server.replies import tool as use
from fsm_agent.session.agents import AgentDefinition, agent_set
from fsm_agent.session.subagents import AgentTool

MODEL = "claude-sonnet-5-5"
DOLLAR = 1_000_000
"""Micro-dollars; with ``MODEL`` an output token costs ten of them."""


class Family:
    """A script that gives each conversation its own replies; the last one of a list is repeated."""

    def __init__(self, **replies: Sequence[Reply]) -> None:
        self.replies = replies
        self.bodies: dict[str, list[dict[str, Any]]] = {name: [] for name in replies}
        self._lock = threading.Lock()

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        name = first_words(body).split()[0]
        if name not in self.replies:
            name = "summary"  # whoever sums up speaks for nobody
        with self._lock:
            turn = len(self.bodies[name])
            self.bodies[name].append(body)
        return self.replies[name][min(turn, len(self.replies[name]) - 1)]

    def said(self, name: str) -> str:
        """All that one conversation sent, as text."""
        return json.dumps(self.bodies[name], ensure_ascii=False)


def first_words(body: Mapping[str, Any]) -> str:
    """The text of a conversation's prompt."""
    content = body["messages"][0]["content"]
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return next(text for text in parts if text and not text.startswith("<system-reminder>"))


def ask(name: str, agent: str = "general", words: str = "") -> Any:
    """A call of the ``Agent`` tool whose conversation has this name."""
    return use("Agent", {"prompt": f"{name} {words}".strip(), "subagent_type": agent})


def family_agent(
    server: LoopbackServer, cwd: Path, definitions: Sequence[AgentDefinition] = (), depth: int = 3, **settings: Any
) -> Agent:
    """An agent with the built-in tools and ``Agent``."""
    tools = [*settings.pop("tools", builtin_tools()), AgentTool(agent_set(definitions), max_depth=depth)]
    return Agent(MODEL, cwd=cwd, base_url=server.base_url, api_key="k", tools=tools, **settings)


def priced(reply: Any, dollars: float) -> Any:
    """A reply that costs so much."""
    from attrs import evolve

    return evolve(reply, usage={"input_tokens": 0, "output_tokens": round(dollars * DOLLAR / 10)})


def results(body: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Texts of the tool results in the last message of a request, and whether they are errors."""
    found = []
    for block in body["messages"][-1]["content"]:
        if block["type"] == "tool_result":
            content = block["content"]
            text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
            found.append((text, bool(block.get("is_error"))))
    return found


__all__ = ["Family", "ask", "calls", "family_agent", "first_words", "priced", "results", "says", "suppress", "use"]
