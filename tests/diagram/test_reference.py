"""The reference pages are made from the declaration, and the committed ones are up to date."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve, fields

from fsm_agent.core.config import ContextConfig, LoopConfig
from fsm_agent.core.control import Control
from fsm_agent.core.phases import CAUSES, TERMINAL_SET, Phase
from fsm_agent.core.rank import Rank, bound
from fsm_agent.core.rows import TABLE
from fsm_agent.core.state import Data
from fsm_agent.core.table import Ignore
from fsm_agent.diagram.bound_page import bound_page
from fsm_agent.diagram.reference import table_page, terminals_page
from fsm_agent.diagram.settings_page import settings_page
from fsm_agent.explorer.bounds import Bounds
from fsm_agent.laws import Edge
from fsm_agent.session.endings import ENDINGS
from fsm_agent.testing.kit_page import kit_page

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def test_committed_table_is_up_to_date() -> None:
    """``docs/reference/table.md`` equals what the table makes; ``python docs/regenerate.py`` mends it."""
    assert (REFERENCE / "table.md").read_text(encoding="utf-8") == table_page()


def test_committed_endings_are_up_to_date() -> None:
    """``docs/reference/terminals.md`` equals what the table of endings makes."""
    assert (REFERENCE / "terminals.md").read_text(encoding="utf-8") == terminals_page(ENDINGS)


def test_committed_settings_are_up_to_date() -> None:
    """``docs/reference/settings.md`` equals what the declaration makes, and every setting is told of once."""
    page = settings_page()
    assert (REFERENCE / "settings.md").read_text(encoding="utf-8") == page
    for one in (*fields(LoopConfig), *fields(ContextConfig)):
        assert page.count(f"| `{one.name}` |") == 1


def test_committed_bound_is_up_to_date() -> None:
    """``docs/reference/bound.md`` equals what the ranking makes; the product of the default's sizes is its bound."""
    page = bound_page()
    assert (REFERENCE / "bound.md").read_text(encoding="utf-8") == page
    product = 1
    for name in Rank._fields:
        (line,) = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        product *= int(line.split("|")[3].replace(",", ""))
    assert product == bound(LoopConfig(model="m"))
    assert f"| **B** | the product | {product:,} |" in page


def test_every_row_and_every_blank_is_there() -> None:
    """Each row is a line, and each cell without rows is named with its reason."""
    page = table_page()
    for row in TABLE.rows:
        assert page.count(f"| `{row.name}` | `{row.event}` |") == 1
        assert row.text in page
    for phase in Phase:
        assert (f"## `{phase}`" in page) is (phase not in TERMINAL_SET)
    for entry in TABLE.rejects:
        assert any(f"`{entry.event}`" in line and entry.because in line for line in page.splitlines())


def test_ignores_are_summed_up_too() -> None:
    """A cell that ignores its event is told apart from one that rejects it."""
    reject = TABLE.rejects[0]
    ignore = Ignore(name="quiet", source=reject.source, event=reject.event, because="it does no harm")
    page = table_page(evolve(TABLE, rejects=TABLE.rejects[1:], ignores=(ignore,)))
    assert f"- ignores `{reject.event}`: it does no harm." in page


def test_every_ending_is_there() -> None:
    """Each (reason, cause) of the core has one line with its exit code."""
    page = terminals_page(ENDINGS)
    for reason, causes in CAUSES.items():
        for cause in causes:
            lines = [line for line in page.splitlines() if line.startswith(f"| `{reason}` |") and f"`{cause}`" in line]
            assert len(lines) == 1
            assert f"| {ENDINGS[reason, cause].exit_code} |" in lines[0]


def test_committed_page_of_laws_is_up_to_date() -> None:
    """``docs/reference/laws.md`` equals what the classes make; nothing that a law sees and no bound is left out or blank."""
    page = kit_page()
    assert (REFERENCE / "laws.md").read_text(encoding="utf-8") == page
    for name in (*Edge.__slots__, "quiet", "source", *(one.name for one in fields(Bounds))):
        assert f"\n| `{name}` | " in page, name
    for owner in (Control, Data):
        for one in fields(owner):
            assert f"\n| `{one.name}` | `" in page, one.name
    assert [line for line in page.splitlines() if line.endswith("|  |")] == []
