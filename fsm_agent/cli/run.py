"""``fsm-agent run``: one prompt, one run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .options import json_view, output_options
from .places import LOGS_HELP
from .problems import Problem
from .project_options import is_trusted, open_project, project_options, read_schema, read_source_option
from .rule_options import RuleCommand, read_rules
from .settings import read_dollars, read_set, read_tokens

if TYPE_CHECKING:
    from .running import Asked

DEFAULT_MODEL = "claude-sonnet-5-5"
_MODES = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
_FOLDER = click.Path(exists=True, file_okay=False)


@click.command(
    cls=RuleCommand,
    epilog="""\b
Examples:
  fsm-agent run "Why does test_total fail?"
  echo "Explain this project." | fsm-agent run --output-format json -
  fsm-agent run "Fix it." --permission-mode acceptEdits --allowed-tools "Bash(pytest:*)" Read
  fsm-agent run "Hello." --base-url http://127.0.0.1:8080 --model scenario-model""",
)
@click.argument("prompt", required=False)
@click.option("--model", envvar="ANTHROPIC_MODEL", help=f"The model.  [default: $ANTHROPIC_MODEL or {DEFAULT_MODEL}]")
@click.option(
    "--fallback-model", "fallbacks", multiple=True, metavar="NAME", help="Next model when one fails for good; repeat it."
)
@click.option("--base-url", metavar="URL", help="Of the API.  [default: $ANTHROPIC_BASE_URL]")
@click.option("--max-turns", type=click.IntRange(1), help="End the run after so many rounds.")
@click.option("--max-budget-usd", metavar="DOLLARS", help="End the run when so much is spent, such as 0.5.")
@click.option("--token-budget", metavar="TOKENS", help="Go on until so many output tokens are spent, such as 500k.")
@click.option("--effort", metavar="LEVEL", help="Effort that the model is asked for, such as low, medium or high.")
@click.option("--system-prompt", metavar="TEXT", help="In place of the built-in system prompt.")
@click.option("--append-system-prompt", metavar="TEXT", help="Behind the system prompt.")
@click.option(
    "--allowed-tools",
    "--allowedTools",
    "allowed",
    multiple=True,
    metavar="RULE...",
    help="Rules that allow, such as 'Bash(git:*)' Read.",
)
@click.option(
    "--disallowed-tools", "--disallowedTools", "denied", multiple=True, metavar="RULE...", help="Rules that deny; they win."
)
@click.option("--permission-mode", type=click.Choice(_MODES), help="What is allowed without a rule.  [default: default]")
@click.option("--trust", is_flag=True, help="Trust the workspace for this run: its files may grant, not only restrict.")
@click.option(
    "--json-schema",
    metavar="FILE|JSON",
    help="The final answer must be JSON that fits this schema; wrong answers go back a few times.",
)
@click.option("--tool-summary-model", metavar="NAME", help="A small model that sums up each round of tools in a line.")
@project_options
@click.option("--add-dir", "add_dirs", multiple=True, type=_FOLDER, help="Another folder in which tools may work; repeat it.")
@click.option("--cwd", type=_FOLDER, default=".", help="The workspace.  [default: the current folder]")
@click.option(
    "--log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help=f"The log, a new file.  [default: a file in {LOGS_HELP}]",
)
@click.option(
    "--log-sync",
    type=click.Choice(["always", "tools", "never"]),
    default="tools",
    show_default=True,
    help="When the log is forced to disk; tools: before a tool runs, and at the end.",
)
@click.option("--resume", metavar="LOG|SESSION", help="Go on from a log, or from the newest log of a session.")
@click.option("--continue", "latest", is_flag=True, help="Go on from the newest log of this folder.")
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any field of LoopConfig or its context, such as context_window=20000.",
)
@output_options
def command(output_format: str, include_partial_messages: bool, **options: Any) -> int:
    """Run one prompt to its end.

    Without PROMPT, or with -, the prompt is read from standard input. Nobody is asked: what a permission rule or mode
    leaves to the user is denied, and the model is told why.

    With --resume or --continue an interrupted run first goes on to its end, under the settings that it began with; what was
    answered is not asked again. Then the prompt is submitted, if there is one.

    Settings, commands, memory files, skills, agents and MCP servers of the workspace and of the user are used; in a
    workspace that is not trusted they restrict and grant nothing.

    On a terminal the run is shown as it goes; elsewhere the text format prints the final answer only. Errors go to
    standard error, and the exit code says how the run ended.
    """
    view = json_view(output_format, include_partial_messages)
    from .running import run_prompt

    return run_prompt(read_asked(partial=include_partial_messages, **options), view)


def read_asked(
    *,
    model: str | None,
    allowed: tuple[str, ...],
    denied: tuple[str, ...],
    permission_mode: str | None,
    trust: bool,
    settings_given: str | None,
    setting_sources: str,
    bare: bool,
    cwd: str,
    resume: str | None,
    latest: bool,
    prompt: str | None = None,
    token_budget: str | None = None,
    log: Path | None = None,
    partial: bool = False,
    **options: Any,
) -> Asked:
    """Read the options that ``run`` and ``chat`` share.

    Raises:
        Problem: for options that contradict each other or cannot be used.
    """
    if model is not None and not model.strip():
        raise Problem("--model: the name is empty; leave the option out for the default")
    allow, unknown_allowed = read_rules(allowed, "--allowed-tools")
    deny, unknown_denied = read_rules(denied, "--disallowed-tools")
    values = _values(options)
    budget = None if token_budget is None else read_tokens(token_budget)
    if resume is not None and latest:
        raise Problem("--resume and --continue say the same thing twice; give one of them")
    from .running import Asked

    sources = read_source_option(setting_sources)
    trusted = trust or is_trusted(cwd)
    project = open_project(Path(cwd), settings=settings_given, sources=sources, bare=bare, trusted=trusted)
    settings = project.settings
    if settings.fallback_models and "fallback_models" not in values:
        values["fallback_models"] = settings.fallback_models
    going_on = resume is not None or latest
    if going_on:
        from .resuming import find_log
    return Asked(
        prompt=prompt,
        model=model or settings.model or ("" if going_on else DEFAULT_MODEL),
        base_url=options["base_url"],
        values=values,
        system=(options["system_prompt"], options["append_system_prompt"]),
        token_budget=budget,
        allow=allow,
        deny=deny,
        mode=permission_mode or settings.mode or "default",
        add_dirs=options["add_dirs"],
        project=project,
        servers=options["mcp_given"],
        bare=bare,
        summaries=options["tool_summary_model"],
        cwd=Path(cwd),
        log=log,
        warnings=(*unknown_allowed, *unknown_denied),
        partial=partial,
        resume=find_log(resume, cwd) if going_on else None,
        cwd_given=cwd != ".",
        mode_given=permission_mode is not None,
        log_sync=options["log_sync"],
    )


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the configuration: those with options of their own, and ``--set``."""
    values = read_set(options["pairs"])
    dollars, schema = options["max_budget_usd"], options.get("json_schema")
    given: dict[str, Any] = {
        "fallback_models": options["fallbacks"] or None,
        "max_turns": options["max_turns"],
        "max_budget": None if dollars is None else read_dollars(dollars),
        "effort": options["effort"],
        "output_schema": None if schema is None else read_schema(schema),
    }
    for key, value in given.items():
        if value is not None and key in values:
            raise Problem(f"--set {key}: the same is given by another option")
    values.update((key, value) for key, value in given.items() if value is not None)
    return values
