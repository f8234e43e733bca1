"""Messages that need no rule are told apart from those that do, for any messages."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.messages import Message
from fsm_agent.core.request.normalise import Rules, is_plain, normalise

from ..histories import arbitrary, sensible


@settings(max_examples=300)
@given(
    st.one_of(arbitrary(3), sensible(4).map(lambda pieces: pieces[-1])),
    st.booleans(),
    st.sampled_from([(), ("mcp-client-x",), ("compact-x",)]),
    st.sampled_from([(), (frozenset({"u1-0", "a"}),)]),
)
def test_what_is_plain_is_sent_as_it_is(
    messages: tuple[Message, ...], thinking: bool, betas: tuple[str, ...], used: tuple[frozenset[str], ...]
) -> None:
    """Where nothing is said to be done, the rules would leave the messages as they are."""
    rules = Rules(model="m", thinking=thinking, betas=betas, used=used, first=False)
    if is_plain(messages, used):
        assert normalise(messages, rules) == messages


def test_a_round_of_tools_is_plain() -> None:
    """A conversation as a run makes it is mostly plain, so the quick way is the usual one."""
    seen: list[bool] = []

    @settings(max_examples=50, database=None)
    @given(sensible(6))
    def look(pieces: tuple[tuple[Message, ...], ...]) -> None:
        seen.extend(is_plain(piece, ()) for piece in pieces[1:])

    look()
    assert sum(seen) > len(seen) // 10
