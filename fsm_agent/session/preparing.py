"""From what the user typed to what a run is given: commands expanded, files attached, hooks asked (spec 03, Session)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from ..core.blocks import Block, block_text, text_block
from ..core.events import Outcome
from ..runtime.hooks.config import HookEvent
from ..runtime.permissions.rules import NO_RULES, Behavior, RuleError, RuleSet, parse_rules
from ..runtime.prompt import Prompt, prompt_blocks
from ..runtime.tools.base import ToolContext, ToolError
from ..runtime.tools.bash import Bash
from ..runtime.tools.body import run_body
from ..runtime.tools.paths import PathProblem
from ..runtime.tools.pipeline import ToolBox
from .lifecycle import fire
from .markdown_commands import CommandError, Commands, MarkdownCommand, expand
from .mentions import attach
from .user_input import UserInput, read_input

if TYPE_CHECKING:
    from ..runtime.hooks.runner import HookSet

MAX_INSERTION = 30_000
"""Characters of the output of one inserted command."""


@frozen
class Surroundings:
    """What a prompt is prepared with.

    Attributes:
        cwd: the workspace.
        session_id: the session.
        tools: the toolbox; None where tools are scripted: then nothing is attached or inserted.
        hooks: the hooks; None without any.
        commands: the Markdown commands.
        local: names of the commands that need no model.
    """

    cwd: Path
    session_id: str
    tools: ToolBox | None = None
    hooks: HookSet | None = None
    commands: Commands = field(factory=Commands)
    local: frozenset[str] = frozenset()


@frozen
class Plan:
    """What becomes of a prompt.

    Attributes:
        blocks: what is said to the model.
        attachments: what goes with it.
        token_budget: output tokens to be spent, None for no wish.
        grants: allow rules for this run.
        model: the model for this run, empty for the session's.
        warnings: for the user.
        written: the text whose mentions count, None for that of the blocks: the output of a program mentions nothing.
        local: (name, arguments) of a command that needs no model; then there is no run.
        refused: why there is no run; empty if there is one.
    """

    blocks: tuple[Block, ...] = ()
    attachments: tuple[Block, ...] = ()
    token_budget: int | None = None
    grants: RuleSet = NO_RULES
    model: str = ""
    warnings: tuple[str, ...] = ()
    written: str | None = None
    local: tuple[str, str] | None = None
    refused: str = ""


async def prepare(prompt: Prompt, around: Surroundings, *, literal: bool = False) -> Plan:
    """Turn what the user typed into what a run is given.

    Args:
        prompt: text, or content blocks; only text has commands, mentions and budgets.
        around: what it is prepared with.
        literal: take text as it is.

    Returns:
        The plan; a prompt that cannot be used is a refusal, never an exception.
    """
    if literal or not isinstance(prompt, str):
        return await _asked(Plan(blocks=prompt_blocks(prompt)), around)
    typed = read_input(prompt)
    if not typed.command or (not _is_known(typed, around) and _is_path(typed)):
        plan = Plan(blocks=prompt_blocks(typed.text), token_budget=typed.token_budget)
    elif typed.command in around.local:
        return Plan(local=(typed.command, typed.arguments))
    else:
        plan = await _command(typed, around)
    if plan.refused:
        return plan
    return await _asked(await _attached(plan, around), around)


def _is_known(typed: UserInput, around: Surroundings) -> bool:
    """A command that there is wins over a folder of the same name: ``/run`` is both on most machines."""
    return typed.command in around.local or typed.command in around.commands.by_name


def _is_path(typed: UserInput) -> bool:
    """``/tmp is full`` speaks of a folder."""
    return Path(f"/{typed.command}").exists()


async def _command(typed: UserInput, around: Surroundings) -> Plan:
    command = around.commands.by_name.get(typed.command)
    if command is None:
        names = [*around.local, *around.commands.by_name]
        near = get_close_matches(typed.command, names, 1)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        return Plan(refused=f"there is no command /{typed.command}; {hint} (a space in front sends it as text)")
    variables = {
        "CLAUDE_SESSION_ID": around.session_id,
        "FSM_AGENT_SESSION_ID": around.session_id,
        "CLAUDE_PROJECT_DIR": str(around.cwd),
        "FSM_AGENT_PROJECT_DIR": str(around.cwd),
    }
    try:
        grants = _grants(command)
        written: list[str] = []
        insert = _insertions(command, grants, around.tools)
        text = await expand(command, typed.arguments, variables=variables, insert=insert, written=written)
        return Plan(
            blocks=prompt_blocks(text),
            token_budget=typed.token_budget,
            grants=grants,
            model=command.model if command.trusted else "",
            warnings=_withheld(command),
            written="\n".join(written),
        )
    except (CommandError, RuleError) as error:
        return Plan(refused=str(error))
    except ValueError:
        return Plan(refused=f"/{command.name}: {command.path} says nothing")


def _grants(command: MarkdownCommand) -> RuleSet:
    if not command.trusted:
        return NO_RULES
    try:
        return parse_rules(allow=command.allowed_tools, base=str(command.path.parent))
    except RuleError as error:
        raise RuleError(f"{command.path}: allowed-tools: {error}") from None


def _withheld(command: MarkdownCommand) -> tuple[str, ...]:
    if command.trusted or not (command.allowed_tools or command.model):
        return ()
    return (f"{command.path} lies in a folder that is not trusted: its allowed-tools and model were left out",)


def _insertions(command: MarkdownCommand, grants: RuleSet, toolbox: ToolBox | None) -> Callable[[str], Awaitable[str]] | None:
    """Give what runs the insertions of a command, None where it may not have any."""
    if toolbox is None or not command.trusted:
        return None
    policy = evolve(toolbox.policy, rules=toolbox.policy.rules + grants)
    env = toolbox.env

    async def insert(line: str) -> str:
        tool = Bash()
        try:
            call = tool.prepare({"command": line}, policy.workspace)
        except (PathProblem, ToolError) as problem:
            raise CommandError(f"/{command.name} may not run `{line}`: {problem} ({command.path})") from None
        decision = policy.judge(tool.name, call, read_only=tool.is_read_only(call.input))
        if decision.behavior is not Behavior.ALLOW:
            raise CommandError(
                f"/{command.name} may not run `{line}`: {decision.reason} [{decision.rule}]; "
                f"a rule such as Bash({(line.split() or ['ls'])[0]}:*) in its allowed-tools allows it ({command.path})"
            )
        output = await run_body(tool, call.input, ToolContext(workspace=policy.workspace, files=toolbox.files, env=env))
        text = output.content if isinstance(output.content, str) else ""
        if output.outcome is not Outcome.OK:
            raise CommandError(f"/{command.name}: `{line}` failed: {text[:500]}")
        return text[:MAX_INSERTION]

    return insert


async def _attached(plan: Plan, around: Surroundings) -> Plan:
    if around.tools is None:
        return plan
    text = plan.written if plan.written is not None else "\n".join(map(block_text, plan.blocks))
    found = await attach(text, around.tools)
    return evolve(plan, attachments=(*plan.attachments, *found.blocks), warnings=(*plan.warnings, *found.problems))


async def _asked(plan: Plan, around: Surroundings) -> Plan:
    """Ask the hooks that see each prompt."""
    words = "\n".join(text for text in map(block_text, plan.blocks) if text)
    fields: Mapping[str, str] = {"prompt": words}
    said = await fire(around.hooks, HookEvent.USER_PROMPT_SUBMIT, fields, speaks=True)
    plan = evolve(plan, warnings=(*plan.warnings, *said.warnings))
    if said.blocked is not None:
        return evolve(plan, refused=f"a UserPromptSubmit hook dropped the prompt: {said.blocked}")
    return evolve(plan, attachments=(*plan.attachments, *map(text_block, said.context)))
