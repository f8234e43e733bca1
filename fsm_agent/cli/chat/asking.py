"""Questions to the user about calls, answered on the same line on which prompts are typed."""

from __future__ import annotations

import json
from collections.abc import Callable

import anyio
from attrs import evolve

from ...runtime.permissions.modes import Mode
from ...runtime.permissions.rules import Behavior, Rule, RuleSet
from ...runtime.tools.asking import Answer, Question
from ...runtime.tools.pipeline import ToolBox

YES = ("y", "yes")
ALWAYS = ("a", "always")
NO = ("n", "no")
HINT = "y yes, a always in this session, n no, or say what to do instead"


class ChatAsker:
    """Asks one question at a time. Implements ``Asker``.

    Args:
        changed: called whenever a question comes or goes.

    Attributes:
        question: what is asked now, None if nothing is.
        tools: the toolbox, whose rules "always" changes; set once it is there.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.question: Question | None = None
        self.tools: ToolBox | None = None
        self._changed = changed
        self._answer: Answer | None = None
        self._answered = anyio.Event()
        self._lines: set[str] = set()

    async def ask(self, question: Question) -> Answer:
        """Ask, and wait for the answer; cancelled when the run is."""
        if _key(question) in self._lines:
            return Answer(True)
        self.question, self._answer, self._answered = question, None, anyio.Event()
        self._changed()
        try:
            await self._answered.wait()
            assert self._answer is not None
            return self._answer
        finally:
            self.question = None
            self._changed()

    def answer(self, text: str) -> str:
        """Take what the user typed while a question was open.

        What is neither a yes nor an always is a no, and goes to the model as the reason: a text that was meant for
        something else must never allow anything.

        Returns:
            What was decided, in words for the user.
        """
        question = self.question
        assert question is not None
        word = text.strip().lower()
        if word in YES:
            self._settle(Answer(True))
            return "allowed once"
        if word in ALWAYS:
            said = self._always(question)
            self._settle(Answer(True))
            return said
        self._settle(Answer(False, "" if word in NO or not word else text.strip()))
        return "denied"

    def _settle(self, answer: Answer) -> None:
        self._answer = answer
        self._answered.set()

    def _always(self, question: Question) -> str:
        """Remember the narrowest thing that covers the same call again."""
        box, name = self.tools, question.tool_name
        if name == "Bash":
            # A rule for a line would have to be one for each command in it; the line itself is what was looked at.
            self._lines.add(_key(question))
            return "this line is allowed in this session"
        if box is None or question.rule != f"mode: {Mode.DEFAULT.value}":
            return "allowed once; always would need a rule or a folder of its own"
        if name in ("Edit", "Write"):
            box.policy = evolve(box.policy, mode=Mode.ACCEPT_EDITS)
            return "edits inside the workspace are allowed in this session"
        rule = Rule(behavior=Behavior.ALLOW, tool=name, spec=None, text=name)
        box.policy = evolve(box.policy, rules=box.policy.rules + RuleSet(allow=(rule,)))
        return f"{name} is allowed in this session"


def _key(question: Question) -> str:
    """The line of a shell call; empty for any other."""
    return str(question.tool_input.get("command", "")) if question.tool_name == "Bash" else ""


def describe(question: Question) -> str:
    """Say what is asked, on one line or a few."""
    given = question.tool_input
    what = str(given["command"]) if question.tool_name == "Bash" else json.dumps(dict(given), ensure_ascii=False)
    return f"{question.tool_name}: {what}"
