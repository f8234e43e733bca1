"""What a trial looks at beside laws: files that change, hooks and tools that fail, and what the engine passed over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from ..core.blocks import Block
from ..core.control import CallState
from ..core.effects import Emit, RunTool
from ..core.events import Event, Outcome, ToolFinished, ToolStarted
from ..core.outputs import Terminal, ToolResult
from ..core.phases import SUCCESS, Cause, TerminalReason
from ..core.state import LoopState, Step
from ..runtime.hooks.command import Answer
from ..runtime.hooks.config import Hook
from ..runtime.tools.body import failure_text

if TYPE_CHECKING:
    from ..runtime.tools.base import Tool

Files = dict[str, tuple[int, int, bytes | str]]
VERDICT = frozenset(
    {"continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason", "hookSpecificOutput", "async"}
)
"""Keys of a hook's answer that mean something."""
_LONGEST = 300


def files_of(folder: Path) -> Files:
    """Remember what is in a folder: mode, size and content of each file, where links lead."""
    found: Files = {}
    for place in sorted(folder.rglob("*")):
        name = place.relative_to(folder).as_posix()
        if place.is_symlink():
            found[name] = (0, 0, str(place.readlink()))
        elif place.is_file():
            data = place.read_bytes()
            found[name] = (place.stat().st_mode, len(data), data)
        else:
            found[name] = (place.stat().st_mode, 0, "")
    return found


def _changed(before: Files, after: Files) -> list[str]:
    return sorted(name for name in {**before, **after} if before.get(name) != after.get(name))


@frozen
class Seen:
    """What was seen: findings about hooks, about tools, about other things, and what is worth a note."""

    hooks: list[str] = field(factory=list)
    tools: list[str] = field(factory=list)
    others: list[str] = field(factory=list)
    notes: list[str] = field(factory=list)


