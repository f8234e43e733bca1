"""Pictures: what they show, that they can be read, that the committed ones are those of the table."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import pytest
from attrs import evolve

from fsm_agent.core.events import EventKind
from fsm_agent.core.phases import TERMINAL, ContinueReason, Phase
from fsm_agent.core.rows import TABLE
from fsm_agent.core.table import RowKind
from fsm_agent.diagram import FOCI, FORMATS, MACHINE, DiagramError, Ink, Paint, counted, draw, stale, write_all
from fsm_agent.diagram.__main__ import main
from fsm_agent.diagram.dot import write_dot
from fsm_agent.diagram.layout import PLACES, ROUTES
from fsm_agent.diagram.mermaid import write_mermaid
from fsm_agent.diagram.model import Look, picture
from fsm_agent.diagram.render import carried_digest, digest, render_svg
from fsm_agent.diagram.scxml import NAMESPACE, write_scxml
from fsm_agent.diagram.style import BOXES, COVERED, LINES, MISSED, PAINTED, PARTLY

from .boxes import drawn, faults, has_helvetica, struck
from .runs import run

REPOSITORY = Path(__file__).resolve().parents[2]
PICTURES = (MACHINE, *FOCI)
SC = "{http://www.w3.org/2005/07/scxml}"


def test_committed_pictures_are_those_of_the_table() -> None:
    """Texts are equal, and SVG and PNG carry the digest of today's DOT; ``python -m fsm_agent.diagram`` mends it."""
    assert stale(REPOSITORY / "diagrams") == ()


def test_stale_pictures_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing file, a changed text and a picture of another table are each reported by name."""
    assert main([str(tmp_path)]) == 0
    assert stale(tmp_path) == ()
    (tmp_path / "machine.mmd").unlink()
    (tmp_path / "machine.dot").write_text("digraph old {}", encoding="utf-8")
    (tmp_path / "machine.svg").write_bytes(render_svg("digraph old {}"))
    (tmp_path / "tools.png").write_bytes((tmp_path / "machine.png").read_bytes())
    assert stale(tmp_path) == (
        "machine.svg was drawn from another table",
        "machine.dot differs from the table",
        "machine.mmd is missing",
        "tools.png was drawn from another table",
    )
    capsys.readouterr()
    assert main([str(tmp_path), "--check"]) == 1
    assert "machine.mmd is missing" in capsys.readouterr().out


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_hides_anything(name: str) -> None:
    """No box, label or text lies over another, and the picture fits a page at a size that can be read."""
    seen = drawn(write_dot(picture(name)))
    assert faults(seen, texts=has_helvetica()) == []
    assert seen.width <= 1100
    assert seen.labels


@pytest.mark.parametrize("name", ["repair", "fallback", "auto-compact", "stop-hook-blocking"])
def test_painted_paths_hide_nothing(name: str) -> None:
    """Counts make labels longer; they still lie over nothing, and no line runs through them."""
    _, _, driven = run(name)
    seen = drawn(write_dot(picture(), counted(driven.taken)))
    assert faults(seen, texts=False) == []
    assert not has_helvetica() or struck(seen) == []


@pytest.mark.parametrize("ink", list(Ink))
@pytest.mark.parametrize("counts", [(0,), (1,), (15,), (1_500,), (123_456,), (0, 3, 15), (0, 7)])
def test_nothing_of_the_machine_is_struck_through(ink: Ink, counts: tuple[int, ...]) -> None:
    """Whatever is painted on the machine, no line runs through words, and nothing lies over anything."""
    if ink is Ink.PATH and max(counts) > 15:
        return  # no run is as long as that
    paint = Paint(ink, {row.name: counts[place % len(counts)] for place, row in enumerate(TABLE.rows)})
    seen = drawn(write_dot(picture(), paint))
    assert faults(seen, texts=False) == []
    assert not has_helvetica() or struck(seen) == []


def test_the_machine_shows_every_row() -> None:
    """Each row of the table is on the picture of the whole, once, and each phase is there."""
    shown = picture()
    assert sorted(row.name for row in shown.rows if row.source is not Phase.READY or row.source is not row.target) == sorted(
        row.name for row in TABLE.rows if row.source is not Phase.READY or row.source is not row.target
    )
    assert {node.phase for node in shown.nodes} == set(Phase)
    tips = write_dot(shown)
    for row in TABLE.rows:
        if row.source is not row.target:
            assert f"{row.name}: " in tips


def test_every_edge_of_the_machine_has_a_declared_route() -> None:
    """No edge of today's table is drawn by the straight line for unknown ones, and no route is left over."""
    edges = {(arrow.source, arrow.target, arrow.look) for arrow in picture().arrows}
    assert edges == set(ROUTES)
    assert set(PLACES) == set(Phase)


