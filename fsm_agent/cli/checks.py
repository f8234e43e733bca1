"""The checks of ``doctor``. None of them changes anything; each ends within a few seconds."""

from __future__ import annotations

import http.client
import os
import platform
import re
import shutil
import subprocess
import sys
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from urllib.parse import urlsplit

from attrs import frozen

from .places import check_writable, log_folder
from .problems import Problem

_SECONDS = 3.0
"""How long one check may wait for a program or a server."""
PUBLIC = "https://api.anthropic.com"


class Level(StrEnum):
    """How much a lack matters."""

    NECESSARY = "necessary"
    USEFUL = "useful"


@frozen
class Check:
    """What one check found.

    Attributes:
        name: what was looked at.
        good: it is there.
        found: a version, a place, or what is wrong.
        level: how much a lack matters.
        cost: what the lack costs; empty if nothing lacks.
    """

    name: str
    good: bool
    found: str
    level: Level = Level.USEFUL
    cost: str = ""

    @property
    def word(self) -> str:
        """One word for people."""
        if self.good:
            return "ok"
        return "MISSING" if self.level is Level.NECESSARY else "missing"


def all_checks(base_url: str | None = None, *, offline: bool = False) -> list[Check]:
    """Run every check.

    Args:
        base_url: of the API; None for ``ANTHROPIC_BASE_URL`` or the public one.
        offline: try no connection.
    """
    checks = [_python(), *_packages(), *_extras(), _bash(), _graphviz(), _ripgrep(), _logs(), _key()]
    if not offline:
        checks.append(_server(base_url or os.environ.get("ANTHROPIC_BASE_URL") or PUBLIC))
    return checks


def _check(name: str, good: bool, found: str, cost: str, level: Level = Level.USEFUL) -> Check:
    return Check(name, good, found, level, "" if good else cost)


def _python() -> Check:
    good = sys.version_info >= (3, 11)
    found = f"{platform.python_version()} at {sys.executable}"
    return _check("Python", good, found, "3.11 or newer is needed", Level.NECESSARY)


def _packages() -> list[Check]:
    """Look at what the installed package asks for; extras are left out."""
    try:
        wanted = [text for text in requires("fsm_agent") or [] if "extra ==" not in text]
    except PackageNotFoundError:
        return [Check("fsm_agent", False, "not installed", Level.NECESSARY, "install it: pip install fsm_agent")]
    return [_check("fsm_agent", True, version("fsm_agent"), ""), *(_package(text) for text in wanted)]


EXTRAS = {
    "chat": "the line editor of chat: it reads plain lines",
    "mcp": "the tools of MCP servers",
    "otel": "spans for OpenTelemetry",
}
"""What each extra adds; those for working on the package itself are not named."""


def _extras() -> list[Check]:
    """Look at the extras that a user may want."""
    try:
        wanted = requires("fsm_agent") or []
    except PackageNotFoundError:
        return []
    checks = []
    for extra, use in EXTRAS.items():
        texts = [text.split(";", 1)[0].strip() for text in wanted if re.search(rf"extra == ['\"]{extra}['\"]", text)]
        parts = [_package(text) for text in texts]
        found = ", ".join(f"{part.name} {part.found}" for part in parts)
        checks.append(_check(f"[{extra}]", all(part.good for part in parts), found, f"{use}; pip install 'fsm_agent[{extra}]'"))
    return checks


def _package(text: str) -> Check:
    name = text
    for sign in "<>=!~;[ (":
        name = name.split(sign, 1)[0]
    asked = text[len(name) :].strip()
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, False, "not installed", Level.NECESSARY, f"pip install '{text}'")
    good = _fits(found, asked)
    return _check(name, good, found if good else f"{found}, asked for {asked}", f"pip install '{text}'", Level.NECESSARY)


def _fits(found: str, asked: str) -> bool:
    """Compare a version with ``>=a,<b``; other conditions are left to the installer."""
    for condition in asked.split(","):
        for sign in (">=", "<"):
            if condition.startswith(sign):
                least = _numbers(condition[len(sign) :])
                if (_numbers(found) >= least) != (sign == ">="):
                    return False
                break
    return True


def _numbers(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _program(name: str, *arguments: str) -> str:
    """Give the first line that a program says of itself; empty if it is not there or does not answer."""
    path = shutil.which(name)
    if path is None:
        return ""
    try:
        said = subprocess.run(
            [path, *arguments], capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (said.stdout or said.stderr).strip().splitlines()
    return f"{lines[0].strip()} at {path}" if lines else path


def _bash() -> Check:
    found = _program("bash", "--version")
    return _check("bash", bool(found), found or "not found", "the tool Bash fails, and command hooks too")


def _graphviz() -> Check:
    found = _program("dot", "-V")
    cost = "diagram draws no SVG and PNG (dot, mermaid and scxml work); install graphviz"
    return _check("Graphviz", bool(found), found or "not found", cost)


def _ripgrep() -> Check:
    found = _program("rg", "--version")
    return _check("ripgrep", bool(found), found or "not found", "Grep searches in Python, which is slower on large trees")


def _logs() -> Check:
    cost = "run needs --log FILE for each run, or XDG_STATE_HOME set to a folder that can be written"
    try:
        folder = log_folder()
    except Problem as problem:
        return Check("log folder", False, problem.message, Level.USEFUL, cost)
    why = check_writable(folder) or _try_write(folder)
    return _check("log folder", not why, why or str(folder), cost)


def _try_write(folder: Path) -> str:
    """Say why no file can be made there; permissions alone do not tell of a disk that is full or read-only."""
    place = folder
    while not place.exists():
        place = place.parent
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"x")
    except OSError as error:
        return f"{place}: {error.strerror}"
    return ""


def _key() -> Check:
    names = (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_PROFILE",
        "ANTHROPIC_IDENTITY_TOKEN",
        "ANTHROPIC_IDENTITY_TOKEN_FILE",
    )
    given = [name for name in names if os.environ.get(name)]
    cost = "run needs a --base-url that asks for no key; demo, serve and replay need none"
    return _check("API key", bool(given), ", ".join(given) or "none is set", cost)


def _server(url: str) -> Check:
    """Open a connection and ask for anything: whatever answers is reachable. No key is sent."""
    cost = "run cannot call the model; demo, serve and replay work"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        return Check("API server", False, f"{url} is no URL", Level.USEFUL, cost)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, port, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/v1/models")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return Check("API server", False, f"{url}: {error or type(error).__name__}", Level.USEFUL, cost)
    finally:
        connection.close()
    return _check("API server", True, f"{url} answers ({status})", cost)
