"""``frozen`` of attrs, with a constructor that costs less than half; type checkers see that one.

A step builds some ten records and does little else. attrs gives a frozen class a constructor that goes past the guard
for each field, by ``object.__setattr__``, which is most of what a record costs. Here the fields are set on an open twin of
the class, by plain assignments, and the finished object then becomes one of the frozen class. Nobody sees the twin.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from attrs import NOTHING, Factory, define, fields, setters

T = TypeVar("T")

if TYPE_CHECKING:
    from attrs import frozen
else:
    from attrs import frozen as _guarded

    class Record(type):
        """The class of frozen classes: calling one of them calls its open twin."""

        __call__ = property(attrgetter("_open"))

    def frozen(cls):
        """Make a frozen, slotted attrs class of ``cls``."""
        body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        check = body.pop("__attrs_post_init__", None)
        # Two objects of one layout can change classes; the place for weak references would stand in the way.
        made = _guarded(Record(cls.__name__, cls.__bases__, dict(body)), init=False, weakref_slot=False)

        twin = define(
            type(cls.__name__, cls.__bases__, body),
            init=False,
            eq=False,
            repr=False,
            match_args=False,
            weakref_slot=False,
            on_setattr=setters.NO_OP,
        )
        twin.__init__ = made.__init__ = _constructor(fields(twin), made, check)  # of the frozen class it is only looked at
        made._open = twin
        return made

    def _constructor(places, made, check):
        """Write the constructor: it sets each field, and closes the record."""
        plain = [place.name for place in places if place.init and place.converter is place.validator is None]
        assert len(plain) == len(places), "a record's fields are set as they come"
        known = {f"default_{place.name}": place.default for place in places if place.default is not NOTHING}
        assert not any(isinstance(value, Factory) for value in known.values()), "a default is a value"
        parameters = [f"{name}=default_{name}" if f"default_{name}" in known else name for name in plain]
        lines = [f"def __init__(self, {', '.join(parameters)}):", *[f"    self.{name} = {name}" for name in plain]]
        lines += ["    self.__class__ = made", *(["    check(self)"] if check else [])]
        scope = {"made": made, "check": check, **known}
        exec("\n".join(lines), scope)
        return scope["__init__"]

def maker(cls: type[T]) -> type[T]:
    """Give what a call of a class ends in: the quickest way to make many objects of it."""
    made: type[T] = getattr(cls, "_open", cls)
    return made


__all__ = ["frozen", "maker"]
