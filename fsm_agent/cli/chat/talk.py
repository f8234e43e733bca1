"""The talk itself: one task reads what the user types, another works on it; each line that is typed finds its place."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout

from ...core.blocks import Block, block_text, text_block
from ...core.phases import SUCCESS, AbortReason, Cause
from ...runtime.faults import RunEnded, RunError
from ...runtime.tools.pipeline import ToolBox
from ...session.local_commands import LocalAnswer, LocalCommand
from ...session.session import Session
from ...session.submission import Submission
from ...session.trust import state_folder
from ...session.user_input import read_input
from ..console import Paint, clean, coloured, one_line
from ..rows import path_lines
from .asking import HINT, ChatAsker, describe
from .view import ChatView

_TAIL_LINES = 6
_LEAVE = ("exit", "quit")
_WAIT = "Esc Enter sends at once, Ctrl-C interrupts"


class Talk:
    """A chat in a terminal."""

    def __init__(self) -> None:
        self._paint = Paint(coloured(sys.stdout))
        self._view = ChatView(self._paint, self._columns)
        self._next: deque[Sequence[Block] | str] = deque()
        self._wake = anyio.Event()
        self._submission: Submission | None = None
        self._queued: list[str] = []
        self._urgent = False
        self._warned_to_leave = False
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(),
            key_bindings=self._keys(),
            color_depth=None if self._paint.on else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,  # what stood above the line must not stay in the scrollback
        )
        self._session: Session
        self._asker: ChatAsker

    async def run(self, session: Session, asker: ChatAsker) -> int:
        """Talk until the user leaves.

        Args:
            session: what is talked with.
            asker: asks about calls.

        Returns:
            The exit code.
        """
        self._session, self._asker = session, asker
        tools = session.agent.deps.tools
        asker.tools = tools if isinstance(tools, ToolBox) else None
        session.local["diagram"] = LocalCommand("shows the path of the last run through the machine", _diagram)
        session.local["exit"] = LocalCommand("leaves (as does Ctrl-D)", _nothing)
        self._say(self._greeting())
        with patch_stdout(raw=True):
            async with anyio.create_task_group() as group:
                group.start_soon(self._work)
                await self._read()
                group.cancel_scope.cancel()
        return 0

    def refresh(self) -> None:
        """Draw the line at the bottom again."""
        if self._prompt.app.is_running:
            self._prompt.app.invalidate()

    # -- reading ------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Take lines until the user leaves."""
        default = ""
        while True:
            try:
                text = await self._prompt.prompt_async(self._bottom, default=default, handle_sigint=False)
            except (EOFError, KeyboardInterrupt):
                self._interrupt_for_good()
                return
            default = ""
            urgent, self._urgent, self._warned_to_leave = self._urgent, False, False
            if text.strip().lstrip("/") in _LEAVE and text.strip().startswith("/"):
                self._interrupt_for_good()
                return
            if text.strip():
                self._say(self._paint(f"> {clean(text)}", "blue") + "\n")
            await self._take(text, urgent)

    async def _take(self, text: str, urgent: bool) -> None:
        """Find the place of a line: an answer, a command, a message for the run that is on, or the next prompt."""
        if self._asker.question is not None:
            self._say(self._paint(self._asker.answer(text), dim=True) + "\n")
            return
        if not text.strip():
            return
        submission = self._submission
        if submission is None:
            self._give(text)
            return
        typed = read_input(text)
        if typed.command in self._session.local:
            await self._local_meanwhile(typed.command, typed.arguments)
        elif urgent:
            self._queued.append(text)
            self._next.append(text)
            submission.abort(AbortReason.SUBMIT)
        elif typed.command in self._session.commands.by_name:
            self._say(f"/{typed.command} waits until the work is done.\n")
            self._next.append(text)
        else:
            await self._queue(submission, text)

    async def _queue(self, submission: Submission, text: str) -> None:
        try:
            await submission.queue(text)
        except RunEnded:
            self._give(text)
        except ValueError as error:
            self._say(self._paint(one_line(str(error), 300), "yellow") + "\n")
        else:
            self._queued.append(text)
            self.refresh()

    async def _local_meanwhile(self, name: str, arguments: str) -> None:
        """Run a command of the session while it works, if that does no harm."""
        command, submission = self._session.local[name], self._submission
        if name == "compact" and submission is not None and submission.has_run:
            submission.run.compact(arguments)
            self._say("The conversation is compacted before the next call of the model.\n")
        elif name == "model" and arguments and submission is not None and submission.has_run:
            answer = await command.run(self._session, arguments)
            if answer.good:
                submission.run.switch_model(self._session.model)
            self._say(self._view.markdown(answer.text))
        elif command.while_busy:
            self._say(self._view.markdown((await command.run(self._session, arguments)).text))
        else:
            self._say(f"/{name} cannot be used while a prompt is worked on; Ctrl-C interrupts it.\n")

    def _give(self, prompt: Sequence[Block] | str) -> None:
        self._next.append(prompt)
        self._wake.set()

    # -- working ------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        """Work on what was typed, one prompt after the other."""
        if self._session.interrupted is not None:
            self._say("The last run was interrupted; it goes on now.\n")
            await self._follow(self._session.go_on())
        while True:
            while not self._next:
                self._wake = anyio.Event()
                await self._wake.wait()
            prompt = self._next.popleft()
            literal = not isinstance(prompt, str)
            try:
                await self._follow(self._session.submit(prompt, literal=literal))
            except (RunError, OSError, ValueError) as error:
                self._say(self._paint(one_line(f"{type(error).__name__}: {error}", 500), "red") + "\n")
            if self._session.interrupted is not None:
                await self._follow(self._session.go_on())

    async def _follow(self, submission: Submission) -> None:
        self._submission = submission
        self._queued.clear()
        try:
            async with submission:
                async for output in submission:
                    self._say(self._view.show(output))
                    self.refresh()
            self._say(self._view.end(submission.value or {}))
        finally:
            self._submission = None
            self.refresh()
        self._warned_to_leave = False
        self._close(submission)

    def _close(self, submission: Submission) -> None:
        """Say how it ended, and find a place for what no model has seen."""
        terminal, value = submission.terminal, submission.value
        if terminal is None or value is None or not submission.has_run:
            return
        good = terminal.cause in SUCCESS
        if terminal.cause is Cause.INTERRUPT:
            self._say(self._paint("interrupted", "yellow") + "\n")
        elif not good and terminal.cause is not Cause.SUBMIT:
            why = (terminal.error.message if terminal.error is not None else "") or terminal.detail
            words = f"{terminal.reason.value}/{terminal.cause.value}" + (f": {one_line(why, 300)}" if why else "")
            self._say(self._paint(words, "red") + "\n")
        left = [block for event in self._session.undelivered for block in event.message.blocks]
        self._session.undelivered = ()
        if not left:
            return
        if good or terminal.cause is Cause.SUBMIT:
            self._next.appendleft(self._joined(left))
        else:
            text = " ".join(filter(None, map(block_text, left)))
            self._say(self._paint(f"not sent: {one_line(text, 500)}", "yellow") + "\n")

    def _joined(self, left: list[Block]) -> Sequence[Block]:
        """Put what was typed last with what waited before it, so that one prompt has all, in order."""
        while self._next and isinstance(self._next[0], str) and not read_input(self._next[0]).command:
            text = self._next.popleft()
            assert isinstance(text, str)
            left.append(text_block(text))
        return left

    # -- the terminal -------------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            self._urgent = True
            event.current_buffer.validate_and_handle()

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            self._interrupt(event)

        return keys

    def _interrupt(self, event: KeyPressEvent) -> None:
        """Ctrl-C: drop what is typed; else interrupt; the second time leave."""
        if self._warned_to_leave:
            event.app.exit(exception=KeyboardInterrupt)
            return
        if event.current_buffer.text:
            event.current_buffer.reset()
            return
        self._warned_to_leave = True
        if self._submission is not None:
            self._submission.interrupt()
        self.refresh()

    def _interrupt_for_good(self) -> None:
        if self._submission is not None:
            self._submission.interrupt()

    def _bottom(self) -> Any:
        """What stands at the bottom: the text that still streams, what goes on, and the sign of the line."""
        lines: list[tuple[str, str]] = []
        tail = [line for line in self._view.tail.splitlines()[-_TAIL_LINES:] if line.strip()]
        lines += [("", f"{line[: self._columns() - 1]}\n") for line in tail]
        question = self._asker.question
        if question is not None:
            lines.append(("bold", f"{clean(describe(question))[:2_000]}\n"))
            lines.append(("", f"{one_line(question.reason, 200)} [{question.rule}]\n{HINT}\n"))
            return FormattedText([*lines, ("bold", "allow? ")])
        if self._submission is not None:
            lines += [("italic", f"  waits: {one_line(text, self._columns() - 12)}\n") for text in self._queued[-3:]]
            state = "Ctrl-C again leaves" if self._warned_to_leave else f"working; {_WAIT}"
            lines.append(("italic", f"{state}\n"))
        elif self._warned_to_leave:
            lines.append(("italic", "Ctrl-C again leaves\n"))
        return FormattedText([*lines, ("bold", "> ")])

    def _say(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _greeting(self) -> str:
        session = self._session
        where = clean(str(session.agent.cwd))
        return self._paint(f"{session.model} in {where}; /help lists the commands, Ctrl-D leaves", dim=True) + "\n"

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 80
        except (OSError, ValueError):
            return 80


def _history() -> History:
    try:
        folder: Path = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / "history"
        path.touch(mode=0o600)
        return FileHistory(str(path))
    except (OSError, RuntimeError):
        return InMemoryHistory()


async def _diagram(session: Session, arguments: str) -> LocalAnswer:
    """Show the path of the last run."""
    if not session.rows:
        return LocalAnswer("There was no run yet.")
    lines = path_lines(session.rows, Paint(False))
    log = (session.result or {}).get("log")
    drawn = f"\nDrawn: `fsm-agent diagram --log {log}`" if log else ""
    return LocalAnswer("```\n" + "\n".join(lines) + "\n```" + drawn)


async def _nothing(session: Session, arguments: str) -> LocalAnswer:
    """Is never run: the line is taken before."""
    return LocalAnswer("")