def test_an_edge_without_a_route_is_drawn_all_the_same() -> None:
    """A row between two phases that no route joins appears as a straight edge with its name."""
    row = next(row for row in TABLE.rows if row.name == "round_done")
    table = evolve(TABLE, rows=(*TABLE.rows, evolve(row, name="shortcut", target=Phase.RUNNING_STOP_HOOKS)))
    text = write_dot(picture(table=table))
    assert re.search(r'running_tools -> running_stop_hooks \[pos="e,[^"]+", [^]]*label="shortcut', text)
    assert b"shortcut" in render_svg(text)


def test_kinds_are_told_apart_by_colour_and_line() -> None:
    """Continue, internal, terminal and abort edges differ in colour, and in style too."""
    assert len({line.color for line in LINES.values()}) == len(Look)
    assert len({line.style for line in LINES.values()}) == len(Look)
    for look, line in LINES.items():
        assert f'color="{line.color}", fontcolor="{line.text}", style={line.style}' in write_dot(picture()), look


def test_continue_reasons_are_words_on_the_picture() -> None:
    """All seven reasons can be read on the picture, and all ten terminal phases are in the frame of the ends."""
    svg = draw().decode()
    for reason in ContinueReason:
        assert f">{reason.value}<" in svg
    frame = write_dot(picture()).partition("subgraph cluster_ends {")[2].partition("  }\n")[0]
    assert all(f"{phase} [" in frame for phase in TERMINAL)


def test_pictures_are_equal_for_equal_tables() -> None:
    """DOT and Mermaid are functions of the table: two calls give the same bytes."""
    for name in PICTURES:
        assert write_dot(picture(name)) == write_dot(picture(name))
        assert write_mermaid(picture(name)) == write_mermaid(picture(name))


def test_a_changed_table_changes_the_digest() -> None:
    """A retargeted or renamed row is seen in the DOT, so a stale SVG or PNG is found."""
    row = next(row for row in TABLE.rows if row.name == "refusal")
    for changed in (evolve(row, target=Phase.MAX_TURNS), evolve(row, name="refused"), evolve(row, text="Another sentence.")):
        table = evolve(TABLE, rows=tuple(changed if row.name == "refusal" else row for row in TABLE.rows))
        assert digest(write_dot(picture(table=table))) != digest(write_dot(picture()))


def test_files_carry_their_digest_and_are_sound() -> None:
    """SVG is well-formed XML, PNG a chain of whole chunks; both give back the digest of their DOT."""
    wanted = digest(write_dot(picture("tools")))
    svg, png = draw("tools", "svg"), draw("tools", "png")
    assert ET.fromstring(svg).tag.endswith("svg")
    assert carried_digest(svg) == carried_digest(png) == wanted
    place, kinds = 8, []
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        body = png[place + 4 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length]) == (zlib.crc32(body),)
        kinds.append(body[:4])
        place += 12 + length
    assert kinds[0] == b"IHDR"
    assert kinds[-1] == b"IEND"
    assert carried_digest(b"<svg/>") == carried_digest(png[:8]) == ""


def test_paper_is_opaque() -> None:
    """The background is painted, so that the pictures can be read on dark pages; Mermaid sets the colour of all text."""
    for name in PICTURES:
        assert 'bgcolor="#ffffff"' in write_dot(picture(name))
        chart = write_mermaid(picture(name))
        assert all("color:" in text for text in chart.splitlines() if text.strip().startswith(("classDef", "style")))


