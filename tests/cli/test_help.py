"""Help: there for each command, with an example, and free of cost."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from fsm_agent.cli.main import COMMANDS
from fsm_agent.cli.main import cli as group
from fsm_agent.cli.rule_options import TOOLS
from fsm_agent.cli.running import Asked
from fsm_agent.runtime.permissions.modes import Mode
from fsm_agent.runtime.tools.builtin import builtin_tools

from .conftest import Cli

HEAVY = ("anthropic", "aiohttp", "anyio", "asyncio", "attr", "rich", "yaml", "transitions", "graphviz", "fsm_agent.core")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(cli: Cli, name: str) -> None:
    """``--help`` tells how to use a command, and shows an example of it."""
    said = cli(name, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: fsm-agent {name}")
    assert "Example" in said.out
    assert f"fsm-agent {name}" in said.out.partition("Example")[2]


def test_help_names_every_command(cli: Cli) -> None:
    """The list of commands is there for ``--help``, ``-h``, and for no argument at all."""
    for arguments in (["--help"], ["-h"], []):
        said = cli(*arguments)
        assert (said.code, said.err) == (0, "")
        assert all(f"\n  {name} " in said.out for name in COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    """Help needs no SDK, no core, no event loop."""
    script = (
        "import sys\n"
        "from fsm_agent.cli.main import run\n"
        "assert run(['--help']) == 0\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("module", ["fsm_agent", "fsm_agent.cli.main"])
def test_the_module_is_the_command(module: str) -> None:
    """Run as a module, the package and its entry point do what the command does, with its exit codes."""
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "fsm-agent")
    wrong = subprocess.run([sys.executable, "-m", module, "nosuch"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "there is no command 'nosuch'" in wrong.stderr


def test_version(cli: Cli) -> None:
    """``--version`` names the package and its version."""
    said = cli("--version")
    assert said.code == 0
    assert said.out.split()[0] == "fsm-agent"


def test_names_written_out_are_those_of_the_parts() -> None:
    """The option list names tools and modes without importing them; they are the real ones."""
    assert sorted(TOOLS) == sorted(tool.name for tool in builtin_tools())
    context = click.Context(group)
    command = group.get_command(context, "run")
    assert command is not None
    modes = next(one for one in command.params if one.name == "permission_mode").type
    assert isinstance(modes, click.Choice)
    assert list(modes.choices) == [mode.value for mode in Mode]
    assert Asked.__name__ == "Asked"
