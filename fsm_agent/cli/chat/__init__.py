"""``fsm-agent chat``: talk to the agent in a terminal."""

from __future__ import annotations

from typing import Any

from ..rule_options import RuleCommand
from ..run import command as run_command

_NOT_HERE = ("prompt", "log", "json_schema", "token_budget", "output_format", "include_partial_messages")
_EPILOG = """\b
Examples:
  fsm-agent chat
  fsm-agent chat --model claude-opus-5-5 --permission-mode acceptEdits
  fsm-agent chat --continue"""


def _chat(**options: Any) -> int:
    """Talk to the agent.

    While it works, Enter queues what you type for its next round, Esc then Enter sends it at once. Ctrl-C interrupts, twice
    leaves. /help lists the commands; @path attaches a file. What needs your permission is asked.

    The first time in a folder whose files would grant something, you are asked whether you trust it. Needs the extra
    'chat': pip install 'fsm_agent[chat]'.
    """
    from .start import start_chat

    return start_chat(options)


command = RuleCommand(
    "chat",
    callback=_chat,
    help=_chat.__doc__,
    epilog=_EPILOG,
    params=[param for param in run_command.params if param.name not in _NOT_HERE],
)
