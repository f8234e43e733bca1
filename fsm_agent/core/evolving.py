"""``evolve`` for frozen records, less than half the price of the one in ``attrs``; type checkers see that one."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from attrs import fields

if TYPE_CHECKING:
    from attrs import evolve
else:
    _SHAPES = {}

    def _shape(cls):
        names = [field.name for field in fields(cls)]
        get = attrgetter(*names) if len(names) > 1 else lambda old: (getattr(old, names[0]),)
        shape = _SHAPES[cls] = (get, {name: place for place, name in enumerate(names)})
        return shape

    def evolve(old, /, **changes):
        """Build a record like ``old`` with some fields replaced.

        Raises:
            TypeError: for a field that the record does not have.
        """
        cls = old.__class__
        get, places = _SHAPES.get(cls) or _shape(cls)
        values = list(get(old))
        for name, value in changes.items():
            if name not in places:
                raise TypeError(f"{cls.__name__} has no field {name!r}")
            values[places[name]] = value
        return cls(*values)


__all__ = ["evolve"]
