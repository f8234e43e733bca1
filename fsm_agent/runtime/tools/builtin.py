"""The built-in tools as a set."""

from __future__ import annotations

from .base import Tool
from .bash import Bash
from .edit import Edit
from .glob import Glob
from .grep import Grep
from .read import Read
from .write import Write


def builtin_tools() -> tuple[Tool, ...]:
    """Make the built-in tools, in the order in which the model sees them."""
    return (Bash(), Read(), Edit(), Write(), Glob(), Grep())
