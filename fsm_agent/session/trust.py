"""Which folders the user trusts: what lies in any other may restrict the agent, and grants it nothing (spec 03, Trust)."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path

from ..runtime.tools.paths import is_inside


class TrustError(OSError):
    """The list of trusted folders cannot be read or written."""


class TrustStore:
    """The list of trusted folders, one JSON file of the user's.

    A folder is trusted if it, or a folder above it, is on the list; links are resolved on both sides.

    Args:
        path: the file; it is made when something is trusted.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def trusts(self, folder: str | os.PathLike[str]) -> bool:
        """True if the user trusts this folder. A list that cannot be read trusts nothing."""
        real = os.path.realpath(folder)
        try:
            return any(is_inside(real, root) for root in self._folders())
        except TrustError:
            return False

    def trust(self, folder: str | os.PathLike[str]) -> None:
        """Put a folder on the list.

        Raises:
            TrustError: if the list cannot be read or written; nothing is changed then.
        """
        real = os.path.realpath(folder)
        folders = self._folders()
        if real in folders:
            return
        text = json.dumps({"trusted": [*folders, real]}, ensure_ascii=False, indent=2) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = self.path.with_name(f"{self.path.name}.{secrets.token_hex(4)}")
            try:
                with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(beside, self.path)
            except BaseException:
                with contextlib.suppress(OSError):
                    beside.unlink()
                raise
        except OSError as error:
            raise TrustError(f"{self.path}: {error.strerror or error}") from None

    def _folders(self) -> list[str]:
        try:
            value = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise TrustError(f"{self.path}: {error.strerror}") from None
        except ValueError:
            raise TrustError(f"{self.path}: is no JSON") from None
        folders = value.get("trusted") if isinstance(value, dict) else None
        if not isinstance(folders, list) or not all(isinstance(item, str) and os.path.isabs(item) for item in folders):
            raise TrustError(f"{self.path}: has no list of absolute paths under 'trusted'")
        return folders


def state_folder() -> Path:
    """Give the folder in which the user's state is kept: ``$XDG_STATE_HOME/fsm-agent``, else below the home directory.

    Raises:
        RuntimeError: if there is no home directory.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "fsm-agent"


def default_store() -> TrustStore:
    """Give the user's own list."""
    return TrustStore(state_folder() / "trusted.json")