class Watch:
    """Looks at each step and each answer of a hook."""

    def __init__(self, folder: Path, state: LoopState, seen: Seen, tools: Sequence[Tool], hooks: Sequence[Hook]) -> None:
        """Begin to watch.

        Args:
            folder: the workspace, compared around calls that claim to be read-only.
            state: before the first step.
            seen: takes what is found.
            tools: those under test.
            hooks: those under test.
        """
        self.steps: list[tuple[Event, Step]] = []
        self.seen = seen
        self._folder = folder
        self._tools = {tool.name: tool for tool in tools}
        self._hooks = tuple(hooks)
        self._state = state
        self._files: Files = {}
        self._running: dict[str, str] = {}
        self._mixed = False
        self._began: set[str] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._called: set[str] = set()
        self._heard: set[int] = set()
        self._broken_off = False

    def step(self, event: Event, made: Step) -> None:
        """Look at a step."""
        self.steps.append((event, made))
        before, self._state = self._state, made.state
        if isinstance(event, ToolStarted):
            if not self._running:
                self._files, self._mixed = files_of(self._folder), False
            for number, call in enumerate(before.control.tools.calls):
                if call.effect == event.id and call.state is CallState.EXECUTING:
                    self._began.add(call.id)
                    self._mixed = self._mixed or not call.traits.read_only
                    self._running[event.id] = before.data.iteration.calls[number].use.name
        elif isinstance(event, ToolFinished):
            self._outcomes[event.result.id] = event.outcome
            name = self._running.pop(event.id, "")
            if name and not self._mixed:
                self._compare(name)
        for effect in made.effects:
            if isinstance(effect, RunTool) and effect.name in self._tools:
                self._ask(self._tools[effect.name], effect.input_json)
            elif isinstance(effect, Emit) and isinstance(effect.output, ToolResult):
                self._result(effect.output)

    def answer(self, hook: Hook, answer: Answer) -> None:
        """Look at what a hook answered."""
        self._heard.add(id(hook))
        if answer.failure:
            after = "so its call was denied" if _denies(hook) else "it was passed over"
            self.seen.hooks.append(f"the {hook.label} failed: {answer.failure}; {after}")
        elif answer.output and not VERDICT & set(answer.output):
            keys = ", ".join(map(repr, answer.output))
            self.seen.hooks.append(f"the {hook.label} gave an object of which no key is known ({keys}): it decides nothing")

    def broken_off(self) -> None:
        """Take note that the trial ends the run: what it did not come to says nothing then."""
        self._broken_off = True

    def running(self) -> list[str]:
        """Name the tools whose calls have begun and not ended."""
        return [f"the tool {name}" for name in tuple(self._running.values())]

    def end(self, terminal: Terminal | None, asked: int, scripted: int) -> None:
        """Say what the whole run shows.

        Args:
            terminal: how it ended.
            asked: how often the model was asked.
            scripted: how many replies it has.
        """
        notes = self.seen.notes
        if terminal is not None and terminal.cause is Cause.STOP_HOOK_CAP:
            detail = terminal.detail or "it blocked until the cap"
            self.seen.others.append(f"a stop hook never let the run end: {detail}")
        elif terminal is not None and not (self._broken_off or _succeeded(terminal)):
            detail = f": {terminal.detail}" if terminal.detail else ""
            notes.append(f"the run ended as {terminal.reason}/{terminal.cause}, which is no success{detail}")
        if self._broken_off:
            return
        notes += [f"the tool {tool.name} was never called" for tool in self._tools.values() if tool.name not in self._called]
        notes += [f"the {hook.label} never ran" for hook in self._hooks if id(hook) not in self._heard]
        if asked > scripted:
            notes.append(f"the model was asked {asked} times, more often than it has replies: the last one was repeated")
        elif asked < scripted:
            notes.append(f"{scripted - asked} of the model's {scripted} replies were not asked for")

    def _ask(self, tool: Tool, input_json: str) -> None:
        """Ask a tool what the engine asks it; one that raises counts there as one that says no."""
        for ask in (tool.is_read_only, tool.is_concurrency_safe):
            try:
                ask(json.loads(input_json))
            except Exception as problem:
                self.seen.tools.append(f"the tool {tool.name} failed in {ask.__name__}: {failure_text(problem)}; taken as no")

    def _result(self, result: ToolResult) -> None:
        self._called.add(result.name)
        if not result.block.is_error:
            return
        name, words = result.name, _text(result.block)
        outcome = self._outcomes.get(result.tool_use_id)
        if result.tool_use_id not in self._began:
            self.seen.notes.append(f"a call of {name} was not run: {words}")
        elif outcome is Outcome.FAILED and words.startswith((f"{name} failed: ", f"{name} timed out")):
            self.seen.tools.append(f"the tool {words}")
        elif outcome is Outcome.ERROR:
            self.seen.notes.append(f"the tool {name} reported an error: {words}")
        else:
            self.seen.notes.append(f"a call of {name} came to nothing: {words}")

    def _compare(self, name: str) -> None:
        now = files_of(self._folder)
        changed = _changed(self._files, now)
        if changed:
            beside = f" (or one that ran beside it: {', '.join(self._running.values())})" if self._running else ""
            self.seen.others.append(f"tool {name} claims to be read-only and changed {', '.join(changed)}{beside}")
        self._files = now


def _denies(hook: Hook) -> bool:
    return hook.event.value == "PreToolUse" and not hook.fail_open


def _text(block: Block) -> str:
    content: Any = json.loads(block.json).get("content", "")
    if isinstance(content, list):
        content = "\n".join(str(item.get("text", "")) for item in content if isinstance(item, dict))
    words = " ".join(str(content).split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def counted(words: Sequence[str]) -> tuple[str, ...]:
    """Say each thing once, with how often it was said."""
    return tuple(word if count == 1 else f"{word} ({count} times)" for word, count in Counter(words).items())


def _succeeded(terminal: Terminal) -> bool:
    return terminal.reason is TerminalReason.COMPLETED and terminal.cause in SUCCESS