def test_mermaid_has_every_edge() -> None:
    """Each edge of the picture is a link of the chart, styled by its number, and its phases are declared."""
    for name in PICTURES:
        shown = picture(name)
        chart = write_mermaid(shown)
        links = re.findall(r"^  (\w+) (?:==|--|-\.) \"[^\"]+\" (?:==>|-->|\.->) (\w+)$", chart, re.MULTILINE)
        assert links == [(arrow.source.value, arrow.target.value) for arrow in shown.arrows]
        styles = re.findall(r"^  linkStyle (\d+) ", chart, re.MULTILINE)
        assert styles == [str(number) for number in range(len(links) + len(shown.bundles))]


def test_scxml_is_the_table() -> None:
    """SCXML holds every row in first-match order, with its event, condition, target and name; stays have no target."""
    root = ET.fromstring(write_scxml(picture()))
    assert root.get("initial") == "ready"
    assert {state.get("id") for state in root.iter(f"{SC}final")} == {phase.value for phase in TERMINAL}
    rows = {row.name: row for row in TABLE.rows}
    seen: dict[tuple[Phase, EventKind], list[str]] = {}
    for state in root.iter(f"{SC}state"):
        for transition in state.iter(f"{SC}transition"):
            row = rows.pop(transition.get(f"{{{NAMESPACE}}}row", ""))
            assert state.get("id") == row.source
            assert transition.get("event") == (None if row.event is EventKind.AUTO else row.event.value)
            assert transition.get("target") == (None if row.target is row.source else row.target.value)
            before = seen.setdefault((row.source, row.event), [])
            if row.guard is not None:
                assert tuple(before) == row.guard.earlier
                before.append(row.guard.name)
    assert not rows


def test_path_of_a_run_is_counted() -> None:
    """A painted path names what was taken with its counts, mutes the rest, and says how much it was."""
    _, _, driven = run("next-turn")
    paint = counted((*driven.taken, "stale"))
    assert paint.counts["run_started"] == 1
    assert paint.unknown == {"stale": 1}
    text = write_dot(picture(), paint)
    assert f"call_model ×{driven.taken.count('call_model')}" in text
    assert "next_turn ×1" in text
    assert f"a run: {len(driven.taken)} transitions over" in text
    mermaid = write_mermaid(picture(), paint)
    assert "next_turn ×1" in mermaid
    assert "style backing_off fill:#f3f4f6" in mermaid


def test_coverage_names_what_is_missing() -> None:
    """A coverage picture has edges of other colours that name the rows never taken, and says how many were."""
    every = [row.name for row in TABLE.rows]
    whole = write_dot(picture("recovery"), counted(every, Ink.COVERAGE))
    assert not [line for line in whole.splitlines() if " -> " in line and (MISSED in line or PARTLY in line)]
    some = counted([name for name in every if name != "fallback"], Ink.COVERAGE)
    text = write_dot(picture("recovery"), some)
    edge = next(line for line in text.splitlines() if "label=" in line and "fallback" in line.partition("tooltip")[0])
    assert PARTLY in edge
    assert "empty_retry" not in edge.partition("tooltip")[0]
    shown = len(picture("recovery").rows)
    assert f"{shown - 1} of {shown} rows covered" in text


def _edge(text: str, source: str, target: str) -> str:
    """The line of an edge without what is only a hint."""
    (edge,) = [line.partition(", tooltip=")[0] for line in text.splitlines() if line.startswith(f"  {source} -> {target} [")]
    return edge


@pytest.mark.parametrize("name", [MACHINE, "recovery"])
@pytest.mark.parametrize("ink", [Ink.COVERAGE, Ink.WEIGHT])
def test_an_edge_may_be_covered_in_part(name: str, ink: Ink) -> None:
    """Red is an edge of which nothing was taken; one taken in part has a colour of its own, and names only what lacks."""
    counts = {row.name: 7 for row in TABLE.rows if row.name not in ("salvage", "timer_fired", "attempts_exhausted")}
    text = write_dot(picture(name), Paint(ink, counts))
    whole, part, none = (
        _edge(text, *pair)
        for pair in (("deciding", "backing_off"), ("deciding", "running_tools"), ("backing_off", "preparing"))
    )
    assert MISSED not in whole
    assert PARTLY not in whole
    assert PARTLY in part
    assert "salvage\\l" in part
    assert "run_tools" not in part
    assert "×" not in part
    assert MISSED in none
    assert "timer_fired" in none
    for color, words in PAINTED[1:]:
        assert color in text
        assert words in text


