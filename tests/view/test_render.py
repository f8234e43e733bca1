"""The page as a file: what is in it, and what is not."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from fsm_agent.core.config import LoopConfig
from fsm_agent.core.events import RunStarted
from fsm_agent.core.rows import TABLE
from fsm_agent.core.state import initial
from fsm_agent.core.step import step
from fsm_agent.diagram.model import picture
from fsm_agent.log.fork import fork
from fsm_agent.log.journal import Journal
from fsm_agent.log.reader import read_log
from fsm_agent.log.redact import Redactor
from fsm_agent.log.repair import repair
from fsm_agent.runtime.prompt import user_message
from fsm_agent.scenario import load
from fsm_agent.scenario.drive import drive
from fsm_agent.view import is_view, render_view
from fsm_agent.view.picture import machine_svg
from fsm_agent.view.words import Words, visible

from .logs import Maker, hostile_log, long_log


class _Elements(HTMLParser):
    """Collects the elements of a page and the text of its scripts."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self._script = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._script = (dict(attrs).get("id") or "program") if tag == "script" else ""

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


def parse(html: bytes) -> _Elements:
    """Parse a page."""
    parser = _Elements()
    parser.feed(html.decode())
    return parser


def index_of(html: bytes) -> Any:
    """Give the index of a page."""
    return json.loads(parse(html).scripts["index"])


def test_the_page_stands_alone(tmp_path: Path) -> None:
    """No element loads anything, no attribute is a program, the policy allows one script and one style by their hashes."""
    html = render_view(hostile_log(tmp_path / "a.jsonl")).html
    page = parse(html)
    for tag, attributes in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base"), tag
        assert not [name for name in attributes if name in ("src", "href", "style") or name.startswith("on")], (tag, attributes)
    assert b"http://" not in html.replace(b"http://www.w3.org/2000/svg", b"")
    (policy,) = [attributes["content"] for tag, attributes in page.elements if attributes.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    programs = [name for name, text in page.scripts.items() if text and name == "program"]
    assert programs == ["program"]
    assert is_view(html)


def test_data_cannot_leave_its_element(tmp_path: Path) -> None:
    """Between the tags of a data element there is no less-than sign at all."""
    html = render_view(hostile_log(tmp_path / "a.jsonl")).html.decode()
    pieces = re.findall(r'<script type="application/json" id="[a-z]+(?:-\d+)?">(.*?)</script>', html, re.DOTALL)
    assert len(pieces) >= 3
    assert all("<" not in piece for piece in pieces)
    assert all(json.loads(piece) for piece in pieces)


@pytest.mark.parametrize("name", ["repair", "fallback", "reactive-compact", "collapse-commit", "interrupt-tools", "auth"])
def test_every_step_of_a_run_is_there(tmp_path: Path, name: str) -> None:
    """The page has each record of the log with its rows, and the ending."""
    scenario = load(name)
    driven, state = drive(scenario), initial(scenario.config)
    journal = Journal.create(tmp_path / "a.jsonl", scenario.config, state, "s", "r")
    for event, made in driven.steps:
        journal.append(event, made, sync=False)
        state = made.state
    journal.close(state)
    view = render_view(tmp_path / "a.jsonl")
    index = index_of(view.html)
    assert view.problem == ""
    names = [row[0] for row in index["rows"]]
    assert [[names[row] for row in rows] for rows in index["steps"]["rows"][1:]] == [list(one.taken) for _, one in driven.steps]
    assert index["terminal"]["reason"] == scenario.expect.reason.value
    assert index["steps"]["phase"][-1] == index["phases"].index(scenario.expect.reason.value)


def test_secrets_are_masked(tmp_path: Path) -> None:
    """Shapes of keys, and values that the user names, are nowhere in the page; keys of objects are no exception."""
    key = "sk-ant-" + "a1b2c3d4e5f6g7h8"
    maker = Maker(tmp_path / "a.jsonl", prompt=f"Use {key} and hunter2secret.")
    maker.reply(f"I use {key}.", [("toolu_1", "Read", {"key": key, key: "x"})])
    maker.run_tools(f"the key is {key}")
    maker.finish()
    html = render_view(tmp_path / "a.jsonl").html.decode()
    assert key not in html
    assert "[masked]" in html
    assert "hunter2secret" in html
    assert "hunter2secret" not in render_view(tmp_path / "a.jsonl", mask=Redactor(("hunter2secret",)).mask).html.decode()


def test_a_damaged_log_is_shown_up_to_the_damage(tmp_path: Path) -> None:
    """What stands before a flipped byte is shown, and the page says which record is damaged; a torn tail is told too."""
    log = long_log(tmp_path / "a.jsonl", 60)
    lines = log.read_bytes().splitlines(keepends=True)
    broken = tmp_path / "b.jsonl"
    broken.write_bytes(
        b"".join([*lines[:20], lines[20].replace(b"line1", b"lime1", 1).replace(b'"at":1', b'"at":2', 1), *lines[21:]])
    )
    made = render_view(broken)
    assert made.damaged
    assert made.steps == 19
    assert "record 20" in index_of(made.html)["problem"]
    torn = tmp_path / "c.jsonl"
    torn.write_bytes(b"".join(lines[:30]) + lines[30][:50])
    index = index_of(render_view(torn).html)
    assert index["torn"] is True
    assert index["terminal"] is None


def test_a_log_of_another_table_shows_what_was_recorded(tmp_path: Path) -> None:
    """A log that cannot be folded shows its events, rows and names of effects, and the page says why."""
    config = LoopConfig(model="m")
    path = tmp_path / "a.jsonl"
    journal = Journal.create(path, config, initial(config), "s", "r", table="0" * 64)
    event = RunStarted(run_id="r", messages=(user_message("r/p", "hi"),))
    journal.append(event, step(initial(config), event, config), sync=False)
    journal.release()
    made = render_view(path)
    page = parse(made.html)
    assert "another transition table" in made.problem
    detail = json.loads(page.scripts["steps-0"])[1]
    assert "call_model" in detail["k"]
    assert index_of(made.html)["steps"]["phase"][1] == index_of(made.html)["phases"].index("calling_model")


def test_the_picture_has_every_row_of_the_table() -> None:
    """Each row of the table has its place in the picture, on an edge or at a phase."""
    numbers = {row.name: number for number, row in enumerate(TABLE.rows)}
    svg = machine_svg(numbers)
    placed = {int(number) for text in re.findall(r'data-(?:rows|stays)="([\d ]*)"', svg) for number in text.split()}
    shown = {numbers[row.name] for row in picture().rows}
    assert placed == shown == set(numbers.values())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb‹CR›c"),
        ("\x1b[31m\x00\x07\x9b", "‹ESC›[31m‹NUL›‹BEL›‹U+009B›"),
        ("x\u202ey\u200bz\ufeff", "x‹U+202E›y‹U+200B›z‹U+FEFF›"),
        ("a\ud800b", "a\ufffdb"),
        ("naïve 日本 🎉", "naïve 日本 🎉"),
    ],
)
def test_hidden_characters_are_shown(text: str, shown: str) -> None:
    """Controls, direction marks and zero-width characters are visible, letters of all scripts stay."""
    assert visible(text) == shown


