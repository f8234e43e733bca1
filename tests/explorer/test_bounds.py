"""Bounds that cannot hold are refused where they are made, in one line."""

from __future__ import annotations

import re
from typing import Any

import pytest
from attrs import evolve, fields

from fsm_agent.cli.main import run
from fsm_agent.core.config import ConfigError, LoopConfig
from fsm_agent.core.failures import ErrorKind
from fsm_agent.explorer.bounds import Bounds, Form, Piece, Start
from fsm_agent.explorer.explore import explore
from fsm_agent.explorer.matrix import CI, RELEASE

NUMBERS = [one.name for one in fields(Bounds) if isinstance(one.default, int) and not isinstance(one.default, bool)]
SWITCHES = [one.name for one in fields(Bounds) if isinstance(one.default, bool)]
SEVERAL = [one.name for one in fields(Bounds) if isinstance(one.default, tuple)]


def test_every_bound_is_of_a_known_kind() -> None:
    """A bound is a number, a switch, or several values: each is checked below."""
    assert len(NUMBERS) + len(SWITCHES) + len(SEVERAL) == len(fields(Bounds))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    """No number is negative, a text, a switch, or nothing; a session has a run at least."""
    least = 1 if name == "runs" else 0
    assert getattr(Bounds(**{name: least}), name) == least
    wrong: list[Any] = [least - 1, "3", True, None, 2.0]
    for value in wrong:
        with pytest.raises(ConfigError, match=f"{name} is a whole number of at least {least}, not {value!r}"):
            Bounds(**{name: value})


@pytest.mark.parametrize("name", SWITCHES)
def test_switches(name: str) -> None:
    """A switch is true or false."""
    with pytest.raises(ConfigError, match=f"{name} is true or false, not 1"):
        Bounds(**{name: 1})


@pytest.mark.parametrize("name", SEVERAL)
def test_several_values(name: str) -> None:
    """One value where several may be, and one that is unknown, are refused; what a bound is by default may be given."""
    assert Bounds(**{name: getattr(Bounds(), name)}) == Bounds()
    with pytest.raises(ConfigError, match=re.escape(f"{name} are several values; write (5,)")):
        Bounds(**{name: 5})
    with pytest.raises(ConfigError, match=f"{name} are several values"):
        Bounds(**{name: "text"})
    with pytest.raises(ConfigError, match=f"there is no word for {name} 'nosuch'|{name} is a whole number"):
        Bounds(**{name: ("nosuch",)})


def test_words_are_members() -> None:
    """Members of closed lists may be given as their words; the nearest word is told for one that is none."""
    made = Bounds(pieces=("text",), forms=("old",), errors=("overloaded",), starts=("budget",))
    assert made == Bounds(pieces=(Piece.TEXT,), forms=(Form.OLD,), errors=(ErrorKind.OVERLOADED,), starts=(Start.BUDGET,))
    assert type(made.pieces[0]) is Piece
    with pytest.raises(ConfigError, match="there is no word for compactions 'smal'; did you mean 'small'"):
        Bounds(compactions=("smal",))


@pytest.mark.parametrize("name", ["usage", "starts"])
def test_what_must_be_there(name: str) -> None:
    """Without a start nothing begins, and without a count no reply is complete: nothing would be explored."""
    with pytest.raises(ConfigError, match=f"{name} is empty; there must be at least one"):
        evolve(Bounds(), **{name: ()})


def test_the_cases_hold() -> None:
    """Every case of the matrix has bounds that hold when they are made anew."""
    for case in (*CI, *RELEASE):
        assert evolve(case.bounds) == case.bounds


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ("runs=0", "--bound runs=0: runs is a whole number of at least 1, not 0"),
        ('kinds=["x"]', "--bound kinds=[\"x\"]: there is no word for kinds 'x'; there are read, safe, write"),
        ("usage=[]", "--bound usage=[]: "),
    ],
)
def test_on_the_command_line(bound: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same is said there, in a line, before anything is explored."""
    assert run(["explore", "limits", "--jobs", "1", "--bound", bound]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("settings", [{"sample": 0}, {"twins": -1}, {"jobs": 0}, {"jobs": 1.5}])
def test_settings_of_a_search(settings: Any) -> None:
    """What a search could not be made with is refused too."""
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name}=.*: must be a whole number of at least"):
        explore(LoopConfig(model="m"), Bounds(depth=1), (), **settings)
