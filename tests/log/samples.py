"""One fixed value of every class of the contract: with every field filled, or with the required ones only."""

from __future__ import annotations

from typing import Any, assert_never

from fsm_agent.core.config import LoopConfig
from fsm_agent.log.shapes import Choice, Fixed, Flag, Many, Maybe, Raw, Record, Shape, Text, Whole, Word, fields_of


def sample(cls: type[Any], *, full: bool) -> Any:
    """Make a value of ``cls``; ``full`` fills every field, else those with a default keep it."""
    if cls is LoopConfig:
        # Its values must hold together, so most keep their defaults.
        more = {"fallback_models": ("model-b",), "max_turns": 9, "user_context": "é \u2028"} if full else {}
        return LoopConfig(model="model-a", **more)
    fields = [field for field in fields_of(cls) if full or field.required]
    return cls(**{field.name: _value(field.shape, field.name, full) for field in fields})


def _value(shape: Shape, name: str, full: bool) -> Any:
    match shape:
        case Text():
            return f'{name} "é"\n'
        case Whole():
            return len(name)
        case Flag():
            return True
        case Raw():
            return b'{"role":"user"}'
        case Word():
            return list(shape.words)[-1]
        case Many():
            made = (_value(shape.item, name, full),) if full else ()
            return frozenset(made) if shape.unordered else made
        case Fixed():
            return tuple(_value(item, name, full) for item in shape.items)
        case Maybe():
            return _value(shape.item, name, full) if full else None
        case Record():
            return sample(shape.cls, full=full)
        case Choice():
            return sample(shape.classes[0], full=full)
        case _ as never:
            assert_never(never)