def test_long_texts_are_cut_after_they_are_masked() -> None:
    """A text that is longer than a page holds is cut, says how much is missing, and shows no half of a secret."""
    key = "sk-ant-" + "k" * 40
    words = Words(lambda text: text.replace(key, "[masked]"), longest=100)
    shown = words("x" * 80 + key + "y" * 100)
    assert "k" * 8 not in shown
    assert "more characters" in shown


def test_a_fold_that_differs_only_in_what_it_gives_is_shown(tmp_path: Path) -> None:
    """Where the rows agree and an effect does not, states are shown, with a word on it; where rows differ, not any more."""
    config = LoopConfig(model="m")
    start = RunStarted(run_id="r", messages=(user_message("r/p", "hi"),))
    made = step(initial(config), start, config)
    for name, recorded in (("a", evolve(made, effects=made.effects[:1])), ("b", evolve(made, taken=("run_started",)))):
        journal = Journal.create(tmp_path / name, config, initial(config), "s", "r")
        journal.append(start, recorded, sync=False)
        journal.release()
    same, other = render_view(tmp_path / "a"), render_view(tmp_path / "b")
    assert "took the same rows" in same.problem
    assert json.loads(parse(same.html).scripts["steps-0"])[1]["d"]
    assert "diverges at record 1" in other.problem
    assert "d" not in json.loads(parse(other.html).scripts["steps-0"])[1]


def test_a_repaired_log_shows_its_gap(tmp_path: Path) -> None:
    """Records that a repair took out are named; those behind the gap are shown, with their own numbers."""
    log = long_log(tmp_path / "a.jsonl", 60, words=5)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:20], lines[20].replace(b'"at":1', b'"at":2', 1), *lines[21:]]))
    repair(log)
    made = render_view(log)
    index = index_of(made.html)
    assert "Record 20 is missing" in made.problem
    assert not made.damaged
    numbers = index["steps"]["seq"]
    assert numbers[:21] == [*range(20), 21]
    assert index["terminal"]["reason"] == "completed"


def test_a_run_ends_without_its_closing_line_too(tmp_path: Path) -> None:
    """Where the closing line is torn or missing, the last step says how the run ended; damage is told in sentences."""
    log = long_log(tmp_path / "a.jsonl", 10, words=5)
    whole = index_of(render_view(log).html)["terminal"]
    lines = log.read_bytes().splitlines(keepends=True)
    for rest in (b"", lines[-1][:30]):
        log.write_bytes(b"".join(lines[:-1]) + rest)
        index = index_of(render_view(log).html)
        assert (index["terminal"], index["torn"]) == (whole, bool(rest))
    log.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    made = render_view(log)
    assert made.damaged
    assert made.problem.endswith("removed, moved or replaced.")


def test_a_fork_has_the_prompt_of_its_run(tmp_path: Path) -> None:
    """A fork in the middle of a run is named by the prompt of that run."""
    log = long_log(tmp_path / "a.jsonl", 10, words=5)
    fork(log, 4, tmp_path / "b.jsonl")
    prompts = [index_of(render_view(tmp_path / name).html)["prompt"] for name in ("a.jsonl", "b.jsonl")]
    assert prompts[0] == prompts[1] != ""


def test_a_later_run_of_a_session_begins_with_its_history(tmp_path: Path) -> None:
    """A log that continues another one shows the messages that it began with, and names that log."""
    first = tmp_path / "a.jsonl"
    maker = Maker(first)
    maker.finish("The first answer.")
    fork(first, None, tmp_path / "b.jsonl")
    index = index_of(render_view(tmp_path / "b.jsonl").html)
    assert index["parent"] == f"a.jsonl#{read_log(first).tail.records}"
    assert index["lists"][0][0] == 0
    assert len(index["lists"][0][2]) == 2
