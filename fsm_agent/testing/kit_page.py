"""Reference page of the testing kit, made from its classes: what a law sees, and how far an exploration goes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any

from attrs import NOTHING, fields, has

from ..core import control as control_module
from ..core import state as state_module
from ..core.control import Control
from ..core.effects import RunTool
from ..core.messages import Message
from ..core.outputs import Terminal
from ..core.state import Data, LoopState, Step
from ..diagram.settings_page import attributes_of
from ..explorer.bounds import Bounds
from ..laws import Edge

_HOMES = (control_module.__name__, state_module.__name__)


def told(owner: type) -> list[tuple[str, str, str]]:
    """Give (name, default, what it is) of each field of a class."""
    words = attributes_of(owner)
    return [(one.name, _default(one.default), words.get(one.name, "")) for one in fields(owner)]


def kit_page() -> str:
    """Write the reference of the testing kit in Markdown.

    Returns:
        The page, ended by a newline.
    """
    lines = [
        "<!-- Made from the classes by docs/regenerate.py; not to be edited. -->",
        "",
        "# What a law sees, and the bounds of an exploration",
        "",
        "A state law takes `(state, config)`, an edge law one `edge`, a run law `(edges, config)`. Each gives a text that says",
        "what is wrong, or an empty one. How to use them stands in [Test your agent](../testing.md), the fields of `config` in",
        "[the settings](settings.md).",
        "",
        "## `edge`: one step",
        "",
        "| field | what it is |",
        "| --- | --- |",
        *(f"| `{name}` | {text} |" for name, text in attributes_of(Edge).items()),
        *_properties(Edge),
        f"| `took(*names)` | {_first(Edge.took.__doc__)} |",
        "",
        "What `edge.tools` and `edge.made` hold:",
        "",
        *_table(RunTool),
        "",
        *_table(Step),
        "",
        "## `state`: a run at rest between two events",
        "",
        "What decides is in `state.control`, what goes with it in `state.data`; the most wanted stands at hand:",
        "",
        "| property | what it is |",
        "| --- | --- |",
        *_properties(LoopState),
    ]
    for path, owner in (*_below("state.control", Control), *_below("state.data", Data)):
        lines += ["", f"### `{path}`", "", *_table(owner)]
    for path, owner in (("a message of `state.messages`", Message), ("`state.terminal`", Terminal)):
        lines += ["", f"### {path}", "", *_table(owner)]
    lines += [
        "",
        "## Bounds of an exploration",
        "",
        "`Bounds(...)` in Python. On the command line `--bound name=value` sets a number or a switch; `fsm-agent explore",
        "--bounds` lists them too.",
        "",
        "| bound | default | what it is |",
        "| --- | --- | --- |",
        *(f"| `{name}` | {default} | {text} |" for name, default, text in told(Bounds)),
    ]
    return "\n".join([*lines, ""])


def _table(owner: type) -> list[str]:
    """A table of the fields of a class, with their types."""
    words = attributes_of(owner)
    lines = ["| field | type | what it is |", "| --- | --- | --- |"]
    for one in fields(owner):
        kind = str(one.type).replace("|", "\\|")
        lines.append(f"| `{one.name}` | `{kind}` | {words.get(one.name) or _of_class(one.type)} |")
    return lines


def _below(path: str, owner: type) -> Iterable[tuple[str, type]]:
    """Give a class of the state, and those of its fields, by where they stand."""
    yield path, owner
    for one in fields(owner):
        word = str(one.type).removesuffix(" | None")
        several = word.startswith("tuple[")
        inner = _class(word.removeprefix("tuple[").removesuffix(", ...]"))
        if inner is not None:
            yield from _below(f"{path}.{one.name}" + ("[...]" if several else ""), inner)


def _class(word: str) -> type | None:
    found = getattr(control_module, word, None) or getattr(state_module, word, None)
    return found if isinstance(found, type) and has(found) and found.__module__ in _HOMES else None


def _of_class(kind: Any) -> str:
    found = _class(str(kind).removesuffix(" | None"))
    return "" if found is None else _first(found.__doc__)


def _properties(owner: type) -> list[str]:
    found = [(name, value) for name, value in vars(owner).items() if isinstance(value, property)]
    return [f"| `{name}` | {_first(value.__doc__)} |" for name, value in found]


def _first(text: str | None) -> str:
    return re.sub(r" \(spec [^)]*\)", "", (text or "").strip().partition("\n")[0].replace("``", "`"))


def _default(value: Any) -> str:
    if value is NOTHING:
        return "necessary"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return _several(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _several(values: tuple[Any, ...]) -> str:
    """Write several words; a whole list of words is told by its class."""
    kinds = {type(one) for one in values}
    if len(kinds) == 1 and issubclass(kind := kinds.pop(), Enum) and len(values) == len(kind) and len(values) > 7:
        return f"all of {kind.__name__}"
    return ", ".join("none" if one is None else str(one) for one in values) or "none"
