"""Commands that the user queued while a run was on, and what became of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType

from ..core.events import CommandQueued
from ..core.messages import MessageKind
from .prompt import Prompt, user_message


class CommandStatus(StrEnum):
    """Life of a command."""

    QUEUED = "queued"
    STARTED = "started"
    """It went into the history."""
    COMPLETED = "completed"
    """The run that took it has ended."""
    REJECTED = "rejected"
    """The run had ended before it came; it stays with its sender."""
    UNDELIVERED = "undelivered"
    """The run ended before a safe place came; see ``Terminal.undelivered``."""


class Commands:
    """The commands of one run, by id, in the order of queueing.

    Args:
        run_id: prefix of their ids.
        listener: told of (command id, status) when a command moves on.
        before: how many were queued before the run was resumed.
        waiting: those of them that still wait.
    """

    def __init__(
        self,
        run_id: str,
        listener: Callable[[str, CommandStatus], None] | None,
        before: int = 0,
        waiting: tuple[CommandQueued, ...] = (),
    ) -> None:
        self._run_id = run_id
        self._listener = listener
        self._numbers = itertools.count(before + 1)  # one step of it is safe between threads
        self._status = {event.command_id: CommandStatus.QUEUED for event in waiting}
        self._events = {event.command_id: event for event in waiting}

    @property
    def statuses(self) -> Mapping[str, CommandStatus]:
        """What became of each."""
        return MappingProxyType(self._status)

    @property
    def undelivered(self) -> tuple[CommandQueued, ...]:
        """Those that no model has seen: still queued at the end, or refused."""
        lost = (CommandStatus.UNDELIVERED, CommandStatus.REJECTED)
        return tuple(event for command_id, event in self._events.items() if self._status[command_id] in lost)

    def make(self, prompt: Prompt, address: str) -> CommandQueued:
        """Make the event that queues a command.

        Raises:
            ValueError: for a blank prompt.
        """
        command_id = f"{self._run_id}/queued-{next(self._numbers)}"
        message = user_message(command_id, prompt, MessageKind.COMMAND)
        event = CommandQueued(command_id=command_id, message=message, address=address)
        self._status[command_id] = CommandStatus.QUEUED
        self._events[command_id] = event
        return event

    def forget(self, command_id: str) -> None:
        """Drop a command that stays with its sender."""
        del self._status[command_id], self._events[command_id]

    def moved(self, command_id: str, status: str) -> None:
        """Take down where a command stands, and tell the listener; foreign ids are only told."""
        if command_id in self._status:
            self._status[command_id] = CommandStatus(status)
        if self._listener is not None:
            self._listener(command_id, CommandStatus(status))

    def run_ended(self) -> None:
        """What is still queued will not be delivered."""
        for command_id, status in tuple(self._status.items()):
            if status is CommandStatus.QUEUED:
                self.moved(command_id, CommandStatus.UNDELIVERED)
