"""Files that the user mentions as ``@path``: read through the rules of the session and attached to the prompt (spec 03)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from ..core.blocks import Block, clean_text, read_block, text_block
from ..core.events import Outcome
from ..runtime.permissions.rules import Behavior
from ..runtime.tools.base import ToolContext
from ..runtime.tools.body import run_body
from ..runtime.tools.paths import PathProblem, Workspace
from ..runtime.tools.pipeline import ToolBox
from ..runtime.tools.read import Read

MAX_MENTIONS = 20
"""Files attached to one prompt."""
MAX_CHARS = 50_000
"""Characters shown of one file; the model can read the rest."""
MAX_ENTRIES = 200
"""Entries shown of one folder."""
_MENTION = re.compile(r'(?<![\w@.])@(?:"([^"\n]+)"|([^\s"`]+))')
_TRAILING = ".,;:!?)]}'>"


@frozen
class Attached:
    """What the mentions of a text came to.

    Attributes:
        blocks: what is attached, in order.
        problems: files that are there and were not attached, and why.
    """

    blocks: tuple[Block, ...] = ()
    problems: tuple[str, ...] = ()


def find_mentions(text: str, workspace: Workspace) -> tuple[str, ...]:
    """Give the real paths of the files and folders that a text mentions, each once.

    What names nothing that exists is no mention: a name, an address, a decorator.

    Args:
        text: as it was typed.
        workspace: paths start from its working directory.
    """
    found: list[str] = []
    for match in _MENTION.finditer(text):
        given = match[1] or match[2]
        candidates = [given]
        while match[1] is None and candidates[-1][-1:] in _TRAILING and len(candidates[-1]) > 1:
            candidates.append(candidates[-1][:-1])
        for candidate in candidates:
            try:
                real = workspace.resolve(candidate).real
                exists = os.path.exists(real)
            except (PathProblem, ValueError, OSError):
                continue
            if exists:
                if real not in found:
                    found.append(real)
                break
    return tuple(found)


async def attach(text: str, toolbox: ToolBox) -> Attached:
    """Read what a text mentions.

    Args:
        text: as it was typed.
        toolbox: its rules say what may be read, and it remembers what was read.

    Returns:
        Blocks for the model, and what could not be attached.
    """
    paths = find_mentions(text, toolbox.policy.workspace)
    blocks: list[Block] = []
    problems: list[str] = []
    for real in paths[:MAX_MENTIONS]:
        try:
            if os.path.isdir(real):
                blocks += _folder(real, toolbox)
            else:
                blocks += await _file(real, toolbox)
        except _Unread as problem:
            problems.append(f"@{real} was not attached: {problem}")
    if len(paths) > MAX_MENTIONS:
        problems.append(f"only the first {MAX_MENTIONS} of {len(paths)} mentioned files were attached")
    return Attached(tuple(blocks), tuple(problems))


class _Unread(Exception):
    """A file that is not attached; the text says why."""


async def _file(real: str, toolbox: ToolBox) -> list[Block]:
    tool = Read()
    policy = toolbox.policy
    call = tool.prepare({"file_path": real}, policy.workspace)
    decision = policy.judge(tool.name, call, read_only=True)
    if decision.behavior is not Behavior.ALLOW:
        raise _Unread(f"{decision.reason} [{decision.rule}]")
    output = await run_body(
        tool, call.input, ToolContext(workspace=policy.workspace, files=toolbox.files, readable=policy.readable)
    )
    if output.outcome is not Outcome.OK:
        raise _Unread(output.content if isinstance(output.content, str) else "it cannot be read")
    head = f"The user attached the file {clean_text(real)}:"
    if isinstance(output.content, str):
        shown = output.content
        if len(shown) > MAX_CHARS:
            shown = f"{shown[:MAX_CHARS]}\n[{len(output.content) - MAX_CHARS} more characters; use Read for the rest]"
        return [text_block(f"{head}\n{shown}")]
    return [text_block(head), *(_part(part, output.sizes) for part in output.content)]


def _part(part: Mapping[str, Any], sizes: Mapping[str, tuple[int, int, int]]) -> Block:
    return read_block(part, sizes)


def _folder(real: str, toolbox: ToolBox) -> list[Block]:
    policy = toolbox.policy
    if not policy.workspace.may_read(real):
        raise _Unread(f"{real} is outside the workspace")
    try:
        with os.scandir(real) as entries:
            names = sorted(
                entry.name + ("/" if entry.is_dir() else "")
                for entry in entries
                if policy.readable(os.path.realpath(entry.path))
            )
    except OSError as error:
        raise _Unread(error.strerror or str(error)) from None
    more = f"\n[{len(names) - MAX_ENTRIES} more]" if len(names) > MAX_ENTRIES else ""
    listing = "\n".join(names[:MAX_ENTRIES]) or "(empty)"
    return [text_block(f"The user attached the folder {clean_text(real)}:\n{clean_text(listing)}{more}")]
