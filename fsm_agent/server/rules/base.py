"""What a rule looks at, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from attrs import field, frozen

from ...core.models import ModelInfo
from .. import signatures

THINKING = ("thinking", "redacted_thinking")


@frozen
class Breach:
    """One rule that a request breaks.

    Attributes:
        rule: the rule's name in the registry.
        message: what the API would say, without the path.
        path: where: ``messages.2.content.0`` and the like; empty for the request as a whole.
        type: the API's error type.
        code: ``error.details.error_code``, if the API has one for it.
        status: the HTTP status.
    """

    rule: str
    message: str
    path: str = ""
    type: str = "invalid_request_error"
    code: str = ""
    status: int = 400

    @property
    def text(self) -> str:
        """Path and message, as the API writes them."""
        return f"{self.path}: {self.message}" if self.path else self.message


@frozen
class Memory:
    """What a server remembers of its own answers.

    Attributes:
        paused: digests of assistant turns that it paused: they may be sent back as the last message.
        foreign: (signature, text) of thinking that it served with a signature of the script's own.
    """

    paused: frozenset[str] = frozenset()
    foreign: frozenset[tuple[str, str]] = frozenset()


def paused_digest(blocks: Sequence[Any]) -> str:
    """Give the digest by which a paused turn is known again: thinking, blank text and cache marks do not count."""
    kept = [
        {key: value for key, value in block.items() if key != "cache_control"}
        for block in blocks
        if not signatures.blank(block) and block.get("type") not in THINKING
    ]
    return sha256(signatures.canonical(kept).encode()).hexdigest()


@frozen
class Turn:
    """A run of neighbouring messages of one role.

    Attributes:
        role: ``user``, ``assistant`` or ``system``.
        first: number of its first message.
        blocks: its blocks with their places (message, block).
    """

    role: str
    first: int
    blocks: tuple[tuple[int, int, Mapping[str, Any]], ...]


@frozen
class Wire:
    """One request, laid out for the rules.

    Attributes:
        body: the decoded request.
        info: capabilities of its model.
        betas: beta values of its header.
        memory: what the server remembers, None if unknown.
        tokens: estimated prompt tokens, None if unknown.
        size: bytes of the body, 0 if unknown.
        counting: it only counts tokens.
        messages: its messages, those that are objects.
        turns: neighbouring messages of one role together; ``system`` messages stand alone.
    """

    body: Mapping[str, Any]
    info: ModelInfo
    betas: tuple[str, ...] = ()
    memory: Memory | None = None
    tokens: int | None = None
    size: int = 0
    counting: bool = False
    messages: tuple[Mapping[str, Any], ...] = ()
    turns: tuple[Turn, ...] = field(default=())

    @classmethod
    def of(
        cls,
        body: Mapping[str, Any],
        info: ModelInfo,
        betas: tuple[str, ...] = (),
        *,
        memory: Memory | None = None,
        tokens: int | None = None,
        size: int = 0,
        counting: bool = False,
    ) -> Wire:
        """Lay a decoded request out; nothing in it is trusted to have the right shape."""
        listed = body.get("messages")
        messages = tuple(item for item in listed if isinstance(item, Mapping)) if isinstance(listed, list) else ()
        return cls(body, info, betas, memory, tokens, size, counting, messages, turns_of(messages))

    def beta(self, *prefixes: str) -> bool:
        """Tell whether a beta with one of these beginnings is on."""
        return any(value.startswith(prefixes) for value in self.betas)

    @property
    def thinking_mode(self) -> str:
        """The thinking that the request asks for or gets by default: a kind, or ``off``."""
        asked = self.body.get("thinking")
        if isinstance(asked, Mapping):
            kind = str(asked.get("type"))
            return "off" if kind == "disabled" else kind
        return "adaptive" if self.info.thinking_default else "off"


def turns_of(messages: tuple[Mapping[str, Any], ...]) -> tuple[Turn, ...]:
    """Put neighbouring messages of one role together, as the API does."""
    turns: list[Turn] = []
    for number, message in enumerate(messages):
        role = str(message.get("role", ""))
        blocks = tuple(
            (number, place, block) for place, block in enumerate(signatures.content_of(message)) if isinstance(block, Mapping)
        )
        if turns and turns[-1].role == role and role != "system":
            turns[-1] = Turn(role, turns[-1].first, turns[-1].blocks + blocks)
        else:
            turns.append(Turn(role, number, blocks))
    return tuple(turns)


def at(message: int, block: int | None = None, more: str = "") -> str:
    """Write a place as the API does: ``messages.1.content.0.text``."""
    path = f"messages.{message}"
    if block is not None:
        path += f".content.{block}"
    return f"{path}.{more}" if more else path


Check = Callable[[Wire], Iterator[Breach]]


@frozen
class Rule:
    """A named rule.

    Attributes:
        name: its name.
        source: where it is written down.
        check: finds its breaches.
        decides: nothing else is looked at once it is broken.
    """

    name: str
    source: str
    check: Check
    decides: bool = False


def rule(
    name: str, source: str, *, decides: bool = False
) -> Callable[[Callable[[Wire], Iterator[tuple[str, str] | Breach]]], Rule]:
    """Make a named rule of a generator of (path, message) pairs or whole breaches.

    Args:
        name: its name in the registry.
        source: where it is written down.
        decides: nothing else is looked at once it is broken.

    Returns:
        A decorator that turns the generator function into a :class:`Rule`.
    """

    def wrap(function: Callable[[Wire], Iterator[tuple[str, str] | Breach]]) -> Rule:
        def check(wire: Wire) -> Iterator[Breach]:
            for found in function(wire):
                yield found if isinstance(found, Breach) else Breach(rule=name, message=found[1], path=found[0])

        return Rule(name, source, check, decides)

    return wrap
