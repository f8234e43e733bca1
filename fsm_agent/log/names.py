"""Names that mean nothing by themselves: ids of runs and of what the API gave, each known by when it first came."""

from __future__ import annotations

import re
from typing import Any

_ID_KEYS = frozenset(("id", "run_id", "message_id", "request_id", "command_id", "span"))
_WORD = re.compile(r"\\[nrtbf]|[A-Za-z0-9_]+")
"""A word; many texts are JSON, where the letter of an escape is none of the word behind it."""
_SHORTEST = 6
"""Characters of an id that is also known where a text mentions it; a shorter one may be any word."""


class Names:
    """The ids of one log, each replaced by a word that says how many came before it.

    Two logs that differ in their ids only are equal under their names. Ids of the engine are ``<run>/<what>-<number>``: the
    run is a name, and what stands behind it counts.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def learn(self, value: Any) -> None:
        """Take up the ids in a decoded JSON value, in the order in which they come."""
        if isinstance(value, dict):
            for key, part in value.items():
                if isinstance(part, str):
                    if key in _ID_KEYS and part:
                        name = part.partition("/")[0]
                        self._known.setdefault(name, f"<id {len(self._known) + 1}>")
                else:
                    self.learn(part)
        elif isinstance(value, list):
            for part in value:
                if not isinstance(part, str):
                    self.learn(part)

    def plain(self, text: str, key: str = "") -> str:
        """Give a text with words in the place of the ids that it holds.

        Args:
            text: the text.
            key: the field that it stands in; a field for ids holds one, whatever it looks like.
        """
        if key in _ID_KEYS:
            name, slash, rest = text.partition("/")
            return self._known.get(name, name) + slash + rest
        return _WORD.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        word = found[0]
        if len(word) < _SHORTEST or word.isalpha():
            return word
        return self._known.get(word, word)