def test_an_edge_without_a_name_has_a_number() -> None:
    """On the machine an edge to an ending has no room for names: where rows of it lack, a number leads to their list."""
    counts = {row.name: 7 for row in TABLE.rows if row.name not in ("attempts_exhausted", "max_turns", "aborted_in_tools")}
    text = write_dot(picture(), Paint(Ink.COVERAGE, counts))
    for number, source, target, row in (("1", "deciding", "model_error", "attempts_exhausted"),):
        assert f"<TD>{number}</TD>" in _edge(text, source, target)
        assert re.search(rf"{number}  {source} to {target}, never taken:\\l    {row}", text)
    assert "<TD>" not in write_dot(picture(), counted([row.name for row in TABLE.rows], Ink.COVERAGE))
    assert "<TD>" not in write_dot(picture())
    for arrow in picture().arrows:
        assert all(f"{row.name} ×" in text for row in arrow.rows)


def test_colours_of_a_coverage_mean_nothing_else() -> None:
    """Where colours say what was taken, phases, samples of lines and the frame have none of them, and none of their own."""
    text = write_dot(picture(), counted([], Ink.COVERAGE))
    phases = [line for line in text.splitlines() if re.match(r"\s+(\w+) \[pos=", line) and "fillcolor" in line]
    assert len(phases) == len(Phase) + 4
    usual = {look.color for look in LINES.values()} | {fill.border for fill in BOXES.values()}
    for line in [*phases, *(line for line in text.splitlines() if "  line_" in line and " -> " in line)]:
        assert not [color for color in (*usual, COVERED, PARTLY, MISSED) if color in line and color != LINES[Look.ABORT].color]


def test_rows_that_share_a_reason_are_told() -> None:
    """Nine rows go on for seven reasons; the legend says which row is named unlike its reason."""
    text = write_dot(picture())
    for row in TABLE.rows:
        if row.kind is RowKind.CONTINUE and row.reason is not None and row.reason.value != row.name:
            assert f"{row.name}\\l  goes on by {row.reason}" in text


def test_parts_show_their_part() -> None:
    """The parts hold what their names say, with every row named, and every row but those beside the loop is in one."""
    assert {row.kind for row in picture("ending").rows} == {RowKind.TERMINAL}
    assert {row.event for row in picture("aborts").rows} == {EventKind.ABORT_REQUESTED}
    recovery = write_dot(picture("recovery"))
    for name in ("salvage", "fallback", "retry", "reactive_compact_retry", "collapse_drain_retry", "rate_limited_until"):
        assert f"  {name}\\l" in recovery


def test_unknown_names_are_refused() -> None:
    """An unknown focus or format is an error that lists what there is."""
    with pytest.raises(DiagramError, match="there are: machine, recovery, tools"):
        picture("nonsense")
    with pytest.raises(DiagramError, match="there are: svg, png, dot, mermaid, scxml"):
        draw(MACHINE, "gif")
    assert set(FORMATS) == {"svg", "png", "dot", "mermaid", "scxml"}


def test_a_lack_of_graphviz_is_said_clearly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the program ``dot`` the error says how to install it; text formats need none, and nothing is written."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DiagramError, match="apt-get install graphviz"):
        draw()
    assert main([str(tmp_path / "pictures")]) == 2
    assert "Graphviz is not installed" in capsys.readouterr().err
    with pytest.raises(DiagramError):
        write_all(tmp_path / "pictures")
    assert not (tmp_path / "pictures").exists()
    for fmt in ("dot", "mermaid", "scxml"):
        assert draw(MACHINE, fmt)
    assert stale(REPOSITORY / "diagrams") == ()


def test_what_graphviz_refuses_is_said_clearly() -> None:
    """A text that is no DOT gives an error with Graphviz's words."""
    with pytest.raises(DiagramError, match="syntax error"):
        render_svg("digraph {")
