"""Hypothesis strategies for the contract's classes, made from the same type hints as the codec."""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import Any, assert_never

from hypothesis import strategies as st

from fsm_agent.core.config import ConfigError, LoopConfig
from fsm_agent.core.wire import Request, WireMessage
from fsm_agent.log.shapes import Choice, Fixed, Flag, Many, Maybe, Raw, Record, Shape, Text, Whole, Word, fields_of

TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", " ", "\n", '"', "\\", "\x00", "\x7f", "\u2028", "é", "\U0001f600", '{"a":1}', "\ud800", "</script>"]),
)
WHOLES = st.one_of(st.integers(-3, 3), st.integers(-(2**70), 2**70))


def words(kinds: type[StrEnum]) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(kinds))


def of(shape: Shape) -> st.SearchStrategy[Any]:
    match shape:
        case Text():
            return TEXTS
        case Whole():
            return WHOLES
        case Flag():
            return st.booleans()
        case Raw():
            return st.one_of(st.binary(max_size=6), TEXTS.map(lambda text: text.encode("utf-8", "replace")))
        case Word():
            return words(shape.words)
        case Many():
            return st.lists(of(shape.item), max_size=2).map(frozenset if shape.unordered else tuple)
        case Fixed():
            return st.tuples(*[of(item) for item in shape.items])
        case Maybe():
            return st.one_of(st.none(), of(shape.item))
        case Record():
            return values(shape.cls)
        case Choice():
            return st.one_of([values(cls) for cls in shape.classes])
        case _ as never:
            assert_never(never)


@cache
def values(cls: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of an attrs class; a field with a default has it about half of the time."""
    if cls is LoopConfig:
        return configs()
    fields: dict[str, st.SearchStrategy[Any]] = {}
    if cls is Request:
        # Requests that could be sent: names have no lone surrogates, values of a header no commas.
        betas = st.lists(st.text("abc-", min_size=1, max_size=8), max_size=2).map(tuple)
        fields = {"model": st.text("abc-é", max_size=8), "betas": betas}
    if cls is WireMessage:
        fields = {"chain": st.text("0123456789abcdef", max_size=8)}
    if cls is WireMessage:
        fields = {"chain": st.text("0123456789abcdef", max_size=8)}
    for field in fields_of(cls):
        if field.name in fields:
            continue
        fields[field.name] = of(field.shape) if field.required else st.one_of(st.just(field.default), of(field.shape))
    return st.builds(cls, **fields)


def configs() -> st.SearchStrategy[LoopConfig]:
    """Valid configurations: those that the class itself accepts."""
    naturals = st.integers(1, 10**6)
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields_of(LoopConfig):
        free = naturals if field.shape in (Whole(), Maybe(Whole())) else of(field.shape)
        fields[field.name] = st.just(field.default) if field.name in ("context", "cancel_siblings_on") else free

    def build(values: dict[str, Any]) -> LoopConfig | None:
        try:
            return LoopConfig(**values)
        except ConfigError:
            return None

    fields["models"] = st.just(())
    return st.fixed_dictionaries(fields).map(build).filter(lambda config: config is not None)  # type: ignore[return-value]
