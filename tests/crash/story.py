"""What the server of the crash tests answers. It goes by what a request says, since a run may ask for anything again."""

from __future__ import annotations

import json
import re
from typing import Any

from fsm_agent.server.replies import HttpError, Reply, calls, says, text
from fsm_agent.server.replies import tool as use

from .worker import MODEL

TASK = "SUBTASK"
"""How the prompt of a sub-agent begins."""

_STEP = re.compile(r'"step":\s*(\d+)|reached step (\d+)')


class Story:
    """A task of some steps, each one reply.

    Args:
        steps: names of the steps, in order: ``look``, ``bump``, ``pair`` (two counts in one reply), ``big`` (results
            that fill the window), ``overload`` (the main model is busy from here on), ``agent`` (a sub-agent that looks and
            counts, beside a count of its caller's).
    """

    def __init__(self, *steps: str) -> None:
        self.steps = steps
        self.decisions = 0

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        if is_agents(body):
            return self._agents(json.dumps(body["messages"]))
        words = json.dumps(body["messages"])
        reached = max((int(one or other) for one, other in _STEP.findall(words.replace("\\", ""))), default=0)
        if not body.get("tools"):
            return says(f"Summary of the work so far: reached step {reached}. Go on with the next one.")
        step = reached + 1
        if step > len(self.steps):
            return says("All done.")
        kind = self.steps[step - 1]
        if kind == "overload" and body["model"] == MODEL:
            return HttpError(529)
        return self._reply(kind, step)

    def _reply(self, kind: str, step: int) -> Reply:
        self.decisions += 1
        key = f"{step}-{self.decisions}"
        one = use("look", {"step": step}, id=f"toolu_{key}_a")
        count = use("bump", {"step": step, "key": f"{key}-a"}, id=f"toolu_{key}_b")
        if kind == "look":
            slow = text("And there is more.", chunks=3, pace=0.02)
            return calls(text(f"I look at step {step}."), one, slow, use("look", {"step": step}, id=f"toolu_{key}_c"))
        if kind == "big":
            return calls(text("A lot of it."), use("look", {"step": step, "size": 6_000}, id=f"toolu_{key}_a"))
        if kind == "agent":
            task = use("Agent", {"prompt": f"{TASK}: you have reached step {step}"}, id=f"toolu_{key}_e")
            return calls(text("I have help."), task, count)
        if kind == "pair":
            return calls(count, one, use("bump", {"step": step, "key": f"{key}-d"}, id=f"toolu_{key}_d"))
        return calls(text(f"I count at step {step}."), count)

    def _agents(self, words: str) -> Reply:
        """A sub-agent looks, counts, and says so."""
        self.decisions += 1
        key = f"agent-{self.decisions}"
        if '"name": "look"' not in words:
            slow = text("And on it goes.", chunks=2, pace=0.01)
            return calls(text("I help."), use("look", {"step": 0}, id=f"toolu_{key}_a"), slow)
        if '"name": "bump"' not in words:
            return calls(use("bump", {"step": 0, "key": key}, id=f"toolu_{key}_b"))
        return says("Helped.")


def is_agents(body: dict[str, Any]) -> bool:
    """Say whether a request is of a sub-agent's conversation."""
    return TASK in json.dumps(body["messages"][0])
