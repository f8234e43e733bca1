"""Slash commands of the session itself: they look, or change the session; no model but the compactor's is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import TYPE_CHECKING

import anyio.to_thread
from attrs import frozen

from ..core.config import ConfigError, thresholds
from ..core.context.usage import static_tokens, user_context_tokens
from ..core.messages import UNSENT_KINDS, MessageKind
from ..core.outputs import Boundary
from ..core.request.prompt import system_texts
from ..core.tokens import estimate_schema, estimate_text
from ..core.usage import ModelUsage, add_usage, total_cost
from ..runtime.tools.pipeline import ToolBox
from .compacting import compact_by_hand
from .past import find_sessions

if TYPE_CHECKING:
    from .session import Session

_SHOWN = 20


@frozen
class LocalAnswer:
    """What a command came to.

    Attributes:
        text: Markdown for the user.
        good: False if it could not do its work.
        boundary: what was cut of the conversation, None if nothing was.
        usage: what it used.
    """

    text: str
    good: bool = True
    boundary: Boundary | None = None
    usage: tuple[ModelUsage, ...] = ()


@frozen
class LocalCommand:
    """One command.

    Attributes:
        summary: one line for ``/help``.
        run: takes the session and the arguments.
        hint: of the arguments.
        while_busy: it may be run while a prompt is worked on: it only looks.
    """

    summary: str
    run: Callable[[Session, str], Awaitable[LocalAnswer]]
    hint: str = ""
    while_busy: bool = False


async def _help(session: Session, arguments: str) -> LocalAnswer:
    lines = ["**Commands**", ""]
    for name, local in session.local.items():
        lines.append(f"- `/{name}{' ' + local.hint if local.hint else ''}` {local.summary}")
    if session.commands.by_name:
        lines += ["", "**Commands from files**", ""]
        for name, command in session.commands.by_name.items():
            lines.append(f"- `/{name}{' ' + command.hint if command.hint else ''}` {command.description}")
    lines += ["", "`@path` attaches a file, `+500k` at the end is a token budget, a space in front sends a text as it is."]
    return LocalAnswer("\n".join(lines))


async def _compact(session: Session, arguments: str) -> LocalAnswer:
    compactor = session.agent.deps.compactor
    if compactor is None:
        return LocalAnswer("This agent has no compactor.", good=False)
    if session.interrupted is not None:
        return LocalAnswer("The last run was interrupted and has to go on first.", good=False)
    state, model = session.next_state(), session.model
    session.learn_model(model)
    key = session._new_id()
    done = await compact_by_hand(state, session.agent.config, compactor, key=key, model=model, instructions=arguments)
    if done.problem:
        if done.usage:
            session.replace(done.state)
        return LocalAnswer(f"Not compacted: {done.problem}.", good=False, usage=done.usage)
    session.replace(done.state)
    assert done.boundary is not None
    words = f"Compacted: about {done.boundary.before:,} tokens became {done.boundary.after:,}."
    return LocalAnswer(words, boundary=done.boundary, usage=done.usage)


async def _context(session: Session, arguments: str) -> LocalAnswer:
    config, view = session.agent.config, [item for item in session.state.messages if item.kind not in UNSENT_KINDS]
    limits = thresholds(config, session.model)
    system = sum(map(estimate_text, system_texts(config)))
    tools = sum(estimate_schema(tool.json) for tool in config.tools)
    parts = [("system prompt", system), (f"{len(config.tools)} tools", tools), ("memory", user_context_tokens(config))]
    for label, kinds in (
        ("what you said", (MessageKind.PROMPT, MessageKind.COMMAND)),
        ("replies", (MessageKind.ASSISTANT,)),
        ("results of tools", (MessageKind.TOOL_RESULTS,)),
        ("summaries", (MessageKind.SUMMARY,)),
    ):
        parts.append((label, sum(item.tokens for item in view if item.kind in kinds)))
    used = static_tokens(config) + user_context_tokens(config) + sum(item.tokens for item in view)
    parts.append(("the rest", max(0, used - sum(size for _, size in parts))))
    share = min(100, 100 * used // limits.effective_window)
    bar = "█" * (share // 5) + "░" * (20 - share // 5)
    lines = [
        f"**Context of {session.model}** `{bar}` {share} %",
        "",
        f"About {used:,} of {limits.effective_window:,} tokens; compacted by itself from {limits.auto_compact_at:,} on.",
        "",
        "| part | tokens |",
        "| --- | ---: |",
        *(f"| {label} | {size:,} |" for label, size in parts if size),
    ]
    return LocalAnswer("\n".join(lines))


async def _cost(session: Session, arguments: str) -> LocalAnswer:
    usage = session.usage
    active = session.active
    if active is not None and active.has_run:
        usage = add_usage(active.run.state.data.session_usage, active.run.state.data.usage)
    if not usage:
        return LocalAnswer("Nothing was used yet.")
    lines = [
        f"**${total_cost(usage) / 1_000_000:.4f}** in this session",
        "",
        "| model | input | cache write | cache read | output | cost |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for used in usage:
        sizes = (used.input_tokens, used.cache_creation_tokens, used.cache_read_tokens, used.output_tokens)
        lines.append(f"| {used.model} | {' | '.join(f'{size:,}' for size in sizes)} | ${used.cost / 1_000_000:.4f} |")
    return LocalAnswer("\n".join(lines))


async def _model(session: Session, arguments: str) -> LocalAnswer:
    if not arguments:
        return LocalAnswer(f"The model is `{session.model}`. Another one: `/model NAME`.")
    name = arguments.split()[0]
    known = session.learn_model(name)
    try:
        thresholds(session.agent.config, name)
    except ConfigError as error:
        return LocalAnswer(str(error), good=False)
    session.model = name
    doubt = "" if known else " Nothing is known of it here: it is taken to have a window of 200,000 tokens and no price."
    return LocalAnswer(f"The model is `{name}` from the next prompt on.{doubt}")


async def _clear(session: Session, arguments: str) -> LocalAnswer:
    await session.aclose("clear")
    session.restart()
    return LocalAnswer("A new conversation. The old one is kept in its logs: `/resume` lists it.")


async def _resume(session: Session, arguments: str) -> LocalAnswer:
    logs = session.agent.logs
    if logs is None:
        return LocalAnswer("This agent keeps no logs.", good=False)
    found = await anyio.to_thread.run_sync(find_sessions, logs)
    if not arguments:
        if not found:
            return LocalAnswer(f"There are no sessions in {logs}.")
        lines = ["**Sessions**, the newest first", ""]
        lines += [f"- `/resume {past.session}` {past.when} {past.prompt}" for past in found[:_SHOWN]]
        return LocalAnswer("\n".join(lines))
    chosen = [past for past in found if past.session == arguments] or [
        past for past in found if past.session.startswith(arguments)
    ]
    if len(chosen) != 1:
        return LocalAnswer(f"{len(chosen) or 'No'} sessions begin with {arguments!r}; `/resume` lists them.", good=False)
    from ..log.errors import LogError

    try:
        session.take_up(chosen[0].log)
    except (LogError, OSError) as error:
        return LocalAnswer(f"It cannot be taken up: {error}", good=False)
    rest = " Its last run was interrupted and goes on now." if session.interrupted is not None else ""
    return LocalAnswer(f"Session {session.id}, {len(session.state.messages)} messages.{rest}")


async def _permissions(session: Session, arguments: str) -> LocalAnswer:
    tools = session.agent.deps.tools
    if not isinstance(tools, ToolBox):
        return LocalAnswer("The tools of this agent have no rules.", good=False)
    policy = tools.policy
    lines = [f"**Mode** {policy.mode.value}", "", f"**Folders** {', '.join(policy.workspace.roots)}", ""]
    for word, rules in (("deny", policy.rules.deny), ("ask", policy.rules.ask), ("allow", policy.rules.allow)):
        lines += [f"**{word}**", "", *(f"- `{rule.text}`" for rule in rules), *([] if rules else ["- none"]), ""]
    if tools.denials:
        lines += ["**denied so far**", ""]
        lines += [f"- {denial.tool_name}: {denial.reason} [{denial.rule}]" for denial in tools.denials[-_SHOWN:]]
    return LocalAnswer("\n".join(lines).rstrip())


LOCAL_COMMANDS: MappingProxyType[str, LocalCommand] = MappingProxyType(
    {
        "help": LocalCommand("lists the commands", _help, while_busy=True),
        "compact": LocalCommand("sums up the conversation so far", _compact, "[what to keep]"),
        "context": LocalCommand("shows what fills the context window", _context, while_busy=True),
        "cost": LocalCommand("shows tokens and dollars by model", _cost, while_busy=True),
        "model": LocalCommand("shows or changes the model", _model, "[name]", while_busy=True),
        "permissions": LocalCommand("shows mode, rules and denials", _permissions, while_busy=True),
        "resume": LocalCommand("lists earlier sessions, or takes one up", _resume, "[session]"),
        "clear": LocalCommand("begins a new conversation", _clear),
    }
)
"""The built-in ones, in the order of ``/help``."""
