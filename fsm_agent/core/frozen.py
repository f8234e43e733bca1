"""``frozen`` of attrs, with a constructor that costs less than half; type checkers see that one.

A step builds some ten records and does little else. attrs gives a frozen class a constructor that goes past the guard
for each field, by ``object.__setattr__``, which is most of what a record costs. Here the fields are set on an open twin of
the class, by plain assignments, and the finished object then becomes one of the frozen class. Nobody sees the twin.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from attrs import define, setters

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

        def close(self):
            self.__class__ = made

        def close_and_check(self):
            self.__class__ = made
            check(self)

        twin = type(cls.__name__, cls.__bases__, body | {"__attrs_post_init__": close if check is None else close_and_check})
        made._open = define(twin, eq=False, repr=False, match_args=False, weakref_slot=False, on_setattr=setters.NO_OP)
        made.__init__ = made._open.__init__  # for who looks at the signature; it is never called
        return made


def maker(cls: type[T]) -> type[T]:
    """Give what a call of a class ends in: the quickest way to make many objects of it."""
    made: type[T] = getattr(cls, "_open", cls)
    return made


__all__ = ["frozen", "maker"]
