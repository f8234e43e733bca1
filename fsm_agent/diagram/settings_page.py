"""Reference page of the settings, made from the declaration: names, defaults, and what each is for."""

from __future__ import annotations

import re
from enum import StrEnum
from inspect import cleandoc
from typing import Any, get_type_hints

from attrs import NOTHING, fields

from ..core.config import ContextConfig, LoopConfig

_GIVEN = re.compile(r"^    (\w+): (.*)$")
_ELSEWHERE = {
    "models": "`fsm-agent models`",
    "system": "`--system-prompt`, `Agent(system=...)`",
    "tools": "`Agent(tools=...)`",
    "context": "below",
    "max_budget": "`--max-budget-usd`",
    "fallback_models": "`--fallback-model`",
    "output_schema": "`--json-schema`",
    "tool_summaries": "`--tool-summary-model`",
    "model": "`--model`",
}
"""Where a setting comes from, if not from ``--set``."""


def settings_page() -> str:
    """Write the reference of the settings in Markdown.

    Returns:
        The page, ended by a newline.
    """
    lines = [
        "<!-- Made from the declaration by docs/regenerate.py; not to be edited. -->",
        "",
        "# Settings of a run",
        "",
        "On the command line `--set key=value`, repeated; `none` is no value, several words are parted by commas. In Python",
        'arguments of `Agent`, those of the context in a mapping: `Agent(model, max_turns=5, context={"keep_rounds": 1})`.',
        "In a scenario they stand below `config`. What says that there are hooks, attachments or prefetches follows from what",
        "the agent is given.",
        "",
        "## The loop",
        "",
        *_table(LoopConfig),
        "",
        "## The context",
        "",
        *_table(ContextConfig),
    ]
    return "\n".join([*lines, ""])


def _table(owner: Any) -> list[str]:
    words, hints = attributes_of(owner), get_type_hints(owner)
    lines = ["| setting | default | what it is |", "| --- | --- | --- |"]
    for one in fields(owner):
        text = words[one.name]
        choices = [word.value for word in hints[one.name]] if _is_choice(hints[one.name]) else []
        if choices:
            text += " One of " + ", ".join(f"`{word}`" for word in choices) + "."
        if one.name in _ELSEWHERE:
            text += f" See {_ELSEWHERE[one.name]}."
        lines.append(f"| `{one.name}` | {_default(one.default)} | {text} |")
    return lines


def attributes_of(owner: Any) -> dict[str, str]:
    """Read what the docstring says of each field, a sentence each."""
    words: dict[str, str] = {}
    name = ""
    for line in cleandoc(owner.__doc__ or "").partition("Attributes:\n")[2].splitlines():
        given = _GIVEN.match(line)
        if given:
            name, words[given[1]] = given[1], given[2]
        elif name and line.startswith("      "):
            words[name] += f" {line.strip()}"
    return {name: _sentence(text) for name, text in words.items()}


def _sentence(text: str) -> str:
    text = text.replace("``", "`").removesuffix(".")
    return f"{text[:1].upper()}{text[1:]}."


def _is_choice(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, StrEnum)


def _default(value: Any) -> str:
    if value is NOTHING:
        return "necessary"
    if value is None or value in ((), "", ContextConfig()):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"`{value}`"
