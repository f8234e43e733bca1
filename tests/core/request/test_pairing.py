"""Pairing costs what is new: what it looks at does not grow with the history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fsm_agent.core.blocks import tool_result, tool_use
from fsm_agent.core.messages import MessageKind, message
from fsm_agent.core.request.pairing import open_server_calls


class Counted(tuple):  # type: ignore[type-arg]  # a tuple of messages
    """A tuple that counts how many of its items are looked at from the end."""

    looked = 0

    def __reversed__(self) -> Iterator[Any]:
        for item in tuple.__getitem__(self, slice(None, None, -1)):
            Counted.looked += 1
            yield item


def test_open_server_calls_are_looked_for_in_the_last_turns_only() -> None:
    """A long loop of tools costs no more than a short one."""
    rounds = []
    for number in range(400):
        call, result = tool_use(f"t{number}", "Read", "{}"), tool_result(f"t{number}", "fine")
        rounds.append(message(f"a{number}", "assistant", MessageKind.ASSISTANT, (call,)))
        rounds.append(message(f"u{number}", "user", MessageKind.TOOL_RESULTS, (result,)))
    Counted.looked = 0
    assert open_server_calls(Counted(rounds)) == ()
    assert Counted.looked < 10
