"""The entry point. Commands are loaded when they are used, so that help costs nothing; errors are one line each."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import IO, Any, NoReturn

import click

from . import signals
from .console import VERBOSE, say
from .problems import FAILED, INTERRUPTED, USAGE, Problem, Stopped

NAME = "fsm-agent"
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Repair a small broken project, with nothing to set up."),
    "run": ("run", "Run one prompt to its end."),
    "chat": ("chat", "Talk to the agent."),
    "serve": ("serve", "Serve a scenario as the Messages API, for any client."),
    "logs": ("logs", "List the logs."),
    "show": ("show", "Show the steps of a log."),
    "replay": ("replay", "Replay a log, and compare."),
    "diff": ("diff", "Find the first difference between two logs."),
    "resume": ("resume", "Go on where a log stops."),
    "fork": ("fork", "Go on from any record of a log, in a new one."),
    "context": ("context", "Show what a request held, layer by layer."),
    "models": ("models", "Show or refresh what models can do and cost."),
    "view": ("view", "Make one HTML file of a log, to look through it."),
    "export": ("export", "Export a log as messages or spans."),
    "import": ("import_transcript", "Make a log from another agent's transcript."),
    "diagram": ("diagram", "Draw the machine, or the path of a run."),
    "explore": ("explore", "Explore the bounded machine, and judge every law on it."),
    "doctor": ("doctor", "Check what the command line needs."),
}
"""Name, module of this package with a ``command``, and one line of help."""


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands, in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, summary = COMMANDS[cmd_name]
        command: click.Command = import_module(f"{__package__}.{module}").command
        command.short_help = summary
        if all(parameter.name != "verbose" for parameter in command.params):
            command.params.append(_verbose_option())
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list from the table above, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown one name the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            near = get_close_matches(args[0], COMMANDS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


def _verbose_option() -> click.Option:
    def note(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.find_root().meta[VERBOSE] = True

    return click.Option(
        ["--verbose"],
        is_flag=True,
        expose_value=False,
        callback=note,
        help="Say more; show the traceback of an unexpected error.",
    )


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"{NAME} {version('fsm_agent')}")
        except PackageNotFoundError:
            click.echo(f"{NAME} (not installed)")
        ctx.exit()


@click.group(
    cls=Commands,
    epilog="Example: fsm-agent demo",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and leave."
)
def cli() -> None:
    """Run AI agents whose loop is an explicit finite-state machine.

    Exit codes: 0 success; 1 the run ended otherwise; 2 wrong use or configuration; 3 a log is damaged or a replay
    diverged; 4 a limit was reached; 5 refused; 6 the API failed; 130 interrupted; 143 terminated.
    """


cli.params.append(_verbose_option())


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line in this process.

    Args:
        args: the arguments, by default those of the process.

    Returns:
        The exit code. Errors have been shown.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    verbose = "--verbose" in arguments
    try:
        code = _invoke(arguments or ["--help"])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence()
        return FAILED
    except Stopped as stopped:
        return stopped.code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except Problem as problem:
        say(problem.message)
        return problem.code
    except click.UsageError as error:
        say(_usage_line(error))
        return USAGE
    except click.ClickException as error:
        say(error.format_message())
        return error.exit_code
    except Exception as error:
        return _unexpected(error, verbose)


def _invoke(arguments: list[str]) -> int:
    try:
        result = cli.main(args=arguments, prog_name=NAME, standalone_mode=False)
    except SystemExit as left:  # click leaves so when the reader of its output has gone
        result = left.code
    return result if isinstance(result, int) else 0


_EXTRA = {
    "demo": "; a scenario is named by --scenario",
    "run": "; a prompt of several words needs quotes",
    "resume": "; a prompt of several words needs quotes",
}
"""What was probably meant by an argument too many."""


def _usage_line(error: click.UsageError) -> str:
    path = NAME if error.ctx is None else error.ctx.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    if "unexpected extra argument" in message:
        message += _EXTRA.get(path.rpartition(" ")[2], "")
    return f"{message} (see: {path} --help)"


def _unexpected(error: Exception, verbose: bool) -> int:
    if verbose:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{error.strerror}" + ("" if verbose else "; for more, add --verbose"))
        return FAILED
    from ..runtime.faults import describe

    say(f"unexpected {describe(error)}" + ("" if verbose else "; for the traceback, add --verbose"))
    return FAILED


def _silence() -> None:
    """The reader has gone: nothing that is still in a buffer may be written, or complained about, at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _to_nowhere(stream)


def _to_nowhere(stream: IO[Any]) -> None:
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError, AttributeError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _open_streams() -> None:
    """Streams that were closed go nowhere; what a terminal's encoding lacks is shown escaped."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - stays open to the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def main() -> NoReturn:
    """Run the command line and leave the process."""
    _open_streams()
    signals.install()
    sys.exit(run())


if __name__ == "__main__":
    main()
